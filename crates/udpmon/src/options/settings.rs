//! The settings of the five programs.

use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, ByteOrder, DatagramFormat, FlowPlan, Lateness, Limit, Plan, SocketOptions, Spacing,
    SpacingMethod, Stamp, StampClock, StampUnit, Transport, Workload, with_defaults,
};
use server::ServerConfig;

use crate::wire::{Binning, DEFAULT_PORT};

/// Bytes of the shortest datagram with a whole number.
pub const SHORTEST_NUMBERED: u32 = 16;

/// Bytes of the shortest datagram with a number and its time of sending.
pub const SHORTEST_STAMPED: u32 = 24;

with_defaults! {
    /// The settings that all programs have.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Common {
        /// `-u`: the responder's port; of `udpmon_recv` and `udpmon_resp` the port to bind.
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
    /// The documents that a requester or sender writes beside or in the place of its text.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Documents {
        /// `--json`: one JSON document on standard output, and nothing else there.
        pub json: bool = false,
        /// `--csv`: a title line and a line per test, in the place of the text.
        pub csv: bool = false,
        /// `--html`: the report's page.
        pub html: Option<PathBuf> = None,
        /// `--packets`: the records of `-G`, a line each.
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
        /// `-l`: datagrams, of each burst if there are bursts; with `time`, no bound.
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
    /// Datagrams of the whole test; `None` of one that ends by time.
    pub fn total(&self) -> Option<u64> {
        let bursts = self.spacing.bursts.map_or(1, |bursts| bursts.count);
        let total = self.datagrams.saturating_mul(bursts);
        self.time.is_none().then_some(total)
    }

    /// The same with another size and gap.
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

/// The number and the time of sending in a datagram.
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
    /// What is set on the socket.
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
    /// The plan of a receiver, which takes any length.
    pub fn plan(&self) -> Plan {
        let mut flow = FlowPlan::of(Transport::Udp, Workload::receive());
        flow.limit = self.time.map_or(Limit::Unlimited, Limit::Time);
        flow.datagrams = Some(FORMAT);
        flow.here.socket = self.common.socket();
        Plan::of_flow("UDPmon receive", "", flow)
    }
}

impl Req {
    /// The plan of the requests for one response length.
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
    /// Which packets have one.
    pub kind: RecordKind,
    /// Datagrams with a lower number have none.
    pub skip: u32,
    /// At most so many.
    pub count: u32,
}

/// Which packets have a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// `-G`: all.
    All,
    /// `-L`: those that were passed over.
    Lost,
}

impl RecordsWanted {
    /// The responder's memory for them.
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
        /// What all programs have.
        pub common: Common = Common::default(),
        /// `-d`: the responder.
        pub host: String = String::new(),
        /// `-U`.
        pub local_port: Option<u16> = None,
        /// The first test.
        pub load: Load = Load::default(),
        /// Which tests follow it.
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
        /// What is written beside the text.
        pub documents: Documents = Documents::default(),
    }
}

/// Which tests are run.
#[derive(Clone, Debug, PartialEq)]
pub enum Steps {
    /// Each of these.
    Sweep(Sweep),
    /// A search for the highest rate without loss.
    Search(Search),
}

with_defaults! {
    /// Sizes, and for each of them gaps: `-w`, `-e`, `-i`, `--sizes`, `--gaps`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Sweep {
        /// Payloads in bytes, in the order of the tests; never empty.
        pub sizes: Vec<u32> = vec![64],
        /// For each of them; never empty.
        pub gaps: Vec<Duration> = vec![Duration::ZERO],
        /// `--early-stop`: leave the rest of a size's gaps out after so many tests without loss at the rate asked for.
        pub early_stop: Option<u32> = None,
    }
}

with_defaults! {
    /// How the highest rate without loss is searched for.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Search {
        /// `--search LOW:HIGH`: bits of payload per second that are known to get through; `None` of nothing known.
        pub low: Option<f64> = None,
        /// The highest rate to try; `None` is as fast as possible.
        pub high: Option<f64> = None,
        /// `--precision`: ends when the bounds are this close, as a part of the rate.
        pub precision: f64 = 0.005,
        /// `--tolerate`: a rate with at most this part of its datagrams lost counts as free of loss.
        pub tolerated: f64 = 0.0,
    }
}

with_defaults! {
    /// The settings of `udpmon_req`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Req {
        /// What all programs have.
        pub common: Common = Common::default(),
        /// `-d`: the responder.
        pub host: String = String::new(),
        /// `-p`: payload of a request, at least 64.
        pub request_bytes: u32 = 64,
        /// `-r`, `-e`, `-i`: payloads of responses, in the order of the tests; never empty.
        pub response_bytes: Vec<u32> = vec![1472],
        /// `-l`: requests per response length.
        pub requests: u32 = 10,
        /// `-w`: pause after each.
        pub pause: Duration = Duration::ZERO,
        /// `-m`, `-b`: the histogram, in µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print it.
        pub histograms: bool = false,
        /// What is written beside the text.
        pub documents: Documents = Documents::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_send`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Send {
        /// What all programs have.
        pub common: Common = Common::default(),
        /// `-d`: where datagrams are sent to.
        pub host: String = String::new(),
        /// `-U`.
        pub local_port: Option<u16> = None,
        /// The first test.
        pub load: Load = Load::default(),
        /// All of them.
        pub sweep: Sweep = Sweep::default(),
        /// What is written beside the text.
        pub documents: Documents = Documents::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_recv`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Recv {
        /// What all programs have.
        pub common: Common = Common::default(),
        /// `-t`: ends after this long; `None` is never.
        pub time: Option<Duration> = None,
        /// `-T`: prints a line this often.
        pub interval: Option<Duration> = None,
        /// `-a main:stats`: the CPUs of the thread that prints.
        pub printing_cpus: Option<u64> = None,
        /// `-G`, `-L`.
        pub records: Option<RecordsWanted> = None,
        /// `-M`, `-B`: histogram 0, in units of 0.1 µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print histograms.
        pub histograms: bool = false,
        /// `-N`: record the kernel's and the interface's times.
        pub kernel_stamps: bool = false,
        /// `--stamps`: arrival times are the kernel's; else the program's.
        pub arrival_by_kernel: bool = true,
        /// `-I`: the interface whose counters are printed.
        pub interface: Option<String> = None,
        /// What is written beside the text.
        pub documents: Documents = Documents::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_resp`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Resp {
        /// What all programs have.
        pub common: Common = Common::default(),
        /// `-I`: the interface whose counters are reported.
        pub interface: Option<String> = None,
        /// `-D`.
        pub daemon: bool = false,
        /// `--stamps`: arrival times are the kernel's where they are to be had; else the program's.
        pub arrival_by_kernel: bool = true,
        /// What a requester may take.
        pub limits: Limits = Limits::default(),
    }
}

with_defaults! {
    /// The bounds on what a responder does for requesters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// `--allow-peers`, `--drain-on-exit`; `clients` are requesters at a time, one as in the stock tool.
        pub server: ServerConfig = ServerConfig { clients: 1, ..ServerConfig::default() },
        /// `--max-records`: bytes of one test's record memory.
        pub record_bytes: u64 = 64 << 20,
        /// `--max-memory`: bytes of all tests' records together.
        pub memory_bytes: u64 = 256 << 20,
        /// `--max-response`: bytes of a response to a request.
        pub response_bytes: u32 = 65507,
        /// `--idle`: a test without requests and data ends after this long.
        pub idle: Duration = Duration::from_secs(60),
    }
}
