//! Invalid command lines of iperf 2 and iperf3: linerate prints stock's error and fails.

use std::process::Command;
use std::time::Duration;

use testkit::{Release, TestCase, run, test_case_unless};

use super::{missing_iperf2_reason, our_iperf2, our_iperf3, stock_iperf2};
use crate::iperf3::STOCK_VERSIONS;

/// Timeout of a command that measures nothing.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let details = test_case_unless(
        missing_iperf2_reason(),
        "iperf::errors_name_options_and_values",
        || {
            DETAILED_ERRORS
                .iter()
                .try_for_each(|(line, error, details)| check_details(line, error, details))
        },
    );
    let iperf2 = test_case_unless(
        missing_iperf2_reason(),
        "iperf::rejects_invalid_options_as_stock",
        || {
            let compare =
                |line: &&str| compare_first_line(line, our_iperf2(line), stock_iperf2(line));
            INVALID_IPERF2.iter().try_for_each(compare)
        },
    );
    let iperf3 = STOCK_VERSIONS.map(|stock| {
        let version = stock.version.replace('.', "_");
        let name = format!("iperf3::rejects_invalid_options_as_stock::{version}");
        stock.test_case(name, |stock| {
            let is_newest = stock.release == Release::Unstable;
            let lines = INVALID_IPERF3.iter();
            let lines = lines.chain(INVALID_SUFFIXES.iter().filter(|_| is_newest));
            lines.copied().try_for_each(|line| {
                let ours = our_iperf3(&format!("--stock-version {} {line}", stock.version));
                compare_first_line(line, ours, stock.with_args(line))
            })
        })
    });
    [details, iperf2].into_iter().chain(iperf3).collect()
}

/// Compares the first lines on standard error. Stock's usage may follow.
fn compare_first_line(line: &str, ours: Command, stock: Command) -> Result<(), String> {
    let [ours, stock] = [ours, stock].map(|command| run(command, TIMEOUT));
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let (ours, stock) = (ours.map_err(failed)?, stock.map_err(failed)?);
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let is_same = first_line(&ours.stderr) == first_line(&stock.stderr) && !ours.stderr.is_empty();
    if is_same && ours.code.is_some_and(|code| code != 0) {
        return Ok(());
    }
    Err(format!("{line}:\nours {ours:#?}\nstock {stock:#?}"))
}

/// Checks that the only line on standard error contains stock's error and these details.
fn check_details(line: &str, error: &str, details: &[&str]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let (ours, stock) = (
        run(our_iperf2(line), TIMEOUT).map_err(failed)?,
        run(stock_iperf2(line), TIMEOUT).map_err(failed)?,
    );
    let is_in_stderr = |detail: &&str| ours.stderr.contains(*detail);
    let has_details = details.iter().all(is_in_stderr) && ours.stderr.lines().count() == 1;
    let has_error = stock.stderr.contains(error) && ours.stderr.contains(error);
    if has_details && has_error && ours.code.is_some_and(|code| code != 0) {
        return Ok(());
    }
    Err(format!("{line}:\nours {ours:#?}\nstock {stock:#?}"))
}

const INCOMPATIBLE: &str =
    "ERROR: compatibility mode not supported with the requested with options";

/// Command lines, stock's errors, and the options and values that only linerate's errors contain.
const DETAILED_ERRORS: &[(&str, &str, &[&str])] = &[
    ("-c 127.0.0.1 -C -R", INCOMPATIBLE, &["-C", "-R"]),
    ("-c 127.0.0.1 -C -d", INCOMPATIBLE, &["-C", "-d"]),
    ("-c 127.0.0.1 -C -u -r", INCOMPATIBLE, &["-C", "-r"]),
    (
        "-c 127.0.0.1 -C --full-duplex",
        INCOMPATIBLE,
        &["-C", "--full-duplex"],
    ),
    (
        "-c 127.0.0.1 -u -b 1",
        "ERROR: IPG delay target of 11760.0 secs too large (max value is 60 secs)",
        &["-b 1 ", "-l 1470"],
    ),
    (
        "-c 127.0.0.1 -V",
        "ERROR: failed to find an ip address for host '127.0.0.1'",
        &["-V"],
    ),
    ("-s -B foo.invalid", "foo.invalid: ", &["-B foo.invalid"]),
];

const INVALID_IPERF2: &[&str] = &[
    "",
    "-t",
    "-Q",
    "-k",
    "--foo",
    "-c 127.0.0.1 -t abc",
    "-c 127.0.0.1 -t 1s",
    "-c 127.0.0.1 -i 0.5s",
    "-c 127.0.0.1 -u --ipg 5ms",
    "-c 127.0.0.1 -n abc",
    "-c 127.0.0.1 -n 0",
    "-c 127.0.0.1 -i abc",
    "-c 127.0.0.1 -R -d",
    "-c 127.0.0.1 -X -u",
    "-c 127.0.0.1 -b 100pps",
    "-c 127.0.0.1 -b 10k",
    "-c 127.0.0.1 --isochronous=10:0,0",
    "-c 127.0.0.1 --isochronous -b 1m",
    "-c 127.0.0.1 --isochronous --burst-period 1",
    "-c 127.0.0.1 --burst-period 1 --burst-size 20K",
    "-c 127.0.0.1 --permit-key",
    "-c 127.0.0.1 --permit-key=ab",
    "-c 127.0.0.1 --connect-only -u",
    "-c 127.0.0.1 --near-congestion -u",
    "-c 127.0.0.1 --near-congestion -b 1m",
    "-c 127.0.0.1 -u --ipg abc",
    "-c 127.0.0.1 --no-udp-fin",
    "-c 127.0.0.1 --incr-srcip",
    "-c 127.0.0.1 -D",
    "-s --bounceback",
    "-s -u --permit-key=abcd",
];

const INVALID_IPERF3: &[&str] = &[
    "",
    "-c",
    "-Q",
    "-c 127.0.0.1 -s",
    "-c 127.0.0.1 -t",
    "-c 127.0.0.1 --nosuch",
    "-c 127.0.0.1 -P 129",
    "-c 127.0.0.1 -t 86401",
    "-c 127.0.0.1 -l 2M",
    "-c 127.0.0.1 -l 2MB",
    "-c 127.0.0.1 -l -1",
    "-c 127.0.0.1 -b 1Mbit/s",
    "-c 127.0.0.1 -b 1M/abc",
    "-c 127.0.0.1 -p abc",
    "-c 127.0.0.1 --cport abc",
    "-c 127.0.0.1 -S abc",
    "-c 127.0.0.1 --dscp 46x",
    "-c 127.0.0.1 -L abc",
    "-c 127.0.0.1 -A abc",
    "-c 127.0.0.1 -R --rcv-timeout 99ms",
    "-c 127.0.0.1 -u -l 70000",
    "-c 127.0.0.1 -u -l 8",
    "-c 127.0.0.1 -w 600M",
    "-c 127.0.0.1 -M 10000",
    "-c 127.0.0.1 -i 0.01",
    "-c 127.0.0.1 -i 70",
    "-c 127.0.0.1 -b 1M/2000",
    "-c 127.0.0.1 -S 300",
    "-c 127.0.0.1 --dscp zz",
    "-c 127.0.0.1 -t 1 -n 5",
    "-c 127.0.0.1 -n 5 -k 5",
    "-c 127.0.0.1 -R --bidir",
    "-c 127.0.0.1 -p 0",
    "-c 127.0.0.1 -p 70000",
    "-c 127.0.0.1 -f x",
    "-c 127.0.0.1 -L 0",
    "-c 127.0.0.1 -1",
    "-c 127.0.0.1 --cport 70000",
    "-c 127.0.0.1 -A 5000",
    "-c 127.0.0.1 --rcv-timeout 50 -R",
    "-c 127.0.0.1 --rcv-timeout 500",
    "-c 127.0.0.1 --username mario",
    "-c 127.0.0.1 --server-bitrate-limit 5M",
    "-c 127.0.0.1 -F /nonexistent",
    "-c 127.0.0.1 -B 192.0.2.1",
    "-s -t 5",
    "-s -u",
    "-s -R",
    "-s --idle-timeout 0",
    "-s --rsa-private-key-path /nonexistent",
];

/// Sizes and rates that only the newest version refuses.
const INVALID_SUFFIXES: &[&str] = &[
    "-c 127.0.0.1 -n 10x",
    "-c 127.0.0.1 -n x",
    "-c 127.0.0.1 -k 10s",
    "-c 127.0.0.1 -l 8P",
    "-c 127.0.0.1 -w 8B",
    "-c 127.0.0.1 -b 100pps",
    "-c 127.0.0.1 -b /5",
    "-c 127.0.0.1 --fq-rate 3x",
    "-c 127.0.0.1 --pacing-timer 3x",
    "-s --server-bitrate-limit x",
];
