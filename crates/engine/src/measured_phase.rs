//! The measured phase of one flow: what starts with it, what ends it, and the figures that it leaves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Half, Limit, Side, SocketFacts, Workload};
use sys::Socket;

use crate::buffers::Buffers;
use crate::clock::{Clock, Passed};
use crate::counters::Counters;
use crate::deadline_thread::{Promise, Watch, deadline_thread};
use crate::end::Ran;
use crate::finish::Finish;
use crate::flow_group::FlowGroup;
use crate::io::Flow;
use crate::job::{Job, JobBody, Loop, Path};
use crate::run::run;
use crate::socket::DataSocket;
use crate::stop::{Reason, Stop};

/// What a measured phase counts in, and what ends it.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSettings<'a> {
    /// Where the flow counts.
    pub counters: &'a Arc<Counters>,
    /// Ends it early.
    pub cancel: &'a Stop,
    /// The control connection, whose end also ends the phase; `None` if there is none, or if the caller watches it.
    pub control: Option<BorrowedFd<'a>>,
    /// Its deadline, from its start; `None` if a count or the peer ends it.
    pub time: Option<Duration>,
    /// How long nothing may be counted; `None` if that does not end it.
    pub idle: Option<Duration>,
    /// The flows that start together with this one.
    pub group: Option<&'a FlowGroup>,
}

/// The measured phase of one flow, from its start. The thread that starts it also runs the flow.
#[derive(Debug)]
pub struct MeasuredPhase<'a> {
    /// Ends the loop: at the deadline, or with `cut`.
    pub stop: Stop,
    /// Ends all that may go on after the deadline: pulled if the phase is cancelled, if the peer hangs up, or if nothing
    /// moves.
    pub cut: Stop,
    /// Until the clock's last stop.
    pub passed: Passed,
    settings: PhaseSettings<'a>,
    clock: Clock,
    is_running: bool,
    /// Whether data goes only from here to the peer.
    only_sends: bool,
    _deadline: Option<Promise<'a>>,
    _watch: Option<Watch<'a>>,
}

impl<'a> MeasuredPhase<'a> {
    /// Starts the clock, and measures the CPU time that `half` requests.
    pub fn start(half: &Half, settings: PhaseSettings<'a>) -> Self {
        let cut = settings.cancel.follower();
        let stop = cut.follower();
        let watch = |control| deadline_thread().on_hang_up(control, &cut);
        let watch = settings.control.map(watch);
        if let Some(idle) = settings.idle {
            deadline_thread().on_silence(settings.counters, idle, &cut);
        }
        let clock = Clock::start(half);
        let deadline = |time| deadline_thread().at(clock.started + time, &stop);
        Self {
            _deadline: settings.time.map(deadline),
            _watch: watch,
            stop,
            cut,
            passed: Passed::default(),
            settings,
            clock,
            is_running: true,
            only_sends: false,
        }
    }

    /// Runs the flow's loop to its end, and stops the clock.
    pub fn run<'p>(&mut self, limit: Limit, body: Loop<'_>, path: impl Into<Path<'p>>) -> Ran {
        let ran = self.run_part(limit, body, path);
        self.stop_clock();
        ran
    }

    /// Runs one of several loops of the flow to its end. The clock goes on.
    pub fn run_part<'p>(&mut self, limit: Limit, body: Loop<'_>, path: impl Into<Path<'p>>) -> Ran {
        self.only_sends = *body.workload == Workload::send();
        let mut job = Job {
            body: JobBody::Loop(body),
            limit,
            stop: &self.stop,
            counters: self.settings.counters,
        };
        run(&mut job, path)
    }

    /// As [`Self::run`], with a loop that the engine does not have, on the calling thread, which the stop wakes.
    pub fn run_own(&mut self, only_sends: bool, own: impl FnOnce(&Stop) -> Ran) -> Ran {
        self.only_sends = only_sends;
        let ran = {
            let _attending = self.stop.attend();
            own(&self.stop)
        };
        self.stop_clock();
        ran
    }

    /// Ends the flow for the peer, and waits at most `patience` for the peer's end, as [`Finish::say`] does. A stream
    /// that only sends ends with its drain, so [`Finish::HalfClose`] stops its clock again.
    pub fn finish(&mut self, how: Finish, flow: &Flow<'_>, patience: Duration) -> io::Result<()> {
        let (stop, _deadline) = self.cut.follower_until(Instant::now() + patience);
        let said = how.say(flow, &stop);
        if how == Finish::HalfClose && self.only_sends {
            self.stop_clock();
        }
        match stop.reason() {
            Some(Reason::Deadline | Reason::Silence) => {
                said.map_err(|_| io::ErrorKind::TimedOut.into())
            }
            _ => said,
        }
    }

    /// As [`Self::finish`] with [`Finish::HalfClose`], as long as some of the stream is taken within each `patience`.
    pub fn drain(&mut self, connection: &Socket, patience: Duration) -> io::Result<()> {
        let mut left = u32::MAX;
        loop {
            let flow = Flow::Connected(connection.as_fd());
            let finished = self.finish(Finish::HalfClose, &flow, patience);
            let is_late =
                matches!(&finished, Err(error) if error.kind() == io::ErrorKind::TimedOut);
            let now = sys::option::unacknowledged(connection.as_fd()).unwrap_or(0);
            if !is_late || now >= left {
                return finished;
            }
            left = now;
        }
    }

    /// Stops the clock. It may stop again later, if what follows turns out to belong to the measured time.
    pub fn stop_clock(&mut self) {
        self.passed = self.clock.stop();
        let is_first = std::mem::take(&mut self.is_running);
        if let Some(group) = self.settings.group {
            group.stopped(is_first);
        }
    }

    /// Returns when it started.
    pub fn started(&self) -> Instant {
        self.clock.started
    }

    /// Returns this end's figures, with what is known of its socket at the end.
    pub fn side(
        &self,
        ran: Ran,
        data: &DataSocket,
        buffers: &Buffers,
        socket: SocketFacts,
    ) -> Side {
        Side {
            counts: self.settings.counters.counts(),
            elapsed: Some(self.passed.elapsed),
            thread_cpu: Some(self.passed.thread_cpu),
            cpu: self.passed.cpu.clone(),
            socket,
            refused: data.refused.clone(),
            buffers: buffers.used,
            latency: ran.latency,
            send_times: ran.send_times,
            receive_times: ran.receive_times,
            paced: ran.paced,
            send_gaps: ran.send_gaps,
            ..Side::default()
        }
    }
}
