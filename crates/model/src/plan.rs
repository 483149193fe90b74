//! What to run, every default explicit or a named rule.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{BufferPlan, DatagramFormat, Half, Transaction, Transport, Workload};

/// One measurement: groups of workers that run side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What people call this test ("TCP_STREAM"); only ever printed.
    pub name: String,
    /// The text of the file that it was made from, if it was made from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What is done. The groups start together.
    pub groups: Vec<Group>,
    /// The phases around the measured one.
    pub phases: Phases,
    /// How often the counters are looked at; `None` is as the program sees fit.
    #[serde(
        default,
        rename = "sampling_ns",
        with = "crate::outcome::optional_nanos"
    )]
    pub sampling: Option<Duration>,
}

/// Workers that all do the same, each with connections of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name, where there are several.
    pub name: String,
    /// Who does it.
    pub workers: Workers,
    /// The other ends, as the user named them.
    pub peers: Vec<String>,
    /// What each worker does.
    pub body: Body,
}

/// The workers of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// How many.
    pub count: u32,
    /// Each is a process of its own; otherwise a thread.
    pub are_processes: bool,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// One flow's loop.
    Loop(Box<FlowPlan>),
    /// Lists of steps over several connections, one list after the other, with a barrier of all groups
    /// before each.
    Transactions(Vec<Transaction>),
}

/// One flow: what its two ends repeat, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// What carries the data.
    pub transport: Transport,
    /// The operations of this end.
    pub workload: Workload,
    /// When the measured phase ends.
    pub limit: Limit,
    /// Requests in flight beyond the one that every transaction has (netperf's initial burst).
    pub burst: u32,
    /// Which times are recorded.
    pub timing: Timing,
    /// How one-way datagrams are numbered and stamped; `None` if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramFormat>,
    /// What this host does.
    pub here: Half,
    /// What is asked of the peer; each dialect's protocol carries as much of it as it can.
    pub there: Half,
}

impl Plan {
    /// One flow with a peer, as the user named it.
    pub fn of_flow(name: impl Into<String>, peer: impl Into<String>, flow: FlowPlan) -> Self {
        let group = Group {
            peers: vec![peer.into()],
            ..Group::of_flows(1, flow)
        };
        Self {
            name: name.into(),
            groups: vec![group],
            ..Self::default()
        }
    }

    /// The first group's flow, if its body is one.
    pub fn flow(&self) -> Option<&FlowPlan> {
        self.groups.first()?.flow()
    }

    /// As [`Self::flow`], to change it.
    pub fn flow_mut(&mut self) -> Option<&mut FlowPlan> {
        match &mut self.groups.first_mut()?.body {
            Body::Loop(flow) => Some(flow),
            Body::Transactions(_) => None,
        }
    }

    /// Whether its first flow's passes are transactions.
    pub fn is_transactional(&self) -> bool {
        self.flow()
            .is_some_and(|flow| flow.workload.is_transactional())
    }

    /// Whether this end of its first flow sends data.
    pub fn sends(&self) -> bool {
        self.flow().is_some_and(|flow| flow.workload.sends())
    }

    /// Whether this end of its first flow receives data.
    pub fn receives(&self) -> bool {
        self.flow().is_some_and(|flow| flow.workload.receives())
    }

    /// Flows of one direction.
    pub fn flows(&self) -> u32 {
        self.groups.first().map_or(0, |group| group.workers.count)
    }

    /// Whether one-way flows run in both directions.
    pub fn is_bidirectional(&self) -> bool {
        let goes_out = |group: &Group| group.flow().map(|flow| flow.workload.sends());
        self.groups.len() == 2 && goes_out(&self.groups[0]) != goes_out(&self.groups[1])
    }
}

impl Group {
    /// So many flows of one kind.
    pub fn of_flows(count: u32, flow: FlowPlan) -> Self {
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

    /// Its flow, if its body is one.
    pub fn flow(&self) -> Option<&FlowPlan> {
        match &self.body {
            Body::Loop(flow) => Some(flow),
            Body::Transactions(_) => None,
        }
    }
}

impl FlowPlan {
    /// A flow without end whose two ends leave everything at its default.
    pub fn of(transport: Transport, workload: Workload) -> Self {
        Self {
            transport,
            workload,
            limit: Limit::Unlimited,
            burst: 0,
            timing: Timing::default(),
            datagrams: None,
            here: Half::default(),
            there: Half::default(),
        }
    }

    /// The same flow with these buffers at both ends, in both directions.
    #[must_use]
    pub fn with_buffers(mut self, buffers: BufferPlan) -> Self {
        for half in [&mut self.here, &mut self.there] {
            (half.send, half.receive) = (buffers, buffers);
        }
        self
    }

    /// The same flow with its data in the other direction: what this end sends there, the peer sends here. A flow
    /// with data in both directions, or with none, stays as it is.
    #[must_use]
    pub fn turned(mut self) -> Self {
        if !self.workload.is_transactional() {
            self.workload = self.workload.mirrored();
        }
        self
    }

    /// The same flow as its other end sees it.
    #[must_use]
    pub fn mirrored(self) -> Self {
        Self {
            workload: self.workload.mirrored(),
            here: self.there,
            there: self.here,
            ..self
        }
    }

    /// Whether it sends datagrams in one direction over UDP or UDP-Lite.
    pub fn has_one_way_datagrams(&self) -> bool {
        matches!(self.transport, Transport::Udp | Transport::UdpLite)
            && !self.workload.is_transactional()
    }
}

/// When the measured phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// After this long.
    #[serde(rename = "time_ns")]
    Time(#[serde(with = "nanos")] Duration),
    /// After this much payload.
    Bytes(u64),
    /// After this many transactions.
    Transactions(u64),
    /// After this many send calls, on a transport that keeps messages whole.
    Messages(u64),
    /// When somebody ends it.
    Unlimited,
}

/// The phases around the measured one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// When it begins, by the wall clock; `None` is at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<SystemTime>,
    /// Pause between the agreement with the peer and the first operation.
    #[serde(rename = "wait_ns", with = "nanos")]
    pub wait: Duration,
    /// Run, but not counted, before the measured phase.
    #[serde(rename = "warm_up_ns", with = "nanos")]
    pub warm_up: Duration,
}

/// Which times are recorded; none costs anything when it is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Each pass of the body: a transaction's latency.
    pub passes: bool,
    /// Each send or receive call of a bulk transfer.
    pub calls: bool,
}

pub(crate) mod nanos {
    //! Durations as integer nanoseconds.

    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(duration.as_nanos() as u64)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_mirror_each_other() {
        for (one, other) in [
            (Workload::send(), Workload::receive()),
            (Workload::ask(), Workload::answer()),
            (Workload::connect_and_ask(), Workload::accept_and_answer()),
            (Workload::connect_and_close(), Workload::accept_and_close()),
        ] {
            assert_eq!(one.mirrored(), other);
            assert_eq!(other.mirrored(), one);
            assert_eq!(one.clone().closing_first().mirrored(), other);
            let mut flow = FlowPlan::of(Transport::Tcp, one);
            flow.here.send = BufferPlan::message(7);
            let there = flow.clone().mirrored();
            assert_eq!(
                (&there.workload, there.there.send),
                (&other, flow.here.send)
            );
            assert_eq!(there.mirrored(), flow);
        }
    }

    #[test]
    fn a_flow_turns_its_data_and_keeps_its_halves() {
        let plan = Plan::of_flow("X", "host", FlowPlan::of(Transport::Udp, Workload::send()));
        assert_eq!(plan.groups[0].peers, ["host"]);
        assert!(plan.sends() && plan.flows() == 1);
        let turned = plan.flow().unwrap().clone().turned();
        assert_eq!(turned.workload, Workload::receive());
        let both = FlowPlan::of(Transport::Udp, Workload::ask());
        assert_eq!(both.clone().turned(), both);
    }
}
