//! A worker's job, and the sockets that it uses.

use std::time::Duration;

use model::{DatagramFormat, FlowPlan, Half, Limit, Operation, Pacing, Timing, Workload};

use crate::buffers::Buffers;
use crate::connector::Connector;
use crate::counters::Counters;
use crate::end::Budget;
use crate::io::Flow;
use crate::loops::connection_test::Accepting;
use crate::numbers::{DatagramWatch, FirstDatagram};
use crate::script::{ConnectionManager, Script, StepTimes};
use crate::stop::Stop;

/// One worker's part of a plan, with all settings resolved. It can be run again. A job with other sizes needs counters
/// of its own, because counters assume one size per pass.
#[derive(Debug)]
pub struct Job<'a> {
    /// The repeated operations or steps.
    pub body: JobBody<'a>,
    /// Bytes, transactions or rounds after which the job ends; [`Stop`] enforces time limits.
    pub limit: Limit,
    /// Stops the job.
    pub stop: &'a Stop,
    /// The job's counters.
    pub counters: &'a Counters,
}

/// The repeated part of a job.
#[derive(Debug)]
pub enum JobBody<'a> {
    /// The operations of one flow, run by a specialized loop.
    Loop(Loop<'a>),
    /// A list of steps over several connections.
    Steps(Steps<'a>),
}

/// The operations of one flow.
#[derive(Debug)]
pub struct Loop<'a> {
    /// The repeated operations.
    pub workload: &'a Workload,
    /// Requests in flight beyond the first.
    pub burst: u32,
    /// Which times are recorded.
    pub timing: Timing,
    /// Numbers and stamps of one-way datagrams; `None` without them.
    pub datagrams: Option<DatagramFormat>,
    /// Datagrams that arrived before the loop; it counts them first.
    pub first: &'a [FirstDatagram],
    /// Receives each numbered datagram.
    pub watch: Option<&'a dyn DatagramWatch>,
    /// Statistics of the schedule start after this time.
    pub warm_up: Duration,
    /// Settings of this end: its socket, buffers and calls.
    pub half: &'a Half,
    /// Buffers to send from and receive into.
    pub buffers: &'a mut Buffers,
    /// Deadline for a connection that is still open at the stop; until then it is served to its end.
    pub drain: Option<&'a Stop>,
}

/// A list of steps.
#[derive(Debug)]
pub struct Steps<'a> {
    /// The steps, with their connections.
    pub script: &'a mut Script,
    /// The schedule of the rounds; `None` runs them without pauses.
    pub pacing: Option<Pacing>,
    /// Buffer to send from and receive into.
    pub buffer: &'a mut [u8],
    /// Recorded times.
    pub times: Option<&'a mut StepTimes>,
}

/// The sockets that a job uses.
pub enum Path<'a> {
    /// Open sockets.
    Flow(Flow<'a>),
    /// Opens a new connection per pass.
    Connector(&'a mut Connector),
    /// Accepts a new connection per pass.
    Listener(&'a mut Accepting),
    /// Manages the connections of a list of steps.
    Manager(&'a mut dyn ConnectionManager),
}

impl<'a> From<Flow<'a>> for Path<'a> {
    fn from(flow: Flow<'a>) -> Self {
        Self::Flow(flow)
    }
}

impl<'a> Loop<'a> {
    /// Returns the loop of this end of a flow.
    pub fn of(flow: &'a FlowPlan, buffers: &'a mut Buffers) -> Self {
        Self {
            workload: &flow.workload,
            burst: flow.burst,
            timing: flow.timing,
            datagrams: flow.datagrams,
            first: &[],
            watch: None,
            warm_up: Duration::ZERO,
            half: &flow.here,
            buffers,
            drain: None,
        }
    }

    /// Returns the data budget: unlimited, unless the limit is a count.
    pub(crate) fn budget(&self, limit: Limit) -> Budget {
        Budget(match limit {
            Limit::Bytes(count) | Limit::Transactions(count) => count,
            Limit::Messages(count) => {
                let size = self.buffers.used.send_bytes.unwrap_or(1);
                count.saturating_mul(size.into())
            }
            Limit::Time(_) | Limit::Unlimited => u64::MAX,
        })
    }

    /// Returns the time after which this end stops by itself; a receiver continues to the end of the data.
    pub(crate) fn length(&self, limit: Limit) -> Option<Duration> {
        let begins = matches!(
            self.workload.body.first(),
            Some(Operation::Send | Operation::Connect)
        );
        match limit {
            Limit::Time(length) if begins => Some(self.warm_up + length),
            _ => None,
        }
    }
}
