//! Wrong command lines of both iperfs: stock's words where stock ends, and an exit code that is not 0.

use std::process::Command;
use std::time::Duration;

use testkit::{TestCase, run, test_case_unless};

use super::{ours2, ours3, stock2, stock2_missing, stock3, stock3_missing};

/// Nothing is measured.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let case = |name, missing, makes: [fn(&str) -> Command; 2], lines: &'static [&'static str]| {
        test_case_unless(missing, name, move || {
            lines.iter().try_for_each(|line| agrees(makes, line))
        })
    };
    vec![
        test_case_unless(stock2_missing(), "iperf::wrong_words_are_named", || {
            NAMED
                .iter()
                .try_for_each(|(line, words, names)| named(line, words, names))
        }),
        case(
            "iperf::wrong_words",
            stock2_missing(),
            [ours2, stock2],
            IPERF2,
        ),
        case(
            "iperf3::wrong_words",
            stock3_missing(),
            [ours3, stock3],
            IPERF3,
        ),
    ]
}

/// The first line on standard error is stock's; what follows there is its usage, or nothing.
fn agrees([ours, stock]: [fn(&str) -> Command; 2], line: &str) -> Result<(), String> {
    let [ours, stock] = [ours, stock].map(|make| run(make(line), PATIENCE));
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let (ours, stock) = (ours.map_err(failed)?, stock.map_err(failed)?);
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let says_so = first(&ours.stderr) == first(&stock.stderr) && !ours.stderr.is_empty();
    if says_so && ours.code.is_some_and(|code| code != 0) {
        return Ok(());
    }
    Err(format!("{line}:\nours {ours:#?}\nstock {stock:#?}"))
}

/// The only line on standard error has stock's words, and the option and the value that are wrong.
fn named(line: &str, words: &str, names: &[&str]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let (ours, stock) = (
        run(ours2(line), PATIENCE).map_err(failed)?,
        run(stock2(line), PATIENCE).map_err(failed)?,
    );
    let has = |name: &&str| ours.stderr.contains(*name);
    let is_named = names.iter().all(has) && ours.stderr.lines().count() == 1;
    let says_so = stock.stderr.contains(words) && ours.stderr.contains(words);
    if is_named && says_so && ours.code.is_some_and(|code| code != 0) {
        return Ok(());
    }
    Err(format!("{line}:\nours {ours:#?}\nstock {stock:#?}"))
}

const INCOMPATIBLE: &str =
    "ERROR: compatibility mode not supported with the requested with options";

/// Lines, stock's words, and the names of options and values that these words lack.
const NAMED: &[(&str, &str, &[&str])] = &[
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

const IPERF2: &[&str] = &[
    "",
    "-t",
    "-Q",
    "-k",
    "--foo",
    "-c 127.0.0.1 -t abc",
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

const IPERF3: &[&str] = &[
    "",
    "-c",
    "-Q",
    "-c 127.0.0.1 -s",
    "-c 127.0.0.1 -t",
    "-c 127.0.0.1 --nosuch",
    "-c 127.0.0.1 -P 129",
    "-c 127.0.0.1 -t 86401",
    "-c 127.0.0.1 -l 2M",
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
