//! `netperf` and `netserver`: from argv to the exit code.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use netperf::options::{self, Exit};

/// Runs the server.
pub(crate) fn server(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match options::netserver(program, args) {
        Ok(settings) => settings,
        Err(exit) => return leave(&exit),
    };
    for notice in &settings.notices {
        // A reader that has had enough is no failure.
        let _ = writeln!(std::io::stdout(), "{notice}");
    }
    match netperf::server::run(&settings, crate::signals::stop_on_signals) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the client.
pub(crate) fn client(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match options::netperf(program, args) {
        Ok(settings) => settings,
        Err(exit) => return leave(&exit),
    };
    let stop = engine::Stop::new();
    crate::signals::stop_on_signals_and_alarm(&stop);
    let exit = netperf::client::run(&settings, &stop, &mut std::io::stdout());
    leave(&exit)
}

fn leave(exit: &Exit) -> ExitCode {
    // A reader that has had enough is no failure.
    let _ = std::io::stdout().write_all(exit.stdout.as_bytes());
    let _ = std::io::stderr().write_all(exit.stderr.as_bytes());
    ExitCode::from(exit.code)
}
