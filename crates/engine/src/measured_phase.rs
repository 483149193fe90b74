//! The measured phase of one flow: what starts with it, what ends it, and the figures that it leaves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Ended, FlowPlan, Half, Limit, Side, SocketFacts, Workload};
use sys::{Address, Socket};

use crate::buffers::Buffers;
use crate::clock::{Clock, Passed};
use crate::counters::Counters;
use crate::deadline_thread::{Promise, Watch, deadline_thread};
use crate::end::Ran;
use crate::finish::Finish;
use crate::flow_group::FlowGroup;
use crate::io::Flow;
use crate::memory::Memory;
use crate::run::{Job, JobBody, Loop, Path, run};
use crate::socket::{DataSocket, Role};
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

/// Opens one end of a stream at `bind`: its socket, which listens for one connection if that is its role, and its
/// buffers, of which those to send are filled with `pattern`.
pub fn open_stream(
    flow: &FlowPlan,
    role: Role,
    bind: &Address,
    pattern: &[u8],
    memory: &Memory,
) -> io::Result<(DataSocket, Buffers)> {
    let (half, workload, transport) = (&flow.here, &flow.workload, flow.transport);
    let data = DataSocket::open(transport, bind, &half.socket, role);
    let data = data.map_err(io::Error::other)?;
    if role == Role::Listener {
        data.socket.listen(1)?;
    }
    let facts = &data.facts;
    let buffers = Buffers::new(half, workload, transport, facts, None, pattern, memory);
    Ok((data, buffers.map_err(io::Error::other)?))
}

/// Runs one end of a stream on its connection, from its start to its finish, and returns its figures with its end.
///
/// A sender keeps the flow's time, and waits until the peer has read all: its end is its limit. A receiver reads until
/// the peer's end of stream, [`Ended::PeerClosed`], and then closes the connection, which is what the sender waits for,
/// before it reports its figures. `cancel` ends both early, as [`Ended::Cancelled`]. All else is an error: a reset, the
/// end of the control connection, `patience` without progress (more where one call sends much), and a sender that goes
/// on for longer than that beyond the flow's time.
pub fn run_stream(
    flow: &FlowPlan,
    (data, connection): (&DataSocket, &Socket),
    buffers: &mut Buffers,
    control: Option<BorrowedFd<'_>>,
    patience: Duration,
    cancel: &Stop,
) -> io::Result<(Side, Ended)> {
    let patience = buffers.patience(patience, &flow.here);
    let sends = flow.workload.sends();
    let time = match flow.limit {
        Limit::Time(time) if sends => Some(time),
        Limit::Time(time) => Some(time + patience),
        _ => None,
    };
    let settings = PhaseSettings {
        counters: &Arc::default(),
        cancel,
        control,
        time,
        idle: None,
        group: None,
    };
    let mut phase = MeasuredPhase::start(&flow.here, settings);
    // Not the drain, in which nothing is counted.
    deadline_thread().on_silence(settings.counters, patience, &phase.stop);
    let path = || Flow::Connected(connection.as_fd());
    let ran = phase.run(flow.limit, Loop::of(flow, buffers), path());
    let drains = sends && !matches!(ran.ended, Ended::Failed(_));
    let finished = drains.then(|| phase.drain(connection, patience));
    let ended = match (&ran.ended, phase.cut.reason()) {
        (Ended::Failed(why), _) => Err(why.clone()),
        (_, Some(Reason::Cancelled)) => Ok(Ended::Cancelled),
        (_, Some(Reason::PeerClosed)) => Err("the control connection was closed".to_owned()),
        (Ended::PeerClosed, _) if ran.failure.is_some() => {
            Err("the peer reset the stream".to_owned())
        }
        (Ended::Deadline, _) if !sends => Err("the stream did not end in time".to_owned()),
        (ended, _) => match finished {
            Some(Err(error)) => {
                let why = sys::describe(&error);
                Err(format!("the peer did not read all of the stream: {why}"))
            }
            _ => Ok(ended.clone()),
        },
    };
    let facts = data.facts_at_end(connection);
    let ended = ended.map_err(io::Error::other)?;
    Ok((phase.side(ran, data, buffers, facts), ended))
}
