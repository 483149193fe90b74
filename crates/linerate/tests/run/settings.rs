//! Settings that the system refuses at either end. linerate reports each of them.

use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use testkit::{
    Implementation, NetperfPrograms, ProcessOutput, Role, STOCK_NETPERF, Server, TestCase,
    linerate_with_args, run,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![reports_refused_settings];
    test_cases.extend(
        testkit::test_cases![needing &[STOCK_NETPERF]; reports_settings_refused_by_stock_server],
    );
    test_cases
}

const TIMEOUT: Duration = Duration::from_secs(60);

/// A CPU that no machine has.
const NO_CPU: &str = "65000";

fn reports_refused_settings() {
    let server = Server::try_start_with(|port| {
        without_privilege(&linerate_with_args(&format!("netserver -D -p {port}")))
    })
    .unwrap();
    for test in ["TCP_STREAM", "TCP_CRR", "UDP_STREAM"] {
        for (global_options, test_options, expected) in [
            (
                "-y 7",
                "",
                "this host did not apply SO_PRIORITY 7: Operation not permitted",
            ),
            (
                "-y ,7",
                "",
                "the peer did not apply SO_PRIORITY 7: Operation not permitted",
            ),
            (
                &format!("-T {NO_CPU},"),
                "",
                &format!("this host did not apply CPU {NO_CPU}: Invalid argument"),
            ),
            (
                &format!("-T ,{NO_CPU}"),
                "",
                &format!("the peer did not apply CPU {NO_CPU}: Invalid argument"),
            ),
            (
                "",
                "-K nosuch,",
                "this host did not apply TCP_CONGESTION nosuch: No such file or directory",
            ),
            (
                "",
                "-K ,nosuch",
                "the peer did not apply TCP_CONGESTION nosuch: not loaded (netserver --allow-modules)",
            ),
            (
                "-Y 0xff,",
                "",
                "this host did not apply IP_TOS 0xff (in force: 0xfc)",
            ),
            (
                "-Y ,0xff",
                "",
                "the peer did not apply IP_TOS 0xff (in force: 0xfc)",
            ),
        ] {
            let is_tcp_only = test_options.contains("-K") || global_options.contains("-Y");
            if is_tcp_only && test == "UDP_STREAM" {
                continue;
            }
            let output = run_client(&server, test, global_options, test_options);
            let line = format!("netperf: {expected}");
            let is_reported = output.stderr.lines().any(|reported| reported == line);
            assert!(is_reported, "{test}: {line}\n{output:?}");
            let strict_options = format!("--strict {global_options}");
            let strict = run_client(&server, test, &strict_options, test_options);
            assert_eq!((output.code, strict.code), (Some(0), Some(3)), "{strict:?}");
        }
    }
}

/// A stock server reports an error number without a reason.
fn reports_settings_refused_by_stock_server() {
    let server = Server::try_start_with(|port| {
        let mut stock = NetperfPrograms::new().command(Implementation::Stock, Role::Server);
        stock.args(["-D", "-p", &port.to_string()]);
        without_privilege(&stock)
    })
    .unwrap();
    for (global_options, test_options, expected) in [
        ("-y ,7", "", "the peer did not apply SO_PRIORITY 7"),
        (
            "-Y ,0xff",
            "",
            "the peer did not apply IP_TOS 0xff (in force: 0xfc)",
        ),
        (
            "",
            "-K ,nosuch",
            "the peer did not apply TCP_CONGESTION nosuch (in force: ",
        ),
    ] {
        let output = run_client(&server, "TCP_STREAM", global_options, test_options);
        let line = format!("netperf: {expected}");
        let is_reported = output
            .stderr
            .lines()
            .any(|reported| reported.starts_with(&line));
        assert!(is_reported, "{line}\n{output:?}");
    }
}

fn run_client(
    server: &Server,
    test: &str,
    global_options: &str,
    test_options: &str,
) -> ProcessOutput {
    let amount = if test == "TCP_CRR" { "-20" } else { "-2M" };
    let line = format!(
        "netperf -H 127.0.0.1 -p {} -P 0 -l {amount} -t {test} {global_options} -- -R 1 {test_options}",
        server.port
    );
    run(without_privilege(&linerate_with_args(&line)), TIMEOUT).unwrap()
}

/// Returns the command without CAP_NET_ADMIN and CAP_NET_RAW, which root has.
fn without_privilege(command: &Command) -> Command {
    let mut restricted = if geteuid().is_root() {
        let mut restricted = Command::new("setpriv");
        restricted
            .args(["--bounding-set", "-net_admin,-net_raw"])
            .arg(command.get_program());
        restricted
    } else {
        Command::new(command.get_program())
    };
    restricted.args(command.get_args());
    for (key, value) in command.get_envs() {
        restricted.env(key, value.unwrap_or_default());
    }
    restricted
}
