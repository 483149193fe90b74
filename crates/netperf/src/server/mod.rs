//! The server: `netserver`.
//!
//! Each control connection has its own thread, and a client's input can end only this thread. Every
//! wait has a deadline and every allocation a bound: [`ServerLimits`].

mod assignment;
mod data;
mod files;
mod log;
mod passphrase;
mod reply;
mod session;
mod test;
mod wait;

use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use control::ControlConnection;
use engine::{ResourceBudget, SharedBudget, Stop, StopReason};
use model::Transport;
use server::{Dialect, Server, ServerContext, Service, inherited_listeners, listen};
use sys::call::Error;
use sys::resolve::{self, AddressFamily};
use sys::{Address, Socket};

use self::files::FillFiles;
use self::log::{log, warn};
use self::passphrase::Passphrase;
use crate::options::{Family, ServerLimits, ServerSettings};
use crate::wire::error_response;

/// Reason why a server did not start, for stderr.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The stock tool's text, with its two spaces after "with".
    #[error("Unable to start netserver with  '{host}' port '{port}' and family {family}")]
    Listen {
        /// The host to listen on, or the wildcard.
        host: String,
        /// The port, as typed.
        port: String,
        /// The family's name.
        family: &'static str,
        /// The error.
        error: io::Error,
    },
    /// The system refused an operation.
    #[error("could not {action}: {}", sys::describe(error))]
    System {
        /// The operation.
        action: &'static str,
        /// The error.
        error: io::Error,
    },
    /// An option cannot be satisfied.
    #[error("netserver: {0}")]
    Option(io::Error),
}

/// A server in this process, for `linerate run` on one host and for tests. Drop ends it.
#[derive(Debug)]
pub struct EmbeddedServer {
    port: u16,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Starts a server on a free port of the loopback interface.
    pub fn start(limits: ServerLimits) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let stop = Stop::new();
        let config = limits.server.clone();
        let server = Server::new(Netserver::new(limits, None)?, config, stop.clone());
        let thread =
            std::thread::Builder::new().spawn(move || server.run(vec![listener.into()]))?;
        Ok(Self {
            port,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the control port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        self.stop.set(StopReason::Cancelled);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs `netserver`: in the foreground, as a daemon, or under a super-server.
///
/// Call it while the process has only one thread, because it may fork. It calls `stop_on_signals`
/// in the serving process; that function must make SIGTERM and SIGINT set the given stop.
pub fn run(settings: &ServerSettings, stop_on_signals: fn(&Stop)) -> Result<(), StartError> {
    if settings.user.is_some() {
        sys::user::forbid_new_privileges()
            .map_err(|error| system_error("drop the capability bounding set", error))?;
    }
    log::start(settings.debug > 0 && !settings.suppress_debug);
    log::log(format_args!("resources: {}", ResourceBudget::process()));
    // Opens files with relative names before the daemon changes its directory.
    let netserver = Netserver::new(settings.limits.clone(), settings.passphrase.clone());
    let netserver = netserver.map_err(StartError::Option)?;
    let stop = Stop::new();
    let server = Server::new(netserver, settings.limits.server.clone(), stop.clone());

    if let Some(connection) = settings
        .may_be_inetd
        .then(sys::process::socket_on_stdin)
        .flatten()
    {
        // inetd waits for this process, and its connection is also standard output.
        drop_privileges(settings)?;
        sys::process::redirect_to_null()
            .map_err(|error| system_error("close the standard streams", error))?;
        stop_on_signals(&stop);
        server.serve_one(connection.into());
        return Ok(());
    }
    let inherited =
        inherited_listeners().map_err(|error| system_error("use the inherited socket", error))?;
    let is_supervised = !inherited.is_empty();
    let listeners = if is_supervised {
        inherited
    } else {
        listen_and_announce(settings)?
    };
    drop_privileges(settings)?;
    if !settings.foreground && !is_supervised {
        let result =
            sys::process::detach().map_err(|error| system_error("go to the background", error))?;
        if result == sys::process::DetachResult::Parent {
            return Ok(());
        }
        sys::process::redirect_to_null()
            .map_err(|error| system_error("close the standard streams", error))?;
    }
    stop_on_signals(&stop);
    server.run(listeners);
    Ok(())
}

/// Returns the server of netperf's clients, for a service of several dialects.
pub fn server_for_service(
    service: &Service,
    limits: ServerLimits,
    passphrase: Option<String>,
) -> io::Result<Arc<Server<impl Dialect + use<>>>> {
    log::start(false);
    Ok(Server::with_service(
        Netserver::new(limits, passphrase)?,
        service,
    ))
}

fn drop_privileges(settings: &ServerSettings) -> Result<(), StartError> {
    match &settings.user {
        Some(name) => sys::user::drop_to_user(name).map_err(StartError::Option),
        None => Ok(()),
    }
}

fn listen_and_announce(settings: &ServerSettings) -> Result<Vec<Socket>, StartError> {
    let host = settings.listen_host.as_deref();
    let shown_host = host.unwrap_or("IN(6)ADDR_ANY");
    let family = settings.family.af_name();
    let listen_error = |error| StartError::Listen {
        host: shown_host.to_owned(),
        port: settings.port.clone(),
        family,
        error,
    };
    let port = resolve::port(&settings.port);
    let port = port.ok_or_else(|| listen_error(io::ErrorKind::InvalidInput.into()))?;
    let listeners = listen_at(host, settings.family, port).map_err(listen_error)?;
    let mut stdout = getopt::stdout();
    let _ = writeln!(
        stdout,
        "Starting netserver with host '{shown_host}' port '{}' and family {family}",
        settings.port
    );
    let _ = stdout.flush();
    Ok(listeners)
}

fn listen_at(host: Option<&str>, family: Family, port: u16) -> io::Result<Vec<Socket>> {
    if family == Family::Vsock {
        let context = match host.map(str::parse) {
            None => Address::ANY_CONTEXT,
            Some(Ok(context)) => context,
            Some(Err(_)) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let port = port.into();
        return listen(Transport::Vsock, &[Address::Vsock { context, port }], false);
    }
    let mut addresses = Address::wildcards(port).to_vec();
    if let Some(host) = host {
        let resolved = resolve::resolve(host, AddressFamily::Any).map_err(io::Error::other)?;
        addresses = resolved.with_port(port);
    }
    addresses.retain(|address| family.includes(address));
    listen(Transport::Tcp, &addresses, family == Family::V6)
}

fn system_error(action: &'static str, error: io::Error) -> StartError {
    StartError::System { action, error }
}

/// State that all sessions share.
#[derive(Debug)]
struct Netserver {
    limits: ServerLimits,
    passphrase: Option<Passphrase>,
    fill_files: FillFiles,
    /// Budget for the buffers of all tests, in bytes.
    memory: SharedBudget,
}

impl Netserver {
    fn new(limits: ServerLimits, passphrase: Option<String>) -> io::Result<Self> {
        Ok(Self {
            fill_files: FillFiles::open(&limits.fill_directories)?,
            memory: SharedBudget::within(
                &ResourceBudget::process().memory,
                limits.max_memory_bytes,
            ),
            limits,
            passphrase: passphrase.map(Passphrase::new),
        })
    }
}

impl Dialect for Netserver {
    const NAME: &'static str = "netperf";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        session::serve(control, self, server)
    }

    fn refuse_client(&self, control: &ControlConnection, _: &str, error: Error) {
        let _ = control.write(&error_response(error.raw_os_error()), Duration::ZERO);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        log(line);
    }

    fn warn(&self, line: fmt::Arguments<'_>) {
        warn(line);
    }
}
