//! The selections `all`, with every selector in each of the three formats, and `?`.

use testkit::{Implementation, compare_masked, key_values};

use super::exchange::{Pair, Setting, run_pair, stdout_of};
use super::{Case, CaseResult};

/// Tests that together fill in every selector. Each ends by count.
const TESTS: &[(&str, &str)] = &[
    ("tcp_stream", "-t TCP_STREAM -l -2M --"),
    ("tcp_stream_cpu", "-t TCP_STREAM -l -20M -c -C --"),
    ("tcp_maerts", "-t TCP_MAERTS -l -2M --"),
    ("tcp_rr", "-t TCP_RR -l -200 --"),
    ("tcp_crr", "-t TCP_CRR -l -200 --"),
    ("udp_stream", "-t UDP_STREAM -l -2M -- -R 1"),
    ("udp_rr", "-t UDP_RR -l -200 --"),
    // These tests print call sizes but do not use them.
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

/// Parts of the names of measured selectors. All others are settings.
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
    // The kernel adapts buffers and segments to the traffic.
    "SIZE_END",
    "TRANSPORT_MSS",
    // It contains the server's port.
    "COMMAND_LINE",
];

/// Parts of the names of facts that stock never reports, or reports only on request. Ours reports
/// them.
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

/// Compares a pair's output with the stock pair's.
type Compare = fn(Pair, &str, &str) -> CaseResult;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(test, line) in TESTS {
        let formats: [(&str, Compare); 3] = [
            ("-k", compare_key_values),
            ("-o", compare_csv),
            ("-O", compare_columns),
        ];
        for (format, compare) in formats {
            let name = format!("selections::{test}::{format}");
            let case = Case::new(name, move || compare_format(line, format, compare));
            cases.push(case.in_namespace(line.contains("CRR") || line.ends_with("-c")));
        }
    }
    for format in ["-k", "-o", "-O"] {
        let name = format!("selections::list::{format}");
        cases.push(Case::new(name, move || list(format)));
    }
    cases
}

/// `?` lists the stock tool's names in its order, with our additions before the last.
fn list(format: &str) -> CaseResult {
    let args = ["-t", "OMNI", "--", format, "?"];
    let names = |pair: Pair| -> Result<(Vec<String>, String), String> {
        let finished = run_pair(pair, Setting::PLAIN, &args)?;
        if finished.code != Some(1) {
            return Err(format!("exit code {:?}", finished.code));
        }
        let separator = if format == "-O" { '\n' } else { ',' };
        let text = finished.stdout;
        let names = text.trim_end().split(separator).map(str::to_owned);
        Ok((names.collect(), text))
    };
    let (stock, stock_text) = names(Pair::STOCK)?;
    let (mut ours, our_text) = names(Pair::OURS)?;
    let added_count = ours.len().saturating_sub(stock.len());
    let start = stock.len() - 1;
    let added: Vec<String> = ours.drain(start..start + added_count).collect();
    if ours != stock || added.is_empty() {
        return Err(format!("{ours:?}, added {added:?}\nstock {stock:?}"));
    }
    if our_text.ends_with('\n') != stock_text.ends_with('\n') {
        return Err("the end of the line differs".to_owned());
    }
    Ok(())
}

fn compare_format(line: &str, format: &str, compare: Compare) -> CaseResult {
    let namespace = line.contains("CRR") || line.ends_with("-c");
    let setting = Setting::PLAIN.in_namespace(namespace);
    let mut args: Vec<&str> = line.split_ascii_whitespace().collect();
    args.extend(["-u", "name", format, "all"]);

    let stock = stdout_of(Pair::STOCK, setting, &args)?;
    let mut errors = Vec::new();
    for pair in Pair::TESTED {
        let ours = stdout_of(pair, setting, &args)?;
        if let Err(error) = compare(pair, &ours, &stock) {
            errors.push(format!("{}: {error}", pair.name()));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("netperf {}\n{}", args.join(" "), errors.join("\n")))
}

/// Compares `-k` output: the keys in order and the settings match exactly; ours reports facts.
fn compare_key_values(pair: Pair, ours: &str, stock: &str) -> CaseResult {
    compare_masked(
        ours.lines().next().unwrap_or_default(),
        stock.lines().next().unwrap_or_default(),
    )
    .map_err(|difference| difference.to_string())?;
    let (ours, stock) = (key_values(ours), key_values(stock));
    let keys = |pairs: &[(&str, &str)]| -> Vec<String> {
        pairs.iter().map(|(key, _)| (*key).to_owned()).collect()
    };
    if keys(&ours) != keys(&stock) {
        return Err(format!("keys {:?}\nstock {:?}", keys(&ours), keys(&stock)));
    }
    let differences: Vec<String> = ours
        .iter()
        .zip(&stock)
        .filter(|((key, ours), (_, stock))| {
            if is_reported_fact(key, pair) {
                ["Deprecated", "0xfffffffe", "0xffffffff"].contains(ours) && is_always_known(key)
            } else {
                ours != stock && !is_measured(key)
            }
        })
        .map(|((key, ours), (_, stock))| format!("{key}={ours}, stock {stock}"))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(differences.join("; "))
}

/// Returns whether this pair's client reports the selector as a fact: of its host, or of our
/// server's.
fn is_reported_fact(key: &str, pair: Pair) -> bool {
    FACTS.iter().any(|part| key.contains(part))
        && pair.client == Implementation::Ours
        && (key.starts_with("LOCAL_") || pair.server == Implementation::Ours)
}

/// Returns whether a fact is known on the loopback interface, which is not a PCI device.
fn is_always_known(key: &str) -> bool {
    !["VENDOR", "DEVICE"].iter().any(|part| key.ends_with(part))
}

fn is_measured(key: &str) -> bool {
    key != "THROUGHPUT_UNITS" && MEASURED.iter().any(|part| key.contains(part))
}

/// Compares `-o` output: the banner, the header and the number of columns.
fn compare_csv(pair: Pair, ours: &str, stock: &str) -> CaseResult {
    let columns = |text: &str| -> Vec<usize> {
        text.lines()
            .skip(1)
            .map(|line| line.split(',').count())
            .collect()
    };
    if columns(ours) != columns(stock) {
        let (ours, stock) = (columns(ours), columns(stock));
        return Err(format!("{ours:?} columns, stock {stock:?}"));
    }
    let without_facts = |text: &str| without_facts(text, pair);
    compare_masked(&without_facts(ours), &without_facts(stock))
        .map_err(|difference| difference.to_string())
}

/// Replaces the facts that only this pair reports with a mark.
fn without_facts(text: &str, pair: Pair) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let [_, header, values] = &mut lines[..] {
        let keys = header.split(',').map(|title| {
            let key = title.to_ascii_uppercase().replace(' ', "_");
            // These titles differ from the selector names.
            key.replace("_OS_", "_")
                .replace("SOCKET_PRIORITY", "SOCKET_PRIO")
        });
        let masked = keys.zip(values.split(',')).map(|(key, value)| {
            if is_reported_fact(&key, pair) {
                "fact"
            } else {
                value
            }
        });
        *values = masked.collect::<Vec<_>>().join(",");
    }
    lines.join("\n")
}

/// Compares `-O` output: the headers match, and all lines of a block have the same width. The other
/// two formats cover the values.
fn compare_columns(_: Pair, ours: &str, stock: &str) -> CaseResult {
    let headers = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !is_banner(line));
        let headers = lines.enumerate().filter(|(number, _)| number % 6 != 4);
        let words = headers.map(|(_, line)| line.split_ascii_whitespace().collect::<Vec<_>>());
        words.map(|words| words.join(" ")).collect()
    };
    if headers(ours) != headers(stock) {
        return Err(format!(
            "headers {:#?}\nstock {:#?}",
            headers(ours),
            headers(stock)
        ));
    }
    compare_masked(
        ours.lines().next().unwrap_or_default(),
        stock.lines().next().unwrap_or_default(),
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
