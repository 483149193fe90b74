//! `uperf`: from argv to the exit code.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::Stop;
use model::Outcome;
use report::{Peer, Report};
use uperf::Workorder;
use uperf::options::{self, Master, Role, Settings};
use uperf::output::Width;
use uperf::profile::{self, Source, Surroundings};
use uperf::slave::{Shelf, Slave, Terms};
use uperf::tls::Security;

use crate::document::{self, Documents};

/// Runs a master, a slave, or looks at a profile.
pub(crate) fn uperf(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.into_iter().collect();
    let typed = report::typed(std::iter::once(program.into()).chain(words.iter().cloned()));
    let settings = match options::uperf(program, words) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        sys::write_error_line(format_args!("{notice}"));
    }
    sys::process::raise_descriptor_limit();
    match &settings.role {
        Role::Master(master) => run(program, &typed, &settings, master),
        Role::Slave(limits) => serve(program, &settings, limits),
        Role::Check(profile) => check(profile),
    }
}

fn run(program: &str, typed: &str, settings: &Settings, master: &Master) -> ExitCode {
    let Some((workorder, profile)) = read(&master.profile) else {
        print(&format!("Error parsing {}\n", master.profile.display()));
        return ExitCode::FAILURE;
    };
    let json = master.json.then_some(Path::new("-"));
    let documents = match Documents::begin(json, master.html.as_deref()) {
        Ok(documents) => documents,
        Err(why) => {
            sys::write_error_line(format_args!("{program}: {why}"));
            return ExitCode::FAILURE;
        }
    };
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let width = Width::of(columns());
    let mut stdout = std::io::stdout();
    let finished = uperf::run(settings, master, &workorder, width, &stop, &mut stdout);
    let mut code = finished.code;
    let Some(mut outcome) = finished.outcome else {
        return ExitCode::from(code);
    };
    outcome.plan.source = Some(profile);
    let is_interrupted = code == uperf::INTERRUPTED;
    let report = report(typed, settings.port, outcome, is_interrupted);
    if let Err(why) = documents.write(&report) {
        sys::write_error_line(format_args!("{program}: {why}"));
        code = code.max(1);
    }
    ExitCode::from(code)
}

/// A profile's run as the one test of a report.
fn report(typed: &str, port: u32, outcome: Outcome, interrupted: bool) -> Report {
    let peer = outcome.peers.first();
    let failed = outcome.failures > 0 && !interrupted;
    let error = format!("{} strands or slaves failed", outcome.failures);
    let peer = Peer {
        kind: peer.and_then(|peer| peer.program),
        ..Peer::of(peer.map_or("", |peer| &peer.host), port)
    };
    let error = failed.then_some(error);
    document::of_one_test(typed, peer, Ok(outcome), error, interrupted)
}

fn serve(program: &str, settings: &Settings, limits: &options::Limits) -> ExitCode {
    let tls = match Security::of_slave(&settings.tls, settings.verbose) {
        Ok(tls) => Arc::new(tls),
        Err(trouble) => {
            sys::write_error_line(format_args!("{program}: {trouble}"));
            return ExitCode::FAILURE;
        }
    };
    let shelf = match Shelf::open(&limits.directories) {
        Ok(shelf) => Arc::new(shelf),
        Err(error) => {
            sys::write_error_line(format_args!("{program}: {}", sys::describe(&error)));
            return ExitCode::FAILURE;
        }
    };
    let terms = Terms {
        limits: limits.clone(),
        policy: settings.policy,
        shelf,
        verbose: settings.verbose,
        tls,
    };
    let stop = Stop::new();
    let (over, port) = (settings.control, settings.port);
    let not_listening = |error: io::Error| {
        let why = sys::describe(&error);
        format!("cannot listen at {over} port {port}: {why}")
    };
    let served = Slave::listen(over, port, terms, stop.clone())
        .map_err(not_listening)
        .and_then(|slave| {
            if limits.server.drain.is_zero() {
                crate::signals::stop_on_signals(&stop);
            } else {
                crate::signals::stop_in_turn(vec![stop, slave.cut()]);
            }
            if let Some(name) = &limits.user {
                sys::user::become_for_good(name).map_err(|error| sys::describe(&error))?;
            }
            if port == 0 {
                let port = slave.port().map_err(not_listening)?;
                print(&format!("Listening at port {port}\n"));
            }
            slave.serve();
            Ok(())
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            sys::write_error_line(format_args!("{program}: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn check(path: &Path) -> ExitCode {
    let Some(bytes) = contents(path) else {
        return ExitCode::FAILURE;
    };
    let name = path.to_string_lossy();
    let source = Source {
        name: &name,
        bytes: &bytes,
    };
    let check = profile::check(&source, &Surroundings::real());
    print(&check.plan);
    sys::write_error(format_args!("{}", check.notes));
    if check.runs {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The profile, if it makes sense; what it lacks is said.
fn read(path: &Path) -> Option<(Workorder, String)> {
    let name = path.to_string_lossy();
    let bytes = contents(path)?;
    let source = Source {
        name: &name,
        bytes: &bytes,
    };
    let parsed = profile::parse(&source, &Surroundings::real());
    let shows_source = std::io::stderr().is_terminal();
    sys::write_error(format_args!("{}", parsed.notes_text(&name, shows_source)));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some((parsed.workorder?, text))
}

/// The whole file; an error is reported in uperf's words.
fn contents(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let what = if path.exists() { "open" } else { "stat" };
            let why = sys::describe(&error);
            sys::write_error_line(format_args!("Cannot {what} file {}: {why}", path.display()));
            None
        }
    }
}

/// How wide the terminal is, if it is one.
fn columns() -> Option<u16> {
    let stdout = std::io::stdout();
    sys::process::terminal_columns(&stdout)
}

fn print(text: &str) {
    // A reader that has had enough is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
