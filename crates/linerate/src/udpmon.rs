//! The five programs of UDPmon: from argv to the exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use engine::Stop;
use model::{Outcome, Plan, Warning};
use report::{Peer, Report, Tested};
use udpmon::options::{self, Common, Documents as Wanted, Exit};
use udpmon::run::{self, Finished};

use crate::document::{Documents, Page};

/// The arguments of a program.
type Words = Vec<OsString>;

/// Runs the program that the first argument names. The prefix `udpmon_` may be omitted.
pub(crate) fn udpmon(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words = args.into_iter();
    let Some(name) = words.next() else {
        return Exit::stderr(help(program), 1).print();
    };
    let name = name.to_string_lossy();
    if ["-h", "--help"].contains(&&*name) {
        return Exit::stdout(help(program), 0).print();
    }
    let short = name.strip_prefix("udpmon_").unwrap_or(&name);
    let Some((_, run)) = PROGRAMS.iter().find(|(known, _)| *known == short) else {
        sys::write_error_line(format_args!("{program}: '{name}' is none of {}", names()));
        return ExitCode::FAILURE;
    };
    run(&format!("{program} {name}"), words.collect())
}

type Run = fn(&str, Words) -> ExitCode;

const PROGRAMS: [(&str, Run); 5] = [
    ("bw_mon", |program, words| bw_mon(program, words)),
    ("req", |program, words| req(program, words)),
    ("resp", |program, words| resp(program, words)),
    ("send", |program, words| send(program, words)),
    ("recv", |program, words| recv(program, words)),
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
    let words = (program, args.into_iter().collect());
    measure("udpmon_bw_mon", words, options::bw_mon, run::bw_mon, |s| {
        (&s.host, &s.common, &s.documents, s.plan(&s.load))
    })
}

/// Runs `udpmon_req`.
pub(crate) fn req(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = (program, args.into_iter().collect());
    measure("udpmon_req", words, options::req, run::req, |s| {
        let plan = s.plan(s.response_bytes[0]);
        (&s.host, &s.common, &s.documents, plan)
    })
}

/// Runs `udpmon_send`.
pub(crate) fn send(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = (program, args.into_iter().collect());
    measure("udpmon_send", words, options::send, run::send, |s| {
        (&s.host, &s.common, &s.documents, s.plan(&s.load))
    })
}

/// Runs `udpmon_recv`.
pub(crate) fn recv(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = (program, args.into_iter().collect());
    measure("udpmon_recv", words, options::recv, run::recv, |s| {
        ("", &s.common, &s.documents, s.plan())
    })
}

/// Runs `udpmon_resp`. Call it before the process starts a second thread, because it may fork.
pub(crate) fn resp(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match options::resp(program, args) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    sys::process::raise_descriptor_limit();
    let stop = Stop::new();
    let begin = || crate::signals::begin_serving(settings.daemon, true, &stop);
    match run::resp(&settings, &stop, begin) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            sys::write_error_line(format_args!("udpmon_resp: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// The host, the settings of all programs, the documents, and the plan of a run without results.
type Facts<'a> = (&'a str, &'a Common, &'a Wanted, Plan);

/// Parses the arguments, runs the tests, and writes the documents.
fn measure<T>(
    name: &'static str,
    (program, words): (&str, Words),
    parse: fn(&str, Words) -> Result<T, Exit>,
    run: fn(&T, &Stop, &mut dyn Write) -> Finished,
    facts: fn(&T) -> Facts<'_>,
) -> ExitCode {
    let typed = report::typed(std::iter::once(program.into()).chain(words.iter().cloned()));
    let settings = match parse(program, words) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    let (host, common, documents, plan) = facts(&settings);
    let reported = Reported {
        program: name,
        typed,
        host,
        plan,
    };
    let run = |stop: &Stop, out: &mut dyn Write| run(&settings, stop, out);
    reported
        .measure(common, documents, run)
        .unwrap_or_else(|why| {
            sys::write_error_line(format_args!("{name}: {why}"));
            ExitCode::FAILURE
        })
}

/// The data of a run that its documents need.
struct Reported<'a> {
    program: &'static str,
    typed: String,
    host: &'a str,
    /// The plan of a run without results.
    plan: Plan,
}

impl Reported<'_> {
    /// Measures and writes the documents.
    fn measure(
        self,
        common: &Common,
        wanted: &Wanted,
        run: impl FnOnce(&Stop, &mut dyn Write) -> Finished,
    ) -> Result<ExitCode, String> {
        let json = wanted.json.then_some(Path::new("-"));
        let documents = Documents::begin(json, wanted.html.as_deref())?;
        let plot = wanted.plot.as_deref().map(Page::of_plots).transpose()?;
        let stop = Stop::new();
        crate::signals::stop_on_signals(&stop);
        let started = SystemTime::now();
        let mut finished = run(&stop, &mut io::stdout());
        if let Some(line) = &finished.found {
            // Standard output may contain a document.
            if wanted.json {
                sys::write_error(format_args!("{line}"));
            } else {
                // A reader that has closed the pipe is no failure.
                let _ = io::stdout().write_all(line.as_bytes());
            }
        }
        if finished.left_out > 0 {
            let (program, count) = (self.program, finished.left_out);
            sys::write_error_line(format_args!(
                "{program}: the records of {count} datagrams are in no document; it would become too large"
            ));
        }
        let doubt = doubt(self.program, &mut finished, wanted.strict);
        if let Some(why) = &finished.error {
            sys::write_error_line(format_args!("{}: {why}", self.program));
        }
        let code = if finished.error.is_some() { 1 } else { doubt };
        let report = self.report(common, started, finished, stop.is_set());
        documents.write(&report)?;
        plot.map_or(Ok(()), |plot| plot.write(&report))?;
        Ok(ExitCode::from(code))
    }

    fn report(
        self,
        common: &Common,
        started: SystemTime,
        finished: Finished,
        interrupted: bool,
    ) -> Report {
        let is_answered = (finished.outcomes.iter())
            .any(|outcome| outcome.there.is_some() || outcome.here.counts.transactions > 0);
        let peer = Peer {
            kind: is_answered.then_some("udpmon"),
            ..Peer::of(self.host, common.port.into())
        };
        let mut tests: Vec<Tested> = finished.outcomes.into_iter().map(Tested::of_run).collect();
        if tests.is_empty() {
            tests.push(Tested::of(self.plan));
        }
        if let Some(last) = tests.last_mut() {
            last.error = finished.error;
        }
        Report {
            command_line: self.typed,
            interrupted,
            tests,
            ..Report::of(peer, started)
        }
    }
}

/// Adds each test's doubts to its outcome and prints each doubt once. Returns the exit code.
fn doubt(program: &str, finished: &mut Finished, is_strict: bool) -> u8 {
    let is_own = finished.peer.is_some_and(sys::facts::is_own);
    let mut all: Vec<Warning> = Vec::new();
    for outcome in &mut finished.outcomes {
        let doubts = Outcome::doubts(outcome);
        outcome.warnings.extend(is_own.then_some(Warning::SameHost));
        outcome.warnings.extend(doubts);
        let new = outcome
            .warnings
            .iter()
            .filter(|warning| !all.contains(warning));
        let new: Vec<_> = new.cloned().collect();
        all.extend(new);
    }
    sys::report_doubts(program, &all, is_strict)
}
