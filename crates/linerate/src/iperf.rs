//! `iperf`: from argv to the exit code.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::Stop;
use iperf::event::Observer;
use iperf::options::{self, Client, PermitKey, Role, Serve, Settings};
use iperf::output::Printer;
use report::Peer;

use crate::document::{self, Documents};

/// Runs a client or a server.
pub(crate) fn iperf(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.into_iter().collect();
    let typed = report::typed(std::iter::once(program.into()).chain(words.iter().cloned()));
    let settings = match options::iperf(program, words, |name| std::env::var(name).ok()) {
        Ok(settings) => Arc::new(settings),
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        sys::write_error_line(format_args!("{notice}"));
    }
    sys::process::raise_descriptor_limit();
    if settings.real_time
        && let Err(error) = sys::clock::be_real_time()
    {
        sys::write_error_line(format_args!("{program}: -z: {}", sys::describe(&error)));
        return ExitCode::FAILURE;
    }
    let done = match &settings.role {
        Role::Client(client) => run(&typed, &settings, client),
        Role::Server(server) => serve(&settings, server).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|why| {
        sys::write_error_line(format_args!("{program}: {why}"));
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
            let _ = writeln!(
                std::io::stdout(),
                "Output from stdout and stderr will be redirected to file {}",
                path.display()
            );
            (Box::new(file), Box::new(copy))
        }
    };
    Ok(Arc::new(Printer::new(settings, key, is_quiet, out, errors)))
}

fn run(typed: &str, settings: &Settings, client: &Client) -> Result<ExitCode, String> {
    let json = client.json.then_some(Path::new("-"));
    let documents = Documents::begin(json, client.html.as_deref())?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let printer = printer(settings, client.json)?;
    let mut finished = iperf::client::run(settings, client, &printer, &stop);
    let doubt = finished.outcome.as_mut().map_or(0, |outcome| {
        document::doubt("iperf", outcome, finished.peer.as_ref(), client.strict)
    });
    let code = if finished.error.is_some() { 1 } else { doubt };
    let peer = Peer {
        kind: finished.outcome.is_some().then_some("iperf"),
        ..Peer::of(&client.host, settings.ports.0.into())
    };
    let measured = finished.outcome.ok_or_else(|| client.plan.clone());
    documents.write(&document::of_one_test(
        typed,
        peer,
        measured,
        finished.error,
        stop.is_set(),
    ))?;
    Ok(ExitCode::from(code))
}

/// Must be called before the process has a second thread, because it may fork.
fn serve(settings: &Arc<Settings>, server: &Serve) -> Result<(), String> {
    let printer = printer(settings, false)?;
    let stop = Stop::new();
    let is_silent = settings.print.file.is_none();
    let begin = || {
        if server.daemon {
            let _ = writeln!(std::io::stdout(), "Running Iperf Server as a daemon");
        }
        crate::signals::begin_serving(server.daemon, is_silent, &stop)
    };
    iperf::server::run(settings, server, &printer, &stop, &begin)
}
