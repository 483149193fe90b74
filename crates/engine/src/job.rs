//! What a worker runs, and where its data moves.

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

/// One worker's part of a plan, everything settled. It can be run again; a job of other sizes needs counters of its
/// own, which have one size per pass.
#[derive(Debug)]
pub struct Job<'a> {
    /// What is repeated.
    pub body: JobBody<'a>,
    /// Bytes, transactions or rounds after which it ends; time is the [`Stop`]'s business.
    pub limit: Limit,
    /// What ends it.
    pub stop: &'a Stop,
    /// Where it counts.
    pub counters: &'a Counters,
}

/// What a job repeats.
#[derive(Debug)]
pub enum JobBody<'a> {
    /// The operations of one flow, by a loop of their own.
    Loop(Loop<'a>),
    /// A list of steps over several connections.
    Steps(Steps<'a>),
}

/// The operations of one flow.
#[derive(Debug)]
pub struct Loop<'a> {
    /// What is repeated.
    pub workload: &'a Workload,
    /// Requests in flight beyond one.
    pub burst: u32,
    /// Which times are kept.
    pub timing: Timing,
    /// How one-way datagrams are numbered and stamped; `None` if they are not.
    pub datagrams: Option<DatagramFormat>,
    /// Those that came before, which the loop counts first.
    pub first: &'a [FirstDatagram],
    /// Sees each numbered datagram that is received.
    pub watch: Option<&'a dyn DatagramWatch>,
    /// Figures of the schedule begin after this time.
    pub warm_up: Duration,
    /// How this end moves its data.
    pub half: &'a Half,
    /// What it sends from and receives into.
    pub buffers: &'a mut Buffers,
    /// A connection that is open at the stop is served to its end, or until this.
    pub drain: Option<&'a Stop>,
}

/// A list of steps.
#[derive(Debug)]
pub struct Steps<'a> {
    /// The list, with the connections of its steps.
    pub script: &'a mut Script,
    /// When each round begins; `None` is as fast as it goes.
    pub pacing: Option<Pacing>,
    /// What it sends from and receives into.
    pub buffer: &'a mut [u8],
    /// The times that are kept.
    pub times: Option<&'a mut StepTimes>,
}

/// Where the data moves.
pub enum Path<'a> {
    /// Open sockets.
    Flow(Flow<'a>),
    /// A new connection a pass, opened.
    Connector(&'a mut Connector),
    /// A new connection a pass, accepted.
    Listener(&'a mut Accepting),
    /// The connections that the steps of a list ask for.
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

    /// What may be moved: without end, unless the limit is a count.
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

    /// How long this end goes on of its own accord; a receiver goes on to the end of the data.
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
