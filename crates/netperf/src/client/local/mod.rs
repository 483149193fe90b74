//! This end of the data connection.

mod associations;
mod connections;
mod doubts;
mod prepare;
mod proof;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};

use engine::{
    Buffers, ConnectError, DataSocket, Finish, Flow, GroupMember, InterfaceMeter, Loop,
    MeasuredPhase, Path, PhaseSettings, Ran, Reason, Stop, connect, connect_without_data,
};
use model::{
    End, Ended, FlowPlan, Limit, Operation, Outcome, Side, SocketFacts, Transport, Warning,
    Workload,
};
use server::Nonce;
use sys::Address;
use sys::call::{self, Peer};

use super::ClientError;
use super::answer::Missing;
use super::control::Established;
use super::interim::Progress;
use super::request::Own;
use crate::options::{Settings, Special, Test, Unanswered};
use crate::place::Place;
use crate::tcp_info;

pub(super) use proof::Way;

/// How long the peer may take to read what is on its way when the time is up.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

/// How much longer than its time a receiver waits for the end of the peer's stream: a sender on a busy
/// machine begins that much later, and all that it sent is to be counted.
const LAST_DATA: Duration = Duration::from_secs(2);

/// Socket and buffers, settled before the peer is asked.
pub(super) struct LocalEnd<'a> {
    plan: &'a FlowPlan,
    source: Address,
    /// Where a Unix domain socket has its name, as long as it has one.
    _place: Option<Place>,
    /// Only a sample for a connection test, whose sockets come and go, and where there are several.
    data: DataSocket,
    buffers: Buffers,
    /// The nonce of the server's response, if it has one.
    pub(super) nonce: Option<Nonce>,
    /// Doubts about the test so far.
    pub(super) doubts: Vec<Warning>,
}

/// What one run of the loop left.
struct Moved {
    ran: Ran,
    socket: SocketFacts,
    tcp_info: Option<tcp_info::Dump>,
}

/// Binds this thread to the CPU that was asked for; a doubt when that fails. The stock tool goes on
/// without a word.
fn bind_thread(plan: &FlowPlan) -> Option<Warning> {
    let cpu = plan.here.cpu?;
    let error = sys::cpu::bind_thread(cpu).err()?;
    Some(Warning::NotInForce {
        end: End::Here,
        setting: "CPU".to_owned(),
        asked: cpu.to_string(),
        in_force: None,
        why: Some(sys::describe(&error)),
    })
}

impl LocalEnd<'_> {
    /// What the request tells of this end.
    pub(super) fn own(&self) -> Own {
        Own {
            port: Address::of(&self.data.socket).map_or(0, |bound| bound.port()),
            buffers: self.buffers.used,
        }
    }

    /// Runs the test to its end; returns this end's part of the outcome, and when the measured phase began. An
    /// error is a test without a result. Without a control connection the other end goes by no time and awaits no
    /// end mark.
    pub(super) fn run(
        &mut self,
        settings: &Settings,
        dest: &Address,
        control: Option<&Established>,
        cancel: &Stop,
        progress: Progress<'_>,
        member: Option<GroupMember<'_>>,
    ) -> Result<(Outcome, Instant), ClientError> {
        let started = SystemTime::now();
        let missing = self.missing(settings, dest, control);
        let control = control.map(|control| control.connection.as_fd());
        wait(settings.wait, control, cancel);
        if let Some(nonce) = self.nonce
            && Way::of(self.plan) == Some(Way::Apart)
        {
            if let Some(missing) = missing.clone() {
                progress.answer.expect(missing, cancel);
            }
            self.prove_apart(&nonce, dest, settings.ports, cancel, progress)?;
        }
        // What the machine is asked for stands outside the measured phase.
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
        let patience = self.buffers.patience(settings.data_idle, &self.plan.here);
        let phase = PhaseSettings {
            counters: progress.counters,
            cancel,
            control,
            time: self.time(control.is_some()),
            idle: self.ends_of_silence().then_some(patience),
            group,
        };
        let phase = &mut MeasuredPhase::start(&self.plan.here, phase);
        progress.begun(phase.started());
        if let Some(missing) = missing.clone().filter(|missing| !missing.is_one_way) {
            progress.answer.expect(missing, cancel);
        }
        let moved = if settings.test == Test::TcpMss {
            self.open(dest, &phase.stop, progress)?;
            phase.stop_clock();
            self.moved(Ended::Count.into())
        } else if self.plan.workload.connects() {
            self.run_connections(dest, settings.ports, phase, progress)?
        } else if let Special::Sctp { associations } = settings.special
            && self.plan.transport == Transport::SctpMany
        {
            self.run_associations(associations, dest, phase, progress)?
        } else {
            self.run_on_one(dest, phase, progress, control.is_none())?
        };
        if fell_silent(&moved.ran) {
            return Err(ClientError::Silent(settings.data_idle));
        }
        if let Some(error) = failure(&moved.ran, self.plan, dest) {
            return Err(error);
        }
        let has_sent = progress.counters.counts().send_calls > 0;
        if let Some(missing) = missing.filter(|missing| missing.is_one_way && has_sent) {
            progress.answer.expect(missing, cancel);
        }
        self.doubts.extend(phase.passed.clock_stepped());
        let ended = moved.ran.ended.clone();
        let here = Side {
            interface: meter.map(InterfaceMeter::finish),
            clock: clock_facts,
            program: Some(crate::PROGRAM.to_owned()),
            ..phase.side(moved.ran, &self.data, &self.buffers, moved.socket)
        };
        // The stock tool's classic tests have no word of it.
        if let Some(dump) = moved.tcp_info.filter(|_| !settings.test.is_classic()) {
            dump.print();
        }
        let outcome = Outcome {
            warnings: std::mem::take(&mut self.doubts),
            ..Outcome::of_flow(settings.plan(), started, here, None, ended)
        };
        Ok((outcome, phase.started()))
    }

    /// The answer to await on the data connection, where a network may be in between and where either
    /// end can tell.
    fn missing(
        &self,
        settings: &Settings,
        dest: &Address,
        control: Option<&Established>,
    ) -> Option<Missing> {
        let has_control = control.is_some();
        let host = settings.data.host.as_ref();
        let is_one_way = self.plan.transport.has_datagrams() && !self.plan.workload.receives();
        let is_known = self.plan.transport.has_ip() && (has_control || !is_one_way);
        is_known.then(|| Missing {
            host: host.unwrap_or(&settings.control.host).clone(),
            port: dest.port(),
            has_control,
            is_one_way,
            sources: control.and_then(|control| self.sources(control)),
            option: match settings.unanswered {
                Unanswered::Report => "test option -P",
                Unanswered::GiveUp(_) => "--data-port",
            },
        })
    }

    /// The source addresses of datagrams and of the control connection, if they differ.
    fn sources(&self, control: &Established) -> Option<[IpAddr; 2]> {
        if !self.plan.transport.has_datagrams() {
            return None;
        }
        let data = Address::of(&self.data.socket).ok()?;
        let control = control.connection.here()?;
        let differ = !data.is_wildcard() && !data.shares_host_with(&control);
        differ.then_some([data.ip()?, control.ip()?])
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

    /// Where no deadline ends the test, data that stops must.
    fn ends_of_silence(&self) -> bool {
        !matches!(self.plan.limit, Limit::Time(_))
            && self.plan.here.socket.receive_timeout.is_none()
    }

    /// Runs on the one connection, or datagram socket, of a flow, and finishes it: in the way that a
    /// netserver knows, or a plain service.
    fn run_on_one(
        &mut self,
        dest: &Address,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
        is_service: bool,
    ) -> Result<Moved, ClientError> {
        let plan = self.plan;
        let datagrams = plan.transport.has_datagrams();
        let connects = plan.transport.has_connections() || plan.here.socket.connect_datagrams;
        if connects && let Some(ran) = self.open(dest, &phase.stop, progress)? {
            phase.stop_clock();
            return Ok(self.moved(ran));
        }
        let socket = self
            .data
            .socket
            .try_clone()
            .map_err(|error| ClientError::Data { call: "dup", error })?;
        let to = Peer::try_from(dest).map_err(|error| unreachable(dest, error))?;
        let path = || {
            if connects {
                Flow::Connected(socket.as_fd())
            } else {
                Flow::Addressed(socket.as_fd(), to.clone())
            }
        };
        let limit = match plan.limit {
            // The server's last send goes beyond the limit, and ends its stream.
            Limit::Bytes(_)
                if !datagrams && !is_service && plan.workload == Workload::receive() =>
            {
                Limit::Unlimited
            }
            limit => limit,
        };
        let ran = self.run_loop(limit, phase, progress, path());
        let mut moved = self.moved(ran);
        if connects && !datagrams && doubts::is_its_own_peer(&socket) {
            self.doubts.push(Warning::SelfConnection);
        }
        if datagrams && plan.workload == Workload::ask() {
            let counts = progress.counters.counts();
            let elapsed = phase.passed.elapsed;
            let stalled = doubts::stalled(&socket, plan, &moved.ran, elapsed, &counts);
            self.doubts.extend(stalled);
        }

        if fell_silent(&moved.ran) {
            // Nor would it hear of an end.
            return Ok(moved);
        }
        if datagrams && is_service {
            // It waits for nothing.
        } else if datagrams && plan.workload.sends() {
            let _ = phase.finish(Finish::EmptyDatagrams, &path(), DRAIN_PATIENCE);
        } else if !datagrams && plan.workload.sends() {
            let finished = phase.finish(Finish::HalfClose, &path(), DRAIN_PATIENCE);
            let reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
            if let Some(error) = finished.err().filter(reset).filter(|_| is_service) {
                // No results say how much has arrived.
                moved.ran.ended = Ended::PeerClosed;
                moved.ran.failure = error.raw_os_error().map(|errno| ("receive", errno));
            }
            // What the drain has sent again belongs to the test.
            moved.socket = self.facts_at_end();
            moved.tcp_info = tcp_info::Dump::of(&self.data.socket);
        } else if !datagrams && (moved.ran.ended == Ended::Cancelled || is_service) {
            // The sender has its own clock and would go on to its end, or has none and no end.
            let _ = call::shutdown(socket.as_fd());
        } else if !datagrams {
            let _ = phase.finish(Finish::AwaitClose, &path(), DRAIN_PATIENCE);
        }
        Ok(moved)
    }

    fn run_loop<'p>(
        &mut self,
        limit: Limit,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
        path: impl Into<Path<'p>>,
    ) -> Ran {
        let body = Loop::of(self.plan, &mut self.buffers);
        let ran = phase.run(limit, body, path);
        progress.ended(phase.started() + phase.passed.elapsed);
        ran
    }

    /// Opens the connection; `Some` when its time was up before it stood.
    fn open(
        &mut self,
        dest: &Address,
        stop: &Stop,
        progress: Progress<'_>,
    ) -> Result<Option<Ran>, ClientError> {
        let opened = if self.plan.here.socket.fast_open && !self.sends_first() {
            connect_without_data(&self.data.socket, dest, stop)
        } else {
            connect(&self.data.socket, dest, stop)
        };
        match opened {
            Err(ConnectError::Failed(error)) => return Err(unreachable(dest, error)),
            Err(ConnectError::Stopped(ended)) => return Ok(Some(ended.into())),
            Ok(()) => {}
        }
        if self.plan.transport.has_connections() {
            progress.answer.came();
        }
        match &self.nonce {
            Some(nonce) if Way::of(self.plan) == Some(Way::AtTheBeginning) => self
                .prove(nonce, stop)
                .map_err(|error| unreachable(dest, error.into())),
            _ => Ok(None),
        }
    }

    fn sends_first(&self) -> bool {
        self.plan.workload.body.first() == Some(&Operation::Send)
    }

    /// The clock has stopped: the socket is asked before it closes.
    fn moved(&self, ran: Ran) -> Moved {
        Moved {
            ran,
            socket: self.facts_at_end(),
            tcp_info: tcp_info::Dump::of(&self.data.socket),
        }
    }

    fn facts_at_end(&self) -> SocketFacts {
        let socket = &self.data.socket;
        let mut facts = self.data.facts_at_end(socket);
        if self.plan.here.socket.fast_open && self.sends_first() {
            let info = sys::option::tcp_info(socket.as_fd()).ok();
            facts.data_in_syn = info.map(|info| info.data_in_syn);
        }
        facts
    }
}

/// Whether nothing moved any more before the count was reached. The drain may last longer than that, and is
/// no silence.
fn fell_silent(ran: &Ran) -> bool {
    ran.ended == Reason::Silence.into()
}

/// What of a run's end is no end of a test, but a failure of it.
fn failure(ran: &Ran, plan: &FlowPlan, dest: &Address) -> Option<ClientError> {
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

fn unreachable(dest: &Address, error: io::Error) -> ClientError {
    ClientError::DataConnect {
        address: dest.clone(),
        error,
    }
}

/// The pause before the data, ended early by a cancel or a server that gives up.
fn wait(pause: Duration, control: Option<BorrowedFd<'_>>, cancel: &Stop) {
    if !pause.is_zero() {
        let _attending = cancel.attend();
        let _ = call::wait_any_readable(control.as_slice(), pause);
    }
}
