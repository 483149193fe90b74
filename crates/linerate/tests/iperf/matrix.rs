//! iperf 2 compared with several versions of stock iperf, in every combination of client and server.
//! Ours prints the lines that stock prints against itself, with other figures.

use std::collections::BTreeSet;
use std::process::Command;

use rustix::process::Signal;
use testkit::{StockPeer, TestCase, TestProcess, free_port, is_listening, wait_until};

use super::{STOCK_VERSIONS, TIMEOUT, is_bound_to_udp, ours};

/// Name, arguments of the server, arguments of the client.
const CASES: &[(&str, &str, &str)] = &[
    ("tcp", "", "-t 0.4 -b 8m -l 10000"),
    ("tcp_more", "-e", "-t 0.4 -b 8m -l 10000 -e"),
    (
        "tcp_full_duplex_more",
        "-e",
        "-t 0.4 -b 8m -l 10000 --full-duplex -e",
    ),
    (
        "tcp_full_duplex_parallel",
        "-e",
        "-t 0.4 -b 8m -l 10000 --full-duplex -P 2 -e",
    ),
    (
        "tcp_full_duplex_parallel_intervals",
        "",
        "-t 0.8 -b 8m -l 10000 --full-duplex -P 2 -e -i 0.3",
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
    (
        "tcp_csv_sum_only",
        "-y C --sum-only",
        "-t 0.4 -b 8m -l 10000 -P 2 -y C --sum-only",
    ),
    (
        "udp_full_duplex_parallel",
        "-u",
        "-u -t 0.4 -b 400k --full-duplex -P 2",
    ),
    (
        "udp_full_duplex_parallel_more",
        "-u -e",
        "-u -t 0.4 -b 400k --full-duplex -P 2 -e",
    ),
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
    (
        "udp_jitter_histograms",
        "-u --jitter-histograms -i 0.3",
        "-u -t 0.5 -b 400k",
    ),
    (
        "udp_both_histograms",
        "-u --histograms --jitter-histograms=50",
        "-u -t 0.4 -b 400k --trip-times",
    ),
    (
        "tcp_jitter_histograms",
        "--jitter-histograms",
        "-t 0.4 -b 8m -l 10000 --jitter-histograms",
    ),
    (
        "udp_client_jitter_histograms",
        "-u",
        "-u -t 0.4 -b 400k --jitter-histograms",
    ),
    (
        "tcp_fq_rate_step",
        "",
        "-t 0.4 -b 8m -l 10000 --fq-rate 400m --fq-rate-step 100m --fq-rate-step-interval 0.1",
    ),
    (
        "tcp_fq_rate_step_alone",
        "-e",
        "-t 0.4 -b 8m -l 10000 --fq-rate-step 400m -i 0.3",
    ),
    (
        "udp_fq_rate_step",
        "-u",
        "-u -t 0.4 -b 400k --fq-rate 400m --fq-rate-step 100m",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// linerate with the output of this version.
    Ours(&'static str),
    Stock(StockPeer),
}

pub(super) fn test_cases() -> Vec<TestCase> {
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
            let compare = move |stock| prints_lines_of_stock([stock, stock], (server, client));
            let test_case = stock.test_case(format!("stock_{name}::{version}"), compare);
            test_cases.push(test_case.allow_many_at_once());
        }
    }
    let [older, newer] = STOCK_VERSIONS;
    for (pair, mix) in [
        ([older, newer], "older_server"),
        ([newer, older], "newer_server"),
    ] {
        for (name, server, client) in CASES {
            let compare = move |_| prints_lines_of_stock(pair, (server, client));
            // The newer program may be missing.
            let test_case = newer.test_case(format!("mixed_{name}::{mix}"), compare);
            test_cases.push(test_case.allow_many_at_once());
        }
    }
    test_cases
}

pub(super) fn command(program: Program, arguments: &str) -> Command {
    match program {
        Program::Ours(version) => ours(&format!("--stock-version {version} {arguments}")),
        Program::Stock(stock) => stock.with_args(arguments),
    }
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
/// machine: with a loss or without a rate. So a difference counts only if it occurs five times.
pub(super) fn prints_lines_of_stock(
    pair: [StockPeer; 2],
    options: (&str, &str),
) -> Result<(), String> {
    const REPETITIONS: usize = 4;
    let attempt = || {
        let [server, client] = pair.map(Program::Stock);
        let output = run(server, client, options)?;
        compare(pair, &output, options)
    };
    (0..REPETITIONS).fold(attempt(), |result, _| result.or_else(|_| attempt()))
}

/// Compares the lines in any order. `pair` is stock's server and client, and `stock_output` the output of client and server.
fn compare(
    pair: [StockPeer; 2],
    stock_output: &[String; 2],
    options: (&str, &str),
) -> Result<(), String> {
    let [server, client] = pair.map(Program::Stock);
    let [our_server, our_client] = pair.map(|stock| Program::Ours(stock.version));
    for (at_server, at_client) in [
        (our_server, our_client),
        (our_server, client),
        (server, our_client),
    ] {
        let printed = run(at_server, at_client, options)?;
        for (role, program, (ours, stock)) in [
            ("client", at_client, (&printed[0], &stock_output[0])),
            ("server", at_server, (&printed[1], &stock_output[1])),
        ] {
            let (ours, stock) = (masked(ours), masked(stock));
            if matches!(program, Program::Ours(_)) && ours != stock {
                return Err(format!(
                    "{role} of {at_server:?} server and {at_client:?} client:\nours {ours:#?}\nstock {stock:#?}"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the lines without their figures and without the prefixes of units.
pub(super) fn masked(text: &str) -> BTreeSet<String> {
    // Stock sometimes asks for the window of a socket that is not open. Its server sometimes counts
    // the first datagrams of one flow in another.
    let is_random = |line: &&str| line.contains("window size: -") || line.contains("out-of-order");
    text.lines()
        .filter(|line| !is_random(line))
        .map(masked_line)
        .collect()
}

/// Removes the columns that 2.2.1 leaves out of the last line of a sender with `--fq-rate`.
fn without_pacing_columns(masked: &str) -> String {
    let masked = masked.replace("#K(#)/#K(#)/#(#) us # bit/sec", "#K/#(#) us");
    masked.replace("#K(#)/#K/#(#) us # bit/sec", "#K/#(#) us")
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
    let masked = without_pacing_columns(&masked);
    match masked
        .split_once(") ")
        .zip(masked.split_once(" is before now "))
    {
        Some(((option, _), (_, now))) => format!("{option}) is before now {now}"),
        None => masked,
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
