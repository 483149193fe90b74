//! The resource budget of a process, here with few memory mappings and so with few threads, or with
//! few descriptors.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{TestCase, TestProcess, linerate_path, linerate_with_args, test_case, wait_until};

use super::{Serving, TIMEOUT};

/// `vm.max_map_count` of the server. It allows 547 threads, and 513 to one address.
const SERVER_MAPS: u32 = 4500;

/// `vm.max_map_count` of the clients. It allows 130 threads.
const CLIENT_MAPS: u32 = 2000;

pub(super) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "leaves_threads_to_other_addresses",
            &[Namespaces],
            leaves_threads_to_other_addresses,
        ),
        test_case(
            "unproven_flows_leave_descriptors_to_others",
            &[Namespaces],
            unproven_flows_leave_descriptors_to_others,
        ),
        test_case(
            "clients_refuse_more_threads_than_the_system_allows",
            &[Namespaces],
            clients_refuse_more_threads_than_the_system_allows,
        ),
    ]
}

/// Returns the program with these arguments in a mount namespace with this `vm.max_map_count`.
fn limited(max_maps: u32, line: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = "file=$(mktemp) && echo \"$1\" >\"$file\" && shift \
        && mount --bind \"$file\" /proc/sys/vm/max_map_count && rm \"$file\" && exec \"$@\"";
    command.args(["-m", "sh", "-c", script]);
    command.args(["sh", &max_maps.to_string()]);
    command.arg(linerate_path()).args(line.split_whitespace());
    command
}

fn leaves_threads_to_other_addresses() {
    let serving = Serving::start_as("", |line| limited(SERVER_MAPS, line));
    assert!(
        serving.server.stderr().contains("resources: 547 threads"),
        "{}",
        serving.server.stderr()
    );
    let many_streams = || {
        let line = "iperf3 -c 127.0.0.1 -B 127.0.0.2 -P 128 --bidir -b 8K -l 1K -t 60";
        TestProcess::start(&mut linerate_with_args(line))
    };
    let first = many_streams();
    let is_running = || serving.running_tests().len() == 1;
    assert!(wait_until(TIMEOUT, is_running), "{}", first.stderr());
    let refused = many_streams().finish(TIMEOUT);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let busy = "the server is busy running a test";
    assert!(refused.stderr.contains(busy), "{refused:?}");
    let reason = "not enough threads: 256 requested";
    // The server answers first and logs then.
    let is_logged = || serving.server.stderr().contains(reason);
    assert!(
        wait_until(TIMEOUT, is_logged),
        "{}",
        serving.server.stderr()
    );
    serving.assert_serves();
    first.signal(rustix::process::Signal::INT);
    first.finish(TIMEOUT);
    serving.await_idle(TIMEOUT);
    many_streams_end(&serving);
}

/// Checks that the threads of ended tests are free again.
fn many_streams_end(serving: &Serving) {
    let line = "iperf3 -c 127.0.0.1 -B 127.0.0.2 -P 128 --bidir -b 8K -l 1K -t 1";
    let ended = testkit::run(linerate_with_args(line), TIMEOUT).expect("the program ends");
    ended.assert_success();
    serving.await_idle(TIMEOUT);
}

/// New flows of two datagrams take each descriptor that becomes free. A client that sends on has a
/// slot whose descriptors they cannot take.
fn unproven_flows_leave_descriptors_to_others() {
    let serving = Serving::start_as("", |line| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 4096 && exec \"$@\"", "sh"]);
        command.arg(linerate_path()).args(line.split_whitespace());
        command
    });
    // The number of an old client, and its send time.
    let datagram: Vec<u8> = [[0, 0, 0, 1], [0, 0, 0, 7], [0, 0, 0, 8]].concat();
    let is_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than the client's tests, and limited in case one of them fails.
            for network in (0..=u8::MAX).cycle().take(60_000) {
                if is_ended.load(Relaxed) {
                    return;
                }
                let source = UdpSocket::bind((Ipv4Addr::new(127, 9, network, 1), 0)).unwrap();
                for _ in 0..2 {
                    let _ = source.send_to(&datagram, (Ipv4Addr::LOCALHOST, 5001));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let is_full = || serving.running_tests().len() > 3;
        let was_full = wait_until(TIMEOUT, is_full);
        let served = (0..5).filter(|_| {
            let line = "iperf -c 127.0.0.1 -u -b 1M -t 1";
            let output = testkit::run(linerate_with_args(line), TIMEOUT).expect("it ends");
            output.stdout.contains("Server Report")
        });
        let served = served.count();
        is_ended.store(true, Relaxed);
        assert!(was_full && served > 3, "{served} of 5");
    });
}

fn clients_refuse_more_threads_than_the_system_allows() {
    let serving = Serving::start("");
    let profile = serving.path().join("threads.xml");
    let text = r#"<?xml version="1.0"?><profile name="threads"><group nthreads="200">
        <transaction iterations="1"><flowop type="think" options="duration=1ms"/></transaction>
        </group></profile>"#;
    std::fs::write(&profile, text).expect("the file is new");
    for line in [
        "iperf -c 127.0.0.1 -P 200 -t 1".to_owned(),
        format!("uperf -m {}", profile.display()),
        "netperf -H 127.0.0.1 -l 1 --parallel 200".to_owned(),
    ] {
        let ended =
            testkit::run(limited(CLIENT_MAPS, &line), Duration::from_secs(60)).expect("it ends");
        assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
        let lines: Vec<_> = ended.stderr.lines().collect();
        assert!(
            lines.iter().any(|line| line.contains("not enough threads")),
            "{line}: {ended:?}"
        );
    }
}
