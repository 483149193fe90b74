//! `netperf` and `netserver`: from argv to the exit code.

#[cfg(feature = "report")]
mod report;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use netperf::options::{self, Exit, Settings};

/// Runs the server.
pub(crate) fn server(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match options::parse_netserver(program, args) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        // `main` reports an error.
        let _ = writeln!(getopt::stdout(), "{notice}");
    }
    match netperf::server::run(&settings, crate::signals::stop_on_signals) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            sys::write_error_line(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the client.
pub(crate) fn client(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match options::parse_netperf(program, args) {
        Ok(settings) => run(&settings).print(),
        Err(exit) => exit.print(),
    }
}

/// Runs a `super_netperf` client. It reports a failure in one line.
pub(crate) fn super_netperf(program: &str, settings: Result<Settings, Exit>) -> ExitCode {
    let settings = match settings {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    let exit = run(&settings);
    let outputs = [&exit.stderr, &exit.stdout];
    let reason = outputs.into_iter().flat_map(|text| text.lines()).next();
    match reason.filter(|_| exit.code != 0 && !settings.json) {
        None => exit.print(),
        Some(reason) => {
            sys::write_error_line(format_args!(
                "{program}: {}",
                reason.trim_start_matches("netperf: ")
            ));
            ExitCode::from(exit.code)
        }
    }
}

#[cfg(feature = "report")]
fn run(settings: &Settings) -> Exit {
    report::run(settings)
}

/// Runs the client in a build without reports.
#[cfg(not(feature = "report"))]
fn run(settings: &Settings) -> Exit {
    if settings.has_report() {
        let error = "netperf: --json, --html: this build has no reports (cargo feature report)\n";
        return Exit::stderr(error, 1);
    }
    let stop = engine::Stop::new();
    crate::signals::stop_on_signals_and_alarm(&stop);
    netperf::run(settings, &stop, &mut getopt::stdout()).exit
}
