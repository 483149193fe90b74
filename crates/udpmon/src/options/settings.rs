//! The settings of the five programs.

use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, ByteOrder, DatagramFormat, FlowPlan, Lateness, Limit, Plan, SocketOptions, Spacing,
    SpacingMethod, Stamp, StampClock, StampUnit, Transport, Workload, with_defaults,
};
use server::ServerConfig;

use crate::wire::{Binning, DEFAULT_PORT};

/// The length in bytes of the shortest datagram with a complete number.
pub const MIN_NUMBERED_BYTES: u32 = 16;

/// The length in bytes of the shortest datagram with a number and a send time.
pub const MIN_STAMPED_BYTES: u32 = 24;

with_defaults! {
    /// The settings common to all programs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CommonSettings {
        /// `-u`: the responder's port; for `udpmon_recv` and `udpmon_resp`, the port to bind.
        pub port: u16 = DEFAULT_PORT,
        /// `-6`, or a colon in `-d`: use IPv6.
        pub is_v6: bool = false,
        /// `-S`: SO_SNDBUF and SO_RCVBUF in bytes; `None` keeps the system's default.
        pub buffer_bytes: Option<u32> = Some(65535),
        /// Whether `-S` sets these sizes. Otherwise a receiver of datagrams enlarges its receive
        /// buffer.
        pub sets_buffer_bytes: bool = false,
        /// `-P`, `-T`, `-Q`: the TOS byte.
        pub type_of_service: Option<u8> = None,
        /// `-a`: the CPUs that the program may run on, one per bit.
        pub cpus: Option<u64> = None,
        /// `-q`: result lines only.
        pub quiet: bool = false,
        /// `-v`: print control messages on standard error.
        pub verbose: bool = false,
        /// The command line, which the first line of the output contains.
        pub command_line: String = String::new(),
    }
}

with_defaults! {
    /// The documents that a program writes in addition to its text or instead of it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DocumentOptions {
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
        /// `--strict`: exit with 3 if there are warnings about a result.
        pub strict: bool = false,
    }
}

with_defaults! {
    /// The datagrams of one test.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TestLoad {
        /// `-p`: payload of a datagram.
        pub bytes: u32 = 64,
        /// `-l`: datagrams per test, or per burst with `-g`. Ignored if `time` is set.
        pub datagrams: u64 = 2,
        /// `-t`: the sending time; `None` sends `datagrams`.
        pub time: Option<Duration> = None,
        /// `-w`, `-r`, `-g`, `-n`, `--pacing`, `--lateness`: the spacing of departures.
        pub spacing: Spacing = Spacing {
            gap: Duration::ZERO,
            bursts: None,
            lateness: Lateness::CatchUp,
            method: SpacingMethod::Spin,
        },
    }
}

impl TestLoad {
    /// Returns the number of datagrams of the test, in all bursts; `None` if the test ends by time.
    pub fn total_datagrams(&self) -> Option<u64> {
        let bursts = self.spacing.bursts.map_or(1, |bursts| bursts.count);
        let total = self.datagrams.saturating_mul(bursts);
        self.time.is_none().then_some(total)
    }

    /// Returns the same load with another size and gap.
    #[must_use]
    pub fn with_size_and_gap(mut self, bytes: u32, gap: Duration) -> Self {
        self.bytes = bytes;
        self.spacing.gap = gap;
        self
    }

    /// Returns the plan of the sending flow.
    fn flow(&self, common: &CommonSettings) -> FlowPlan {
        let mut flow = FlowPlan::new(Transport::Udp, Workload::send());
        flow.limit = match (self.time, self.total_datagrams()) {
            (None, Some(total)) => Limit::Messages(total),
            (time, _) => Limit::Time(time.unwrap_or_default()),
        };
        flow.datagrams = Some(DATAGRAM_FORMAT);
        flow.local.send = BufferPlan::message(self.bytes);
        flow.local.spacing = Some(self.spacing);
        flow.local.socket = common.socket_options();
        flow
    }
}

/// The positions and formats of the number and the send time in a datagram.
pub const DATAGRAM_FORMAT: DatagramFormat = DatagramFormat {
    number_offset: 8,
    high_word_offset: Some(12),
    first_number: 0,
    stamp: Some(Stamp {
        offset: 16,
        clock: StampClock::Monotonic,
        unit: StampUnit::TenthsOfMicros,
    }),
    ends_negative: false,
    byte_order: ByteOrder::LittleEndian,
};

impl CommonSettings {
    /// Returns the options of the socket.
    pub fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            send_buffer_bytes: self.buffer_bytes,
            receive_buffer_bytes: self.buffer_bytes,
            type_of_service: self.type_of_service,
            ..SocketOptions::default()
        }
    }
}

impl Sweep {
    /// Whether the sweep has more than one size or gap.
    pub(super) fn has_several_tests(&self) -> bool {
        self.sizes.len() > 1 || self.gaps.len() > 1
    }
}

impl BwMonSettings {
    /// Returns the plan of one test.
    pub fn plan(&self, load: &TestLoad) -> Plan {
        Plan::for_flow(
            "UDPmon throughput",
            self.host.clone(),
            load.flow(&self.common),
        )
    }
}

impl SendSettings {
    /// Returns the plan of one test.
    pub fn plan(&self, load: &TestLoad) -> Plan {
        Plan::for_flow("UDPmon send", self.host.clone(), load.flow(&self.common))
    }
}

impl RecvSettings {
    /// Returns the plan of a receiver. It accepts datagrams of any length.
    pub fn plan(&self) -> Plan {
        let mut flow = FlowPlan::new(Transport::Udp, Workload::receive());
        flow.limit = self.time.map_or(Limit::Unlimited, Limit::Time);
        flow.datagrams = Some(DATAGRAM_FORMAT);
        flow.local.socket = self.common.socket_options();
        Plan::for_flow("UDPmon receive", "", flow)
    }
}

impl ReqSettings {
    /// Returns the plan of the requests for one response length.
    pub fn plan(&self, response_bytes: u32) -> Plan {
        let mut flow = FlowPlan::new(Transport::Udp, Workload::request());
        flow.limit = Limit::Transactions(self.requests.into());
        flow.local.send = BufferPlan::message(self.request_bytes);
        flow.local.receive = BufferPlan::message(response_bytes);
        (flow.remote.receive, flow.remote.send) = (flow.local.send, flow.local.receive);
        flow.local.socket = self.common.socket_options();
        Plan::for_flow("UDPmon latency", self.host.clone(), flow)
    }
}

/// The requested per-packet records: `-G`, `-L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRequest {
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

impl RecordRequest {
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
    pub struct BwMonSettings {
        /// The settings of all programs.
        pub common: CommonSettings = CommonSettings::default(),
        /// `-d`: the responder.
        pub host: String = String::new(),
        /// `-U`: the port to send from; `None` leaves the choice to the system.
        pub local_port: Option<u16> = None,
        /// The datagrams of the first test.
        pub load: TestLoad = TestLoad::default(),
        /// The sequence of tests.
        pub sequence: TestSequence = TestSequence::Sweep(Sweep::default()),
        /// `-G`, `-L`: per-packet records.
        pub records: Option<RecordRequest> = None,
        /// `-M`, `-B`: the bins of histogram 0, in units of 0.1 µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print the responder's histograms.
        pub histograms: bool = false,
        /// `-N`: request the time stamps of the responder's kernel and network interface.
        pub records_kernel_and_nic_stamps: bool = false,
        /// `-x`: print long result lines.
        pub extended: bool = false,
        /// The documents.
        pub documents: DocumentOptions = DocumentOptions::default(),
    }
}

/// The sequence of tests.
#[derive(Clone, Debug, PartialEq)]
pub enum TestSequence {
    /// A sweep over sizes and gaps.
    Sweep(Sweep),
    /// A search for the highest rate without loss.
    Search(SearchSettings),
}

with_defaults! {
    /// A sweep over sizes, and over the gaps of each size: `-w`, `-e`, `-i`, `--sizes`, `--gaps`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Sweep {
        /// Payloads in bytes, in the order of the tests; at least one.
        pub sizes: Vec<u32> = vec![64],
        /// Gaps for each payload, in the order of the tests; at least one.
        pub gaps: Vec<Duration> = vec![Duration::ZERO],
        /// `--early-stop`: skip the remaining gaps of a size after this number of consecutive tests
        /// without loss and without slower arrivals.
        pub early_stop: Option<u32> = None,
    }
}

with_defaults! {
    /// The settings of a search for the highest rate without loss.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SearchSettings {
        /// `--search LOW:HIGH`: a payload rate that the path carries, in bits per second; `None` if
        /// unknown.
        pub low: Option<f64> = None,
        /// The highest rate to try, in bits per second; `None` means as fast as possible.
        pub high: Option<f64> = None,
        /// `--precision`: the search ends when the bounds differ by at most this fraction of the
        /// rate.
        pub precision: f64 = 0.005,
        /// `--tolerate`: a rate counts as free of loss if at most this fraction of its datagrams is
        /// lost.
        pub tolerated_loss: f64 = 0.0,
    }
}

with_defaults! {
    /// The settings of `udpmon_req`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ReqSettings {
        /// The settings of all programs.
        pub common: CommonSettings = CommonSettings::default(),
        /// `-d`: the responder.
        pub host: String = String::new(),
        /// `-p`: payload of a request, at least 64.
        pub request_bytes: u32 = 64,
        /// `-r`, `-e`, `-i`: payloads of responses, in the order of the tests; at least one.
        pub response_bytes: Vec<u32> = vec![1472],
        /// `-l`: requests per response length.
        pub requests: u32 = 10,
        /// `-w`: the pause after each request.
        pub pause: Duration = Duration::ZERO,
        /// `-m`, `-b`: the bins of the histogram, in µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print the histogram.
        pub histograms: bool = false,
        /// The documents.
        pub documents: DocumentOptions = DocumentOptions::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_send`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SendSettings {
        /// The settings of all programs.
        pub common: CommonSettings = CommonSettings::default(),
        /// `-d`: the destination.
        pub host: String = String::new(),
        /// `-U`: the port to send from; `None` leaves the choice to the system.
        pub local_port: Option<u16> = None,
        /// The datagrams of the first test.
        pub load: TestLoad = TestLoad::default(),
        /// The sequence of tests.
        pub sweep: Sweep = Sweep::default(),
        /// The documents.
        pub documents: DocumentOptions = DocumentOptions::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_recv`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RecvSettings {
        /// The settings of all programs.
        pub common: CommonSettings = CommonSettings::default(),
        /// `-t`: the duration of the run; `None` runs until a stop.
        pub time: Option<Duration> = None,
        /// `-T`: the interval between snapshots; `None` takes only one, at the end.
        pub interval: Option<Duration> = None,
        /// `-a main:stats`: the CPUs of the printing thread.
        pub printing_cpus: Option<u64> = None,
        /// `-G`, `-L`: per-packet records.
        pub records: Option<RecordRequest> = None,
        /// `-M`, `-B`: the bins of histogram 0, in units of 0.1 µs.
        pub bins: Binning = Binning::default(),
        /// `-H`: print histograms.
        pub histograms: bool = false,
        /// `-N`: record the time stamps of the kernel and of the network interface.
        pub records_kernel_and_nic_stamps: bool = false,
        /// `--stamps`: whether arrival times are the kernel's time stamps. Otherwise the program
        /// reads the clock.
        pub arrival_by_kernel: bool = true,
        /// `-I`: the interface whose counters are printed.
        pub interface: Option<String> = None,
        /// The documents.
        pub documents: DocumentOptions = DocumentOptions::default(),
    }
}

with_defaults! {
    /// The settings of `udpmon_resp`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RespSettings {
        /// The settings of all programs.
        pub common: CommonSettings = CommonSettings::default(),
        /// `-I`: the interface whose counters are reported.
        pub interface: Option<String> = None,
        /// `-D`: run in the background.
        pub daemon: bool = false,
        /// `--stamps`: whether arrival times are the kernel's time stamps if available. Otherwise
        /// the program reads the clock.
        pub arrival_by_kernel: bool = true,
        /// The limits for requesters.
        pub limits: ResponderLimits = ResponderLimits::default(),
    }
}

with_defaults! {
    /// The limits of a responder.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ResponderLimits {
        /// `--allow-peers`, `--drain-on-exit`, `--max-tests`. By default, one test runs at a time,
        /// as in the stock tool.
        pub server: ServerConfig = ServerConfig { max_clients: 1, ..ServerConfig::default() },
        /// `--max-records`: memory for the records of one test, in bytes.
        pub record_bytes: u64 = 64 << 20,
        /// `--max-memory`: memory for all sessions and their records, in bytes.
        pub memory_bytes: u64 = 256 << 20,
        /// `--max-response`: the maximum length of a response, in bytes.
        pub response_bytes: u32 = 65507,
        /// `--idle`: a test ends after this time without requests and data.
        pub idle: Duration = Duration::from_secs(60),
    }
}
