//! Accepts clients, and gives each a session on a thread of its own.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use control::ControlConnection;
use engine::{Budget, Exceeded, Holder, Share, Stop, deadline_thread};
use model::with_defaults;
use sys::call::Error;
use sys::{Address, Socket};

use crate::listener::accept;
use crate::{Network, Registry};

/// A session's stack. Its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// The pause after a failed accept(2). The connection stays in the queue.
const PAUSE: Duration = Duration::from_millis(20);

/// How long sessions may take to end after [`ServerContext::cut`].
const LAST_MESSAGES: Duration = Duration::from_secs(10);

/// A dialect's part of a server: the sessions with its clients.
pub trait Dialect: Send + Sync + 'static {
    /// Serves a client to the end of its connection, on a thread of its own. The server logs an error.
    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()>;

    /// Reports to a client why it is not served, or not to its end, if the protocol has a message for that. The client may
    /// be gone. No other one is accepted meanwhile, so it must not wait. The server closes the connection and writes
    /// the log line.
    fn tell(&self, _control: &ControlConnection, _why: &str) {}

    /// Writes a line to the log, if the user wants one.
    fn log(&self, line: fmt::Arguments<'_>);

    /// Writes a line about a refused client, which may be an attacker.
    fn warn(&self, line: fmt::Arguments<'_>) {
        self.log(line);
    }
}

/// Why a server does not serve a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its address is outside the networks of `--allow-peers`.
    Network,
    /// All places are taken, which are this many.
    Full(u32),
    /// Its address has all that one address may have of this many places.
    AddressFull(u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("no network of --allow-peers has its address"),
            Self::Full(1) => f.write_str("the only place is taken"),
            Self::Full(places) => write!(f, "all {places} places are taken"),
            Self::AddressFull(places) => {
                write!(
                    f,
                    "all places for one address are taken, of {places} in all"
                )
            }
        }
    }
}

/// What a session sees of its server.
#[derive(Clone, Copy, Debug)]
pub struct ServerContext<'a> {
    /// The running tests of all clients.
    pub running: &'a Registry,
    /// No test may begin.
    pub stop: &'a Stop,
    /// Ends running tests: `--drain-on-exit` after the stop.
    pub cut: &'a Stop,
    /// The number of clients that were accepted before this one.
    pub before: u64,
}

with_defaults! {
    /// Which clients a server accepts, and what a stop does to them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerConfig {
        /// `--allow-peers`: the networks that clients may connect from; empty for any address.
        pub networks: Vec<Network> = Vec::new(),
        /// `--max-clients`, `--max-masters`: control connections at a time, of which one address gets at most 15/16.
        pub clients: u32 = 1024,
        /// `--drain-on-exit`: how long running tests may go on after a stop.
        pub drain: Duration = Duration::ZERO,
        /// One client at a time; the others wait.
        pub serial: bool = false,
    }
}

impl ServerConfig {
    /// Whether clients may come from this address.
    pub fn admits(&self, peer: &Address) -> bool {
        let is_inside = |ip| self.networks.iter().any(|network| network.contains(ip));
        self.networks.is_empty() || peer.ip().is_some_and(is_inside)
    }
}

/// A server of one dialect.
#[derive(Debug)]
pub struct Server<D> {
    dialect: D,
    config: ServerConfig,
    clients: Budget,
    running: Registry,
    accepted: AtomicU64,
    stop: Stop,
    cut: Stop,
}

impl<D: Dialect> Server<D> {
    /// A server that accepts clients until `stop`.
    pub fn new(dialect: D, config: ServerConfig, stop: Stop) -> Arc<Self> {
        Arc::new(Self {
            dialect,
            clients: Budget::new(config.clients.into()),
            running: Registry::default(),
            accepted: AtomicU64::new(0),
            cut: stop.follower_after(config.drain),
            config,
            stop,
        })
    }

    /// The stop that ends running tests, also before their time to drain is over.
    pub fn cut(&self) -> &Stop {
        &self.cut
    }

    /// Serves each client on a thread of its own until the stop, and then waits for those that it has.
    pub fn run(self: &Arc<Self>, listeners: Vec<Socket>) {
        // Before the first session: a client may have its thread bound to a CPU, and threads inherit that.
        deadline_thread();
        // Every session holds a sender, so that the receiver notices the end of the last one.
        let (held, ended) = mpsc::channel();
        self.accept_until_stopped(&listeners, &held);
        // The kernel refuses new clients from now on, so that they do not wait for the drain.
        drop((listeners, held));
        let _ = ended.recv_timeout(self.config.drain + LAST_MESSAGES);
        for test in self.running.describe() {
            self.dialect
                .log(format_args!("still running at the end: {test}"));
        }
    }

    fn accept_until_stopped(self: &Arc<Self>, listeners: &[Socket], held: &Sender<()>) {
        let _attending = self.stop.attend();
        let mut fails = false;
        while !self.stop.is_set() {
            match accept(listeners) {
                Ok(Some(socket)) => {
                    fails = false;
                    let session = self.begin(socket, held.clone());
                    if self.config.serial {
                        session.map(JoinHandle::join);
                    }
                }
                Ok(None) | Err(Error::INTR | Error::CONNABORTED) => {}
                // Descriptors or memory are used up, until clients that have some leave.
                Err(error) => {
                    if !fails {
                        let why = sys::describe(&error);
                        self.dialect.log(format_args!("accept: {why}"));
                    }
                    fails = true;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Serves a client whose connection a super-server has accepted.
    pub fn serve_one(&self, socket: Socket) {
        if let Some((control, _place)) = self.admit(socket) {
            self.serve(control, 0);
        }
    }

    fn serve(&self, mut control: ControlConnection, before: u64) {
        if let Err(error) = self.dialect.serve(&mut control, self.context(before)) {
            let why = control::why(&error);
            self.dialect.tell(&control, &why);
            self.dialect.log(format_args!("{}: {why}", control.peer()));
        }
    }

    fn begin(self: &Arc<Self>, socket: Socket, held: Sender<()>) -> Option<JoinHandle<()>> {
        let (control, place) = self.admit(socket)?;
        let peer = control.peer().clone();
        let server = Arc::clone(self);
        // Here, as the threads of two sessions may begin in another order.
        let before = self.accepted.fetch_add(1, Relaxed);
        let session = move || {
            server.serve(control, before);
            drop((place, held));
        };
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(session)
            .inspect_err(|error| self.log_refusal(&peer, &sys::describe(error)))
            .ok()
    }

    /// The control connection and the place of a client; a refused client finds its connection closed.
    fn admit(&self, socket: Socket) -> Option<(ControlConnection, Share)> {
        let control = ControlConnection::new(socket, self.cut.follower()).ok()?;
        match self.place(control.peer()) {
            Ok(place) => Some((control, place)),
            Err(why) => {
                self.dialect.tell(&control, &why.to_string());
                self.log_refusal(control.peer(), &why);
                None
            }
        }
    }

    fn place(&self, peer: &Address) -> Result<Share, Refusal> {
        if !self.config.admits(peer) {
            return Err(Refusal::Network);
        }
        let places = self.config.clients;
        let place = self.clients.take(Holder::of(peer), 1);
        place.map_err(|exceeded| match exceeded {
            Exceeded::Holder { .. } => Refusal::AddressFull(places),
            _ => Refusal::Full(places),
        })
    }

    fn log_refusal(&self, peer: &Address, why: &dyn fmt::Display) {
        self.dialect
            .warn(format_args!("{peer}: refused a client: {why}"));
    }

    fn context(&self, before: u64) -> ServerContext<'_> {
        ServerContext {
            before,
            running: &self.running,
            stop: &self.stop,
            cut: &self.cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Instant;

    use engine::Reason;

    use super::*;

    /// Answers each client with a line, and keeps it until it leaves.
    struct Greeter;

    const PATIENCE: Duration = Duration::from_secs(20);

    impl Dialect for Greeter {
        fn serve(&self, control: &mut ControlConnection, _: ServerContext<'_>) -> io::Result<()> {
            let until = Instant::now() + PATIENCE;
            control.read::<5>(until)?;
            control.write(b"welcome\n", PATIENCE)?;
            match control.read::<1>(until)? {
                [b'?'] => Err(io::Error::other("no question is answered")),
                _ => Ok(()),
            }
        }

        fn tell(&self, control: &ControlConnection, why: &str) {
            control
                .write(format!("{why}\n").as_bytes(), PATIENCE)
                .unwrap();
        }

        fn log(&self, _line: fmt::Arguments<'_>) {}
    }

    #[test]
    fn a_dialect_answers_the_clients_that_are_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let stop = Stop::new();
        let config = ServerConfig {
            clients: 2,
            ..ServerConfig::default()
        };
        let server = Server::new(Greeter, config, stop.clone());
        let runs = std::thread::spawn(move || server.run(vec![listener.into()]));
        let connect = || {
            let mut stream = TcpStream::connect(at).unwrap();
            // Unread bytes must not keep the answer from the client.
            stream.write_all(b"hello").unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (stream, line)
        };
        let (first, second, third) = (connect(), connect(), connect());
        assert_eq!([&first.1, &second.1], ["welcome\n", "welcome\n"]);
        assert_eq!(third.1, "all 2 places are taken\n");
        let (mut failed, mut line) = (first.0, String::new());
        failed.write_all(b"?").unwrap();
        BufReader::new(&failed).read_line(&mut line).unwrap();
        assert_eq!(line, "no question is answered\n");
        stop.pull(Reason::Cancelled);
        runs.join().unwrap();
    }

    #[test]
    fn one_address_leaves_places_to_others() {
        let config = ServerConfig {
            clients: 32,
            networks: vec![Network::parse("10.0.0.0/8").unwrap()],
            ..ServerConfig::default()
        };
        let server = Server::new(Greeter, config, Stop::new());
        let place = |from: &str| server.place(&Address::Inet(from.parse().unwrap()));
        assert_eq!(place("192.0.2.1:1").unwrap_err(), Refusal::Network);
        let taken: Vec<_> = (0..30).map(|_| place("10.0.0.1:1").unwrap()).collect();
        let refusal = place("10.0.0.1:1").unwrap_err();
        assert_eq!(refusal, Refusal::AddressFull(32));
        let _others = [place("10.0.0.2:1").unwrap(), place("10.0.0.3:1").unwrap()];
        assert_eq!(place("10.0.0.4:1").unwrap_err(), Refusal::Full(32));
        drop(taken);
    }

    #[test]
    fn networks_have_no_vsock() {
        let mut config = ServerConfig::default();
        let vsock = Address::Vsock {
            context: 3,
            port: 1,
        };
        let inet = Address::Inet("[::ffff:10.1.2.3]:1".parse().unwrap());
        assert!(config.admits(&vsock) && config.admits(&inet));
        config.networks = vec![Network::parse("10.0.0.0/8").unwrap()];
        assert!(!config.admits(&vsock) && config.admits(&inet));
    }
}
