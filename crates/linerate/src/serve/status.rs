//! The status of `linerate serve`. The server answers each connection to a Unix socket with a JSON
//! document, which `linerate status` shows.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use server::{Service, TestRecord};
use units::BitRate;

use super::log::format_amount;

/// The timeout for reading or writing a document.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of a document in bytes.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// The width of the start time and the space after it.
const START_TIME_COLUMNS: usize = 22;

/// Arguments of `linerate status`.
///
/// Shows the running tests of a `linerate serve` process of this user.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Path of the server's status socket [default: same as for `linerate serve --status`]
    #[arg(long, value_name = "PATH")]
    status: Option<PathBuf>,

    /// Print a JSON document instead of a table
    #[arg(long)]
    json: bool,

    /// Repeat every second until interrupted
    #[arg(long)]
    follow: bool,
}

/// The status document.
#[derive(Debug, Deserialize, Serialize)]
struct StatusDocument {
    version: String,
    process: u32,
    started: String,
    stopping: bool,
    tests: Vec<TestRecord>,
}

/// The status socket of a server.
pub(super) struct StatusListener {
    path: PathBuf,
    socket: UnixListener,
}

/// Prints the status.
pub(crate) fn run(args: &Args) -> ExitCode {
    loop {
        match read_status(args) {
            // A closed pipe ends the output.
            Ok(text) if getopt::stdout().write_all(text.as_bytes()).is_err() => {
                return ExitCode::SUCCESS;
            }
            Ok(_) if !args.follow => return ExitCode::SUCCESS,
            Ok(_) => std::thread::sleep(Duration::from_secs(1)),
            Err(error) => {
                sys::write_error_line(format_args!("linerate status: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
}

fn read_status(args: &Args) -> Result<String, String> {
    let path = args.status.clone().map_or_else(default_path, Ok)?;
    let text = fetch(&path).map_err(|error| {
        let reason = sys::describe(&error);
        format!(
            "cannot read {}: {reason}; is linerate serve running?",
            path.display()
        )
    })?;
    if args.json {
        return Ok(codec::escaped_json(&text));
    }
    let document: StatusDocument = serde_json::from_str(&text).map_err(|error| {
        let reason = error.to_string();
        format!(
            "{}: not a status: {}",
            path.display(),
            codec::escaped(&reason)
        )
    })?;
    let is_redrawn = args.follow && io::stdout().is_terminal();
    let clear = if is_redrawn { "\x1b[H\x1b[2J" } else { "" };
    let columns = sys::process::terminal_columns(io::stdout()).map_or(usize::MAX, usize::from);
    Ok(format!("{clear}{}", format_table(&document, columns)))
}

fn fetch(path: &Path) -> io::Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    let mut text = String::new();
    stream.take(MAX_DOCUMENT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Formats the tests in lines of at most `columns` characters. If the last column does not fit, it
/// gets lines of its own.
fn format_table(document: &StatusDocument, columns: usize) -> String {
    let stopping = if document.stopping { ", stopping" } else { "" };
    let mut text = format!(
        "linerate {}, process {}, since {}{stopping}: {} test{}\n",
        codec::escaped(&document.version),
        document.process,
        codec::escaped(&document.started),
        document.tests.len(),
        if document.tests.len() == 1 { "" } else { "s" },
    );
    let mut rows = Vec::new();
    if !document.tests.is_empty() {
        let header =
            "STARTED               SECONDS  RATE           CLIENT                   DIALECT";
        rows.push((header.to_owned(), "TEST, AMOUNT".to_owned()));
    }
    for test in &document.tests {
        let [peer, dialect, name] = [&test.peer, &test.dialect, &test.test].map(codec::escaped);
        let seconds = test.seconds;
        let started = humantime::format_rfc3339_seconds(test.started);
        let rate = BitRate(test.bits_per_second).to_string();
        let amount = format_amount(test);
        rows.push((
            format!("{started}  {seconds:7.1}  {rate:13}  {peer:23}  {dialect:7}"),
            format!("{name}, {amount}"),
        ));
    }
    let width = |(start, test): &(String, String)| start.len() + 2 + test.chars().count();
    let is_wide = rows.iter().any(|row| width(row) > columns);
    for (start, test) in rows {
        if is_wide {
            // The start time follows from the duration.
            let start = start
                .split_at_checked(START_TIME_COLUMNS)
                .map_or("", |(_, rest)| rest);
            for line in [start.to_owned(), format!("    {test}")] {
                let line: String = line.chars().take(columns).collect();
                let _ = writeln!(text, "{}", line.trim_end());
            }
        } else {
            let _ = writeln!(text, "{start}  {test}");
        }
    }
    text
}

fn default_path() -> Result<PathBuf, String> {
    let path_variable = |variable| std::env::var_os(variable).map(PathBuf::from);
    let directory = path_variable("RUNTIME_DIRECTORY")
        .or_else(|| {
            (sys::process::effective_user_id() == 0).then(|| PathBuf::from("/run/linerate"))
        })
        .or_else(|| path_variable("XDG_RUNTIME_DIR").map(|directory| directory.join("linerate")));
    let directory = directory.ok_or("XDG_RUNTIME_DIR is not set; use --status PATH")?;
    Ok(directory.join("status.sock"))
}

impl StatusListener {
    /// Listens at a path in a directory that only this user can write to. Replaces the socket of a
    /// server that has ended, but no other file.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, String> {
        let path = path.map_or_else(default_path, |path| Ok(path.to_owned()))?;
        let socket = bind_socket(&path).map_err(|error| {
            format!(
                "status socket {}: {}",
                path.display(),
                sys::describe(&error)
            )
        })?;
        Ok(Self { path, socket })
    }

    /// Answers connections on a separate thread until the process ends.
    pub(super) fn serve(&self, service: &Service) -> io::Result<()> {
        let (socket, service) = (self.socket.try_clone()?, service.clone());
        let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let answer_connections = move || {
            for stream in socket.incoming() {
                let Ok(mut stream) = stream else {
                    // All descriptors may be in use. Retry later.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let _ = stream.set_write_timeout(Some(IO_TIMEOUT));
                let document = status_document(&service, &started);
                let _ = writeln!(
                    stream,
                    "{}",
                    serde_json::to_string(&document).unwrap_or_default()
                );
            }
        };
        let thread = std::thread::Builder::new().name("status".to_owned());
        thread.spawn(answer_connections).map(drop)
    }
}

impl Drop for StatusListener {
    /// Removes the socket file. A server that has changed its user may lack the permission; the
    /// next server then replaces the file.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn status_document(service: &Service, started: &str) -> StatusDocument {
    StatusDocument {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: std::process::id(),
        started: started.to_owned(),
        stopping: service.stop().is_set(),
        tests: service.running().records(),
    }
}

fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let refuse = |reason: &str| {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            reason.to_owned(),
        ))
    };
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    if !directory.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(directory)?;
    }
    let user = sys::process::effective_user_id();
    let metadata = std::fs::metadata(directory)?;
    if metadata.uid() != user || metadata.mode() & 0o022 != 0 {
        return refuse("other users can write to its directory");
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => return refuse("it is not a socket"),
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return refuse("another server listens on it");
        }
        Ok(_) => std::fs::remove_file(path)?,
    }
    sys::process::with_private_files(|| UnixListener::bind(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_the_terminal() {
        let test = TestRecord {
            started: SystemTime::UNIX_EPOCH,
            peer: "[2001:db8:1234:5678:9abc:def0:1234:5678]:12345".to_owned(),
            dialect: "iperf3".to_owned(),
            test: "TCP bidirectional, streams: 2".to_owned(),
            seconds: 1.0,
            received_bytes: 1 << 30,
            sent_bytes: 1 << 30,
            bits_per_second: 1e9,
            overlapping_tests: 0,
            overlapped_with: Vec::new(),
            is_complete: false,
            end: None,
        };
        let document = |count| StatusDocument {
            version: "1".to_owned(),
            process: 1,
            started: "2026-01-01".to_owned(),
            stopping: false,
            tests: vec![test.clone(); count],
        };
        for columns in [40, 80, 120, 400] {
            let table = format_table(&document(2), columns);
            let rows: Vec<_> = table.lines().skip(1).collect();
            assert_eq!(rows.len(), if columns == 400 { 3 } else { 6 });
            let is_fitting = rows.iter().all(|row| row.chars().count() <= columns);
            assert!(is_fitting, "{columns}: {table}");
        }
        for (count, text) in [(0, ": 0 tests\n"), (1, ": 1 test\n"), (2, ": 2 tests\n")] {
            let table = format_table(&document(count), 80);
            assert!(table.contains(text), "{table}");
        }
    }
}
