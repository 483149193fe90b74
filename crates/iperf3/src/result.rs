//! The state and results of a test at one end: the input of text and JSON output.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{
    Counts, DatagramCounts, EndCause, Group, HighestNumberCounts, Limit, Outcome, PathSample, Plan,
    Sample, Series, Side,
};
use sys::Address;
use units::Bytes;

use crate::Version;
use crate::options::CommonSettings;
use crate::streams::{Stream, TransferData};
use crate::wire::error::{self, Fault};
use crate::wire::{Cookie, Parameters, Protocol, Results, ServerOutput, StreamResult};

/// A test whose parameters both ends have accepted.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// The version of stock iperf3 whose output is printed.
    pub version: Version,
    /// Whether this end is the server.
    pub is_server: bool,
    /// The requested parameters, completed with defaults.
    pub parameters: Parameters,
    /// The test's cookie.
    pub cookie: Cookie,
    /// The host and port of the other end.
    ///
    /// A client has the host as typed; a server has the client's address.
    pub peer: (String, u16),
    /// When the test started.
    pub started: SystemTime,
    /// The segment size of the control connection, in bytes.
    pub control_segment: u32,
    /// The socket buffer sizes that the kernel reports for the first stream: send, receive.
    pub buffers: (u32, u32),
    /// The length of a report interval; `None` without intervals.
    pub interval: Option<Duration>,
    /// The file of `-F`, and its size in bytes at the end of the test.
    pub file: Option<(PathBuf, u64)>,
    /// The streams, in the order of their numbers.
    pub streams: Vec<StreamRun>,
    /// Whether the server has started the test.
    pub has_started: bool,
    /// The index of the sample at the end of the omitted time, in each series.
    pub omit_end_index: usize,
    /// Percent of a CPU: total, user, system.
    pub cpu: [f64; 3],
    /// The results that the other end reported.
    pub results: Option<Results>,
    /// The congestion control algorithm of this end.
    pub congestion: Option<String>,
    /// The number of other tests that the server ran during this one.
    pub overlapping_tests: u32,
    /// The error with which the test failed.
    pub error: Option<String>,
    /// Whether the user of an end ended the test; `error` then says so.
    pub is_interrupted: bool,
}

/// A stream of a test.
#[derive(Clone, Debug)]
pub struct StreamRun {
    /// The stream number, which is the same at both ends.
    pub number: u32,
    /// The number in brackets at the start of the stream's output lines.
    pub label: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// This end's address.
    pub local: Address,
    /// The other end's address.
    pub remote: Address,
    /// The measured outcome; its one series has a sample per interval.
    pub outcome: Outcome,
}

impl StreamRun {
    /// Creates the record of a stream that has not moved data yet.
    pub(crate) fn from_stream(stream: &Stream, started: SystemTime) -> Self {
        let peer = stream.peer.to_string();
        let ended = match stream.plan.limit {
            Limit::Time(_) | Limit::Unlimited => EndCause::Deadline,
            _ => EndCause::Count,
        };
        let plan = Plan::for_flow(
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
            outcome: Outcome::for_flow(plan, started, Side::default(), None, ended),
        }
    }

    /// Returns the samples; the first one marks the test's start.
    pub fn samples(&self) -> &[Sample] {
        self.outcome
            .series
            .first()
            .map_or(&[], |series| &series.samples)
    }

    /// Returns the samples at the end of the omitted time and at the test's end.
    pub(crate) fn measured_samples(&self, omit_end_index: usize) -> (Sample, Sample) {
        let samples = self.samples();
        let last = samples.last().copied().unwrap_or_default();
        (samples.get(omit_end_index).copied().unwrap_or(last), last)
    }
}

impl TestRun {
    /// Creates the record of a test that this end and `peer` have accepted.
    pub(crate) fn new(
        common: &CommonSettings,
        parameters: &Parameters,
        cookie: Cookie,
        peer: (String, u16),
    ) -> Self {
        Self {
            version: common.version,
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
            has_started: false,
            omit_end_index: 0,
            cpu: [0.0; 3],
            results: None,
            congestion: None,
            overlapping_tests: 0,
            error: None,
            is_interrupted: false,
        }
    }

    /// Stores the opened streams.
    pub(crate) fn set_streams(&mut self, streams: &[Stream]) {
        self.streams = streams
            .iter()
            .map(|stream| StreamRun::from_stream(stream, self.started))
            .collect();
        let data = streams.first().map(|stream| &stream.data);
        self.congestion = data.and_then(|data| data.current_facts(&data.socket).congestion_control);
        self.buffers = streams.first().map_or((0, 0), |stream| {
            let facts = &stream.data.facts;
            (
                facts.send_buffer_bytes.unwrap_or(0),
                facts.receive_buffer_bytes.unwrap_or(0),
            )
        });
    }

    /// Returns this test with an interval in which nothing happened. Stock prints one if a test ends
    /// before its data.
    pub(crate) fn with_empty_interval(&self) -> Self {
        let mut run = self.clone();
        for stream in &mut run.streams {
            let path = PathSample {
                retransmits: Some(0),
                ..PathSample::default()
            };
            let sample = Sample {
                path: Some(path)
                    .filter(|_| stream.sends && self.parameters.protocol == Protocol::Tcp),
                ..Sample::default()
            };
            stream.outcome.series = vec![Series {
                samples: vec![sample; 2],
                ..Series::default()
            }];
            stream.outcome.local.socket.retransmits = sample.path.map(|_| 0);
        }
        run
    }

    /// Stores the data that the streams counted and measured.
    pub(crate) fn set_transfer_result(&mut self, data: TransferData) {
        self.omit_end_index = data.omit_end_index;
        if let Some((path, bytes)) = &mut self.file {
            *bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        }
        for (stream, stream_data) in self.streams.iter_mut().zip(data.streams) {
            let outcome = &mut stream.outcome;
            outcome.series = vec![stream_data.series];
            outcome.local = stream_data.side;
            outcome.plan.phases.warm_up = Duration::from_secs(self.parameters.omit.into());
            let (before, last) = stream.measured_samples(data.omit_end_index);
            let local_side = &mut stream.outcome.local;
            local_side.counts.sent = Bytes(last.sent.0 - before.sent.0);
            local_side.counts.received = Bytes(last.received.0 - before.received.0);
            let calls = last.operations - before.operations;
            if stream.sends {
                local_side.counts.send_calls = calls;
            } else {
                local_side.counts.receive_calls = calls;
            }
            local_side.elapsed = Some(last.at.saturating_sub(before.at));
            let retransmits = |sample: &Sample| sample.path.and_then(|path| path.retransmits);
            if let (Some(at_end), Some(at_start)) =
                (retransmits(&last), retransmits(&before).or(Some(0)))
            {
                local_side.socket.retransmits = u32::try_from(at_end.saturating_sub(at_start)).ok();
            }
            local_side.datagrams = last
                .datagrams
                .map(|counts| counts.since(&before.datagrams.unwrap_or_default()));
            self.congestion = self
                .congestion
                .take()
                .or(local_side.socket.congestion_control.clone());
        }
    }

    /// Converts this end's results to the message for the other end.
    pub(crate) fn to_results(&self, output: Option<ServerOutput>) -> Results {
        let sends = self.streams.iter().any(|stream| stream.sends);
        let is_known = |stream: &StreamRun| stream.outcome.local.socket.retransmits.is_some();
        let has_retransmits = self
            .streams
            .iter()
            .any(|stream| stream.sends && is_known(stream));
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
        let local_side = &stream.outcome.local;
        let (before, last) = stream.measured_samples(self.omit_end_index);
        let number_counts = |sample: &Sample| {
            sample
                .datagrams
                .map_or(HighestNumberCounts::default(), |counts| {
                    counts.highest_number_counts
                })
        };
        let (counts_at_start, counts_at_end) = (number_counts(&before), number_counts(&last));
        let sent_packets = |sample: &Sample| self.packets(sample.sent);
        let (packets, omitted_packets) = if stream.sends {
            (sent_packets(&last), sent_packets(&before))
        } else {
            (counts_at_end.highest, counts_at_start.highest)
        };
        StreamResult {
            number: stream.number,
            bytes: local_side.counts.bytes(),
            retransmits: local_side
                .socket
                .retransmits
                .filter(|_| stream.sends)
                .map(u64::from),
            jitter: jitter(local_side.datagrams.as_ref()).as_secs_f64(),
            errors: counts_at_end.missing,
            // Versions from 3.14 on do not report losses if the values of the omitted time are missing.
            omitted_errors: Some(counts_at_start.missing),
            packets,
            omitted_packets: Some(omitted_packets),
            end_time: local_side.elapsed.map(|elapsed| elapsed.as_secs_f64()),
        }
    }

    /// Returns the outcome of all streams together; `None` if the test has no streams.
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
            let group = Group::with_flows(self.parameters.parallel, flow);
            Some(Group { peers, ..group })
        };
        let directions = [first(true), first(false)].into_iter().flatten();
        sum.plan.groups = directions.filter_map(group).collect();
        sum.series = self
            .streams
            .iter()
            .flat_map(|stream| stream.outcome.series.clone())
            .collect();
        if self.is_interrupted {
            sum.ended = EndCause::Cancelled;
        } else if let Some(error) = &self.error {
            sum.ended = EndCause::Failed(error.clone());
        }
        Some(sum)
    }

    /// Returns the address of the other end; `None` before the first stream is open.
    pub fn peer_address(&self) -> Option<&Address> {
        self.streams.first().map(|stream| &stream.remote)
    }

    /// Returns the number of datagrams in `bytes`; 0 for other protocols than UDP.
    pub(crate) fn packets(&self, bytes: Bytes) -> u64 {
        if self.is_udp() {
            bytes.0 / u64::from(self.parameters.block_size().max(1))
        } else {
            0
        }
    }

    /// Returns whether the streams use UDP.
    pub fn is_udp(&self) -> bool {
        self.parameters.protocol == crate::wire::Protocol::Udp
    }

    /// Checks and stores the other end's results.
    ///
    /// Fails if they do not have exactly this test's streams, or if a figure is impossible.
    pub(crate) fn apply_peer_results(&mut self, results: Results) -> Result<(), Fault> {
        if results.streams.len() != self.streams.len() {
            return Err(Fault::from_code(error::STREAM_ID));
        }
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            let reported = results.stream(stream.number);
            let reported = reported.ok_or_else(|| Fault::from_code(error::STREAM_ID))?;
            if let Some(contradiction) = self.contradiction(stream, reported) {
                let reason = format!("stream {} has {contradiction}", stream.number);
                return Err(Fault::with_reason(error::RECEIVE_RESULTS, reason));
            }
            let side = self.peer_side(stream, reported, &results);
            self.streams[index].outcome.remote = Some(side);
        }
        self.results = Some(results);
        Ok(())
    }

    /// Returns how the peer's figures contradict each other or this end's figures, if they do.
    ///
    /// The counts of sent data include the omitted time and the rest of a block. The network may
    /// duplicate datagrams, but it cannot raise their highest number.
    fn contradiction(&self, stream: &StreamRun, reported: &StreamResult) -> Option<&'static str> {
        const MORE_DATA: &str = "more data than was sent";
        /// The ends measure by their own clocks, from their own starts.
        const MAX_TIME_DIFFERENCE: Duration = Duration::from_secs(60);
        /// More bits per second than any network has.
        const MAX_RATE: f64 = 1e14;
        /// More copies of a datagram than any network makes.
        const MAX_COPIES: u64 = 16;
        let (before, last) = stream.measured_samples(self.omit_end_index);
        let block = u64::from(self.parameters.block_size());
        if reported.errors > reported.packets {
            return Some("more lost than sent datagrams");
        }
        if reported.omitted_packets.unwrap_or(0) > reported.packets {
            return Some("more omitted than sent datagrams");
        }
        let has_too_much_data = match (self.is_udp(), stream.sends) {
            (true, true) => {
                let possible_bytes = last.sent.0.saturating_add(block).saturating_mul(MAX_COPIES);
                reported.packets > self.packets(last.sent) + 1 || reported.bytes > possible_bytes
            }
            (true, false) => {
                let highest = |sample: Sample| {
                    let counts = sample.datagrams.unwrap_or_default();
                    counts.highest_number_counts.highest
                };
                highest(last) > reported.packets + 1
            }
            (false, true) => reported.bytes > last.sent.0 + block,
            // With omitted time, data in flight may count for this end only.
            (false, false) => {
                let received = last.received.0 - before.received.0;
                self.parameters.omit == 0 && received > reported.bytes.saturating_add(block)
            }
        };
        if has_too_much_data {
            return Some(MORE_DATA);
        }
        if let Some(seconds) = reported.end_time {
            let own = stream.outcome.local.elapsed.unwrap_or_default();
            if seconds > (2 * own + MAX_TIME_DIFFERENCE).as_secs_f64() {
                return Some("a time longer than the test");
            }
            if reported.bytes as f64 * 8.0 > MAX_RATE * seconds && seconds > 0.0 {
                return Some("a rate that no network has");
            }
        }
        if self.is_udp() && !stream.sends && self.parameters.omit == 0 {
            // A failed send has a number, but no bytes.
            let possible_packets = 2 * self.packets(Bytes(reported.bytes)) + 1000;
            if reported.packets > possible_packets {
                return Some("more datagrams than its bytes");
            }
        }
        None
    }

    fn peer_side(&self, stream: &StreamRun, reported: &StreamResult, results: &Results) -> Side {
        let bytes = Bytes(reported.bytes);
        let (before, last) = stream.measured_samples(self.omit_end_index);
        let mut side = Side {
            elapsed: reported.end_time.map(Duration::from_secs_f64),
            counts: Counts::default(),
            ..Side::default()
        };
        side.socket
            .congestion_control
            .clone_from(&results.congestion);
        if !stream.sends {
            side.counts.sent = bytes;
            // Without a reported count, this end's highest number at that time is the nearest one.
            let counts = before.datagrams.unwrap_or_default();
            let omitted = reported
                .omitted_packets
                .unwrap_or(counts.highest_number_counts.highest);
            side.counts.send_calls = reported.packets.saturating_sub(omitted);
            let has_retransmits = results.sender_has_retransmits == Some(true);
            let retransmits = reported.retransmits.filter(|_| has_retransmits);
            side.socket.retransmits = retransmits.and_then(|count| u32::try_from(count).ok());
            return side;
        }
        side.counts.received = bytes;
        if self.is_udp() {
            // Without a reported count, the omitted datagrams are those sent in the omitted time.
            let omitted = reported
                .omitted_packets
                .unwrap_or_else(|| self.packets(before.sent));
            let sent = self
                .packets(last.sent)
                .saturating_sub(self.packets(before.sent));
            let highest = reported.packets.saturating_sub(omitted).min(sent);
            // Without that count, the losses are the numbers that did not arrive afterwards.
            let missing = match reported.omitted_errors {
                Some(errors) => reported.errors.saturating_sub(errors),
                None if omitted == 0 => reported.errors,
                None => highest
                    .saturating_sub(self.packets(bytes))
                    .min(reported.errors),
            };
            // No later number shows that the last datagrams did not arrive.
            let unseen = self.packets(last.sent).saturating_sub(reported.packets);
            side.counts.receive_calls = self.packets(bytes);
            side.datagrams = Some(DatagramCounts {
                received: self.packets(bytes),
                lost: missing.saturating_add(unseen).min(sent),
                jitter: Some(Duration::from_secs_f64(reported.jitter)),
                highest_number_counts: HighestNumberCounts {
                    highest,
                    missing: missing.min(sent),
                    ..HighestNumberCounts::default()
                },
                ..DatagramCounts::default()
            });
        }
        side
    }
}

/// Returns the jitter of a receiver; 0 if it is unknown.
pub(crate) fn jitter(datagrams: Option<&DatagramCounts>) -> Duration {
    datagrams
        .and_then(|counts| counts.jitter)
        .unwrap_or_default()
}
