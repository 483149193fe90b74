//! The settings in force for one invocation of the client, every default filled in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::{FlowPlan, Group, Phases, Plan, SizeRule, Transport, Workload, with_defaults};
use stats::confidence::Goal;
use sys::Address;

use crate::attachment::Attachment;
use crate::selector::{Needs, Selector};

/// netserver's.
pub(super) const DEFAULT_PORT: &str = "12865";

with_defaults! {
    /// Everything that one command line asked for.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Settings {
        /// The test, from `-t`.
        pub test: Test = Test::TcpStream,
        /// Which way the data goes.
        pub direction: Direction = Direction { transmit: true, receive: false, connection: false },
        /// What people call the test.
        pub name: String = String::new(),
        /// What each flow does, at both ends.
        pub flow: FlowPlan = FlowPlan::of(Transport::Tcp, Workload::send()),
        /// How many flows of one direction.
        pub flows: u32 = 1,
        /// Pause between the agreement with the peer and the first operation.
        pub wait: Duration = Duration::ZERO,
        /// The same the other way round, which runs at the same time: `--bidirectional`.
        pub reverse: Option<Box<Self>> = None,
        /// The control connection.
        pub control: Control = Control::default(),
        /// `-N`: there is none. The data connection is to any service that answers as the test needs it,
        /// and what only a peer could tell is unknown.
        pub no_control: bool = false,
        /// The data connection's addresses and ports.
        pub data: Data = Data::default(),
        /// What a connection test does with ports.
        pub ports: ConnectionPorts = ConnectionPorts::default(),
        /// What only one family of tests asks for.
        pub special: Special = Special::Inet,
        /// `-c`, `-C`: calibration values.
        pub cpu_rate: CpuRates = CpuRates::default(),
        /// `-i`, `-I`: how often the test is run; `None` is once.
        pub repeat: Option<Repeat> = None,
        /// What is to be found out beside the test, as the selectors need it.
        pub needs: Needs = Needs::default(),
        /// How the result is printed.
        pub print: Print = Print::default(),
        /// `-d`, how often.
        pub debug: u32 = 0,
        /// `--histogram`: where the times go.
        pub histogram: Option<PathBuf> = None,
        /// `--data-idle`: how long data may stop where no time ends the test.
        pub data_idle: Duration = Duration::from_secs(60),
        /// A data connection that gets no answer.
        pub unanswered: Unanswered = Unanswered::Report,
        /// `--json`: the result is a document on stdout, and the only thing there.
        pub json: bool = false,
        /// `--html`: the file for the page.
        pub html: Option<PathBuf> = None,
        /// `--strict`: a doubt about the result is a failure.
        pub strict: bool = false,
        /// Lines for stdout before anything else happens, as the stock tool prints them for an address
        /// family that it does not know.
        pub notices: Vec<String> = Vec::new(),
        /// Lines for stderr before anything else happens, as the stock tool prints them for an option
        /// that it has given up.
        pub warnings: Vec<String> = Vec::new(),
    }
}

impl Settings {
    /// Whether more is made of the result than text.
    pub fn has_report(&self) -> bool {
        self.json || self.html.is_some()
    }

    /// What is run, in both directions.
    pub fn plan(&self) -> Plan {
        let back = self.reverse.iter();
        let ways = std::iter::once(self).chain(back.map(|reverse| &**reverse));
        Plan {
            name: self.name.clone(),
            groups: ways
                .map(|way| Group::of_flows(way.flows, way.flow.clone()))
                .collect(),
            phases: Phases {
                wait: self.wait,
                ..Phases::default()
            },
            ..Plan::default()
        }
    }
}

/// What is done about a data connection that gets no answer while the control connection is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It is reported on stderr after 5 s, and the test goes on, as the stock tool's does.
    Report,
    /// It is a failure after this long.
    GiveUp(Duration),
}

macro_rules! tests {
    ($($test:ident $name:literal $family:ident,)+) => {
        /// A test by its name on the command line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "they are the field's names")]
        pub enum Test {
            $($test,)+
        }

        impl Test {
            /// Every test, with its name.
            pub const ALL: &[(Self, &'static str)] = &[$((Self::$test, $name),)+];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$test => $name,)+
                }
            }

            /// The family that it belongs to.
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
    /// Whether it moves data, or opens connections: the others ask for a figure.
    pub fn moves_data(self) -> bool {
        !matches!(self, Self::Uuid | Self::LocCpu | Self::RemCpu)
    }

    /// Whether it uses the classic messages rather than the omni ones.
    pub fn is_classic(self) -> bool {
        matches!(self, Self::TcpSendfile | Self::TcpMss | Self::TcpCc)
            || self.family() != TestFamily::Inet
    }

    /// Whether it is a request/response test of one of the families with classic messages only.
    pub(crate) fn is_family_transaction(self) -> bool {
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

/// The tests that share options and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestFamily {
    /// TCP and UDP, and what goes with them.
    Inet,
    /// Unix domain sockets.
    Unix,
    /// SCTP.
    Sctp,
    /// DLPI: here LLC sockets.
    Dlpi,
}

/// What only one family of tests asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Special {
    /// TCP and UDP: nothing.
    Inet,
    /// Unix domain.
    Unix {
        /// Test option `-p`: where this end's socket is made. Without it only one that must have a name
        /// has one, below /tmp.
        directory: Option<PathBuf>,
    },
    /// SCTP.
    Sctp {
        /// Test option `-T`, and 1 in tests of one association.
        associations: u32,
    },
    /// DLPI.
    Dlpi {
        /// This end's interface.
        local: Attachment,
        /// The peer's.
        remote: Attachment,
        /// Test option `-s`.
        sap: u8,
    },
}

/// An address family, as `-4`, `-6` and `host,family` give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Whatever the name resolves to.
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
    /// Its name in the stock tool's messages.
    pub(crate) fn af_name(self) -> &'static str {
        match self {
            Self::Unspecified => "AF_UNSPEC",
            Self::V4 => "AF_INET",
            Self::V6 => "AF_INET6",
            Self::Vsock => "AF_VSOCK",
        }
    }

    /// Whether an address is of this family.
    pub(crate) fn admits(self, address: &Address) -> bool {
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
    pub struct Control {
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
    /// The data connection: test options `-H`, `-L`, `-P`, `-4`, `-6`, or what the control has.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Data {
        /// Test option `-H`, without its `/bits`; `None` inherits the control's.
        pub host: Option<String> = None,
        /// `/bits` of `-H`: the host part is drawn anew for each run.
        pub host_bits: Option<u8> = None,
        /// The destination's family.
        pub family: Family = Family::Unspecified,
        /// The destination's port, as typed ("0" by default).
        pub port: String = "0".to_owned(),
        /// Test option `-L`, without its `/bits`; `None` inherits the control's.
        pub local_host: Option<String> = None,
        /// `/bits` of `-L`.
        pub local_bits: Option<u8> = None,
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
        pub min: u16 = 5000,
        /// One past the last port.
        pub max: u16 = 65535,
        /// Retry any failed connect, not only one for want of a port.
        pub retry_all: bool = false,
    }
}

/// `-i`, `-I` and `-r`: iterations of one test until its means are known well enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    /// How well, and how many iterations there may be.
    pub goal: Goal,
    /// `-r`: the throughput alone has to be known so well, not the CPU utilisation.
    pub throughput_only: bool,
}

/// The calibration values of `-c` and `-C`; 0 where none was given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuRates {
    /// This end's.
    pub local: f32,
    /// The peer's, which goes over the wire.
    pub remote: f32,
}

with_defaults! {
    /// How the result is printed.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Print {
        /// `-P`: banner and column headers.
        pub headers: bool = true,
        /// `-v`.
        pub verbosity: i32 = 1,
        /// `-f`, or the test's default.
        pub unit: Unit = Unit('m'),
        /// `-B`.
        pub brand: Option<String> = None,
        /// `-D`: how often results are printed while the test runs.
        pub interim: Option<Duration> = None,
        /// `--histogram-buckets`: per decade, a multiple of ten.
        pub histogram_buckets: u32 = 10,
        /// `-j`, or a selector that needs them: keep latency statistics.
        pub latency: bool = false,
        /// What `-m` and `-M` say of this end's send and receive calls.
        pub call_sizes: (SizeRule, SizeRule) = (SizeRule::SocketBuffer, SizeRule::SocketBuffer),
        /// Table, or test options `-o`, `-O`, `-k`.
        pub form: Form = Form::Table,
        /// Test option `-u`, or a generated one.
        pub uuid: String = String::new(),
        /// All arguments joined by blanks (selector COMMAND_LINE), the program's name first.
        pub command_line: String = String::new(),
    }
}

/// Which way the data goes, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// This end sends.
    pub transmit: bool,
    /// This end receives.
    pub receive: bool,
    /// Every transaction has a connection of its own.
    pub connection: bool,
}

impl Direction {
    /// Both ways, or neither: what is counted is transactions.
    pub fn is_transactional(self) -> bool {
        self.transmit == self.receive
    }
}

/// `-f`: the unit of throughput, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit(pub char);

/// The output form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// The test's own table (migrated and classic tests).
    Table,
    /// The throughput of all flows, a bare number: what `super_netperf` prints.
    Total,
    /// `-O`, and OMNI by default.
    Human(Selection),
    /// `-o`.
    Csv(Selection),
    /// `-k`.
    KeyVal(Selection),
}

/// Which selectors are printed: at most four blocks of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The test's default columns.
    Default,
    /// `?`: print the names and end.
    List,
    /// Blocks of selectors.
    Blocks(Vec<Vec<Selector>>),
}
