//! This end of the data connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Buffers, Cell, Connector, DataSocket, Finish, InterfaceMeter, Job, Memory, Passed, Path,
    PortRange, Ran, Role, SocketError, Stop, connect, connect_without_data, facts_at_end, keeper,
    run,
};
use model::{
    Ended, Limit, Operation, Plan, Side, SocketFacts, SocketOptions, Transport, Warning, Workload,
};
use rand::Rng;
use sys::call::{self, Peer};
use sys::{Address, Socket};

use super::control::Established;
use super::flows::{FlowClock, Member};
use super::interim::Progress;
use super::request::Own;
use super::{ClientError, Endpoints, attachment};
use crate::options::{ConnectionPorts, Settings, Special, Test};
use crate::place::{self, Place};
use crate::{PATTERN, tcp_info};

/// How long the peer may take to read what is on its way when the time is up.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

/// How long data may stop in a test that a count ends.
const DATA_PATIENCE: Duration = Duration::from_secs(60);

/// How much longer than its time a receiver waits for the end of the peer's stream.
const LAST_DATA: Duration = Duration::from_millis(200);

/// All memory that one test's buffers may have at this end, in bytes: a slip of the keyboard should
/// not take the machine.
const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// Socket and buffers, settled before the peer is asked.
pub(super) struct LocalEnd<'a> {
    plan: &'a Plan,
    source: Address,
    /// Where a Unix domain socket has its name, as long as it has one.
    _place: Option<Place>,
    /// Only a sample for a connection test, whose sockets come and go, and where there are several.
    data: DataSocket,
    buffers: Buffers,
}

/// What this end measured.
pub(super) struct Measured {
    /// When the measured phase began.
    pub(super) begun: Instant,
    pub(super) here: Side,
    pub(super) ended: Ended,
    /// What only this end can doubt.
    pub(super) doubts: Vec<Warning>,
    pub(super) tcp_info: Option<tcp_info::Dump>,
}

/// What one run of the loop left.
struct Moved {
    ran: Ran,
    socket: SocketFacts,
    /// The measured phase.
    passed: Passed,
    doubts: Vec<Warning>,
    tcp_info: Option<tcp_info::Dump>,
}

/// Binds this thread to the CPU that was asked for; a doubt when that fails. The stock tool goes on
/// without a word.
pub(super) fn bind_thread(plan: &Plan) -> Option<Warning> {
    let cpu = plan.here.cpu?;
    let error = sys::cpu::bind_thread(cpu).err()?;
    Some(Warning::NotBound {
        cpu,
        why: error.to_string(),
    })
}

impl<'a> LocalEnd<'a> {
    pub(super) fn prepare(
        settings: &'a Settings,
        endpoints: &Endpoints,
        doubts: &mut Vec<Warning>,
    ) -> Result<Self, ClientError> {
        let plan = &settings.plan;
        let place = place(settings)?;
        let asked = match (&settings.special, &place) {
            (Special::Unix { .. }, Some(place)) => &Address::Unix(place.socket()),
            (Special::Unix { .. }, None) => &Address::Unix(PathBuf::new()),
            (Special::Dlpi { local, sap, .. }, _) => &attachment::address(local, *sap, plan)?,
            _ => &endpoints.source,
        };
        let source = if is_the_peers(asked, &endpoints.dest) {
            doubts.push(Warning::PortReplaced {
                port: asked.port() as u16,
            });
            asked.with_any_port()
        } else {
            asked.clone()
        };
        let half = &plan.here;
        let bind = if plan.workload.connects() || plan.transport == Transport::SctpMany {
            source.with_any_port()
        } else {
            source.clone()
        };
        let data = match open_socket(plan.transport, &bind, &half.socket) {
            // Both ends of a DLPI test have the same access point, and may have the same interface.
            Err(ClientError::DataSocket { address, error })
                if matches!(bind, Address::Llc(_))
                    && error.error().kind() == io::ErrorKind::AddrInUse =>
            {
                open_socket(plan.transport, &address.with_any_port(), &half.socket)?
            }
            other => other?,
        };
        if let Some(place) = &place {
            place
                .open_to_all()
                .map_err(|error| no_place(&place.socket(), error))?;
        }
        give_up_on_silence(&data.socket, plan);
        let memory = Memory::new(MAX_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let buffers = Buffers::new(
            half,
            &plan.workload,
            plan.transport,
            &data.facts,
            PATTERN,
            &memory,
        )?;
        Ok(Self {
            plan,
            source,
            _place: place,
            data,
            buffers,
        })
    }

    /// What the request tells of this end.
    pub(super) fn own(&self) -> Own {
        let used = self.buffers.used();
        Own {
            port: Address::of(&self.data.socket).map_or(0, |bound| bound.port()),
            send_size: used.send_bytes.unwrap_or(0),
            send_width: used.send_width.unwrap_or(0),
            receive_width: used.receive_width.unwrap_or(0),
        }
    }

    /// Runs the test to its end; an error is a test without a result. Without a control connection the
    /// other end goes by no time and awaits no end mark.
    pub(super) fn run(
        &mut self,
        settings: &Settings,
        dest: &Address,
        control: Option<&Established>,
        cancel: &Stop,
        progress: Progress<'_>,
        member: Option<Member<'_>>,
    ) -> Result<Measured, ClientError> {
        let control = control.map(|control| control.stream.as_fd());
        wait(self.plan.phases.wait, control, cancel);
        // What the machine is asked for stands outside the measured phase.
        let needs = settings.needs;
        let clock_facts = (needs.clock || self.plan.timing.passes || self.plan.timing.calls)
            .then(engine::clock_facts);
        let meter = needs
            .interface
            .then(|| InterfaceMeter::start(dest))
            .flatten();
        let company = match member {
            Some(member) => Some(member.start().ok_or(ClientError::Abandoned)?),
            None => None,
        };
        let stop = cancel.follower();
        let _watch = control.map(|control| keeper().on_hang_up(control, &stop));
        let clock = FlowClock::start(&self.plan.here, company);
        let started = clock.started();
        let _deadline = self
            .time(control.is_some())
            .map(|time| keeper().at(started + time, &stop));
        progress.begun(started);
        let moved = if settings.test == Test::TcpMss {
            self.open(dest, &stop)?;
            self.moved(Ended::Count.into(), &clock)
        } else if self.plan.workload.connects() {
            self.run_connections(dest, settings.ports, &stop, progress, &clock)?
        } else if let Special::Sctp { associations } = settings.special
            && self.plan.transport == Transport::SctpMany
        {
            self.run_associations(associations, dest, &stop, cancel, progress, &clock)?
        } else {
            self.run_on_one(dest, &stop, cancel, progress, &clock, control.is_none())?
        };
        if let Some(error) = failure(&moved.ran, self.plan, dest) {
            return Err(error);
        }
        let mut doubts = moved.doubts;
        doubts.extend(moved.passed.clock_stepped());
        let here = Side {
            counts: progress.cell.counts(),
            elapsed: Some(moved.passed.elapsed),
            thread_cpu: Some(moved.passed.thread_cpu),
            socket: moved.socket,
            buffers: self.buffers.used(),
            latency: moved.ran.latency,
            send_times: moved.ran.send_times,
            receive_times: moved.ran.receive_times,
            paced: moved.ran.paced,
            send_gaps: moved.ran.send_gaps,
            cpu: moved.passed.cpu,
            interface: meter.map(InterfaceMeter::finish),
            clock: clock_facts,
            ..Side::default()
        };
        Ok(Measured {
            begun: started,
            here,
            ended: moved.ran.ended,
            doubts,
            tcp_info: moved.tcp_info,
        })
    }

    /// How long the loop runs; `None` when it is not the time that ends it.
    fn time(&self, peer_has_time: bool) -> Option<Duration> {
        let Limit::Time(length) = self.plan.limit else {
            return None;
        };
        let receives_a_stream =
            self.plan.workload == Workload::receive() && !self.plan.transport.has_datagrams();
        if receives_a_stream && peer_has_time {
            // A sender that keeps the same time ends the stream a moment later, with all that it sent;
            // one that does not is not waited for.
            return Some(length + LAST_DATA);
        }
        Some(length)
    }

    fn run_connections(
        &mut self,
        dest: &Address,
        ports: ConnectionPorts,
        stop: &Stop,
        progress: Progress<'_>,
        clock: &FlowClock<'_>,
    ) -> Result<Moved, ClientError> {
        let range = PortRange {
            min: ports.min,
            max: ports.max,
        };
        let options = self.plan.here.socket.clone();
        let first_port = rand::rng().random();
        let mut connector = Connector::new(
            self.plan.transport,
            dest.clone(),
            self.source.clone(),
            range,
            first_port,
            options,
            ports.retry_all,
        )
        .map_err(|error| unreachable(dest, error))?;
        let path = Path::Connector(&mut connector);
        let ran = run(&mut self.job(stop, progress.cell), path);
        progress.ended();
        let passed = clock.stop();
        let mut socket = self.data.facts.clone();
        socket.retransmits = ran.retransmits;
        if let Some(first) = connector.first_facts() {
            socket.send_buffer_end_bytes = first.send_buffer_end_bytes;
            socket.receive_buffer_end_bytes = first.receive_buffer_end_bytes;
            socket.max_segment_bytes = first.max_segment_bytes;
            socket.data_in_syn = first.data_in_syn;
            socket.multipath = first.multipath;
        }
        Ok(Moved {
            ran,
            socket,
            doubts: ports_reused(progress.cell, range, passed.elapsed)
                .into_iter()
                .collect(),
            passed,
            tcp_info: None,
        })
    }

    /// Runs on so many SCTP associations in turn, each with a socket of its own: the peer is one address,
    /// with which a socket has one association.
    fn run_associations(
        &mut self,
        associations: u32,
        dest: &Address,
        stop: &Stop,
        cancel: &Stop,
        progress: Progress<'_>,
        clock: &FlowClock<'_>,
    ) -> Result<Moved, ClientError> {
        let mut sockets = Vec::new();
        let mut bind = self.source.clone();
        for _ in 0..associations {
            let options = &self.plan.here.socket;
            let socket = open_socket(self.plan.transport, &bind, options)?.socket;
            give_up_on_silence(&socket, self.plan);
            if let Some(Ran {
                failure: Some((_, errno)),
                ..
            }) = connect(&socket, dest, stop)
            {
                return Err(unreachable(dest, io::Error::from_raw_os_error(errno)));
            }
            // Closing then waits until the peer has all that was sent, and knows of the end.
            let _ = socket.set_linger(Some(DRAIN_PATIENCE));
            sockets.push(socket);
            bind = bind.with_any_port();
        }
        let to = Peer::try_from(dest).map_err(|error| unreachable(dest, error))?;
        let in_turn = sockets
            .iter()
            .map(|socket| (socket.as_fd(), to.clone()))
            .collect();
        let ran = run(&mut self.job(stop, progress.cell), Path::InTurn(in_turn));
        progress.ended();
        let mut moved = self.moved(ran, clock);
        let patience = cancel.follower();
        let _patience = keeper().at(Instant::now() + DRAIN_PATIENCE, &patience);
        close_all(sockets, &patience);
        if !self.plan.workload.receives() {
            moved.passed = clock.stop();
        }
        Ok(moved)
    }

    /// Runs on the one connection, or datagram socket, of a flow, and finishes it: in the way that a
    /// netserver knows, or a plain service.
    fn run_on_one(
        &mut self,
        dest: &Address,
        stop: &Stop,
        cancel: &Stop,
        progress: Progress<'_>,
        clock: &FlowClock<'_>,
        is_service: bool,
    ) -> Result<Moved, ClientError> {
        let plan = self.plan;
        let datagrams = plan.transport.has_datagrams();
        let connects = plan.transport.has_connections() || plan.here.socket.connect_datagrams;
        if connects && let Some(ran) = self.open(dest, stop)? {
            return Ok(self.moved(ran, clock));
        }
        let socket = self
            .data
            .socket
            .try_clone()
            .map_err(|error| ClientError::Data { call: "dup", error })?;
        let to = Peer::try_from(dest).map_err(|error| unreachable(dest, error))?;
        let path = || {
            if connects {
                Path::Connected(socket.as_fd())
            } else {
                Path::Addressed(socket.as_fd(), to.clone())
            }
        };
        let ran = run(&mut self.job(stop, progress.cell), path());
        progress.ended();
        let mut moved = self.moved(ran, clock);
        if connects && !datagrams && is_its_own_peer(&socket) {
            moved.doubts.push(Warning::SelfConnection);
        }
        if datagrams && plan.workload == Workload::ask() {
            moved
                .doubts
                .extend(stalled(&socket, plan, &moved, progress.cell));
        }

        let patience = cancel.follower();
        let _patience = keeper().at(Instant::now() + DRAIN_PATIENCE, &patience);
        if datagrams && is_service {
            // It waits for nothing.
        } else if datagrams && plan.workload.sends() {
            Finish::EmptyDatagrams(3).say(&path(), &patience);
        } else if !datagrams && plan.workload.sends() {
            Finish::HalfClose.say(&path(), &patience);
            // What the drain has sent again belongs to the test.
            facts_at_end(&self.data.socket, plan.transport, &mut moved.socket);
            moved.tcp_info = tcp_info::Dump::of(&self.data.socket);
            if !plan.workload.receives() {
                // A stream has moved when the peer has read it: the drain is part of the time.
                moved.passed = clock.stop();
            }
        } else if !datagrams && (moved.ran.ended == Ended::Cancelled || is_service) {
            // The sender has its own clock and would go on to its end, or has none and no end.
            let _ = call::shutdown(socket.as_fd());
        } else if !datagrams {
            Finish::AwaitClose.say(&path(), &patience);
        }
        Ok(moved)
    }

    /// Opens the connection; `Some` when its time was up before it stood.
    fn open(&mut self, dest: &Address, stop: &Stop) -> Result<Option<Ran>, ClientError> {
        let opened = if self.plan.here.socket.fast_open && !self.sends_first() {
            connect_without_data(&self.data.socket, dest, stop)
        } else {
            connect(&self.data.socket, dest, stop)
        };
        match opened {
            Some(Ran {
                failure: Some((_, errno)),
                ..
            }) => Err(unreachable(dest, io::Error::from_raw_os_error(errno))),
            ended => Ok(ended),
        }
    }

    fn sends_first(&self) -> bool {
        self.plan.workload.body.first() == Some(&Operation::Send)
    }

    /// The loop has ended: the clock stops, and the socket is asked before it closes.
    fn moved(&self, ran: Ran, clock: &FlowClock<'_>) -> Moved {
        let passed = clock.stop();
        let mut socket = self.data.facts.clone();
        facts_at_end(&self.data.socket, self.plan.transport, &mut socket);
        if self.plan.here.socket.fast_open && self.sends_first() {
            socket.data_in_syn = sys::option::tcp_info(self.data.socket.as_fd())
                .ok()
                .map(|info| info.data_in_syn);
        }
        Moved {
            ran,
            socket,
            passed,
            doubts: Vec::new(),
            tcp_info: tcp_info::Dump::of(&self.data.socket),
        }
    }

    fn job<'b>(&'b mut self, stop: &'b Stop, cell: &'b Arc<Cell>) -> Job<'b> {
        Job {
            workload: &self.plan.workload,
            limit: self.plan.limit,
            burst: self.plan.burst,
            timing: self.plan.timing,
            half: &self.plan.here,
            buffers: &mut self.buffers,
            stop,
            drain: None,
            cell,
        }
    }
}

/// A name for a Unix domain socket that must have one, so that it can be answered, or shall.
fn place(settings: &Settings) -> Result<Option<Place>, ClientError> {
    let Special::Unix { directory } = &settings.special else {
        return Ok(None);
    };
    if directory.is_none() && settings.test != Test::DgRr {
        return Ok(None);
    }
    let parent = directory.as_deref().unwrap_or(std::path::Path::new("/tmp"));
    place::clean(parent);
    let place = Place::new(parent).map_err(|error| no_place(parent, error))?;
    Ok(Some(place))
}

fn no_place(path: &std::path::Path, error: io::Error) -> ClientError {
    ClientError::NoPlace {
        path: path.to_owned(),
        error,
    }
}

fn open_socket(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
) -> Result<DataSocket, ClientError> {
    DataSocket::open(transport, bind, options, Role::Initiator).map_err(|error: SocketError| {
        ClientError::DataSocket {
            address: bind.clone(),
            error,
        }
    })
}

/// Where no deadline ends the test, data that stops must.
fn give_up_on_silence(socket: &Socket, plan: &Plan) {
    if matches!(plan.limit, Limit::Time(_)) || plan.here.socket.receive_timeout.is_some() {
        return;
    }
    let _ = socket.set_read_timeout(Some(DATA_PATIENCE));
    let _ = socket.set_write_timeout(Some(DATA_PATIENCE));
}

/// Whether the local port that was asked for is the peer's own, on this host: the two would talk to
/// themselves.
fn is_the_peers(source: &Address, dest: &Address) -> bool {
    source.port() != 0 && source.port() == dest.port() && dest.ip().is_some_and(sys::facts::is_own)
}

/// What of a run's end is no end of a test, but a failure of it.
fn failure(ran: &Ran, plan: &Plan, dest: &Address) -> Option<ClientError> {
    let (call, errno) = ran.failure?;
    let gone = ran.ended == Ended::PeerClosed;
    // A peer that counts closes when it has what it counted, whatever is still on its way.
    if gone && matches!(plan.limit, Limit::Bytes(_) | Limit::Transactions(_)) {
        return None;
    }
    let error = io::Error::from_raw_os_error(errno);
    Some(match call {
        "connect" => unreachable(dest, error),
        call => ClientError::Data { call, error },
    })
}

/// Whether a connection that nobody listened for was opened from both sides at once, by one socket:
/// RFC 9293, 3.5.
fn is_its_own_peer(socket: &Socket) -> bool {
    let ends = socket.local_addr().ok().zip(socket.peer_addr().ok());
    ends.is_some_and(|(local, peer)| local == peer)
}

/// Whether the request that was open when the time was up stays without an answer. It is awaited for
/// several times as long as an answer took, so that one that was merely on its way is seen to come.
fn stalled(socket: &Socket, plan: &Plan, moved: &Moved, cell: &Cell) -> Option<Warning> {
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);
    let counts = cell.counts();
    let open = counts.send_calls > counts.receive_calls;
    if moved.ran.ended != Ended::Deadline || !open || plan.here.socket.receive_timeout.is_some() {
        return None;
    }
    let elapsed = moved.passed.elapsed;
    let transactions = u32::try_from(counts.transactions).unwrap_or(u32::MAX);
    let usual = elapsed.checked_div(transactions).unwrap_or(LONGEST);
    let patience = (usual * 4).clamp(SHORTEST, LONGEST);
    if call::wait_readable(socket.as_fd(), patience).unwrap_or(true) {
        return None;
    }
    // With one request at a time what no transaction took was spent waiting for the last one.
    let waited = moved.ran.latency.as_ref().filter(|_| plan.burst == 0);
    let waited = waited.map(|times| elapsed.saturating_sub(times.total()));
    Some(Warning::Stalled { waited })
}

/// Whether the ports of a connection test went round within the time for which a closed connection is
/// remembered.
fn ports_reused(cell: &Cell, range: PortRange, elapsed: Duration) -> Option<Warning> {
    /// TCP_TIMEWAIT_LEN of Linux.
    const TIME_WAIT: Duration = Duration::from_secs(60);
    let (connections, ports) = (
        cell.counts().transactions,
        u32::from(range.max - range.min).max(1),
    );
    let rounds = connections as f64 / f64::from(ports);
    (rounds > 1.0 && elapsed.as_secs_f64() / rounds < TIME_WAIT.as_secs_f64())
        .then_some(Warning::PortsReused { connections, ports })
}

fn unreachable(dest: &Address, error: io::Error) -> ClientError {
    ClientError::DataConnect {
        address: dest.clone(),
        error,
    }
}

/// Closes sockets that linger, one after the other, while what the others hold flows on. From `stop` on
/// it waits for none, which leaves the rest to the kernel.
fn close_all(sockets: Vec<Socket>, stop: &Stop) {
    let _attending = stop.attend();
    for socket in sockets {
        if stop.is_set() {
            let _ = socket.set_linger(None);
        }
        drop(socket);
    }
}

/// The pause before the data, ended early by a cancel or a server that gives up.
fn wait(pause: Duration, control: Option<BorrowedFd<'_>>, cancel: &Stop) {
    if !pause.is_zero() {
        let _attending = cancel.attend();
        let _ = call::wait_any_readable(control.as_slice(), pause);
    }
}
