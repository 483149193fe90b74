//! What to run, every default explicit or a named rule.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{DatagramFormat, Transaction, Transport};

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

/// One step of a workload, on the flow's one connection.
///
/// Nothing in it says that an operation blocks: straight loops run the common lists, and a state
/// machine over readiness could walk the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Open a connection from a new local port.
    Connect,
    /// Take the next connection from the listener.
    Accept,
    /// One send call of the send buffer's size (or one file range, see [`Half::send_from_file`]).
    Send,
    /// One receive call of at most the receive buffer's size.
    Receive,
    /// Receive calls until a whole receive buffer has come.
    ReceiveAll,
    /// End this end's stream.
    HalfClose,
    /// Wait for the peer's end of stream.
    AwaitClose,
    /// Close the connection.
    Close,
}

/// What one end does: `body` over and over until the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Workload {
    /// The repeated operations, in order.
    pub body: Vec<Operation>,
}

impl Workload {
    /// Send without pause.
    pub fn send() -> Self {
        Self {
            body: vec![Operation::Send],
        }
    }

    /// Receive without pause.
    pub fn receive() -> Self {
        Self {
            body: vec![Operation::Receive],
        }
    }

    /// Send a request, await the whole response.
    pub fn ask() -> Self {
        Self {
            body: vec![Operation::Send, Operation::ReceiveAll],
        }
    }

    /// Await a whole request, send the response.
    pub fn answer() -> Self {
        Self {
            body: vec![Operation::ReceiveAll, Operation::Send],
        }
    }

    /// [`Workload::ask`] on a new connection each time, which the peer closes.
    pub fn connect_and_ask() -> Self {
        use Operation::{AwaitClose, Close, Connect, ReceiveAll, Send};
        Self {
            body: vec![Connect, Send, ReceiveAll, AwaitClose, Close],
        }
    }

    /// [`Workload::answer`] on a new connection each time.
    pub fn accept_and_answer() -> Self {
        use Operation::{Accept, Close, ReceiveAll, Send};
        Self {
            body: vec![Accept, ReceiveAll, Send, Close],
        }
    }

    /// Open a connection, which the peer closes, over and over.
    pub fn connect_and_close() -> Self {
        use Operation::{AwaitClose, Close, Connect};
        Self {
            body: vec![Connect, AwaitClose, Close],
        }
    }

    /// Accept a connection and close it, over and over.
    pub fn accept_and_close() -> Self {
        Self {
            body: vec![Operation::Accept, Operation::Close],
        }
    }

    /// The peer's operations during these. Messages that are answered are received whole; of a connection a pass, the
    /// end that accepts closes first.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        use Operation::{Accept, AwaitClose, Close, Connect, HalfClose, Receive, ReceiveAll, Send};
        let accepts = self.body.contains(&Accept);
        let mirrored = |operation: &Operation| match operation {
            Connect => vec![Accept],
            Accept => vec![Connect],
            Send if self.is_transactional() => vec![ReceiveAll],
            Send => vec![Receive],
            Receive | ReceiveAll => vec![Send],
            HalfClose | AwaitClose => vec![],
            Close if accepts => vec![AwaitClose, Close],
            Close => vec![Close],
        };
        Self {
            body: self.body.iter().flat_map(mirrored).collect(),
        }
    }

    /// The same with this end's stream ended before the peer's end is awaited, where it is in each
    /// pass: for a peer that does not close by itself.
    #[must_use]
    pub fn closing_first(mut self) -> Self {
        if let Some(at) = self.body.iter().position(|op| *op == Operation::AwaitClose) {
            self.body.insert(at, Operation::HalfClose);
        }
        self
    }

    /// Whether one pass of the body is a transaction: data in both directions, or a connection.
    pub fn is_transactional(&self) -> bool {
        self.connects() || (self.sends() && self.receives())
    }

    /// Whether every pass has a connection of its own.
    pub fn connects(&self) -> bool {
        self.body
            .iter()
            .any(|op| matches!(op, Operation::Connect | Operation::Accept))
    }

    /// Whether this end sends data.
    pub fn sends(&self) -> bool {
        self.body.contains(&Operation::Send)
    }

    /// Whether this end receives data.
    pub fn receives(&self) -> bool {
        self.body
            .iter()
            .any(|op| matches!(op, Operation::Receive | Operation::ReceiveAll))
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

/// One end's part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one choice of the user's, independent of the others"
)]
pub struct Half {
    /// What is set on the data socket.
    pub socket: SocketOptions,
    /// What is sent.
    pub send: BufferPlan,
    /// What is received into.
    pub receive: BufferPlan,
    /// A file whose contents fill the buffers; `None` is the dialect's own pattern.
    pub fill: Option<PathBuf>,
    /// Send with sendfile(2) from the fill file (or a temporary one) instead of from memory.
    pub send_from_file: bool,
    /// With it: send the fill file once, to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_file_once: bool,
    /// Receive with splice(2) to the null device instead of into memory.
    pub discard_in_kernel: bool,
    /// Use write(2) where send(2) would do.
    pub write_instead_of_send: bool,
    /// Which calls move one-way datagrams.
    #[serde(default, skip_serializing_if = "IoMethod::is_plain")]
    pub io: IoMethod,
    /// How many passes an interval; `None` is as fast as it goes.
    pub pacing: Option<Pacing>,
    /// What is done with the data beside moving it.
    pub touch: Touch,
    /// The CPU that this end's thread is bound to.
    pub cpu: Option<u32>,
    /// Account the CPU time of the whole host over the measured phase.
    pub measure_cpu: bool,
    /// In a connection test of the connecting end, ask each connection before it closes what it has
    /// sent again: a call more a connection. A connection that lasts is asked at its end anyway.
    pub count_retransmits: bool,
    /// Count receive calls by how much of their buffer they filled, in eighths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_receive_sizes: bool,
    /// Do so by soaking up idle cycles, instead of by the kernel's counters.
    pub idle_loop: Option<IdleLoop>,
}

/// A schedule: `burst` passes of the workload at the beginning of each interval. It counts from the
/// first pass and does not move: an interval that begins late is caught up with at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacing {
    /// Passes (sends, receives, transactions) an interval, at least 1.
    pub burst: u64,
    /// From the beginning of one interval to that of the next, not 0.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// How the next interval is awaited.
    pub wait: Wait,
}

impl Pacing {
    /// Bits per second in blocks of so many bytes, `burst` of them at a time; `None` if that is no schedule: a rate or
    /// size of 0, or more blocks than any machine moves.
    pub fn of_bits(bits_per_second: u64, block_bytes: u32, burst: u64) -> Option<Self> {
        Self::of_passes(u128::from(block_bytes) * 8, bits_per_second, burst)
    }

    /// Packets per second.
    pub fn of_packets(per_second: u64, burst: u64) -> Option<Self> {
        Self::of_passes(1, per_second, burst)
    }

    /// A schedule for `rate` units per second, of which a pass has `units`. An interval is a whole number of
    /// nanoseconds: a burst is repeated as often as it takes to have that change the rate by no more than 10 ppm.
    fn of_passes(units: u128, rate: u64, burst: u64) -> Option<Self> {
        /// Of a longer interval half a nanosecond is less than 10 ppm.
        const LONG_NS: u128 = 50_000;
        if units == 0 || rate == 0 {
            return None;
        }
        let burst = burst.max(1);
        let interval = |times: u64| {
            let scaled = units * u128::from(burst.saturating_mul(times)) * 1_000_000_000;
            let nanos = (scaled + u128::from(rate) / 2) / u128::from(rate);
            let off = scaled.abs_diff(nanos * u128::from(rate));
            let is_near = nanos >= LONG_NS || (nanos > 0 && off * 100_000 <= scaled);
            is_near.then_some((nanos, times))
        };
        let (nanos, times) = (1..=1 << 16).find_map(interval)?;
        Some(Self {
            burst: burst.saturating_mul(times),
            interval: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            wait: Wait::default(),
        })
    }

    /// Passes a second when the schedule is held.
    pub fn rate(&self) -> f64 {
        self.burst as f64 / self.interval.as_secs_f64()
    }
}

/// Calls that move one-way data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMethod {
    /// One datagram per call.
    #[default]
    Plain,
    /// Several datagrams per call: sendmmsg(2), recvmmsg(2).
    Mmsg,
    /// Several datagrams of one size in one buffer, which the kernel cuts or joins: UDP_SEGMENT, UDP_GRO, udp(7).
    Gso,
    /// Received data is not copied: MSG_TRUNC, tcp(7). Of a datagram the beginning is.
    Trunc,
}

impl IoMethod {
    /// Whether each datagram has its own call.
    pub fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// How time is let pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// By sleeping: the thread wakes some microseconds late, and takes no CPU time.
    #[default]
    Sleep,
    /// By looking at the clock: right to a fraction of a microsecond, and takes a CPU.
    Spin,
    /// By spinning for at most half of an interval, and sleeping before that: for an end that another one directs.
    SpinHalf,
}

/// What an end does with the data beside moving it, as a program that uses its data would: so many
/// bytes from the beginning of a buffer. `None` where nothing was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// Modified before a send call.
    pub send_dirty_bytes: Option<u32>,
    /// Modified after a receive call, of what it gave.
    pub receive_dirty_bytes: Option<u32>,
    /// Read after a receive call, of what it gave: behind what was modified.
    pub receive_clean_bytes: Option<u32>,
}

impl Touch {
    /// Whether it is anything at all.
    pub fn is_some(&self) -> bool {
        [
            self.send_dirty_bytes,
            self.receive_dirty_bytes,
            self.receive_clean_bytes,
        ]
        .iter()
        .any(|bytes| bytes.is_some_and(|bytes| bytes > 0))
    }
}

/// A loop that counts on each CPU when nothing else runs there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleLoop {
    /// What an idle CPU counts in a second; `None` is to be found out first.
    #[serde(rename = "counts_per_second")]
    pub rate: Option<f64>,
}

/// What is set on a data socket; a `None` or `false` leaves the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one socket option, as the manual pages list them"
)]
pub struct SocketOptions {
    /// SO_SNDBUF in bytes, as asked for: socket(7).
    pub send_buffer_bytes: Option<u32>,
    /// SO_RCVBUF in bytes, as asked for.
    pub receive_buffer_bytes: Option<u32>,
    /// TCP_NODELAY: tcp(7).
    pub no_delay: bool,
    /// TCP_CORK.
    pub cork: bool,
    /// TCP_MAXSEG in bytes.
    pub max_segment_bytes: Option<u32>,
    /// TCP_DEFER_ACCEPT, with this many seconds.
    pub defer_accept_seconds: Option<u32>,
    /// TCP Fast Open: data with the first segment.
    pub fast_open: bool,
    /// SO_KEEPALIVE.
    pub keep_alive: bool,
    /// SO_DONTROUTE: only to hosts on a directly connected network.
    pub dont_route: bool,
    /// SO_PRIORITY.
    pub priority: Option<i32>,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: Option<u8>,
    /// TCP_CONGESTION: the algorithm's name.
    pub congestion_control: Option<String>,
    /// Connect a datagram socket, so that only the peer's datagrams are taken.
    pub connect_datagrams: bool,
    /// Answer a datagram from the address that it was sent to (IP_PKTINFO).
    pub answer_from_destination: bool,
    /// Give up waiting for a datagram after this long and send the next request.
    #[serde(rename = "receive_timeout_ns", with = "crate::outcome::optional_nanos")]
    pub receive_timeout: Option<Duration>,
    /// SO_DEBUG.
    pub debug: bool,
    /// IP_MULTICAST_TTL.
    pub multicast_ttl: Option<u8>,
    /// O_NONBLOCK, with poll(2) where a call would wait.
    pub non_blocking: bool,
    /// LLC_OPT_TX_WIN: frames that this end may have on their way.
    pub send_window_frames: Option<u32>,
    /// LLC_OPT_RX_WIN: frames that the peer may have on their way.
    pub receive_window_frames: Option<u32>,
    /// SO_MAX_PACING_RATE in bytes per second: the kernel paces (tc-fq(8), or TCP itself).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pacing_bytes_per_second: Option<u64>,
    /// SO_BINDTODEVICE: the interface's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// IP_MTU_DISCOVER: packets go unfragmented (IPv4), or not at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub do_not_fragment: bool,
    /// TCP_USER_TIMEOUT in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout_ms: Option<u32>,
    /// TCP_WINDOW_CLAMP in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_clamp_bytes: Option<u32>,
    /// TCP_NOTSENT_LOWAT in bytes: a socket with more unsent is not writable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_low_water_bytes: Option<u32>,
    /// TCP_QUICKACK: acknowledgements are not delayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick_ack: bool,
}

/// The buffers of one direction: a ring, used round robin, one buffer a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPlan {
    /// Bytes a call.
    pub size: SizeRule,
    /// How many buffers.
    pub width: WidthRule,
    /// Each buffer starts at a multiple of this power of two, in bytes …
    pub alignment: u32,
    /// … and this many bytes further.
    pub offset: u32,
}

impl Default for BufferPlan {
    fn default() -> Self {
        Self {
            size: SizeRule::SocketBuffer,
            width: WidthRule::CoverSocketBuffer,
            alignment: 8,
            offset: 0,
        }
    }
}

impl BufferPlan {
    /// One buffer that holds a message of `bytes`.
    pub fn message(bytes: u32) -> Self {
        Self {
            size: SizeRule::Bytes(bytes),
            width: WidthRule::Buffers(1),
            ..Self::default()
        }
    }
}

/// How many bytes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeRule {
    /// This many.
    Bytes(u32),
    /// As many as the socket's buffer has, as the kernel gives it (for UDP at most 65,507).
    SocketBuffer,
}

/// How many buffers a ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WidthRule {
    /// This many.
    Buffers(u32),
    /// One more than fill the socket's buffer, at least two: what is being sent is not touched.
    CoverSocketBuffer,
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
    fn a_rate_becomes_intervals_of_whole_nanoseconds() {
        for (bits, bytes, burst, expected) in [
            // 1470 bytes at 1 Mbit/s as iperf has it.
            (1 << 20, 1470, 1, (1, 11_215_210)),
            (1_000_000_000, 1472, 1, (1, 11_776)),
            (5_000_000_000, 131_072, 1, (1, 209_715)),
            (5_000_000_000, 1470, 4, (4, 9_408)),
            // 116.66… ns.
            (12_000_000_000, 175, 1, (3, 350)),
        ] {
            let pacing = Pacing::of_bits(bits, bytes, burst).unwrap();
            let nanos = pacing.interval.as_nanos();
            assert_eq!((pacing.burst, nanos), expected, "{bits} {bytes}");
        }
        assert_eq!(Pacing::of_bits(0, 1, 1), None);
        assert_eq!(Pacing::of_packets(100, 1).unwrap().interval.as_millis(), 10);
        for step in 1..2000_u64 {
            // Up to 100 Gbit/s in steps that divide nothing, of the smallest datagrams and of blocks.
            let bits = step * 50_000_017;
            for bytes in [16, 1448, 65_507, 131_072] {
                let pacing = Pacing::of_bits(bits, bytes, 1).unwrap();
                let rate = pacing.rate() * f64::from(bytes) * 8.0;
                assert!((rate / bits as f64 - 1.0).abs() < 1.1e-5, "{bits} {bytes}");
            }
        }
        // No machine makes more than a pass a nanosecond.
        assert_eq!(Pacing::of_bits(u64::MAX, 1, 1), None);
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
