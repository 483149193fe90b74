//! The settings of one client invocation, with every default filled in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::{FlowPlan, Group, Phases, Plan, SizeRule, Transport, Workload, with_defaults};
use stats::confidence::ConfidenceGoal;
use sys::Address;

use crate::dlpi_interface::DlpiInterface;
use crate::selector::{RequiredMeasurements, Selector};

/// netserver's default control port.
pub(super) const DEFAULT_PORT: &str = "12865";

with_defaults! {
    /// The settings of one command line.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Settings {
        /// The test, from `-t`.
        pub test: Test = Test::TcpStream,
        /// The direction of the data.
        pub direction: TestDirection = TestDirection { transmit: true, receive: false, connection: false },
        /// The test's name for people.
        pub name: String = String::new(),
        /// The plan of each flow, for both ends.
        pub flow: FlowPlan = FlowPlan::new(Transport::Tcp, Workload::send()),
        /// The number of flows per direction.
        pub flows: u32 = 1,
        /// The pause between test setup and the first operation.
        pub wait: Duration = Duration::ZERO,
        /// `--bidirectional`: the settings of the other direction, which runs at the same time.
        pub reverse: Option<Box<Self>> = None,
        /// The control connection.
        pub control: ControlOptions = ControlOptions::default(),
        /// `-N`: run without a control connection, against any suitable service. Values that only
        /// a netserver can report are unavailable.
        pub no_control: bool = false,
        /// The data connection's addresses and ports.
        pub data: DataOptions = DataOptions::default(),
        /// The local ports of a connection test.
        pub ports: ConnectionPorts = ConnectionPorts::default(),
        /// The settings that only one family of tests has.
        pub family_settings: FamilySettings = FamilySettings::Inet,
        /// `-c`, `-C`: calibration values.
        pub cpu_rate: CpuRates = CpuRates::default(),
        /// `-i`, `-I`: the iterations of the test; `None` is a single one.
        pub repeat: Option<Repeat> = None,
        /// The additional measurements that the selectors require.
        pub needs: RequiredMeasurements = RequiredMeasurements::default(),
        /// How the result is printed.
        pub print: PrintOptions = PrintOptions::default(),
        /// `-d`: the number of times it was given.
        pub debug: u32 = 0,
        /// `--histogram`: the file for the histogram log.
        pub histogram: Option<PathBuf> = None,
        /// `--data-idle`: how long data may stop in a test without a time limit.
        pub data_idle: Duration = Duration::from_secs(60),
        /// The treatment of a data connection that gets no answer.
        pub unanswered_policy: UnansweredPolicy = UnansweredPolicy::Report,
        /// `--json`: print only a JSON document on stdout.
        pub json: bool = false,
        /// `--html`: the file for the HTML page.
        pub html: Option<PathBuf> = None,
        /// `--strict`: exit with an error if the result has warnings.
        pub strict: bool = false,
        /// Lines to print first, on stdout or with `--json` on stderr. Stock prints them for an
        /// unknown address family.
        pub notices: Vec<String> = Vec::new(),
        /// Lines to print on stderr first. The stock tool prints one for a removed option.
        pub warnings: Vec<String> = Vec::new(),
    }
}

impl Settings {
    /// Whether the result is also written as JSON or HTML.
    pub fn has_report(&self) -> bool {
        self.json || self.html.is_some()
    }

    /// Returns the plan of the flows in both directions.
    pub fn plan(&self) -> Plan {
        let reverse = self.reverse.iter();
        let directions = std::iter::once(self).chain(reverse.map(|reverse| &**reverse));
        Plan {
            name: self.name.clone(),
            groups: directions
                .map(|direction| Group::with_flows(direction.flows, direction.flow.clone()))
                .collect(),
            phases: Phases {
                wait: self.wait,
                ..Phases::default()
            },
            ..Plan::default()
        }
    }
}

/// The treatment of a data connection that gets no answer while the control connection is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnansweredPolicy {
    /// Report it on stderr after 5 s and continue the test, like the stock tool.
    Report,
    /// Fail the test after this time.
    FailAfter(Duration),
}

macro_rules! tests {
    ($($test:ident $name:literal $family:ident,)+) => {
        /// A test, named as on the command line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the variants are netperf's test names")]
        pub enum Test {
            $($test,)+
        }

        impl Test {
            /// Every test, with its name.
            pub const ALL: &[(Self, &'static str)] = &[$((Self::$test, $name),)+];

            /// Returns the name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$test => $name,)+
                }
            }

            /// Returns the family of the test.
            pub fn family(self) -> TestFamily {
                match self {
                    $(Self::$test => TestFamily::$family,)+
                }
            }
        }
    };
}

tests! {
    TcpStream "TCP_STREAM" Inet,
    TcpMaerts "TCP_MAERTS" Inet,
    TcpSendfile "TCP_SENDFILE" Inet,
    TcpMss "TCP_MSS" Inet,
    TcpRr "TCP_RR" Inet,
    TcpCrr "TCP_CRR" Inet,
    TcpCc "TCP_CC" Inet,
    UdpStream "UDP_STREAM" Inet,
    UdpRr "UDP_RR" Inet,
    Omni "OMNI" Inet,
    Uuid "UUID" Inet,
    LocCpu "LOC_CPU" Inet,
    RemCpu "REM_CPU" Inet,
    StreamStream "STREAM_STREAM" Unix,
    StreamRr "STREAM_RR" Unix,
    DgStream "DG_STREAM" Unix,
    DgRr "DG_RR" Unix,
    SctpStream "SCTP_STREAM" Sctp,
    SctpStreamMany "SCTP_STREAM_MANY" Sctp,
    SctpRr "SCTP_RR" Sctp,
    SctpRrMany "SCTP_RR_MANY" Sctp,
    DlcoStream "DLCO_STREAM" Dlpi,
    DlcoRr "DLCO_RR" Dlpi,
    DlclStream "DLCL_STREAM" Dlpi,
    DlclRr "DLCL_RR" Dlpi,
}

impl Test {
    /// Whether the test moves data or opens connections. The others only request a value.
    pub fn moves_data(self) -> bool {
        !matches!(self, Self::Uuid | Self::LocCpu | Self::RemCpu)
    }

    /// Whether the test uses the classic messages, not the omni ones.
    pub fn is_classic(self) -> bool {
        matches!(self, Self::TcpSendfile | Self::TcpMss | Self::TcpCc)
            || self.family() != TestFamily::Inet
    }

    /// Whether it is a request/response test of the Unix domain, SCTP or DLPI family.
    pub(crate) fn is_non_inet_transaction(self) -> bool {
        matches!(
            self,
            Self::StreamRr
                | Self::DgRr
                | Self::SctpRr
                | Self::SctpRrMany
                | Self::DlcoRr
                | Self::DlclRr
        )
    }
}

/// A group of tests that share options and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestFamily {
    /// TCP, UDP and the other transports of the omni tests.
    Inet,
    /// Unix domain sockets.
    Unix,
    /// SCTP.
    Sctp,
    /// DLPI, on Linux over LLC sockets.
    Dlpi,
}

/// The settings that only one family of tests has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilySettings {
    /// TCP and UDP, which have no settings of their own.
    Inet,
    /// Unix domain.
    Unix {
        /// Test option `-p`: the parent directory of the local socket. Without it, only a socket
        /// that must have a name gets one, below /tmp.
        directory: Option<PathBuf>,
    },
    /// SCTP.
    Sctp {
        /// Test option `-T`; 1 in tests other than `_MANY`.
        associations: u32,
    },
    /// DLPI.
    Dlpi {
        /// The local interface.
        local: DlpiInterface,
        /// The peer's interface.
        remote: DlpiInterface,
        /// Test option `-s`: the 802.2 service access point.
        sap: u8,
    },
}

/// An address family, from `-4`, `-6` or `host,family`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Any family that the name resolves to.
    #[default]
    Unspecified,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Contexts of virtual machines on one host: vsock(7).
    Vsock,
}

impl Family {
    /// Returns the name in the stock tool's messages.
    pub(crate) fn af_name(self) -> &'static str {
        match self {
            Self::Unspecified => "AF_UNSPEC",
            Self::V4 => "AF_INET",
            Self::V6 => "AF_INET6",
            Self::Vsock => "AF_VSOCK",
        }
    }

    /// Whether `address` belongs to this family.
    pub(crate) fn includes(self, address: &Address) -> bool {
        match self {
            Self::Unspecified => true,
            Self::V4 => matches!(address, Address::Inet(SocketAddr::V4(_))),
            Self::V6 => address.is_ipv6(),
            Self::Vsock => matches!(address, Address::Vsock { .. }),
        }
    }
}

with_defaults! {
    /// The control connection: `-H`, `-L`, `-p`, `-4`, `-6`, `-Z`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ControlOptions {
        /// The server's name or address.
        pub host: String = String::new(),
        /// The server's family.
        pub family: Family = Family::Unspecified,
        /// The server's port, as typed.
        pub port: String = DEFAULT_PORT.to_owned(),
        /// The local name or address; `None` is the wildcard.
        pub local_host: Option<String> = None,
        /// The local family.
        pub local_family: Family = Family::Unspecified,
        /// The local port, as typed ("0" by default).
        pub local_port: String = "0".to_owned(),
        /// `-Z`.
        pub passphrase: Option<String> = None,
    }
}

with_defaults! {
    /// The data connection: test options `-H`, `-L`, `-P`, `-4`, `-6`.
    ///
    /// Options that were not given have the values of the control connection.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DataOptions {
        /// Test option `-H`, without its `/bits`; `None` is the host of the control connection.
        pub host: Option<String> = None,
        /// `/bits` of `-H`: the length of the prefix. Each run uses a random host part after it.
        pub host_prefix_bits: Option<u8> = None,
        /// The destination's family.
        pub family: Family = Family::Unspecified,
        /// The destination's port, as typed ("0" by default).
        pub port: String = "0".to_owned(),
        /// Test option `-L`, without its `/bits`; `None` is the control connection's local host.
        pub local_host: Option<String> = None,
        /// `/bits` of `-L`: the length of the prefix, as for `-H`.
        pub local_prefix_bits: Option<u8> = None,
        /// The source's family.
        pub local_family: Family = Family::Unspecified,
        /// The source's port, as typed ("0" by default).
        pub local_port: String = "0".to_owned(),
    }
}

with_defaults! {
    /// Local ports of a connection test: test options `-p` and `-U`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ConnectionPorts {
        /// The first port.
        pub first: u16 = 5000,
        /// One past the last port.
        pub end: u16 = 65535,
        /// Retry after any failed connect, not only after a lack of ports.
        pub retry_after_any_error: bool = false,
    }
}

/// The repetition of a test until its confidence interval is narrow enough: `-i`, `-I`, `-r`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    /// The target width and level, and the range of iterations.
    pub goal: ConfidenceGoal,
    /// `-r`: the target applies only to the throughput, not to the CPU utilisation.
    pub throughput_only: bool,
}

/// The calibration values of `-c` and `-C`; 0 if not given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuRates {
    /// The value of the local host.
    pub local: f32,
    /// The value of the peer, which the request carries.
    pub remote: f32,
}

with_defaults! {
    /// How the result is printed.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PrintOptions {
        /// `-P`: whether to print the banner and column headers.
        pub headers: bool = true,
        /// `-v`: the verbosity.
        pub verbosity: i32 = 1,
        /// `-f`: the unit of throughput, or the test's default unit.
        pub unit: ThroughputUnit = ThroughputUnit('m'),
        /// `-B`: a tag for the result.
        pub brand: Option<String> = None,
        /// `-D`: the interval of interim results.
        pub interim: Option<Duration> = None,
        /// `--histogram-buckets`: the buckets per decade, a multiple of ten.
        pub histogram_buckets: u32 = 10,
        /// Whether to keep latency statistics: for `-j`, or for a selector that needs them.
        pub latency: bool = false,
        /// The local sizes of `-m` and `-M`: bytes per send call and per receive call.
        pub call_sizes: (SizeRule, SizeRule) = (SizeRule::SocketBuffer, SizeRule::SocketBuffer),
        /// The form: a table, or selectors with test options `-o`, `-O`, `-k`.
        pub form: OutputForm = OutputForm::Table,
        /// Test option `-u`, or a generated one.
        pub uuid: String = String::new(),
        /// All arguments joined by blanks (selector COMMAND_LINE), the program's name first.
        pub command_line: String = String::new(),
    }
}

/// The direction of a test's data, as the local end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestDirection {
    /// Whether the local end sends.
    pub transmit: bool,
    /// Whether the local end receives.
    pub receive: bool,
    /// Whether each transaction uses a new connection.
    pub connection: bool,
}

impl TestDirection {
    /// Whether the test counts transactions: it sends in both directions or in none.
    pub fn is_transactional(self) -> bool {
        self.transmit == self.receive
    }
}

/// The unit of throughput: the letter of `-f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThroughputUnit(pub char);

/// The form of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// The test's table (migrated and classic tests).
    Table,
    /// The throughput of all flows as one number, like `super_netperf`.
    Total,
    /// `-O`: columns, the default of OMNI.
    Human(Selection),
    /// `-o`: comma-separated values.
    Csv(Selection),
    /// `-k`: `NAME=value` lines.
    KeyVal(Selection),
}

/// The selectors to print, in at most four blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The test's default columns.
    Default,
    /// `?`: print the names of all selectors and exit.
    List,
    /// Blocks of selectors.
    Blocks(Vec<Vec<Selector>>),
}
