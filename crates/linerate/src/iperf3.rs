//! `iperf3`: from argv to the exit code.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use engine::Stop;
use iperf3::Finished;
use iperf3::options::{self, Client, Common, Role, Server};
use report::{Peer, Report, Tested};

use crate::document::Page;

/// Runs a client or a server.
pub(crate) fn iperf3(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.into_iter().collect();
    let typed = report::typed(std::iter::once(program.into()).chain(words.iter().cloned()));
    let settings = match options::iperf3(program, words) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        eprintln!("{notice}");
    }
    sys::process::raise_descriptor_limit();
    let done = match &settings.role {
        Role::Client(client) => run(&typed, &settings.common, client),
        Role::Server(server) => serve(&settings.common, server),
    };
    done.unwrap_or_else(|why| {
        eprintln!("iperf3: error - {why}");
        ExitCode::FAILURE
    })
}

fn run(typed: &str, common: &Common, client: &Client) -> Result<ExitCode, String> {
    /// The exit code of a doubtful result with `--strict`.
    const DOUBTFUL: u8 = 3;
    let page = common.html.as_deref().map(Page::begin).transpose()?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    write_process_number(common)?;
    let finished = match log(common)? {
        Some(mut log) => {
            let mut errors = log.try_clone().map_err(|error| sys::describe(&error))?;
            iperf3::run(common, client, &stop, &mut log, &mut errors)
        }
        None => iperf3::run(common, client, &stop, &mut io::stdout(), &mut io::stderr()),
    };
    let Some((report, is_doubtful)) = report(typed, common, client, &finished, stop.is_set())
    else {
        return Ok(ExitCode::from(finished.code));
    };
    if let Some(path) = &common.report {
        write(path, &report::json(&report))?;
    }
    page.map_or(Ok(()), |page| page.write(&report))?;
    let doubt = if common.strict && is_doubtful {
        DOUBTFUL
    } else {
        0
    };
    Ok(ExitCode::from(finished.code.max(doubt)))
}

/// A client's test as the one test of a report, and whether there is a doubt about it.
fn report(
    typed: &str,
    common: &Common,
    client: &Client,
    finished: &Finished,
    interrupted: bool,
) -> Option<(Report, bool)> {
    let outcome = finished.run.as_ref()?.outcome()?;
    let (started, is_doubtful) = (outcome.started, !outcome.warnings.is_empty());
    let peer = Peer {
        kind: Some("iperf3"),
        ..Peer::of(&client.host, common.port.into())
    };
    let report = Report {
        command_line: typed.to_owned(),
        interrupted,
        tests: vec![Tested {
            error: finished.error.clone(),
            ..Tested::of_run(outcome)
        }],
        ..Report::of(peer, started)
    };
    Some((report, is_doubtful))
}

fn write(path: &Path, document: &str) -> Result<(), String> {
    let written = if path == Path::new("-") {
        io::stdout().write_all(document.as_bytes())
    } else {
        sys::WholeFile::begin(path).and_then(|file| file.write(document.as_bytes()))
    };
    written.map_err(|error| format!("cannot write {}: {}", path.display(), sys::describe(&error)))
}

fn serve(common: &Common, server: &Server) -> Result<ExitCode, String> {
    if server.daemon {
        match sys::process::detach().map_err(|error| sys::describe(&error))? {
            sys::process::Side::Parent => return Ok(ExitCode::SUCCESS),
            sys::process::Side::Daemon => {}
        }
    }
    write_process_number(common)?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let out: Box<dyn Write + Send> = match log(common)? {
        Some(log) => Box::new(log),
        None => Box::new(io::stdout()),
    };
    iperf3::server::run(common, server, &stop, out)?;
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
