//! `all`: every selector, in each of the three forms, and `?`.

use testkit::{Implementation, compare_masked, key_values};

use super::exchange::{Pair, Setting, exchange, succeed};
use super::{Case, Outcome};

/// Tests that between them fill in every selector, with a length that ends by count.
const TESTS: &[(&str, &str)] = &[
    ("tcp_stream", "-t TCP_STREAM -l -2M --"),
    ("tcp_stream_cpu", "-t TCP_STREAM -l -20M -c -C --"),
    ("tcp_maerts", "-t TCP_MAERTS -l -2M --"),
    ("tcp_rr", "-t TCP_RR -l -200 --"),
    ("tcp_crr", "-t TCP_CRR -l -200 --"),
    ("udp_stream", "-t UDP_STREAM -l -2M -- -R 1"),
    ("udp_rr", "-t UDP_RR -l -200 --"),
    // Sizes of calls, which these tests only print.
    (
        "tcp_rr_call_sizes",
        "-t TCP_RR -l -200 -- -m 100,200 -M 300,400",
    ),
    ("udp_rr_call_sizes", "-t UDP_RR -l -200 -- -m 100 -M ,400"),
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

/// A selector whose name has one of these in it is a fact that the stock tool has given up to find
/// out, or tells only when it was asked for. Ours tells it.
pub(crate) const FACTS: &[&str] = &[
    "SYSNAME",
    "SYSTEM_MODEL",
    "_RELEASE",
    "_VERSION",
    "_MACHINE",
    "INTERFACE_",
    "DRIVER_",
    "_SECURITY_",
    "CPU_MODEL",
    "CPU_FREQUENCY",
    "CPU_COUNT",
    "SOCKET_PRIO",
    "SOCKET_TOS",
];

/// Compares an output of a pair with the control's.
type Compare = fn(Pair, &str, &str) -> Outcome;

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
    for form in ["-k", "-o", "-O"] {
        let name = format!("selections::list::{form}");
        cases.push(Case::against_stock(name, move || list(form)));
    }
    cases
}

/// `?` has the stock tool's names in its order, with ours before the last.
fn list(form: &str) -> Outcome {
    let args = ["-t", "OMNI", "--", form, "?"];
    let names = |pair: Pair| -> Result<(Vec<String>, String), String> {
        let finished = exchange(pair, Setting::PLAIN, &args)?;
        if finished.code != Some(1) {
            return Err(format!("exit {:?}", finished.code));
        }
        let separator = if form == "-O" { '\n' } else { ',' };
        let text = finished.stdout;
        let names = text.trim_end().split(separator).map(str::to_owned);
        Ok((names.collect(), text))
    };
    let (control, control_text) = names(Pair::CONTROL)?;
    let (mut ours, ours_text) = names(Pair::OURS)?;
    let added = ours.len().saturating_sub(control.len());
    let place = control.len() - 1;
    let own: Vec<String> = ours.drain(place..place + added).collect();
    if ours != control || own.is_empty() {
        return Err(format!("{ours:?} and {own:?}\ncontrol {control:?}"));
    }
    if ours_text.ends_with('\n') != control_text.ends_with('\n') {
        return Err("the end of the line differs".to_owned());
    }
    Ok(())
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
        if let Err(error) = compare(pair, &ours, &control) {
            wrong.push(format!("{}: {error}", pair.name()));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("netperf {}\n{}", args.join(" "), wrong.join("\n")))
}

/// The same keys in the same order, settings to the letter, and facts where they can be known.
fn keyval(pair: Pair, ours: &str, control: &str) -> Outcome {
    compare_masked(
        ours.lines().next().unwrap_or_default(),
        control.lines().next().unwrap_or_default(),
    )
    .map_err(|difference| difference.to_string())?;
    let (ours, control) = (key_values(ours), key_values(control));
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
        .filter(|((key, ours), (_, control))| {
            if is_told(key, pair) {
                ["Deprecated", "0xfffffffe", "0xffffffff"].contains(ours) && is_always_known(key)
            } else {
                ours != control && !is_measured(key)
            }
        })
        .map(|((key, ours), (_, control))| format!("{key}={ours}, control {control}"))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("; "))
}

/// Whether a fact is one that this pair's client finds out: of its own host, or of ours.
fn is_told(key: &str, pair: Pair) -> bool {
    FACTS.iter().any(|part| key.contains(part))
        && pair.client == Implementation::Ours
        && (key.starts_with("LOCAL_") || pair.server == Implementation::Ours)
}

/// The loopback has no PCI device.
fn is_always_known(key: &str) -> bool {
    !["VENDOR", "DEVICE"].iter().any(|part| key.ends_with(part))
}

fn is_measured(key: &str) -> bool {
    key != "THROUGHPUT_UNITS" && MEASURED.iter().any(|part| key.contains(part))
}

/// The same banner and header, and as many columns.
fn csv(pair: Pair, ours: &str, control: &str) -> Outcome {
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
    let without_facts = |text: &str| without_facts(text, pair);
    compare_masked(&without_facts(ours), &without_facts(control))
        .map_err(|difference| difference.to_string())
}

/// The text with a mark in place of what this pair finds out and the control does not.
fn without_facts(text: &str, pair: Pair) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let [_, header, values] = &mut lines[..] {
        let keys = header.split(',').map(|title| {
            let key = title.to_ascii_uppercase().replace(' ', "_");
            // The words of two of them do not make their names.
            key.replace("_OS_", "_")
                .replace("SOCKET_PRIORITY", "SOCKET_PRIO")
        });
        let masked =
            keys.zip(values.split(',')).map(
                |(key, value)| {
                    if is_told(&key, pair) { "fact" } else { value }
                },
            );
        *values = masked.collect::<Vec<_>>().join(",");
    }
    lines.join("\n")
}

/// The same headers, and every column of a block as wide as its longest line wants it: a block's lines
/// are equally long. The values are the business of the other two forms.
fn human(_: Pair, ours: &str, control: &str) -> Outcome {
    let headers = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !is_banner(line));
        let headers = lines.enumerate().filter(|(number, _)| number % 6 != 4);
        let words = headers.map(|(_, line)| line.split_ascii_whitespace().collect::<Vec<_>>());
        words.map(|words| words.join(" ")).collect()
    };
    if headers(ours) != headers(control) {
        return Err(format!(
            "headers {:#?}\ncontrol {:#?}",
            headers(ours),
            headers(control)
        ));
    }
    compare_masked(
        ours.lines().next().unwrap_or_default(),
        control.lines().next().unwrap_or_default(),
    )
    .map_err(|difference| difference.to_string())?;
    for block in ours.split("\n\n").filter(|block| !block.is_empty()) {
        let lines = block.lines().filter(|line| !is_banner(line));
        let widths: Vec<usize> = lines.map(|line| line.chars().count()).collect();
        if widths.iter().any(|width| *width != widths[0]) {
            return Err(format!(
                "lines of {widths:?} columns in one block:\n{block}"
            ));
        }
    }
    Ok(())
}

fn is_banner(line: &str) -> bool {
    line.contains(" TEST from ")
}
