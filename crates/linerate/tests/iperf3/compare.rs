//! Compares the output of linerate with that of a version of stock iperf3, without the figures.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use testkit::{ProcessOutput, StockPeer};

use super::ours;

/// Results of the two programs of a test.
pub(super) struct PairOutput {
    pub(super) client: ProcessOutput,
    pub(super) server: ProcessOutput,
}

/// A program of a pair.
#[derive(Clone, Copy)]
pub(super) enum Program {
    Stock(StockPeer),
    /// linerate with the output of this version.
    Ours(&'static str),
}

impl Program {
    pub(super) fn command(self, line: &str) -> Command {
        match self {
            Self::Stock(stock) => stock.with_args(line),
            Self::Ours(version) => ours(&format!("--stock-version {version} {line}")),
        }
    }
}

/// Compares the output of both ends of a successful test.
pub(super) fn compare_pairs(
    name: &str,
    pair: &PairOutput,
    control: &PairOutput,
    format: &str,
) -> Result<(), String> {
    for (role, output, control) in [
        ("client", &pair.client, &control.client),
        ("server", &pair.server, &control.server),
    ] {
        output.assert_success();
        compare_outputs(&format!("{name}, {role}"), output, control, format)?;
    }
    Ok(())
}

/// Repeats a comparison until it succeeds, at most five times: on a busy machine, a program may not
/// have come as far as the test assumes after a pause. A document does not show that.
pub(crate) fn compare_despite_delays(
    compare: impl Fn() -> Result<(), String>,
) -> Result<(), String> {
    const MAX_ATTEMPTS: usize = 5;
    let mut result = compare();
    for _ in 1..MAX_ATTEMPTS {
        if result.is_ok() {
            break;
        }
        result = compare();
    }
    result
}

/// Compares the output of one program.
pub(crate) fn compare_outputs(
    name: &str,
    output: &ProcessOutput,
    control: &ProcessOutput,
    format: &str,
) -> Result<(), String> {
    let [actual, expected] = [output, control].map(|output| match format {
        "-J" => member_paths(&output.stdout),
        "--json-stream" => event_paths(&output.stdout),
        _ => masked_lines(&output.stdout),
    });
    if actual == expected {
        return Ok(());
    }
    let lines_of_first = |these: &[String], others: &[String]| -> String {
        let lines = these.iter().filter(|line| !others.contains(line));
        lines.flat_map(|line| ["  ", line, "\n"]).collect()
    };
    Err(format!(
        "{name}:\n{}\ncontrol:\n{}\nonly here:\n{}only in the control:\n{}",
        output.stdout,
        control.stdout,
        lines_of_first(&actual, &expected),
        lines_of_first(&expected, &actual)
    ))
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
    // 3.18 calls them bytes.
    let line = line.replace("blocks to send", "bytes to send");
    // The number in brackets is a descriptor of stock. Its width and the blanks around the last word
    // are the same in every run.
    let label_length = line.strip_prefix('[').and_then(|_| line.find(']'));
    let (label, line) = line.split_at(label_length.map_or(0, |at| at + 1));
    let label = if label.contains(|c: char| c.is_ascii_digit()) {
        format!("[number of {}]", label.len())
    } else {
        label.to_owned()
    };
    let trimmed = line.trim_end();
    let before_last = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let blanks = |text: &str| text.len() - text.trim_end().len();
    let mut text = format!("{} {} {label} ", blanks(line), blanks(before_last));
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

/// Returns the paths and types of all members of a document, and its error, without the members that
/// linerate adds.
fn member_paths(text: &str) -> Vec<String> {
    let json: Value = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(error) => return vec![error.to_string()],
    };
    let mut paths = BTreeSet::new();
    collect_paths(&json, String::new(), &mut paths);
    paths.insert(format!("error {}", json["error"]));
    paths.into_iter().collect()
}

/// As [`member_paths`], of each kind of event.
fn event_paths(text: &str) -> Vec<String> {
    let mut paths = BTreeSet::new();
    for line in text.lines() {
        let json: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let name = json["event"].to_string();
        let error = Some(&json["data"]).filter(|data| data.is_string());
        paths.extend(error.map(|error| format!("{name} {error}")));
        collect_paths(&json["data"], name, &mut paths);
    }
    paths.into_iter().collect()
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
