//! The system calls of options: each option makes its calls at its own end, and none at the other
//! end.

use std::collections::HashMap;

use testkit::Requirement::Namespaces;
use testkit::{Namespace, Server, TestCase, test_case};

use super::trace::{Call, STRACE, Traces, trace_netperf};
use super::{TIMEOUT, run_client, start_client};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("calls_of_options", &[STRACE, Namespaces], || {
            // Requested ports stay in use for a while after each test.
            Namespace::new().enter(calls_of_options);
        }),
        test_case("retried_connects", &[Namespaces], retried_connects),
        test_case(
            "proof_of_the_data_connection",
            &[STRACE],
            proof_of_the_data_connection,
        ),
    ]
}

/// Options, the test to add them to, and parts of calls. With the options, more calls of the client
/// (third field) and of the server (fourth field) contain these parts. The parts omit the
/// descriptor.
pub(super) type Case = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const STREAM: &str = "-t TCP_STREAM -l -5000 --";
/// Lacks the `--` that ends the global options.
const GLOBAL: &str = "-t TCP_RR -l -5";
const RR: &str = "-t TCP_RR -l -5 --";
const DATAGRAMS: &str = "-t UDP_RR -l -5 --";
const SENDFILE: &str = "-t TCP_SENDFILE -l -7000 --";
const CLOSE: &str = "-t TCP_CC -l -5 --";

const CONNECT: &str = "connect({sa_family=AF_INET";
const NO_DELAY: &str = "setsockopt(SOL_TCP, TCP_NODELAY, [1]";
const CORK: &str = "setsockopt(SOL_TCP, TCP_CORK, [1]";
const DEFER_ACCEPT: &str = "setsockopt(SOL_TCP, TCP_DEFER_ACCEPT, ";
const FAST_OPEN: [&str; 2] = [
    "setsockopt(SOL_TCP, TCP_FASTOPEN_CONNECT, [1]",
    "setsockopt(SOL_TCP, TCP_FASTOPEN, ",
];
const DO_NOT_FRAGMENT: &str = "setsockopt(SOL_IP, IP_MTU_DISCOVER, [2]";
const SEGMENT: &str = "setsockopt(SOL_TCP, TCP_MAXSEG, [1000]";
const DEBUG: &str = "setsockopt(SOL_SOCKET, SO_DEBUG, [1]";
const DONT_ROUTE: &str = "setsockopt(SOL_SOCKET, SO_DONTROUTE, [1]";
const FIVE_SECONDS: &str = "{tv_sec=5,";
const MULTICAST: &str = "setsockopt(SOL_IP, IP_MULTICAST_TTL, [4]";
const BUFFERS: &[&str] = &[
    "setsockopt(SOL_SOCKET, SO_SNDBUF, [20000]",
    "setsockopt(SOL_SOCKET, SO_RCVBUF, [30000]",
];
/// A server's accept4(2) shows the client's address.
const ADDRESS_3: &str = "inet_addr(\"127.0.0.3\")";
const PORT_20000: &str = "bind({sa_family=AF_INET, sin_port=htons(20000)";

/// interop/variants.rs checks the algorithms of `-K`.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("-a", RR, &[], &[DEFER_ACCEPT]),
    ("-c", "-t OMNI -l -5 -- -d rr", &[CONNECT], &["accept4("]),
    ("-C", STREAM, &[CORK], &[]),
    ("-C", SENDFILE, &[CORK], &[]),
    ("-D", RR, &[NO_DELAY], &[NO_DELAY]),
    ("-D", SENDFILE, &[NO_DELAY], &[NO_DELAY]),
    ("-e 5", DATAGRAMS, &[FIVE_SECONDS], &[]),
    ("-f", RR, &[DO_NOT_FRAGMENT], &[DO_NOT_FRAGMENT]),
    ("-f", DATAGRAMS, &[DO_NOT_FRAGMENT], &[DO_NOT_FRAGMENT]),
    ("-F", RR, &[FAST_OPEN[0]], &[FAST_OPEN[1]]),
    ("-g", RR, &[DEBUG], &[]),
    ("-G 1000", STREAM, &[SEGMENT], &[]),
    ("-H 127.0.0.3", RR, &[ADDRESS_3], &[ADDRESS_3]),
    ("-H 127.0.0.3", SENDFILE, &[ADDRESS_3], &[]),
    ("-I", STREAM, &["write(\"netperf"], &[]),
    ("-l 4", DATAGRAMS, &[MULTICAST], &[]),
    ("-L 127.0.0.3", GLOBAL, &[ADDRESS_3], &[ADDRESS_3]),
    ("-L 127.0.0.3", RR, &[ADDRESS_3], &[ADDRESS_3]),
    ("-L 127.0.0.3", SENDFILE, &[ADDRESS_3], &[ADDRESS_3]),
    ("-m 700", STREAM, &[", 700, "], &[]),
    ("-m 700", SENDFILE, &[", 700)"], &[]),
    ("-M 500", STREAM, &[], &[", 500, "]),
    ("-M 500", SENDFILE, &[], &[", 500, "]),
    ("-n", DATAGRAMS, &[CONNECT], &[]),
    ("-p ,22526", GLOBAL, &["htons(22526)"], &["htons(22526)"]),
    ("-p 20000,20001", CLOSE, &[PORT_20000], &[]),
    ("-P 22524,22525", RR, &["htons(22524)", "htons(22525)"], &["htons(22524)", "htons(22525)"]),
    ("-P 22534,22535", SENDFILE, &["htons(22534)", "htons(22535)"], &["htons(22534)", "htons(22535)"]),
    ("-r 700,500", RR, &[", 700, ", ", 500, "], &[", 700, ", ", 500, "]),
    ("-R 0", RR, &[DONT_ROUTE], &[DONT_ROUTE]),
    ("-R 0", SENDFILE, &[DONT_ROUTE], &[]),
    ("-s 20000,30000", RR, BUFFERS, &[]),
    ("-s 20000,30000", SENDFILE, BUFFERS, &[]),
    ("-S 20000,30000", RR, &[], BUFFERS),
    ("-S 20000,30000", CLOSE, &[], BUFFERS),
    ("-V", STREAM, &[], &["splice("]),
];

fn calls_of_options() {
    compare_calls(CASES, |line| {
        trace_netperf("-e trace=network,write,splice,sendfile", "", line)
    });
}

/// Runs each case's test with and without its options, and compares the calls.
pub(super) fn compare_calls(cases: &[Case], run: impl Fn(&str) -> Traces) {
    let mut baselines = HashMap::new();
    let mut failures = Vec::new();
    for &(options, test, client_parts, server_parts) in cases {
        let baseline: &Traces = baselines.entry(test).or_insert_with(|| run(test));
        let traces = run(&format!("{test} {options}"));
        for (end, parts, other_parts, baseline, calls) in [
            (
                "client",
                client_parts,
                server_parts,
                &baseline.client,
                &traces.client,
            ),
            (
                "server",
                server_parts,
                client_parts,
                &baseline.server,
                &traces.server,
            ),
        ] {
            for part in parts.iter().chain(other_parts) {
                let (baseline_count, count) =
                    (count_calls(baseline, part), count_calls(calls, part));
                let is_expected = if parts.contains(part) {
                    count > baseline_count
                } else {
                    count == baseline_count
                };
                if !is_expected {
                    failures.push(format!(
                        "{test} {options}, {end}: {part}: {count} calls, {baseline_count} without the options"
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the number of calls that contain `part`.
fn count_calls(calls: &[Call], part: &str) -> usize {
    calls
        .iter()
        .filter(|call| call_text(call).contains(part))
        .count()
}

/// Returns a call without its first argument, the descriptor.
pub(super) fn call_text(call: &Call) -> String {
    let arguments = call.arguments.get(1..).unwrap_or_default();
    let text = format!("{}({})", call.name, arguments.join(", "));
    // Some versions of strace show a time as its bytes.
    text.replace("\"\\5\\0\\0\\0\\0\\0\\0\\0", "{tv_sec=5,")
}

/// A routing rule prohibits some local ports. Without `-U` the test fails. With `-U` it tries the
/// next port.
fn retried_connects() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        for line in [
            "rule add pref 10 lookup local",
            "rule del pref 0",
            "rule add pref 5 ipproto tcp sport 20000-20009 prohibit",
        ] {
            super::run_ip(line);
        }
        let test = "-t TCP_CRR -l -30 -P 0 -v 0";
        let refused = start_client(&server, &format!("{test} -- -p 20000,20020")).finish(TIMEOUT);
        assert_ne!(refused.code, Some(0), "{refused:#?}");
        run_client(&server, &format!("{test} -- -p 20000,20020 -U"));
    });
}

/// The client sends the nonce with one call: in one segment with the first request, or on a
/// separate connection before the measured connections.
fn proof_of_the_data_connection() {
    for (line, flags, expected_connects) in [
        (RR, "MSG_NOSIGNAL|MSG_MORE", 2),
        ("-t TCP_MAERTS -l -5000 --", "MSG_NOSIGNAL", 2),
        ("-t TCP_CRR -l -5 --", "MSG_NOSIGNAL", 2 + 5),
        ("-t TCP_RR -l -5 -- -F", "MSG_NOSIGNAL", 3),
    ] {
        let calls = trace_netperf("-e trace=connect,sendto,recvfrom", "", line);
        let is_nonce_sent = |call: &&Call| call.name == "sendto" && call.result == "16";
        let sends: Vec<_> = calls.client.iter().filter(is_nonce_sent).collect();
        let [send] = sends[..] else {
            panic!("{line}: {sends:#?}");
        };
        assert!(
            send.arguments.contains(&flags.to_owned()),
            "{line}: {send:?}"
        );
        let connects = calls.client.iter().filter(|call| call.name == "connect");
        assert_eq!(connects.count(), expected_connects, "{line}");
        let is_nonce_received = |call: &&Call| call.name == "recvfrom" && call.result == "16";
        assert_eq!(
            calls.server.iter().filter(is_nonce_received).count(),
            1,
            "{line}"
        );
    }
    // All connections use the requested local ports.
    for (line, expected_binds) in [
        ("-t TCP_CRR -l -5 -- -p 21000,21010", 1 + 5),
        ("-t TCP_RR -l -5 -- -F -P 21020,21025", 2),
    ] {
        let calls = trace_netperf("-e trace=bind", "", line);
        let ports = calls.client.iter().filter_map(|call| {
            let (_, port) = call.arguments[2].split_once("htons(")?;
            port.trim_end_matches(')').parse::<u16>().ok()
        });
        let ports: Vec<_> = ports.filter(|port| *port != 0).collect();
        assert!(
            ports.iter().all(|port| (21_000..21_030).contains(port)),
            "{line}: {ports:?}"
        );
        assert_eq!(ports.len(), expected_binds, "{line}: {ports:?}");
    }
}
