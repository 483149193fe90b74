//! What a test prints while it runs and when it has ended: text, a document, or a line per event.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::time::SystemTime;

use engine::Stop;

use crate::client;
use crate::json::{Json, object};
use crate::options::{Client, Common};
use crate::output::json;
use crate::output::text::{self, Style};
use crate::result::TestRun;
use crate::streams::IntervalEnd;
use crate::talk::Events;
use crate::wire::ServerOutput;
use crate::wire::error::{self, Fault};

/// What a client's run came to.
#[derive(Debug)]
pub struct Finished {
    /// The test, as far as it came.
    pub run: Option<TestRun>,
    /// Why it failed, if no signal ended it.
    pub error: Option<String>,
    /// The exit code.
    pub code: u8,
}

/// Where output goes.
pub(crate) enum Sink<'a> {
    Out(&'a mut dyn Write),
    Page(&'a mut dyn Lines),
}

/// Prints text somewhere.
pub(crate) trait Lines {
    fn print(&mut self, text: &str);
}

/// Prints the events of one test.
pub(crate) struct Printer<'a> {
    sink: Sink<'a>,
    style: Style,
    form: Form,
    /// `--timestamps`.
    timestamps: Option<CString>,
    /// `-T`: stands before each line.
    title: String,
    /// `-d`.
    debug: bool,
    /// A login is tried again: its first lines are printed.
    has_begun: bool,
    /// What was printed, for the client that wants it.
    kept: Option<String>,
}

/// The form of output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Document,
    /// A line per event, and with `true` the document at the end.
    Events(bool),
}

impl<'a> Printer<'a> {
    pub(crate) fn new(common: &Common, sink: Sink<'a>, keeps: bool) -> Self {
        Self {
            sink,
            style: Style {
                format: common.format,
                verbose: common.verbose,
            },
            form: match (common.json_stream, common.json) {
                (true, _) => Form::Events(common.full_output),
                (_, true) => Form::Document,
                _ => Form::Text,
            },
            timestamps: common.timestamps.clone(),
            title: String::new(),
            debug: common.debug,
            has_begun: false,
            kept: keeps.then(String::new),
        }
    }

    fn print(&mut self, text: &str) {
        if let Some(kept) = &mut self.kept {
            keep(kept, text);
        }
        match &mut self.sink {
            Sink::Out(out) => {
                // A reader that has had enough is no failure.
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
            Sink::Page(page) => page.print(text),
        }
    }

    /// Prints lines of text, each behind the time and the title.
    fn lines(&mut self, text: &str) {
        self.print(&stamped(self.timestamps.as_deref(), &self.title, text));
    }

    fn event(&mut self, name: &str, data: Json) {
        let line = Json::from(object! { "event": name, "data": data });
        self.print(&(line.compact() + "\n"));
    }

    /// Prints the end of a client's test.
    fn end(&mut self, run: Option<&TestRun>, fault: Option<&Fault>) {
        let is_shown = fault.is_none_or(|fault| {
            matches!(
                fault.code,
                error::CLIENT_TERMINATED | error::SERVER_TERMINATED
            )
        });
        match self.form {
            Form::Text => {
                let Some(run) = run.filter(|run| is_shown && has_data(run)) else {
                    return;
                };
                self.lines(&text::summary(run, self.style));
                if let Some(ServerOutput::Text(output)) = run
                    .results
                    .as_ref()
                    .and_then(|results| results.output.as_ref())
                {
                    self.lines("\n");
                    self.print(&text::server_output(output));
                }
                if let Some(ServerOutput::Document(json)) = run
                    .results
                    .as_ref()
                    .and_then(|results| results.output.as_ref())
                {
                    self.lines("\n");
                    self.print(&format!("Server JSON output:\n{}\n", json.indented()));
                }
                if fault.is_none() {
                    self.lines("\niperf Done.\n");
                }
            }
            Form::Document => self.document(run, fault),
            Form::Events(full) => {
                if let Some(fault) = fault {
                    self.event("error", fault.to_string().into());
                }
                match run.and_then(|run| run.results.as_ref()?.output.clone()) {
                    Some(ServerOutput::Text(output)) => {
                        self.event("server_output_text", output.into());
                    }
                    Some(ServerOutput::Document(json)) => self.event("server_output_json", json),
                    None => {}
                }
                self.event(
                    "end",
                    run.map_or_else(|| Json::Object(Vec::new()), json::end),
                );
                if full {
                    self.document(run, fault);
                }
            }
        }
    }

    /// Prints why a server's test did not begin, where that is no line of a log.
    pub(crate) fn failed(&mut self, fault: &Fault) {
        let error = format!("error - {fault}");
        match self.form {
            Form::Text => {}
            Form::Document => self.print(&(json::failed(&error).indented() + "\n")),
            Form::Events(_) => self.event("error", error.into()),
        }
    }

    fn document(&mut self, run: Option<&TestRun>, fault: Option<&Fault>) {
        let document = match (run, fault) {
            (Some(run), _) => json::document(run),
            (None, fault) => json::failed(&fault.map(ToString::to_string).unwrap_or_default()),
        };
        self.print(&(document.indented() + "\n"));
    }
}

/// Keeps text for later, and of a long test its first part.
pub(crate) fn keep(kept: &mut String, text: &str) {
    const MOST: usize = 8 << 20;
    if kept.len() + text.len() <= MOST {
        kept.push_str(text);
    }
}

/// Puts the time, if there is a format for it, and a title before each line.
pub(crate) fn stamped(format: Option<&CStr>, title: &str, text: &str) -> String {
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

impl Events for Printer<'_> {
    fn debug(&mut self, what: &str, json: Option<&str>) {
        if !self.debug {
            return;
        }
        let json = json.and_then(|json| Json::parse(json.as_bytes()).ok());
        let json = json.map_or_else(String::new, |json| json.indented() + "\n");
        let text = format!("{what}\n{json}");
        if self.form == Form::Text {
            self.lines(&text);
        } else {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    fn connected(&mut self, run: &TestRun) {
        if !run.is_server {
            self.title = run.parameters.title.clone().unwrap_or_default();
        }
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if self.form == Form::Text && is_first {
            if self.style.verbose && !run.is_server {
                self.lines(&text::version());
            }
            self.lines(&text::begin(run, self.style));
        }
    }

    fn started(&mut self, run: &TestRun) {
        match self.form {
            Form::Text => {
                self.lines(&text::streams(run, self.style));
                self.lines(&text::interval_header(run));
            }
            Form::Events(_) => self.event("start", json::start(run)),
            Form::Document => {}
        }
    }

    fn interval(&mut self, run: &TestRun, end: IntervalEnd<'_>) {
        match self.form {
            Form::Text => self.lines(&text::interval(run, end, self.style)),
            Form::Events(_) => self.event("interval", json::interval(run, end)),
            Form::Document => {}
        }
    }

    fn output(&mut self, run: &TestRun) -> Option<ServerOutput> {
        match self.form {
            Form::Text => {
                if has_data(run) {
                    self.lines(&text::summary(run, self.style));
                }
                self.kept.take().map(ServerOutput::Text)
            }
            Form::Document => {
                let document = json::document(run);
                self.print(&(document.indented() + "\n"));
                Some(ServerOutput::Document(document))
            }
            Form::Events(full) => {
                if let Some(error) = &run.error {
                    self.event("error", error.as_str().into());
                }
                self.event("end", json::end(run));
                if full {
                    self.document(Some(run), None);
                }
                None
            }
        }
    }
}

/// Runs a client, which prints to `out`, or its errors to `errors`.
pub fn run(
    common: &Common,
    client: &Client,
    stop: &Stop,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> Finished {
    let mut printer = Printer::new(common, Sink::Out(out), false);
    let client::Finished {
        run,
        fault,
        interrupted,
    } = client::run(common, client, stop, &mut printer);
    printer.end(run.as_ref(), fault.as_ref());
    let is_text = printer.form == Form::Text;
    if let Some(fault) = fault.as_ref().filter(|_| is_text) {
        let kind = if interrupted { "interrupt" } else { "error" };
        let line = format!("iperf3: {kind} - {fault}\n");
        let line = stamped(common.timestamps.as_deref(), "", &line);
        let _ = errors.write_all(line.as_bytes());
    }
    Finished {
        run,
        code: u8::from(fault.is_some() && !interrupted),
        error: fault
            .filter(|_| !interrupted)
            .map(|fault| fault.to_string()),
    }
}
