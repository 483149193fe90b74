//! iperf 2 and Debian's iperf against each other, in every combination of client and server. Ours
//! prints the lines that stock prints against itself, with other figures.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use iperf::wire::{DatagramHeader, ServerReport, WallTime};
use rustix::process::Signal;
use testkit::{
    Receive, ReceiveFrom, Release, StockPeer, TestCase, TestProcess, free_port, is_listening,
    linerate_with_args, wait_until,
};

/// The time that a program may take beyond its test.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Name, arguments of the server, arguments of the client.
const CASES: &[(&str, &str, &str)] = &[
    ("tcp", "", "-t 0.4 -b 8m -l 10000"),
    ("tcp_more", "-e", "-t 0.4 -b 8m -l 10000 -e"),
    (
        "tcp_full_duplex_more",
        "-e",
        "-t 0.4 -b 8m -l 10000 --full-duplex -e",
    ),
    ("tcp_fq_rate", "", "-t 0.4 -l 10000 --fq-rate 400m"),
    (
        "tcp_clamp",
        "--tcp-rx-window-clamp 8192",
        "-t 0.4 -b 8m -l 10000",
    ),
    ("tcp_bounceback", "", "-t 1 --bounceback"),
    ("tcp_dual", "", "-t 0.4 -b 8m -l 10000 -d -L FREE"),
    ("tcp_trade_off", "", "-t 0.4 -b 8m -l 10000 -r -L FREE"),
    ("tcp_reverse", "", "-t 0.4 -b 8m -l 10000 -R"),
    ("tcp_full_duplex", "", "-t 0.4 -b 8m -l 10000 --full-duplex"),
    ("tcp_parallel", "", "-t 0.4 -b 8m -l 10000 -P 2"),
    ("tcp_parallel_more", "", "-t 0.4 -b 8m -l 10000 -P 2 -e"),
    ("tcp_sized", "", "-n 100K -l 10000"),
    ("tcp_csv", "-y C", "-t 0.4 -b 8m -l 10000 -y C"),
    ("tcp_v6", "-V", "-t 0.4 -b 8m -l 10000 -V"),
    ("tcp_peer_detect", "", "-t 0.4 -b 8m -l 10000 -X"),
    (
        "tcp_peer_detect_trip_times",
        "",
        "-t 0.4 -b 8m -l 10000 -X --trip-times",
    ),
    ("tcp_compatible", "", "-t 0.4 -b 8m -l 10000 -C"),
    (
        "tcp_permit_key",
        "--permit-key=abcd",
        "-t 0.4 -b 8m -l 10000 --permit-key=abcd",
    ),
    ("tcp_units", "-f k", "-t 0.4 -b 8m -l 10000 -f K"),
    ("tcp_trip_times", "", "-t 0.4 -b 8m -l 10000 --trip-times"),
    (
        "tcp_trip_times_more",
        "-e",
        "-t 0.4 -b 8m -l 10000 --trip-times -e",
    ),
    (
        "tcp_trip_times_reverse",
        "",
        "-t 0.4 -b 8m -l 10000 --trip-times -R",
    ),
    (
        "tcp_bursts",
        "-i f",
        "-t 0.4 -l 10K --burst-period 0.2 --burst-size 20K --trip-times",
    ),
    ("tcp_frames", "-e", "-t 0.4 --isochronous=20:1m,100k"),
    (
        "tcp_prefetch",
        "",
        "-t 0.4 -b 8m -l 10000 --tcp-write-prefetch 64K",
    ),
    (
        "tcp_write_times",
        "",
        "-t 0.4 -b 8m -l 10000 --tcp-write-times -e",
    ),
    (
        "tcp_near_congestion",
        "",
        "-t 0.4 -l 10000 --near-congestion",
    ),
    (
        "tcp_histograms",
        "--histograms=1m,100",
        "-t 0.4 -b 8m -l 10000 --trip-times",
    ),
    ("tcp_varying_rate", "", "-t 0.4 -b 8m,1m -l 10000"),
    ("tcp_file", "", "-l 1000 -F /proc/self/exe -t 0.3 -b 8m"),
    ("udp", "-u", "-u -t 0.4 -b 400k"),
    ("udp_more", "-u -e", "-u -t 0.4 -b 400k -e"),
    ("udp_reverse", "-u", "-u -t 0.4 -b 400k -R"),
    ("udp_full_duplex", "-u", "-u -t 0.4 -b 400k --full-duplex"),
    ("udp_sized", "-u", "-u -n 20000 -b 1m"),
    ("udp_parallel", "-u", "-u -t 0.4 -b 400k -P 2"),
    ("udp_csv", "-u -y C", "-u -t 0.4 -b 400k -y C"),
    ("udp_v6", "-u -V", "-u -t 0.4 -b 400k -V"),
    ("udp_no_fin", "-u", "-u -t 0.4 -b 400k --no-udp-fin"),
    ("udp_packets", "-u", "-u -t 0.4 -b 40pps"),
    ("udp_dual", "-u", "-u -t 0.4 -b 400k -d -L FREE"),
    ("udp_trade_off", "-u", "-u -t 0.4 -b 400k -r -L FREE"),
    ("udp_parallel", "-u", "-u -t 0.4 -b 400k -P 2"),
    ("udp_varying_rate", "-u", "-u -t 0.4 -b 400k,100k"),
    ("udp_frames", "-u -e", "-u -t 0.4 --isochronous=10:500k,0"),
    (
        "udp_frames_trip_times",
        "-u",
        "-u -t 0.4 --isochronous=10:500k,50k --trip-times",
    ),
    (
        "udp_frames_reverse",
        "-u",
        "-u -t 0.4 --isochronous=20:1m,0 -R",
    ),
    ("udp_file", "-u", "-u -t 0.4 -b 8m -F /proc/self/exe"),
    (
        "udp_histograms",
        "-u --histograms",
        "-u -t 0.4 -b 400k --trip-times",
    ),
    ("udp_length_checks", "-u", "-u -t 0.4 -b 400k --l2checks"),
    (
        "tcp_bounceback_delay",
        "",
        "-t 1 --bounceback --bounceback-txdelay 0.2",
    ),
    ("tcp_delay", "", "-t 0.4 -b 8m -l 10000 --txdelay-time 0.2"),
    (
        "tcp_late_start",
        "",
        "-t 0.4 -b 8m -l 10000 --txstart-time 100",
    ),
    ("tcp_service", "-e", "-t 0.4 -b 8m -l 10000 -S 0x28"),
    (
        "tcp_service_override",
        "--tos-override 0x20 -e",
        "-t 0.4 -b 8m -l 10000 -R -S 0x28",
    ),
    (
        "tcp_quick_ack",
        "-e",
        "-t 0.4 -b 8m -l 10000 --tcp-quickack",
    ),
    ("udp_single", "-U", "-U -t 0.4 -b 400k"),
    (
        "group",
        "-u -B 239.1.2.9%lo -e",
        "-u -t 0.4 -b 400k -B 127.0.0.1 -T 2 TO:239.1.2.9%lo",
    ),
    (
        "group_of_a_source",
        "-u -B 232.1.2.9%lo -H 127.0.0.1",
        "-u -t 0.4 -b 400k -B 127.0.0.1 TO:232.1.2.9%lo",
    ),
];

/// Cases that stock 2.2.1 refuses, does not end, or ends with a sum of both directions as if it were
/// of one.
const CASES_OF_2_1_8: &[(&str, &str, &str)] = &[
    (
        "tcp_trip_times_full_duplex",
        "",
        "-t 0.4 -b 8m -l 10000 --trip-times --full-duplex",
    ),
    ("udp_gap", "-u", "-u -t 0.4 --ipg 10 -e"),
    (
        "udp_small_trip_times",
        "-u",
        "-u -t 0.4 -b 400k --trip-times -l 64",
    ),
    (
        "tcp_bounceback_load",
        "",
        "-t 1 --bounceback --bounceback-congest=up -b 8m -l 10000",
    ),
    ("tcp_connect_only", "", "--connect-only=2 -e"),
];

/// Cases with the options of 2.2.1.
const CASES_OF_2_2_1: &[(&str, &str, &str)] = &[
    (
        "tcp_intervals",
        "-i 0.3",
        "-t 0.6 -b 8m -l 10000 -i 0.3 -P 2",
    ),
    (
        "tcp_intervals_more",
        "-i 0.3 -e",
        "-t 0.6 -b 8m -l 10000 -i 0.3 -P 2 -e",
    ),
    (
        "udp_intervals_more",
        "-u -i 0.3 -e",
        "-u -t 0.6 -b 400k -i 0.3 -e",
    ),
    (
        "tcp_sum_only",
        "--sum-only",
        "-t 0.4 -b 8m -l 10000 -P 2 --sum-only",
    ),
    (
        "tcp_sum_only_more",
        "--sum-only -e",
        "-t 0.4 -b 8m -l 10000 -P 2 --sum-only -e",
    ),
    (
        "udp_sum_only",
        "-u --sum-only",
        "-u -t 0.4 -b 400k -P 2 --sum-only",
    ),
    (
        "tcp_congestion_control",
        "",
        "-t 0.4 -b 8m -l 10000 -Z reno -e",
    ),
    (
        "tcp_congestion_control_reverse",
        "-e",
        "-t 0.4 -b 8m -l 10000 -Z reno -R",
    ),
    (
        "tcp_csv_more",
        "-y C -e -i 0.3",
        "-t 0.6 -b 8m -l 10000 -y C -e -P 2 -i 0.3",
    ),
    (
        "udp_csv_more",
        "-u -y C -e",
        "-u -t 0.4 -b 400k -y C -e -P 2",
    ),
    (
        "tcp_csv_trip_times",
        "-y C",
        "-t 0.4 -b 8m -l 10000 -y C --trip-times",
    ),
    (
        "udp_csv_trip_times",
        "-u -y C",
        "-u -t 0.4 -b 400k -y C --trip-times",
    ),
    ("tcp_csv_bounceback", "-y C", "-t 1 --bounceback -y C"),
    (
        "tcp_bounceback_service",
        "-e",
        "-t 1 --bounceback --bounceback-period 0 -S 0x20 --bounceback-no-quickack -i 0.4",
    ),
    (
        "tcp_write_times_alone",
        "",
        "-t 0.4 -b 8m -l 10000 --tcp-write-times",
    ),
    (
        "udp_trip_times_more",
        "-u -e",
        "-u -t 0.4 -b 400k --trip-times -e",
    ),
    (
        "tcp_service_full_duplex",
        "-e",
        "-t 0.4 -b 8m -l 10000 -S 0x28 --full-duplex",
    ),
    ("udp_service", "-u -e", "-u -t 0.4 -b 400k -S 0x28"),
    (
        "udp_service_reverse",
        "-u -e",
        "-u -t 0.4 -b 400k -S 0x28 -R",
    ),
    ("tcp_v6_more", "-V -e", "-t 0.4 -b 8m -l 10000 -V -e"),
    (
        "tcp_retry",
        "",
        "-t 0.4 -b 8m -l 10000 --connect-retry-time 3 --connect-retry-timer 1",
    ),
    ("tcp_frames_alone", "", "-t 0.4 --isochronous=20:1m,100k"),
    (
        "tcp_frames_reverse",
        "",
        "-t 0.4 --isochronous=20:1m,100k -R",
    ),
    (
        "tcp_bursts_alone",
        "",
        "-t 0.4 -l 10K --burst-period 0.2 --burst-size 20K",
    ),
    (
        "tcp_trip_times_parallel",
        "",
        "-t 0.4 -b 8m -l 10000 --trip-times -P 2",
    ),
    ("tcp_dscp", "-e", "-t 0.4 -b 8m -l 10000 -e --dscp 10"),
    ("udp_dscp", "-u -e", "-u -t 0.4 -b 400k -e --dscp 10"),
    (
        "tcp_send_delay",
        "--tcp-tx-delay 1",
        "-t 0.4 -b 8m -l 10000 --tcp-tx-delay 1",
    ),
    ("udp_send_delay", "-u", "-u -t 0.4 -b 400k --tcp-tx-delay 1"),
    (
        "tcp_no_receive_copy",
        "--skip-rx-copy -e",
        "-t 0.4 -b 8m -l 10000",
    ),
    (
        "tcp_no_shutdown",
        "",
        "-t 0.4 -b 8m -l 10000 --ignore-shutdown",
    ),
    (
        "tcp_transfer_ids",
        "",
        "-t 0.4 -b 8m -l 10000 --sync-transfer-id",
    ),
    (
        "udp_transfer_ids",
        "-u",
        "-u -t 0.4 -b 400k --sync-transfer-id",
    ),
    ("udp_l4s", "-u", "-u -t 0.4 -b 400k --udp-l4s"),
    ("udp_l4s_video", "-u", "-u -t 0.4 -b 400k --udp-l4s-video"),
    (
        "tcp_bounceback_reply",
        "-e",
        "-t 1 --bounceback --bounceback-reply 500",
    ),
    (
        "tcp_bounceback_short_reply",
        "",
        "-t 1 --bounceback -l 1000 --bounceback-reply 100",
    ),
    (
        "tcp_working_load_up",
        "",
        "-t 0.4 -b 8m -l 10000 --working-load=up",
    ),
    (
        "tcp_working_load_down",
        "",
        "-t 0.4 -b 8m -l 10000 --working-load=down",
    ),
    ("tcp_utc", "-e", "-t 0.4 -b 8m -l 10000 -e --utc"),
    (
        "tcp_bounceback_working_load",
        "",
        "-t 1 --bounceback --working-load=up,1 -b 8m -l 1000 -i 2",
    ),
    (
        "tcp_working_load_cca",
        "-e",
        "-t 0.4 -b 8m -l 10000 -Z reno --working-load=up --working-load-cca reno",
    ),
];

/// The versions of stock iperf 2.
pub(crate) const STOCK_VERSIONS: [StockPeer; 2] = [
    StockPeer {
        program: "iperf",
        release: Release::Debian12,
        version: "2.1.8",
    },
    StockPeer {
        program: "iperf",
        release: Release::Debian13,
        version: "2.2.1",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// linerate with the output of this version.
    Ours(&'static str),
    Stock(StockPeer),
}

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for stock in STOCK_VERSIONS {
        let version = stock.version.replace('.', "_");
        let own_cases = match stock.version {
            "2.1.8" => CASES_OF_2_1_8,
            _ => CASES_OF_2_2_1,
        };
        let name = format!("usage_is_that_of_stock::{version}");
        test_cases.push(stock.test_case(name, usage_is_that_of_stock));
        for (name, server, client) in CASES.iter().chain(own_cases) {
            let compare = move |stock| prints_lines_of_stock(stock, server, client);
            let test_case = stock.test_case(format!("stock_{name}::{version}"), compare);
            test_cases.push(test_case.allow_many_at_once());
        }
    }
    test_cases.extend(testkit::test_cases![
        fails_if_the_connection_is_refused,
        retries_connect_calls,
        selects_stock_versions,
        sends_exactly_the_requested_bytes,
        fails_if_the_server_is_silent,
        fails_if_the_server_dies,
        server_generates_a_key_and_ends_without_a_client,
        refuses_tests_without_a_field_for_the_key,
        server_uses_loaded_congestion_controls_only,
        server_limits_the_wait_for_a_header,
        server_prints_dates_in_utc,
        server_uses_the_numbers_of_clients,
        prints_a_json_document,
        serves_an_old_tcp_client_without_an_answer,
        runs_the_reverse_test_of_an_old_tcp_client,
        sends_old_udp_clients_reports_in_their_format,
        reads_the_report_of_an_old_udp_server,
        ends_a_reverse_udp_test_if_the_port_is_closed,
        reports_a_flow_from_its_first_datagram,
        increments_addresses_and_ports_per_flow,
        reports_flow_without_a_port,
        server_runs_in_real_time,
    ]);
    test_cases
}

fn command(program: Program, arguments: &str) -> Command {
    match program {
        Program::Ours(version) => ours(&format!("--stock-version {version} {arguments}")),
        Program::Stock(stock) => stock.with_args(arguments),
    }
}

fn ours(arguments: &str) -> Command {
    linerate_with_args(&format!("iperf {arguments}"))
}

/// Returns whether a datagram socket has this port.
pub(crate) fn is_bound_to_udp(port: u16) -> bool {
    let wanted = format!(":{port:04X} ");
    let has = |table: &str| fs::read_to_string(table).is_ok_and(|table| table.contains(&wanted));
    has("/proc/thread-self/net/udp") || has("/proc/thread-self/net/udp6")
}

/// Runs a test. Returns the standard output of the client and of the server.
fn run(server: Program, client: Program, options: (&str, &str)) -> Result<[String; 2], String> {
    // If the port of -L is lower, stock reports that it listens on all ports up to the server's.
    let mut ports = [free_port(), free_port()];
    ports.sort_unstable();
    let [port, reverse_port] = ports;
    let serve = format!("-s -p {port} {}", options.0);
    let server_process = TestProcess::start(&mut command(server, &serve));
    let listens = || {
        if options.0.contains("-u") || options.0.contains("-U") {
            is_bound_to_udp(port)
        } else {
            is_listening(port)
        }
    };
    if !wait_until(TIMEOUT, listens) {
        return Err(format!(
            "{serve}: no listening socket: {}",
            server_process.stderr()
        ));
    }
    let host = if options.1.contains("-V") {
        "::1"
    } else {
        "127.0.0.1"
    };
    let (client_options, host) = match options.1.split_once(" TO:") {
        Some((options, host)) => (options, host),
        None => (options.1, host),
    };
    let client_options = client_options.replace("FREE", &reverse_port.to_string());
    let line = format!("-c {host} -p {port} {client_options}");
    let done = TestProcess::start(&mut command(client, &line)).finish(TIMEOUT);
    if done.code != Some(0) {
        return Err(format!("{client:?} {line}: {done:#?}"));
    }
    // A report has lines with a unit, or a CSV line that begins with figures.
    let has_reported = || {
        let text = server_process.stdout();
        text.contains("/sec")
            || text.matches("(null)local").count() == 2
            || text.contains(",127.0.0.1,")
            || text.contains(",::1,")
            || text.contains(",::ffff:")
    };
    if !wait_until(TIMEOUT, has_reported) {
        return Err(format!(
            "{server:?}: no report: {}",
            server_process.stdout()
        ));
    }
    server_process.signal(Signal::INT);
    let printed = server_process.finish(TIMEOUT).stdout;
    Ok([done.stdout, printed])
}

/// Checks that ours prints the lines of stock in each role. Stock's own lines vary, mostly on a busy
/// machine: with a loss or without a rate. So a difference counts only if it occurs three times.
fn prints_lines_of_stock(stock: StockPeer, server: &str, client: &str) -> Result<(), String> {
    let options = (server, client);
    let program = Program::Stock(stock);
    let attempt = || {
        let output = run(program, program, options)?;
        compare(stock, &output, options)
    };
    attempt().or_else(|_| attempt()).or_else(|_| attempt())
}

/// Compares the lines in any order. `stock_output` is the output of stock's client and server.
fn compare(
    stock: StockPeer,
    stock_output: &[String; 2],
    options: (&str, &str),
) -> Result<(), String> {
    let (stock, our_program) = (Program::Stock(stock), Program::Ours(stock.version));
    for (at_server, at_client) in [
        (our_program, our_program),
        (our_program, stock),
        (stock, our_program),
    ] {
        let printed = run(at_server, at_client, options)?;
        for (role, program, (ours, stock)) in [
            ("client", at_client, (&printed[0], &stock_output[0])),
            ("server", at_server, (&printed[1], &stock_output[1])),
        ] {
            let (ours, stock) = (masked(ours), masked(stock));
            if program == our_program && ours != stock {
                return Err(format!(
                    "{role} of {at_server:?} server and {at_client:?} client:\nours {ours:#?}\nstock {stock:#?}"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the lines without their figures and without the prefixes of units.
fn masked(text: &str) -> BTreeSet<String> {
    // Stock sometimes asks for the window of a socket that is not open. Its server sometimes counts
    // the first datagrams of one flow in another.
    let is_random = |line: &&str| line.contains("window size: -") || line.contains("out-of-order");
    text.lines()
        .filter(|line| !is_random(line))
        .map(masked_line)
        .collect()
}

fn masked_line(line: &str) -> String {
    let mut masked = String::new();
    for char in line.chars() {
        let is_figure = char.is_ascii_digit() || (char == '.' && masked.ends_with('#'));
        if !is_figure {
            masked.push(char);
        } else if !masked.ends_with('#') {
            masked.push('#');
        }
    }
    // Stock marks a histogram as final only sometimes. A burst may take all of its time.
    masked = masked.replace("(f)-PDF", "-PDF").replace("#e+#", "#");
    // A difference of two clock reads can be negative.
    masked = masked.replace("/-#", "/#").replace(" -#/", " #/");
    masked = masked.replace("x= #", "x=#");
    // The number of bins of a histogram varies.
    while masked.contains("#:#,#:#") {
        masked = masked.replace("#:#,#:#", "#:#");
    }
    for prefix in ["K", "M", "G"] {
        for unit in ["Byte", "bit"] {
            masked = masked.replace(&format!(" {prefix}{unit}"), &format!(" {unit}"));
        }
    }
    let masked = masked.split_whitespace().collect::<Vec<_>>().join(" ");
    // Without an interval, 2.2.1 prints a negative rate of datagrams and no network power. Its CSV has
    // a number for what only the receiver knows. Its text about a late start contains random bytes.
    let masked = masked.replace(" -# pps", " # pps").replace(" NAN", " #");
    let masked = masked.replace(",-#", ",#");
    match masked
        .split_once(") ")
        .zip(masked.split_once(" is before now "))
    {
        Some(((option, _), (_, now))) => format!("{option}) is before now {now}"),
        None => masked,
    }
}

fn fails_if_the_connection_is_refused() {
    let port = free_port();
    let client = ours(&format!("-c 127.0.0.1 -p {port} -t 1"));
    let done = testkit::run(client, TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    let reason =
        format!("[  1] tcp connect to 127.0.0.1 port {port} failed (Connection refused) on ");
    assert!(done.stderr.starts_with(&reason), "{done:#?}");
}

/// The server begins to listen after the first attempt.
fn retries_connect_calls() {
    let port = free_port();
    let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000 --connect-retry-time");
    let refused = |output: &str| output.matches("failed (Connection refused) on ").count();
    let client = TestProcess::start(&mut ours(&format!("{line} 30 --connect-retry-timer 0.1")));
    assert!(wait_until(TIMEOUT, || refused(&client.stderr()) >= 2));
    let _server_process = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    client.finish(TIMEOUT).assert_success();
    let unused = free_port();
    let line = line.replace(&port.to_string(), &unused.to_string());
    let done = testkit::run(ours(&format!("{line} 1")), TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    let first = "WARN: companion option of --connect-retry-timer not set - setting to default value of one second\n";
    assert!(done.stderr.starts_with(first), "{done:#?}");
    assert!(refused(&done.stderr) >= 2, "{done:#?}");
    let expired = "[  1] tcp connect attempt timer expired on ";
    assert!(done.stderr.contains(expired), "{done:#?}");
}

fn selects_stock_versions() {
    let version_of = |line: &str, variable: &str| {
        let mut command = ours(line);
        command.env("LINERATE_STOCK_VERSION", variable);
        let done = testkit::run(command, TIMEOUT).unwrap();
        done.stdout + &done.stderr
    };
    let (older, newest) = ("iperf version 2.1.8 ", "iperf version 2.2.1 ");
    for (line, variable, expected) in [
        ("-v", "", newest),
        ("--stock-version 2.1.8 -v", "", older),
        ("-v", "iperf=2.1.8,iperf3=3.12", older),
        ("--stock-version=2.2.1 -v", "iperf=2.1.8", newest),
        (
            "--stock-version 2.3",
            "",
            "iperf: --stock-version 2.3: '2.3' is not a known version of iperf; known are 2.1.8, 2.2.1\n",
        ),
    ] {
        let printed = version_of(line, variable);
        assert!(
            printed.starts_with(expected),
            "{line} {variable}: {printed}"
        );
    }
}

/// linerate's own options follow the text.
fn usage_is_that_of_stock(stock: StockPeer) -> Result<(), String> {
    let run = |program, line| testkit::run(command(program, line), TIMEOUT).unwrap();
    let (stock, our_program) = (Program::Stock(stock), Program::Ours(stock.version));
    for line in ["-h", "-v"] {
        let (expected, ours) = (run(stock, line), run(our_program, line));
        let is_same = ours.stdout.starts_with(&expected.stdout)
            && ours.stderr.starts_with(&expected.stderr)
            && ours.code == expected.code;
        if !is_same {
            return Err(format!("ours: {ours:#?}\nstock: {expected:#?}"));
        }
    }
    Ok(())
}

/// Stock never stops if the count is less than its header.
fn sends_exactly_the_requested_bytes() {
    let port = free_port();
    let _server = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    assert!(wait_until(TIMEOUT, || is_listening(port)));
    for (options, bytes) in [
        ("-n 100K", "102400"),
        ("-n 100K -l 8K", "102400"),
        ("-n 256K -P 2", "262144"),
        ("-n 100K -R", "102400"),
        ("-n 10", "60"),
    ] {
        let line = format!("-c 127.0.0.1 -p {port} -y C {options}");
        let done = testkit::run(ours(&line), TIMEOUT).unwrap();
        let moved = done
            .stdout
            .lines()
            .next()
            .and_then(|line| line.split(',').nth(7));
        assert_eq!(moved, Some(bytes), "{options}: {done:#?}");
    }
}

fn fails_if_the_server_is_silent() {
    let silent_server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent_server.local_addr().unwrap().port();
    let client = ours(&format!("-c 127.0.0.1 -p {port} -t 1 -X"));
    let done = testkit::run(client, TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(
        done.stderr.contains("no acknowledgement within 4 s"),
        "{done:#?}"
    );
}

fn fails_if_the_server_dies() {
    let port = free_port();
    let server_process = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    assert!(wait_until(TIMEOUT, || is_listening(port)));
    let line = format!("-c 127.0.0.1 -p {port} -t 30 -b 8m -l 10000 -i 0.1");
    let client = TestProcess::start(&mut ours(&line));
    assert!(wait_until(TIMEOUT, || client.stdout().contains("/sec")));
    drop(server_process);
    let done = client.finish(TIMEOUT);
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stderr.contains("write failed: "), "{done:#?}");
    assert!(done.stdout.contains("[  1] 0.0000-"), "{done:#?}");
}

fn server_generates_a_key_and_ends_without_a_client() {
    let port = free_port();
    let line = format!("-s -p {port} --permit-key --permit-key-timeout 0.3");
    let done = testkit::run(ours(&line), TIMEOUT).unwrap();
    done.assert_success();
    let keys = done
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("Permit key is '"));
    let keys: Vec<_> = keys.filter_map(|rest| rest.split('\'').next()).collect();
    assert!(matches!(keys[..], [key] if key.len() > 20), "{done:#?}");
}

/// The messages of bounceback tests, streams without a header and empty connections have no field
/// for a key. The server refuses them, and does not print its key as theirs.
fn refuses_tests_without_a_field_for_the_key() {
    let (server_process, port) = start_server("--permit-key=abcd");
    let refusals = || server_process.stdout().matches("(permit key fail)").count();
    for options in ["--bounceback", "--bounceback --permit-key=abcd", "-C"] {
        let count_before = refusals();
        let line = format!("-c 127.0.0.1 -p {port} -t 1 {options}");
        let client = testkit::run(ours(&line), TIMEOUT).unwrap();
        assert_eq!(client.code, Some(1), "{client:#?}");
        let is_refused = || refusals() == count_before + 1;
        assert!(
            wait_until(TIMEOUT, is_refused),
            "{}",
            server_process.stdout()
        );
    }
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let is_reported = || server_process.stdout().contains("(null)");
    assert!(
        wait_until(TIMEOUT, is_reported),
        "{}",
        server_process.stdout()
    );
    assert!(
        !server_process.stdout().contains("[abcd("),
        "{}",
        server_process.stdout()
    );
}

/// A client's request must not load a module of the kernel.
fn server_uses_loaded_congestion_controls_only() {
    let (server_process, port) = start_server("-e");
    let run_client = |name: &str| {
        let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000 -Z {name}");
        testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    };
    run_client("reno");
    let is_used = || server_process.stdout().contains("(reno)");
    assert!(wait_until(TIMEOUT, is_used), "{}", server_process.stdout());
    run_client("nonesuch");
    let is_refused = || {
        let stderr = server_process.stderr();
        stderr.contains("does not have the client's congestion control 'nonesuch'")
    };
    assert!(
        wait_until(TIMEOUT, is_refused),
        "{}",
        server_process.stderr()
    );
    assert!(!server_process.stdout().contains("(nonesuch)"));
}

/// The default is longer than the timeout of this test.
fn server_limits_the_wait_for_a_header() {
    let (_server_process, port) = start_server("--test-exchange-timeout 0.3");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(client.read(&mut [0; 10]).unwrap_or(0), 0);
}

/// The second client's flow is number 2 of the server.
fn server_uses_the_numbers_of_clients() {
    let (server_process, port) = start_server("");
    for _ in 0..2 {
        let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000 --sync-transfer-id");
        testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    }
    let has_remapped = || {
        let output = server_process.stdout();
        let reported = output.split_once("[  2] Transfer ID 2 remapped to 1\n");
        reported.is_some_and(|(_, rest)| rest.contains("[  1] 0.0000-"))
    };
    assert!(
        wait_until(TIMEOUT, has_remapped),
        "{}",
        server_process.stdout()
    );
}

fn server_prints_dates_in_utc() {
    let (server_process, port) = start_server("-e --utc");
    let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000");
    testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    let has_zone = || server_process.stdout().contains(" (GMT)\n");
    assert!(wait_until(TIMEOUT, has_zone), "{}", server_process.stdout());
}

fn prints_a_json_document() {
    let port = free_port();
    let server_process = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    assert!(wait_until(TIMEOUT, || is_listening(port)));
    let line = format!("-c 127.0.0.1 -p {port} -n 100K --json");
    let done = TestProcess::start(&mut ours(&line)).finish(TIMEOUT);
    done.assert_success();
    let document: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(document["tests"].is_array(), "{document}");
    drop(server_process);
}

/// Returns the header of iperf 2.0.5 and older: flags, flows, port, length, window, and time in
/// hundredths of a second.
fn old_header(flags: u32, port: u16) -> Vec<u8> {
    let words = [flags, 1, port.into(), 0, 0, (-30_i32).cast_unsigned()];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns a datagram of iperf 1.7 and 2.0.5. Its number has 32 bits, and the header follows the
/// time stamp directly.
fn old_datagram(number: i32, header: &[u8]) -> Vec<u8> {
    let mut datagram = number.to_be_bytes().to_vec();
    datagram.extend([0; 8]);
    datagram.extend(header);
    datagram.resize(300, b'7');
    datagram
}

/// Starts a server of ours, and waits until it listens.
fn start_server(options: &str) -> (TestProcess, u16) {
    let port = free_port();
    let server_process = TestProcess::start(&mut ours(&format!("-s -p {port} {options}")));
    let listens = || is_listening(port) || is_bound_to_udp(port);
    assert!(wait_until(TIMEOUT, listens), "{}", server_process.stderr());
    (server_process, port)
}

fn serves_an_old_tcp_client_without_an_answer() {
    let (server_process, port) = start_server("");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.write_all(&old_header(0, port)).unwrap();
    client.write_all(&[b'5'; 1000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
    let reported = || server_process.stdout().contains("sec  1.00 KBytes");
    assert!(wait_until(TIMEOUT, reported), "{}", server_process.stdout());
}

fn runs_the_reverse_test_of_an_old_tcp_client() {
    let (_server_process, port) = start_server("");
    let back = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let header = old_header(0x8000_0001, back.local_addr().unwrap().port());
    client.write_all(&header).unwrap();
    let (mut data, _) = back.accept().unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    data.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut received = Vec::new();
    data.read_to_end(&mut received).unwrap();
    assert!(received.starts_with(b"0123456789"));
    drop(data);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
}

/// Clients of iperf 2 number datagrams from 1, and those of 1.7 from 0.
fn sends_old_udp_clients_reports_in_their_format() {
    let (_server_process, port) = start_server("-u");
    for first in [0, 1] {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let header = old_header(0, port);
        for number in first..10 {
            client.send(&old_datagram(number, &header)).unwrap();
        }
        client.send(&old_datagram(-10, &header)).unwrap();
        let mut answer = [0; 400];
        let length = client.receive(&mut answer).unwrap();
        let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
        let count = u32::try_from(11 - first).unwrap();
        assert_eq!((length, word(12)), (300, 0x8000_0000));
        // Bytes; lost, out of order, total.
        assert_eq!(
            (word(20), [word(32), word(36), word(40)]),
            (count * 300, [0, 0, count])
        );
    }
}

fn reads_the_report_of_an_old_udp_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(TIMEOUT)).unwrap();
    let port = server.local_addr().unwrap().port();
    let line = format!("-c 127.0.0.1 -p {port} -u -n 3000 -l 300 -b 1m");
    let client = TestProcess::start(&mut ours(&line));
    let mut datagram = [0; 400];
    let mut bytes = 0_u32;
    let from = loop {
        let (length, from) = server.receive_from(&mut datagram).unwrap();
        bytes += u32::try_from(length).unwrap();
        if datagram[0] & 0x80 != 0 {
            break from;
        }
    };
    let words = [0x8000_0000, 0, bytes, 1, 500_000, 0, 0, 11, 0, 9000];
    for (word, place) in words.iter().zip(datagram[12..].chunks_mut(4)) {
        place.copy_from_slice(&u32::to_be_bytes(*word));
    }
    server.send_to(&datagram[..300], from).unwrap();
    let done = client.finish(TIMEOUT);
    let tail = done
        .stdout
        .split("Server Report:")
        .nth(1)
        .unwrap_or_default();
    assert!(tail.contains("0.0000-1.5000 sec  3.22 KBytes"), "{done:#?}");
    assert!(tail.contains("9.000 ms 0/11 (0%)"), "{done:#?}");
}

/// The source address of a datagram can be forged. So the test that it requests ends when its host
/// reports that the port is closed.
fn ends_a_reverse_udp_test_if_the_port_is_closed() {
    let (server_process, port) = start_server("-u");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut request = vec![0; 16];
    request[3] = 1;
    // -R for an hour: the ordinary header with its extension.
    let words = [
        0x6c01_0098,
        1,
        port.into(),
        0,
        0,
        (-360_000_i32).cast_unsigned(),
        0,
        0,
        0x0400_0000,
        0x0002_0001,
        0x0008_0003,
        0,
        1_000_000,
        0,
        0,
    ];
    request.extend(words.iter().flat_map(|word: &u32| word.to_be_bytes()));
    request.resize(1470, 0);
    // A flow begins with its second datagram.
    for _ in 0..2 {
        client.send(&request).unwrap();
    }
    assert!(client.receive(&mut [0; 2000]).unwrap() > 0);
    drop(client);
    let ended = || server_process.stdout().contains("/sec");
    assert!(wait_until(TIMEOUT, ended), "{}", server_process.stdout());
    assert!(
        server_process.stderr().contains("Connection refused"),
        "{}",
        server_process.stderr()
    );
}

/// The numbers before the first one are lost, and the time begins with the first datagram, not with
/// the second one, which begins the flow.
fn reports_a_flow_from_its_first_datagram() {
    let (_server_process, port) = start_server("-u");
    let report = || {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        for number in [4000, 4001, -4002] {
            let mut datagram = [b'0'; 1000];
            let sent = WallTime::now();
            DatagramHeader { number, sent }.write(&mut datagram, false);
            client.send(&datagram).unwrap();
            if number == 4000 {
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        let mut answer = [0; 2000];
        let length = client.receive(&mut answer).unwrap();
        ServerReport::decode(&answer[..length]).unwrap()
    };
    // On a busy host, the server may read the first datagram late.
    let has_whole_time = || {
        let report = report();
        assert_eq!((report.lost, report.datagrams), (3999, 4002), "{report:?}");
        report.elapsed > Duration::from_millis(200)
    };
    assert!(wait_until(TIMEOUT, has_whole_time));
}

/// Returns a free port whose successor is free, too.
fn free_port_pair() -> u16 {
    let mut ports = std::iter::repeat_with(free_port);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", port + 1)).is_ok();
    ports.find(is_free).unwrap()
}

fn increments_addresses_and_ports_per_flow() {
    let (port, local) = (free_port_pair(), free_port_pair());
    let serve = format!("-s -p {port}-{}", port + 1);
    let _server_process = TestProcess::start(&mut ours(&serve));
    assert!(wait_until(TIMEOUT, || is_listening(port) && is_listening(port + 1)));
    for (options, first_flow, second_flow) in [
        (
            "--incr-dstip --incr-srcip -B 127.0.0.5".to_owned(),
            [
                "local 127.0.0.5 ".to_owned(),
                format!("with 127.0.0.1 port {port}"),
            ],
            [
                "local 127.0.0.6 ".to_owned(),
                format!("with 127.0.0.2 port {port}"),
            ],
        ),
        (
            format!("--incr-dstport --incr-srcport -B 127.0.0.1:{local}"),
            [
                format!("port {local} "),
                format!("with 127.0.0.1 port {port}"),
            ],
            [
                format!("port {} ", local + 1),
                format!("with 127.0.0.1 port {}", port + 1),
            ],
        ),
    ] {
        let line = format!("-c 127.0.0.1 -p {port} -P 2 -n 20000 -l 1000 {options}");
        let done = testkit::run(ours(&line), TIMEOUT).unwrap();
        done.assert_success();
        for parts in [first_flow, second_flow] {
            let has_all = |line: &str| parts.iter().all(|part| line.contains(part.as_str()));
            assert!(done.stdout.lines().any(has_all), "{parts:?} {done:#?}");
        }
    }
}

/// The flow without a port is reported. The other one runs.
fn reports_flow_without_a_port() {
    let server = TestProcess::start(&mut ours("-s -p 65535"));
    assert!(wait_until(TIMEOUT, || is_listening(u16::MAX)));
    let line = "-c 127.0.0.1 -p 65535 -P 2 --incr-dstport -n 1000 -l 1000";
    let done = testkit::run(ours(line), TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert_eq!(done.stderr, "65536 is not a port\n", "{done:#?}");
    assert!(done.stdout.contains("1000 Bytes"), "{done:#?}");
    drop(server);
}

/// The 41st field of proc_pid_stat(5) is the policy; 2 is SCHED_RR.
fn server_runs_in_real_time() {
    let (server_process, _) = start_server("-z");
    let stat = fs::read_to_string(format!("/proc/{}/stat", server_process.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    assert_eq!(fields.split(' ').nth(38), Some("2"), "{stat}");
}
