//! `iperf`: from argv to the exit code.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::Stop;
use iperf::event::Observer;
use iperf::options::{self, ClientSettings, PermitKey, Role, ServerSettings, Settings};
use iperf::output::Printer;
use report::PeerInfo;

use crate::document::{self, Documents};

/// Runs a client or a server.
pub(crate) fn iperf(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arg_list: Vec<OsString> = args.into_iter().collect();
    let words = std::iter::once(program.into()).chain(arg_list.iter().cloned());
    let command_line = report::quote_command_line(options::displayed_words(words));
    let settings = match options::parse_iperf(program, arg_list, |name| std::env::var(name).ok()) {
        Ok(settings) => Arc::new(settings),
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        sys::write_error_line(format_args!("{notice}"));
    }
    if settings.real_time
        && let Err(error) = sys::clock::set_real_time()
    {
        sys::write_error_line(format_args!("{program}: -z: {}", sys::describe(&error)));
        return ExitCode::FAILURE;
    }
    let result = match &settings.role {
        Role::Client(client) => run(&command_line, &settings, client),
        Role::Server(server) => serve(&settings, server).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        sys::write_error_line(format_args!("{program}: {error}"));
        ExitCode::FAILURE
    })
}

/// Returns the printer, which writes to the terminal or to the file of `-o`.
fn printer(settings: &Settings, is_quiet: bool) -> Result<Arc<dyn Observer>, String> {
    let key = match &settings.permit_key {
        Some(PermitKey::Key(key)) => Some(key.clone()),
        _ => None,
    };
    let (out, errors): (Box<dyn Write + Send>, Box<dyn Write + Send>) = match &settings.output.path
    {
        None => (Box::new(getopt::stdout()), Box::new(std::io::stderr())),
        Some(path) => {
            let write_error =
                |error| format!("cannot write {}: {}", path.display(), sys::describe(&error));
            let options = &mut File::options();
            let options = options.write(true).create(true).truncate(true);
            let file = sys::open_output(options, path).map_err(write_error)?;
            let copy = file.try_clone().map_err(write_error)?;
            let _ = writeln!(
                getopt::stdout(),
                "Output from stdout and stderr will be redirected to file {}",
                path.display()
            );
            (Box::new(getopt::Output::new(file)), Box::new(copy))
        }
    };
    Ok(Arc::new(Printer::new(settings, key, is_quiet, out, errors)))
}

fn run(
    command_line: &str,
    settings: &Settings,
    client: &ClientSettings,
) -> Result<ExitCode, String> {
    let json = client.json.then_some(Path::new("-"));
    let documents = Documents::open(json, client.html.as_deref())?;
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let printer = printer(settings, client.json)?;
    let mut finished = iperf::client::run(settings, client, &printer, &stop);
    let warnings_code = finished.outcome.as_mut().map_or(0, |outcome| {
        document::add_and_print_warnings("iperf", outcome, finished.peer.as_ref(), client.strict)
    });
    let code = if finished.error.is_some() {
        1
    } else {
        warnings_code
    };
    let peer = PeerInfo {
        kind: finished.outcome.is_some().then_some("iperf"),
        ..PeerInfo::new(&client.host, settings.ports.0.into())
    };
    let outcome_or_plan = finished.outcome.ok_or_else(|| client.plan.clone());
    documents.write(&document::single_test_report(
        command_line,
        peer,
        outcome_or_plan,
        finished.error,
        stop.is_set(),
    ))?;
    Ok(ExitCode::from(code))
}

/// Runs a server. Call it before the process starts a second thread, because it may fork.
fn serve(settings: &Arc<Settings>, server: &ServerSettings) -> Result<(), String> {
    let printer = printer(settings, false)?;
    let stop = Stop::new();
    let redirects_to_null = settings.output.path.is_none();
    let begin = || {
        if server.daemon {
            let _ = writeln!(getopt::stdout(), "Running Iperf Server as a daemon");
        }
        let install_handlers = || crate::signals::stop_on_signals(&stop);
        crate::signals::begin_serving(server.daemon, redirects_to_null, install_handlers)
    };
    iperf::server::run(settings, server, &printer, &stop, &begin)
}
