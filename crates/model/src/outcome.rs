//! Results of a Plan: counts, times, and facts about the sockets and hosts.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use stats::{ClockFit, Histogram, Packet, PacketFigures};
use units::Bytes;

use crate::nanos::{Nanos, OptionalNanos};
use crate::{
    DatagramCounts, FlowOutcome, GroupOutcome, LogEntry, Pacing, PacketRecord, PeerOutcome, Plan,
    Series, SpacingResult, Totals, Warning,
};

/// The result of one Plan. A failed run has an Outcome too.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The plan that was run.
    pub plan: Plan,
    /// Start of the measured phase by the wall clock; only for labels.
    pub started: SystemTime,
    /// Results of this end.
    pub local: Side,
    /// Results reported by the peer; `None` if it reported none.
    pub remote: Option<Side>,
    /// Results of each flow; empty for a single flow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowOutcome>,
    /// Results of each peer, if there are several peers or if one reported only totals. Otherwise
    /// empty, and the peer's results are in `remote`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerOutcome>,
    /// Results of each group of the plan; empty for a single group, whose totals are in `local`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupOutcome>,
    /// Totals of all groups of transactions. The elapsed time excludes the pauses between
    /// transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Totals>,
    /// Samples of this end's counts at regular intervals, if sampling is on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// A record of each datagram, if the plan requests it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<PacketRecord>,
    /// The peer's clock relative to this end's, if packets are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_fit: Option<ClockFit>,
    /// Messages reported during the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogEntry>,
    /// The reason for the end.
    pub ended: EndCause,
    /// Number of failed workers and peers.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// Warnings about the result, with their evidence.
    pub warnings: Vec<Warning>,
}

impl Outcome {
    /// Returns the outcome of one flow with the results of both ends and no other results.
    pub fn for_flow(
        plan: Plan,
        started: SystemTime,
        local: Side,
        remote: Option<Side>,
        ended: EndCause,
    ) -> Self {
        Self {
            plan,
            started,
            local,
            remote,
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

    /// Returns the time in which the data arrived. A peer that receives may count data for longer
    /// than this end sends, for example until the end of a queue on the path.
    pub fn arrival_time(&self) -> Option<Duration> {
        let is_upload = self.plan.sends() && !self.plan.receives();
        let remote = self.remote.as_ref();
        let remote = remote.filter(|_| is_upload || self.plan.is_bidirectional());
        let local = self.local.elapsed?;
        Some(local.max(remote.and_then(|side| side.elapsed).unwrap_or_default()))
    }

    /// Computes the figures of the packet records; `None` without records. The time is proportional
    /// to their number.
    pub fn packet_figures(&self) -> Option<PacketFigures> {
        let packets: Vec<Packet> = self.packets.iter().map(Packet::from).collect();
        PacketFigures::from_packets(&packets)
    }
}

/// Results of one end. Values that the end did not measure or report are `None`, never zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// Counts of the measured phase.
    pub counts: Counts,
    /// Duration of the measured phase by the monotonic clock, including the drain of the
    /// connection.
    #[serde(rename = "elapsed_ns", with = "OptionalNanos")]
    pub elapsed: Option<Duration>,
    /// Options of the data socket, as the kernel reported them.
    pub socket: SocketFacts,
    /// Requested settings that the system refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedSetting>,
    /// Sizes and numbers of the buffers used.
    pub buffers: BufferSizes,
    /// Times of whole passes (transactions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Histogram>,
    /// Times of single send calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_times: Option<Histogram>,
    /// Times of single receive calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_times: Option<Histogram>,
    /// Result of the schedule, if there was one.
    #[serde(default)]
    pub pacing_result: Option<PacingResult>,
    /// Measured times from the start of one interval's passes to the start of the next interval's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_gaps: Option<Histogram>,
    /// Result of the schedule for single datagrams.
    #[serde(skip)]
    pub spacing_result: Option<SpacingResult>,
    /// Counts of the receiver of numbered datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramCounts>,
    /// Smoothed round-trip times (`tcpi_rtt`), sampled many times per second. These are not the
    /// round-trip times of single segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoothed_rtt: Option<Histogram>,
    /// CPU time of the thread that moved the data, over the measured phase.
    #[serde(default, rename = "thread_cpu_ns", with = "OptionalNanos")]
    pub thread_cpu: Option<Duration>,
    /// The host's CPU time over the measured phase.
    pub cpu: Option<CpuUse>,
    /// Facts about the host.
    pub host: Option<HostFacts>,
    /// The interface that sends the data.
    pub interface: Option<Interface>,
    /// Traffic of each interface, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Interfaces>,
    /// Cost and resolution of the clock, if times were recorded.
    pub clock: Option<ClockFacts>,
    /// The measuring program and its version, if reported.
    pub program: Option<String>,
}

/// Result of a [`Pacing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacingResult {
    /// Started passes, including those that moved no data.
    pub passes: u64,
    /// Time from the start of the schedule to the end of the loop.
    #[serde(rename = "elapsed_ns", with = "Nanos")]
    pub elapsed: Duration,
    /// Started intervals.
    pub intervals: u64,
    /// Intervals that started after the next one was due.
    pub late_intervals: u64,
    /// Largest delay of an interval.
    #[serde(rename = "worst_lag_ns", with = "Nanos")]
    pub worst_lag: Duration,
    /// Total time of waiting for the next interval; not part of any operation's time.
    #[serde(rename = "waited_ns", with = "Nanos")]
    pub waited: Duration,
}

impl PacingResult {
    /// Returns the measured passes per second; `None` if no time passed.
    pub fn rate(&self) -> Option<f64> {
        (!self.elapsed.is_zero()).then(|| self.passes as f64 / self.elapsed.as_secs_f64())
    }

    /// Returns the number of passes that were due in ended intervals but did not start.
    pub fn missing_passes(&self, pacing: &Pacing) -> u64 {
        let ended_intervals = self.elapsed.as_nanos() / pacing.interval.as_nanos().max(1);
        let due = u128::from(pacing.burst).saturating_mul(ended_intervals);
        u64::try_from(due)
            .unwrap_or(u64::MAX)
            .saturating_sub(self.passes)
    }
}

/// Counts of one end. Bytes are payload, as returned by this end's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Bytes accepted by send calls.
    #[serde(rename = "sent_bytes")]
    pub sent: Bytes,
    /// Bytes returned by receive calls within the test's time.
    #[serde(rename = "received_bytes")]
    pub received: Bytes,
    /// Datagram bytes that arrived after the test's time, during the drain. They do not count as
    /// throughput.
    #[serde(rename = "received_late_bytes")]
    pub received_late: Bytes,
    /// Receive calls that returned `received_late`.
    pub receive_calls_late: u64,
    /// Send calls that moved data; for a method that sends batches, the number of messages.
    pub send_calls: u64,
    /// Receive calls that returned data; for a method that receives batches, the number of
    /// messages.
    pub receive_calls: u64,
    /// Calls that sent a batch; 0 if each message had its own call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub send_batches: u64,
    /// Calls that received a batch; 0 if each message had its own call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receive_batches: u64,
    /// Send calls that the kernel refused because it had no buffers (ENOBUFS).
    pub failed_sends: u64,
    /// Completed passes of a transactional workload.
    pub transactions: u64,
    /// Executed steps of a list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operations: u64,
    /// Executed steps that failed, if the plan allows failures.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_operations: u64,
}

impl Counts {
    /// Returns the bytes of both directions.
    pub fn bytes(&self) -> u64 {
        (self.sent + self.received).0
    }

    /// Returns the counts added after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.combine(earlier, |now, before| now - before)
    }

    fn combine(&self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        let bytes = |left: Bytes, right: Bytes| Bytes(operation(left.0, right.0));
        Self {
            sent: bytes(self.sent, other.sent),
            received: bytes(self.received, other.received),
            received_late: bytes(self.received_late, other.received_late),
            receive_calls_late: operation(self.receive_calls_late, other.receive_calls_late),
            send_calls: operation(self.send_calls, other.send_calls),
            receive_calls: operation(self.receive_calls, other.receive_calls),
            send_batches: operation(self.send_batches, other.send_batches),
            receive_batches: operation(self.receive_batches, other.receive_batches),
            failed_sends: operation(self.failed_sends, other.failed_sends),
            transactions: operation(self.transactions, other.transactions),
            operations: operation(self.operations, other.operations),
            failed_operations: operation(self.failed_operations, other.failed_operations),
        }
    }

    /// Returns the mean number of messages per batch; `None` if each message had its own call.
    pub fn mean_batch_size(&self) -> Option<f64> {
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
        // A peer may report any counts, so the sum must not overflow.
        *self = self.combine(&other, u64::saturating_add);
    }
}

/// Options of a data socket, as the kernel reported them. They may differ from the requested ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketFacts {
    /// SO_SNDBUF before the first operation.
    pub send_buffer_bytes: Option<u32>,
    /// SO_SNDBUF at the end; the kernel may have increased it.
    pub send_buffer_end_bytes: Option<u32>,
    /// SO_RCVBUF before the first operation.
    pub receive_buffer_bytes: Option<u32>,
    /// SO_RCVBUF at the end.
    pub receive_buffer_end_bytes: Option<u32>,
    /// LLC_OPT_TX_WIN: limit of unacknowledged frames.
    pub send_window_frames: Option<u32>,
    /// LLC_OPT_RX_WIN.
    pub receive_window_frames: Option<u32>,
    /// TCP_MAXSEG of the connection.
    pub max_segment_bytes: Option<u32>,
    /// Segments retransmitted by TCP (`tcpi_total_retrans`).
    pub retransmits: Option<u32>,
    /// The congestion control algorithm in force.
    pub congestion_control: Option<String>,
    /// TCP_NODELAY.
    pub no_delay: Option<bool>,
    /// TCP_CORK.
    pub cork: Option<bool>,
    /// Whether Multipath TCP was in force until the end; `None` if it was not requested or is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<bool>,
    /// Whether the peer accepted data with the first segment (TCP Fast Open); `None` if it was not
    /// requested or is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_in_syn: Option<bool>,
    /// Received datagrams that the socket dropped, mostly because its buffer was full (SO_MEMINFO).
    /// `None` for a transport without datagrams, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// SO_PRIORITY.
    pub priority: Option<i32>,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: Option<i32>,
}

/// A setting that the system refused. The test continues without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedSetting {
    /// The setting's name, as in the manual pages: `SO_PRIORITY`.
    pub setting: String,
    /// The requested value.
    pub requested: String,
    /// The error text of the system.
    pub reason: String,
}

/// Sizes and numbers of the buffers used; `None` if the end does not use the direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferSizes {
    /// Bytes per send call.
    pub send_bytes: Option<u32>,
    /// Buffers in the send ring.
    pub send_width: Option<u32>,
    /// Bytes per receive call.
    pub receive_bytes: Option<u32>,
    /// Buffers in the receive ring.
    pub receive_width: Option<u32>,
}

/// A host's CPU time during the measured phase, in percent of the time of all its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuUse {
    /// Time that was not idle, not iowait and not stolen.
    pub busy_percent: f64,
    /// Time in user space, including nice time.
    pub user_percent: f64,
    /// Time in the kernel.
    pub system_percent: f64,
    /// Idle time with an outstanding disk request.
    pub iowait_percent: f64,
    /// Time in hardware interrupts.
    pub irq_percent: f64,
    /// Time in software interrupts.
    pub softirq_percent: f64,
    /// Time that the hypervisor gave to other guests; `None` if the peer did not report it.
    pub steal_percent: Option<f64>,
    /// Number of online CPUs.
    pub cpus: u32,
    /// Number of the busiest CPU, and its busy time in percent of that CPU's time.
    pub peak: Option<(u32, f64)>,
    /// Measurement method.
    pub method: CpuMethod,
    /// Number of each CPU, and its busy time in percent of that CPU's time. Empty if the peer did
    /// not report it.
    #[serde(default)]
    pub busy_percent_per_cpu: Vec<(u32, f64)>,
}

impl CpuUse {
    /// Whether all shares can be percentages. A peer may report anything; its clock ticks may round
    /// a share to slightly more than 100.
    pub fn is_possible(&self) -> bool {
        let shares = [
            self.busy_percent,
            self.user_percent,
            self.system_percent,
            self.iowait_percent,
            self.irq_percent,
            self.softirq_percent,
            self.steal_percent.unwrap_or_default(),
        ];
        let is_share = |share: f64| (0.0..=101.0).contains(&share);
        shares.into_iter().all(is_share)
            && self.peak.is_none_or(|(_, share)| is_share(share))
            && (self.busy_percent_per_cpu.iter()).all(|(_, share)| is_share(*share))
    }
}

/// Method of measuring CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CpuMethod {
    /// /proc/stat: proc(5).
    ProcStat,
    /// Idle cycles counted by a loop with the lowest priority. It provides the busy time, the
    /// busiest CPU and the figures of each CPU; the other figures come from /proc/stat.
    Looper,
    /// A method that only the peer supports, with the code that it reported.
    Peer(u32),
}

/// Facts about a host that influence its results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// `uname -sr`.
    pub kernel: Option<String>,
    /// `uname -v`.
    pub kernel_version: Option<String>,
    /// The machine's architecture.
    pub machine: Option<String>,
    /// Number of online CPUs.
    pub cpus: Option<u32>,
    /// The first CPU's model name.
    pub cpu_model: Option<String>,
    /// The first CPU's frequency in MHz when it was read.
    pub cpu_mhz: Option<u32>,
    /// The machine's model, from its firmware (DMI or the device tree).
    pub system_model: Option<String>,
    /// Mandatory access control of the kernel.
    pub security: Option<Security>,
    /// The MTU of the path's first hop, in bytes.
    pub mtu_bytes: Option<u32>,
    /// The host's default congestion control algorithm.
    pub congestion_control: Option<String>,
    /// Whether this host is a guest of a hypervisor.
    pub virtual_guest: Option<bool>,
    /// Boot identifier, which shows whether two ends share a host.
    pub boot_id: Option<String>,
}

/// A network interface and its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The driver's name; `None` without a driver.
    pub driver: Option<String>,
    /// The driver's version.
    pub driver_version: Option<String>,
    /// The device's firmware version, if the driver reports it.
    pub firmware: Option<String>,
    /// The device's address on its bus, as the bus reports it.
    pub bus: Option<String>,
    /// The name of the PCI slot, if any.
    pub slot: Option<String>,
    /// The PCI identifiers; `None` for other devices.
    pub pci: Option<PciIds>,
    /// Traffic from before the first operation until after the last one.
    pub traffic: Option<Traffic>,
}

/// The identifiers of a PCI device: pci.ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "PCI has the same names")]
pub struct PciIds {
    pub vendor: u16,
    pub device: u16,
    pub subvendor: u16,
    pub subdevice: u16,
}

/// Traffic of an interface, from all flows, as counted by its driver. Bytes include the link's
/// headers. With segmentation offload, a packet has up to 64 KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "each name describes its counter")]
pub struct Traffic {
    pub received_packets: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub sent_bytes: u64,
}

/// Traffic of the interfaces of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interfaces {
    /// Time between the two reads of the counters.
    #[serde(rename = "elapsed_ns", with = "Nanos")]
    pub elapsed: Duration,
    /// Each interface, with or without traffic.
    pub interfaces: Vec<InterfaceTraffic>,
}

/// Traffic of one interface between two reads of its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceTraffic {
    /// The interface's name.
    pub name: String,
    /// The counters' differences.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Whether the interface was missing at the first read.
    #[serde(default)]
    pub was_missing_at_start: bool,
}

/// Cost and resolution of the clock that measures times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockFacts {
    /// Duration of one clock read in nanoseconds. Each measured time includes one.
    pub cost_ns: f64,
    /// Resolution in nanoseconds.
    pub resolution_ns: u64,
}

/// Mandatory access control: the first of the kernel's security modules that confines programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Security {
    /// The module; `None` if the kernel runs none.
    pub module: Option<SecurityModule>,
    /// Whether it enforces its policy or only logs violations; `None` if unknown.
    pub enforcing: Option<bool>,
    /// SELinux: the name of the policy. Others: the profile or label of this process.
    pub policy: Option<String>,
}

/// A security module that confines programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each variant is the name of a module")]
pub enum SecurityModule {
    SeLinux,
    AppArmor,
    Smack,
    Tomoyo,
}

impl SecurityModule {
    /// Returns the module's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SeLinux => "SELinux",
            Self::AppArmor => "AppArmor",
            Self::Smack => "Smack",
            Self::Tomoyo => "TOMOYO",
        }
    }

    /// Returns a number for the module, for protocols with a numeric field.
    pub fn number(self) -> u8 {
        match self {
            Self::SeLinux => 1,
            Self::AppArmor => 2,
            Self::Smack => 3,
            Self::Tomoyo => 4,
        }
    }
}

/// The reason for the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The time limit was reached.
    Deadline,
    /// The limit of bytes, messages or transactions was reached.
    Count,
    /// The peer ended the data stream.
    PeerClosed,
    /// This end was interrupted.
    Cancelled,
    /// The run failed; the text gives the reason in one line.
    Failed(String),
}
