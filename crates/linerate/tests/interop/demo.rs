//! Interim results (`-D`): the same lines as stock's, on time. Their mean is the test's result.
//! Final TCP information (`DUMP_TCP_INFO`): the same lines as stock's, for the same tests.

use testkit::{compare_masked, figures};

use super::exchange::{Pair, Setting, run_pair, stdout_of};
use super::{Case, CaseResult};

/// The compared tests, the unit of their results, and whether they open a connection per
/// transaction.
const TESTS: [(&str, &str, bool); 8] = [
    ("TCP_STREAM", "10^6bits/s", false),
    ("TCP_MAERTS", "10^6bits/s", false),
    ("TCP_SENDFILE", "10^6bits/s", false),
    ("UDP_STREAM", "10^6bits/s", false),
    ("TCP_RR", "Trans/s", false),
    ("UDP_RR", "Trans/s", false),
    ("TCP_CRR", "Trans/s", true),
    ("TCP_CC", "Trans/s", true),
];

/// Test options for each output format.
const FORMATS: [&[&str]; 4] = [
    &[],
    &["-O", "THROUGHPUT"],
    &["-o", "THROUGHPUT"],
    &["-k", "THROUGHPUT"],
];

pub(crate) fn cases() -> Vec<Case> {
    let tests = TESTS.into_iter().map(|(test, unit, connects)| {
        let run = move || compare_interim_results(test, unit, connects);
        Case::new(format!("demo::{test}"), run)
            .in_namespace(connects)
            .run_alone()
    });
    let others = [
        Case::new("demo::results_only", results_only),
        Case::new("demo::to_stock", to_stock).run_alone(),
        Case::new("demo::tcp_info", tcp_info).in_namespace(true),
    ];
    tests.chain(others).collect()
}

fn compare_interim_results(test: &str, unit: &str, connects: bool) -> CaseResult {
    let setting = Setting::PLAIN.in_namespace(connects);
    let formats = match test {
        // These tests only print a table.
        "TCP_SENDFILE" | "TCP_CC" => &FORMATS[..1],
        "TCP_STREAM" | "TCP_RR" => &FORMATS,
        _ => &FORMATS[2..3],
    };
    for format in formats {
        let args = [&["-t", test, "-l", "1", "-D", "0.3", "--"], *format].concat();
        let ours = stdout_of(Pair::OURS, setting, &args)?;
        let stock = stdout_of(Pair::STOCK, setting, &args)?;
        let (mut our_lines, stock_lines) = (interim_lines(&ours), interim_lines(&stock));
        if test == "TCP_CC" {
            // Stock prints the number of connections as bits.
            our_lines = our_lines.replace(unit, "10^6bits/s");
        } else if !our_lines.contains(unit) {
            return Err(format!("{test}: the unit is not {unit}: {ours}"));
        }
        // Stock estimates when to print, so the number of lines may differ.
        let common_lines = our_lines.lines().count().min(stock_lines.lines().count());
        let first_lines = |text: &str| {
            text.lines()
                .take(common_lines)
                .map(|line| line.to_owned() + "\n")
                .collect::<String>()
        };
        compare_masked(&first_lines(&our_lines), &first_lines(&stock_lines))
            .map_err(|difference| format!("{test} {format:?}: {difference}"))?;
        check_mean(&our_lines, &ours, test)?;
    }
    Ok(())
}

/// Returns the lines with interim results.
fn interim_lines(text: &str) -> String {
    let is_interim = |line: &&str| {
        line.starts_with("Interim result: ")
            || line.starts_with("NETPERF_")
            || (line.split(',').count() == 4 && !figures(line).is_empty())
    };
    text.lines()
        .filter(is_interim)
        .map(|line| line.to_owned() + "\n")
        .collect()
}

/// Checks that the mean of the interim results, weighted by their times, is the final result.
fn check_mean(lines: &str, text: &str, test_name: &str) -> CaseResult {
    // In each format, an interim result has a rate, an interval, and an end time.
    let without_brackets = lines.replace(']', "");
    let numbers = figures(&without_brackets);
    let results: Vec<&[f64]> = numbers.chunks_exact(3).collect();
    let fail = |reason: &str| Err(format!("{test_name}: {reason}: {text}"));
    // Three or four are usual. On a busy machine they are late.
    if results.len() < 2 {
        return fail("too few interim results");
    }
    for pair in results.windows(2) {
        // End times are milliseconds of the wall clock; intervals are from the monotonic clock.
        if (pair[1][2] - pair[0][2] - pair[1][1]).abs() > 0.003 {
            return fail("an interval does not begin at the end of the previous one");
        }
    }
    let is_table = text.contains("bytes");
    if is_table || test_name == "UDP_STREAM" {
        // The result is not the last figure, or counts only received datagrams.
        return Ok(());
    }
    let time: f64 = results.iter().map(|result| result[1]).sum();
    let work: f64 = results.iter().map(|result| result[0] * result[1]).sum();
    let throughput = figures(text).into_iter().last().unwrap_or_default();
    let excess = work / time / throughput - 1.0;
    // A sender's last interval ends with its sending time; its result also covers the drain time.
    let max_excess = if test_name == "TCP_STREAM" {
        f64::INFINITY
    } else {
        0.02
    };
    if !(-0.02..=max_excess).contains(&excess) {
        return fail("the mean of the interim results is not the result");
    }
    Ok(())
}

/// `-P 0 -v 0` prints results only.
fn results_only() -> CaseResult {
    let args = ["-P", "0", "-v", "0", "-D", "-0.25", "-l", "1"];
    let text = stdout_of(Pair::OURS, Setting::PLAIN, &args)?;
    let lines: Vec<&str> = text.lines().collect();
    let Some((last, interim)) = lines.split_last() else {
        return Err("no output".to_owned());
    };
    let all_interim = interim
        .iter()
        .all(|line| line.starts_with("Interim result: "));
    if !all_interim || interim.len() < 2 || last.trim().parse::<f64>().is_err() {
        return Err(text);
    }
    Ok(())
}

/// Interim results do not depend on the server.
fn to_stock() -> CaseResult {
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR"] {
        let args = ["-t", test, "-l", "1", "-D", "0.3", "--", "-o", "THROUGHPUT"];
        let text = stdout_of(Pair::OURS_TO_STOCK, Setting::PLAIN, &args)?;
        check_mean(&interim_lines(&text), &text, test)?;
    }
    Ok(())
}

fn tcp_info() -> CaseResult {
    let setting = Setting {
        environment: &[("DUMP_TCP_INFO", "1")],
        namespace: true,
        ..Setting::PLAIN
    };
    for (test, _, _) in TESTS {
        let args = ["-t", test, "-l", "-1000"];
        let stderr = |pair| run_pair(pair, setting, &args).map(|finished| finished.stderr);
        let (ours, stock) = (stderr(Pair::OURS_TO_STOCK)?, stderr(Pair::STOCK)?);
        compare_masked(&ours, &stock).map_err(|difference| format!("{test}: {difference}"))?;
    }
    Ok(())
}
