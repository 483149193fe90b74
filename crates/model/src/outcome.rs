//! What was measured: counts and times, the Plan they came from, the hosts they were measured on.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use stats::{ClockFit, Histogram, Packet, PacketFigures};
use units::Bytes;

use crate::plan::nanos;
use crate::{
    DatagramCounts, FlowShare, GroupOutcome, LogEntry, Pacing, PacketRecord, PeerOutcome, Plan,
    Series, Spaced, Totals, Warning,
};

/// The result of one Plan. There is always one, however the run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What was run.
    pub plan: Plan,
    /// When the measured phase began, by the wall clock; for labels only.
    pub started: SystemTime,
    /// What this end measured.
    pub here: Side,
    /// What the peer told of its end, by whatever protocol; `None` if it told nothing.
    pub there: Option<Side>,
    /// What each of several flows did; empty when there was one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowShare>,
    /// Each peer, where there were several, or where one reported only totals; otherwise empty: the one's side is
    /// `there`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerOutcome>,
    /// What each group of the plan did; empty when there was one, whose totals are `here`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupOutcome>,
    /// What groups of transactions did over the time in which any of them ran, without what was spent
    /// between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Totals>,
    /// What this end had moved at times on a grid, where somebody looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// A record of each datagram, where the plan asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<PacketRecord>,
    /// The peer's clock relative to this end's, where packets are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_fit: Option<ClockFit>,
    /// What was reported while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogEntry>,
    /// Why it ended.
    pub ended: Ended,
    /// Workers and peers that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// Doubts about the result, with their evidence.
    pub warnings: Vec<Warning>,
}

impl Outcome {
    /// The outcome of one flow, of which nothing is known but its two sides and why it ended.
    pub fn of_flow(
        plan: Plan,
        started: SystemTime,
        here: Side,
        there: Option<Side>,
        ended: Ended,
    ) -> Self {
        Self {
            plan,
            started,
            here,
            there,
            flows: Vec::new(),
            peers: Vec::new(),
            groups: Vec::new(),
            active: None,
            series: Vec::new(),
            packets: Vec::new(),
            clock_fit: None,
            log: Vec::new(),
            ended,
            failures: 0,
            warnings: Vec::new(),
        }
    }
    /// Computes the figures of the packet records, which takes time in proportion to their number; `None` without records.
    pub fn packet_figures(&self) -> Option<PacketFigures> {
        let packets: Vec<Packet> = self.packets.iter().map(Packet::from).collect();
        PacketFigures::of(&packets)
    }
}

/// One end's figures. What the end did not measure or could not tell is `None`, never zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// What was moved within the measured phase.
    pub counts: Counts,
    /// The measured phase by the monotonic clock, including the drain of the connection.
    #[serde(rename = "elapsed_ns", with = "optional_nanos")]
    pub elapsed: Option<Duration>,
    /// The data socket, as the kernel had it.
    pub socket: SocketFacts,
    /// Settings that were asked for and that the system refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// The buffers in force.
    pub buffers: BuffersUsed,
    /// Times of whole passes (transactions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Histogram>,
    /// Times of single send calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_times: Option<Histogram>,
    /// Times of single receive calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_times: Option<Histogram>,
    /// What became of the schedule, when there was one.
    #[serde(default)]
    pub paced: Option<Paced>,
    /// From the beginning of one interval's passes to that of the next one's, as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_gaps: Option<Histogram>,
    /// What became of the times of single datagrams.
    #[serde(skip)]
    pub spaced: Option<Spaced>,
    /// What the receiver of numbered datagrams knows of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramCounts>,
    /// Smoothed round-trip times (`tcpi_rtt`), looked at many times a second: not those of single segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoothed_rtt: Option<Histogram>,
    /// CPU time of the thread that moved the data, over the measured phase.
    #[serde(default, rename = "thread_cpu_ns", with = "optional_nanos")]
    pub thread_cpu: Option<Duration>,
    /// The host's CPU time over the measured phase.
    pub cpu: Option<CpuUse>,
    /// The host.
    pub host: Option<HostFacts>,
    /// The interface that the data leaves the host by.
    pub interface: Option<Interface>,
    /// What each of its interfaces carried, where somebody asked for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Interfaces>,
    /// The clock, where times were kept.
    pub clock: Option<ClockFacts>,
    /// The program that measured, with its version, if it says who it is.
    pub program: Option<String>,
}

/// What became of a [`Pacing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paced {
    /// Passes that were begun, also such as moved nothing.
    pub passes: u64,
    /// From the schedule's beginning to the end of the loop.
    #[serde(rename = "elapsed_ns", with = "nanos")]
    pub elapsed: Duration,
    /// Intervals that were begun.
    pub intervals: u64,
    /// Of these, begun only when the next one was already due.
    pub late_intervals: u64,
    /// By how much the latest one was.
    #[serde(rename = "worst_lag_ns", with = "nanos")]
    pub worst_lag: Duration,
    /// Spent waiting for the next interval: no part of what an operation took.
    #[serde(rename = "waited_ns", with = "nanos")]
    pub waited: Duration,
}

impl Paced {
    /// Passes a second, as they were; `None` when no time passed.
    pub fn rate(&self) -> Option<f64> {
        (!self.elapsed.is_zero()).then(|| self.passes as f64 / self.elapsed.as_secs_f64())
    }

    /// Passes that were due in intervals that are over, and were not begun.
    pub fn behind(&self, pacing: &Pacing) -> u64 {
        let over = self.elapsed.as_nanos() / pacing.interval.as_nanos().max(1);
        let due = u128::from(pacing.burst).saturating_mul(over);
        u64::try_from(due)
            .unwrap_or(u64::MAX)
            .saturating_sub(self.passes)
    }
}

/// What one end moved. Bytes are payload as this end's calls returned them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytes that send calls took.
    #[serde(rename = "sent_bytes")]
    pub sent: Bytes,
    /// Bytes that receive calls gave within the test's time.
    #[serde(rename = "received_bytes")]
    pub received: Bytes,
    /// Datagram bytes that came after the test's time, while it drained. They are no throughput.
    #[serde(rename = "received_late_bytes")]
    pub received_late: Bytes,
    /// Receive calls behind `received_late`.
    pub receive_calls_late: u64,
    /// Send calls that moved data; of a method that sends in batches, the messages.
    pub send_calls: u64,
    /// Receive calls that gave data; of a method that receives in batches, the messages.
    pub receive_calls: u64,
    /// Calls behind `send_calls` that sent a batch; 0 where each message had its own call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub send_batches: u64,
    /// Calls behind `receive_calls` that received a batch; 0 where each message had its own call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receive_batches: u64,
    /// Send calls that the kernel refused for want of buffers (ENOBUFS).
    pub failed_sends: u64,
    /// Passes of a transactional workload that were completed.
    pub transactions: u64,
    /// Executions of the steps of a list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operations: u64,
    /// Executions among them that failed and were allowed to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_operations: u64,
}

impl Counts {
    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        (self.sent + self.received).0
    }

    /// The counts that were added after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.combined(earlier, |now, before| now - before)
    }

    fn combined(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let bytes = |one: Bytes, other: Bytes| Bytes(of(one.0, other.0));
        Self {
            sent: bytes(self.sent, other.sent),
            received: bytes(self.received, other.received),
            received_late: bytes(self.received_late, other.received_late),
            receive_calls_late: of(self.receive_calls_late, other.receive_calls_late),
            send_calls: of(self.send_calls, other.send_calls),
            receive_calls: of(self.receive_calls, other.receive_calls),
            send_batches: of(self.send_batches, other.send_batches),
            receive_batches: of(self.receive_batches, other.receive_batches),
            failed_sends: of(self.failed_sends, other.failed_sends),
            transactions: of(self.transactions, other.transactions),
            operations: of(self.operations, other.operations),
            failed_operations: of(self.failed_operations, other.failed_operations),
        }
    }

    /// Messages of an average batch; `None` where each message had its own call.
    pub fn batch(&self) -> Option<f64> {
        let batches = self.send_batches.saturating_add(self.receive_batches);
        let messages = |batches, calls| if batches > 0 { calls } else { 0 };
        let moved = messages(self.send_batches, self.send_calls)
            .saturating_add(messages(self.receive_batches, self.receive_calls));
        (batches > 0).then(|| moved as f64 / batches as f64)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        // A peer's counts may be anything.
        *self = self.combined(&other, u64::saturating_add);
    }
}

/// A data socket, as the kernel had it: asked for is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketFacts {
    /// SO_SNDBUF before the first operation.
    pub send_buffer_bytes: Option<u32>,
    /// SO_SNDBUF at the end; the kernel grows it on the way.
    pub send_buffer_end_bytes: Option<u32>,
    /// SO_RCVBUF before the first operation.
    pub receive_buffer_bytes: Option<u32>,
    /// SO_RCVBUF at the end.
    pub receive_buffer_end_bytes: Option<u32>,
    /// LLC_OPT_TX_WIN: frames that may be on their way.
    pub send_window_frames: Option<u32>,
    /// LLC_OPT_RX_WIN.
    pub receive_window_frames: Option<u32>,
    /// TCP_MAXSEG of the connection.
    pub max_segment_bytes: Option<u32>,
    /// Segments that TCP sent again (`tcpi_total_retrans`).
    pub retransmits: Option<u32>,
    /// The congestion control algorithm in force.
    pub congestion_control: Option<String>,
    /// TCP_NODELAY.
    pub no_delay: Option<bool>,
    /// TCP_CORK.
    pub cork: Option<bool>,
    /// Whether Multipath TCP was in force to the end; `None` where it was not asked for, or is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<bool>,
    /// Whether the peer took data with the first segment (TCP Fast Open); likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_in_syn: Option<bool>,
    /// Datagrams that came and that the socket dropped, above all for want of room in its buffer
    /// (SO_MEMINFO); `None` of a transport without datagrams, or where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// SO_PRIORITY.
    pub priority: Option<i32>,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: Option<i32>,
}

/// A setting that the system refused, where the test goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The setting's name, as the manual pages have it: `SO_PRIORITY`.
    pub setting: String,
    /// The value that was asked for.
    pub asked: String,
    /// The system's reason.
    pub why: String,
}

/// What the rules for sizes and widths came to; `None` where the end does not use the direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuffersUsed {
    /// Bytes a send call.
    pub send_bytes: Option<u32>,
    /// Buffers in the send ring.
    pub send_width: Option<u32>,
    /// Bytes a receive call.
    pub receive_bytes: Option<u32>,
    /// Buffers in the receive ring.
    pub receive_width: Option<u32>,
}

/// A host's CPU time over the measured phase, in percent of all its CPUs' time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// What worked for this host: not idle, not waiting for a disk, not stolen.
    pub busy_percent: f64,
    /// In user space, nice time not included.
    pub user_percent: f64,
    /// In the kernel.
    pub system_percent: f64,
    /// Idle with a disk request outstanding.
    pub iowait_percent: f64,
    /// In hardware interrupts.
    pub irq_percent: f64,
    /// In software interrupts.
    pub softirq_percent: f64,
    /// Taken by the hypervisor for other guests; `None` where the peer cannot tell.
    pub steal_percent: Option<f64>,
    /// How many CPUs are online.
    pub cpus: u32,
    /// The busiest CPU's number and its share of its own time.
    pub peak: Option<(u32, f64)>,
    /// How it was found out.
    pub method: CpuMethod,
    /// Each CPU's number and its share of its own time; empty where the peer cannot tell.
    #[serde(default)]
    pub each: Vec<(u32, f64)>,
}

/// How CPU time was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuMethod {
    /// /proc/stat: proc(5).
    ProcStat,
    /// The idle cycles that a loop of the lowest priority was left; all but this figure, the busiest
    /// CPU and each CPU's share is of /proc/stat.
    Looper,
    /// A method that only a peer has, by the code that it gave.
    Peer(u32),
}

/// A host, as far as it bears on what it measures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// `uname -sr`.
    pub kernel: Option<String>,
    /// `uname -v`.
    pub kernel_version: Option<String>,
    /// The machine's architecture.
    pub machine: Option<String>,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// The first CPU's model name.
    pub cpu_model: Option<String>,
    /// The first CPU's frequency when it was looked at, in MHz.
    pub cpu_mhz: Option<u32>,
    /// The machine's model, by its firmware (DMI, or the device tree).
    pub system_model: Option<String>,
    /// The mandatory access control that the kernel runs with.
    pub security: Option<Security>,
    /// The MTU of the path's first hop, in bytes.
    pub mtu_bytes: Option<u32>,
    /// The host's default congestion control.
    pub congestion_control: Option<String>,
    /// Whether a hypervisor runs this host as a guest.
    pub virtual_guest: Option<bool>,
    /// An identity of the running system, to tell whether two ends share a host.
    pub boot_id: Option<String>,
}

/// A network interface, and what drives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The driver's name; `None` where there is none.
    pub driver: Option<String>,
    /// The driver's version.
    pub driver_version: Option<String>,
    /// The device's firmware, if the driver tells.
    pub firmware: Option<String>,
    /// Where the device sits, in the bus's own words.
    pub bus: Option<String>,
    /// The name of the PCI slot, if it has one.
    pub slot: Option<String>,
    /// The PCI device; `None` where it is none.
    pub pci: Option<PciIds>,
    /// What it carried from before the first operation to after the last.
    pub traffic: Option<Traffic>,
}

/// The numbers that a PCI device is known by: pci.ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are the field's names")]
pub struct PciIds {
    pub vendor: u16,
    pub device: u16,
    pub subvendor: u16,
    pub subdevice: u16,
}

/// What an interface carried, of this flow and of all others, as its driver counts: bytes with the
/// link's headers, and with segmentation offload packets of up to 64 KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is one counter, named as it is")]
pub struct Traffic {
    pub received_packets: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub sent_bytes: u64,
}

/// What the interfaces of a host carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interfaces {
    /// From the first look at their counters to the second.
    #[serde(rename = "elapsed_ns", with = "nanos")]
    pub elapsed: Duration,
    /// Each of them, with or without traffic.
    pub each: Vec<InterfaceTraffic>,
}

/// What one of them carried between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceTraffic {
    /// Its name.
    pub name: String,
    /// What it carried.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// It was not there at the first look.
    #[serde(default)]
    pub came_online: bool,
}

/// What the clock that times are taken with adds to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// A reading, in nanoseconds. A time has one in it.
    pub cost_ns: f64,
    /// The clock's step, in nanoseconds.
    pub resolution_ns: u64,
}

/// Mandatory access control: the first of the kernel's security modules that confines programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// Which module; `None` when the kernel runs with none.
    pub module: Option<SecurityModule>,
    /// Whether it forbids, or only logs what it would forbid; `None` where it does not say.
    pub enforcing: Option<bool>,
    /// SELinux: the name of the policy. Others: the profile or label of this process.
    pub policy: Option<String>,
}

/// A security module that confines programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are their names")]
pub enum SecurityModule {
    SeLinux,
    AppArmor,
    Smack,
    Tomoyo,
}

impl SecurityModule {
    /// How it writes its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SeLinux => "SELinux",
            Self::AppArmor => "AppArmor",
            Self::Smack => "Smack",
            Self::Tomoyo => "TOMOYO",
        }
    }

    /// A number that stands for it where there is room for no more.
    pub fn number(self) -> u8 {
        match self {
            Self::SeLinux => 1,
            Self::AppArmor => 2,
            Self::Smack => 3,
            Self::Tomoyo => 4,
        }
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The time was up.
    Deadline,
    /// The bytes or transactions were all moved.
    Count,
    /// The peer ended the data.
    PeerClosed,
    /// Somebody here wanted it to end (an interrupt).
    Cancelled,
    /// It could not go on; the text says why, in one line.
    Failed(String),
}

pub(crate) mod optional_nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(
        clippy::ref_option,
        reason = "serde's `with` passes the field by reference"
    )]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(|d| d.as_nanos() as u64).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_nanos))
    }
}
