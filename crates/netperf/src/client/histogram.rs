//! `--histogram`: the times of a test as a histogram log.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::Outcome;
use stats::Histogram;
use stats::log::{self, Interval};

use super::ClientError;

/// A histogram log to be written when the test is over. It is made before, so that a file that
/// cannot be had is no surprise at the end.
#[derive(Debug)]
pub struct HistogramFile {
    path: PathBuf,
    file: File,
}

impl HistogramFile {
    /// Makes the file, or empties it.
    pub fn create(path: &Path) -> Result<Self, ClientError> {
        let file = File::create(path).map_err(|error| failed(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Writes the times of each of these; what was not timed has no line.
    pub fn write(mut self, outcomes: &[&Outcome]) -> Result<(), ClientError> {
        let intervals: Vec<Interval> = outcomes
            .iter()
            .flat_map(|outcome| intervals(outcome))
            .collect();
        self.file
            .write_all(log::write(&intervals).as_bytes())
            .map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: std::io::Error) -> ClientError {
    ClientError::Histogram {
        path: path.to_owned(),
        error,
    }
}

/// What was timed: the transactions, or the single calls of both ends.
fn intervals(outcome: &Outcome) -> Vec<Interval> {
    let name = &outcome.plan.name;
    let (here, there) = (&outcome.here, outcome.there.as_ref());
    let times: [(&str, Option<&Histogram>); 5] = [
        ("", here.latency.as_ref()),
        (".send", here.send_times.as_ref()),
        (".recv", here.receive_times.as_ref()),
        (
            ".remote_send",
            there.and_then(|there| there.send_times.as_ref()),
        ),
        (
            ".remote_recv",
            there.and_then(|there| there.receive_times.as_ref()),
        ),
    ];
    let started = outcome
        .started
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    times
        .into_iter()
        .filter_map(|(what, times)| {
            Some(Interval {
                tag: Some(format!("{name}{what}")),
                started,
                length: here.elapsed.unwrap_or(Duration::ZERO),
                times: times?.clone(),
            })
        })
        .collect()
}
