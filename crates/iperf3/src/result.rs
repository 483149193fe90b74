//! A test as one end knows it, of which text and documents are made.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{Counts, DatagramCounts, Ended, Group, OrderCounts, Outcome, Plan, Sample, Side};
use sys::Address;
use units::Bytes;

use crate::options::Common;
use crate::streams::{Data, Stream};
use crate::wire::error::{self, Fault};
use crate::wire::{Cookie, Parameters, Results, ServerOutput, StreamResult};

/// A test, from the agreement on.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// This end is the server.
    pub is_server: bool,
    /// What was asked for, with what was left open filled in.
    pub parameters: Parameters,
    /// The test's cookie.
    pub cookie: Cookie,
    /// The other end: of a client the host as it was typed and the port, of a server the client's address.
    pub peer: (String, u16),
    /// When it began.
    pub started: SystemTime,
    /// The segment size of the control connection.
    pub control_segment: u32,
    /// The socket buffers of a stream, as the kernel has them: send, receive.
    pub buffers: (u32, u32),
    /// From one interval's end to the next.
    pub interval: Option<Duration>,
    /// The file of `-F`, and its size at the end.
    pub file: Option<(PathBuf, u64)>,
    /// Each stream, in the order of its number.
    pub streams: Vec<StreamRun>,
    /// The place of the sample at the end of the omitted time, in each series.
    pub begin: usize,
    /// Percent of a CPU: total, user, system.
    pub cpu: [f64; 3],
    /// What the other end reported.
    pub results: Option<Results>,
    /// The congestion control algorithm here.
    pub congestion: Option<String>,
    /// The number of other tests that the server ran meanwhile.
    pub others: u32,
    /// Why it failed.
    pub error: Option<String>,
}

/// A stream of a test.
#[derive(Clone, Debug)]
pub struct StreamRun {
    /// The number by which both ends know it.
    pub number: u32,
    /// What stands before its lines.
    pub label: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// This end's address.
    pub local: Address,
    /// The other end's.
    pub remote: Address,
    /// What was measured; its one series has a sample per interval.
    pub outcome: Outcome,
}

impl StreamRun {
    /// A stream before its data.
    pub(crate) fn of(stream: &Stream, started: SystemTime) -> Self {
        let peer = stream.peer.to_string();
        let plan = Plan::of_flow(
            if stream.sends { "send" } else { "receive" },
            peer,
            stream.plan.clone(),
        );
        Self {
            number: stream.number,
            label: stream.label,
            sends: stream.sends,
            local: stream.local.clone(),
            remote: stream.peer.clone(),
            outcome: Outcome::of_flow(plan, started, Side::default(), None, Ended::Deadline),
        }
    }

    /// The samples, the first of which is the test's start.
    pub fn samples(&self) -> &[Sample] {
        self.outcome
            .series
            .first()
            .map_or(&[], |series| &series.samples)
    }

    /// The samples at the end of the omitted time and at the test's end.
    pub(crate) fn measured(&self, begin: usize) -> (Sample, Sample) {
        let samples = self.samples();
        let last = samples.last().copied().unwrap_or_default();
        (samples.get(begin).copied().unwrap_or(last), last)
    }
}

impl TestRun {
    /// A test that was agreed on with this peer.
    pub(crate) fn new(
        common: &Common,
        parameters: &Parameters,
        cookie: Cookie,
        peer: (String, u16),
    ) -> Self {
        Self {
            is_server: false,
            parameters: parameters.clone(),
            cookie,
            peer,
            started: SystemTime::now(),
            control_segment: 0,
            buffers: (0, 0),
            interval: common.interval,
            file: common.file.clone().map(|path| (path, 0)),
            streams: Vec::new(),
            begin: 0,
            cpu: [0.0; 3],
            results: None,
            congestion: None,
            others: 0,
            error: None,
        }
    }

    /// Takes the streams, which are open.
    pub(crate) fn open(&mut self, streams: &[Stream]) {
        self.streams = streams
            .iter()
            .map(|stream| StreamRun::of(stream, self.started))
            .collect();
        self.buffers = streams.first().map_or((0, 0), |stream| {
            let facts = &stream.data.facts;
            (
                facts.send_buffer_bytes.unwrap_or(0),
                facts.receive_buffer_bytes.unwrap_or(0),
            )
        });
    }

    /// Takes what the streams moved.
    pub(crate) fn take(&mut self, data: Data) {
        self.begin = data.begin;
        if let Some((path, bytes)) = &mut self.file {
            *bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        }
        for (stream, moved) in self.streams.iter_mut().zip(data.moved) {
            let outcome = &mut stream.outcome;
            outcome.series = vec![moved.series];
            outcome.here = moved.side;
            outcome.plan.phases.warm_up = Duration::from_secs(self.parameters.omit.into());
            let (before, last) = stream.measured(data.begin);
            let here = &mut stream.outcome.here;
            here.counts.sent = Bytes(last.sent.0 - before.sent.0);
            here.counts.received = Bytes(last.received.0 - before.received.0);
            let calls = last.operations - before.operations;
            if stream.sends {
                here.counts.send_calls = calls;
            } else {
                here.counts.receive_calls = calls;
            }
            here.elapsed = Some(last.at.saturating_sub(before.at));
            let retransmits = |sample: &Sample| sample.path.and_then(|path| path.retransmits);
            if let (Some(now), Some(then)) = (retransmits(&last), retransmits(&before).or(Some(0)))
            {
                here.socket.retransmits = u32::try_from(now.saturating_sub(then)).ok();
            }
            here.datagrams = last
                .datagrams
                .map(|now| now.since(&before.datagrams.unwrap_or_default()));
            self.congestion = self
                .congestion
                .take()
                .or(here.socket.congestion_control.clone());
        }
    }

    /// This end's results, as the wire has them.
    pub(crate) fn to_results(&self, output: Option<ServerOutput>) -> Results {
        let sends = self.streams.iter().any(|stream| stream.sends);
        let knows = |stream: &StreamRun| stream.outcome.here.socket.retransmits.is_some();
        let has_retransmits = self
            .streams
            .iter()
            .any(|stream| stream.sends && knows(stream));
        Results {
            cpu: self.cpu,
            sender_has_retransmits: sends.then_some(has_retransmits),
            congestion: self.congestion.clone(),
            output,
            streams: self
                .streams
                .iter()
                .map(|stream| self.stream_result(stream))
                .collect(),
        }
    }

    fn stream_result(&self, stream: &StreamRun) -> StreamResult {
        let here = &stream.outcome.here;
        let (before, last) = stream.measured(self.begin);
        let order = |sample: &Sample| {
            sample
                .datagrams
                .map_or(OrderCounts::default(), |counts| counts.by_order)
        };
        let (begun, ended) = (order(&before), order(&last));
        let packets = |sample: &Sample| self.packets(sample.sent);
        let is_omitting = self.parameters.omit > 0;
        let (all, omitted) = if stream.sends {
            (packets(&last), packets(&before))
        } else {
            (ended.highest, begun.highest)
        };
        StreamResult {
            number: stream.number,
            bytes: here.counts.bytes(),
            retransmits: here
                .socket
                .retransmits
                .filter(|_| stream.sends)
                .map(u64::from),
            jitter: jitter(here.datagrams.as_ref()).as_secs_f64(),
            errors: ended.missing,
            omitted_errors: is_omitting.then_some(begun.missing),
            packets: all,
            omitted_packets: is_omitting.then_some(omitted),
            end_time: here.elapsed.map(|elapsed| elapsed.as_secs_f64()),
        }
    }

    /// The outcome of all streams together; `None` of a test that has none.
    pub fn outcome(&self) -> Option<Outcome> {
        let flows = self
            .streams
            .iter()
            .map(|stream| (stream.outcome.clone(), Duration::ZERO));
        let mut sum = Outcome::sum(flows.collect())?;
        sum.plan.name = format!("iperf3 {}", self.parameters.protocol.name());
        let first = |sends: bool| self.streams.iter().find(|stream| stream.sends == sends);
        let group = |stream: &StreamRun| {
            let flow = stream.outcome.plan.flow()?.clone();
            let peers = vec![self.peer.0.clone()];
            let of_flows = Group::of_flows(self.parameters.parallel, flow);
            Some(Group { peers, ..of_flows })
        };
        let directions = [first(true), first(false)].into_iter().flatten();
        sum.plan.groups = directions.filter_map(group).collect();
        sum.series = self
            .streams
            .iter()
            .flat_map(|stream| stream.outcome.series.clone())
            .collect();
        if let Some(error) = &self.error {
            sum.ended = Ended::Failed(error.clone());
        }
        Some(sum)
    }

    /// The address of the other end; `None` before there is a stream.
    pub fn peer_address(&self) -> Option<&Address> {
        self.streams.first().map(|stream| &stream.remote)
    }

    /// Datagrams that these bytes are.
    pub(crate) fn packets(&self, bytes: Bytes) -> u64 {
        if self.is_udp() {
            bytes.0 / u64::from(self.parameters.block().max(1))
        } else {
            0
        }
    }

    /// Whether the data is datagrams.
    pub fn is_udp(&self) -> bool {
        self.parameters.protocol == crate::wire::Protocol::Udp
    }

    /// Takes the other end's results, which must name each stream, and no more data than was sent on it.
    pub(crate) fn believe(&mut self, results: Results) -> Result<(), Fault> {
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            let told = results.stream(stream.number);
            let told = told.ok_or_else(|| Fault::of(error::STREAM_ID))?;
            if stream.sends && self.exceeds(stream, told) {
                let why = format!("stream {} has more data than was sent", stream.number);
                return Err(Fault::because(error::RECEIVE_RESULTS, why));
            }
            let side = self.side_of(stream, told, &results);
            self.streams[at].outcome.there = Some(side);
        }
        self.results = Some(results);
        Ok(())
    }

    /// Whether more is reported as received than was sent, the omitted time and the rest of a block included. The network
    /// may have duplicated datagrams, but not their numbers.
    fn exceeds(&self, stream: &StreamRun, told: &StreamResult) -> bool {
        let sent = stream.measured(self.begin).1.sent;
        if self.is_udp() {
            return told.packets > self.packets(sent) + 1;
        }
        told.bytes > sent.0 + u64::from(self.parameters.block())
    }

    fn side_of(&self, stream: &StreamRun, told: &StreamResult, results: &Results) -> Side {
        let bytes = Bytes(told.bytes);
        let (before, last) = stream.measured(self.begin);
        let mut side = Side {
            elapsed: told.end_time.map(Duration::from_secs_f64),
            counts: Counts::default(),
            ..Side::default()
        };
        side.socket
            .congestion_control
            .clone_from(&results.congestion);
        if !stream.sends {
            side.counts.sent = bytes;
            side.counts.send_calls = told
                .packets
                .saturating_sub(told.omitted_packets.unwrap_or(0));
            let known = results.sender_has_retransmits == Some(true);
            let retransmits = told.retransmits.filter(|_| known);
            side.socket.retransmits = retransmits.and_then(|count| u32::try_from(count).ok());
            return side;
        }
        side.counts.received = bytes;
        if self.is_udp() {
            // An end that does not tell what it omitted has omitted what was sent until then.
            let omitted = told
                .omitted_packets
                .unwrap_or_else(|| self.packets(before.sent));
            let sent = self
                .packets(last.sent)
                .saturating_sub(self.packets(before.sent));
            let highest = told.packets.saturating_sub(omitted).min(sent);
            let missing = told.errors.saturating_sub(told.omitted_errors.unwrap_or(0));
            side.counts.receive_calls = self.packets(bytes);
            side.datagrams = Some(DatagramCounts {
                received: self.packets(bytes),
                lost: missing.min(sent),
                jitter: Some(Duration::from_secs_f64(told.jitter)),
                by_order: OrderCounts {
                    highest,
                    missing: missing.min(sent),
                    ..OrderCounts::default()
                },
                ..DatagramCounts::default()
            });
        }
        side
    }
}

/// The jitter of a receiver; 0 if it is unknown.
pub(crate) fn jitter(datagrams: Option<&DatagramCounts>) -> Duration {
    datagrams
        .and_then(|counts| counts.jitter)
        .unwrap_or_default()
}
