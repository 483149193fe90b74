//! Prepares a test before the response, and runs it after the response.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use engine::{
    Acceptor, Associations, BudgetExceeded, BudgetShare, BufferError, BufferMemory, Buffers,
    Counters, DataSocket, FinishMethod, FlowLoop, FlowSockets, Job, JobBody, JobSockets,
    LoopResult, Looper, MeasuredPhase, PhaseSettings, Role, Stop, deadline_thread,
    dropped_datagrams, prepare_accepted_llc, receive_late, run, set_accepted_priority,
};
use model::{EndCause, Limit, RefusedSetting, Side, SocketFacts, Timing, Transport, Workload};
use server::{AcceptedConnection, DataPeer, UNEXPECTED_PEER_WAIT};
use sys::call::{self, Error, KernelAddress};
use sys::{Address, Socket};

use super::assignment::{Assignment, EndMark, TestError};
use super::data::{ConnectionProof, report_datagram_addresses};
use super::files::FillFiles;
use super::log::{log, warn};
use super::wait;
use crate::options::ServerLimits;
use crate::socket_directory::{self, SocketDirectory};
use crate::{FILL_PATTERN, tcp_info};

/// Backlog for listen(2): connections that wait for accept(2).
const BACKLOG: i32 = 128;

/// Backlog for a connection test, which has many connections on their way over a long path.
const CONNECTION_TEST_BACKLOG: i32 = 1024;

/// A stock client sends no end signal in a connection test. After its time limit, the test ends if
/// no connection arrives for this long, or if the client sends another request.
const RECONNECT_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum time after the deadline to accept connections of a connection test; at most `--drain`.
const MAX_LATE_CONNECTING: Duration = Duration::from_secs(4);

/// Maximum time after the deadline to await datagrams if the end mark was lost; at most `--drain`.
const MAX_LATE_DATAGRAMS: Duration = Duration::from_secs(4);

/// A test that is ready to run: its socket is bound and its buffers are filled.
#[derive(Debug)]
pub(super) struct PreparedTest {
    pub(super) assignment: Assignment,
    pub(super) data: DataSocket,
    /// The data socket's port.
    pub(super) port: u32,
    pub(super) buffers: Buffers,
    /// The times that the client requested.
    pub(super) timing: Timing,
    /// The expected proof of the data connection. Without a proof, the server checks addresses.
    pub(super) proof: Option<ConnectionProof>,
    /// Counters of the test.
    pub(super) counters: Arc<Counters>,
    /// The directory of a Unix domain socket.
    socket_directory: Option<SocketDirectory>,
    /// The budget for the buffer of [`receive_sized`], which does not use the ring.
    _datagram_budget: Option<BudgetShare>,
    /// The looper, which counts idle cycles until it is dropped.
    _looper: Option<Arc<Looper>>,
}

/// Parts of the session that a running test uses.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'a> {
    pub(super) peer: &'a DataPeer<'a>,
    pub(super) stop: &'a Stop,
    pub(super) limits: &'a ServerLimits,
    control: BorrowedFd<'a>,
    counters: &'a Arc<Counters>,
}

/// Result of a test.
#[derive(Debug)]
pub(super) struct ServedTest {
    pub(super) side: Side,
    pub(super) ended: EndCause,
    pub(super) tcp_info: Option<tcp_info::TcpInfoDump>,
}

impl PreparedTest {
    /// Opens the socket and allocates the rings.
    pub(super) fn new(
        mut assignment: Assignment,
        memory: &BufferMemory,
        files: &FillFiles,
        limits: &ServerLimits,
    ) -> Result<Self, TestError> {
        let fill = match assignment.endpoint.fill.as_deref() {
            Some(name) => Some(files.open_file(name).ok_or(Error::ACCESS)?),
            None => None,
        };
        if assignment.transport == Transport::Mptcp && !sys::facts::has_mptcp() {
            // The client's connection falls back to TCP, and the client reports that.
            assignment.transport = Transport::Tcp;
        }
        let refused_setting = apply_permissions(&mut assignment, limits)?;
        let (workload, transport) = (&assignment.workload, assignment.transport);
        let listens = workload.receives() || transport.has_connections();
        let role = if listens {
            Role::Listener
        } else {
            Role::Initiator
        };
        // If another looper is running, this test cannot measure CPU time. The response reports
        // that.
        let looper = Looper::for_endpoint(&mut assignment.endpoint).unwrap_or_else(|_| {
            assignment.endpoint.measure_cpu = false;
            None
        });
        if assignment.endpoint.measure_cpu && sys::cpu::read_ticks().is_err() {
            log(format_args!(
                "CPU time is unavailable: /proc/stat has no ticks"
            ));
            assignment.endpoint.measure_cpu = false;
        }
        let (workload, transport) = (&assignment.workload, assignment.transport);
        let endpoint = &assignment.endpoint;
        let directory =
            new_socket_directory(transport, limits).map_err(|error| TestError::from_io(&error))?;
        let bind = match &directory {
            Some(directory) => &Address::Unix(directory.socket_path()),
            None => &assignment.bind,
        };
        let mut data = DataSocket::open(transport, bind, &endpoint.socket, role)
            .map_err(|error| TestError(error.errno()))?;
        data.refused.extend(refused_setting);
        if let Some(directory) = &directory {
            directory
                .allow_all_users()
                .map_err(|error| TestError::from_io(&error))?;
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
            report_datagram_addresses(&data.socket, true)
                .map_err(|error| TestError::from_io(&error))?;
        }
        let port = Address::local(&data.socket).map_or(0, |bound| bound.port());
        let datagram_budget = match assignment.end_mark {
            EndMark::OtherSizeThan(size) => {
                let share = memory.reserve(u64::from(size) + 1);
                Some(share.map_err(memory_refusal)?)
            }
            EndMark::Empty => None,
        };
        let facts = &data.facts;
        let buffers = Buffers::new(
            endpoint,
            workload,
            transport,
            facts,
            fill,
            FILL_PATTERN,
            memory,
        )
        .map_err(|error| buffer_error(&error))?;
        Ok(Self {
            assignment,
            data,
            port,
            buffers,
            timing: Timing::default(),
            proof: None,
            counters: Arc::default(),
            socket_directory: directory,
            _datagram_budget: datagram_budget,
            _looper: looper,
        })
    }

    /// Returns the path of a Unix domain socket; empty for others.
    pub(super) fn unix_path(&self) -> PathBuf {
        self.socket_directory
            .as_ref()
            .map(SocketDirectory::socket_path)
            .unwrap_or_default()
    }

    /// Runs the test. Stops it if the client closes `control`.
    pub(super) fn run(
        mut self,
        control: BorrowedFd<'_>,
        peer: &Address,
        stop: &Stop,
        limits: &ServerLimits,
    ) -> Result<ServedTest, TestError> {
        let _watch = deadline_thread().set_on_hang_up(control, stop);
        let named_client = self.assignment.named_client.clone();
        let counters = Arc::clone(&self.counters);
        let context = &RunContext {
            peer: &DataPeer {
                control: peer,
                requested: named_client.as_ref(),
                is_on_other_network: self.assignment.is_on_other_network,
                policy: limits.peers.clone(),
            },
            stop,
            limits,
            control,
            counters: &counters,
        };
        let assignment = &self.assignment;
        if assignment.workload.connects() {
            self.run_connections(context)
        } else if assignment.transport == Transport::SctpMany {
            self.run_associations(context)
        } else if !assignment.transport.has_datagrams() {
            self.run_stream(context)
        } else {
            self.run_datagrams(context)
        }
    }

    fn run_stream(&mut self, context: &RunContext<'_>) -> Result<ServedTest, TestError> {
        let accepted = self.accept_connection(context)?;
        let (connection, waited) = (accepted.socket, accepted.waited);
        set_accepted_priority(connection.as_fd(), &self.assignment.endpoint.socket);
        let Assignment {
            transport,
            endpoint,
            ..
        } = &self.assignment;
        prepare_accepted_llc(&connection, *transport, &endpoint.socket)
            .map_err(|error| TestError(error.errno()))?;
        // No other connection can reach this test. For Multipath TCP the port must stay open for
        // further paths.
        if self.assignment.transport != Transport::Mptcp {
            let _ = call::shutdown(self.data.socket.as_fd());
        }

        // A sender stops at its time limit; a receiver reads until the client stops.
        let mut phase = self.start_phase(context, self.assignment.workload.receives());
        let sockets = || FlowSockets::Connected(connection.as_fd());
        let limit = match self.assignment.limit {
            // The client's last send exceeds the limit and ends its stream.
            Limit::Bytes(_) if self.assignment.workload == Workload::receive() => Limit::Unlimited,
            limit => limit,
        };
        let result = phase.run(limit, self.flow_loop(None), sockets());

        if self.assignment.workload.sends()
            && self.assignment.transport.has_tcp_options()
            && result.failure.is_none()
        {
            // Retransmissions of data on its way belong to the test. The client reads this data
            // before it expects the results.
            let _ = phase.finish(FinishMethod::Acknowledged, &sockets(), context.limits.drain);
        }
        let mut facts = self.data.current_facts(&connection);
        // The kernel does not resize a buffer whose size was requested.
        let options = &self.assignment.endpoint.socket;
        if options.receive_buffer_bytes.is_some() {
            facts.receive_buffer_end_bytes = facts.receive_buffer_bytes;
        }
        if options.send_buffer_bytes.is_some() {
            facts.send_buffer_end_bytes = facts.send_buffer_bytes;
        }
        Ok(ServedTest {
            tcp_info: tcp_info::TcpInfoDump::read_if_requested(&connection),
            ..self.finish(context, waited, &phase, result, facts)?
        })
    }

    /// Serves all associations that the client has with one socket, until the last one ends.
    fn run_associations(&mut self, context: &RunContext<'_>) -> Result<ServedTest, TestError> {
        let socket = duplicate(&self.data.socket)?;
        let admits = |source: &Address| context.peer.may_send_to(source);
        let associations = Associations::new(socket.as_fd(), &admits);
        wait::await_association(&associations, socket.as_fd(), context)?;
        let mut phase = self.start_phase(context, true);
        let flow = FlowSockets::OneToMany(&associations);
        let result = phase.run(self.assignment.limit, self.flow_loop(None), flow);
        self.finish(
            context,
            Duration::ZERO,
            &phase,
            result,
            self.initial_facts(),
        )
    }

    fn run_connections(&mut self, context: &RunContext<'_>) -> Result<ServedTest, TestError> {
        let (limits, control) = (context.limits, context.control);
        let listener = duplicate(&self.data.socket)?;
        let AcceptedConnection {
            socket,
            from,
            waited,
            ..
        } = self.accept_connection(context)?;
        let client = KernelAddress::try_from(&from).ok();
        let preference_time = (!context.peer.policy.is_strict).then_some(UNEXPECTED_PEER_WAIT);
        let socket = Some(socket.into());
        let mut acceptor = Acceptor::new(listener.into(), client, socket, preference_time);
        let (limit, length) = (self.assignment.limit, self.max_length(limits));
        let mut phase = self.start_phase(context, false);
        // A connection that is open at the deadline may continue until the end of the drain time.
        let (drain_stop, _drain_deadline) = phase
            .abort_stop
            .child_until(phase.started() + length + limits.drain);
        let sockets = JobSockets::Listener(&mut acceptor);
        let result = phase.run(limit, self.flow_loop(Some(&drain_stop)), sockets);

        if result.ended == EndCause::Deadline {
            let duration = MAX_LATE_CONNECTING.min(limits.drain);
            let (late_stop, _late_deadline) =
                phase.abort_stop.child_until(Instant::now() + duration);
            while wait::await_connection(
                acceptor.listener(),
                control,
                &late_stop,
                RECONNECT_TIMEOUT,
            ) {
                let (stop, _deadline) = late_stop.child_until(Instant::now() + RECONNECT_TIMEOUT);
                let mut job = Job {
                    body: JobBody::Loop(self.flow_loop(Some(&late_stop))),
                    limit,
                    stop: &stop,
                    counters: context.counters,
                };
                run(&mut job, JobSockets::Listener(&mut acceptor));
            }
        }
        if let Some(other) = acceptor.other_host() {
            warn(format_args!(
                "{}: accepted data connections from {other}, in addition to those from {from}",
                context.peer.control,
            ));
        }
        if acceptor.refused_count() > 0 {
            warn(format_args!(
                "{}: refused {} data connections that did not come from {from}'s host",
                context.peer.control,
                acceptor.refused_count()
            ));
        }
        // The elapsed time includes the acceptor's wait, but not the one before it.
        self.finish(
            context,
            waited + acceptor.waited(),
            &phase,
            result,
            self.initial_facts(),
        )
    }

    fn run_datagrams(&mut self, context: &RunContext<'_>) -> Result<ServedTest, TestError> {
        let RunContext {
            limits, counters, ..
        } = *context;
        let workload = self.assignment.workload.clone();
        let (flow, waited) = self.datagram_flow(context)?;
        let (socket, sockets) = (&flow.socket, || flow.sockets());

        // Request/response continues until the client reports the end.
        let is_transactional = workload.is_transactional();
        let mut phase = self.start_phase(context, is_transactional);
        let mut result = match self.assignment.end_mark {
            EndMark::OtherSizeThan(size) => {
                let result = receive_sized(socket, size, &phase.stop, |bytes, calls| {
                    counters.count_received(bytes, calls);
                });
                phase.stop_clock();
                result
            }
            EndMark::Empty => phase.run(self.assignment.limit, self.flow_loop(None), sockets()),
        };
        if result.ended == EndCause::Deadline && !is_transactional {
            // The clock has stopped, so late datagrams add no time and no CPU use. Without this
            // step, a client on the same host that still sends would get an error.
            let duration = MAX_LATE_DATAGRAMS.min(limits.drain);
            let (late_stop, _late_deadline) = phase
                .abort_stop
                .child_until(phase.started() + self.max_length(limits) + duration);
            match self.assignment.end_mark {
                EndMark::Empty => {
                    receive_late(socket.as_fd(), &mut self.buffers, &late_stop, counters);
                }
                EndMark::OtherSizeThan(size) => {
                    receive_sized(socket, size, &late_stop, |bytes, calls| {
                        counters.count_received_late(bytes, calls);
                    });
                }
            }
        }
        let closed_errors =
            [Error::CONNREFUSED, Error::CONNRESET, Error::PIPE].map(Error::raw_os_error);
        if result
            .failure
            .is_some_and(|(_, errno)| closed_errors.contains(&errno))
        {
            // The client ended the test and closed its socket while data was on its way.
            result.ended = EndCause::PeerClosed;
            result.failure = None;
        }
        if !workload.receives() {
            // A client with a count as its limit would wait forever for lost datagrams.
            let _ = phase.finish(FinishMethod::EmptyDatagrams, &sockets(), MAX_LATE_DATAGRAMS);
        }
        let facts = SocketFacts {
            dropped: dropped_datagrams(socket, self.assignment.transport),
            ..self.initial_facts()
        };
        self.finish(context, waited, &phase, result, facts)
    }

    /// Starts the clock. If `drains` is set, the test continues after its time limit until the
    /// client stops.
    fn start_phase<'a>(&self, context: &RunContext<'a>, drains: bool) -> MeasuredPhase<'a> {
        let RunContext { stop, limits, .. } = *context;
        let drain = if drains { limits.drain } else { Duration::ZERO };
        let endpoint = &self.assignment.endpoint;
        let settings = PhaseSettings {
            counters: context.counters,
            cancel: stop,
            control: None,
            duration: Some(self.max_length(limits) + drain),
            idle_timeout: Some(self.buffers.idle_timeout(limits.data_idle, endpoint)),
            group: None,
        };
        MeasuredPhase::start(endpoint, settings)
    }

    /// Returns the test's maximum duration: its time limit, or the server's maximum.
    fn max_length(&self, limits: &ServerLimits) -> Duration {
        match self.assignment.limit {
            Limit::Time(length) => length,
            _ => limits.max_length,
        }
    }

    /// Returns the initial facts of the socket, with its initial buffer sizes as the final ones.
    fn initial_facts(&self) -> SocketFacts {
        let facts = self.data.facts.clone();
        SocketFacts {
            send_buffer_end_bytes: facts.send_buffer_bytes,
            receive_buffer_end_bytes: facts.receive_buffer_bytes,
            ..facts
        }
    }

    /// Returns the loop. At the stop, it serves an open connection to its end, at most until
    /// `drain_stop`.
    fn flow_loop<'a>(&'a mut self, drain_stop: Option<&'a Stop>) -> FlowLoop<'a> {
        FlowLoop {
            workload: &self.assignment.workload,
            burst: 0,
            timing: self.timing,
            datagrams: None,
            first_datagrams: &[],
            observer: None,
            shared_limit: None,
            warm_up: Duration::ZERO,
            endpoint: &self.assignment.endpoint,
            buffers: &mut self.buffers,
            drain_stop,
        }
    }

    /// Returns the results, or the error that is sent instead of them. `waited` is the time for
    /// which connections from unexpected addresses waited.
    fn finish(
        &self,
        context: &RunContext<'_>,
        waited: Duration,
        phase: &MeasuredPhase<'_>,
        result: LoopResult,
        socket: SocketFacts,
    ) -> Result<ServedTest, TestError> {
        if let Some((_, errno)) = result.failure {
            return Err(TestError(errno));
        }
        let ended = result.ended.clone();
        let side = phase.side(result, &self.data, &self.buffers, socket);
        check_wait(waited, waited + side.elapsed.unwrap_or_default(), context)?;
        Ok(ServedTest {
            ended,
            side,
            tcp_info: None,
        })
    }
}

/// Fails if the wait for the client's address took more than 5 % of a test, because the client's
/// clock may include this wait.
pub(super) fn check_wait(
    waited: Duration,
    length: Duration,
    context: &RunContext<'_>,
) -> Result<(), TestError> {
    if waited * 20 <= length {
        return Ok(());
    }
    warn(format_args!(
        "{}: ended a test, because the wait for this address took {} ms of {} ms; \
         a longer test, or `-- -L` with the address of the data, avoids the error",
        context.peer.control,
        waited.as_millis(),
        length.as_millis()
    ));
    Err(Error::ACCESS.into())
}

/// Creates the directory of a Unix domain socket; `None` for other transports. The first call
/// removes directories of killed servers.
fn new_socket_directory(
    transport: Transport,
    limits: &ServerLimits,
) -> io::Result<Option<SocketDirectory>> {
    static CLEANED: Once = Once::new();
    if !matches!(transport, Transport::UnixStream | Transport::UnixDatagram) {
        return Ok(None);
    }
    CLEANED.call_once(|| socket_directory::remove_stale(&limits.unix_directory));
    SocketDirectory::new(&limits.unix_directory).map(Some)
}

/// Refuses a transport or port without the operator's permission. Removes and returns a congestion
/// control that is not loaded.
fn apply_permissions(
    assignment: &mut Assignment,
    limits: &ServerLimits,
) -> Result<Option<RefusedSetting>, TestError> {
    let (permissions, bind) = (limits.permissions, &assignment.bind);
    let transport = assignment.transport;
    if !permissions.allows_transport(transport, bind) {
        let (name, needs) = (transport.name(), transport.requirement());
        log(format_args!(
            "refused {name}: it needs {needs}, which is unavailable or not loaded (--allow-modules permits \
             loading)"
        ));
        return Err(Error::PROTONOSUPPORT.into());
    }
    if !permissions.allows_port(bind) {
        let port = bind.port();
        log(format_args!(
            "refused port {port}: it needs a privilege (--allow-privileged-ports)"
        ));
        return Err(Error::ACCESS.into());
    }
    let requested = &mut assignment.endpoint.socket.congestion_control;
    let refused_name = requested.take_if(|name| !permissions.allows_congestion_control(name));
    Ok(refused_name.map(|name| {
        log(format_args!(
            "left out congestion control {name:?}: it is not loaded (--allow-modules)"
        ));
        RefusedSetting {
            setting: "TCP_CONGESTION".to_owned(),
            requested: name,
            reason: "not loaded (netserver --allow-modules)".to_owned(),
        }
    }))
}

fn buffer_error(error: &BufferError) -> TestError {
    match error {
        BufferError::TooLarge { .. } => Error::NOMEM.into(),
        BufferError::Exceeded(exceeded) => memory_refusal(*exceeded),
        BufferError::Invalid { .. } => Error::INVAL.into(),
        BufferError::File { .. } => Error::ACCESS.into(),
    }
}

fn memory_refusal(exceeded: BudgetExceeded) -> TestError {
    log(format_args!(
        "refused a test: buffer memory in bytes: {exceeded} (--max-memory)"
    ));
    Error::NOMEM.into()
}

pub(super) fn duplicate(socket: &Socket) -> Result<Socket, TestError> {
    socket
        .try_clone()
        .map_err(|error| TestError::from_io(&error))
}

/// Receives datagrams of one size. A datagram of any other size ends the data; its bytes count.
fn receive_sized(
    socket: &Socket,
    size: u32,
    stop: &Stop,
    count: impl Fn(usize, u64),
) -> LoopResult {
    let _registration = stop.register_thread();
    // One byte more detects longer datagrams.
    let mut buffer = vec![0; size as usize + 1];
    loop {
        if let Some(reason) = stop.reason() {
            return reason.into();
        }
        match call::receive(socket.as_fd(), &mut buffer) {
            Ok(received) => {
                count(received, u64::from(received == size as usize));
                if received != size as usize {
                    return EndCause::PeerClosed.into();
                }
            }
            Err(Error::INTR) => {}
            Err(error) => {
                return LoopResult {
                    failure: Some(("receive", error.raw_os_error())),
                    ..EndCause::Failed(format!("receive failed: {}", sys::describe(&error))).into()
                };
            }
        }
    }
}
