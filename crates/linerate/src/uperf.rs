//! `uperf`: from argv to the exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::Stop;
use model::{EndCause, Outcome};
use report::{PeerInfo, Report};
use uperf::Workorder;
use uperf::options::{self, MasterSettings, Role, Settings};
use uperf::output::Width;
use uperf::profile::{self, ProfileContext, ProfileSource};
use uperf::slave::{ServedFiles, Slave, SlaveConfig};
use uperf::tls::TlsSettings;

use crate::document::{self, Documents};

/// Runs a master or a slave, or checks a profile.
pub(crate) fn uperf(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arg_list: Vec<OsString> = args.into_iter().collect();
    let command_line =
        report::quote_command_line(std::iter::once(program.into()).chain(arg_list.iter().cloned()));
    let settings = match options::uperf(program, arg_list) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        sys::write_error_line(format_args!("{notice}"));
    }
    match &settings.role {
        Role::Master(master) => run(program, &command_line, &settings, master),
        Role::Slave(limits) => serve(program, &settings, limits),
        Role::Check(profile) => check(profile),
    }
}

fn run(
    program: &str,
    command_line: &str,
    settings: &Settings,
    master: &MasterSettings,
) -> ExitCode {
    let Some((workorder, profile)) = read_profile(&master.profile) else {
        print(&format!("Error parsing {}\n", master.profile.display()));
        return ExitCode::FAILURE;
    };
    let json = master.json.then_some(Path::new("-"));
    let documents = match Documents::open(json, master.html.as_deref()) {
        Ok(documents) => documents,
        Err(error) => {
            sys::write_error_line(format_args!("{program}: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let width = Width::for_terminal(terminal_columns());
    let mut stdout = getopt::stdout();
    let finished = uperf::run(settings, master, &workorder, width, &stop, &mut stdout);
    let mut code = finished.code;
    let Some(mut outcome) = finished.outcome else {
        return ExitCode::from(code);
    };
    outcome.plan.source = Some(profile);
    let is_interrupted = code == uperf::INTERRUPTED;
    let report = report(command_line, settings.port, outcome, is_interrupted);
    if let Err(error) = documents.write(&report) {
        sys::write_error_line(format_args!("{program}: {error}"));
        code = code.max(1);
    }
    ExitCode::from(code)
}

/// Returns a report with the run of a profile as its only test.
fn report(command_line: &str, port: u32, outcome: Outcome, interrupted: bool) -> Report {
    let peer = outcome.peers.first();
    let peer = PeerInfo {
        kind: peer.and_then(|peer| peer.program),
        ..PeerInfo::new(peer.map_or("", |peer| &peer.host), port)
    };
    let error = match &outcome.ended {
        EndCause::Failed(reason) => Some(reason.clone()),
        _ => None,
    };
    document::single_test_report(command_line, peer, Ok(outcome), error, interrupted)
}

fn serve(program: &str, settings: &Settings, limits: &options::SlaveLimits) -> ExitCode {
    if limits.user.is_some()
        && let Err(error) = sys::user::forbid_new_privileges()
    {
        sys::write_error_line(format_args!("{program}: --user: {}", sys::describe(&error)));
        return ExitCode::FAILURE;
    }
    let key = settings
        .tls
        .key
        .as_ref()
        .or(settings.tls.certificate.as_ref());
    for path in key.into_iter().chain(&settings.tls.pass_phrase) {
        sys::input_file::warn_if_exposed(program, path);
    }
    let tls = match TlsSettings::for_slave(&settings.tls, settings.verbose) {
        Ok(tls) => Arc::new(tls),
        Err(error) => {
            sys::write_error_line(format_args!("{program}: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let served_files = match ServedFiles::open(&limits.directories) {
        Ok(served_files) => Arc::new(served_files),
        Err(error) => {
            sys::write_error_line(format_args!("{program}: {}", sys::describe(&error)));
            return ExitCode::FAILURE;
        }
    };
    let config = SlaveConfig {
        limits: limits.clone(),
        policy: settings.policy.clone(),
        served_files,
        verbose: settings.verbose,
        tls,
    };
    let stop = Stop::new();
    let (family, port) = (settings.control, settings.port);
    let listen_error = |error: io::Error| {
        let reason = sys::describe(&error);
        format!("cannot listen at {family} port {port}: {reason}")
    };
    let result = Slave::listen(family, port, config, stop.clone())
        .map_err(listen_error)
        .and_then(|slave| {
            if limits.server.drain_time.is_zero() {
                crate::signals::stop_on_signals(&stop);
            } else {
                crate::signals::stop_one_per_signal(vec![stop, slave.cancel_stop()]);
            }
            if let Some(name) = &limits.user {
                sys::user::drop_to_user(name).map_err(|error| sys::describe(&error))?;
            }
            if port == 0 {
                let port = slave.port().map_err(listen_error)?;
                print(&format!("Listening at port {port}\n"));
            }
            slave.serve();
            Ok(())
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            sys::write_error_line(format_args!("{program}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn check(path: &Path) -> ExitCode {
    let Some(bytes) = read_file(path) else {
        return ExitCode::FAILURE;
    };
    let name = path.to_string_lossy();
    let source = ProfileSource {
        name: &name,
        bytes: &bytes,
    };
    let check = profile::check(&source, &ProfileContext::for_this_process());
    print(&check.plan);
    sys::write_error(format_args!("{}", check.notes));
    if check.has_no_errors {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Reads and parses a profile, and prints its errors and warnings. Returns the workorder and the
/// profile text, or `None` if the profile is invalid.
fn read_profile(path: &Path) -> Option<(Workorder, String)> {
    let name = path.to_string_lossy();
    let bytes = read_file(path)?;
    let source = ProfileSource {
        name: &name,
        bytes: &bytes,
    };
    let parsed = profile::parse(&source, &ProfileContext::for_this_process());
    let shows_source = std::io::stderr().is_terminal();
    sys::write_error(format_args!("{}", parsed.notes_text(&name, shows_source)));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some((parsed.workorder?, text))
}

/// Reads a file. Prints an error in the words of stock uperf.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    match sys::input_file::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let operation = if path.exists() { "open" } else { "stat" };
            let reason = sys::describe(&error);
            sys::write_error_line(format_args!(
                "Cannot {operation} file {}: {reason}",
                path.display()
            ));
            None
        }
    }
}

/// Returns the width of standard output in columns if it is a terminal.
fn terminal_columns() -> Option<u16> {
    let stdout = std::io::stdout();
    sys::process::terminal_columns(&stdout)
}

fn print(text: &str) {
    // `main` reports an error.
    let _ = getopt::stdout().write_all(text.as_bytes());
}
