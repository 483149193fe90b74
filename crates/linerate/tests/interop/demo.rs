//! Interim results (`-D`): stock's lines with figures of our own, on time, and together the test.
//! What TCP says at the end (`DUMP_TCP_INFO`): stock's lines, where stock prints them.

use testkit::{compare_masked, figures};

use super::exchange::{Pair, Setting, exchange, succeed};
use super::{Case, Outcome};

/// Every test with data, the unit of its results, and whether it connects for each transaction.
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

/// The forms of output, as test options.
const FORMS: [&[&str]; 4] = [
    &[],
    &["-O", "THROUGHPUT"],
    &["-o", "THROUGHPUT"],
    &["-k", "THROUGHPUT"],
];

pub(crate) fn cases() -> Vec<Case> {
    let tests = TESTS.into_iter().map(|(test, unit, connects)| {
        let run = move || lines_are_stocks_and_add_up(test, unit, connects);
        Case::against_stock(format!("demo::{test}"), run)
            .inside(connects)
            .quiet()
    });
    let more = [
        Case::against_stock("demo::brief", brief),
        Case::against_stock("demo::to_stock", to_stock).quiet(),
        Case::against_stock("demo::tcp_info", tcp_info).inside(true),
    ];
    tests.chain(more).collect()
}

fn lines_are_stocks_and_add_up(test: &str, unit: &str, connects: bool) -> Outcome {
    let setting = Setting::PLAIN.inside(connects);
    let forms = match test {
        // These have a table and nothing else.
        "TCP_SENDFILE" | "TCP_CC" => &FORMS[..1],
        "TCP_STREAM" | "TCP_RR" => &FORMS,
        _ => &FORMS[2..3],
    };
    for form in forms {
        let args = [&["-t", test, "-l", "1", "-D", "0.3", "--"], *form].concat();
        let ours = succeed(Pair::OURS, setting, &args)?;
        let stock = succeed(Pair::CONTROL, setting, &args)?;
        let (mut mine, theirs) = (interim(&ours), interim(&stock));
        if test == "TCP_CC" {
            // What it counts is connections, which stock prints as bits.
            mine = mine.replace(unit, "10^6bits/s");
        } else if !mine.contains(unit) {
            return Err(format!("{test}: not in {unit}: {ours}"));
        }
        // As many lines as both have: stock's come when its guess of them was right.
        let lines = mine.lines().count().min(theirs.lines().count());
        let first = |text: &str| {
            text.lines()
                .take(lines)
                .map(|line| line.to_owned() + "\n")
                .collect::<String>()
        };
        compare_masked(&first(&mine), &first(&theirs))
            .map_err(|why| format!("{test} {form:?}: {why}"))?;
        add_up(&mine, &ours, test)?;
    }
    Ok(())
}

/// What comes before the result.
fn interim(text: &str) -> String {
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

/// The mean of the results, by their times, is the result.
fn add_up(lines: &str, text: &str, name: &str) -> Outcome {
    // Of a sentence, a line of fields, or four keys: a rate, a time, and when that ended.
    let flat = lines.replace(']', "");
    let numbers = figures(&flat);
    let results: Vec<&[f64]> = numbers.chunks_exact(3).collect();
    let wrong = |what: &str| Err(format!("{name}: {what}: {text}"));
    // Three or four, but on a machine that is busy with other things they come late.
    if results.len() < 2 {
        return wrong("too few results");
    }
    for pair in results.windows(2) {
        // The labels are from the wall clock and have milliseconds, the times are from the monotonic
        // one.
        if (pair[1][2] - pair[0][2] - pair[1][1]).abs() > 0.003 {
            return wrong("a result does not begin where the last one ended");
        }
    }
    let is_table = text.contains("bytes");
    if is_table || name == "UDP_STREAM" {
        // The result is not the last figure, or is of what arrived.
        return Ok(());
    }
    let time: f64 = results.iter().map(|result| result[1]).sum();
    let work: f64 = results.iter().map(|result| result[0] * result[1]).sum();
    let throughput = figures(text).into_iter().last().unwrap_or_default();
    let excess = work / time / throughput - 1.0;
    // A sender's results end with its time, its throughput when the receiver has read everything.
    let most = if name == "TCP_STREAM" {
        f64::INFINITY
    } else {
        0.02
    };
    if !(-0.02..=most).contains(&excess) {
        return wrong("the results are not the test");
    }
    Ok(())
}

/// `-P 0 -v 0`: nothing but results.
fn brief() -> Outcome {
    let args = ["-P", "0", "-v", "0", "-D", "-0.25", "-l", "1"];
    let text = succeed(Pair::OURS, Setting::PLAIN, &args)?;
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

/// The server has no part in it.
fn to_stock() -> Outcome {
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR"] {
        let args = ["-t", test, "-l", "1", "-D", "0.3", "--", "-o", "THROUGHPUT"];
        let text = succeed(Pair::TESTED[0], Setting::PLAIN, &args)?;
        add_up(&interim(&text), &text, test)?;
    }
    Ok(())
}

fn tcp_info() -> Outcome {
    let setting = Setting {
        environment: &[("DUMP_TCP_INFO", "1")],
        namespace: true,
        ..Setting::PLAIN
    };
    for (test, _, _) in TESTS {
        let args = ["-t", test, "-l", "-1000"];
        let said = |pair| exchange(pair, setting, &args).map(|finished| finished.stderr);
        let (ours, stock) = (said(Pair::TESTED[0])?, said(Pair::CONTROL)?);
        compare_masked(&ours, &stock).map_err(|why| format!("{test}: {why}"))?;
    }
    Ok(())
}
