//! Accepts clients, and runs one session thread per client.

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

/// The stack size of a session in bytes. Its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// The pause after a failed accept(2). The connection stays in the queue.
const PAUSE: Duration = Duration::from_millis(20);

/// The time for sessions to end after [`ServerContext::cut`].
const LAST_MESSAGES: Duration = Duration::from_secs(10);

/// A dialect's part of a server, which serves its clients.
pub trait Dialect: Send + Sync + 'static {
    /// The name in the log and in the status.
    const NAME: &'static str;

    /// Serves a client on a separate thread until its connection ends. The server logs an error.
    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()>;

    /// Reports a refusal or an early end to a client, if the protocol has a message for it. The client may be gone.
    /// This call blocks the acceptance of other clients, so it must not wait. The server closes the connection and
    /// writes the log line.
    fn tell(&self, _control: &ControlConnection, _why: &str) {}

    /// Writes a line to the log, if the user wants one.
    fn log(&self, line: fmt::Arguments<'_>);

    /// Writes a line about a refused client, which may be an attacker.
    fn warn(&self, line: fmt::Arguments<'_>) {
        self.log(line);
    }
}

/// The server state that a session can access.
#[derive(Clone, Copy, Debug)]
pub struct ServerContext<'a> {
    /// The service shared with the servers of other dialects.
    pub service: &'a Service,
    /// The dialect.
    pub dialect: &'static str,
    /// When set, no test may start.
    pub stop: &'a Stop,
    /// Ends this session's test: after the time of `--drain-on-exit`, or beyond a limit.
    pub cut: &'a Stop,
    /// The number of clients accepted before this one.
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
    /// Creates a server with a service of its own that accepts clients until `stop`.
    pub fn new(dialect: D, config: ServerConfig, stop: Stop) -> Arc<Self> {
        Self::of(dialect, &Service::new(config, stop))
    }

    /// Creates one of several servers that share a service.
    pub fn of(dialect: D, service: &Service) -> Arc<Self> {
        Arc::new(Self {
            dialect,
            service: service.clone(),
            accepted: AtomicU64::new(0),
        })
    }

    /// Returns the stop that ends running tests, even during their time to drain.
    pub fn cut(&self) -> &Stop {
        self.service.cut()
    }

    /// Serves each client on a separate thread until the stop, and then waits for the remaining sessions.
    pub fn run(self: &Arc<Self>, listeners: Vec<Socket>) {
        // This precedes the first session: a client may bind its thread to a CPU, and child threads inherit that.
        deadline_thread();
        // Every session holds a sender, so the receiver detects the end of the last one.
        let (held, ended) = mpsc::channel();
        self.accept_until_stopped(&listeners, &held);
        // From now on the kernel refuses new clients, so they do not wait during the drain.
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
                // Descriptors or memory are exhausted until other clients leave.
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
        // Counted here, because the threads of two sessions may start in another order.
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

    /// Returns a client's control connection, its stop and its place. Closes the connection of a refused client.
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

    /// A dialect that answers each client with a line and keeps it until it leaves.
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
            // Unread bytes would prevent the delivery of the answer.
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
