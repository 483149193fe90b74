//! `iperf3`: from argv to the exit code.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Stop;
use getopt::stock_version;
use iperf3::TestRun;
use iperf3::options::{self, ClientSettings, CommonSettings, Role, ServerSettings};
use report::PeerInfo;

use crate::document::{self, Documents};

/// Runs a client or a server.
pub(crate) fn iperf3(program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arg_list: Vec<OsString> = args.into_iter().collect();
    let command_line =
        report::quote_command_line(std::iter::once(program.into()).chain(arg_list.iter().cloned()));
    let settings = match options::parse_iperf3(
        program,
        arg_list,
        stock_version::variable_value().as_deref(),
    ) {
        Ok(settings) => settings,
        Err(exit) => return exit.print(),
    };
    for notice in &settings.notices {
        sys::write_error_line(format_args!("{notice}"));
    }
    let result = match &settings.role {
        Role::Client(client) => run(&command_line, &settings.common, client),
        Role::Server(server) => serve(&settings.common, server),
    };
    result.unwrap_or_else(|error| {
        sys::write_error_line(format_args!("iperf3: error - {error}"));
        ExitCode::FAILURE
    })
}

fn run(
    command_line: &str,
    common: &CommonSettings,
    client: &ClientSettings,
) -> Result<ExitCode, String> {
    let documents = Documents::open(common.linerate_json.as_deref(), common.html.as_deref())?;
    let stop = Stop::new();
    crate::signals::stop_on_signals_and_hangup(&stop);
    let pid_file = PidFile::open(common)?;
    pid_file.write()?;
    let finished = if let Some(mut log) = open_log_file(common)? {
        let mut errors = log.try_clone().map_err(|error| sys::describe(&error))?;
        let log = &mut getopt::Output::new(&mut log);
        iperf3::run(common, client, &stop, log, &mut errors)
    } else if documents.is_json_on_stdout() {
        iperf3::run(common, client, &stop, &mut io::sink(), &mut io::stderr())
    } else {
        iperf3::run(
            common,
            client,
            &stop,
            &mut getopt::stdout(),
            &mut io::stderr(),
        )
    };
    let mut outcome = finished.run.as_ref().and_then(TestRun::outcome);
    let server = finished.run.as_ref().and_then(TestRun::peer_address);
    let warnings_code = outcome.as_mut().map_or(0, |outcome| {
        document::add_and_print_warnings("iperf3", outcome, server, common.strict)
    });
    let peer = PeerInfo {
        kind: outcome.is_some().then_some("iperf3"),
        ..PeerInfo::new(&client.host, common.port.into())
    };
    documents.write(&document::single_test_report(
        command_line,
        peer,
        outcome.ok_or_else(|| iperf3::test_plan(client)),
        finished.error,
        stop.is_set(),
    ))?;
    Ok(ExitCode::from(if finished.code > 0 {
        finished.code
    } else {
        warnings_code
    }))
}

/// Runs a server. Call it before the process starts a second thread, because it may fork.
fn serve(common: &CommonSettings, server: &ServerSettings) -> Result<ExitCode, String> {
    for path in server.private_key.iter().chain(&server.users_file) {
        sys::input_file::warn_if_exposed("iperf3", path);
    }
    let stop = Stop::new();
    let out: Box<dyn Write + Send> = match open_log_file(common)? {
        Some(log) => Box::new(getopt::Output::new(log)),
        None => Box::new(getopt::stdout()),
    };
    // A daemon changes its directory, so relative paths are resolved before.
    let mut common = common.clone();
    if let Some(path) = common.file.as_mut().filter(|_| server.daemon) {
        *path = std::path::absolute(&*path).map_err(|error| sys::describe(&error))?;
    }
    let pid_file = OnceCell::new();
    let begin = || {
        let opened_pid_file = PidFile::open(&common)?;
        let install_handlers = || crate::signals::stop_on_signals_and_hangup(&stop);
        let is_server_process =
            crate::signals::begin_serving(server.daemon, true, install_handlers)?;
        if is_server_process {
            pid_file.get_or_init(|| opened_pid_file).write()?;
        }
        Ok(is_server_process)
    };
    iperf3::server::run(&common, server, &stop, out, &begin)?;
    Ok(ExitCode::SUCCESS)
}

fn open_log_file(common: &CommonSettings) -> Result<Option<File>, String> {
    let open = |path: &Path| {
        let file = sys::open_output(OpenOptions::new().create(true).append(true), path);
        file.map_err(|error| {
            let reason = sys::describe(&error);
            format!("unable to open log file {}: {reason}", path.display())
        })
    };
    common.log_file.as_deref().map(open).transpose()
}

/// The file of `-I`, if there is one. It is removed when this value is dropped.
struct PidFile(Option<(PathBuf, File)>);

impl PidFile {
    /// Opens the file for [`write`](Self::write), which may follow in another process and directory.
    fn open(common: &CommonSettings) -> Result<Self, String> {
        let open = |path: &PathBuf| {
            let options = &mut OpenOptions::new();
            let options = options.create(true).truncate(false).write(true);
            let file = sys::open_output(options, path);
            let file = std::path::absolute(path).and_then(|path| Ok((path, file?)));
            file.map_err(|error| pid_file_error(path, &error))
        };
        common.pid_file.as_ref().map(open).transpose().map(Self)
    }

    /// Writes this process's ID, without a newline as stock.
    fn write(&self) -> Result<(), String> {
        let Some((path, file)) = &self.0 else {
            return Ok(());
        };
        let written =
            sys::truncate(file, path).and_then(|()| write!(&*file, "{}", std::process::id()));
        written.map_err(|error| pid_file_error(path, &error))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.0
            && (path.symlink_metadata()).is_ok_and(|metadata| metadata.is_file())
        {
            // The parent of a daemon, and a server that failed, leave another process's ID there.
            let id = std::fs::read_to_string(path).unwrap_or_default();
            if id.trim() == std::process::id().to_string() {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn pid_file_error(path: &Path, error: &io::Error) -> String {
    let reason = sys::describe(error);
    format!("unable to write PID file {}: {reason}", path.display())
}
