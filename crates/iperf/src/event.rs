//! The events of a test, for its printer.

use std::time::{Duration, SystemTime};

use engine::Reading;
use model::{Counts, DatagramCounts, PathSample, Side};
use stats::Histogram;
use sys::Address;

use crate::tally::{Kind, Tally};
use crate::wire::ServerReport;

/// Receives events, from several threads.
pub trait Observer: Send + Sync {
    /// Receives one event.
    fn see(&self, event: &Event<'_>);
}

/// An event.
#[derive(Debug)]
pub enum Event<'a> {
    /// A server listens, or a client does for the server's connection.
    Listening {
        /// The first and the last port.
        ports: (u16, u16),
        /// SO_RCVBUF, as the kernel gave it.
        window: u32,
        /// The group that it joins.
        joins: Option<String>,
    },
    /// A client has its first socket.
    Connecting {
        /// The server, as it was typed.
        host: &'a str,
        /// The port.
        port: u16,
        /// SO_SNDBUF, as the kernel gave it; `None` without a socket.
        window: Option<u32>,
        /// Flows.
        flows: u32,
        /// Bytes a call or a datagram.
        length: u32,
        /// Bits of payload per second.
        rate: Option<f64>,
        /// A client's own test, not the one back that a client asked of a server.
        is_own: bool,
    },
    /// A connection is there, or its attempt has failed.
    Connected(&'a Connection),
    /// A connection is closed as it came: its permit key is wrong.
    Dropped(&'a Connection),
    /// When a flow's traffic begins; it may have been before now.
    Begins {
        /// The flow.
        id: &'a FlowId,
        /// Then.
        at: SystemTime,
        /// Now.
        now: SystemTime,
    },
    /// An interval of a flow.
    Interval(&'a FlowId, &'a Figures),
    /// A whole flow.
    Final(&'a FlowId, &'a Figures),
    /// The same of several flows together.
    Sum {
        /// How many.
        flows: usize,
        /// Both directions of one connection, and no other flow.
        of_connection: Option<u32>,
        /// Data goes in both directions.
        both_ways: bool,
        /// Of all their time, not of an interval.
        is_final: bool,
        /// All of them.
        figures: &'a Figures,
    },
    /// How long each connection took; `None` is one that failed.
    ConnectTimes(&'a [Option<Duration>]),
    /// A UDP sender's count.
    Sent(&'a FlowId, u64),
    /// A UDP server's report to its client.
    Report(&'a FlowId, &'a ServerReport),
    /// A line of the system's or of ours, for standard error.
    Trouble(String),
    /// A line for standard output.
    Said(String),
}

/// A flow's name in reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowId {
    /// From 1 in each process; 0 is a connection that never sent a header.
    pub number: u32,
    /// Data goes against the usual direction of this end's role.
    pub is_opposite: bool,
    /// The permit key.
    pub key: Option<String>,
}

/// A flow's connection.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a note of its own")]
pub struct Connection {
    /// The flow.
    pub id: FlowId,
    /// This end; `None` if there is no connection.
    pub local: Option<Address>,
    /// The other end.
    pub peer: Address,
    /// This end's device.
    pub device: Option<String>,
    /// The socket's number.
    pub socket: i32,
    /// The server sends alone.
    pub is_reverse: bool,
    /// Both ends send.
    pub is_full_duplex: bool,
    /// A test of requests and answers: their size, how long they are kept in microseconds, and whether no end delays
    /// acknowledgements.
    pub bounce: Option<(u32, u32, bool)>,
    /// Latencies by synchronised clocks.
    pub has_trip_times: bool,
    /// The other requests in the header's upper flags.
    pub upper: u16,
    /// From one burst to the next, where they come to this end.
    pub burst_period: Option<Duration>,
    /// Bytes that the sender keeps unsent at most.
    pub prefetch: Option<u32>,
    /// No report at the end.
    pub no_udp_fin: bool,
    /// The types of service of received and sent data.
    pub service: Option<(u8, u8)>,
    /// The client's version, if it sent one.
    pub peer_version: Option<String>,
    /// TCP's initial window in KByte, segment size in bytes, and round-trip time in microseconds.
    pub tcp: Option<[u32; 3]>,
    /// How long it took to connect.
    pub connect_time: Option<Duration>,
    /// The begin of the test; `None` where stock does not print it.
    pub started: Option<SystemTime>,
}

/// The figures of a flow, of an interval or of all its time.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The begin, since the flow's.
    pub from: Duration,
    /// The end.
    pub to: Duration,
    /// This end sends.
    pub sends: bool,
    /// Datagrams.
    pub is_udp: bool,
    /// Payload.
    pub bytes: u64,
    /// Send or receive calls.
    pub calls: u64,
    /// Send calls that failed.
    pub failed: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// The connection at the end.
    pub path: Option<PathSample>,
    /// The counts of a receiver of datagrams.
    pub datagrams: Option<DatagramCounts>,
    /// Datagrams that were due, the last one's number or those of the interval.
    pub due: u64,
    /// Times of transactions.
    pub latency: Option<Histogram>,
    /// Receive calls by eighths of the buffer.
    pub reads: Option<[u64; 8]>,
    /// What bursts, frames or calls are about, and their times.
    pub tally: Option<(Kind, Tally)>,
    /// Latencies by synchronised clocks.
    pub has_trip_times: bool,
    /// This end's connection, as CSV has it: sender and receiver.
    pub ends: Option<(Address, Address)>,
}

impl Figures {
    /// Returns the figures between two readings of a flow that began at `begun`.
    pub fn between(begun: Reading, earlier: &Reading, now: &Reading, sends: bool) -> Self {
        let figures = Self::of_counts(&now.counts.since(&earlier.counts), sends);
        Self {
            from: earlier.at.saturating_duration_since(begun.at),
            to: now.at.saturating_duration_since(begun.at),
            ..figures
        }
    }

    /// The whole of a flow, from its side of the outcome.
    pub fn of_side(side: &Side, sends: bool) -> Self {
        let figures = Self::of_counts(&side.counts, sends);
        Self {
            to: side.elapsed.unwrap_or_default(),
            retransmits: side.socket.retransmits.unwrap_or(0).into(),
            datagrams: side.datagrams,
            due: side.datagrams.map_or(0, |counts| counts.by_order.highest),
            latency: side.latency.clone(),
            ..figures
        }
    }

    fn of_counts(counts: &Counts, sends: bool) -> Self {
        let (bytes, calls) = if sends {
            (counts.sent, counts.send_calls)
        } else {
            (counts.received, counts.receive_calls)
        };
        Self {
            sends,
            bytes: bytes.0,
            calls,
            failed: counts.failed_sends,
            ..Self::default()
        }
    }

    /// Adds another flow's figures of the same time.
    pub fn add(&mut self, other: &Self) {
        self.to = self.to.max(other.to);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.calls += other.calls;
        self.failed += other.failed;
        self.retransmits += other.retransmits;
        self.due += other.due;
        if let (Some(sum), Some(other)) = (&mut self.reads, &other.reads) {
            for (sum, other) in sum.iter_mut().zip(other) {
                *sum += other;
            }
        }
        match (&mut self.datagrams, &other.datagrams) {
            (Some(sum), Some(other)) => sum.add(other),
            (sum @ None, Some(other)) => *sum = Some(*other),
            _ => {}
        }
    }

    /// Bits of payload per second; 0 where no time has passed.
    pub fn bits_per_second(&self) -> f64 {
        let seconds = self.to.saturating_sub(self.from).as_secs_f64();
        if seconds > 0.0 {
            self.bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// Numbers that were passed over and have not come, by stock's rule.
    pub fn lost(&self) -> u64 {
        let counts = self.datagrams.unwrap_or_default().by_order;
        counts.passed_over.saturating_sub(counts.out_of_order)
    }

    /// Datagrams that came behind one of a higher number, or again.
    pub fn out_of_order(&self) -> u64 {
        self.datagrams.unwrap_or_default().by_order.out_of_order
    }
}
