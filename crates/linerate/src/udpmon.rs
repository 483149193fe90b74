//! The five programs of UDPmon: from argv to the exit code.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use engine::Stop;
use model::{Outcome, Plan, Warning};
use report::{PeerInfo, Report, TestReport};
use udpmon::options::{self, CommonSettings, DocumentOptions, Exit};
use udpmon::run::{self, RunResult};

use crate::document::{Documents, Page};

/// The arguments of a program.
type ArgList = Vec<OsString>;

/// Runs the program that the first argument names. The prefix `udpmon_` may be omitted.
pub(crate) fn udpmon(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arg_list = args.into_iter();
    let Some(name) = arg_list.next() else {
        return Exit::stderr(help(program), 1).print();
    };
    let name = name.to_string_lossy();
    if ["-h", "--help"].contains(&&*name) {
        return Exit::stdout(help(program), 0).print();
    }
    let short_name = name.strip_prefix("udpmon_").unwrap_or(&name);
    let Some((_, run)) = PROGRAMS.iter().find(|(known, _)| *known == short_name) else {
        sys::write_error_line(format_args!(
            "{program}: unknown program '{name}'; use one of {}",
            names()
        ));
        return ExitCode::FAILURE;
    };
    run(&format!("{program} {name}"), arg_list.collect())
}

type Run = fn(&str, ArgList) -> ExitCode;

const PROGRAMS: [(&str, Run); 5] = [
    ("bw_mon", |program, args| bw_mon(program, args)),
    ("req", |program, args| req(program, args)),
    ("resp", |program, args| resp(program, args)),
    ("send", |program, args| send(program, args)),
    ("recv", |program, args| recv(program, args)),
];

fn help(program: &str) -> String {
    format!(
        "Usage: {program} PROGRAM [options]\nPROGRAM is one of {}; -h shows its options.\n",
        names()
    )
}

fn names() -> String {
    PROGRAMS.map(|(name, _)| name).join(", ")
}

/// Runs `udpmon_bw_mon`.
pub(crate) fn bw_mon(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program_and_args = (program, args.into_iter().collect());
    measure(
        "udpmon_bw_mon",
        program_and_args,
        options::bw_mon,
        run::bw_mon,
        |settings| {
            let plan = settings.plan(&settings.load);
            (&settings.host, &settings.common, &settings.documents, plan)
        },
    )
}

/// Runs `udpmon_req`.
pub(crate) fn req(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program_and_args = (program, args.into_iter().collect());
    measure(
        "udpmon_req",
        program_and_args,
        options::req,
        run::req,
        |settings| {
            let plan = settings.plan(settings.response_bytes[0]);
            (&settings.host, &settings.common, &settings.documents, plan)
        },
    )
}

/// Runs `udpmon_send`.
pub(crate) fn send(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program_and_args = (program, args.into_iter().collect());
    measure(
        "udpmon_send",
        program_and_args,
        options::send,
        run::send,
        |settings| {
            let plan = settings.plan(&settings.load);
            (&settings.host, &settings.common, &settings.documents, plan)
        },
    )
}

/// Runs `udpmon_recv`.
pub(crate) fn recv(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program_and_args = (program, args.into_iter().collect());
    measure(
        "udpmon_recv",
        program_and_args,
        options::recv,
        run::recv,
        |settings| ("", &settings.common, &settings.documents, settings.plan()),
    )
}

/// Runs `udpmon_resp`. Call it before the process starts a second thread, because it may fork.
pub(crate) fn resp(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match options::resp(program, args) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    let stop = Stop::new();
    let install_handlers = || crate::signals::stop_on_signals(&stop);
    let begin = || crate::signals::begin_serving(settings.daemon, true, install_handlers);
    match run::resp(&settings, &stop, begin) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            sys::write_error_line(format_args!("udpmon_resp: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The host, the common settings, the document options, and the plan to report if the run has no
/// results.
type RunSettings<'a> = (&'a str, &'a CommonSettings, &'a DocumentOptions, Plan);

/// Parses the arguments, runs the tests, and writes the documents.
fn measure<T>(
    name: &'static str,
    (program, args): (&str, ArgList),
    parse: fn(&str, ArgList) -> Result<T, Exit>,
    run: fn(&T, &Stop, &mut dyn Write) -> RunResult,
    run_settings: fn(&T) -> RunSettings<'_>,
) -> ExitCode {
    let command_line =
        report::quote_command_line(std::iter::once(program.into()).chain(args.iter().cloned()));
    let settings = match parse(program, args) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    let (host, common, documents, plan) = run_settings(&settings);
    let documented = DocumentedRun {
        program: name,
        command_line,
        host,
        plan,
    };
    let run = |stop: &Stop, out: &mut dyn Write| run(&settings, stop, out);
    documented
        .measure(common, documents, run)
        .unwrap_or_else(|error| {
            sys::write_error_line(format_args!("{name}: {error}"));
            ExitCode::FAILURE
        })
}

/// The data of a run that its documents need.
struct DocumentedRun<'a> {
    program: &'static str,
    command_line: String,
    host: &'a str,
    /// The plan of a run without results.
    plan: Plan,
}

impl DocumentedRun<'_> {
    /// Measures and writes the documents.
    fn measure(
        self,
        common: &CommonSettings,
        document_options: &DocumentOptions,
        run: impl FnOnce(&Stop, &mut dyn Write) -> RunResult,
    ) -> Result<ExitCode, String> {
        let json = document_options.json.then_some(Path::new("-"));
        let documents = Documents::open(json, document_options.html.as_deref())?;
        let plot = document_options
            .plot
            .as_deref()
            .map(Page::open_plots)
            .transpose()?;
        let stop = Stop::new();
        crate::signals::stop_on_signals(&stop);
        let started = SystemTime::now();
        let mut finished = run(&stop, &mut getopt::stdout());
        if let Some(line) = &finished.search_line {
            // Standard output may contain a document.
            if document_options.json {
                sys::write_error(format_args!("{line}"));
            } else {
                // `main` reports an error.
                let _ = getopt::stdout().write_all(line.as_bytes());
            }
        }
        if finished.omitted_records > 0 {
            let (program, count) = (self.program, finished.omitted_records);
            sys::write_error_line(format_args!(
                "{program}: documents lack the records of {count} datagrams: size limit reached"
            ));
        }
        let warnings_code =
            add_and_print_warnings(self.program, &mut finished, document_options.strict);
        if let Some(error) = &finished.error {
            sys::write_error_line(format_args!("{}: {error}", self.program));
        }
        let code = if finished.error.is_some() {
            1
        } else {
            warnings_code
        };
        let report = self.report(common, started, finished, stop.is_set());
        documents.write(&report)?;
        plot.map_or(Ok(()), |plot| plot.write(&report))?;
        Ok(ExitCode::from(code))
    }

    fn report(
        self,
        common: &CommonSettings,
        started: SystemTime,
        finished: RunResult,
        interrupted: bool,
    ) -> Report {
        let is_answered = (finished.outcomes.iter())
            .any(|outcome| outcome.remote.is_some() || outcome.local.counts.transactions > 0);
        let peer = PeerInfo {
            kind: is_answered.then_some("udpmon"),
            ..PeerInfo::new(self.host, common.port.into())
        };
        let mut tests: Vec<TestReport> = finished
            .outcomes
            .into_iter()
            .map(TestReport::from_run)
            .collect();
        if tests.is_empty() {
            tests.push(TestReport::new(self.plan));
        }
        if let Some(last) = tests.last_mut() {
            last.error = finished.error;
        }
        Report {
            command_line: self.command_line,
            interrupted,
            tests,
            ..Report::new(peer, started)
        }
    }
}

/// Adds the warnings about each test to its outcome, and prints each distinct warning once. Returns
/// the exit code for the warnings.
fn add_and_print_warnings(program: &str, finished: &mut RunResult, is_strict: bool) -> u8 {
    let is_local = finished.peer.is_some_and(sys::facts::is_local_address);
    let mut distinct: Vec<Warning> = Vec::new();
    for outcome in &mut finished.outcomes {
        let derived = Outcome::derive_warnings(outcome);
        outcome
            .warnings
            .extend(is_local.then_some(Warning::SameHost));
        outcome.warnings.extend(derived);
        let new_warnings = outcome
            .warnings
            .iter()
            .filter(|warning| !distinct.contains(warning));
        let new_warnings: Vec<_> = new_warnings.cloned().collect();
        distinct.extend(new_warnings);
    }
    sys::report_warnings(program, &distinct, is_strict)
}
