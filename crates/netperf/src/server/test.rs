//! One test at this end: prepared before the response, run after it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use engine::{
    Accepting, Associations, Buffers, Clock, Counters, DataSocket, Exceeded, Finish, Flow, Job,
    JobBody, Loop, Looper, Memory, Path, Ran, RingError, Role, Share, Stop, complete_accepted,
    deadline_thread, dropped, facts_at_end, prepare_accepted, receive_late, run,
};
use model::{Ended, Limit, Refused, Side, Timing, Transport};
use server::{Accepted, DataPeer};
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
    /// Where a Unix domain socket has its name.
    place: Option<Place>,
    /// The memory for datagrams of a fixed size, which are not received into the ring.
    _datagram: Option<Share>,
    /// Counts idle cycles as long as it is held.
    _looper: Option<Arc<Looper>>,
}

/// What a test left.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) side: Side,
    pub(super) ended: Ended,
    /// What the client is told in place of results.
    pub(super) failure: Option<Refusal>,
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
    ) -> Finished {
        let _watch = deadline_thread().on_hang_up(control, stop);
        let counters = Arc::new(Counters::default());
        let named = self.assignment.named.clone();
        let peer = &DataPeer {
            control: peer,
            named: named.as_ref(),
            policy: limits.peers,
        };
        let assignment = &self.assignment;
        let outcome = if assignment.workload.connects() {
            self.connections(control, peer, stop, limits, &counters)
        } else if assignment.transport == Transport::SctpMany {
            self.associations(peer, stop, limits, &counters)
        } else if !assignment.transport.has_datagrams() {
            self.stream(peer, stop, limits, &counters)
        } else {
            self.datagrams(peer, stop, limits, &counters)
        };
        let mut finished = outcome.unwrap_or_else(|refusal| Finished {
            side: Side::default(),
            ended: Ended::Failed(refusal.to_string()),
            failure: Some(refusal),
            tcp_info: None,
        });
        finished.side.counts = counters.counts();
        finished.side.buffers = self.buffers.used();
        finished.side.refused.extend(self.data.refused);
        finished
    }

    fn stream(
        &mut self,
        peer: &DataPeer<'_>,
        stop: &Stop,
        limits: &Limits,
        counters: &Arc<Counters>,
    ) -> Result<Finished, Refusal> {
        let connection = self.connection(peer, stop, limits)?.socket;
        deadline_thread().on_silence(counters, self.patience(limits), stop);
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

        let clock = self.clock();
        // A sender stops at its time; a receiver reads on until the client has stopped.
        let drain = if self.assignment.workload.receives() {
            limits.drain
        } else {
            Duration::ZERO
        };
        let length = self.length(limits) + drain;
        let in_time = stop.follower();
        let _deadline = deadline_thread().at(clock.started + length, &in_time);
        let path = || Flow::Connected(connection.as_fd());
        let ran = run(&mut self.job(&in_time, None, counters), path());

        let mut finished = finished(&clock, ran);
        if self.assignment.workload.sends()
            && self.assignment.transport.has_tcp_options()
            && finished.failure.is_none()
        {
            // What is sent again of what is still on its way belongs to the test. The client reads it
            // before it looks for the results.
            let patience = stop.follower();
            let _patience = deadline_thread().at(Instant::now() + limits.drain, &patience);
            Finish::Acknowledged.say(&path(), &patience);
        }
        finished.tcp_info = tcp_info::Dump::of(&connection);
        let facts = &mut finished.side.socket;
        *facts = self.data.facts.clone();
        facts_at_end(&connection, self.assignment.transport, facts);
        // A size that was asked for stays what it was.
        let options = &self.assignment.half.socket;
        if options.receive_buffer_bytes.is_some() {
            facts.receive_buffer_end_bytes = facts.receive_buffer_bytes;
        }
        if options.send_buffer_bytes.is_some() {
            facts.send_buffer_end_bytes = facts.send_buffer_bytes;
        }
        Ok(finished)
    }

    /// All associations that the client has with one socket, until the last of them has gone.
    fn associations(
        &mut self,
        peer: &DataPeer<'_>,
        stop: &Stop,
        limits: &Limits,
        counters: &Arc<Counters>,
    ) -> Result<Finished, Refusal> {
        let socket = duplicate(&self.data.socket)?;
        let admits = |source: &Address| peer.may_send_to(source);
        let associations = Associations::new(socket.as_fd(), &admits);
        wait::association(&associations, socket.as_fd(), stop, limits)?;
        deadline_thread().on_silence(counters, self.patience(limits), stop);
        let clock = self.clock();
        let _deadline =
            deadline_thread().at(clock.started + self.length(limits) + limits.drain, stop);
        let ran = run(
            &mut self.job(stop, None, counters),
            Flow::OneToMany(&associations),
        );
        let mut finished = finished(&clock, ran);
        finished.side.socket = self.facts_of_start();
        Ok(finished)
    }

    fn connections(
        &mut self,
        control: BorrowedFd<'_>,
        peer: &DataPeer<'_>,
        stop: &Stop,
        limits: &Limits,
        counters: &Arc<Counters>,
    ) -> Result<Finished, Refusal> {
        let listener = duplicate(&self.data.socket)?;
        let Accepted { socket, from, .. } = self.connection(peer, stop, limits)?;
        let host = Peer::try_from(&from).ok();
        let mut accepting = Accepting::new(listener.into(), host, Some(socket.into()));
        deadline_thread().on_silence(counters, self.patience(limits), stop);

        let clock = self.clock();
        let length = self.length(limits);
        let time_up = stop.follower();
        let _deadline = deadline_thread().at(clock.started + length, &time_up);
        // The connection that is open when the time is up may end as late as any other test.
        let last = stop.follower();
        let _last = deadline_thread().at(clock.started + length + limits.drain, &last);
        let path = Path::Listener(&mut accepting);
        let ran = run(&mut self.job(&time_up, Some(&last), counters), path);
        let mut finished = finished(&clock, ran);

        if finished.ended == Ended::Deadline {
            let late = stop.follower();
            let longest = LATE_CONNECTIONS.min(limits.drain);
            let _late = deadline_thread().at(Instant::now() + longest, &late);
            while wait::connects_again(accepting.listener(), control, &late, LAST_CONNECTION) {
                let once = late.follower();
                let _once = deadline_thread().at(Instant::now() + LAST_CONNECTION, &once);
                let path = Path::Listener(&mut accepting);
                run(&mut self.job(&once, Some(&late), counters), path);
            }
        }
        if accepting.refused() > 0 {
            warn(format_args!(
                "{}: refused {} data connections that did not come from {from}'s host",
                peer.control,
                accepting.refused()
            ));
        }
        finished.side.socket = self.facts_of_start();
        Ok(finished)
    }

    fn datagrams(
        &mut self,
        peer: &DataPeer<'_>,
        stop: &Stop,
        limits: &Limits,
        counters: &Arc<Counters>,
    ) -> Result<Finished, Refusal> {
        let workload = self.assignment.workload.clone();
        let datagrams = self.datagrams_of(peer, stop, limits)?;
        let (socket, path) = (&datagrams.socket, || datagrams.path());
        deadline_thread().on_silence(counters, self.patience(limits), stop);

        let clock = self.clock();
        let length = self.length(limits);
        let in_time = stop.follower();
        // Request/response goes on until the client says that it has ended.
        let transactional = workload.is_transactional();
        let grace = if transactional {
            limits.drain
        } else {
            Duration::ZERO
        };
        let _in_time = deadline_thread().at(clock.started + length + grace, &in_time);
        let ran = match self.assignment.end_mark {
            EndMark::OtherSizeThan(size) => {
                receive_sized(socket, size, &in_time, |bytes, calls| {
                    counters.count_received(bytes, calls);
                })
            }
            EndMark::Empty => run(&mut self.job(&in_time, None, counters), path()),
        };
        let mut finished = finished(&clock, ran);
        if finished.ended == Ended::Deadline && !transactional {
            // Only now: neither the time nor the CPU of what is late is the test's. Within a host a
            // client that is still sending would else find its peer gone.
            let late = stop.follower();
            let longest = LATE_DATAGRAMS.min(limits.drain);
            let _late = deadline_thread().at(clock.started + length + longest, &late);
            match self.assignment.end_mark {
                EndMark::Empty => receive_late(socket.as_fd(), &mut self.buffers, &late, counters),
                EndMark::OtherSizeThan(size) => {
                    receive_sized(socket, size, &late, |bytes, calls| {
                        counters.count_received_late(bytes, calls);
                    });
                }
            }
        }
        let closed = [Error::CONNREFUSED, Error::CONNRESET, Error::PIPE].map(Refusal::from);
        if finished
            .failure
            .is_some_and(|failure| closed.contains(&failure))
        {
            // The client has closed its socket while something was on its way there: its end.
            finished.ended = Ended::PeerClosed;
            finished.failure = None;
        }
        if !workload.receives() {
            // A client that counts would wait for ever for what was lost.
            let patience = stop.follower();
            let _patience = deadline_thread().at(Instant::now() + LATE_DATAGRAMS, &patience);
            Finish::EmptyDatagrams.say(&path(), &patience);
        }
        finished.side.socket = self.facts_of_start();
        finished.side.socket.dropped = dropped(socket, self.assignment.transport);
        Ok(finished)
    }

    fn clock(&self) -> Clock {
        Clock::start(&self.assignment.half)
    }

    /// How long the test may run: its time, or what no test may exceed.
    fn length(&self, limits: &Limits) -> Duration {
        match self.assignment.limit {
            Limit::Time(length) => length,
            _ => limits.max_length,
        }
    }

    /// How long the data may stop.
    fn patience(&self, limits: &Limits) -> Duration {
        self.buffers
            .patience(limits.data_idle, &self.assignment.half)
    }

    /// What the socket had at its start, which is what it has at its end.
    fn facts_of_start(&self) -> model::SocketFacts {
        let facts = self.data.facts.clone();
        model::SocketFacts {
            send_buffer_end_bytes: facts.send_buffer_bytes,
            receive_buffer_end_bytes: facts.receive_buffer_bytes,
            ..facts
        }
    }

    fn job<'a>(
        &'a mut self,
        stop: &'a Stop,
        drain: Option<&'a Stop>,
        counters: &'a Counters,
    ) -> Job<'a> {
        Job {
            body: JobBody::Loop(Loop {
                workload: &self.assignment.workload,
                burst: 0,
                timing: self.timing,
                half: &self.assignment.half,
                buffers: &mut self.buffers,
                drain,
            }),
            limit: self.assignment.limit,
            stop,
            counters,
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

/// The end of the measured phase.
fn finished(clock: &Clock, ran: Ran) -> Finished {
    let passed = clock.stop();
    let failure = match (&ran.ended, ran.failure) {
        (Ended::Failed(_) | Ended::PeerClosed, Some((_, errno))) => Some(Refusal(errno)),
        _ => None,
    };
    Finished {
        side: Side {
            elapsed: Some(passed.elapsed),
            thread_cpu: Some(passed.thread_cpu),
            cpu: passed.cpu,
            paced: ran.paced,
            send_gaps: ran.send_gaps,
            send_times: ran.send_times,
            receive_times: ran.receive_times,
            ..Side::default()
        },
        ended: ran.ended,
        failure,
        tcp_info: None,
    }
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

fn duplicate(socket: &Socket) -> Result<Socket, Refusal> {
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
