//! The events that a test reports to its observer.

use std::time::{Duration, SystemTime};

use engine::CounterReading;
use model::{Counts, DatagramCounts, PathSample, Side};
use stats::Histogram;
use sys::Address;

use crate::timing::{TimingKind, TimingStats};
use crate::wire::ServerReport;

/// Receives the events of a test. Several threads may call it.
pub trait Observer: Send + Sync {
    /// Receives one event.
    fn observe(&self, event: &TestEvent<'_>);
}

/// An event of a test.
#[derive(Debug)]
pub enum TestEvent<'a> {
    /// A server listens, or a client listens for the server's connection.
    Listening {
        /// The first and the last port.
        ports: (u16, u16),
        /// The value of `SO_RCVBUF` that the kernel reports, in bytes.
        window: u32,
        /// TCP's congestion control.
        congestion_control: Option<String>,
        /// The line about the multicast group that the server joins.
        join_line: Option<String>,
    },
    /// A client has opened its first socket or failed to open it, or a server has connected back.
    Connecting {
        /// The server, as on the command line; the client's address for a connection back.
        host: &'a str,
        /// The port to connect to.
        port: u16,
        /// The value of `SO_SNDBUF` that the kernel reports, in bytes; `None` without a socket.
        window: Option<u32>,
        /// The number of flows.
        flows: u32,
        /// Bytes per call or datagram.
        length: u32,
        /// Bits of payload per second.
        rate: Option<f64>,
        /// TCP's congestion control of the first socket.
        congestion_control: Option<String>,
        /// `true` for the client of the test; `false` for the server's connection to the client.
        is_client: bool,
    },
    /// A connection is established, or the attempt failed.
    Connected(&'a ConnectionInfo),
    /// A connect call failed.
    ConnectFailed {
        /// The flow.
        id: &'a FlowId,
        /// The server.
        peer: &'a Address,
        /// The reason.
        reason: &'a str,
        /// Whether the client does not try again, although it has tried repeatedly
        /// (`--connect-retry-time`).
        has_expired: bool,
    },
    /// A TCP flow failed, for this reason.
    StreamFailed(&'a FlowId, &'a str),
    /// The server closed a connection because its permit key is wrong.
    Dropped(&'a ConnectionInfo),
    /// The scheduled start of a flow's traffic, which may be in the past.
    StartTime {
        /// The flow.
        id: &'a FlowId,
        /// The scheduled start.
        at: SystemTime,
        /// The current time.
        now: SystemTime,
    },
    /// The figures of one interval of a flow.
    Interval(&'a FlowId, &'a FlowFigures),
    /// The figures of a completed flow.
    Final(&'a FlowId, &'a FlowFigures),
    /// The sum of several flows.
    Sum {
        /// The number of flows.
        flows: usize,
        /// What the sum covers.
        scope: SumScope,
        /// Whether the sum covers both directions.
        is_bidirectional: bool,
        /// Whether the sum covers the complete flows, not one interval.
        is_final: bool,
        /// The summed figures.
        figures: &'a FlowFigures,
    },
    /// The connect time of each connection; `None` for a failed one.
    ConnectTimes(&'a [Option<Duration>]),
    /// The number of datagrams that a UDP sender sent.
    DatagramsSent(&'a FlowId, u64),
    /// A UDP server's report to its client.
    ServerReport(&'a FlowId, &'a ServerReport),
    /// An error line for standard error.
    Error(String),
    /// A line for standard output.
    Message(String),
}

/// The identification of a flow in reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowId {
    /// The number of the flow, from 1 per process; 0 for a connection that sent no header.
    pub number: u32,
    /// Whether reports mark the flow with `*`: its data goes to a client or comes from a server.
    pub is_starred: bool,
    /// The permit key.
    pub key: Option<String>,
}

/// The connection of a flow.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent note in the connection line"
)]
pub struct ConnectionInfo {
    /// The flow.
    pub id: FlowId,
    /// The local address; `None` without a connection.
    pub local: Option<Address>,
    /// The address of the peer.
    pub peer: Address,
    /// The name of the local network device.
    pub device: Option<String>,
    /// The file descriptor of the socket; -1 without a connection.
    pub socket_fd: i32,
    /// Whether only the server sends.
    pub is_reverse: bool,
    /// Whether both ends send.
    pub is_full_duplex: bool,
    /// The parameters of a bounceback test.
    pub bounceback: Option<BouncebackInfo>,
    /// Whether synchronised clocks allow one-way latencies (`--trip-times`).
    pub has_trip_times: bool,
    /// The upper flags of the header, which carry further requests.
    pub upper_flags: u16,
    /// The burst period, if this end receives bursts.
    pub burst_period: Option<Duration>,
    /// The maximum number of unsent bytes in the sender's socket (`--tcp-write-prefetch`).
    pub prefetch: Option<u32>,
    /// Whether the UDP server sends no final report.
    pub no_udp_fin: bool,
    /// The type of service that the client requests; `None` if this server overrides it.
    pub type_of_service: Option<u8>,
    /// TCP's congestion control that the client requested.
    pub congestion_control: Option<String>,
    /// The client's version, if it sent one.
    pub peer_version: Option<String>,
    /// TCP's initial window in KByte, segment size in bytes, and round-trip time in microseconds.
    pub initial_tcp_state: Option<[u32; 3]>,
    /// The time that the connect call took.
    pub connect_time: Option<Duration>,
    /// The start of the test; `None` where stock does not print it.
    pub started: Option<SystemTime>,
}

/// What a sum of flows covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumScope {
    /// The two directions of the full-duplex connection with this number.
    Connection(u32),
    /// All flows, which are the two directions of one connection.
    OneConnection,
    /// All flows, which are the two directions of several full-duplex connections.
    Connections,
    /// All flows.
    All,
}

/// The segments of a TCP connection.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// The payload of a full outgoing segment, in bytes.
    pub bytes: u32,
    /// Segments sent and not yet acknowledged.
    pub in_flight: u32,
}

/// The parameters of a bounceback test.
#[derive(Clone, Copy, Debug)]
pub struct BouncebackInfo {
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a reply.
    pub reply_bytes: u32,
    /// The time that the server holds a request.
    pub hold: Duration,
    /// Whether both ends acknowledge without delay (`TCP_QUICKACK`).
    pub has_quick_ack: bool,
}

/// The figures of a flow, for one interval or the complete flow.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct FlowFigures {
    /// The start of the interval, relative to the start of the flow.
    pub start: Duration,
    /// The end of the interval, relative to the start of the flow.
    pub end: Duration,
    /// Whether this end sends.
    pub sends: bool,
    /// Whether the flow uses UDP.
    pub is_udp: bool,
    /// Payload bytes.
    pub bytes: u64,
    /// Send or receive calls.
    pub calls: u64,
    /// Failed send calls.
    pub failed_sends: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// The state of the TCP connection at the end of the interval.
    pub path: Option<PathSample>,
    /// The segments of the TCP connection at the end of the interval.
    pub segments: Option<Segments>,
    /// The counts of a UDP receiver.
    pub datagrams: Option<DatagramCounts>,
    /// Expected datagrams: the highest number, or its increase in the interval.
    pub expected_datagrams: u64,
    /// The latencies of transactions.
    pub latency: Option<Histogram>,
    /// The sent and the received bytes of transactions.
    pub transaction_bytes: [u64; 2],
    /// The number of receive calls per fill level of the buffer, in eighths.
    pub read_sizes: Option<[u64; 8]>,
    /// The kind of timed events, and their times.
    pub timing: Option<(TimingKind, TimingStats)>,
    /// The differences between the delays of successive datagrams (`--jitter-histograms`).
    pub jitter_times: Option<TimingStats>,
    /// Whether synchronised clocks allow one-way latencies (`--trip-times`).
    pub has_trip_times: bool,
    /// Whether a server reports the flow in the form of `-e`.
    pub is_detailed: bool,
    /// The addresses of sender and receiver, in this order.
    pub endpoints: Option<(Address, Address)>,
}

impl ConnectionInfo {
    /// Whether a server reports the flow in the form of `-e`: with trip times, or with a requested
    /// congestion control.
    pub fn is_detailed(&self) -> bool {
        self.has_trip_times || self.congestion_control.is_some()
    }
}

impl FlowFigures {
    /// Returns the figures between two readings of a flow that began at `start`.
    pub fn between(
        start: CounterReading,
        earlier: &CounterReading,
        now: &CounterReading,
        sends: bool,
    ) -> Self {
        let figures = Self::from_counts(&now.counts.since(&earlier.counts), sends);
        Self {
            start: earlier.at.saturating_duration_since(start.at),
            end: now.at.saturating_duration_since(start.at),
            ..figures
        }
    }

    /// Returns the figures of a complete flow, from one side of its outcome.
    pub fn from_side(side: &Side, sends: bool) -> Self {
        let figures = Self::from_counts(&side.counts, sends);
        Self {
            end: side.elapsed.unwrap_or_default(),
            retransmits: side.socket.retransmits.unwrap_or(0).into(),
            datagrams: side.datagrams,
            expected_datagrams: side
                .datagrams
                .map_or(0, |counts| counts.highest_number_counts.highest),
            latency: side.latency.clone(),
            ..figures
        }
    }

    fn from_counts(counts: &Counts, sends: bool) -> Self {
        let (bytes, calls) = if sends {
            (counts.sent, counts.send_calls)
        } else {
            (counts.received, counts.receive_calls)
        };
        Self {
            sends,
            bytes: bytes.0,
            calls,
            failed_sends: counts.failed_sends,
            ..Self::default()
        }
    }

    /// Adds the amounts of another flow. The times stay as they are.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.calls += other.calls;
        self.failed_sends += other.failed_sends;
        self.retransmits += other.retransmits;
        self.expected_datagrams += other.expected_datagrams;
        if let Some(other) = &other.read_sizes {
            let sums = self.read_sizes.get_or_insert_default();
            for (sum, other) in sums.iter_mut().zip(other) {
                *sum += other;
            }
        }
        if let (Some((_, sum)), Some((_, other))) = (&mut self.timing, &other.timing) {
            sum.add(other);
        }
        match (&mut self.datagrams, &other.datagrams) {
            (Some(sum), Some(other)) => sum.add(other),
            (sum @ None, Some(other)) => *sum = Some(*other),
            _ => {}
        }
    }

    /// Returns the payload rate; 0 for an interval without duration.
    pub fn bits_per_second(&self) -> f64 {
        let seconds = self.end.saturating_sub(self.start).as_secs_f64();
        if seconds > 0.0 {
            self.bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// Returns the number of skipped datagrams that did not arrive later, by stock's rule.
    pub fn lost(&self) -> u64 {
        let counts = self.datagrams.unwrap_or_default().highest_number_counts;
        counts.skipped.saturating_sub(counts.out_of_order)
    }

    /// Returns the number of datagrams that arrived after a higher number, or twice.
    pub fn out_of_order(&self) -> u64 {
        self.datagrams
            .unwrap_or_default()
            .highest_number_counts
            .out_of_order
    }
}
