//! The local end of the data connection.

mod associations;
mod connections;
mod prepare;
mod proof;
mod run_checks;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};

use engine::{
    Buffers, ConnectError, DataSocket, FinishMethod, FlowLoop, FlowSockets, GroupMember,
    InterfaceMeter, JobSockets, LoopResult, MeasuredPhase, PhaseSettings, Stop, StopReason,
    connect, connect_without_data,
};
use model::{
    End, EndCause, FlowPlan, Limit, Operation, Outcome, Side, SocketFacts, Transport, Warning,
    Workload,
};
use server::Nonce;
use sys::Address;
use sys::call::{self, KernelAddress};

use super::ClientError;
use super::answer::AwaitedAnswer;
use super::control::ServerConnection;
use super::interim::Progress;
use super::request::LocalSetup;
use crate::options::{FamilySettings, Settings, Test, UnansweredPolicy};
use crate::socket_directory::SocketDirectory;
use crate::tcp_info;

pub(super) use proof::ProofMethod;

/// Time for the peer to read the remaining data after the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Additional time for a receiver to await the end of the peer's stream. A sender on a busy host
/// starts later, and all its data must count.
const STREAM_END_GRACE: Duration = Duration::from_secs(2);

/// The local socket and buffers, prepared before the request.
pub(super) struct LocalEnd<'a> {
    plan: &'a FlowPlan,
    source: Address,
    /// The directory of a named Unix domain socket.
    _socket_directory: Option<SocketDirectory>,
    /// The data socket. In tests with several sockets or one per transaction, a socket with the
    /// same options that carries no data.
    data: DataSocket,
    buffers: Buffers,
    /// The nonce in the server's response, if any.
    pub(super) nonce: Option<Nonce>,
    /// Warnings about the test.
    pub(super) warnings: Vec<Warning>,
}

/// Result of one run of the loop.
struct FlowRun {
    result: LoopResult,
    socket: SocketFacts,
    tcp_info: Option<tcp_info::TcpInfoDump>,
}

/// Binds this thread to the requested CPU. Returns a warning on failure, which the stock tool
/// ignores silently.
fn bind_thread(plan: &FlowPlan) -> Option<Warning> {
    let cpu = plan.local.cpu?;
    let error = sys::cpu::bind_thread(cpu).err()?;
    Some(Warning::NotInForce {
        end: End::Local,
        setting: "CPU".to_owned(),
        requested: cpu.to_string(),
        in_force: None,
        reason: Some(sys::describe(&error)),
    })
}

impl LocalEnd<'_> {
    /// Returns the local values for the request.
    pub(super) fn setup(&self) -> LocalSetup {
        LocalSetup {
            port: Address::local(&self.data.socket).map_or(0, |bound| bound.port()),
            buffers: self.buffers.sizes,
        }
    }

    /// Runs the test. Returns the local part of the outcome and the start of the measured phase.
    /// Without a control connection, the peer has no time limit and expects no end mark.
    pub(super) fn run(
        &mut self,
        settings: &Settings,
        dest: &Address,
        control: Option<&ServerConnection>,
        cancel: &Stop,
        progress: Progress<'_>,
        member: Option<GroupMember<'_>>,
    ) -> Result<(Outcome, Instant), ClientError> {
        let started = SystemTime::now();
        let awaited = self.awaited_answer(settings, dest, control);
        let control = control.map(|control| control.connection.as_fd());
        pause(settings.wait, control, cancel);
        if let Some(nonce) = self.nonce
            && ProofMethod::for_plan(self.plan) == Some(ProofMethod::SeparateConnection)
        {
            if let Some(awaited) = awaited.clone() {
                progress.answer.start_timeout(awaited, cancel);
            }
            self.send_separate_proof(&nonce, dest, settings.ports, cancel, progress)?;
        }
        // These queries of the host run outside of the measured phase.
        let needs = settings.needs;
        let clock_facts = (needs.clock || self.plan.timing.passes || self.plan.timing.calls)
            .then(engine::clock_facts);
        let meter = needs
            .interface
            .then(|| InterfaceMeter::start(dest))
            .flatten();
        let group = match member {
            Some(member) => Some(member.start().ok_or(ClientError::Abandoned)?),
            None => None,
        };
        let idle_timeout = self
            .buffers
            .idle_timeout(settings.data_idle, &self.plan.local);
        let phase_settings = PhaseSettings {
            counters: progress.counters,
            cancel,
            control,
            duration: self.loop_duration(control.is_some()),
            idle_timeout: self.has_idle_timeout().then_some(idle_timeout),
            group,
        };
        let phase = &mut MeasuredPhase::start(&self.plan.local, phase_settings);
        progress.report_start(phase.started());
        if let Some(awaited) = awaited.clone().filter(|answer| !answer.is_one_way) {
            progress.answer.start_timeout(awaited, cancel);
        }
        let run = if settings.test == Test::TcpMss {
            self.open(dest, &phase.stop, progress)?;
            phase.stop_clock();
            self.finished_run(EndCause::Count.into())
        } else if self.plan.workload.connects() {
            self.run_connections(dest, settings.ports, phase, progress)?
        } else if let FamilySettings::Sctp { associations } = settings.family_settings
            && self.plan.transport == Transport::SctpMany
        {
            self.run_associations(associations, dest, phase, progress)?
        } else {
            self.run_single_socket(dest, phase, progress, control.is_none())?
        };
        if is_idle_timeout(&run.result) {
            return Err(ClientError::DataIdle(settings.data_idle));
        }
        if let Some(error) = run_error(&run.result, self.plan, dest) {
            return Err(error);
        }
        let has_sent = progress.counters.counts().send_calls > 0;
        if let Some(awaited) = awaited.filter(|answer| answer.is_one_way && has_sent) {
            progress.answer.start_timeout(awaited, cancel);
        }
        self.warnings.extend(phase.times.clock_step_warning());
        let ended = run.result.ended.clone();
        let side = phase.side(run.result, &self.data, &self.buffers, run.socket);
        let local = Side {
            interface: meter.map(|meter| meter.finish(side.counts.bytes() > 0)),
            clock: clock_facts,
            program: Some(crate::PROGRAM.to_owned()),
            ..side
        };
        // The stock tool's classic tests do not print TCP_INFO.
        if let Some(dump) = run.tcp_info.filter(|_| !settings.test.is_classic()) {
            dump.print();
        }
        let outcome = Outcome {
            warnings: std::mem::take(&mut self.warnings),
            ..Outcome::for_flow(settings.plan(), started, local, None, ended)
        };
        Ok((outcome, phase.started()))
    }

    /// Returns the awaited answer on the data connection, if the test uses a network and an end can
    /// detect its absence.
    fn awaited_answer(
        &self,
        settings: &Settings,
        dest: &Address,
        control: Option<&ServerConnection>,
    ) -> Option<AwaitedAnswer> {
        let has_control = control.is_some();
        let host = settings.data.host.as_ref();
        let is_one_way = self.plan.transport.has_datagrams() && !self.plan.workload.receives();
        let can_detect = self.plan.transport.has_ip() && (has_control || !is_one_way);
        can_detect.then(|| AwaitedAnswer {
            host: host.unwrap_or(&settings.control.host).clone(),
            port: dest.port(),
            has_control,
            is_one_way,
            sources: control.and_then(|control| self.differing_sources(control)),
            option: match settings.unanswered_policy {
                UnansweredPolicy::Report => "test option -P",
                UnansweredPolicy::FailAfter(_) => "--data-port",
            },
        })
    }

    /// Returns the source addresses of datagrams and of the control connection, if they differ.
    fn differing_sources(&self, control: &ServerConnection) -> Option<[IpAddr; 2]> {
        if !self.plan.transport.has_datagrams() {
            return None;
        }
        let data = Address::local(&self.data.socket).ok()?;
        let control = control.connection.local_address()?;
        let differ = !data.is_wildcard() && !data.shares_host_with(&control);
        differ.then_some([data.ip()?, control.ip()?])
    }

    /// Returns the loop's duration; `None` if another limit ends it.
    fn loop_duration(&self, peer_has_time_limit: bool) -> Option<Duration> {
        let Limit::Time(length) = self.plan.limit else {
            return None;
        };
        let receives_a_stream =
            self.plan.workload == Workload::receive() && !self.plan.transport.has_datagrams();
        if receives_a_stream && peer_has_time_limit {
            // A sender with the same limit ends the stream a moment later, with all its data. A
            // later end is not awaited.
            return Some(length + STREAM_END_GRACE);
        }
        Some(length)
    }

    /// Whether silence ends the test: only if no deadline does.
    fn has_idle_timeout(&self) -> bool {
        !matches!(self.plan.limit, Limit::Time(_))
            && self.plan.local.socket.receive_timeout.is_none()
    }

    /// Runs the loop on the flow's only connection or datagram socket and finishes the flow. A
    /// plain service (`is_service`) gets no end mark.
    fn run_single_socket(
        &mut self,
        dest: &Address,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
        is_service: bool,
    ) -> Result<FlowRun, ClientError> {
        let plan = self.plan;
        let is_datagram = plan.transport.has_datagrams();
        let connects = plan.transport.has_connections() || plan.local.socket.connect_datagrams;
        if connects && let Some(result) = self.open(dest, &phase.stop, progress)? {
            phase.stop_clock();
            return Ok(self.finished_run(result));
        }
        let socket = self
            .data
            .socket
            .try_clone()
            .map_err(|error| ClientError::Data { call: "dup", error })?;
        let to = KernelAddress::try_from(dest).map_err(|error| connect_error(dest, error))?;
        let sockets = || {
            if connects {
                FlowSockets::Connected(socket.as_fd())
            } else {
                FlowSockets::Addressed(socket.as_fd(), to.clone())
            }
        };
        let limit = match plan.limit {
            // The server's last send exceeds the limit and ends its stream.
            Limit::Bytes(_)
                if !is_datagram && !is_service && plan.workload == Workload::receive() =>
            {
                Limit::Unlimited
            }
            limit => limit,
        };
        let result = self.run_loop(limit, phase, progress, sockets());
        let mut run = self.finished_run(result);
        if connects && !is_datagram && run_checks::is_self_connected(&socket) {
            self.warnings.push(Warning::SelfConnection);
        }
        if is_datagram && plan.workload == Workload::request() {
            let counts = progress.counters.counts();
            let elapsed = phase.times.elapsed;
            let warning = run_checks::stalled_warning(&socket, plan, &run.result, elapsed, &counts);
            self.warnings.extend(warning);
        }

        if is_idle_timeout(&run.result) {
            // The end mark would not arrive either.
            return Ok(run);
        }
        if is_datagram && is_service {
            // A service expects no end mark.
        } else if is_datagram && plan.workload.sends() {
            let method = FinishMethod::EmptyDatagrams;
            let _ = phase.finish_despite_cancel(method, &sockets(), DRAIN_TIMEOUT);
        } else if !is_datagram && plan.workload.sends() {
            let method = FinishMethod::HalfClose;
            let finished = phase.finish_despite_cancel(method, &sockets(), DRAIN_TIMEOUT);
            let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
            if let Some(error) = finished.err().filter(is_reset).filter(|_| is_service) {
                // Without a control connection, no results report the received bytes, so a reset is
                // an error.
                run.result.ended = EndCause::PeerClosed;
                run.result.failure = error.raw_os_error().map(|errno| ("receive", errno));
            }
            // Retransmissions during the drain belong to the test.
            run.socket = self.current_facts();
            run.tcp_info = tcp_info::TcpInfoDump::read_if_requested(&self.data.socket);
        } else if !is_datagram && (run.result.ended == EndCause::Cancelled || is_service) {
            // The sender would continue until its own time limit, or forever without one.
            let _ = call::shutdown(socket.as_fd());
        } else if !is_datagram {
            let _ = phase.finish(FinishMethod::AwaitClose, &sockets(), DRAIN_TIMEOUT);
        }
        Ok(run)
    }

    fn run_loop<'p>(
        &mut self,
        limit: Limit,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
        sockets: impl Into<JobSockets<'p>>,
    ) -> LoopResult {
        let flow_loop = FlowLoop::for_flow(self.plan, &mut self.buffers);
        let result = phase.run(limit, flow_loop, sockets);
        progress.report_end(phase.started() + phase.times.elapsed);
        result
    }

    /// Opens the connection. Returns `Some` if the test ended before the connection was open.
    fn open(
        &mut self,
        dest: &Address,
        stop: &Stop,
        progress: Progress<'_>,
    ) -> Result<Option<LoopResult>, ClientError> {
        let opened = if self.plan.local.socket.fast_open && !self.sends_first() {
            connect_without_data(&self.data.socket, dest, stop)
        } else {
            connect(&self.data.socket, dest, stop)
        };
        match opened {
            Err(ConnectError::Failed(error)) => return Err(connect_error(dest, error)),
            Err(ConnectError::Stopped(ended)) => return Ok(Some(ended.into())),
            Ok(()) => {}
        }
        if self.plan.transport.has_connections() {
            progress.answer.record_answer();
        }
        match &self.nonce {
            Some(nonce) if ProofMethod::for_plan(self.plan) == Some(ProofMethod::InBand) => self
                .send_proof(nonce, stop)
                .map_err(|error| connect_error(dest, error.into())),
            _ => Ok(None),
        }
    }

    fn sends_first(&self) -> bool {
        self.plan.workload.body.first() == Some(&Operation::Send)
    }

    /// Returns the run after its clock has stopped. Reads the socket's facts before the socket
    /// closes.
    fn finished_run(&self, result: LoopResult) -> FlowRun {
        FlowRun {
            result,
            socket: self.current_facts(),
            tcp_info: tcp_info::TcpInfoDump::read_if_requested(&self.data.socket),
        }
    }

    fn current_facts(&self) -> SocketFacts {
        let socket = &self.data.socket;
        let mut facts = self.data.current_facts(socket);
        if self.plan.local.socket.fast_open && self.sends_first() {
            let info = sys::option::tcp_info(socket.as_fd()).ok();
            facts.data_in_syn = info.map(|info| info.is_syn_data_acknowledged);
        }
        facts
    }
}

/// Whether the loop ended because no data moved. The drain may take longer than this timeout and
/// does not count.
fn is_idle_timeout(result: &LoopResult) -> bool {
    result.ended == StopReason::IdleTimeout.into()
}

/// Returns the error of a failed run; `None` if the run ended normally.
fn run_error(result: &LoopResult, plan: &FlowPlan, dest: &Address) -> Option<ClientError> {
    let (call, errno) = result.failure?;
    let peer_closed = result.ended == EndCause::PeerClosed;
    // A peer with a count as its limit closes at that count, even if more data is on its way.
    if peer_closed && matches!(plan.limit, Limit::Bytes(_) | Limit::Transactions(_)) {
        return None;
    }
    let error = io::Error::from_raw_os_error(errno);
    Some(match call {
        "connect" => connect_error(dest, error),
        call => ClientError::Data { call, error },
    })
}

fn connect_error(dest: &Address, error: io::Error) -> ClientError {
    ClientError::DataConnect {
        address: dest.clone(),
        error,
    }
}

/// Pauses before the data. A cancel or a closed control connection ends the pause.
fn pause(length: Duration, control: Option<BorrowedFd<'_>>, cancel: &Stop) {
    if !length.is_zero() {
        let _registration = cancel.register_thread();
        let _ = call::wait_any_readable(control.as_slice(), length);
    }
}
