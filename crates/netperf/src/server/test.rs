//! One test at this end: prepared before the response, run after it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use engine::{
    Cell, Clock, Contents, DataSocket, Finish, Job, MAX_DATAGRAM, Memory, Path, Ring, RingError,
    Role, Stop, Times, facts_at_end, keeper, run,
};
use model::{BuffersUsed, Ended, Limit, Side, Timing, Transport, Workload};
use sys::Socket;
use sys::call::{self, Error};

use super::assignment::{Assignment, EndMark, Refusal};
use crate::PATTERN;
use crate::options::Limits;

/// Connections that wait for accept(2); a connection test over a long path has many.
const BACKLOG: i32 = 128;

/// A connection test's client sends no end signal. When its time is up and it has not connected
/// again for this long it is done.
const LAST_CONNECTION: Duration = Duration::from_millis(200);

/// How much longer than its time datagrams are awaited when the end mark was lost.
const LATE_DATAGRAMS: Duration = Duration::from_secs(4);

/// How much longer than its time a connection test may go on connecting.
const LATE_CONNECTIONS: Duration = Duration::from_secs(4);

/// A test that is ready to run: its socket is bound, its buffers are filled.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) assignment: Assignment,
    pub(super) data: DataSocket,
    /// The data socket's port.
    pub(super) port: u16,
    pub(super) used: BuffersUsed,
    send: Option<Ring>,
    receive: Option<Ring>,
}

/// What a test left.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) side: Side,
    pub(super) ended: Ended,
    /// The error number that the client is told in place of results.
    pub(super) failure: Option<i32>,
}

impl Prepared {
    /// Opens the socket and makes the rings.
    pub(super) fn new(assignment: Assignment, memory: &Memory) -> Result<Self, Refusal> {
        let role = if assignment.workload.receives() || assignment.transport == Transport::Tcp {
            Role::Listener
        } else {
            Role::Initiator
        };
        let data = DataSocket::open(
            assignment.transport,
            assignment.bind,
            &assignment.half.socket,
            role,
        )
        .map_err(|error| Refusal(error.raw_os_error().unwrap_or(Error::INVAL.raw_os_error())))?;
        if assignment.transport == Transport::Tcp {
            let backlog = if assignment.workload.connects() {
                8 * BACKLOG
            } else {
                BACKLOG
            };
            data.socket.listen(backlog).map_err(|_| Error::ADDRINUSE)?;
        }
        let port = data
            .socket
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket());
        let port = port.map_or(0, |address| address.port());

        let half = &assignment.half;
        let contents = half
            .fill
            .as_deref()
            .map_or(Contents::Pattern(PATTERN), Contents::File);
        let largest = (assignment.transport == Transport::Udp).then_some(MAX_DATAGRAM);
        let send = assignment
            .workload
            .sends()
            .then(|| {
                Ring::new(
                    &half.send,
                    largest,
                    data.facts.send_buffer_bytes,
                    contents,
                    memory,
                )
            })
            .transpose()
            .map_err(|error| refusal(&error))?;
        let receive = assignment
            .workload
            .receives()
            .then(|| {
                Ring::new(
                    &half.receive,
                    None,
                    data.facts.receive_buffer_bytes,
                    Contents::Nothing,
                    memory,
                )
            })
            .transpose()
            .map_err(|error| refusal(&error))?;
        let used = BuffersUsed {
            send_bytes: send.as_ref().map(Ring::size),
            send_width: send.as_ref().map(Ring::width),
            receive_bytes: receive.as_ref().map(Ring::size),
            receive_width: receive.as_ref().map(Ring::width),
        };
        Ok(Self {
            assignment,
            data,
            port,
            used,
            send,
            receive,
        })
    }

    /// Runs it. `control` is watched: when the client hangs up there is nobody to measure for.
    pub(super) fn run(
        mut self,
        control: BorrowedFd<'_>,
        peer: SocketAddr,
        stop: &Stop,
        limits: &Limits,
    ) -> Ran {
        let _watch = keeper().on_hang_up(control, stop);
        let cell = Cell::default();
        let outcome = match self.assignment.transport {
            Transport::Tcp if self.assignment.workload.connects() => {
                self.connections(stop, limits, &cell)
            }
            Transport::Tcp => self.stream(stop, limits, &cell),
            Transport::Udp => self.datagrams(peer, stop, limits, &cell),
        };
        let (mut side, ended, failure) = match outcome {
            Ok(measured) => (measured.side, measured.ended, measured.failure),
            Err(errno) => (
                Side::default(),
                Ended::Failed(std::io::Error::from_raw_os_error(errno).to_string()),
                Some(errno),
            ),
        };
        side.counts = cell.counts();
        side.buffers = self.used;
        Ran {
            side,
            ended,
            failure,
        }
    }

    fn stream(&mut self, stop: &Stop, limits: &Limits, cell: &Cell) -> Result<Measured, i32> {
        let connection = await_connection(&self.data.socket, stop, limits)?;
        give_up_after(&connection, limits.data_idle);
        // Nobody else can connect to this test any more.
        let _ = call::shutdown(self.data.socket.as_fd());

        let clock = Clock::start(self.assignment.half.measure_cpu);
        let ends = match self.assignment.limit {
            // A sender stops at its time; a receiver reads on until the client has stopped.
            Limit::Time(length) if !self.assignment.workload.receives() => Some(length),
            Limit::Time(length) => Some(length + limits.drain),
            _ => None,
        };
        let _deadline = ends.map(|length| keeper().at(clock.started + length, stop));
        let times = run(
            &mut self.job(stop, None, cell),
            Path::Connected(connection.as_fd()),
        );

        let mut measured = measured(&clock, times);
        measured.side.socket = self.data.facts.clone();
        facts_at_end(&connection, Transport::Tcp, &mut measured.side.socket);
        let options = &self.assignment.half.socket;
        if options.receive_buffer_bytes.is_some() {
            measured.side.socket.receive_buffer_end_bytes = self.data.facts.receive_buffer_bytes;
        }
        if options.send_buffer_bytes.is_some() {
            measured.side.socket.send_buffer_end_bytes = self.data.facts.send_buffer_bytes;
        }
        Ok(measured)
    }

    fn connections(&mut self, stop: &Stop, limits: &Limits, cell: &Cell) -> Result<Measured, i32> {
        let listener = &self.data.socket;
        wait_readable(listener.as_fd(), stop, limits.data_wait)?;
        give_up_after(listener, limits.data_idle);
        let facts = self.data.facts.clone();
        let listener = listener
            .try_clone()
            .map_err(|error| error.raw_os_error().unwrap_or(0))?;

        let clock = Clock::start(self.assignment.half.measure_cpu);
        let time_up = stop.follower();
        let _deadline = match self.assignment.limit {
            Limit::Time(length) => Some(keeper().at(clock.started + length, &time_up)),
            _ => None,
        };
        let mut job = self.job(&time_up, None, cell);
        let mut measured = measured(&clock, run(&mut job, Path::Listener(listener.as_fd())));
        if measured.ended == Ended::Deadline {
            serve_the_last(&mut job, &listener, stop);
        }
        measured.side.socket = facts;
        measured.side.socket.send_buffer_end_bytes = measured.side.socket.send_buffer_bytes;
        measured.side.socket.receive_buffer_end_bytes = measured.side.socket.receive_buffer_bytes;
        Ok(measured)
    }

    fn datagrams(
        &mut self,
        peer: SocketAddr,
        stop: &Stop,
        limits: &Limits,
        cell: &Cell,
    ) -> Result<Measured, i32> {
        let socket = self
            .data
            .socket
            .try_clone()
            .map_err(|error| error.raw_os_error().unwrap_or(0))?;
        let path = if self.assignment.workload.receives() {
            wait_readable(socket.as_fd(), stop, limits.data_wait)?;
            if self.assignment.workload.sends() {
                let source = await_own_client(&socket, peer, stop, limits)?;
                // From here on only this client's datagrams are taken, and its address is looked up
                // once instead of with each answer.
                socket
                    .connect(&source.into())
                    .map_err(|error| error.raw_os_error().unwrap_or(0))?;
            }
            Path::Connected(socket.as_fd())
        } else {
            let client = self
                .assignment
                .client
                .ok_or(Error::DESTADDRREQ.raw_os_error())?;
            if !may_send_to(client, peer, limits) {
                return Err(Error::ACCESS.raw_os_error());
            }
            Path::Addressed(socket.as_fd(), client.into())
        };
        give_up_after(&socket, limits.data_idle);

        let clock = Clock::start(self.assignment.half.measure_cpu);
        let (in_time, drained) = (stop.follower(), stop.follower());
        let _deadlines = match self.assignment.limit {
            Limit::Time(length) => {
                // Request/response goes on until the client says that it has ended.
                let grace =
                    if self.assignment.workload.sends() && self.assignment.workload.receives() {
                        limits.drain
                    } else {
                        Duration::ZERO
                    };
                let late = limits.drain.min(LATE_DATAGRAMS);
                Some((
                    keeper().at(clock.started + length + grace, &in_time),
                    keeper().at(clock.started + length + late, &drained),
                ))
            }
            _ => None,
        };
        let sends_only = !self.assignment.workload.receives();
        let mut measured = if let EndMark::OtherSizeThan(size) = self.assignment.end_mark {
            measured(&clock, receive_sized(&socket, size, &in_time, cell))
        } else {
            measured(
                &clock,
                run(&mut self.job(&in_time, Some(&drained), cell), path),
            )
        };
        if let (Ended::Deadline, Limit::Time(length)) = (&measured.ended, self.assignment.limit)
            && self.assignment.workload == Workload::receive()
        {
            // What came later was counted apart, and its time is not the test's.
            measured.side.elapsed = Some(length);
        }
        if measured.failure == Some(Error::CONNREFUSED.raw_os_error()) {
            // The client has closed its socket while something was on its way there: its end.
            measured.ended = Ended::PeerClosed;
            measured.failure = None;
        }
        if let (true, Some(client)) = (sends_only, self.assignment.client) {
            // A client that counts would wait for ever for what was lost.
            Finish::EmptyDatagrams(3).say(
                &Path::Addressed(socket.as_fd(), client.into()),
                Duration::ZERO,
            );
        }
        measured.side.socket = self.data.facts.clone();
        measured.side.socket.send_buffer_end_bytes = self.data.facts.send_buffer_bytes;
        measured.side.socket.receive_buffer_end_bytes = self.data.facts.receive_buffer_bytes;
        Ok(measured)
    }

    fn job<'a>(&'a mut self, stop: &'a Stop, drain: Option<&'a Stop>, cell: &'a Cell) -> Job<'a> {
        Job {
            workload: &self.assignment.workload,
            limit: self.assignment.limit,
            burst: 0,
            timing: Timing::default(),
            send: self.send.take(),
            send_file: None,
            receive: self.receive.take(),
            discard_in_kernel: self.assignment.half.discard_in_kernel,
            write_instead_of_send: false,
            stop,
            drain,
            cell,
        }
    }
}

/// What a run left, before its counts are added.
struct Measured {
    side: Side,
    ended: Ended,
    failure: Option<i32>,
}

/// The end of the measured phase.
fn measured(clock: &Clock, times: Times) -> Measured {
    let (elapsed, cpu) = clock.stop();
    let failure = match (&times.ended, times.failure) {
        (Ended::Failed(_) | Ended::PeerClosed, Some((_, errno))) => Some(errno),
        _ => None,
    };
    Measured {
        side: Side {
            elapsed: Some(elapsed),
            cpu,
            ..Side::default()
        },
        ended: times.ended,
        failure,
    }
}

fn refusal(error: &RingError) -> Refusal {
    match error {
        RingError::TooLarge { .. } => Error::NOMEM.into(),
        RingError::Senseless { .. } => Error::INVAL.into(),
        RingError::File { .. } => Error::ACCESS.into(),
    }
}

fn await_connection(listener: &Socket, stop: &Stop, limits: &Limits) -> Result<Socket, i32> {
    wait_readable(listener.as_fd(), stop, limits.data_wait)?;
    call::accept(listener.as_fd())
        .map(Socket::from)
        .map_err(Error::raw_os_error)
}

/// Waits for the first data; the error number to tell the client when none comes.
fn wait_readable(socket: BorrowedFd<'_>, stop: &Stop, patience: Duration) -> Result<(), i32> {
    let _attending = stop.attend();
    let until = Instant::now() + patience;
    while !stop.is_set() {
        match call::wait_readable(socket, until.saturating_duration_since(Instant::now())) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(Error::TIMEDOUT.raw_os_error()),
            Err(Error::INTR) => {}
            Err(error) => return Err(error.raw_os_error()),
        }
    }
    Err(Error::CANCELED.raw_os_error())
}

/// Data that stops for this long is over: SO_RCVTIMEO and SO_SNDTIMEO, which cost the loop nothing.
fn give_up_after(socket: &Socket, idle: Duration) {
    let _ = socket.set_read_timeout(Some(idle));
    let _ = socket.set_write_timeout(Some(idle));
}

/// Serves what still comes of a connection test whose time is up, until nothing does.
fn serve_the_last<'a>(job: &mut Job<'a>, listener: &Socket, stop: &'a Stop) {
    let until = Instant::now() + LATE_CONNECTIONS;
    job.stop = stop;
    job.limit = Limit::Transactions(1);
    while Instant::now() < until && wait_readable(listener.as_fd(), stop, LAST_CONNECTION).is_ok() {
        run(job, Path::Listener(listener.as_fd()));
    }
}

/// Takes datagrams until one comes from a host that may be answered, and says which.
fn await_own_client(
    socket: &Socket,
    peer: SocketAddr,
    stop: &Stop,
    limits: &Limits,
) -> Result<SocketAddr, i32> {
    let until = Instant::now() + limits.data_wait;
    loop {
        wait_readable(
            socket.as_fd(),
            stop,
            until.saturating_duration_since(Instant::now()),
        )?;
        match call::next_source(socket.as_fd()) {
            Ok(Some(source)) if may_send_to(source, peer, limits) => return Ok(source),
            Ok(_) => drop(call::receive(socket.as_fd(), &mut [0; 1])),
            Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => return Err(error.raw_os_error()),
        }
    }
}

/// Whether a client at `peer` may have traffic sent to `target`: to itself only, or between the
/// addresses of this very host, unless the operator allows more.
fn may_send_to(target: SocketAddr, peer: SocketAddr, limits: &Limits) -> bool {
    let (target, peer) = (target.ip().to_canonical(), peer.ip().to_canonical());
    limits.third_party || target == peer || (sys::facts::is_own(peer) && sys::facts::is_own(target))
}

/// Receives datagrams of one size; any other size ends the data, and its bytes count.
fn receive_sized(socket: &Socket, size: u32, stop: &Stop, cell: &Cell) -> Times {
    let _attending = stop.attend();
    // One byte more, so that a longer datagram shows as one.
    let mut buffer = vec![0; size as usize + 1];
    let ended = loop {
        if let Some(reason) = stop.reason() {
            break reason.into();
        }
        match call::receive(socket.as_fd(), &mut buffer) {
            Ok(received) => {
                cell.count_received(received, u64::from(received == size as usize));
                if received != size as usize {
                    break Ended::PeerClosed;
                }
            }
            Err(Error::INTR) => {}
            Err(error) => break Ended::Failed(format!("receive failed: {error}")),
        }
    };
    Times {
        latency: None,
        send_times: None,
        receive_times: None,
        ended,
        failure: None,
    }
}
