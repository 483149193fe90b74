//! `iperf`: from argv to the exit code.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use engine::Stop;
use iperf::event::Observer;
use iperf::options::{self, Client, PermitKey, Role, Serve, Settings};
use iperf::output::Printer;
use model::Outcome;
use report::{Peer, Report, Tested};

use crate::document::Page;

/// Runs a client or a server.
pub(crate) fn iperf(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.into_iter().collect();
    let typed = report::typed(std::iter::once(program.into()).chain(words.iter().cloned()));
    let settings = match options::iperf(program, words, |name| std::env::var(name).ok()) {
        Ok(settings) => Arc::new(settings),
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        eprintln!("{notice}");
    }
    sys::process::raise_descriptor_limit();
    let done = match &settings.role {
        Role::Client(client) => run(&typed, &settings, client),
        Role::Server(server) => serve(&settings, server).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|why| {
        eprintln!("{program}: {why}");
        ExitCode::FAILURE
    })
}

/// What prints: to the terminal, or to the file of `-o`.
fn printer(settings: &Settings, is_quiet: bool) -> Result<Arc<dyn Observer>, String> {
    let key = match &settings.permit_key {
        Some(PermitKey::This(key)) => Some(key.clone()),
        _ => None,
    };
    let (out, errors): (Box<dyn Write + Send>, Box<dyn Write + Send>) = match &settings.print.file {
        None => (Box::new(std::io::stdout()), Box::new(std::io::stderr())),
        Some(path) => {
            let unwritten =
                |error| format!("cannot write {}: {}", path.display(), sys::describe(&error));
            let file = File::create(path).map_err(unwritten)?;
            let copy = file.try_clone().map_err(unwritten)?;
            println!(
                "Output from stdout and stderr will be redirected to file {}",
                path.display()
            );
            (Box::new(file), Box::new(copy))
        }
    };
    Ok(Arc::new(Printer::new(settings, key, is_quiet, out, errors)))
}

fn run(typed: &str, settings: &Settings, client: &Client) -> Result<ExitCode, String> {
    let page = client.html.as_deref().map(Page::begin).transpose()?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let printer = printer(settings, client.json)?;
    let finished = iperf::client::run(settings, client, &printer, &stop);
    let code = if finished.has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    };
    let Some(outcome) = finished.outcome else {
        return Ok(code);
    };
    if !client.json && page.is_none() {
        return Ok(code);
    }
    let report = report(typed, settings, client, outcome, stop.is_set());
    if client.json {
        // A reader that has had enough is no failure.
        let _ = std::io::stdout().write_all(report::json(&report).as_bytes());
    }
    page.map_or(Ok(()), |page| page.write(&report))?;
    Ok(code)
}

/// A client's test as the one test of a report.
fn report(
    typed: &str,
    settings: &Settings,
    client: &Client,
    outcome: Outcome,
    interrupted: bool,
) -> Report {
    let started = outcome.started;
    let peer = Peer {
        kind: Some("iperf"),
        ..Peer::of(&client.host, settings.ports.0.into())
    };
    Report {
        command_line: typed.to_owned(),
        interrupted,
        tests: vec![Tested::of_run(outcome)],
        ..Report::of(peer, started)
    }
}

/// Must be called before the process has a second thread, because it may fork.
fn serve(settings: &Arc<Settings>, server: &Serve) -> Result<(), String> {
    if server.daemon {
        let refused = |error| format!("could not go to the background: {}", sys::describe(&error));
        println!("Running Iperf Server as a daemon");
        if sys::process::detach().map_err(refused)? == sys::process::Side::Parent {
            return Ok(());
        }
        if settings.print.file.is_none() {
            sys::process::silence().map_err(refused)?;
        }
    }
    let printer = printer(settings, false)?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    iperf::server::run(settings, server, &printer, &stop)
}
