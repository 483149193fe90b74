//! Accepts clients, and runs one session thread per client.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use control::ControlConnection;
use engine::{BudgetHolder, Stop, deadline_thread};
use sys::call::Error;
use sys::{Address, Socket};

use crate::arrivals::Arrivals;
use crate::listener::accept;
use crate::session_threads::SESSION_THREADS;
use crate::thread_order::order_thread;
use crate::{ClientSlot, ClientTest, Refusal, RunningTest, ServerConfig, Service};

/// The maximum wait for a connection. A stop interrupts the wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// The maximum number of connections accepted before a session starts. A connection is accepted in
/// much less time than a thread starts, so a burst does not fill the kernel's queue.
const MAX_ACCEPTED_BETWEEN_STARTS: usize = 64;

/// The pause after a failed accept(2). The connection stays in the queue.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The maximum time for sessions to end after [`ServerContext::cancel_stop`].
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(10);

/// A dialect's part of a server. It serves the clients.
pub trait Dialect: Send + Sync + 'static {
    /// The name in the log and in the status.
    const NAME: &'static str;

    /// Serves a client on a separate thread until its connection ends. The server logs an error.
    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()>;

    /// Reports a refusal or an early end to a client, if the protocol has a message for it. The
    /// client may be gone. This call blocks the acceptance of other clients, so it must not wait.
    /// The server closes the connection and writes a log line.
    fn send_refusal(&self, _control: &ControlConnection, _reason: &str) {}

    /// Reports to a client that it is not admitted, like [`Self::send_refusal`]. The `error` is for a
    /// protocol whose messages have only a number.
    fn refuse_client(&self, control: &ControlConnection, reason: &str, _error: Error) {
        self.send_refusal(control, reason);
    }

    /// Writes a line to the log, if the user requested a log.
    fn log(&self, line: fmt::Arguments<'_>);

    /// Writes a log line about a refused client, which may be an attacker.
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
    /// Ends this session's test, after the time of `--drain-on-exit` or if the test exceeds a
    /// limit.
    pub cancel_stop: &'a Stop,
    /// The number of clients accepted before this one.
    pub client_number: u64,
}

impl ServerContext<'_> {
    /// Begins a test of a client: [`Service::begin`].
    pub fn begin(&self, peer: &Address, test: ClientTest) -> Result<Arc<RunningTest>, Refusal> {
        self.service
            .begin(self.dialect, peer, test, self.cancel_stop)
    }
}

/// A server of one dialect.
#[derive(Debug)]
pub struct Server<D> {
    dialect: D,
    service: Service,
    accepted: AtomicU64,
}

/// A client that waits for its session.
struct Admitted {
    holder: BudgetHolder,
    control: ControlConnection,
    cancel_stop: Stop,
    slot: ClientSlot,
}

impl<D: Dialect> Server<D> {
    /// Creates a server with its own service. It accepts clients until `stop` is set.
    pub fn new(dialect: D, config: ServerConfig, stop: Stop) -> Arc<Self> {
        Self::with_service(dialect, &Service::new(config, stop))
    }

    /// Creates one of several servers that share a service.
    pub fn with_service(dialect: D, service: &Service) -> Arc<Self> {
        Arc::new(Self {
            dialect,
            service: service.clone(),
            accepted: AtomicU64::new(0),
        })
    }

    /// Returns the stop that ends running tests, even during their time to drain.
    pub fn cancel_stop(&self) -> &Stop {
        self.service.cancel_stop()
    }

    /// Serves each client on a separate thread until the stop, and then waits for the remaining
    /// sessions.
    pub fn run(self: &Arc<Self>, listeners: Vec<Socket>) {
        // Start the deadline thread before the first session. A session may bind its thread to a
        // CPU, and threads that it starts inherit that.
        deadline_thread();
        // Every session holds a sender, so the receiver detects the end of the last session.
        let (session_handle, all_sessions) = mpsc::channel();
        self.accept_until_stopped(&listeners, &session_handle);
        // From now on the kernel refuses new clients, so they do not wait during the drain.
        drop((listeners, session_handle));
        let _ = all_sessions.recv_timeout(self.service.config().drain_time + SESSION_END_TIMEOUT);
        for test in self.service.running().records() {
            if test.dialect == D::NAME {
                let test = format_args!("{} for {:.1} s", test.peer, test.seconds);
                self.dialect
                    .log(format_args!("still running at the end: {test}"));
            }
        }
    }

    fn accept_until_stopped(self: &Arc<Self>, listeners: &[Socket], session_handle: &Sender<()>) {
        let stop = self.service.stop();
        let _registration = stop.register_thread();
        let serves_one_at_a_time = self.service.config().serves_one_at_a_time;
        let max_accepted = if serves_one_at_a_time {
            1
        } else {
            MAX_ACCEPTED_BETWEEN_STARTS
        };
        let (mut arrivals, mut is_failing) = (Arrivals::default(), false);
        // A descriptor that is closed to accept, and refuse, a client if no other one is free.
        let mut spare = listeners
            .first()
            .and_then(|listener| listener.try_clone().ok());
        while !stop.is_set() {
            for first in 0..max_accepted {
                let timeout = if arrivals.is_empty() {
                    MAX_WAIT
                } else {
                    Duration::ZERO
                };
                match accept(listeners, first, timeout) {
                    Ok(Some(socket)) => {
                        is_failing = false;
                        if let Some(client) = self.admit(socket) {
                            arrivals.push(client.holder, client);
                        }
                    }
                    Ok(None) | Err(Error::INTR | Error::CONNABORTED) => break,
                    Err(error) => {
                        let was_failing = std::mem::replace(&mut is_failing, true);
                        self.handle_exhaustion(error, was_failing, listeners, &mut spare);
                        break;
                    }
                }
            }
            if let Some(client) = arrivals.pop() {
                let ended = self.start_session(client, session_handle);
                if serves_one_at_a_time {
                    let _ = ended.recv();
                }
            }
        }
    }

    /// Refuses a client or waits, because descriptors or memory are exhausted until other clients
    /// leave.
    fn handle_exhaustion(
        &self,
        error: Error,
        is_logged: bool,
        listeners: &[Socket],
        spare: &mut Option<Socket>,
    ) {
        let reason = sys::describe(&error);
        if !is_logged {
            self.dialect
                .warn(format_args!("cannot accept a connection: {reason}"));
        }
        if matches!(error, Error::MFILE | Error::NFILE) && spare.take().is_some() {
            self.refuse_next(listeners, &reason, error);
        } else {
            std::thread::sleep(ACCEPT_RETRY_PAUSE);
        }
        if spare.is_none() {
            *spare = listeners[0].try_clone().ok();
        }
    }

    /// Refuses the next client in the queue.
    fn refuse_next(&self, listeners: &[Socket], reason: &str, error: Error) {
        if let Ok(Some(socket)) = accept(listeners, 0, Duration::ZERO)
            && let Ok(control) = ControlConnection::new(socket, Stop::new())
        {
            self.dialect.refuse_client(&control, reason, error);
        }
    }

    /// Serves a client whose connection a super-server has accepted.
    pub fn serve_one(&self, socket: Socket) {
        if let Some(client) = self.admit(socket) {
            self.serve(client.control, &client.cancel_stop, 0);
        }
    }

    fn serve(&self, mut control: ControlConnection, cancel_stop: &Stop, previous_clients: u64) {
        let context = ServerContext {
            service: &self.service,
            dialect: D::NAME,
            stop: self.service.stop(),
            cancel_stop,
            client_number: previous_clients,
        };
        if let Err(error) = self.dialect.serve(&mut control, context) {
            let reason = control::describe_error(&error);
            self.dialect.send_refusal(&control, &reason);
            self.dialect
                .log(format_args!("{}: {reason}", control.peer()));
        }
    }

    /// Starts a session. The result's sender is dropped at its end.
    fn start_session(
        self: &Arc<Self>,
        client: Admitted,
        session_handle: &Sender<()>,
    ) -> Receiver<()> {
        let peer = client.control.peer().clone();
        let (server, session_handle) = (Arc::clone(self), session_handle.clone());
        let (end_handle, ended) = mpsc::channel();
        // Counted here, because the threads of two sessions may start in another order.
        let previous_clients = self.accepted.fetch_add(1, Relaxed);
        let session = move || {
            order_thread(client.holder);
            server.serve(client.control, &client.cancel_stop, previous_clients);
            drop((client.slot, session_handle, end_handle));
        };
        if let Err(error) = SESSION_THREADS.spawn(session) {
            self.log_refusal(&peer, &sys::describe(&error));
        }
        ended
    }

    /// Admits a client, or closes its connection.
    fn admit(&self, socket: Socket) -> Option<Admitted> {
        let cancel_stop = self.service.cancel_stop().child();
        let control = ControlConnection::new(socket, cancel_stop.clone()).ok()?;
        match self.service.admit(control.peer()) {
            Ok(slot) => Some(Admitted {
                holder: BudgetHolder::for_address(control.peer()),
                control,
                cancel_stop,
                slot,
            }),
            Err(refusal) => {
                let reason = refusal.to_string();
                self.dialect
                    .refuse_client(&control, &reason, refusal.error());
                self.log_refusal(control.peer(), &refusal);
                None
            }
        }
    }

    fn log_refusal(&self, peer: &Address, reason: &dyn fmt::Display) {
        self.dialect
            .warn(format_args!("{peer}: refused a client: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Instant;

    use engine::StopReason;

    use super::*;

    /// A dialect that answers each client with a line and serves it until it disconnects.
    struct Greeter;

    const TIMEOUT: Duration = Duration::from_secs(20);

    impl Dialect for Greeter {
        const NAME: &'static str = "greeter";

        fn serve(&self, control: &mut ControlConnection, _: ServerContext<'_>) -> io::Result<()> {
            let deadline = Instant::now() + TIMEOUT;
            control.read::<5>(deadline)?;
            control.write(b"welcome\n", TIMEOUT)?;
            match control.read::<1>(deadline)? {
                [b'?'] => Err(io::Error::other("no question is answered")),
                _ => Ok(()),
            }
        }

        fn send_refusal(&self, control: &ControlConnection, reason: &str) {
            control
                .write(format!("{reason}\n").as_bytes(), TIMEOUT)
                .unwrap();
        }

        fn log(&self, _line: fmt::Arguments<'_>) {}
    }

    #[test]
    fn a_dialect_answers_the_clients_that_are_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Stop::new();
        let config = ServerConfig {
            max_clients: 2,
            ..ServerConfig::default()
        };
        let server = Server::new(Greeter, config, stop.clone());
        let server_thread = std::thread::spawn(move || server.run(vec![listener.into()]));
        let connect = || {
            let mut stream = TcpStream::connect(address).unwrap();
            // Unread bytes would prevent the delivery of the answer.
            stream.write_all(b"hello").unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (stream, line)
        };
        let (first, second, third) = (connect(), connect(), connect());
        assert_eq!([&first.1, &second.1], ["welcome\n", "welcome\n"]);
        assert_eq!(third.1, "the maximum of 2 clients is reached\n");
        let (mut failed, mut line) = (first.0, String::new());
        failed.write_all(b"?").unwrap();
        BufReader::new(&failed).read_line(&mut line).unwrap();
        assert_eq!(line, "no question is answered\n");
        stop.set(StopReason::Cancelled);
        server_thread.join().unwrap();
    }
}
