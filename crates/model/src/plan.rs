//! The description of a run: groups, flows, limits and phases. Each default is explicit or a named
//! rule.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::nanos::{Nanos, OptionalNanos};
use crate::{BufferPlan, DatagramFormat, EndpointPlan, Transaction, Transport, Workload};

/// One measurement: groups of workers that run in parallel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The test's name ("TCP_STREAM"); used only in output.
    pub name: String,
    /// The text of the profile that the plan was read from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The groups of workers. They start together.
    pub groups: Vec<Group>,
    /// The phases before the measured phase.
    pub phases: Phases,
    /// Interval between samples of the counters; `None` lets the program choose.
    #[serde(default, rename = "sampling_ns", with = "OptionalNanos")]
    pub sampling: Option<Duration>,
}

/// Workers that run the same body, each with its own connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The group's name; empty if there is only one group.
    pub name: String,
    /// Number and kind of the workers.
    pub workers: Workers,
    /// The peers' names, as given by the user.
    pub peers: Vec<String>,
    /// The work of each worker.
    pub body: Body,
}

/// The workers of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workers {
    /// Number of workers.
    pub count: u32,
    /// Whether each worker is a process; otherwise it is a thread.
    pub are_processes: bool,
}

/// The work of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The loop of one flow.
    Loop(Box<FlowPlan>),
    /// Lists of steps over several connections. The lists run one after the other, and all groups
    /// wait for each other before each list.
    Transactions(Vec<Transaction>),
}

/// One flow: the operations that its two ends repeat, and the limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowPlan {
    /// The transport of the data.
    pub transport: Transport,
    /// The operations of this end.
    pub workload: Workload,
    /// The limit that ends the measured phase.
    pub limit: Limit,
    /// Requests in flight in addition to that of the current transaction (netperf's initial burst).
    pub burst: u32,
    /// The times to record.
    pub timing: Timing,
    /// Format of the numbers and timestamps in one-way datagrams; `None` without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramFormat>,
    /// Settings of this end.
    pub local: EndpointPlan,
    /// Requested settings of the peer. A dialect's protocol may not support all of them.
    pub remote: EndpointPlan,
}

impl Plan {
    /// Creates a plan of one flow with a peer, named as given by the user.
    pub fn for_flow(name: impl Into<String>, peer: impl Into<String>, flow: FlowPlan) -> Self {
        let group = Group {
            peers: vec![peer.into()],
            ..Group::with_flows(1, flow)
        };
        Self {
            name: name.into(),
            groups: vec![group],
            ..Self::default()
        }
    }

    /// Returns the first group's flow, if its body is a flow.
    pub fn flow(&self) -> Option<&FlowPlan> {
        self.groups.first()?.flow()
    }

    /// Returns the flow of [`Self::flow`] for changes.
    pub fn flow_mut(&mut self) -> Option<&mut FlowPlan> {
        match &mut self.groups.first_mut()?.body {
            Body::Loop(flow) => Some(flow),
            Body::Transactions(_) => None,
        }
    }

    /// Returns whether the passes of the first flow are transactions.
    pub fn is_transactional(&self) -> bool {
        self.flow()
            .is_some_and(|flow| flow.workload.is_transactional())
    }

    /// Returns whether this end of the first flow sends data.
    pub fn sends(&self) -> bool {
        self.flow().is_some_and(|flow| flow.workload.sends())
    }

    /// Returns whether this end of the first flow receives data.
    pub fn receives(&self) -> bool {
        self.flow().is_some_and(|flow| flow.workload.receives())
    }

    /// Returns the number of flows in one direction.
    pub fn flows(&self) -> u32 {
        self.groups.first().map_or(0, |group| group.workers.count)
    }

    /// Returns whether one-way flows run in both directions.
    pub fn is_bidirectional(&self) -> bool {
        let sends = |group: &Group| group.flow().map(|flow| flow.workload.sends());
        self.groups.len() == 2 && sends(&self.groups[0]) != sends(&self.groups[1])
    }
}

impl Group {
    /// Creates a group of `count` equal flows.
    pub fn with_flows(count: u32, flow: FlowPlan) -> Self {
        Self {
            name: String::new(),
            workers: Workers {
                count,
                are_processes: false,
            },
            peers: Vec::new(),
            body: Body::Loop(Box::new(flow)),
        }
    }

    /// Returns the group's flow, if its body is a flow.
    pub fn flow(&self) -> Option<&FlowPlan> {
        match &self.body {
            Body::Loop(flow) => Some(flow),
            Body::Transactions(_) => None,
        }
    }
}

impl FlowPlan {
    /// Creates a flow without limit and with default settings at both ends.
    pub fn new(transport: Transport, workload: Workload) -> Self {
        Self {
            transport,
            workload,
            limit: Limit::Unlimited,
            burst: 0,
            timing: Timing::default(),
            datagrams: None,
            local: EndpointPlan::default(),
            remote: EndpointPlan::default(),
        }
    }

    /// Sets the buffers of both ends and both directions.
    #[must_use]
    pub fn with_buffers(mut self, buffers: BufferPlan) -> Self {
        for end in [&mut self.local, &mut self.remote] {
            (end.send, end.receive) = (buffers, buffers);
        }
        self
    }

    /// Reverses the direction of the data. A flow with data in both directions, or in none, is
    /// unchanged.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        if !self.workload.is_transactional() {
            self.workload = self.workload.mirrored();
        }
        self
    }

    /// Returns the flow from the peer's point of view.
    #[must_use]
    pub fn mirrored(self) -> Self {
        Self {
            workload: self.workload.mirrored(),
            local: self.remote,
            remote: self.local,
            ..self
        }
    }

    /// Returns whether the flow sends datagrams in one direction over UDP or UDP-Lite.
    pub fn has_one_way_datagrams(&self) -> bool {
        matches!(self.transport, Transport::Udp | Transport::UdpLite)
            && !self.workload.is_transactional()
    }
}

/// The limit that ends the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Duration.
    #[serde(rename = "time_ns")]
    Time(#[serde(with = "Nanos")] Duration),
    /// Payload bytes.
    Bytes(u64),
    /// Number of transactions.
    Transactions(u64),
    /// Number of send calls, on a transport that preserves message boundaries.
    Messages(u64),
    /// No limit: an interrupt or the peer ends the phase.
    Unlimited,
}

/// The phases before the measured phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phases {
    /// Start time by the wall clock; `None` starts immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<SystemTime>,
    /// Pause between the agreement with the peer and the first operation.
    #[serde(rename = "wait_ns", with = "Nanos")]
    pub wait: Duration,
    /// Warm-up before the measured phase; its results are discarded.
    #[serde(rename = "warm_up_ns", with = "Nanos")]
    pub warm_up: Duration,
}

/// The times to record. A time that is off costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timing {
    /// Each pass of the body: a transaction's latency.
    pub passes: bool,
    /// Each send or receive call of a bulk transfer.
    pub calls: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_mirror_each_other() {
        for (workload, peer_workload) in [
            (Workload::send(), Workload::receive()),
            (Workload::request(), Workload::respond()),
            (
                Workload::connect_and_request(),
                Workload::accept_and_respond(),
            ),
            (Workload::connect_and_close(), Workload::accept_and_close()),
        ] {
            assert_eq!(workload.mirrored(), peer_workload);
            assert_eq!(peer_workload.mirrored(), workload);
            assert_eq!(workload.clone().with_half_close().mirrored(), peer_workload);
            let mut flow = FlowPlan::new(Transport::Tcp, workload);
            flow.local.send = BufferPlan::message(7);
            let mirrored = flow.clone().mirrored();
            assert_eq!(
                (&mirrored.workload, mirrored.remote.send),
                (&peer_workload, flow.local.send)
            );
            assert_eq!(mirrored.mirrored(), flow);
        }
    }

    #[test]
    fn only_one_way_flows_are_reversed() {
        let plan = Plan::for_flow("X", "host", FlowPlan::new(Transport::Udp, Workload::send()));
        assert_eq!(plan.groups[0].peers, ["host"]);
        assert!(plan.sends() && plan.flows() == 1);
        let reversed = plan.flow().unwrap().clone().reversed();
        assert_eq!(reversed.workload, Workload::receive());
        let two_way = FlowPlan::new(Transport::Udp, Workload::request());
        assert_eq!(two_way.clone().reversed(), two_way);
    }
}
