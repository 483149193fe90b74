//! `--histogram`: the times of a test as a histogram log.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use model::Outcome;
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
            .flat_map(|outcome| outcome.timed())
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
