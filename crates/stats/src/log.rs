//! Histogram logs in the format of HdrHistogram's tools: one line per histogram.
//!
//! The encoding loses the exact extremes and the exact mean. linerate writes them in a comment
//! before the line; other tools skip it.

use std::fmt::Write;
use std::time::Duration;

use crate::Histogram;
use crate::hdr::{ExactFigures, HdrError};

/// One line of a log.
#[derive(Clone, Debug)]
pub struct LogInterval {
    /// Name of the timed operation, without blanks, commas and line ends.
    pub tag: Option<String>,
    /// Start of the interval, since the epoch.
    pub started: Duration,
    /// Length of the interval.
    pub length: Duration,
    /// Recorded times.
    pub times: Histogram,
}

/// Error in a histogram log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LogError {
    /// Line number, from 1.
    pub line: usize,
    /// The error in this line.
    pub reason: LogErrorKind,
}

/// Kinds of errors in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// The line does not have the format of a log.
    #[error("not a line of a histogram log")]
    Format,
    /// The line's histogram is damaged.
    #[error(transparent)]
    Histogram(#[from] HdrError),
}

/// Start of the comment with the exact figures.
const EXACT_PREFIX: &str = "#[Linerate: ";

/// Unit of the column with the longest time, as in the logs of other tools.
const NS_PER_MS: f64 = 1e6;

/// Formats a log.
pub fn format_log(intervals: &[LogInterval]) -> String {
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    let start = intervals.iter().map(|interval| interval.started).min();
    if let Some(start) = start {
        let _ = writeln!(
            text,
            "#[StartTime: {} (seconds since epoch)]",
            format_seconds(start)
        );
    }
    text += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    for interval in intervals {
        let exact = interval.times.exact_figures();
        if let Some(exact) = exact {
            let _ = writeln!(
                text,
                "{EXACT_PREFIX}{},{},{},{:e}]",
                exact.min_ns, exact.max_ns, exact.sum_ns, exact.squares_ns2
            );
        }
        if let Some(tag) = &interval.tag {
            let _ = write!(text, "Tag={tag},");
        }
        let max = exact.map_or(0.0, |exact| exact.max_ns as f64 / NS_PER_MS);
        let _ = writeln!(
            text,
            "{},{},{max:.3},{}",
            format_seconds(interval.started),
            format_seconds(interval.length),
            interval.times.to_base64()
        );
    }
    text
}

/// Parses a log of linerate or of another tool.
pub fn parse_log(text: &str) -> Result<Vec<LogInterval>, LogError> {
    let mut intervals = Vec::new();
    let mut exact = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(figures) = line.strip_prefix(EXACT_PREFIX) {
            exact = parse_exact(figures);
            continue;
        }
        if line.is_empty() || line.starts_with(['#', '"']) {
            continue;
        }
        let mut interval = parse_line(line).map_err(|reason| LogError {
            line: index + 1,
            reason,
        })?;
        if let Some(exact) = exact.take() {
            interval.times.restore_exact(exact);
        }
        intervals.push(interval);
    }
    Ok(intervals)
}

fn parse_line(line: &str) -> Result<LogInterval, LogErrorKind> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(rest) => {
            let (tag, rest) = rest.split_once(',').ok_or(LogErrorKind::Format)?;
            (Some(tag.to_owned()), rest)
        }
        None => (None, line),
    };
    let mut fields = rest.splitn(4, ',');
    let mut next = || fields.next().ok_or(LogErrorKind::Format);
    let (started, length, _max, times) = (next()?, next()?, next()?, next()?);
    Ok(LogInterval {
        tag,
        started: parse_duration(started)?,
        length: parse_duration(length)?,
        times: Histogram::from_base64(times)?,
    })
}

fn parse_exact(figures: &str) -> Option<ExactFigures> {
    let mut figures = figures.strip_suffix(']')?.split(',');
    Some(ExactFigures {
        min_ns: figures.next()?.parse().ok()?,
        max_ns: figures.next()?.parse().ok()?,
        sum_ns: figures.next()?.parse().ok()?,
        squares_ns2: figures.next()?.parse().ok()?,
    })
}

fn parse_duration(text: &str) -> Result<Duration, LogErrorKind> {
    let seconds = text.trim().parse().map_err(|_| LogErrorKind::Format)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| LogErrorKind::Format)
}

fn format_seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram as Reference;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn sample() -> Vec<LogInterval> {
        [(Some("TCP_RR"), 1000_u64), (None, 5)]
            .into_iter()
            .map(|(tag, scale)| {
                let mut times = Histogram::default();
                (1..2000).for_each(|n| times.record(n * scale));
                LogInterval {
                    tag: tag.map(str::to_owned),
                    started: Duration::from_millis(1_795_209_459_911),
                    length: Duration::from_millis(2_003),
                    times,
                }
            })
            .collect()
    }

    #[test]
    fn a_log_survives_writing_and_reading() {
        let written = sample();
        let read = parse_log(&format_log(&written)).unwrap();
        assert_eq!(read.len(), 2);
        for (written, read) in written.iter().zip(&read) {
            assert_eq!(read.tag, written.tag);
            assert_eq!(read.started.as_millis(), written.started.as_millis());
            assert_eq!(read.length, written.length);
            assert_eq!(read.times.summary(), written.times.summary());
        }
    }

    #[test]
    fn the_reference_reads_our_log() {
        let text = format_log(&sample());
        let entries: Vec<_> = IntervalLogIterator::new(text.as_bytes())
            .map(|entry| entry.unwrap())
            .collect();
        let histograms: Vec<(Option<String>, Reference<u64>)> = entries
            .iter()
            .filter_map(|entry| match entry {
                LogEntry::Interval(interval) => {
                    let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
                    let times = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                    Some((interval.tag().map(|tag| tag.as_str().to_owned()), times))
                }
                _ => None,
            })
            .collect();
        assert_eq!(histograms.len(), 2);
        assert_eq!(histograms[0].0.as_deref(), Some("TCP_RR"));
        assert_eq!(histograms[1].0, None);
        assert!(histograms.iter().all(|(_, times)| times.len() == 1999));
    }

    #[test]
    fn an_error_has_its_line_number() {
        let good = format_log(&sample());
        for (text, line) in [
            ("hello\n".to_owned(), 1),
            ("#comment\n\n1,2\n".to_owned(), 3),
            ("Tag=x\n".to_owned(), 1),
            ("1,2,3,!!!\n".to_owned(), 1),
            ("1,x,3,AAAA\n".to_owned(), 1),
            ("-1,2,3,AAAA\n".to_owned(), 1),
            (good.clone() + "1,2,3,AAAA\n", 8),
        ] {
            assert_eq!(parse_log(&text).unwrap_err().line, line, "{text}");
        }
        assert!(parse_log("").unwrap().is_empty());
    }
}
