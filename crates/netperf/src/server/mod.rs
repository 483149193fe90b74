//! The server: `netserver`.
//!
//! A thread a control connection; what one client sends, or does not send, ends its own thread at
//! most. Every wait has a deadline and every allocation a bound: [`Limits`].

mod assignment;
mod data;
mod family;
mod files;
mod listen;
mod log;
mod omni;
mod passphrase;
mod registry;
mod reply;
mod session;
mod test;
mod wait;

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::{Address, Socket};

use engine::{Budget, Exceeded, Holder, Reason, Share, Stop};

use self::files::Files;
use self::log::{log, warn};
use self::passphrase::Passphrase;
use self::registry::Registry;
use self::session::Surroundings;
use crate::options::{Limits, ServerSettings};

/// A session's stack: its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// How long the accepting thread sleeps when nobody comes; a stop wakes it.
const LOOK: Duration = Duration::from_secs(3600);

/// How long a session may take to end when its test has been ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

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
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let server = Arc::new(Server::new(limits, None)?);
        let stop = server.stop.clone();
        let thread = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || server.accept_until_stopped(vec![listener.into()], false))?;
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
    let server = Server::new(settings.limits.clone(), settings.passphrase.clone());
    let server = Arc::new(server.map_err(StartError::Option)?);

    if let Some(control) = settings
        .may_be_inetd
        .then(sys::process::socket_on_stdin)
        .flatten()
    {
        // inetd waits for this process, and its connection is also our standard output.
        become_user(settings)?;
        sys::process::silence().map_err(|error| system("close the standard streams", error))?;
        engine::keeper();
        stop_on_signals(&server.stop);
        server.serve(control.into());
        return Ok(());
    }
    let handed_over = handed_over_listeners()
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
    engine::keeper();
    stop_on_signals(&server.stop);
    server.accept_until_stopped(listeners, settings.serial);
    Ok(())
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
    let port = sys::resolve::port(&settings.port);
    let port = port.ok_or_else(|| refused(io::ErrorKind::InvalidInput.into()))?;
    let listeners = listen::bind(host, settings.family, port).map_err(refused)?;
    let mut stdout = io::stdout();
    let _ = writeln!(
        stdout,
        "Starting netserver with host '{shown}' port '{}' and family {family}",
        settings.port
    );
    let _ = stdout.flush();
    Ok(listeners)
}

/// Listening sockets from systemd: LISTEN_FDS, sd_listen_fds(3).
fn handed_over_listeners() -> io::Result<Vec<Socket>> {
    let mut handed = listenfd::ListenFd::from_env();
    (0..handed.len())
        .filter_map(|at| handed.take_tcp_listener(at).transpose())
        .map(|listener| listener.map(Socket::from))
        .collect()
}

fn system(what: &'static str, error: io::Error) -> StartError {
    StartError::System { what, error }
}

/// What all sessions share.
#[derive(Debug)]
struct Server {
    limits: Limits,
    passphrase: Option<Passphrase>,
    files: Files,
    registry: Registry,
    /// Bytes of all tests' buffers.
    memory: Budget,
    /// Control connections.
    clients: Budget,
    /// No test may begin.
    stop: Stop,
    /// Running tests end without results: `--drain-on-exit` after the stop.
    cut: Stop,
}

impl Server {
    fn new(limits: Limits, passphrase: Option<String>) -> io::Result<Self> {
        let stop = Stop::new();
        Ok(Self {
            cut: stop.follower_after(limits.drain_on_exit),
            stop,
            files: Files::open(&limits.fill_directories)?,
            memory: Budget::new(limits.max_memory_bytes),
            clients: Budget::new(limits.max_clients as u64),
            limits,
            passphrase: passphrase.map(Passphrase::new),
            registry: Registry::default(),
        })
    }

    fn accept_until_stopped(self: &Arc<Self>, listeners: Vec<Socket>, serial: bool) {
        let _attending = self.stop.attend();
        while !self.stop.is_set() {
            match listen::accept(&listeners, LOOK) {
                Ok(Some(control)) => {
                    let serving = self.serve_in_thread(control);
                    // A thread also then: a client may have its own bound to a CPU.
                    if serial && let Some(serving) = serving {
                        let _ = serving.join();
                    }
                }
                Ok(None) | Err(sys::call::Error::INTR) => {}
                // No descriptor or no memory is left: the clients that have them will give them back.
                Err(error) => {
                    log(format_args!("accept: {}", sys::describe(&error)));
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        // Refuse new clients instead of letting them wait for the drain.
        drop(listeners);
        let until = Instant::now() + self.limits.drain_on_exit + LAST_WORDS;
        while self.clients.used() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        for left in self.registry.describe() {
            log(format_args!("still running at the end: {left}"));
        }
    }

    fn serve_in_thread(self: &Arc<Self>, control: OwnedFd) -> Option<JoinHandle<()>> {
        let control = Socket::from(control);
        let peer = Address::of_peer(&control).ok()?;
        let client = self
            .admit(&peer)
            .inspect_err(|why| warn(format_args!("{peer}: refused a client: {why}")))
            .ok()?;
        let server = Arc::clone(self);
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                server.serve(control);
                drop(client);
            })
            .inspect_err(|error| log(format_args!("refused a client: {}", sys::describe(error))))
            .ok()
    }

    /// A place among the clients, as long as it is held.
    fn admit(&self, peer: &Address) -> Result<Share, Exceeded> {
        self.clients.take(Holder::of(peer), 1)
    }

    fn serve(&self, control: Socket) {
        let around = Surroundings {
            limits: &self.limits,
            passphrase: self.passphrase.as_ref(),
            files: &self.files,
            registry: &self.registry,
            memory: &self.memory,
            stop: &self.stop,
            cut: &self.cut,
        };
        if let Err(error) = session::serve(control, around) {
            log(format_args!(
                "control connection: {}",
                sys::describe(&error)
            ));
        }
    }
}
