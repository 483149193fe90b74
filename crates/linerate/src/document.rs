//! What every command does with a report beside its own text: the JSON document and the HTML page.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::{Outcome, Plan, Warning};
use report::{Peer, Report, Tested};
use sys::{Address, WholeFile};

/// The documents that a client's options ask for.
pub(crate) struct Documents<'a> {
    json: Option<&'a Path>,
    page: Option<Page>,
}

impl<'a> Documents<'a> {
    /// Opens the page before anything is measured. `-` as the path of `json` is standard output.
    pub(crate) fn begin(json: Option<&'a Path>, html: Option<&Path>) -> Result<Self, String> {
        let page = html.map(Page::begin).transpose()?;
        Ok(Self { json, page })
    }

    /// Whether a document stands in the place of all text.
    pub(crate) fn take_stdout(&self) -> bool {
        self.json == Some(Path::new("-"))
    }

    /// Writes what is asked for.
    pub(crate) fn write(self, report: &Report) -> Result<(), String> {
        match self.json {
            // A reader that has had enough is no failure.
            Some(_) if self.take_stdout() => {
                let _ = io::stdout().write_all(report::json(report).as_bytes());
            }
            Some(path) => WholeFile::begin(path)
                .and_then(|file| file.write(report::json(report).as_bytes()))
                .map_err(|error| unwritten(path, &error))?,
            None => {}
        }
        self.page.map_or(Ok(()), |page| page.write(report))
    }
}

/// The report of one test: what was measured, or else what was planned.
pub(crate) fn of_one_test(
    typed: &str,
    peer: Peer,
    measured: Result<Outcome, Plan>,
    error: Option<String>,
    interrupted: bool,
) -> Report {
    let started = (measured.as_ref()).map_or_else(|_| SystemTime::now(), |outcome| outcome.started);
    let test = measured.map_or_else(Tested::of, Tested::of_run);
    Report {
        command_line: typed.to_owned(),
        interrupted,
        tests: vec![Tested { error, ..test }],
        ..Report::of(peer, started)
    }
}

/// Adds the doubts about a test with a peer at this address to its outcome, and prints them; returns the exit code for
/// them.
pub(crate) fn doubt(
    program: &str,
    outcome: &mut Outcome,
    peer: Option<&Address>,
    is_strict: bool,
) -> u8 {
    let is_own = peer.and_then(Address::ip).is_some_and(sys::facts::is_own);
    let doubts = outcome.doubts();
    (outcome.warnings).extend(
        is_own
            .then_some(Warning::SameHost)
            .into_iter()
            .chain(doubts),
    );
    sys::report_doubts(program, &outcome.warnings, is_strict)
}

/// A page that is to be written when the report is there.
pub(crate) struct Page {
    path: PathBuf,
    file: WholeFile,
    made: fn(&Report) -> String,
}

impl Page {
    /// Opens the file before anything is measured; an error is one line.
    pub(crate) fn begin(path: &Path) -> Result<Self, String> {
        Self::of(path, report::html)
    }

    /// The same of a page with plots only, or of a picture if the file's name ends in `.svg`.
    #[cfg(feature = "udpmon")]
    pub(crate) fn of_plots(path: &Path) -> Result<Self, String> {
        let is_picture = path.extension().is_some_and(|end| end == "svg");
        Self::of(
            path,
            if is_picture {
                report::plots_svg
            } else {
                report::plots_html
            },
        )
    }

    fn of(path: &Path, made: fn(&Report) -> String) -> Result<Self, String> {
        let file = WholeFile::begin(path).map_err(|error| unwritten(path, &error))?;
        let path = path.to_owned();
        Ok(Self { path, file, made })
    }

    /// Writes the report's page.
    pub(crate) fn write(self, report: &Report) -> Result<(), String> {
        let Self { path, file, made } = self;
        let written = file.write(made(report).as_bytes());
        written.map_err(|error| unwritten(&path, &error))
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {}", path.display(), sys::describe(error))
}

/// What a server that speaks netperf's protocol is; `None` if it answered no test.
#[cfg(feature = "netperf")]
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
