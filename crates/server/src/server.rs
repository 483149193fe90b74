//! Accepts clients, and gives each a session on a thread of its own.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use control::ControlConnection;
use engine::{Stop, deadline_thread};
use sys::call::Error;
use sys::{Address, Socket};

use crate::listener::accept;
use crate::{Place, Refusal, Running, ServerConfig, Service, Test};

/// A session's stack. Its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// The pause after a failed accept(2). The connection stays in the queue.
const PAUSE: Duration = Duration::from_millis(20);

/// How long sessions may take to end after [`ServerContext::cut`].
const LAST_MESSAGES: Duration = Duration::from_secs(10);

/// A dialect's part of a server: the sessions with its clients.
pub trait Dialect: Send + Sync + 'static {
    /// Its name in the log and in the status.
    const NAME: &'static str;

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

/// What a session sees of its server.
#[derive(Clone, Copy, Debug)]
pub struct ServerContext<'a> {
    /// What it shares with other dialects' servers.
    pub service: &'a Service,
    /// Its dialect.
    pub dialect: &'static str,
    /// No test may begin.
    pub stop: &'a Stop,
    /// Ends this session's test: `--drain-on-exit` after the stop, or beyond a limit.
    pub cut: &'a Stop,
    /// The number of clients that were accepted before this one.
    pub before: u64,
}

impl ServerContext<'_> {
    /// Begins a test of a client: [`Service::begin`].
    pub fn begin(&self, peer: &Address, test: Test) -> Result<Arc<Running>, Refusal> {
        self.service.begin(self.dialect, peer, test, self.cut)
    }
}

/// A server of one dialect.
#[derive(Debug)]
pub struct Server<D> {
    dialect: D,
    service: Service,
    accepted: AtomicU64,
}

impl<D: Dialect> Server<D> {
    /// A server of its own that accepts clients until `stop`.
    pub fn new(dialect: D, config: ServerConfig, stop: Stop) -> Arc<Self> {
        Self::of(dialect, &Service::new(config, stop))
    }

    /// One of several servers that share a service.
    pub fn of(dialect: D, service: &Service) -> Arc<Self> {
        Arc::new(Self {
            dialect,
            service: service.clone(),
            accepted: AtomicU64::new(0),
        })
    }

    /// The stop that ends running tests, also before their time to drain is over.
    pub fn cut(&self) -> &Stop {
        self.service.cut()
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
        let _ = ended.recv_timeout(self.service.config().drain + LAST_MESSAGES);
        for test in self.service.running().records() {
            if test.dialect == D::NAME {
                let test = format_args!("{} for {:.1} s", test.peer, test.seconds);
                self.dialect
                    .log(format_args!("still running at the end: {test}"));
            }
        }
    }

    fn accept_until_stopped(self: &Arc<Self>, listeners: &[Socket], held: &Sender<()>) {
        let stop = self.service.stop();
        let _attending = stop.attend();
        let is_serial = self.service.config().serial;
        let mut fails = false;
        while !stop.is_set() {
            match accept(listeners) {
                Ok(Some(socket)) => {
                    fails = false;
                    let session = self.begin(socket, held.clone());
                    if is_serial {
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
        if let Some((control, cut, _place)) = self.admit(socket) {
            self.serve(control, &cut, 0);
        }
    }

    fn serve(&self, mut control: ControlConnection, cut: &Stop, before: u64) {
        let context = ServerContext {
            service: &self.service,
            dialect: D::NAME,
            stop: self.service.stop(),
            cut,
            before,
        };
        if let Err(error) = self.dialect.serve(&mut control, context) {
            let why = control::why(&error);
            self.dialect.tell(&control, &why);
            self.dialect.log(format_args!("{}: {why}", control.peer()));
        }
    }

    fn begin(self: &Arc<Self>, socket: Socket, held: Sender<()>) -> Option<JoinHandle<()>> {
        let (control, cut, place) = self.admit(socket)?;
        let peer = control.peer().clone();
        let server = Arc::clone(self);
        // Here, as the threads of two sessions may begin in another order.
        let before = self.accepted.fetch_add(1, Relaxed);
        let session = move || {
            server.serve(control, &cut, before);
            drop((place, held));
        };
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(session)
            .inspect_err(|error| self.log_refusal(&peer, &sys::describe(error)))
            .ok()
    }

    /// The control connection of a client, its stop and its place; a refused client finds its connection closed.
    fn admit(&self, socket: Socket) -> Option<(ControlConnection, Stop, Place)> {
        let cut = self.service.cut().follower();
        let control = ControlConnection::new(socket, cut.clone()).ok()?;
        match self.service.admit(control.peer()) {
            Ok(place) => Some((control, cut, place)),
            Err(why) => {
                self.dialect.tell(&control, &why.to_string());
                self.log_refusal(control.peer(), &why);
                None
            }
        }
    }

    fn log_refusal(&self, peer: &Address, why: &dyn fmt::Display) {
        self.dialect
            .warn(format_args!("{peer}: refused a client: {why}"));
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
        const NAME: &'static str = "greeter";

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
}
