//! Prints a test while it runs and at its end: as text, a JSON document, or one line per event.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::time::SystemTime;

use engine::Stop;

use crate::client;
use crate::control_channel::TestEvents;
use crate::json::{Json, object};
use crate::options::{ClientSettings, CommonSettings};
use crate::output::json;
use crate::output::text::{self, Style};
use crate::result::TestRun;
use crate::streams::IntervalEnd;
use crate::wire::ServerOutput;
use crate::wire::error::{self, Fault};

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

    /// Prints the end of a client's test.
    fn print_end(&mut self, run: Option<&TestRun>, fault: Option<&Fault>) {
        let has_summary = fault.is_none_or(|fault| {
            matches!(
                fault.code,
                error::CLIENT_TERMINATED | error::SERVER_TERMINATED
            )
        });
        match self.form {
            OutputForm::Text => {
                let Some(run) = run.filter(|run| has_summary && has_data(run)) else {
                    return;
                };
                self.print_lines(&text::summary_lines(run, self.style));
                if let Some(ServerOutput::Text(output)) = run
                    .results
                    .as_ref()
                    .and_then(|results| results.output.as_ref())
                {
                    self.print_lines("\n");
                    self.print(&text::server_output(output));
                }
                if let Some(ServerOutput::Document(json)) = run
                    .results
                    .as_ref()
                    .and_then(|results| results.output.as_ref())
                {
                    self.print_lines("\n");
                    self.print(&format!("Server JSON output:\n{}\n", json.indented()));
                }
                if fault.is_none() {
                    self.print_lines("\niperf Done.\n");
                }
            }
            OutputForm::Document => self.print_document(run, fault),
            OutputForm::Events(full) => {
                if let Some(fault) = fault {
                    self.print_event("error", fault.to_string().into());
                }
                match run.and_then(|run| run.results.as_ref()?.output.clone()) {
                    Some(ServerOutput::Text(output)) => {
                        self.print_event("server_output_text", output.into());
                    }
                    Some(ServerOutput::Document(json)) => {
                        self.print_event("server_output_json", json);
                    }
                    None => {}
                }
                self.print_event(
                    "end",
                    run.map_or_else(|| Json::Object(Vec::new()), json::end),
                );
                if full {
                    self.print_document(run, fault);
                }
            }
        }
    }

    /// Prints the error of a server's test that did not start; the log has it in text mode.
    pub(crate) fn print_failure(&mut self, fault: &Fault) {
        let error = format!("error - {fault}");
        match self.form {
            OutputForm::Text => {}
            OutputForm::Document => self.print(&(json::failure_document(&error).indented() + "\n")),
            OutputForm::Events(_) => self.print_event("error", error.into()),
        }
    }

    fn print_document(&mut self, run: Option<&TestRun>, fault: Option<&Fault>) {
        let document = match (run, fault) {
            (Some(run), _) => json::document(run),
            (None, fault) => {
                json::failure_document(&fault.map(ToString::to_string).unwrap_or_default())
            }
        };
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
                self.print_lines(&text::version());
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
        match self.form {
            OutputForm::Text => {
                if has_data(run) {
                    self.print_lines(&text::summary_lines(run, self.style));
                }
                self.kept_output.take().map(ServerOutput::Text)
            }
            OutputForm::Document => {
                let document = json::document(run);
                self.print(&(document.indented() + "\n"));
                Some(ServerOutput::Document(document))
            }
            OutputForm::Events(full) => {
                if let Some(error) = &run.error {
                    self.print_event("error", error.as_str().into());
                }
                self.print_event("end", json::end(run));
                if full {
                    self.print_document(Some(run), None);
                }
                None
            }
        }
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
    let client::FinishedClient {
        run,
        fault,
        interrupted,
    } = client::run(common, client, stop, &mut printer);
    printer.print_end(run.as_ref(), fault.as_ref());
    let is_text = printer.form == OutputForm::Text;
    if let Some(fault) = fault.as_ref().filter(|_| is_text) {
        let kind = if interrupted { "interrupt" } else { "error" };
        let line = format!("iperf3: {kind} - {fault}\n");
        let line = prefix_lines(common.timestamps.as_deref(), "", &line);
        let _ = errors.write_all(line.as_bytes());
    }
    ClientResult {
        run,
        code: u8::from(fault.is_some() && !interrupted),
        error: fault
            .filter(|_| !interrupted)
            .map(|fault| fault.to_string()),
    }
}
