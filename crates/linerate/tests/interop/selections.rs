//! `all`: every selector, in each of the three forms.

use testkit::{keyvals, same_text};

use crate::exchange::{Pair, Setting, succeed};
use crate::{Case, Outcome};

/// Tests that between them fill in every selector, with a length that ends by count.
const TESTS: &[(&str, &str)] = &[
    ("tcp_stream", "-t TCP_STREAM -l -2M --"),
    ("tcp_stream_cpu", "-t TCP_STREAM -l -20M -c -C --"),
    ("tcp_maerts", "-t TCP_MAERTS -l -2M --"),
    ("tcp_rr", "-t TCP_RR -l -200 --"),
    ("tcp_crr", "-t TCP_CRR -l -200 --"),
    ("udp_stream", "-t UDP_STREAM -l -2M -- -R 1"),
    ("udp_rr", "-t UDP_RR -l -200 --"),
    ("omni_send", "-t OMNI -l -2M -- -d send"),
    ("omni_recv", "-t OMNI -l -2M -- -d recv"),
    ("omni_connect_close", "-t OMNI -l -200 -- -c"),
    (
        "settings",
        "-t TCP_STREAM -l -2M -B brand -a 16,32 -A 64,128 -o 1,2 -O 3,4 -W 5,6 -T 0,0 -y 1,2 \
         -Y 0x20,0x40 -- -s 32K,48K -S 20K,24K -m 1000 -M 2000 -D -P 0,0 -L 127.0.0.1,4 -H 127.0.0.2",
    ),
];

/// A selector whose name has one of these in it is measured; every other is a setting.
const MEASURED: &[&str] = &[
    "THROUGHPUT",
    "ELAPSED_TIME",
    "TRANSACTION_RATE",
    "LATENCY",
    "UTIL",
    "PERCENT",
    "PEAK",
    "_SD",
    "CALLS",
    "_BYTES_",
    "RETRANS",
    // The kernel sizes buffers and segments by what it sees.
    "SIZE_END",
    "TRANSPORT_MSS",
    // It holds the server's port.
    "COMMAND_LINE",
];

/// Compares an output with the control's.
type Compare = fn(&str, &str) -> Outcome;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(test, line) in TESTS {
        let forms: [(&str, Compare); 3] = [("-k", keyval), ("-o", csv), ("-O", human)];
        for (form, compare) in forms {
            let name = format!("selections::{test}::{form}");
            let case = Case::against_stock(name, move || compared(line, form, compare));
            cases.push(case.inside(line.contains("CRR") || line.ends_with("-c")));
        }
    }
    cases
}

fn compared(line: &str, form: &str, compare: Compare) -> Outcome {
    let namespace = line.contains("CRR") || line.ends_with("-c");
    let setting = Setting::PLAIN.inside(namespace);
    let mut args: Vec<&str> = line.split_ascii_whitespace().collect();
    args.extend(["-u", "name", form, "all"]);

    let control = succeed(Pair::CONTROL, setting, &args)?;
    let mut wrong = Vec::new();
    for pair in Pair::TESTED {
        let ours = succeed(pair, setting, &args)?;
        if let Err(error) = compare(&ours, &control) {
            wrong.push(format!("{}: {error}", pair.name()));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("netperf {}\n{}", args.join(" "), wrong.join("\n")))
}

/// The same keys in the same order, and settings to the letter.
fn keyval(ours: &str, control: &str) -> Outcome {
    same_text(
        ours.lines().next().unwrap_or_default(),
        control.lines().next().unwrap_or_default(),
    )
    .map_err(|difference| difference.to_string())?;
    let (ours, control) = (keyvals(ours), keyvals(control));
    let keys = |pairs: &[(&str, &str)]| -> Vec<String> {
        pairs.iter().map(|(key, _)| (*key).to_owned()).collect()
    };
    if keys(&ours) != keys(&control) {
        return Err(format!(
            "keys {:?}\ncontrol {:?}",
            keys(&ours),
            keys(&control)
        ));
    }
    let wrong: Vec<String> = ours
        .iter()
        .zip(&control)
        .filter(|((key, ours), (_, control))| ours != control && !is_measured(key))
        .map(|((key, ours), (_, control))| format!("{key}={ours}, control {control}"))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("; "))
}

fn is_measured(key: &str) -> bool {
    key != "THROUGHPUT_UNITS" && MEASURED.iter().any(|part| key.contains(part))
}

/// The same banner and header, and as many columns.
fn csv(ours: &str, control: &str) -> Outcome {
    same_text(ours, control).map_err(|difference| difference.to_string())?;
    let columns = |text: &str| -> Vec<usize> {
        text.lines()
            .skip(1)
            .map(|line| line.split(',').count())
            .collect()
    };
    if columns(ours) != columns(control) {
        let (ours, control) = (columns(ours), columns(control));
        return Err(format!("{ours:?} columns, control {control:?}"));
    }
    Ok(())
}

/// The same text, and every column of a block as wide as its longest line wants it: a block's lines
/// are equally long.
fn human(ours: &str, control: &str) -> Outcome {
    same_text(ours, control).map_err(|difference| difference.to_string())?;
    for block in ours.split("\n\n").filter(|block| !block.is_empty()) {
        let lines = block.lines().filter(|line| !line.contains(" TEST from "));
        let widths: Vec<usize> = lines.map(str::len).collect();
        if widths.iter().any(|width| *width != widths[0]) {
            return Err(format!(
                "lines of {widths:?} columns in one block:\n{block}"
            ));
        }
    }
    Ok(())
}
