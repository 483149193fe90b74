//! The server: `netserver`.
//!
//! A thread a control connection; what one client sends, or does not send, ends its own thread at
//! most. Every wait has a deadline and every allocation a bound: [`Limits`].

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

use control::ControlConnection;
use engine::{Budget, Reason, Stop};
use model::Transport;
use server::{Dialect, Server, ServerContext, Service, inherited_listeners, listen};
use sys::resolve::{self, Wanted};
use sys::{Address, Socket};

use self::files::Files;
use self::log::{log, warn};
use self::passphrase::Passphrase;
use crate::options::{Family, Limits, ServerSettings};

/// Why a server did not start, for stderr.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The stock text; two blanks after "with" are the stock tool's.
    #[error("Unable to start netserver with  '{host}' port '{port}' and family {family}")]
    Listen {
        /// The host to listen on, or the wildcard.
        host: String,
        /// The port, as typed.
        port: String,
        /// The family's name.
        family: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The system refused something that a server needs.
    #[error("could not {what}: {}", sys::describe(error))]
    System {
        /// What it was needed for.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// An option cannot be satisfied.
    #[error("netserver: {0}")]
    Option(io::Error),
}

/// A server that runs in this process, for `linerate run` on one host and for tests; it ends when
/// it is dropped.
#[derive(Debug)]
pub struct Embedded {
    port: u16,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Starts a server on a free port of the loopback interface.
    pub fn start(limits: Limits) -> io::Result<Self> {
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

    /// The control port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.pull(Reason::Cancelled);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs `netserver` to its end: in the foreground, as a daemon, or under a super-server.
///
/// Must be called before the process has a second thread, because it may fork. `stop_on_signals`
/// arranges that SIGTERM and SIGINT pull the stop that it is given; it is called in the process that
/// serves.
pub fn run(settings: &ServerSettings, stop_on_signals: fn(&Stop)) -> Result<(), StartError> {
    sys::process::raise_descriptor_limit();
    log::start(settings.debug > 0 && !settings.suppress_debug);
    // Opens files by relative names before the daemon changes its directory.
    let netserver = Netserver::new(settings.limits.clone(), settings.passphrase.clone());
    let netserver = netserver.map_err(StartError::Option)?;
    let stop = Stop::new();
    let server = Server::new(netserver, settings.limits.server.clone(), stop.clone());

    if let Some(control) = settings
        .may_be_inetd
        .then(sys::process::socket_on_stdin)
        .flatten()
    {
        // inetd waits for this process, and its connection is also our standard output.
        become_user(settings)?;
        sys::process::silence().map_err(|error| system("close the standard streams", error))?;
        stop_on_signals(&stop);
        server.serve_one(control.into());
        return Ok(());
    }
    let handed_over = inherited_listeners()
        .map_err(|error| system("take the socket that was handed over", error))?;
    let supervised = !handed_over.is_empty();
    let listeners = if supervised {
        handed_over
    } else {
        listen_as(settings)?
    };
    become_user(settings)?;
    if !settings.foreground && !supervised {
        let side = sys::process::detach().map_err(|error| system("go to the background", error))?;
        if side == sys::process::Side::Parent {
            return Ok(());
        }
        sys::process::silence().map_err(|error| system("close the standard streams", error))?;
    }
    stop_on_signals(&stop);
    server.run(listeners);
    Ok(())
}

/// The server of netperf's clients among those of a service.
pub fn among(
    service: &Service,
    limits: Limits,
    passphrase: Option<String>,
) -> io::Result<Arc<Server<impl Dialect + use<>>>> {
    log::start(false);
    Ok(Server::of(Netserver::new(limits, passphrase)?, service))
}

fn become_user(settings: &ServerSettings) -> Result<(), StartError> {
    match &settings.user {
        Some(name) => sys::user::become_for_good(name).map_err(StartError::Option),
        None => Ok(()),
    }
}

fn listen_as(settings: &ServerSettings) -> Result<Vec<Socket>, StartError> {
    let host = settings.listen_host.as_deref();
    let shown = host.unwrap_or("IN(6)ADDR_ANY");
    let family = settings.family.af_name();
    let refused = |error| StartError::Listen {
        host: shown.to_owned(),
        port: settings.port.clone(),
        family,
        error,
    };
    let port = resolve::port(&settings.port);
    let port = port.ok_or_else(|| refused(io::ErrorKind::InvalidInput.into()))?;
    let listeners = listen_at(host, settings.family, port).map_err(refused)?;
    let mut stdout = io::stdout();
    let _ = writeln!(
        stdout,
        "Starting netserver with host '{shown}' port '{}' and family {family}",
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
        let resolved = resolve::resolve(host, Wanted::Any).map_err(io::Error::other)?;
        addresses = resolved.at(port);
    }
    addresses.retain(|address| family.admits(address));
    listen(Transport::Tcp, &addresses, family == Family::V6)
}

fn system(what: &'static str, error: io::Error) -> StartError {
    StartError::System { what, error }
}

/// What all sessions share.
#[derive(Debug)]
struct Netserver {
    limits: Limits,
    passphrase: Option<Passphrase>,
    files: Files,
    /// Bytes of all tests' buffers.
    memory: Budget,
}

impl Netserver {
    fn new(limits: Limits, passphrase: Option<String>) -> io::Result<Self> {
        Ok(Self {
            files: Files::open(&limits.fill_directories)?,
            memory: Budget::new(limits.max_memory_bytes),
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

    fn log(&self, line: fmt::Arguments<'_>) {
        log(line);
    }

    fn warn(&self, line: fmt::Arguments<'_>) {
        warn(line);
    }
}
