//! Settings that the system refuses: each is reported, at either end.

use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use testkit::{
    Implementation, NetperfPrograms, ProcessOutput, Role, STOCK_NETPERF, Server, TestCase,
    linerate_with_args, run,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![what_the_system_refuses_is_a_doubt];
    test_cases.extend(
        testkit::test_cases![needing &[STOCK_NETPERF]; what_a_stock_server_refuses_is_a_doubt],
    );
    test_cases
}

const LIMIT: Duration = Duration::from_secs(60);

/// A CPU that no machine has.
const NO_CPU: &str = "65000";

fn what_the_system_refuses_is_a_doubt() {
    let server = Server::try_start_with(|port| {
        without_privilege(&linerate_with_args(&format!("netserver -D -p {port}")))
    })
    .unwrap();
    for test in ["TCP_STREAM", "TCP_CRR", "UDP_STREAM"] {
        for (global, own, said) in [
            (
                "-y 7",
                "",
                "this host did not take SO_PRIORITY 7: Operation not permitted",
            ),
            (
                "-y ,7",
                "",
                "the peer did not take SO_PRIORITY 7: Operation not permitted",
            ),
            (
                &format!("-T {NO_CPU},"),
                "",
                &format!("this host did not take CPU {NO_CPU}: Invalid argument"),
            ),
            (
                &format!("-T ,{NO_CPU}"),
                "",
                &format!("the peer did not take CPU {NO_CPU}: Invalid argument"),
            ),
            (
                "",
                "-K nosuch,",
                "this host did not take TCP_CONGESTION nosuch: No such file or directory",
            ),
            (
                "",
                "-K ,nosuch",
                "the peer did not take TCP_CONGESTION nosuch: not loaded (netserver --allow-modules)",
            ),
            (
                "-Y 0xff,",
                "",
                "this host did not take IP_TOS 0xff (in force: 0xfc)",
            ),
            (
                "-Y ,0xff",
                "",
                "the peer did not take IP_TOS 0xff (in force: 0xfc)",
            ),
        ] {
            let of_tcp = own.contains("-K") || global.contains("-Y");
            if of_tcp && test == "UDP_STREAM" {
                continue;
            }
            let ended = client(&server, test, global, own);
            let line = format!("netperf: {said}");
            let is_reported = ended.stderr.lines().any(|found| found == line);
            assert!(is_reported, "{test}: {line}\n{ended:?}");
            let strict = client(&server, test, &format!("--strict {global}"), own);
            assert_eq!((ended.code, strict.code), (Some(0), Some(3)), "{strict:?}");
        }
    }
}

/// A stock server has a number for it, and no reason.
fn what_a_stock_server_refuses_is_a_doubt() {
    let server = Server::try_start_with(|port| {
        let mut stock = NetperfPrograms::new().command(Implementation::Stock, Role::Server);
        stock.args(["-D", "-p", &port.to_string()]);
        without_privilege(&stock)
    })
    .unwrap();
    for (global, own, said) in [
        ("-y ,7", "", "the peer did not take SO_PRIORITY 7"),
        (
            "-Y ,0xff",
            "",
            "the peer did not take IP_TOS 0xff (in force: 0xfc)",
        ),
        (
            "",
            "-K ,nosuch",
            "the peer did not take TCP_CONGESTION nosuch (in force: ",
        ),
    ] {
        let ended = client(&server, "TCP_STREAM", global, own);
        let line = format!("netperf: {said}");
        let is_reported = ended.stderr.lines().any(|found| found.starts_with(&line));
        assert!(is_reported, "{line}\n{ended:?}");
    }
}

fn client(server: &Server, test: &str, global: &str, own: &str) -> ProcessOutput {
    let amount = if test == "TCP_CRR" { "-20" } else { "-2M" };
    let at = format!("-H 127.0.0.1 -p {} -P 0 -l {amount}", server.port);
    let line = format!("netperf {at} -t {test} {global} -- -R 1 {own}");
    run(without_privilege(&linerate_with_args(&line)), LIMIT).unwrap()
}

/// The command without the right to set what concerns others, if this process has it.
fn without_privilege(command: &Command) -> Command {
    let mut bounded = if geteuid().is_root() {
        let mut bounded = Command::new("setpriv");
        bounded
            .args(["--bounding-set", "-net_admin,-net_raw"])
            .arg(command.get_program());
        bounded
    } else {
        Command::new(command.get_program())
    };
    bounded.args(command.get_args());
    for (key, value) in command.get_envs() {
        bounded.env(key, value.unwrap_or_default());
    }
    bounded
}
