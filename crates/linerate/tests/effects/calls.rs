//! What options make an end ask of the kernel: each has the calls that it is named for, at the end that
//! it is for, and the other end has none of them.

use std::collections::HashMap;

use testkit::Requirement::Namespaces;
use testkit::{Namespace, Server, TestCase, test_case};

use super::trace::{Both, Call, STRACE, both};
use super::{PATIENCE, finish, start};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("calls_of_options", &[STRACE, Namespaces], || {
            // Ports that were asked for are taken for a while.
            Namespace::new().enter(calls_of_options);
        }),
        test_case("retried_connects", &[Namespaces], retried_connects),
        test_case("proof_of_the_data_connection", &[STRACE], proof),
    ]
}

/// Options, the test that they are given to, and parts of calls of which there are more with them than
/// without, here and there. A call's descriptor is left out.
pub(super) type Case = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const STREAM: &str = "-t TCP_STREAM -l -5000 --";
/// Without the end of the global options.
const GLOBAL: &str = "-t TCP_RR -l -5";
const RR: &str = "-t TCP_RR -l -5 --";
const DATAGRAMS: &str = "-t UDP_RR -l -5 --";
const SENDFILE: &str = "-t TCP_SENDFILE -l -7000 --";
const CLOSE: &str = "-t TCP_CC -l -5 --";

const CONNECT: &str = "connect({sa_family=AF_INET";
const NO_DELAY: &str = "setsockopt(SOL_TCP, TCP_NODELAY, [1]";
const CORK: &str = "setsockopt(SOL_TCP, TCP_CORK, [1]";
const DEFER: &str = "setsockopt(SOL_TCP, TCP_DEFER_ACCEPT, ";
const EARLY: [&str; 2] = [
    "setsockopt(SOL_TCP, TCP_FASTOPEN_CONNECT, [1]",
    "setsockopt(SOL_TCP, TCP_FASTOPEN, ",
];
const SEGMENT: &str = "setsockopt(SOL_TCP, TCP_MAXSEG, [1000]";
const DEBUG: &str = "setsockopt(SOL_SOCKET, SO_DEBUG, [1]";
const DONT_ROUTE: &str = "setsockopt(SOL_SOCKET, SO_DONTROUTE, [1]";
const FIVE_SECONDS: &str = "{tv_sec=5,";
const MULTICAST: &str = "setsockopt(SOL_IP, IP_MULTICAST_TTL, [4]";
const BUFFERS: &[&str] = &[
    "setsockopt(SOL_SOCKET, SO_SNDBUF, [20000]",
    "setsockopt(SOL_SOCKET, SO_RCVBUF, [30000]",
];
/// A server's accept4(2) shows where the client's connection comes from.
const AT_3: &str = "inet_addr(\"127.0.0.3\")";
const PORT_20000: &str = "bind({sa_family=AF_INET, sin_port=htons(20000)";

/// The algorithms of `-K` are read back in interop/variants.rs.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("-a", RR, &[], &[DEFER]),
    ("-c", "-t OMNI -l -5 -- -d rr", &[CONNECT], &["accept4("]),
    ("-C", STREAM, &[CORK], &[]),
    ("-C", SENDFILE, &[CORK], &[]),
    ("-D", RR, &[NO_DELAY], &[NO_DELAY]),
    ("-D", SENDFILE, &[NO_DELAY], &[NO_DELAY]),
    ("-e 5", DATAGRAMS, &[FIVE_SECONDS], &[]),
    ("-F", RR, &[EARLY[0]], &[EARLY[1]]),
    ("-g", RR, &[DEBUG], &[]),
    ("-G 1000", STREAM, &[SEGMENT], &[]),
    ("-H 127.0.0.3", RR, &[AT_3], &[AT_3]),
    ("-H 127.0.0.3", SENDFILE, &[AT_3], &[]),
    ("-I", STREAM, &["write(\"netperf"], &[]),
    ("-l 4", DATAGRAMS, &[MULTICAST], &[]),
    ("-L 127.0.0.3", GLOBAL, &[AT_3], &[AT_3]),
    ("-L 127.0.0.3", RR, &[AT_3], &[AT_3]),
    ("-L 127.0.0.3", SENDFILE, &[AT_3], &[AT_3]),
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
    compare(CASES, |line| {
        both("-e trace=network,write,splice,sendfile", "", line)
    });
}

/// Runs each case's test with its options and without.
pub(super) fn compare(cases: &[Case], run: impl Fn(&str) -> Both) {
    let mut without = HashMap::new();
    let mut wrong = Vec::new();
    for &(options, test, here, there) in cases {
        let plain: &Both = without.entry(test).or_insert_with(|| run(test));
        let with = run(&format!("{test} {options}"));
        for (end, parts, others, plain, with) in [
            ("here", here, there, &plain.client, &with.client),
            ("there", there, here, &plain.server, &with.server),
        ] {
            for part in parts.iter().chain(others) {
                let (before, now) = (times(plain, part), times(with, part));
                let holds = if parts.contains(part) {
                    now > before
                } else {
                    now == before
                };
                if !holds {
                    wrong.push(format!(
                        "{test} {options}, {end}: {part} {before} times, then {now}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// In how many calls this stands.
fn times(calls: &[Call], part: &str) -> usize {
    calls
        .iter()
        .filter(|call| text(call).contains(part))
        .count()
}

pub(super) fn text(call: &Call) -> String {
    let arguments = call.arguments.get(1..).unwrap_or_default();
    let text = format!("{}({})", call.name, arguments.join(", "));
    // Some versions of strace show a time as its bytes.
    text.replace("\"\\5\\0\\0\\0\\0\\0\\0\\0", "{tv_sec=5,")
}

/// Some local ports may not be used, by a rule of the host's routes: without `-U` that is an error,
/// with it the next port is tried.
fn retried_connects() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        for line in [
            "rule add pref 10 lookup local",
            "rule del pref 0",
            "rule add pref 5 ipproto tcp sport 20000-20009 prohibit",
        ] {
            super::ip(line);
        }
        let test = "-t TCP_CRR -l -30 -P 0 -v 0";
        let refused = start(&server, &format!("{test} -- -p 20000,20020")).finish(PATIENCE);
        assert_ne!(refused.code, Some(0), "{refused:#?}");
        finish(&server, &format!("{test} -- -p 20000,20020 -U"));
    });
}

/// The nonce is one send: in one segment with the first request, or on a separate connection before those that are
/// measured.
fn proof() {
    for (line, flags, connections) in [
        (RR, "MSG_NOSIGNAL|MSG_MORE", 2),
        ("-t TCP_MAERTS -l -5000 --", "MSG_NOSIGNAL", 2),
        ("-t TCP_CRR -l -5 --", "MSG_NOSIGNAL", 2 + 5),
        ("-t TCP_RR -l -5 -- -F", "MSG_NOSIGNAL", 3),
    ] {
        let calls = both("-e trace=connect,sendto,recvfrom", "", line);
        let nonce = |call: &&Call| call.name == "sendto" && call.result == "16";
        let sends: Vec<_> = calls.client.iter().filter(nonce).collect();
        let [send] = sends[..] else {
            panic!("{line}: {sends:#?}");
        };
        assert!(
            send.arguments.contains(&flags.to_owned()),
            "{line}: {send:?}"
        );
        let connects = calls.client.iter().filter(|call| call.name == "connect");
        assert_eq!(connects.count(), connections, "{line}");
        let taken = |call: &&Call| call.name == "recvfrom" && call.result == "16";
        assert_eq!(calls.server.iter().filter(taken).count(), 1, "{line}");
    }
    // All of it comes from the ports that were asked for.
    for (line, binds) in [
        ("-t TCP_CRR -l -5 -- -p 21000,21010", 1 + 5),
        ("-t TCP_RR -l -5 -- -F -P 21020,21025", 2),
    ] {
        let calls = both("-e trace=bind", "", line);
        let ports = calls.client.iter().filter_map(|call| {
            let (_, port) = call.arguments[2].split_once("htons(")?;
            port.trim_end_matches(')').parse::<u16>().ok()
        });
        let ports: Vec<_> = ports.filter(|port| *port != 0).collect();
        assert!(
            ports.iter().all(|port| (21_000..21_030).contains(port)),
            "{line}: {ports:?}"
        );
        assert_eq!(ports.len(), binds, "{line}: {ports:?}");
    }
}
