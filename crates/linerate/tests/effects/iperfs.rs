//! The system calls and the output of options of iperf and iperf3. `calls` checks the system calls
//! of netperf.

use std::io::{Seek, Write};

use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, Server, TestCase, TestProcess, free_port, is_listening, linerate_with_args,
    test_case, test_case_unless, wait_until,
};

use super::TIMEOUT;
use super::calls::{Case, compare_calls};
use super::trace::{STRACE, trace};
use crate::iperf::is_bound_to_udp;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = vec![
        test_case("options_of_iperf", &[STRACE, Namespaces], || {
            Namespace::new().enter(|| check_calls("iperf -s", IPERF_CASES));
        }),
        test_case("udp_options_of_iperf", &[STRACE, Namespaces], || {
            Namespace::new().enter(|| check_calls("iperf -s -u", IPERF_UDP_CASES));
        }),
        test_case("server_options_of_iperf", &[STRACE, Namespaces], || {
            Namespace::new().enter(check_server_options_of_iperf);
        }),
        test_case("options_of_iperf3", &[STRACE, Namespaces], || {
            Namespace::new().enter(|| check_calls("iperf3 -s", IPERF3_CASES));
        }),
        test_case("retries", &[], retries),
        test_case("an_idle_server_ends", &[], an_idle_server_ends),
        test_case("standard_input", &[], standard_input),
    ];
    for (tool, cases) in [("iperf", IPERF_OUTPUT), ("iperf3", IPERF3_OUTPUT)] {
        test_cases.extend(cases.iter().map(|case| {
            let name = format!("{}_{}", case.0, case.1).replace(' ', "_");
            test_case_unless(
                None,
                format!("{tool}::{}", name.trim_matches('_')),
                move || {
                    check_output(tool, case);
                    Ok(())
                },
            )
        }));
    }
    test_cases
}

/// Options of a server and of its client, and parts of the output of the client and of the server.
/// A part after `!` must be absent. A part after `fails:` is on the standard error of a client that
/// fails.
type OutputCase = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

#[rustfmt::skip]
const IPERF_OUTPUT: &[OutputCase] = &[
    ("", "-n 20000 -e", &["Write/Err", "on 20"], &[]),
    ("-e", "-n 20000", &[], &["Reads=Dist", "(peer 2.2.1-rc)"]),
    ("-e", "-n 20000 -C", &[], &["!(peer"]),
    ("", "-n 2m -f K", &[" KBytes/sec"], &[]),
    ("", "-n 20000 --hide-ips", &["*.*.*.1"], &[]),
    ("", "-t 0.5 -i 0.2 -b 8m -l 1000", &["0.0000-0.2000 sec"], &[]),
    ("", "-n 20000 -m", &["MSS size"], &[]),
    ("", "-n 20000 -M 1000", &["MSS req size 1000 bytes"], &[]),
    ("", "-n 20000 -o FILE", &["Output from stdout and stderr", "!connected with"], &[]),
    ("--permit-key=abcd", "-n 20000 --permit-key=abcd", &["[abcd(1)]"], &["Permit key is 'abcd' (timeout in 20.0"]),
    ("--permit-key=abcd --permit-key-timeout 0", "-n 20000 --permit-key=abcd", &[], &["(WARN: no timeout)"]),
    ("", "-t 0.5 -b 8m -l 1000 -P 2 --sum-only", &["[SUM]", "!connected with"], &[]),
    ("", "-t 0.5 -b 8m -l 1000 -P 2 --no-connect-sync", &["[SUM]"], &[]),
    ("--sum-dstip", "-t 0.5 -b 8m -l 1000 -P 2", &[], &["[SUM]"]),
    ("", "-n 20000 -N -e", &["(Nagle off)"], &[]),
    ("", "-n 20000 -S 0x28 -e", &["TOS set to 0x28"], &[]),
    ("", "-n 20000 -Z reno", &["TCP congestion control set to reno"], &[]),
    ("", "-n 20000 -w 40000", &["(WARNING: requested"], &[]),
    ("", "-n 20000 --fq-rate 8g", &["fair-queue socket pacing set to"], &[]),
    ("-1", "-n 20000", &[], &["single client traffic mode"]),
    ("--tcp-rx-window-clamp 8192", "-n 20000", &[], &["(clamp=8192)"]),
    ("", "-n 20000 -R -e", &["(reverse)"], &["(reverse)"]),
    ("", "-n 20000 --full-duplex -e", &["(full-duplex)"], &["(full-duplex)"]),
    ("", "-n 20000 -r -L FREE", &["[  2] local"], &["[ *2] local"]),
    ("", "-t 0.5 --bounceback=3 --bounceback-period 0.2", &["3 times every 0.20 second"], &[]),
    ("", "-t 0.5 --bounceback --bounceback-hold 20", &["(server hold req=20000 usecs"], &[]),
    ("", "-t 0.5 --bounceback --bounceback-no-quickack", &["!quickack"], &[]),
    ("", "-n 20000 -l 1000 --tcp-write-times", &["write-times avg"], &[]),
    ("", "-n 20000 -l 1000 --near-congestion=0.25", &["near-congestion delay weight set to 0.2500"], &[]),
    ("", "-n 20000 -l 1000 --tcp-write-prefetch 65536", &["watermark at 65536 bytes"], &[]),
    ("", "-t 0.4 -l 10000 --burst-period 0.2 --burst-size 20000 --trip-times", &["KByte every 0.200 second"], &["XferTime"]),
    ("", "-t 0.4 --isochronous=20:1m,0", &["isoch:tx/miss/slip", "20.00 frames/sec"], &["(isoch)"]),
    ("--histograms", "-t 0.4 -b 8m -l 1000 --histograms --trip-times", &["W8(f)-PDF"], &["F8(f)-PDF"]),
    ("", "-n 20000 -x C", &["!connected with", "Client connecting"], &[]),
    ("", "-n 20000 -x S", &["connected with", "!Client connecting"], &[]),
    ("", "-n 20000 -y C", &["!Client connecting", ",0.0-0."], &[]),
    ("-y C --sum-only", "-n 20000 -P 2 -y C --sum-only", &[",-1,0.0-0."], &[",-1,0.0-0."]),
    ("-y C --sum-only", "-t 0.4 -b 8m -l 1000 -y C --full-duplex --sum-only", &[",-1,0.0-0."], &[",-1,0.0-0."]),
    ("-u", "-u -n 20000 -b 8m", &["Server Report"], &["0/15 (0%)"]),
    ("-u", "-u -n 20000 -b 800pps", &["IPG target: 1250.00 us"], &[]),
    ("-u", "-u -n 20000 -b 8m -x V", &["!Server Report"], &[]),
    ("-u", "-u -n 20000 -b 8m --no-udp-fin -e", &["!Server Report", "(no-udp-fin)"], &["(no-udp-fin)"]),
    ("-u", "-u -n 20000 -b 8m --trip-times", &["(trip-times)"], &["(trip-times)"]),
    ("--allow-peers 192.0.2.0/24", "-n 200m", &["fails: failed: "], &[]),
    ("--max-clients 2", "-t 0.5 -b 8m -l 1000 -P 3", &["fails: failed: "], &[]),
    ("-U", "-u -n 20000 -b 8m", &[], &["lower case -u instead of -U"]),
];

#[rustfmt::skip]
const IPERF3_OUTPUT: &[OutputCase] = &[
    ("", "-n 20M -f K", &[" KBytes/sec"], &[]),
    ("-V", "-n 20K -V", &["Cookie: ", "CPU Utilization"], &["Cookie: "]),
    ("-J", "-n 20K -J", &["\"intervals\":"], &["\"accepted_connection\":"]),
    ("", "-n 20K -I FILE --logfile FILE", &["!connected"], &[]),
    ("", "-n 20K --forceflush", &["iperf Done."], &[]),
    ("", "-n 20K --connect-timeout 9000", &["iperf Done."], &[]),
    ("", "-n 20K -R --rcv-timeout 9000", &["iperf Done."], &[]),
    ("", "-n 20K --cntl-ka=9/2/3", &["iperf Done."], &[]),
    ("", "-n 20K --pacing-timer 500", &["iperf Done."], &[]),
    ("", "-n 20K --repeating-payload", &["iperf Done."], &[]),
    ("", "-n 20K --no-fq-socket-pacing", &["iperf Done."], &[]),
    ("", "-n 20K -4", &["connected to 127.0.0.1"], &[]),
    ("", "-n 20K -6", &["connected to ::1"], &["connected to ::1"]),
    ("", "-n 20K -T some-title", &["some-title:  [  4]"], &["!some-title"]),
    ("-J", "-n 20K -J --extra-data some-word", &["some-word"], &["some-word"]),
    ("", "-n 20K --get-server-output", &["Server output:", "Accepted connection"], &[]),
    ("", "-k 8 -V --bandwidth 800M", &["Target Bitrate: 800000000"], &[]),
    ("", "-n 20K --json-stream", &["{\"event\":\"start\",", "{\"event\":\"end\","], &[]),
    ("", "-n 20K --json-stream-full-output", &["{\"event\":\"end\",", "\"intervals\":"], &[]),
    ("--server-bitrate-limit 1M", "-t 1 -b 8M", &["fails:total required bandwidth is larger than server limit"], &[]),
    // A test as long as the time over which the server averages.
    ("--server-bitrate-limit 1M/1", "-t 1 -b 0", &["fails:total required bandwidth is larger than server limit"], &[]),
    ("--server-max-duration 1", "-t 5", &["fails:iperf3: error"], &[]),
    ("--allow-peers 192.0.2.0/24", "-t 1", &["fails:iperf3: error"], &[]),
];

fn check_output(
    tool: &str,
    (server_options, client_options, client_parts, server_parts): &OutputCase,
) {
    let directory = tempfile::tempdir().expect("the directory for temporary files is writable");
    let file = directory.path().join("file");
    let (port, return_port) = (free_port(), free_port());
    let server = TestProcess::start(&mut linerate_with_args(&format!(
        "{tool} -s -p {port} {server_options}"
    )));
    let is_ready = || is_listening(port) || is_bound_to_udp(port);
    assert!(wait_until(TIMEOUT, is_ready), "{}", server.stderr());
    let host = if client_options.ends_with("-6") {
        "::1"
    } else {
        "127.0.0.1"
    };
    let client_options = client_options
        .replace("FILE", &file.to_string_lossy())
        .replace("FREE", &return_port.to_string());
    let client = TestProcess::start(&mut linerate_with_args(&format!(
        "{tool} -c {host} -p {port} {client_options}"
    )));
    let client = client.finish(TIMEOUT);
    let must_fail = client_parts.iter().any(|part| part.starts_with("fails:"));
    assert_eq!(
        client.code,
        Some(u8::from(must_fail).into()),
        "{client_options}: {client:?}"
    );
    let has_file_option = client_options.contains("/file");
    assert_eq!(has_file_option, file.exists(), "{client_options}");
    for part in *client_parts {
        match part.strip_prefix("fails:") {
            Some(error) => assert_part(error, &client.stderr),
            None => assert_part(part, &client.stdout),
        }
    }
    let expected = || server_parts.iter().filter(|part| !part.starts_with('!'));
    wait_until(TIMEOUT, || {
        let stdout = server.stdout();
        expected().all(|part| stdout.contains(part))
    });
    server.signal(Signal::INT);
    let server = server.finish(TIMEOUT);
    for part in *server_parts {
        assert_part(part, &server.stdout);
    }
}

/// Checks that the text contains `part`, or lacks what follows `!`.
#[track_caller]
fn assert_part(part: &str, text: &str) {
    match part.strip_prefix('!') {
        Some(absent) => assert!(!text.contains(absent), "{absent}: {text}"),
        None => assert!(text.contains(part), "no {part}: {text}"),
    }
}

/// iperf retries a refused connection the requested number of times.
fn retries() {
    let line = format!("iperf -c 127.0.0.1 -p {} --connect-retries 2", free_port());
    let client = TestProcess::start(&mut linerate_with_args(&line)).finish(TIMEOUT);
    assert_eq!(client.code, Some(1), "{client:?}");
    let refused = client.stderr.matches("failed (Connection refused)").count();
    assert_eq!(refused, 3, "{client:?}");
}

/// `-I` sends standard input. The last block may be padded.
fn standard_input() {
    let mut file = tempfile::tempfile().expect("the directory for temporary files is writable");
    file.write_all(&[b'x'; 5000]).expect("the file is writable");
    file.rewind().expect("the file is seekable");
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    let line = format!("iperf -c 127.0.0.1 -p {} -I -l 1000 -y C", server.port);
    let client = TestProcess::start_with_input(&mut linerate_with_args(&line), file.into());
    let client = client.finish(TIMEOUT);
    client.assert_success();
    let bytes = client
        .stdout
        .split(',')
        .nth(7)
        .and_then(|bytes| bytes.parse::<u64>().ok());
    assert!(matches!(bytes, Some(5000..6000)), "{client:?}");
}

fn an_idle_server_ends() {
    let line = format!("iperf3 -s -1 -p {} --idle-timeout 1", free_port());
    TestProcess::start(&mut linerate_with_args(&line))
        .finish(TIMEOUT)
        .assert_success();
    let line = format!("iperf -s -p {} -t 0.3", free_port());
    TestProcess::start(&mut linerate_with_args(&line))
        .finish(TIMEOUT)
        .assert_success();
}

const STREAM: &str = "iperf -c 127.0.0.1 -n 20000 -l 1000";
const DATAGRAMS: &str = "iperf -c 127.0.0.1 -u -n 20000 -b 8m";
const BLOCKS: &str = "iperf3 -c 127.0.0.1 -k 20 -l 1000";
const PACKETS: &str = "iperf3 -c 127.0.0.1 -u -k 20 -l 1000 -b 8M";

const NO_DELAY: &str = "setsockopt(SOL_TCP, TCP_NODELAY, [1]";
const SEGMENT: &str = "setsockopt(SOL_TCP, TCP_MAXSEG, [1000]";
/// strace shows the name `reno` as a number.
const RENO: &str = "setsockopt(SOL_TCP, TCP_CONGESTION, [1869505906]";
const BUFFERS: &[&str] = &[
    "setsockopt(SOL_SOCKET, SO_SNDBUF, [20000]",
    "setsockopt(SOL_SOCKET, SO_RCVBUF, [20000]",
];
const TYPE_OF_SERVICE: &str = "setsockopt(SOL_IP, IP_TOS, [40]";
/// 10, 11 and 12 Mbyte/s as the bytes that strace prints.
const STEPPED_RATES: &[&str] = &[
    r#"setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, "\200\226\230\0"#,
    r#"setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, "\300\330\247\0"#,
    r#"setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, "\0\33\267\0"#,
];
const PACING_RATE: &str = "setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, ";
const DEVICE: &str = "setsockopt(SOL_SOCKET, SO_BINDTODEVICE, \"lo\"";
const DONT_ROUTE: &str = "setsockopt(SOL_SOCKET, SO_DONTROUTE, [1]";
const ADDRESS_3: &str = "inet_addr(\"127.0.0.3\")";
const PORT_24000: &str = "sin_port=htons(24000)";

#[rustfmt::skip]
const IPERF_CASES: &[Case] = &[
    ("-B 127.0.0.3", STREAM, &[ADDRESS_3], &[ADDRESS_3]),
    ("-B 127.0.0.1:24000", STREAM, &[PORT_24000], &[PORT_24000]),
    ("-c 127.0.0.1%lo", "iperf -n 20000 -l 1000 -c 127.0.0.1", &[DEVICE], &[]),
    ("-l 700", STREAM, &[", 700, "], &[]),
    ("-M 1000", STREAM, &[SEGMENT], &[]),
    ("-N", STREAM, &[NO_DELAY], &[]),
    ("-S 0x28", STREAM, &[TYPE_OF_SERVICE], &[]),
    ("-w 20000", STREAM, BUFFERS, &[]),
    ("-Z reno", STREAM, &[RENO], &[RENO]),
    ("--fq-rate 8g", STREAM, &[PACING_RATE], &[]),
    ("--fq-rate 80m --fq-rate-step 8m --fq-rate-step-interval 0.1", "iperf -t 0.4 -b 8m -l 1000 -c 127.0.0.1", STEPPED_RATES, &[]),
    ("--local-only", STREAM, &[DONT_ROUTE], &[]),
];

#[rustfmt::skip]
const IPERF_UDP_CASES: &[Case] = &[
    ("-l 700", DATAGRAMS, &[", 700, "], &[]),
    ("-S 0x28", DATAGRAMS, &[TYPE_OF_SERVICE], &[]),
    ("-T 4", DATAGRAMS, &["setsockopt(SOL_IP, IP_MULTICAST_TTL, [4]"], &[]),
];

#[rustfmt::skip]
const IPERF3_CASES: &[Case] = &[
    ("-A 0,1", BLOCKS, &["sched_setaffinity(128, [0]"], &["sched_setaffinity(128, [1]"]),
    ("-B 127.0.0.3", BLOCKS, &[ADDRESS_3], &["\"::ffff:127.0.0.3\""]),
    ("--bind-dev lo", BLOCKS, &[DEVICE], &[]),
    ("-C reno", BLOCKS, &[RENO], &[RENO]),
    ("--cport 24000", BLOCKS, &[PORT_24000], &["sin6_port=htons(24000)"]),
    ("--dont-fragment", PACKETS, &["setsockopt(SOL_IP, IP_MTU_DISCOVER, "], &["setsockopt(SOL_IP, IP_MTU_DISCOVER, "]),
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

fn check_calls(server: &str, cases: &[Case]) {
    compare_calls(cases, |line| trace(TRACE_OPTIONS, server, line));
}

const TRACE_OPTIONS: &str = "-e trace=network,write,sendfile,sched_setaffinity";

fn check_server_options_of_iperf() {
    for (options, part) in [
        ("-B 127.0.0.1", "sin_addr=inet_addr(\"127.0.0.1\")}, 16"),
        ("-l 700", ", 700, "),
        ("-w 20000", BUFFERS[1]),
        (
            "--tcp-rx-window-clamp 8192",
            "setsockopt(SOL_TCP, TCP_WINDOW_CLAMP, [8192]",
        ),
    ] {
        let calls = trace(TRACE_OPTIONS, &format!("iperf -s {options}"), STREAM).server;
        let is_found = calls
            .iter()
            .any(|call| super::calls::call_text(call).contains(part));
        assert!(is_found, "{options}: {calls:#?}");
    }
}
