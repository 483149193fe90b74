//! A worker's job, and the sockets that it uses.

use std::time::Duration;

use model::{DatagramFormat, EndpointPlan, FlowPlan, Limit, Operation, Pacing, Timing, Workload};

use crate::buffers::Buffers;
use crate::connector::Connector;
use crate::counters::Counters;
use crate::end::Budget;
use crate::io::FlowSockets;
use crate::loops::connections::Acceptor;
use crate::numbers::{DatagramObserver, FirstDatagram};
use crate::script::{ConnectionManager, Script, StepTimes};
use crate::shared_limit::SharedLimit;
use crate::stop::Stop;

/// One worker's part of a plan, with all settings resolved. It can be run again. A job with other
/// sizes needs separate counters, because counters assume one size per pass.
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
    Loop(FlowLoop<'a>),
    /// A list of steps over several connections.
    Steps(ScriptLoop<'a>),
}

/// The operations of one flow.
#[derive(Debug)]
pub struct FlowLoop<'a> {
    /// The repeated operations.
    pub workload: &'a Workload,
    /// Requests in flight beyond the first.
    pub burst: u32,
    /// Which times are recorded.
    pub timing: Timing,
    /// Numbers and stamps of one-way datagrams; `None` without them.
    pub datagrams: Option<DatagramFormat>,
    /// Datagrams that arrived before the loop. The loop counts them first.
    pub first_datagrams: &'a [FirstDatagram],
    /// Receives each numbered datagram.
    pub observer: Option<&'a dyn DatagramObserver>,
    /// Limit of bytes that a one-way sender shares with others, in addition to its own limit.
    pub shared_limit: Option<&'a SharedLimit>,
    /// Statistics of the schedule start after this time.
    pub warm_up: Duration,
    /// Settings of this end: its socket, buffers and calls.
    pub endpoint: &'a EndpointPlan,
    /// Buffers to send from and receive into.
    pub buffers: &'a mut Buffers,
    /// Deadline for a connection that is open when the job stops. Until then, the connection is
    /// served to its end.
    pub drain_stop: Option<&'a Stop>,
}

/// A list of steps.
#[derive(Debug)]
pub struct ScriptLoop<'a> {
    /// The steps, with their connections.
    pub script: &'a mut Script,
    /// The schedule of the rounds; `None` runs them without pauses.
    pub pacing: Option<Pacing>,
    /// Buffer to send from and receive into.
    pub buffer: &'a mut [u8],
    /// Records the times of steps and rounds; `None` measures no times.
    pub times: Option<&'a mut StepTimes>,
}

/// The sockets that a job uses.
pub enum JobSockets<'a> {
    /// Open sockets.
    Flow(FlowSockets<'a>),
    /// Opens a new connection per pass.
    Connector(&'a mut Connector),
    /// Accepts a new connection per pass.
    Listener(&'a mut Acceptor),
    /// Manages the connections of a list of steps.
    Manager(&'a mut dyn ConnectionManager),
}

impl<'a> From<FlowSockets<'a>> for JobSockets<'a> {
    fn from(flow: FlowSockets<'a>) -> Self {
        Self::Flow(flow)
    }
}

impl<'a> FlowLoop<'a> {
    /// Returns the loop of this end of a flow.
    pub fn for_flow(flow: &'a FlowPlan, buffers: &'a mut Buffers) -> Self {
        Self {
            workload: &flow.workload,
            burst: flow.burst,
            timing: flow.timing,
            datagrams: flow.datagrams,
            first_datagrams: &[],
            observer: None,
            shared_limit: None,
            warm_up: Duration::ZERO,
            endpoint: &flow.local,
            buffers,
            drain_stop: None,
        }
    }

    /// Returns the data budget: unlimited, unless the limit is a count.
    pub(crate) fn budget(&self, limit: Limit) -> Budget {
        Budget(match limit {
            Limit::Bytes(count) | Limit::Transactions(count) => count,
            Limit::Messages(count) => {
                let size = self.buffers.sizes.send_bytes.unwrap_or(1);
                count.saturating_mul(size.into())
            }
            Limit::Time(_) | Limit::Unlimited => u64::MAX,
        })
    }

    /// Returns the time after which this end stops by itself; `None` for a receiver, which
    /// continues to the end of the data.
    pub(crate) fn length(&self, limit: Limit) -> Option<Duration> {
        let is_sender = matches!(
            self.workload.body.first(),
            Some(Operation::Send | Operation::Connect)
        );
        match limit {
            Limit::Time(length) if is_sender => Some(self.warm_up + length),
            _ => None,
        }
    }
}
