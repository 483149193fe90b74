//! `iperf3`: from argv to the exit code.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use engine::Stop;
use iperf3::TestRun;
use iperf3::options::{self, Client, Common, Role, Server};
use report::Peer;

use crate::document::{self, Documents};

/// Runs a client or a server.
pub(crate) fn iperf3(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.into_iter().collect();
    let typed = report::typed(std::iter::once(program.into()).chain(words.iter().cloned()));
    let settings = match options::iperf3(program, words) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        sys::write_error_line(format_args!("{notice}"));
    }
    sys::process::raise_descriptor_limit();
    let done = match &settings.role {
        Role::Client(client) => run(&typed, &settings.common, client),
        Role::Server(server) => serve(&settings.common, server),
    };
    done.unwrap_or_else(|why| {
        sys::write_error_line(format_args!("iperf3: error - {why}"));
        ExitCode::FAILURE
    })
}

fn run(typed: &str, common: &Common, client: &Client) -> Result<ExitCode, String> {
    let documents = Documents::begin(common.report.as_deref(), common.html.as_deref())?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    write_process_number(common)?;
    let finished = if let Some(mut log) = log(common)? {
        let mut errors = log.try_clone().map_err(|error| sys::describe(&error))?;
        iperf3::run(common, client, &stop, &mut log, &mut errors)
    } else if documents.take_stdout() {
        iperf3::run(common, client, &stop, &mut io::sink(), &mut io::stderr())
    } else {
        iperf3::run(common, client, &stop, &mut io::stdout(), &mut io::stderr())
    };
    let mut outcome = finished.run.as_ref().and_then(TestRun::outcome);
    let server = finished.run.as_ref().and_then(TestRun::peer_address);
    let doubt = outcome.as_mut().map_or(0, |outcome| {
        document::doubt("iperf3", outcome, server, common.strict)
    });
    let peer = Peer {
        kind: outcome.is_some().then_some("iperf3"),
        ..Peer::of(&client.host, common.port.into())
    };
    documents.write(&document::of_one_test(
        typed,
        peer,
        outcome.ok_or_else(|| iperf3::planned(client)),
        finished.error,
        stop.is_set(),
    ))?;
    Ok(ExitCode::from(if finished.code > 0 {
        finished.code
    } else {
        doubt
    }))
}

/// Must be called before the process has a second thread, because it may fork.
fn serve(common: &Common, server: &Server) -> Result<ExitCode, String> {
    let stop = Stop::new();
    let out: Box<dyn Write + Send> = match log(common)? {
        Some(log) => Box::new(log),
        None => Box::new(io::stdout()),
    };
    let begin = || {
        let goes_on = crate::signals::begin_serving(server.daemon, true, &stop)?;
        if goes_on {
            write_process_number(common)?;
        }
        Ok(goes_on)
    };
    iperf3::server::run(common, server, &stop, out, &begin)?;
    Ok(ExitCode::SUCCESS)
}

fn log(common: &Common) -> Result<Option<File>, String> {
    let open = |path: &Path| {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map_err(|error| {
            let why = sys::describe(&error);
            format!("unable to open log file {}: {why}", path.display())
        })
    };
    common.log_file.as_deref().map(open).transpose()
}

fn write_process_number(common: &Common) -> Result<(), String> {
    let Some(path) = &common.pid_file else {
        return Ok(());
    };
    let written = std::fs::write(path, format!("{}\n", std::process::id()));
    written.map_err(|error| {
        let why = sys::describe(&error);
        format!("unable to write PID file {}: {why}", path.display())
    })
}
