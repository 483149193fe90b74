//! Prints a test while it runs and at its end: as text, a JSON document, or one line per event.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::time::SystemTime;

use engine::Stop;

use crate::client;
use crate::control_channel::TestEvents;
use crate::json::{Json, Object, object};
use crate::options::{ClientSettings, CommonSettings};
use crate::output::json;
use crate::output::text::{self, Style};
use crate::result::TestRun;
use crate::streams::IntervalEnd;
use crate::wire::error;
use crate::wire::{Cookie, ServerOutput};

/// The result of a client's run.
#[derive(Debug)]
pub struct ClientResult {
    /// The test; incomplete if it failed, `None` if it failed before the parameters were known.
    pub run: Option<TestRun>,
    /// The error with which it failed; `None` if a signal ended it.
    pub error: Option<String>,
    /// The exit code.
    pub code: u8,
}

/// The destination of output.
pub(crate) enum OutputTarget<'a> {
    Writer(&'a mut dyn Write),
    ServerConsole(&'a mut dyn PrintText),
}

/// Prints text to a shared output.
pub(crate) trait PrintText {
    fn print(&mut self, text: &str);
}

/// Prints the events of one test.
pub(crate) struct Printer<'a> {
    target: OutputTarget<'a>,
    style: Style,
    form: OutputForm,
    /// `--timestamps`.
    timestamps: Option<CString>,
    /// `-T`: the prefix of each line.
    title: String,
    /// `-d`.
    debug: bool,
    /// Whether the first lines are printed; a second login attempt does not repeat them.
    has_printed_start: bool,
    /// The printed output, for a client that requests it.
    kept_output: Option<String>,
    /// Whether the lines after the data are printed.
    has_printed_summary: bool,
    /// The object `end` of a server's document, before the client's results are known.
    end: Option<Json>,
}

/// The form of output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    Text,
    Document,
    /// One line per event; with `true`, also the document at the end.
    Events(bool),
}

impl<'a> Printer<'a> {
    pub(crate) fn new(
        common: &CommonSettings,
        target: OutputTarget<'a>,
        keeps_output: bool,
    ) -> Self {
        Self {
            target,
            style: Style {
                version: common.version,
                format: common.format,
                verbose: common.verbose,
            },
            form: match (common.json_stream, common.json) {
                (true, _) => OutputForm::Events(common.json_stream_full_output),
                (_, true) => OutputForm::Document,
                _ => OutputForm::Text,
            },
            timestamps: common.timestamps.clone(),
            title: String::new(),
            debug: common.debug,
            has_printed_start: false,
            kept_output: keeps_output.then(String::new),
            has_printed_summary: false,
            end: None,
        }
    }

    fn print(&mut self, text: &str) {
        if let Some(kept_output) = &mut self.kept_output {
            append_bounded(kept_output, text);
        }
        match &mut self.target {
            OutputTarget::Writer(out) => {
                // A closed pipe is not an error: the test goes on.
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
            OutputTarget::ServerConsole(output) => output.print(text),
        }
    }

    /// Prints lines of text, each with the time and the title before it.
    fn print_lines(&mut self, text: &str) {
        self.print(&prefix_lines(self.timestamps.as_deref(), &self.title, text));
    }

    fn print_event(&mut self, name: &str, data: Json) {
        let line = Json::from(object! { "event": name, "data": data });
        self.print(&(line.compact() + "\n"));
    }

    /// Prints the end of a client's test. `requested` is a test without streams.
    fn print_end(&mut self, finished: &client::FinishedClient, requested: &TestRun) {
        let (run, fault) = (finished.run.as_ref(), finished.fault.as_ref());
        let errors = &finished.errors;
        let has_summary = fault.is_none_or(|fault| {
            matches!(
                fault.code,
                error::CLIENT_TERMINATED | error::SERVER_TERMINATED
            )
        });
        let lacks_data = |run: &&TestRun| !run.streams.is_empty() && !has_data(run);
        let empty = run.filter(lacks_data).filter(|_| has_summary);
        let empty = empty.map(TestRun::with_empty_interval);
        let with_streams = run.filter(|run| !run.streams.is_empty());
        let end = if has_summary {
            json::end(empty.as_ref().or(with_streams).unwrap_or(requested))
        } else {
            Object::new().into()
        };
        let run = empty.as_ref().filter(|_| finished.interrupted).or(run);
        match self.form {
            OutputForm::Text => {
                // As stock, a summary without streams follows a signal before the data.
                let is_empty = finished.interrupted && run.is_none_or(|run| !has_data(run));
                if is_empty {
                    self.title = requested.parameters.title.clone().unwrap_or_default();
                }
                let run = if is_empty { Some(requested) } else { run };
                let Some(run) = run.filter(|run| has_summary && (is_empty || has_data(run))) else {
                    return;
                };
                let [first_direction, rest] = text::summary_lines(run, self.style);
                self.print_lines(&first_direction);
                let results = run.results.as_ref();
                match results.and_then(|results| results.output.as_ref()) {
                    Some(ServerOutput::Text(output)) => {
                        self.print_lines("\n");
                        self.print(&text::server_output(output));
                    }
                    Some(ServerOutput::Document(json)) => {
                        self.print_lines("\n");
                        self.print(&format!("Server JSON output:\n{}\n", json.indented()));
                    }
                    None => {}
                }
                self.print_lines(&rest);
                if fault.is_none() {
                    self.print_lines("\niperf Done.\n");
                }
            }
            OutputForm::Document => self.print_document(run, end, errors),
            OutputForm::Events(full) => {
                let output = run.and_then(|run| run.results.as_ref()?.output.clone());
                self.print_last_events(errors, output, end.clone());
                if full {
                    self.print_document(run, end, errors);
                }
            }
        }
    }

    /// Prints the end of a server's test. An error follows all figures.
    pub(crate) fn print_server_end(&mut self, run: &TestRun) {
        let errors = run.error.as_slice();
        let end = self.end.take();
        // Without all data, only the user's end of a test has figures.
        let end = || match end {
            _ if run.error.is_some() && !run.is_interrupted => Object::new().into(),
            None if !has_data(run) => Object::new().into(),
            Some(end) => end,
            None => json::end(run),
        };
        match self.form {
            OutputForm::Text if run.is_interrupted => self.print_summary(run),
            OutputForm::Text => {}
            OutputForm::Document => self.print_document(Some(run), end(), errors),
            OutputForm::Events(full) => {
                let end = end();
                self.print_last_events(errors, None, end.clone());
                if full {
                    self.print_document(Some(run), end, errors);
                }
            }
        }
    }

    /// Prints the lines after the data, once.
    fn print_summary(&mut self, run: &TestRun) {
        if has_data(run) && !std::mem::replace(&mut self.has_printed_summary, true) {
            self.print_lines(&text::summary_lines(run, self.style).concat());
        }
    }

    /// Prints the events after the data: the error, the server's output, the end.
    fn print_last_events(&mut self, errors: &[String], output: Option<ServerOutput>, end: Json) {
        if let Some(error) = errors.first() {
            self.print_event("error", error.as_str().into());
        }
        match output {
            Some(ServerOutput::Text(output)) => {
                self.print_event("server_output_text", output.into());
            }
            Some(ServerOutput::Document(json)) => self.print_event("server_output_json", json),
            None => {}
        }
        self.print_event("end", end);
    }

    /// Prints the error of a server's test that did not start; the log has it in text mode. `rate` is
    /// the requested one in bits per second; 0 if none is known.
    pub(crate) fn print_failure(&mut self, error: &str, rate: u64) {
        match self.form {
            OutputForm::Text => {}
            OutputForm::Document => {
                let document = json::refusal(self.style.version, rate, error);
                self.print(&(document.indented() + "\n"));
            }
            OutputForm::Events(_) => {
                self.print_last_events(&[error.to_owned()], None, Object::new().into());
            }
        }
    }

    fn print_document(&mut self, run: Option<&TestRun>, end: Json, errors: &[String]) {
        let document = json::document(self.style.version, run, end, errors);
        self.print(&(document.indented() + "\n"));
    }
}

/// The maximum length of the output of one test that is kept.
pub(crate) const MAX_KEPT_BYTES: usize = 8 << 20;

/// Appends text to `kept`, unless the result would exceed [`MAX_KEPT_BYTES`].
fn append_bounded(kept: &mut String, text: &str) {
    if kept.len() + text.len() <= MAX_KEPT_BYTES {
        kept.push_str(text);
    }
}

/// Prefixes each line with the time, if it has a format, and with the title, if it is not empty.
pub(crate) fn prefix_lines(format: Option<&CStr>, title: &str, text: &str) -> String {
    let now = SystemTime::now();
    let stamp = format.map_or_else(String::new, |format| sys::clock::local_time(format, now));
    let title = if title.is_empty() {
        String::new()
    } else {
        format!("{title}:  ")
    };
    if stamp.is_empty() && title.is_empty() {
        return text.to_owned();
    }
    let lines = text.lines().map(|line| format!("{stamp}{title}{line}\n"));
    lines.collect()
}

fn has_data(run: &TestRun) -> bool {
    run.streams.iter().any(|stream| stream.samples().len() > 1)
}

impl TestEvents for Printer<'_> {
    fn debug(&mut self, message: &str, json: Option<&str>) {
        if !self.debug {
            return;
        }
        let json = json.and_then(|json| Json::parse(json.as_bytes()).ok());
        let json = json.map_or_else(String::new, |json| json.indented() + "\n");
        let text = format!("{message}\n{json}");
        if self.form == OutputForm::Text {
            self.print_lines(&text);
        } else {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    fn connected(&mut self, run: &TestRun) {
        if !run.is_server {
            self.title = run.parameters.title.clone().unwrap_or_default();
        }
        let is_first = !std::mem::replace(&mut self.has_printed_start, true);
        let (block, segment) = (run.parameters.block_size(), run.control_segment);
        // A server does not know the segment size.
        if is_first && run.is_udp() && segment > 0 && block > segment {
            sys::write_error_line(format_args!(
                "warning: UDP block size {block} exceeds TCP MSS {segment}, may result in fragmentation / drops"
            ));
        }
        if self.form == OutputForm::Text && is_first {
            if self.style.verbose && !run.is_server {
                self.print_lines(&text::version(self.style.version));
            }
            self.print_lines(&text::connection_lines(run, self.style));
        }
    }

    fn started(&mut self, run: &TestRun) {
        match self.form {
            OutputForm::Text => {
                self.print_lines(&text::stream_lines(run, self.style));
                self.print_lines(&text::interval_header(run));
            }
            OutputForm::Events(_) => self.print_event("start", json::start(run)),
            OutputForm::Document => {}
        }
    }

    fn interval(&mut self, run: &TestRun, end: IntervalEnd<'_>) {
        match self.form {
            OutputForm::Text => self.print_lines(&text::interval_lines(run, end, self.style)),
            OutputForm::Events(_) => self.print_event("interval", json::interval(run, end)),
            OutputForm::Document => {}
        }
    }

    fn finished(&mut self, run: &TestRun) -> Option<ServerOutput> {
        if self.form == OutputForm::Text {
            self.print_summary(run);
            return self.kept_output.take().map(ServerOutput::Text);
        }
        let end = self.end.insert(json::end(run)).clone();
        let is_requested = self.kept_output.take().is_some();
        is_requested.then(|| {
            let document = json::document(run.version, Some(run), end, run.error.as_slice());
            ServerOutput::Document(document)
        })
    }
}

/// Runs a client; prints its output to `out` and its errors to `errors`.
pub fn run(
    common: &CommonSettings,
    client: &ClientSettings,
    stop: &Stop,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> ClientResult {
    let mut printer = Printer::new(common, OutputTarget::Writer(out), false);
    let finished = client::run(common, client, stop, &mut printer);
    let server = (client.host.clone(), common.port);
    let requested = TestRun::new(common, &client.parameters, Cookie::random(), server);
    printer.print_end(&finished, &requested);
    let client::FinishedClient {
        run,
        fault,
        errors: texts,
        interrupted,
    } = finished;
    if printer.form == OutputForm::Text {
        for (index, text) in texts.iter().enumerate() {
            // The text of an interrupt, and an error before the last one, names its kind itself.
            let names_kind = interrupted || index + 1 < texts.len();
            let kind = if names_kind { "" } else { "error - " };
            let line = format!("iperf3: {kind}{text}\n");
            let line = prefix_lines(common.timestamps.as_deref(), "", &line);
            let _ = errors.write_all(line.as_bytes());
        }
    }
    ClientResult {
        run,
        code: u8::from(fault.is_some() && !interrupted),
        error: texts.last().filter(|_| !interrupted).cloned(),
    }
}
