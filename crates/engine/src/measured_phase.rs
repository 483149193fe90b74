//! The measured phase of one flow: its clock, its stop conditions and its results.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{EndpointPlan, Limit, Side, SocketFacts, Workload};
use sys::Socket;

use crate::buffers::Buffers;
use crate::clock::{PhaseClock, PhaseTimes};
use crate::counters::Counters;
use crate::deadline_thread::{ConnectionWatch, DeadlineGuard, IdleWatch, deadline_thread};
use crate::end::LoopResult;
use crate::finish::FinishMethod;
use crate::flow_group::FlowGroup;
use crate::io::FlowSockets;
use crate::job::{FlowLoop, Job, JobBody, JobSockets};
use crate::numbers::FirstDatagram;
use crate::run::run;
use crate::socket::DataSocket;
use crate::stop::{Stop, StopReason};

/// Counters and stop conditions of a measured phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSettings<'a> {
    /// The flow's counters.
    pub counters: &'a Arc<Counters>,
    /// Ends the phase early.
    pub cancel: &'a Stop,
    /// Control connection, whose end also ends the phase; `None` if there is none or if the caller
    /// watches it.
    pub control: Option<BorrowedFd<'a>>,
    /// Time from the start to the deadline; `None` if a count or the peer ends the phase.
    pub duration: Option<Duration>,
    /// Longest time without progress of the counters; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// Group of flows that start together, including this one.
    pub group: Option<&'a FlowGroup>,
}

/// The measured phase of one flow, from its start. The thread that starts it also runs the flow.
#[derive(Debug)]
pub struct MeasuredPhase<'a> {
    /// Ends the loop. Set at the deadline, or with `abort`.
    pub stop: Stop,
    /// Ends everything that may continue after the deadline. Set if the phase is cancelled, if the
    /// peer hangs up, or if no data moves.
    pub abort_stop: Stop,
    /// Times from the start to the last stop of the clock.
    pub times: PhaseTimes,
    settings: PhaseSettings<'a>,
    clock: PhaseClock,
    is_running: bool,
    /// Whether this end only sends data.
    only_sends: bool,
    _deadline: Option<DeadlineGuard<'a>>,
    _idle_watch: Option<IdleWatch<'a>>,
    hang_up_watch: Option<ConnectionWatch<'a>>,
}

impl<'a> MeasuredPhase<'a> {
    /// Starts the clock, and the CPU measurement that `endpoint` requests.
    pub fn start(endpoint: &EndpointPlan, settings: PhaseSettings<'a>) -> Self {
        let abort = settings.cancel.child();
        let stop = abort.child();
        let watch = |control| deadline_thread().set_on_hang_up(control, &abort);
        let watch = settings.control.map(watch);
        let watch_idle = |idle| deadline_thread().set_on_idle(settings.counters, idle, &abort);
        let clock = PhaseClock::start(endpoint);
        let deadline = |duration| deadline_thread().set_at(clock.started + duration, &stop);
        Self {
            _deadline: settings.duration.map(deadline),
            _idle_watch: settings.idle_timeout.map(watch_idle),
            hang_up_watch: watch,
            stop,
            abort_stop: abort,
            times: PhaseTimes::default(),
            settings,
            clock,
            is_running: true,
            only_sends: false,
        }
    }

    /// Moves the start back to the arrival of the flow's first datagram. The CPU times still begin at
    /// [`Self::start`].
    pub fn include_first(&mut self, first: Option<&FirstDatagram>) {
        let started = first.and_then(|first| Instant::now().checked_sub(first.age()));
        self.clock.started = started.map_or(self.clock.started, |at| at.min(self.clock.started));
    }

    /// Runs the flow's loop to its end and stops the clock.
    pub fn run<'p>(
        &mut self,
        limit: Limit,
        body: FlowLoop<'_>,
        sockets: impl Into<JobSockets<'p>>,
    ) -> LoopResult {
        let result = self.run_part(limit, body, sockets);
        self.stop_clock();
        result
    }

    /// Runs one of several loops of the flow to its end. The clock continues.
    pub fn run_part<'p>(
        &mut self,
        limit: Limit,
        body: FlowLoop<'_>,
        sockets: impl Into<JobSockets<'p>>,
    ) -> LoopResult {
        self.only_sends = *body.workload == Workload::send();
        let mut job = Job {
            body: JobBody::Loop(body),
            limit,
            stop: &self.stop,
            counters: self.settings.counters,
        };
        match sockets.into() {
            JobSockets::Flow(FlowSockets::Connected(socket)) if self.only_sends => {
                let sockets = FlowSockets::Connected(socket);
                let counters = self.settings.counters;
                counters.observe_while(socket, || run(&mut job, sockets))
            }
            sockets => run(&mut job, sockets),
        }
    }

    /// Does the same as [`Self::run`] with a loop of the dialect. The loop runs on the calling
    /// thread, which the stop can wake.
    pub fn run_dialect_loop(
        &mut self,
        only_sends: bool,
        dialect_loop: impl FnOnce(&Stop) -> LoopResult,
    ) -> LoopResult {
        self.only_sends = only_sends;
        let result = {
            let _registration = self.stop.register_thread();
            dialect_loop(&self.stop)
        };
        self.stop_clock();
        result
    }

    /// Ends the flow and waits at most `timeout` for the peer's end, as [`FinishMethod::run`] does.
    /// The time of a flow that only sends includes its drain, so [`FinishMethod::HalfClose`]
    /// stops the clock again.
    pub fn finish(
        &mut self,
        method: FinishMethod,
        flow: &FlowSockets<'_>,
        timeout: Duration,
    ) -> io::Result<()> {
        let (stop, _deadline) = self.abort_stop.child_until(Instant::now() + timeout);
        let finished = method.run(flow, &stop);
        if method == FinishMethod::HalfClose && self.only_sends {
            self.stop_clock();
        }
        match stop.reason() {
            Some(StopReason::Deadline | StopReason::IdleTimeout) => {
                finished.map_err(|_| io::ErrorKind::TimedOut.into())
            }
            _ => finished,
        }
    }

    /// Does the same as [`Self::finish`], also after the user's cancel: the peer counts the data that
    /// is on its way, so the time of the data must include its arrival.
    pub fn finish_despite_cancel(
        &mut self,
        method: FinishMethod,
        flow: &FlowSockets<'_>,
        timeout: Duration,
    ) -> io::Result<()> {
        let finished = self.finish(method, flow, timeout);
        if self.settings.cancel.reason() != Some(StopReason::Cancelled) {
            return finished;
        }
        self.abort_stop = Stop::new();
        self.hang_up_watch = None;
        let watch = |control| deadline_thread().set_on_hang_up(control, &self.abort_stop);
        self.hang_up_watch = self.settings.control.map(watch);
        self.finish(method, flow, timeout)
    }

    /// Does the same as [`Self::finish`] with [`FinishMethod::HalfClose`]. It continues as long as
    /// the peer acknowledges data within each `timeout`.
    pub fn drain(&mut self, connection: &Socket, timeout: Duration) -> io::Result<()> {
        let mut unacknowledged_before = u32::MAX;
        loop {
            let flow = FlowSockets::Connected(connection.as_fd());
            let finished = self.finish(FinishMethod::HalfClose, &flow, timeout);
            let has_timed_out =
                matches!(&finished, Err(error) if error.kind() == io::ErrorKind::TimedOut);
            let unacknowledged = sys::option::unacknowledged_bytes(connection.as_fd()).unwrap_or(0);
            if !has_timed_out || unacknowledged >= unacknowledged_before {
                return finished;
            }
            unacknowledged_before = unacknowledged;
        }
    }

    /// Stops the clock. It may be called again, if the following time turns out to belong to the
    /// measurement.
    pub fn stop_clock(&mut self) {
        self.times = self.clock.stop();
        let is_first_stop = std::mem::take(&mut self.is_running);
        if let Some(group) = self.settings.group {
            group.record_stop(is_first_stop);
        }
    }

    /// Returns the start time.
    pub fn started(&self) -> Instant {
        self.clock.started
    }

    /// Returns this end's results. `socket` contains the facts of its socket at the end.
    pub fn side(
        &self,
        result: LoopResult,
        data: &DataSocket,
        buffers: &Buffers,
        socket: SocketFacts,
    ) -> Side {
        Side {
            counts: self.settings.counters.counts(),
            elapsed: Some(self.times.elapsed),
            thread_cpu: Some(self.times.thread_cpu),
            cpu: self.times.cpu.clone(),
            socket,
            refused: data.refused.clone(),
            buffers: buffers.sizes,
            latency: result.latency,
            send_times: result.send_times,
            receive_times: result.receive_times,
            pacing_result: result.pacing_result,
            send_gaps: result.send_gaps,
            ..Side::default()
        }
    }
}
