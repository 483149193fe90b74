//! The JSON document and the HTML page that each client can write in addition to its text output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::{Outcome, Plan, Warning};
use report::{PeerInfo, Report, TestReport};
use sys::{Address, OutputFile};

/// The documents that a client's options request.
pub(crate) struct Documents<'a> {
    json: Option<&'a Path>,
    page: Option<Page>,
}

impl<'a> Documents<'a> {
    /// Opens the page file, so that an error occurs before the test. A `json` path of `-` means
    /// standard output.
    pub(crate) fn open(json: Option<&'a Path>, html: Option<&Path>) -> Result<Self, String> {
        let page = html.map(Page::open).transpose()?;
        Ok(Self { json, page })
    }

    /// Returns whether the JSON document replaces the text on standard output.
    pub(crate) fn is_json_on_stdout(&self) -> bool {
        self.json == Some(Path::new("-"))
    }

    /// Writes the requested documents.
    pub(crate) fn write(self, report: &Report) -> Result<(), String> {
        match self.json {
            // `main` reports an error.
            Some(_) if self.is_json_on_stdout() => {
                let _ = getopt::stdout().write_all(report::json(report).as_bytes());
            }
            Some(path) => OutputFile::begin(path)
                .and_then(|file| file.write(report::json(report).as_bytes()))
                .map_err(|error| write_error(path, &error))?,
            None => {}
        }
        self.page.map_or(Ok(()), |page| page.write(report))
    }
}

/// Returns the report of one test. Without an outcome, the report contains the plan.
pub(crate) fn single_test_report(
    command_line: &str,
    peer: PeerInfo,
    outcome_or_plan: Result<Outcome, Plan>,
    error: Option<String>,
    interrupted: bool,
) -> Report {
    let started =
        (outcome_or_plan.as_ref()).map_or_else(|_| SystemTime::now(), |outcome| outcome.started);
    let test = outcome_or_plan.map_or_else(TestReport::new, TestReport::from_run);
    Report {
        command_line: command_line.to_owned(),
        interrupted,
        tests: vec![TestReport { error, ..test }],
        ..Report::new(peer, started)
    }
}

/// Adds the warnings about a test to its outcome and prints them. Returns the exit code for the
/// warnings.
pub(crate) fn add_and_print_warnings(
    program_name: &str,
    outcome: &mut Outcome,
    peer: Option<&Address>,
    is_strict: bool,
) -> u8 {
    let is_local = peer
        .and_then(Address::ip)
        .is_some_and(sys::facts::is_local_address);
    let derived = outcome.derive_warnings();
    (outcome.warnings).extend(
        is_local
            .then_some(Warning::SameHost)
            .into_iter()
            .chain(derived),
    );
    sys::report_warnings(program_name, &outcome.warnings, is_strict)
}

/// An HTML page or SVG picture. Its file is opened before the test, and written after it.
pub(crate) struct Page {
    path: PathBuf,
    file: OutputFile,
    render: fn(&Report) -> String,
}

impl Page {
    /// Opens the file of an HTML page. The error is one line.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        Self::with_renderer(path, report::html)
    }

    /// Opens the file of a page that contains only plots. If the file name ends in `.svg`, the file
    /// is a picture.
    #[cfg(feature = "udpmon")]
    pub(crate) fn open_plots(path: &Path) -> Result<Self, String> {
        let is_picture = path.extension().is_some_and(|extension| extension == "svg");
        Self::with_renderer(
            path,
            if is_picture {
                report::plots_svg
            } else {
                report::plots_html
            },
        )
    }

    fn with_renderer(path: &Path, render: fn(&Report) -> String) -> Result<Self, String> {
        let file = OutputFile::begin(path).map_err(|error| write_error(path, &error))?;
        let path = path.to_owned();
        Ok(Self { path, file, render })
    }

    /// Renders the report and writes the file.
    pub(crate) fn write(self, report: &Report) -> Result<(), String> {
        let Self { path, file, render } = self;
        let written = file.write(render(report).as_bytes());
        written.map_err(|error| write_error(&path, &error))
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {}", path.display(), sys::describe(error))
}

/// Returns the program of a server of the netperf protocol: `linerate` or `netserver`. Returns
/// `None` if the server answered no test.
#[cfg(feature = "netperf")]
pub(crate) fn netserver_kind(report: &Report) -> Option<&'static str> {
    let program = report.find_in_sides(|run| run.remote.as_ref(), |side| side.program.as_ref());
    let is_answered = report.tests.iter().any(|test| !test.runs.is_empty());
    let kind = if program.is_some() {
        "linerate"
    } else {
        "netserver"
    };
    is_answered.then_some(kind)
}
