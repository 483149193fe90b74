//! Hosts and paths that differ from the usual: a masked /proc/stat, few descriptors, a long queue.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use testkit::Requirement::{Namespaces, Program};
use testkit::{
    ProcessOutput, Profile, STOCK_NETPERF, Server, TestCase, TestProcess, TwoHosts, linerate_path,
    linerate_with_args, stock_with_args, test_case, wait_until, with_prefix,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The server's address on the first link of [`TwoHosts`].
const SERVER: &str = "198.18.0.2";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let masked = &[Program("unshare"), STOCK_NETPERF, Namespaces];
    let shaped = &[Program("tc"), Namespaces];
    with_prefix(
        "environment",
        vec![
            test_case(
                "masked_proc_stat_is_reported",
                masked,
                masked_proc_stat_is_reported,
            ),
            test_case(
                "soft_descriptor_limit_is_raised",
                &[Program("bash")],
                soft_descriptor_limit_is_raised,
            ),
            test_case(
                "server_without_descriptors_refuses_clients",
                &[Program("bash")],
                server_without_descriptors_refuses_clients,
            ),
            test_case(
                "servers_without_descriptors_report_it",
                &[],
                servers_without_descriptors_report_it,
            ),
            test_case(
                "clients_use_no_more_descriptors_than_their_share",
                &[Program("bash")],
                clients_use_no_more_descriptors_than_their_share,
            ),
            test_case(
                "source_without_a_route_blocks_no_client",
                &[Namespaces],
                source_without_a_route_blocks_no_client,
            ),
            test_case(
                "cancelled_stream_has_the_rate_of_the_line",
                shaped,
                cancelled_rates,
            )
            .allow_many_at_once(),
        ],
    )
    .collect()
}

/// Returns a command that runs linerate with other contents of /proc/stat.
fn with_proc_stat(file: &std::path::Path, arguments: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!(
        "mount --bind {} /proc/stat && exec {} {arguments}",
        file.display(),
        linerate_path().display()
    );
    command.args(["-m", "sh", "-c", &script]);
    command
}

/// Without usable ticks, the CPU figures are -1.00 as in stock's output without `-c` and `-C`, and a
/// warning names the end.
fn masked_proc_stat_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("stat");
    let frozen = fs::read_to_string("/proc/stat").expect("this host has the file");
    let zeros = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n".to_owned();
    for (name, text) in [
        ("empty", String::new()),
        ("zeros", zeros),
        ("frozen", frozen),
    ] {
        fs::write(&file, &text).expect("the directory is writable");
        let server = Server::try_start_with(|port| {
            with_proc_stat(&file, &format!("netserver -D -d -p {port}"))
        });
        let server = server.expect("the server starts");
        let run = |command: &mut Command| {
            let output = TestProcess::start(command).finish(TIMEOUT);
            assert_eq!(
                output.code,
                Some(0),
                "{name}: {output:#?}; {}",
                server.log()
            );
            output
        };
        let target = format!("-H 127.0.0.1 -p {}", server.port);
        // Ticks that stand still are noticed in a test that lasts.
        let length = if name == "frozen" { "1" } else { "-1000" };
        for test in ["TCP_RR", "TCP_STREAM", "TCP_CC"] {
            let line = format!("{target} -t {test} -c -C -l {length} -P 0");
            let output = run(&mut linerate_with_args(&format!("netperf {line}")));
            assert!(
                output.stdout.contains(" -1.00 "),
                "{name} {test}: {output:#?}"
            );
            let warning = "did not apply CPU time measurement";
            assert!(
                output.stderr.contains(warning),
                "{name} {test}: {output:#?}"
            );
            let output = run(&mut stock_with_args("netperf", &line));
            // With a frozen file, the server notices only at the end of the test.
            let is_unavailable = output.stdout.contains(" -1.00 ") || name == "frozen";
            assert!(is_unavailable, "{name} {test}: {output:#?}");
        }

        let line = format!("netperf {target} -t TCP_RR -c -l {length} -P 0");
        let output = run(&mut with_proc_stat(&file, &line));
        assert!(output.stdout.contains(" -1.00 "), "{name}: {output:#?}");
        let warning = "did not apply CPU time measurement: /proc/stat is unavailable or masked";
        assert!(output.stderr.contains(warning), "{name}: {output:#?}");
    }
}

/// Returns a command that runs linerate after these commands of a shell, such as `ulimit`.
fn with_descriptor_limit(setup: &str, arguments: &str) -> Command {
    let mut command = Command::new("bash");
    let program = linerate_path();
    let script = format!("{setup}; exec {} {arguments}", program.display());
    command.args(["-c", &script]);
    command
}

fn soft_descriptor_limit_is_raised() {
    let server = Server::start("");
    let target = format!("-H 127.0.0.1 -p {}", server.port);
    for line in [
        format!("netperf {target} -t TCP_RR -l 1 -P 0 --parallel 60"),
        format!(
            "run 127.0.0.1 --port {} -t TCP_RR -l 1s --parallel 60",
            server.port
        ),
    ] {
        let mut command = with_descriptor_limit("ulimit -Sn 40", &line);
        TestProcess::start(&mut command)
            .finish(TIMEOUT)
            .assert_success();
    }
}

/// A server whose descriptors are all in use logs that, and its clients get the error EMFILE: if the
/// budget leaves no descriptor for the session or for its test, and if accept(2) fails.
fn server_without_descriptors_refuses_clients() {
    // The budget is half of the limit. One address gets 15/16 of it: 30.
    const LIMIT: &str = "ulimit -n 64";
    // Inherited descriptors are not part of the budget.
    const INHERIT: &str = "for fd in {10..49}; do eval \"exec $fd</dev/null\"; done; ulimit -n 64";
    for (setup, connections, line) in [
        (
            LIMIT,
            80,
            "refused a client: not enough descriptors: 1 requested, 0 left for one address",
        ),
        (
            LIMIT,
            29,
            "refused a test: not enough descriptors: 2 requested, 0 left for one address",
        ),
        (
            INHERIT,
            80,
            "cannot accept a connection: Too many open files",
        ),
    ] {
        let server = Server::try_start_with(|port| {
            with_descriptor_limit(setup, &format!("netserver -D -p {port}"))
        });
        let server = server.expect("the server starts");
        let connect = || {
            std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens")
        };
        let clients: Vec<_> = (0..connections).map(|_| connect()).collect();
        let target = format!("netperf -H 127.0.0.1 -p {} -t TCP_RR -l 1", server.port);
        let run = || TestProcess::start(&mut linerate_with_args(&target)).finish(TIMEOUT);
        let output = run();
        assert_ne!(output.code, Some(0), "{line}: {output:#?}");
        let reason = "Too many open files";
        assert!(output.stderr.contains(reason), "{line}: {output:#?}");
        let is_logged = || server.stderr().contains(line);
        assert!(
            wait_until(TIMEOUT, is_logged),
            "{line}: {}",
            server.stderr()
        );
        drop(clients);
        let is_served = || run().code == Some(0);
        assert!(
            wait_until(TIMEOUT, is_served),
            "{line}: {}",
            server.stderr()
        );
    }
}

/// A server of each dialect whose descriptors run out while it serves logs that. It reports it to the
/// client if the protocol has an error for it, and serves again when there are descriptors.
fn servers_without_descriptors_report_it() {
    const MESSAGE: &str = "Too many open files";
    let directory = tempfile::tempdir().expect("a directory");
    let profile = directory.path().join("profile.xml");
    let text = Profile::requests().text().replace("$h", "127.0.0.1");
    fs::write(&profile, text).expect("the directory is writable");
    // The client's message, if it gets one. PORT is the server's port.
    for (server, client, expected) in [
        (
            "netserver -D -p PORT",
            "netperf -H 127.0.0.1 -p PORT -t TCP_RR -l -10".to_owned(),
            Some(MESSAGE),
        ),
        (
            "iperf3 -s -p PORT",
            "iperf3 -c 127.0.0.1 -p PORT -n 1K".to_owned(),
            Some("the server is busy"),
        ),
        (
            "uperf -s -P PORT",
            format!("uperf -m {} -P PORT", profile.display()),
            Some(MESSAGE),
        ),
        (
            "iperf -s -p PORT",
            "iperf -c 127.0.0.1 -p PORT -n 1K".to_owned(),
            None,
        ),
        (
            "iperf -s -u -p PORT",
            "iperf -u -c 127.0.0.1 -p PORT -t 1".to_owned(),
            None,
        ),
        (
            "udpmon_resp -u PORT",
            "udpmon_req -d 127.0.0.1 -u PORT -l 1".to_owned(),
            None,
        ),
    ] {
        let start = |port: u16| server.replace("PORT", &port.to_string());
        let server = Server::start_with(start);
        let line = client.replace("PORT", &server.port.to_string());
        server.settled_usage();
        limit_descriptors(&server, Some(lowest_free_descriptor(&server)));
        let refused = TestProcess::start(&mut linerate_with_args(&line));
        let is_logged = || server.log().contains(MESSAGE);
        assert!(wait_until(TIMEOUT, is_logged), "{line}: {}", server.log());
        if let Some(expected) = expected {
            let output = refused.finish(TIMEOUT);
            assert_ne!(output.code, Some(0), "{line}: {output:#?}");
            let text = output.stdout.clone() + &output.stderr;
            assert!(text.contains(expected), "{line}: {output:#?}");
        } else {
            refused.signal(Signal::KILL);
            refused.finish(TIMEOUT);
        }
        limit_descriptors(&server, None);
        let is_served = || {
            let output = TestProcess::start(&mut linerate_with_args(&line)).finish(TIMEOUT);
            output.code == Some(0)
        };
        assert!(wait_until(TIMEOUT, is_served), "{line}: {}", server.log());
    }
}

/// Each test is charged for all its descriptors. So one address leaves some to others.
fn clients_use_no_more_descriptors_than_their_share() {
    // The budget is 64, and one address gets 60 of them.
    const LIMIT: &str = "ulimit -n 128";
    const SHARE: usize = 60;
    for (server, client, clients, max) in [
        ("iperf -s -p PORT", "iperf -P 40", 1, SHARE),
        ("iperf -s -p PORT", "iperf -P 40 -R", 1, SHARE),
        ("iperf -s -p PORT", "iperf -P 40 --full-duplex", 1, SHARE),
        ("iperf -s -p PORT", "iperf --bounceback", 40, SHARE),
        ("iperf -s -u -p PORT", "iperf -u -P 60", 1, SHARE),
        ("iperf -s -u -p PORT", "iperf -u -P 60 -R", 1, SHARE),
        (
            "iperf -s -u -p PORT",
            "iperf -u -P 60 --full-duplex",
            1,
            SHARE,
        ),
        ("iperf3 -s -p PORT", "iperf3 -P 30", 1, 31),
        ("iperf3 -s -p PORT", "iperf3 -P 15 --bidir", 1, 31),
        ("iperf3 -s -p PORT", "iperf3 -u -P 30", 1, 31),
        ("netserver -D -p PORT", "netperf -t TCP_STREAM", 25, SHARE),
        ("netserver -D -p PORT", "netperf -t UDP_RR", 25, SHARE),
        ("netserver -D -p PORT", "netperf -t TCP_CRR", 25, SHARE),
    ] {
        let server = Server::try_start_with(|port| {
            with_descriptor_limit(LIMIT, &server.replace("PORT", &port.to_string()))
        });
        let server = server.expect("the server starts");
        let used = || used_descriptors(&server).len();
        let idle = used();
        let options = match client.split_once(' ') {
            Some(("netperf", _)) => "-H 127.0.0.1 -l 20 -b 1 -w 100",
            _ if client.contains("bounceback") => "-c 127.0.0.1 -t 20",
            _ => "-c 127.0.0.1 -t 20 -b 80k -l 1000",
        };
        let line = format!("{client} {options} -p {}", server.port);
        let start = || TestProcess::start(&mut linerate_with_args(&line));
        let clients: Vec<_> = (0..clients).map(|_| start()).collect();
        let in_use = || used().saturating_sub(idle);
        let has_many = wait_until(TIMEOUT, || in_use() >= SHARE / 3);
        assert!(has_many, "{line}: {}", server.log());
        // Waiting connections, which will be refused, come on top for a short time.
        let is_within_share = || {
            std::thread::sleep(Duration::from_millis(300));
            in_use() <= max
        };
        let what = || format!("{line}: {} descriptors", in_use());
        assert!(wait_until(TIMEOUT / 6, is_within_share), "{}", what());
        for client in clients {
            client.signal(Signal::KILL);
            client.finish(TIMEOUT);
        }
    }
}

/// A server of datagrams drops those of a source that it cannot answer. They do not wait in front of
/// the next client's.
fn source_without_a_route_blocks_no_client() {
    const SOURCE: &str = "203.0.113.5";
    let hosts = TwoHosts::new();
    hosts.client.ip(&format!("address add {SOURCE}/32 dev lo"));
    hosts.server.enter(|| {
        // Otherwise the kernel drops the datagrams.
        for name in ["all", "eth0"] {
            let file = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
            fs::write(file, "0").expect("root can change the namespace");
        }
    });
    let server =
        (hosts.server).enter(|| Server::start_with(|port| format!("iperf -s -u -p {port}")));
    hosts.client.enter(|| {
        let stranger = UdpSocket::bind((SOURCE, 0)).expect("the host has the address");
        for number in 1..=2_u32 {
            let mut datagram = [0; 100];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            let sent = stranger.send_to(&datagram, (SERVER, server.port));
            sent.expect("the network is up");
        }
        let is_logged = || {
            server
                .log()
                .contains("cannot accept a client: Network is unreachable")
        };
        assert!(wait_until(TIMEOUT, is_logged), "{}", server.log());
        let line = format!("iperf -u -c {SERVER} -p {} -n 10K", server.port);
        let client = TestProcess::start(&mut linerate_with_args(&line));
        client.finish(TIMEOUT).assert_success();
    });
}

/// Returns the numbers of a server's descriptors.
fn used_descriptors(server: &Server) -> Vec<u64> {
    let directory = format!("/proc/{}/fd", server.pid());
    let entries = fs::read_dir(directory).expect("the server is running");
    let numbers = entries.flatten().map(|entry| entry.file_name());
    numbers
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// Returns the number of the next descriptor that a server would open.
fn lowest_free_descriptor(server: &Server) -> u64 {
    let used = used_descriptors(server);
    (0..=used.len() as u64)
        .find(|number| !used.contains(number))
        .unwrap_or(0)
}

/// Sets the limit of a server's descriptors; `None` is the limit that the server has raised it to.
fn limit_descriptors(server: &Server, limit: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: limit.or(maximum),
        maximum,
    };
    let process = Pid::from_raw(server.pid() as i32);
    prlimit(process, Resource::Nofile, limit).expect("the server is running");
}

/// Returns the bytes that this host has sent over the first link.
fn sent_bytes() -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/dev").expect("the kernel has a network");
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"));
    let sent = line.and_then(|line| line.split_whitespace().nth(8));
    sent.and_then(|bytes| bytes.parse().ok())
        .expect("the host has the link")
}

/// The peer counts the data that is in the queues when a signal ends a test. Its rate includes the
/// time in which this data arrives. A queue of over 1 s does not lose the results.
fn cancelled_rates() {
    let hosts = TwoHosts::new();
    // 3 MB are 2.4 s.
    let tc = "tc qdisc add dev eth0 root tbf rate 10mbit burst 16kb limit 3mb";
    hosts.client.run(tc).expect("tc sets the queue");
    let server = hosts.server.enter(|| Server::start(""));
    // Megabits per second of payload: 1,448 bytes per 1,514 and 1,000 per 1,042.
    // The burst of the queue is 16 KB of about 3 MB. In a UDP test, the server's clock starts when it
    // reads the first datagram, which is late on a busy machine. Without the time in which the queue
    // empties, the rate would be about twice the line's.
    for (test, signal, options, line_rate, tolerance) in [
        ("TCP_STREAM", Signal::ALARM, "-s 4M", 9.57, 1.01),
        ("TCP_STREAM", Signal::INT, "", 9.57, 1.01),
        ("UDP_STREAM", Signal::INT, "-R 1 -m 1000", 9.6, 1.25),
    ] {
        let line = format!(
            "netperf -H {SERVER} -p {} -t {test} -l 30 -P 0 -- {options} -k THROUGHPUT",
            server.port
        );
        let output: ProcessOutput = hosts.client.enter(|| {
            let before = sent_bytes();
            let client = TestProcess::start(&mut linerate_with_args(&line));
            // Meanwhile, the queue fills.
            let is_sent = |bytes| wait_until(TIMEOUT, || sent_bytes() > bytes);
            assert!(is_sent(before + 3_000_000), "{}", server.log());
            client.signal(signal);
            client.finish(TIMEOUT)
        });
        assert_eq!(
            output.code,
            Some(0),
            "{test}: {output:#?}; {}",
            server.log()
        );
        let rate = output
            .stdout
            .trim()
            .trim_start_matches("THROUGHPUT=")
            .parse::<f64>();
        let rate = rate.unwrap_or_else(|_| panic!("{output:#?}"));
        let bounds = 1.0..line_rate * tolerance;
        assert!(
            bounds.contains(&rate),
            "{test}: {rate} of {line_rate}: {output:#?}"
        );
    }
}
