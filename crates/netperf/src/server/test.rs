//! One test at this end: prepared before the response, run after it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use engine::{
    Accepting, Associations, Buffers, Counters, DataSocket, Exceeded, Finish, Flow, Job, JobBody,
    Loop, Looper, MeasuredPhase, Memory, Path, PhaseSettings, Ran, RingError, Role, Share, Stop,
    complete_accepted, deadline_thread, dropped, prepare_accepted, receive_late, run,
};
use model::{Ended, Limit, Refused, Side, SocketFacts, Timing, Transport, Workload};
use server::{Accepted, DataPeer, PREFERENCE};
use sys::call::{self, Error, Peer};
use sys::{Address, Socket};

use super::assignment::{Assignment, EndMark, Refusal};
use super::data::{Proof, describe_datagrams};
use super::files::Files;
use super::log::{log, warn};
use super::wait;
use crate::options::Limits;
use crate::place::{self, Place};
use crate::{PATTERN, tcp_info};

/// Connections that wait for accept(2).
const BACKLOG: i32 = 128;

/// The same for a connection test, which over a long path has many on their way.
const CONNECTION_TEST_BACKLOG: i32 = 1024;

/// A stock connection test's client sends no end signal. When its time is up and it has not connected
/// again for this long it is done. One that asks for something else meanwhile has said so.
const LAST_CONNECTION: Duration = Duration::from_millis(200);

/// How much longer than its time a connection test may go on connecting, at most `--drain`.
const LATE_CONNECTIONS: Duration = Duration::from_secs(4);

/// How much longer than its time datagrams are awaited when the end mark was lost, at most
/// `--drain`.
const LATE_DATAGRAMS: Duration = Duration::from_secs(4);

/// A test that is ready to run: its socket is bound, its buffers are filled.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) assignment: Assignment,
    pub(super) data: DataSocket,
    /// The data socket's port.
    pub(super) port: u32,
    pub(super) buffers: Buffers,
    /// What the client wants to know the times of.
    pub(super) timing: Timing,
    /// How the client proves its data connection; without it, addresses decide.
    pub(super) proof: Option<Proof>,
    /// What the test moves.
    pub(super) counters: Arc<Counters>,
    /// Where a Unix domain socket has its name.
    place: Option<Place>,
    /// The memory for datagrams of a fixed size, which are not received into the ring.
    _datagram: Option<Share>,
    /// Counts idle cycles as long as it is held.
    _looper: Option<Arc<Looper>>,
}

/// What a test needs of its session while it runs.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'a> {
    pub(super) peer: &'a DataPeer<'a>,
    pub(super) stop: &'a Stop,
    pub(super) limits: &'a Limits,
    control: BorrowedFd<'a>,
    counters: &'a Arc<Counters>,
}

/// What a test left.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) side: Side,
    pub(super) ended: Ended,
    pub(super) tcp_info: Option<tcp_info::Dump>,
}

impl Prepared {
    /// Opens the socket and makes the rings.
    pub(super) fn new(
        mut assignment: Assignment,
        memory: &Memory,
        files: &Files,
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        let fill = match assignment.half.fill.as_deref() {
            Some(name) => Some(files.file(name).ok_or(Error::ACCESS)?),
            None => None,
        };
        if assignment.transport == Transport::Mptcp && !sys::facts::has_multipath() {
            // The client's connection falls back, and the client says so.
            assignment.transport = Transport::Tcp;
        }
        let not_allowed = permit(&mut assignment, limits)?;
        let (workload, transport) = (&assignment.workload, assignment.transport);
        let listens = workload.receives() || transport.has_connections();
        let role = if listens {
            Role::Listener
        } else {
            Role::Initiator
        };
        // Where one counts already there is nothing to measure by, and the client is told so.
        let looper = Looper::of(&mut assignment.half).unwrap_or_else(|_| {
            assignment.half.measure_cpu = false;
            None
        });
        let (workload, transport) = (&assignment.workload, assignment.transport);
        let half = &assignment.half;
        let place = place(transport, limits).map_err(|error| Refusal::from_io(&error))?;
        let bind = match &place {
            Some(place) => &Address::Unix(place.socket()),
            None => &assignment.bind,
        };
        let mut data = DataSocket::open(transport, bind, &half.socket, role)
            .map_err(|error| Refusal(error.errno()))?;
        data.refused.extend(not_allowed);
        if let Some(place) = &place {
            place
                .open_to_all()
                .map_err(|error| Refusal::from_io(&error))?;
        }
        if transport.has_connections() {
            let backlog = if workload.connects() {
                CONNECTION_TEST_BACKLOG
            } else {
                BACKLOG
            };
            data.socket.listen(backlog).map_err(|_| Error::ADDRINUSE)?;
        }
        if workload.receives() && !transport.has_connections() {
            describe_datagrams(&data.socket, true).map_err(|error| Refusal::from_io(&error))?;
        }
        let port = Address::of(&data.socket).map_or(0, |bound| bound.port());
        let datagram = match assignment.end_mark {
            EndMark::OtherSizeThan(size) => {
                let share = memory.take(u64::from(size) + 1);
                Some(share.map_err(refused_memory)?)
            }
            EndMark::Empty => None,
        };
        let facts = &data.facts;
        let buffers = Buffers::new(half, workload, transport, facts, fill, PATTERN, memory)
            .map_err(|error| refusal(&error))?;
        Ok(Self {
            assignment,
            data,
            port,
            buffers,
            timing: Timing::default(),
            proof: None,
            counters: Arc::default(),
            place,
            _datagram: datagram,
            _looper: looper,
        })
    }

    /// The path of a Unix domain socket, empty for others.
    pub(super) fn path(&self) -> PathBuf {
        self.place.as_ref().map(Place::socket).unwrap_or_default()
    }

    /// Runs it. `control` is watched: when the client hangs up there is nobody to measure for.
    pub(super) fn run(
        mut self,
        control: BorrowedFd<'_>,
        peer: &Address,
        stop: &Stop,
        limits: &Limits,
    ) -> Result<Finished, Refusal> {
        let _watch = deadline_thread().on_hang_up(control, stop);
        let named = self.assignment.named.clone();
        let counters = Arc::clone(&self.counters);
        let context = &RunContext {
            peer: &DataPeer {
                control: peer,
                named: named.as_ref(),
                policy: limits.peers,
            },
            stop,
            limits,
            control,
            counters: &counters,
        };
        let assignment = &self.assignment;
        if assignment.workload.connects() {
            self.connections(context)
        } else if assignment.transport == Transport::SctpMany {
            self.associations(context)
        } else if !assignment.transport.has_datagrams() {
            self.stream(context)
        } else {
            self.datagrams(context)
        }
    }

    fn stream(&mut self, context: &RunContext<'_>) -> Result<Finished, Refusal> {
        let connection = self.connection(context)?.socket;
        complete_accepted(connection.as_fd(), &self.assignment.half.socket);
        let Assignment {
            transport, half, ..
        } = &self.assignment;
        prepare_accepted(&connection, *transport, &half.socket)
            .map_err(|error| Refusal(error.errno()))?;
        // Nobody else can connect to this test any more, but a further path of Multipath TCP must find
        // the port open.
        if self.assignment.transport != Transport::Mptcp {
            let _ = call::shutdown(self.data.socket.as_fd());
        }

        // A sender stops at its time; a receiver reads on until the client has stopped.
        let mut phase = self.phase(context, self.assignment.workload.receives());
        let path = || Flow::Connected(connection.as_fd());
        let limit = match self.assignment.limit {
            // The client's last send goes beyond the limit, and ends its stream.
            Limit::Bytes(_) if self.assignment.workload == Workload::receive() => Limit::Unlimited,
            limit => limit,
        };
        let ran = phase.run(limit, self.body(None), path());

        if self.assignment.workload.sends()
            && self.assignment.transport.has_tcp_options()
            && ran.failure.is_none()
        {
            // What is sent again of what is still on its way belongs to the test. The client reads it
            // before it looks for the results.
            let _ = phase.finish(Finish::Acknowledged, &path(), context.limits.drain);
        }
        let mut facts = self.data.facts_at_end(&connection);
        // A size that was asked for stays what it was.
        let options = &self.assignment.half.socket;
        if options.receive_buffer_bytes.is_some() {
            facts.receive_buffer_end_bytes = facts.receive_buffer_bytes;
        }
        if options.send_buffer_bytes.is_some() {
            facts.send_buffer_end_bytes = facts.send_buffer_bytes;
        }
        Ok(Finished {
            tcp_info: tcp_info::Dump::of(&connection),
            ..self.finished(&phase, ran, facts)?
        })
    }

    /// All associations that the client has with one socket, until the last of them has gone.
    fn associations(&mut self, context: &RunContext<'_>) -> Result<Finished, Refusal> {
        let socket = duplicate(&self.data.socket)?;
        let admits = |source: &Address| context.peer.may_send_to(source);
        let associations = Associations::new(socket.as_fd(), &admits);
        wait::association(&associations, socket.as_fd(), context)?;
        let mut phase = self.phase(context, true);
        let flow = Flow::OneToMany(&associations);
        let ran = phase.run(self.assignment.limit, self.body(None), flow);
        self.finished(&phase, ran, self.facts_of_start())
    }

    fn connections(&mut self, context: &RunContext<'_>) -> Result<Finished, Refusal> {
        let (limits, control) = (context.limits, context.control);
        let listener = duplicate(&self.data.socket)?;
        let Accepted { socket, from, .. } = self.connection(context)?;
        let host = Peer::try_from(&from).ok();
        let preference = (!context.peer.policy.strict).then_some(PREFERENCE);
        let mut accepting = Accepting::new(listener.into(), host, Some(socket.into()), preference);
        let (limit, length) = (self.assignment.limit, self.length(limits));
        let mut phase = self.phase(context, false);
        // The connection that is open when the time is up may end as late as any other test.
        let (last, _last) = phase
            .cut
            .follower_until(phase.started() + length + limits.drain);
        let path = Path::Listener(&mut accepting);
        let ran = phase.run(limit, self.body(Some(&last)), path);

        if ran.ended == Ended::Deadline {
            let longest = LATE_CONNECTIONS.min(limits.drain);
            let (late, _late) = phase.cut.follower_until(Instant::now() + longest);
            while wait::connects_again(accepting.listener(), control, &late, LAST_CONNECTION) {
                let (once, _once) = late.follower_until(Instant::now() + LAST_CONNECTION);
                let mut job = Job {
                    body: JobBody::Loop(self.body(Some(&late))),
                    limit,
                    stop: &once,
                    counters: context.counters,
                };
                run(&mut job, Path::Listener(&mut accepting));
            }
        }
        if let Some(other) = accepting.other() {
            warn(format_args!(
                "{}: accepted data connections from {other} too: the others are from {from}",
                context.peer.control,
            ));
        }
        if accepting.refused() > 0 {
            warn(format_args!(
                "{}: refused {} data connections that did not come from {from}'s host",
                context.peer.control,
                accepting.refused()
            ));
        }
        self.finished(&phase, ran, self.facts_of_start())
    }

    fn datagrams(&mut self, context: &RunContext<'_>) -> Result<Finished, Refusal> {
        let RunContext {
            limits, counters, ..
        } = *context;
        let workload = self.assignment.workload.clone();
        let datagrams = self.datagrams_of(context)?;
        let (socket, path) = (&datagrams.socket, || datagrams.path());

        // Request/response goes on until the client says that it has ended.
        let transactional = workload.is_transactional();
        let mut phase = self.phase(context, transactional);
        let mut ran = match self.assignment.end_mark {
            EndMark::OtherSizeThan(size) => {
                let ran = receive_sized(socket, size, &phase.stop, |bytes, calls| {
                    counters.count_received(bytes, calls);
                });
                phase.stop_clock();
                ran
            }
            EndMark::Empty => phase.run(self.assignment.limit, self.body(None), path()),
        };
        if ran.ended == Ended::Deadline && !transactional {
            // Only now: neither the time nor the CPU of what is late is the test's. Within a host a
            // client that is still sending would else find its peer gone.
            let longest = LATE_DATAGRAMS.min(limits.drain);
            let (late, _late) = phase
                .cut
                .follower_until(phase.started() + self.length(limits) + longest);
            match self.assignment.end_mark {
                EndMark::Empty => receive_late(socket.as_fd(), &mut self.buffers, &late, counters),
                EndMark::OtherSizeThan(size) => {
                    receive_sized(socket, size, &late, |bytes, calls| {
                        counters.count_received_late(bytes, calls);
                    });
                }
            }
        }
        let closed = [Error::CONNREFUSED, Error::CONNRESET, Error::PIPE].map(Error::raw_os_error);
        if ran
            .failure
            .is_some_and(|(_, errno)| closed.contains(&errno))
        {
            // The client has closed its socket while something was on its way there: its end.
            ran.ended = Ended::PeerClosed;
            ran.failure = None;
        }
        if !workload.receives() {
            // A client that counts would wait for ever for what was lost.
            let _ = phase.finish(Finish::EmptyDatagrams, &path(), LATE_DATAGRAMS);
        }
        let facts = SocketFacts {
            dropped: dropped(socket, self.assignment.transport),
            ..self.facts_of_start()
        };
        self.finished(&phase, ran, facts)
    }

    /// Starts the clock. A test that `drains` goes on after its time until the client has stopped.
    fn phase<'a>(&self, context: &RunContext<'a>, drains: bool) -> MeasuredPhase<'a> {
        let RunContext { stop, limits, .. } = *context;
        let drain = if drains { limits.drain } else { Duration::ZERO };
        let half = &self.assignment.half;
        let settings = PhaseSettings {
            counters: context.counters,
            cancel: stop,
            control: None,
            time: Some(self.length(limits) + drain),
            idle: Some(self.buffers.patience(limits.data_idle, half)),
            group: None,
        };
        MeasuredPhase::start(half, settings)
    }

    /// How long the test may run: its time, or what no test may exceed.
    fn length(&self, limits: &Limits) -> Duration {
        match self.assignment.limit {
            Limit::Time(length) => length,
            _ => limits.max_length,
        }
    }

    /// What the socket had at its start, which is what it has at its end.
    fn facts_of_start(&self) -> SocketFacts {
        let facts = self.data.facts.clone();
        SocketFacts {
            send_buffer_end_bytes: facts.send_buffer_bytes,
            receive_buffer_end_bytes: facts.receive_buffer_bytes,
            ..facts
        }
    }

    /// What is repeated; a connection that is open at the stop is served to its end, or until `drain`.
    fn body<'a>(&'a mut self, drain: Option<&'a Stop>) -> Loop<'a> {
        Loop {
            workload: &self.assignment.workload,
            burst: 0,
            timing: self.timing,
            datagrams: None,
            first: &[],
            watch: None,
            warm_up: Duration::ZERO,
            half: &self.assignment.half,
            buffers: &mut self.buffers,
            drain,
        }
    }

    /// The results; the client is told a failure in place of them.
    fn finished(
        &self,
        phase: &MeasuredPhase<'_>,
        ran: Ran,
        socket: SocketFacts,
    ) -> Result<Finished, Refusal> {
        match ran.failure {
            Some((_, errno)) => Err(Refusal(errno)),
            None => Ok(Finished {
                ended: ran.ended.clone(),
                side: phase.side(ran, &self.data, &self.buffers, socket),
                tcp_info: None,
            }),
        }
    }
}

/// A name for a Unix domain socket, in a directory that goes with it. What a killed server left is
/// removed before the first.
fn place(transport: Transport, limits: &Limits) -> io::Result<Option<Place>> {
    static CLEANED: Once = Once::new();
    if !matches!(transport, Transport::UnixStream | Transport::UnixDatagram) {
        return Ok(None);
    }
    CLEANED.call_once(|| place::clean(&limits.unix_directory));
    Place::new(&limits.unix_directory).map(Some)
}

/// Refuses what the operator does not allow; leaves out a congestion control that is not loaded, and returns it.
fn permit(assignment: &mut Assignment, limits: &Limits) -> Result<Option<Refused>, Refusal> {
    let (permissions, bind) = (limits.permissions, &assignment.bind);
    let transport = assignment.transport;
    if !permissions.allows_transport(transport, bind) {
        let (name, needs) = (transport.name(), transport.needs());
        log(format_args!(
            "refused {name}: it needs {needs}, which is not loaded (--allow-modules)"
        ));
        return Err(Error::PROTONOSUPPORT.into());
    }
    if !permissions.allows_port_of(bind) {
        let port = bind.port();
        log(format_args!(
            "refused port {port}: it needs a privilege (--allow-privileged-ports)"
        ));
        return Err(Error::ACCESS.into());
    }
    let named = &mut assignment.half.socket.congestion_control;
    let left_out = named.take_if(|name| !permissions.allows_congestion_control(name));
    Ok(left_out.map(|name| {
        log(format_args!(
            "left out congestion control {name:?}: it is not loaded (--allow-modules)"
        ));
        Refused {
            setting: "TCP_CONGESTION".to_owned(),
            asked: name,
            why: "not loaded (netserver --allow-modules)".to_owned(),
        }
    }))
}

fn refusal(error: &RingError) -> Refusal {
    match error {
        RingError::TooLarge { .. } => Error::NOMEM.into(),
        RingError::Exceeded(exceeded) => refused_memory(*exceeded),
        RingError::Senseless { .. } => Error::INVAL.into(),
        RingError::File { .. } => Error::ACCESS.into(),
    }
}

fn refused_memory(exceeded: Exceeded) -> Refusal {
    log(format_args!("refused memory of buffers, bytes: {exceeded}"));
    Error::NOMEM.into()
}

pub(super) fn duplicate(socket: &Socket) -> Result<Socket, Refusal> {
    socket.try_clone().map_err(|error| Refusal::from_io(&error))
}

/// Receives datagrams of one size; any other size ends the data, and its bytes count.
fn receive_sized(socket: &Socket, size: u32, stop: &Stop, count: impl Fn(usize, u64)) -> Ran {
    let _attending = stop.attend();
    // One byte more, so that a longer datagram shows as one.
    let mut buffer = vec![0; size as usize + 1];
    loop {
        if let Some(reason) = stop.reason() {
            return reason.into();
        }
        match call::receive(socket.as_fd(), &mut buffer) {
            Ok(received) => {
                count(received, u64::from(received == size as usize));
                if received != size as usize {
                    return Ended::PeerClosed.into();
                }
            }
            Err(Error::INTR) => {}
            Err(error) => {
                return Ran {
                    failure: Some(("receive", error.raw_os_error())),
                    ..Ended::Failed(format!("receive failed: {}", sys::describe(&error))).into()
                };
            }
        }
    }
}
