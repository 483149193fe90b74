//! Histogram logs, as HdrHistogram's tools write and read them: a line a histogram.
//!
//! What the encoding does not keep (the extremes and the mean, exactly) stands in a comment of ours
//! before the line, which other tools pass over.

use std::fmt::Write;
use std::time::Duration;

use crate::Histogram;
use crate::hdr::{Exact, HdrError};

/// One line of a log.
#[derive(Clone, Debug)]
pub struct Interval {
    /// What was timed: no blank, comma or line end.
    pub tag: Option<String>,
    /// When it began, since the epoch.
    pub started: Duration,
    /// How long it took.
    pub length: Duration,
    /// The times.
    pub times: Histogram,
}

/// Why a text is no histogram log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct LogError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: LogFault,
}

/// What can be wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    /// It has not the form of a log line.
    #[error("not a line of a histogram log")]
    Form,
    /// Its histogram cannot be read.
    #[error(transparent)]
    Histogram(#[from] HdrError),
}

const EXACT: &str = "#[Linerate: ";

/// The column of the longest time is in milliseconds, as in the logs of other tools.
const NS_A_MILLISECOND: f64 = 1e6;

/// The text of a log.
pub fn write(intervals: &[Interval]) -> String {
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    let start = intervals.iter().map(|interval| interval.started).min();
    if let Some(start) = start {
        let _ = writeln!(
            text,
            "#[StartTime: {} (seconds since epoch)]",
            seconds(start)
        );
    }
    text += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    for interval in intervals {
        let exact = interval.times.exact();
        if let Some(exact) = exact {
            let _ = writeln!(
                text,
                "{EXACT}{},{},{},{:e}]",
                exact.min_ns, exact.max_ns, exact.sum_ns, exact.squares_ns2
            );
        }
        if let Some(tag) = &interval.tag {
            let _ = write!(text, "Tag={tag},");
        }
        let max = exact.map_or(0.0, |exact| exact.max_ns as f64 / NS_A_MILLISECOND);
        let _ = writeln!(
            text,
            "{},{},{max:.3},{}",
            seconds(interval.started),
            seconds(interval.length),
            interval.times.to_base64()
        );
    }
    text
}

/// The lines of a log, ours or another tool's.
pub fn read(text: &str) -> Result<Vec<Interval>, LogError> {
    let mut intervals = Vec::new();
    let mut exact = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(figures) = line.strip_prefix(EXACT) {
            exact = read_exact(figures);
            continue;
        }
        if line.is_empty() || line.starts_with(['#', '"']) {
            continue;
        }
        let mut interval = read_line(line).map_err(|why| LogError {
            line: number + 1,
            why,
        })?;
        if let Some(exact) = exact.take() {
            interval.times.believe(exact);
        }
        intervals.push(interval);
    }
    Ok(intervals)
}

fn read_line(line: &str) -> Result<Interval, LogFault> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(rest) => {
            let (tag, rest) = rest.split_once(',').ok_or(LogFault::Form)?;
            (Some(tag.to_owned()), rest)
        }
        None => (None, line),
    };
    let mut fields = rest.splitn(4, ',');
    let mut next = || fields.next().ok_or(LogFault::Form);
    let (started, length, _max, times) = (next()?, next()?, next()?, next()?);
    Ok(Interval {
        tag,
        started: duration(started)?,
        length: duration(length)?,
        times: Histogram::from_base64(times)?,
    })
}

fn read_exact(figures: &str) -> Option<Exact> {
    let mut figures = figures.strip_suffix(']')?.split(',');
    Some(Exact {
        min_ns: figures.next()?.parse().ok()?,
        max_ns: figures.next()?.parse().ok()?,
        sum_ns: figures.next()?.parse().ok()?,
        squares_ns2: figures.next()?.parse().ok()?,
    })
}

fn duration(text: &str) -> Result<Duration, LogFault> {
    let seconds = text.trim().parse().map_err(|_| LogFault::Form)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| LogFault::Form)
}

fn seconds(duration: Duration) -> String {
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

    fn sample() -> Vec<Interval> {
        [(Some("TCP_RR"), 1000_u64), (None, 5)]
            .into_iter()
            .map(|(tag, scale)| {
                let mut times = Histogram::default();
                (1..2000).for_each(|n| times.record(n * scale));
                Interval {
                    tag: tag.map(str::to_owned),
                    started: Duration::from_millis(1_795_209_459_911),
                    length: Duration::from_millis(2_003),
                    times,
                }
            })
            .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let written = sample();
        let read = read(&write(&written)).unwrap();
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
        let text = write(&sample());
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
    fn a_line_that_is_none_is_named() {
        let good = write(&sample());
        for (text, line) in [
            ("hello\n".to_owned(), 1),
            ("#comment\n\n1,2\n".to_owned(), 3),
            ("Tag=x\n".to_owned(), 1),
            ("1,2,3,!!!\n".to_owned(), 1),
            ("1,x,3,AAAA\n".to_owned(), 1),
            ("-1,2,3,AAAA\n".to_owned(), 1),
            (good.clone() + "1,2,3,AAAA\n", 8),
        ] {
            assert_eq!(read(&text).unwrap_err().line, line, "{text}");
        }
        assert!(read("").unwrap().is_empty());
    }
}
