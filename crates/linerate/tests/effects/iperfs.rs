//! What options of iperf and iperf3 make an end ask of the kernel, as `calls` has it for netperf.

use testkit::Need::Namespaces;
use testkit::{Namespace, Trial, trial};

use super::calls::{Case, compare};
use super::trace::{STRACE, both_of};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("options_of_iperf", &[STRACE, Namespaces], || {
            Namespace::new().enter(|| of("iperf -s", IPERF));
        }),
        trial("udp_options_of_iperf", &[STRACE, Namespaces], || {
            Namespace::new().enter(|| of("iperf -s -u", IPERF_UDP));
        }),
        trial("server_options_of_iperf", &[STRACE, Namespaces], || {
            Namespace::new().enter(iperf_servers);
        }),
        trial("options_of_iperf3", &[STRACE, Namespaces], || {
            Namespace::new().enter(|| of("iperf3 -s", IPERF3));
        }),
    ]
}

const STREAM: &str = "iperf -c 127.0.0.1 -n 20000 -l 1000";
const DATAGRAMS: &str = "iperf -c 127.0.0.1 -u -n 20000 -b 8m";
const BLOCKS: &str = "iperf3 -c 127.0.0.1 -k 20 -l 1000";
const PACKETS: &str = "iperf3 -c 127.0.0.1 -u -k 20 -l 1000 -b 8M";

const NO_DELAY: &str = "setsockopt(SOL_TCP, TCP_NODELAY, [1]";
const SEGMENT: &str = "setsockopt(SOL_TCP, TCP_MAXSEG, [1000]";
/// strace shows the name as a number.
const RENO: &str = "setsockopt(SOL_TCP, TCP_CONGESTION, [1869505906]";
const BUFFERS: &[&str] = &[
    "setsockopt(SOL_SOCKET, SO_SNDBUF, [20000]",
    "setsockopt(SOL_SOCKET, SO_RCVBUF, [20000]",
];
const TYPE_OF_SERVICE: &str = "setsockopt(SOL_IP, IP_TOS, [40]";
const PACING_RATE: &str = "setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, ";
const DEVICE: &str = "setsockopt(SOL_SOCKET, SO_BINDTODEVICE, \"lo\"";
const DONT_ROUTE: &str = "setsockopt(SOL_SOCKET, SO_DONTROUTE, [1]";
const FROM_3: &str = "inet_addr(\"127.0.0.3\")";
const PORT_24000: &str = "sin_port=htons(24000)";

#[rustfmt::skip]
const IPERF: &[Case] = &[
    ("-B 127.0.0.3", STREAM, &[FROM_3], &[FROM_3]),
    ("-B 127.0.0.1:24000", STREAM, &[PORT_24000], &[PORT_24000]),
    ("-c 127.0.0.1%lo", "iperf -n 20000 -l 1000 -c 127.0.0.1", &[DEVICE], &[]),
    ("-l 700", STREAM, &[", 700, "], &[]),
    ("-M 1000", STREAM, &[SEGMENT], &[]),
    ("-N", STREAM, &[NO_DELAY], &[]),
    ("-S 0x28", STREAM, &[TYPE_OF_SERVICE], &[]),
    ("-w 20000", STREAM, BUFFERS, &[]),
    ("-Z reno", STREAM, &[RENO], &[]),
    ("--fq-rate 8g", STREAM, &[PACING_RATE], &[]),
    ("--local-only", STREAM, &[DONT_ROUTE], &[]),
];

#[rustfmt::skip]
const IPERF_UDP: &[Case] = &[
    ("-l 700", DATAGRAMS, &[", 700, "], &[]),
    ("-S 0x28", DATAGRAMS, &[TYPE_OF_SERVICE], &[]),
    ("-T 4", DATAGRAMS, &["setsockopt(SOL_IP, IP_MULTICAST_TTL, [4]"], &[]),
];

#[rustfmt::skip]
const IPERF3: &[Case] = &[
    ("-A 0,1", BLOCKS, &["sched_setaffinity(128, [0]"], &["sched_setaffinity(128, [1]"]),
    ("-B 127.0.0.3", BLOCKS, &[FROM_3], &["\"::ffff:127.0.0.3\""]),
    ("--bind-dev lo", BLOCKS, &[DEVICE], &[]),
    ("-C reno", BLOCKS, &[RENO], &[RENO]),
    ("--cport 24000", BLOCKS, &[PORT_24000], &["sin6_port=htons(24000)"]),
    ("--dont-fragment", PACKETS, &["setsockopt(SOL_IP, IP_MTU_DISCOVER, "], &[]),
    ("--dscp cs1", BLOCKS, &["setsockopt(SOL_IP, IP_TOS, [32]"], &["setsockopt(SOL_IP, IP_TOS, [32]"]),
    ("--fq-rate 8G", BLOCKS, &[PACING_RATE], &[PACING_RATE]),
    ("--gsro", PACKETS, &["UDP_SEGMENT"], &["setsockopt(SOL_UDP, UDP_GRO, [1]"]),
    ("-l 700", BLOCKS, &[", 700, "], &[", 700, "]),
    ("-m", BLOCKS, &["SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_MPTCP"], &[]),
    ("-M 1000", BLOCKS, &[SEGMENT], &[SEGMENT]),
    ("-N", BLOCKS, &[NO_DELAY], &[NO_DELAY]),
    ("-S 0x28", BLOCKS, &[TYPE_OF_SERVICE], &[TYPE_OF_SERVICE]),
    ("--skip-rx-copy", BLOCKS, &[], &["MSG_TRUNC"]),
    ("--snd-timeout 5000", BLOCKS, &["setsockopt(SOL_TCP, TCP_USER_TIMEOUT, [5000]"], &[]),
    ("-w 20000", BLOCKS, BUFFERS, BUFFERS),
    ("-Z", BLOCKS, &["sendfile("], &[]),
];

fn of(server: &str, cases: &[Case]) {
    compare(cases, |line| both_of(TRACED, server, line));
}

const TRACED: &str = "-e trace=network,write,sendfile,sched_setaffinity";

fn iperf_servers() {
    for (options, part) in [
        ("-B 127.0.0.1", "sin_addr=inet_addr(\"127.0.0.1\")}, 16"),
        ("-l 700", ", 700, "),
        ("-w 20000", BUFFERS[1]),
        (
            "--tcp-rx-window-clamp 8192",
            "setsockopt(SOL_TCP, TCP_WINDOW_CLAMP, [8192]",
        ),
    ] {
        let calls = both_of(TRACED, &format!("iperf -s {options}"), STREAM).server;
        let found = calls
            .iter()
            .any(|call| super::calls::text(call).contains(part));
        assert!(found, "{options}: {calls:#?}");
    }
}
