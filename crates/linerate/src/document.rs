//! What every command does with a report beside its own text: the JSON document and the HTML page.

use std::path::{Path, PathBuf};

use report::Report;
use sys::WholeFile;

/// A page that is to be written when the report is there.
pub(crate) struct Page {
    path: PathBuf,
    file: WholeFile,
}

impl Page {
    /// Opens the file before anything is measured; an error is one line.
    pub(crate) fn begin(path: &Path) -> Result<Self, String> {
        let file = WholeFile::begin(path).map_err(|error| unwritten(path, &error))?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    /// Writes the report's page.
    pub(crate) fn write(self, report: &Report) -> Result<(), String> {
        let Self { path, file } = self;
        let written = file.write(report::html(report).as_bytes());
        written.map_err(|error| unwritten(&path, &error))
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {}", path.display(), sys::describe(error))
}

/// What a server that speaks netperf's protocol is; `None` if it answered no test.
pub(crate) fn kind_of_netserver(report: &Report) -> Option<&'static str> {
    let program = report.first_of(|run| run.there.as_ref(), |side| side.program.as_ref());
    let answered = report.tests.iter().any(|test| !test.runs.is_empty());
    let kind = if program.is_some() {
        "linerate"
    } else {
        "netserver"
    };
    answered.then_some(kind)
}
