//! `--histogram`: writes the times of a test as a histogram log.

use std::path::{Path, PathBuf};

use model::Outcome;
use stats::log::{self, LogInterval};
use sys::OutputFile;

use super::ClientError;

/// A histogram log, written after the test. The file is opened before the test, so that an unusable
/// name fails early.
#[derive(Debug)]
pub struct HistogramFile {
    path: PathBuf,
    file: OutputFile,
}

impl HistogramFile {
    /// Opens the file. An existing log stays until the new one is written.
    pub fn create(path: &Path) -> Result<Self, ClientError> {
        let file = OutputFile::begin(path).map_err(|error| histogram_error(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Writes the times of these outcomes; outcomes without times have no line.
    pub fn write(self, outcomes: &[&Outcome]) -> Result<(), ClientError> {
        let intervals: Vec<LogInterval> = outcomes
            .iter()
            .flat_map(|outcome| outcome.histogram_intervals())
            .collect();
        self.file
            .write(log::format_log(&intervals).as_bytes())
            .map_err(|error| histogram_error(&self.path, error))
    }
}

fn histogram_error(path: &Path, error: std::io::Error) -> ClientError {
    ClientError::Histogram(path.to_owned(), error)
}
