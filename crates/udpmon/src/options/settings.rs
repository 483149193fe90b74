//! The settings of the five programs.

use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, ByteOrder, DatagramFormat, FlowPlan, Lateness, Limit, Plan, SocketOptions, Spacing,
    SpacingMethod, Stamp, StampClock, StampUnit, Transport, Workload, with_defaults,
};
use server::ServerConfig;

use crate::wire::{Binning, DEFAULT_PORT};

/// The length in bytes of the shortest datagram with a whole number.
pub const SHORTEST_NUMBERED: u32 = 16;

/// The length in bytes of the shortest datagram with a number and its send time.
pub const SHORTEST_STAMPED: u32 = 24;

with_defaults! {
    /// The settings that all programs have.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Common {
        /// `-u`: the responder's port; for `udpmon_recv` and `udpmon_resp`, the port to bind.
        pub port: u16 = DEFAULT_PORT,
        /// `-6`, or a colon in `-d`.
        pub v6: bool = false,
        /// `-S`: SO_SNDBUF and SO_RCVBUF in bytes; `None` leaves the system's default.
        pub buffer_bytes: Option<u32> = Some(65535),
        /// `-P`, `-T`, `-Q`: the TOS byte.
        pub type_of_service: Option<u8> = None,
        /// `-a`: the CPUs that the program may run on, one per bit.
        pub cpus: Option<u64> = None,
        /// `-q`: result lines only.
        pub quiet: bool = false,
        /// `-v`: print control messages on standard error.
        pub verbose: bool = false,
        /// The command line, for the first line of the output.
        pub command_line: String = String::new(),
    }
}

with_defaults! {
    /// The documents that a requester or sender writes in addition to its text or instead of it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Documents {
        /// `--json`: one JSON document on standard output, and nothing else there.
        pub json: bool = false,
        /// `--csv`: a title line and one line per test, instead of text.
        pub csv: bool = false,
        /// `--html`: the HTML page of the report.
        pub html: Option<PathBuf> = None,
        /// `--packets`: the records of `-G`, one per line.
        pub packets: Option<PathBuf> = None,
        /// `--plot`: plots, as `.svg` or `.html`.
        pub plot: Option<PathBuf> = None,
        /// `--strict`: doubts make the exit code 3.
        pub strict: bool = false,
    }
}

with_defaults! {
    /// The datagrams of one test.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Load {
        /// `-p`: payload of a datagram.
        pub bytes: u32 = 64,
        /// `-l`: datagrams of a test, or of each burst. Ignored if `time` is set.
        pub datagrams: u64 = 2,
        /// `-t`: send for this long instead of a count.
        pub time: Option<Duration> = None,
        /// `-w`, `-r`, `-g`, `-n`, `--pacing`, `--lateness`.
        pub spacing: Spacing = Spacing {
            gap: Duration::ZERO,
            bursts: None,
            lateness: Lateness::CatchUp,
            method: SpacingMethod::Spin,
        },
    }
}

impl Load {
    /// Returns the datagrams of the whole test; `None` if the test ends by time.
    pub fn total(&self) -> Option<u64> {
        let bursts = self.spacing.bursts.map_or(1, |bursts| bursts.count);
        let total = self.datagrams.saturating_mul(bursts);
        self.time.is_none().then_some(total)
    }

    /// Returns the same load with another size and gap.
    #[must_use]
    pub fn with(mut self, bytes: u32, gap: Duration) -> Self {
        self.bytes = bytes;
        self.spacing.gap = gap;
        self
    }

    fn flow(&self, common: &Common) -> FlowPlan {
        let mut flow = FlowPlan::of(Transport::Udp, Workload::send());
        flow.limit = match (self.time, self.total()) {
            (None, Some(total)) => Limit::Messages(total),
            (time, _) => Limit::Time(time.unwrap_or_default()),
        };
        flow.datagrams = Some(FORMAT);
        flow.here.send = BufferPlan::message(self.bytes);
        flow.here.spacing = Some(self.spacing);
        flow.here.socket = common.socket();
        flow
    }
}

/// Number and send time in a datagram.
pub const FORMAT: DatagramFormat = DatagramFormat {
    number_at: 8,
    high_word_at: Some(12),
    first: 0,
    stamp: Some(Stamp {
        at: 16,
        clock: StampClock::Monotonic,
        unit: StampUnit::TenthsOfMicros,
    }),
    ends_negative: false,
    order: ByteOrder::LittleEndian,
};

impl Common {
    /// Returns the options of the socket.
    pub fn socket(&self) -> SocketOptions {
        SocketOptions {
            send_buffer_bytes: self.buffer_bytes,
            receive_buffer_bytes: self.buffer_bytes,
            type_of_service: self.type_of_service,
            ..SocketOptions::default()
        }
    }
}

impl BwMon {
    /// The plan of one test.
    pub fn plan(&self, load: &Load) -> Plan {
        Plan::of_flow(
            "UDPmon throughput",
            self.host.clone(),
            load.flow(&self.common),
        )
    }
}

impl Send {
    /// The plan of one test.
    pub fn plan(&self, load: &Load) -> Plan {
        Plan::of_flow("UDPmon send", self.host.clone(), load.flow(&self.common))
    }
}

impl Recv {
    /// Returns the plan of a receiver, which accepts any length.
    pub fn plan(&self) -> Plan {
        let mut flow = FlowPlan::of(Transport::Udp, Workload::receive());
        flow.limit = self.time.map_or(Limit::Unlimited, Limit::Time);
        flow.datagrams = Some(FORMAT);
        flow.here.socket = self.common.socket();
        Plan::of_flow("UDPmon receive", "", flow)
    }
}

impl Req {
    /// Returns the plan of the requests for one response length.
    pub fn plan(&self, response_bytes: u32) -> Plan {
        let mut flow = FlowPlan::of(Transport::Udp, Workload::ask());
        flow.limit = Limit::Transactions(self.requests.into());
        flow.here.send = BufferPlan::message(self.request_bytes);
        flow.here.receive = BufferPlan::message(response_bytes);
        (flow.there.receive, flow.there.send) = (flow.here.send, flow.here.receive);
        flow.here.socket = self.common.socket();
        Plan::of_flow("UDPmon latency", self.host.clone(), flow)
    }
}

/// Per-packet records: `-G`, `-L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsWanted {
    /// The packets to record.
    pub kind: RecordKind,
    /// The lowest datagram number to record.
    pub skip: u32,
    /// The maximum number of records.
    pub count: u32,
}

/// The packets to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// `-G`: all packets.
    All,
    /// `-L`: lost packets.
    Lost,
}

impl RecordsWanted {
    /// Returns the bytes of record memory at the responder.
    pub fn bytes(&self) -> u64 {
        let bytes = match self.kind {
            RecordKind::All => 32,
            RecordKind::Lost => 24,
        };
        u64::from(self.count) * bytes
    }
}

with_defaults! {
    /// The settings of `udpmon_bw_mon`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BwMon {
        /// The settings of all programs.
        pub common: Common = Common::default(),
        /// `-d`: the responder.
        pub host: String = String::new(),
        /// `-U`.
        pub local_port: Option<u16> = None,
        /// The first test.
        pub load: Load = Load::default(),
        /// The sequence of tests.
        pub steps: Steps = Steps::Sweep(Sweep::default()),
        /// `-G`, `-L`.
        pub records: Option<RecordsWanted> = None,
        /// `-M`, `-B`: histogram 0, in units of 0.1 µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print the responder's histograms.
        pub histograms: bool = false,
        /// `-N`: the responder records the kernel's and the interface's times.
        pub kernel_stamps: bool = false,
        /// `-x`: the long line.
        pub extended: bool = false,
        /// The documents.
        pub documents: Documents = Documents::default(),
    }
}

/// The sequence of tests.
#[derive(Clone, Debug, PartialEq)]
pub enum Steps {
    /// A sweep over sizes and gaps.
    Sweep(Sweep),
    /// A search for the highest rate without loss.
    Search(Search),
}

with_defaults! {
    /// Sizes, and for each of them gaps: `-w`, `-e`, `-i`, `--sizes`, `--gaps`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Sweep {
        /// Payloads in bytes, in the order of the tests; at least one.
        pub sizes: Vec<u32> = vec![64],
        /// Gaps for each payload; at least one.
        pub gaps: Vec<Duration> = vec![Duration::ZERO],
        /// `--early-stop`: skip the remaining gaps of a size after this many consecutive tests without loss at the
        /// requested rate.
        pub early_stop: Option<u32> = None,
    }
}

with_defaults! {
    /// The settings of a search for the highest rate without loss.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Search {
        /// `--search LOW:HIGH`: a rate in bits of payload per second that the path carries; `None` if unknown.
        pub low: Option<f64> = None,
        /// The highest rate to try; `None` means as fast as possible.
        pub high: Option<f64> = None,
        /// `--precision`: the search ends when the bounds differ by at most this fraction of the rate.
        pub precision: f64 = 0.005,
        /// `--tolerate`: a rate counts as free of loss if at most this fraction of its datagrams is lost.
        pub tolerated: f64 = 0.0,
    }
}

with_defaults! {
    /// The settings of `udpmon_req`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Req {
        /// The settings of all programs.
        pub common: Common = Common::default(),
        /// `-d`: the responder.
        pub host: String = String::new(),
        /// `-p`: payload of a request, at least 64.
        pub request_bytes: u32 = 64,
        /// `-r`, `-e`, `-i`: payloads of responses, in the order of the tests; at least one.
        pub response_bytes: Vec<u32> = vec![1472],
        /// `-l`: requests per response length.
        pub requests: u32 = 10,
        /// `-w`: pause after each.
        pub pause: Duration = Duration::ZERO,
        /// `-m`, `-b`: the histogram, in µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print it.
        pub histograms: bool = false,
        /// The documents.
        pub documents: Documents = Documents::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_send`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Send {
        /// The settings of all programs.
        pub common: Common = Common::default(),
        /// `-d`: the destination.
        pub host: String = String::new(),
        /// `-U`.
        pub local_port: Option<u16> = None,
        /// The first test.
        pub load: Load = Load::default(),
        /// The sequence of tests.
        pub sweep: Sweep = Sweep::default(),
        /// The documents.
        pub documents: Documents = Documents::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_recv`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Recv {
        /// The settings of all programs.
        pub common: Common = Common::default(),
        /// `-t`: the duration of the run; `None` means no end.
        pub time: Option<Duration> = None,
        /// `-T`: the interval between lines.
        pub interval: Option<Duration> = None,
        /// `-a main:stats`: the CPUs of the printing thread.
        pub printing_cpus: Option<u64> = None,
        /// `-G`, `-L`.
        pub records: Option<RecordsWanted> = None,
        /// `-M`, `-B`: histogram 0, in units of 0.1 µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print histograms.
        pub histograms: bool = false,
        /// `-N`: record the kernel's and the interface's times.
        pub kernel_stamps: bool = false,
        /// `--stamps`: whether arrival times are the kernel's; otherwise the program reads them.
        pub arrival_by_kernel: bool = true,
        /// `-I`: the interface whose counters are printed.
        pub interface: Option<String> = None,
        /// The documents.
        pub documents: Documents = Documents::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_resp`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Resp {
        /// The settings of all programs.
        pub common: Common = Common::default(),
        /// `-I`: the interface whose counters are reported.
        pub interface: Option<String> = None,
        /// `-D`.
        pub daemon: bool = false,
        /// `--stamps`: whether arrival times are the kernel's if available; otherwise the program reads them.
        pub arrival_by_kernel: bool = true,
        /// The limits for requesters.
        pub limits: Limits = Limits::default(),
    }
}

with_defaults! {
    /// The limits on a responder's work for requesters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// `--allow-peers`, `--drain-on-exit`; `clients` is the maximum number of requesters at a time: 1, as in the
        /// stock tool.
        pub server: ServerConfig = ServerConfig { clients: 1, ..ServerConfig::default() },
        /// `--max-records`: bytes of one test's record memory.
        pub record_bytes: u64 = 64 << 20,
        /// `--max-memory`: bytes of all tests' records together.
        pub memory_bytes: u64 = 256 << 20,
        /// `--max-response`: bytes of a response to a request.
        pub response_bytes: u32 = 65507,
        /// `--idle`: a test ends after this time without requests and data.
        pub idle: Duration = Duration::from_secs(60),
    }
}
