//! `linerate histogram FILE…`: histogram logs of any number of hosts and runs, merged.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stats::Histogram;
use stats::log;
use sys::WholeFile;

/// What `linerate histogram` is told.
///
/// Reads histogram logs, such as --histogram of netperf and of `linerate run` writes and as other tools
/// write them, and adds up what has the same tag. Values are taken for nanoseconds.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Histogram logs
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Further percentiles, such as 99.99
    #[arg(short = 'p', long = "percentile", value_name = "PERCENT,...", value_delimiter = ',', value_parser = percent)]
    percentiles: Vec<f64>,

    /// Print one JSON document in place of the table
    #[arg(long)]
    json: bool,

    /// Write the sums as a histogram log
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What is always printed.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// No log of ours is longer by far; a file that is none shall not fill the memory.
const LONGEST: u64 = 256 << 20;

/// Merges and prints.
pub(crate) fn run(args: &Args) -> ExitCode {
    let printed = merged(&args.files).and_then(|sums| {
        if let Some(path) = &args.output {
            let intervals: Vec<_> = sums.iter().map(Sum::interval).collect();
            let text = log::write(&intervals);
            let written = WholeFile::begin(path).and_then(|file| file.write(text.as_bytes()));
            written.map_err(|error| named(path, &error))?;
        }
        Ok(print(args, &sums))
    });
    match printed {
        Ok(text) => {
            // A reader that has had enough is no failure.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => {
            sys::write_error_line(format_args!("linerate histogram: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// All histograms of one tag.
struct Sum {
    first: log::Interval,
    /// How many were added up.
    histograms: usize,
}

impl Sum {
    fn interval(&self) -> log::Interval {
        self.first.clone()
    }

    fn tag(&self) -> &str {
        self.first.tag.as_deref().unwrap_or("")
    }

    fn times(&self) -> &Histogram {
        &self.first.times
    }

    fn add(&mut self, other: &log::Interval) {
        let sum = &mut self.first;
        let ended = |interval: &log::Interval| interval.started.saturating_add(interval.length);
        let end = ended(sum).max(ended(other));
        sum.started = sum.started.min(other.started);
        sum.length = end.saturating_sub(sum.started);
        sum.times.merge(&other.times);
        self.histograms += 1;
    }
}

/// In the order in which the tags come.
fn merged(files: &[PathBuf]) -> Result<Vec<Sum>, String> {
    let mut sums: Vec<Sum> = Vec::new();
    for path in files {
        let text = read(path).map_err(|error| named(path, &error))?;
        let intervals = log::read(&text).map_err(|error| named(path, &error))?;
        if intervals.is_empty() {
            return Err(format!("{}: there is no histogram in it", path.display()));
        }
        for interval in intervals {
            match sums.iter_mut().find(|sum| sum.first.tag == interval.tag) {
                Some(sum) => sum.add(&interval),
                None => sums.push(Sum {
                    first: interval,
                    histograms: 1,
                }),
            }
        }
    }
    Ok(sums)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if file.take(LONGEST + 1).read_to_string(&mut text)? as u64 > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn named(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {}", path.display(), sys::describe(why))
}

fn percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "a percentile lies between 0 and 100".to_owned())
}

fn print(args: &Args, sums: &[Sum]) -> String {
    let mut percentiles = [&PERCENTILES[..], &args.percentiles].concat();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    if args.json {
        return json(sums, &percentiles);
    }
    let mut text = String::new();
    for sum in sums {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &block(sum, &percentiles);
    }
    text
}

/// A line a figure, in microseconds.
fn block(sum: &Sum, percentiles: &[f64]) -> String {
    let mut text = String::new();
    let name = if sum.tag().is_empty() {
        "untagged"
    } else {
        sum.tag()
    };
    let plural = if sum.histograms == 1 { "" } else { "s" };
    let _ = writeln!(text, "{name} ({} histogram{plural})", sum.histograms);
    let _ = writeln!(text, "  count   {:>14}", sum.times().len());
    let Some(summary) = sum.times().summary() else {
        return text;
    };
    let mut line = |name: &str, ns: f64| {
        let _ = writeln!(text, "  {name:<7} {:>14.3} µs", ns / 1e3);
    };
    line("min", summary.min_ns as f64);
    line("mean", summary.mean_ns);
    line("stddev", summary.deviation_ns);
    for percent in percentiles {
        if let Some(time) = sum.times().percentile(*percent) {
            line(&format!("p{percent}"), time.as_nanos() as f64);
        }
    }
    line("max", summary.max_ns as f64);
    text
}

/// The member `schema` of the document.
const SCHEMA: &str = "linerate-histogram/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    linerate: &'static str,
    histograms: Vec<SumDocument<'a>>,
}

#[derive(Serialize)]
struct SumDocument<'a> {
    /// `null` where the log has none.
    tag: Option<&'a str>,
    /// How many histograms were added up.
    merged: usize,
    count: u64,
    min_ns: Option<u64>,
    mean_ns: Option<f64>,
    deviation_ns: Option<f64>,
    max_ns: Option<u64>,
    percentiles: Vec<PercentileDocument>,
}

#[derive(Serialize)]
struct PercentileDocument {
    percent: f64,
    time_ns: Option<u64>,
}

fn json(sums: &[Sum], percentiles: &[f64]) -> String {
    let histograms = sums
        .iter()
        .map(|sum| {
            let summary = sum.times().summary();
            SumDocument {
                tag: sum.first.tag.as_deref(),
                merged: sum.histograms,
                count: sum.times().len(),
                min_ns: summary.map(|summary| summary.min_ns),
                mean_ns: summary.map(|summary| summary.mean_ns),
                deviation_ns: summary.map(|summary| summary.deviation_ns),
                max_ns: summary.map(|summary| summary.max_ns),
                percentiles: percentiles
                    .iter()
                    .map(|&percent| PercentileDocument {
                        percent,
                        time_ns: sum
                            .times()
                            .percentile(percent)
                            .map(|time| time.as_nanos() as u64),
                    })
                    .collect(),
            }
        })
        .collect();
    let document = Document {
        schema: SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        histograms,
    };
    // A tree of plain values with text keys always has a text.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_that_no_clock_has() {
        let interval = log::Interval {
            tag: None,
            started: Duration::MAX,
            length: Duration::MAX,
            times: Histogram::default(),
        };
        let mut sum = Sum {
            first: interval.clone(),
            histograms: 1,
        };
        sum.add(&interval);
        assert_eq!(sum.first.length, Duration::ZERO);
    }
}
