//! `--histogram`: the times of a test as a histogram log.

use std::path::{Path, PathBuf};

use model::Outcome;
use stats::log::{self, Interval};
use sys::WholeFile;

use super::ClientError;

/// A histogram log to be written when the test is over. It is opened before the test, so that a name
/// that cannot be written to is an error before the measurement.
#[derive(Debug)]
pub struct HistogramFile {
    path: PathBuf,
    file: WholeFile,
}

impl HistogramFile {
    /// Opens the file; the log that it may have stays until the new one is written.
    pub fn create(path: &Path) -> Result<Self, ClientError> {
        let file = WholeFile::begin(path).map_err(|error| failed(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Writes the times of each of these; what was not timed has no line.
    pub fn write(self, outcomes: &[&Outcome]) -> Result<(), ClientError> {
        let intervals: Vec<Interval> = outcomes
            .iter()
            .flat_map(|outcome| outcome.timed())
            .collect();
        self.file
            .write(log::write(&intervals).as_bytes())
            .map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: std::io::Error) -> ClientError {
    ClientError::Histogram(path.to_owned(), error)
}
