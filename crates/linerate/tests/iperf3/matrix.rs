//! iperf3 compared with the stock iperf3 of Debian 12, in both roles. Texts and documents must be
//! equal except for the figures.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::Requirement::Program;
use testkit::{ProcessOutput, Server, TestCase, test_case_unless};

use super::{CommandBuilder, TIMEOUT, ours, stock};

/// Names and options of clients. The rates are low, so that a busy machine keeps them.
const CLIENTS: [(&str, &str); 14] = [
    ("tcp", "-b 8M -l 16K -t 1 -i 0.5"),
    ("reverse", "-R -b 8M -l 16K -t 1 -i 0.5"),
    ("bidir", "--bidir -b 8M -l 16K -t 1 -i 0.5"),
    ("parallel", "-P 3 -b 8M -l 16K -t 1 -i 0.5"),
    ("bidir_parallel", "--bidir -P 2 -b 8M -l 16K -t 1 -i 0.5"),
    ("bytes", "-n 4M"),
    ("blocks_reverse", "-k 20 -R"),
    ("omit", "-O 1 -b 8M -l 16K -t 1 -i 0.5"),
    ("zero_copy", "-Z -b 8M -l 16K -t 1 -i 0.5"),
    ("udp", "-u -b 8M -l 1000 -t 1 -i 0.5"),
    ("udp_reverse", "-u -R -b 8M -l 1000 -t 1 -i 0.5"),
    ("udp_bidir", "-u --bidir -b 8M -l 1000 -t 1 -i 0.5"),
    (
        "udp_parallel",
        "-u -P 2 -b 8M -l 1000 -t 1 -i 0.5 --udp-counters-64bit",
    ),
    ("ipv6", "-6 -b 8M -l 16K -t 1 -i 0.5"),
];

pub(super) fn test_cases() -> Vec<TestCase> {
    let missing = Program("iperf3").missing_reason();
    let mut test_cases = Vec::new();
    for (name, options) in CLIENTS {
        for (format_name, format) in [("text", ""), ("verbose", "-V"), ("json", "-J")] {
            let compare = move || compare_with_stock(options, format);
            let name = format!("matrix::{name}::{format_name}");
            test_cases.push(test_case_unless(missing.clone(), name, compare).allow_many_at_once());
        }
    }
    test_cases
}

/// Results of the two programs of a test.
struct PairOutput {
    client: ProcessOutput,
    server: ProcessOutput,
}

fn run_pair(
    server: CommandBuilder,
    client: CommandBuilder,
    options: &str,
    format: &str,
) -> PairOutput {
    let server_process =
        Server::try_start_with(|port| server(&format!("-s -1 -i 0.5 -p {port} {format}")));
    let server_process = server_process.unwrap_or_else(|error| panic!("{error}"));
    let host = if options.starts_with("-6") {
        "::1"
    } else {
        "127.0.0.1"
    };
    let line = format!("-c {host} -p {} {options} {format}", server_process.port);
    let client = testkit::run(client(&line), TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
    PairOutput {
        client,
        server: server_process.wait(TIMEOUT),
    }
}

/// Compares the output of pairs with linerate in one or both roles with that of a stock pair.
fn compare_with_stock(options: &str, format: &str) -> Result<(), String> {
    let control = run_pair(stock, stock, options, format);
    for (name, pair) in [
        ("our server", run_pair(ours, stock, options, format)),
        ("our client", run_pair(stock, ours, options, format)),
        ("both ours", run_pair(ours, ours, options, format)),
    ] {
        for (role, output, control) in [
            ("client", &pair.client, &control.client),
            ("server", &pair.server, &control.server),
        ] {
            output.assert_success();
            let is_same = if format == "-J" {
                member_paths(&output.stdout) == member_paths(&control.stdout)
            } else {
                masked_lines(&output.stdout) == masked_lines(&control.stdout)
            };
            if !is_same {
                return Err(format!(
                    "{name}, {role}:\n{}\ncontrol:\n{}",
                    output.stdout, control.stdout
                ));
            }
        }
    }
    Ok(())
}

/// Returns the distinct lines of a text without figures and units. On a busy machine the number of
/// intervals varies.
fn masked_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines().map(mask_line) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn mask_line(line: &str) -> String {
    // A stock receiver prints the sender's columns if its first interval ends after the test.
    let line = line.strip_suffix("         Retr  Cwnd").unwrap_or(line);
    if line.starts_with("Linux ") || line.starts_with("Time: ") || line.contains("Cookie: ") {
        return line
            .split(' ')
            .take(7)
            .filter(|word| !word.is_empty())
            .take(1)
            .collect();
    }
    let mut text = String::new();
    for word in line.split_whitespace() {
        let has_digits = word.chars().any(|c| c.is_ascii_digit());
        let is_unit = ["KBytes", "MBytes", "GBytes"].contains(&word);
        let is_rate = word.ends_with("bits/sec");
        text += match (has_digits, is_unit, is_rate) {
            (true, ..) => "#",
            (_, true, _) => "Bytes",
            (_, _, true) => "bits/sec",
            _ => word,
        };
        text.push(' ');
    }
    text
}

/// Returns the paths and types of all members of a document, except those that linerate adds.
fn member_paths(text: &str) -> BTreeSet<String> {
    let json: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut paths = BTreeSet::new();
    collect_paths(&json, String::new(), &mut paths);
    paths
}

fn collect_paths(json: &Value, path: String, paths: &mut BTreeSet<String>) {
    match json {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "smoothed_rtt_us") {
                collect_paths(value, format!("{path}.{key}"), paths);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_paths(item, format!("{path}[]"), paths);
            }
        }
        Value::String(_) => drop(paths.insert(path + " text")),
        Value::Number(_) => drop(paths.insert(path + " number")),
        _ => drop(paths.insert(path + " other")),
    }
}
