//! `linerate histogram FILE…`: merges histogram logs of any number of hosts and runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stats::Histogram;
use stats::log;
use sys::OutputFile;

/// Arguments of `linerate histogram`.
///
/// Reads histogram logs and merges the histograms that have the same tag. The option --histogram of
/// `linerate run` and of netperf writes such logs, as do other tools. Values are in nanoseconds.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Histogram logs
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Additional percentiles, such as 99.99
    #[arg(short = 'p', long = "percentile", value_name = "PERCENT,...", value_delimiter = ',', value_parser = parse_percentile)]
    percentiles: Vec<f64>,

    /// Print a JSON document instead of the table
    #[arg(long)]
    json: bool,

    /// Write the merged histograms as a histogram log
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Percentiles that are always printed.
const DEFAULT_PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Merges the logs and prints the result.
pub(crate) fn run(args: &Args) -> ExitCode {
    let result = merge_files(&args.files).and_then(|sums| {
        if let Some(path) = &args.output {
            let intervals: Vec<_> = sums.iter().map(MergedHistogram::interval).collect();
            let text = log::format_log(&intervals);
            let written = OutputFile::begin(path).and_then(|file| file.write(text.as_bytes()));
            written.map_err(|error| file_error(path, &error))?;
        }
        Ok(format_sums(args, &sums))
    });
    match result {
        Ok(text) => {
            // `main` reports an error.
            let _ = getopt::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            sys::write_error_line(format_args!("linerate histogram: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The merged histograms of one tag.
struct MergedHistogram {
    total: log::LogInterval,
    /// Number of merged histograms.
    histograms: usize,
}

impl MergedHistogram {
    fn interval(&self) -> log::LogInterval {
        self.total.clone()
    }

    fn tag(&self) -> &str {
        self.total.tag.as_deref().unwrap_or("")
    }

    fn times(&self) -> &Histogram {
        &self.total.times
    }

    fn add(&mut self, other: &log::LogInterval) {
        let sum = &mut self.total;
        let end_of = |interval: &log::LogInterval| interval.started.saturating_add(interval.length);
        let end = end_of(sum).max(end_of(other));
        sum.started = sum.started.min(other.started);
        sum.length = end.saturating_sub(sum.started);
        sum.times.merge(&other.times);
        self.histograms += 1;
    }
}

/// Merges the histograms per tag, in the order in which the tags first occur.
fn merge_files(files: &[PathBuf]) -> Result<Vec<MergedHistogram>, String> {
    let mut sums: Vec<MergedHistogram> = Vec::new();
    for path in files {
        let text = sys::input_file::read_text(path).map_err(|error| file_error(path, &error))?;
        let intervals = log::parse_log(&text).map_err(|error| file_error(path, &error))?;
        if intervals.is_empty() {
            return Err(format!("{}: no histograms found", path.display()));
        }
        for interval in intervals {
            match sums.iter_mut().find(|sum| sum.total.tag == interval.tag) {
                Some(sum) => sum.add(&interval),
                None => sums.push(MergedHistogram {
                    total: interval,
                    histograms: 1,
                }),
            }
        }
    }
    Ok(sums)
}

fn file_error(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {}", path.display(), sys::describe(error))
}

fn parse_percentile(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "a percentile must be between 0 and 100".to_owned())
}

fn format_sums(args: &Args, sums: &[MergedHistogram]) -> String {
    let mut percentiles = [&DEFAULT_PERCENTILES[..], &args.percentiles].concat();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    if args.json {
        return format_json(sums, &percentiles);
    }
    let mut text = String::new();
    for sum in sums {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format_sum(sum, &percentiles);
    }
    text
}

/// Formats the figures of one tag: one line per figure, in microseconds.
fn format_sum(sum: &MergedHistogram, percentiles: &[f64]) -> String {
    let mut text = String::new();
    let name = if sum.tag().is_empty() {
        "untagged"
    } else {
        sum.tag()
    };
    let name = codec::escaped(name);
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

/// Value of the `schema` key of the document.
const SCHEMA: &str = "linerate-histogram/1";

#[derive(Serialize)]
struct HistogramsDocument<'a> {
    schema: &'static str,
    linerate: &'static str,
    histograms: Vec<HistogramDocument<'a>>,
}

#[derive(Serialize)]
struct HistogramDocument<'a> {
    /// `null` if the merged histograms have no tag.
    tag: Option<&'a str>,
    /// Number of merged histograms.
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

fn format_json(sums: &[MergedHistogram], percentiles: &[f64]) -> String {
    let histograms = sums
        .iter()
        .map(|sum| {
            let summary = sum.times().summary();
            HistogramDocument {
                tag: sum.total.tag.as_deref(),
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
    let document = HistogramsDocument {
        schema: SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        histograms,
    };
    // Serialization of plain values with text keys cannot fail.
    codec::escaped_json(&serde_json::to_string_pretty(&document).unwrap_or_default()) + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_beyond_the_range_of_durations_do_not_overflow() {
        let interval = log::LogInterval {
            tag: None,
            started: Duration::MAX,
            length: Duration::MAX,
            times: Histogram::default(),
        };
        let mut sum = MergedHistogram {
            total: interval.clone(),
            histograms: 1,
        };
        sum.add(&interval);
        assert_eq!(sum.total.length, Duration::ZERO);
    }
}
