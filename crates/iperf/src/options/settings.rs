//! The settings of one `iperf` program.

use std::path::PathBuf;
use std::time::Duration;

use getopt::{EarlyExit, Exit};
use model::{Plan, SocketOptions, Transport};
use server::ServerConfig;

use super::send_mode::SendMode;
use crate::timing::HistogramBins;
use crate::version::Version;

/// The settings of a client or server.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Settings {
    /// Client or server, with the settings of that role.
    pub role: Role,
    /// `-p`: the first and the last port.
    pub ports: (u16, u16),
    /// TCP or UDP.
    pub transport: Transport,
    /// `-B`: the local address, with an optional port and device.
    pub bind: Option<String>,
    /// `-V`: use IPv6.
    pub v6: bool,
    /// The socket options of data sockets.
    pub socket: SocketOptions,
    /// `-l`: bytes per call or per datagram.
    pub length: u32,
    /// `-b`: bits of payload per second; `None` for no limit.
    pub rate: Option<f64>,
    /// `--tcp-tx-delay`.
    pub tx_delay: Option<Duration>,
    /// `--skip-rx-copy`.
    pub skips_receive_copy: bool,
    /// `--permit-key`.
    pub permit_key: Option<PermitKey>,
    /// `-C`: send no header, and answer none.
    pub compatible: bool,
    /// `-z`: run with real-time scheduling.
    pub real_time: bool,
    /// The settings of the output.
    pub output: OutputSettings,
    /// Warnings, which go to standard error before all other output.
    pub notices: Vec<String>,
}

/// The role of this end, with the settings of that role.
#[derive(Debug)]
pub enum Role {
    /// This end connects.
    Client(Box<ClientSettings>),
    /// This end listens.
    Server(ServerSettings),
}

/// A client's settings.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct ClientSettings {
    /// The server as typed, with an optional `%device`.
    pub host: String,
    /// The plan, with one group per direction. For `-R`, its flows receive.
    pub plan: Plan,
    /// The direction of the data.
    pub direction: Direction,
    /// Whether `-l` was given.
    pub has_length: bool,
    /// `-L`: the port for the server's connection back to this client.
    pub listen_port: u16,
    /// `-b` for the header; 0 is no limit.
    ///
    /// The unit is bits per second, or datagrams per second for `-b Npps` if only the client sends.
    pub requested_rate: u64,
    /// `-X`: wait for the server's version.
    pub peer_detect: bool,
    /// `--no-udp-fin`.
    pub no_udp_fin: bool,
    /// `--trip-times`.
    pub trip_times: bool,
    /// The send mode.
    pub send_mode: SendMode,
    /// Further upper flags of the header: `--tcp-quickack`, `--l2checks`, `--txstart-time`.
    pub request_flags: u16,
    /// The start time of the traffic.
    pub start_time: StartTime,
    /// `--working-load`, `--bounceback-congest`: the settings of a second client, which runs at the
    /// same time.
    pub load: Option<Box<Settings>>,
    /// The number of flows in `--working-load`.
    pub load_flows: Option<u32>,
    /// `--working-load-cca`.
    pub load_congestion_control: Option<String>,
    /// Whether these are the settings of the second client of `--working-load`, which has sums of
    /// its own.
    pub is_working_load: bool,
    /// `--fq-rate-step`, `--fq-rate-step-interval`.
    pub pacing_steps: Option<PacingSteps>,
    /// `--ignore-shutdown`.
    pub ignores_shutdown: bool,
    /// `--sync-transfer-id`.
    pub syncs_transfer_id: bool,
    /// `--connect-only`.
    pub connect_only: Option<ConnectOnly>,
    /// `--incr-dstip`, `--incr-dstport`, `--incr-srcip`, `--incr-srcport`.
    pub increments: Increments,
    /// `--bounceback`.
    pub bounceback: Option<Bounceback>,
    /// The repetition of failed connect calls.
    pub retry: ConnectRetry,
    /// Whether all flows start at the same time; `--no-connect-sync` clears it.
    pub starts_together: bool,
    /// `--json`.
    pub json: bool,
    /// `--html`.
    pub html: Option<PathBuf>,
    /// `--strict`.
    pub strict: bool,
}

/// The steps by which a client raises the rate of its sockets' pacing (SO_MAX_PACING_RATE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingSteps {
    /// The rate of the first interval, in bytes per second.
    pub first: u64,
    /// How much each further interval adds, in bytes per second.
    pub step: u64,
    /// The time between two steps.
    pub interval: Duration,
}

impl PacingSteps {
    /// Returns the rate after this number of steps, in bytes per second.
    pub fn rate_after(&self, steps: u64) -> u64 {
        self.first.saturating_add(self.step.saturating_mul(steps))
    }
}

/// A server's settings.
#[derive(Debug)]
pub struct ServerSettings {
    /// The clients that the server accepts.
    pub config: ServerConfig,
    /// `-t`: the time after which the server stops.
    pub time: Option<Duration>,
    /// `--test-exchange-timeout`.
    pub exchange_timeout: Option<Duration>,
    /// `-D`.
    pub daemon: bool,
    /// `--tos-override`: the type of service of sent data, instead of the client's.
    pub tos_override: Option<u8>,
    /// `-H`: the source of a source-specific multicast group.
    pub source: Option<String>,
    /// `--permit-key-timeout`; `None` for no limit.
    pub key_timeout: Option<Duration>,
}

/// The repetition of failed connect calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRetry {
    /// `--connect-retries` of 2.1.8.
    pub count: u32,
    /// `--connect-retry-time`: how long a client tries; 0 without that option.
    pub time: Duration,
    /// `--connect-retry-timer`: the time from one attempt to the next.
    pub interval: Duration,
}

/// The start time of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartTime {
    /// `--txstart-time`: the time since 1970.
    pub at: Option<Duration>,
    /// `--txdelay-time`: the delay after the connections are established.
    pub delay: Option<Duration>,
}

/// `--connect-only`: connections without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOnly {
    /// The number of connections; `None` for no limit.
    pub count: Option<u32>,
}

/// The addresses and ports that increase by one with each further flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Increments {
    /// `--incr-dstip`.
    pub host: bool,
    /// `--incr-dstport`.
    pub port: bool,
    /// `--incr-srcip`.
    pub source: bool,
    /// `--incr-srcport`.
    pub source_port: bool,
}

/// `--bounceback`: a test of requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounceback {
    /// Bytes of a reply.
    pub reply_bytes: u32,
    /// Requests per period.
    pub burst: u32,
    /// The time from one burst to the next; 0 is no pause.
    pub period: Duration,
    /// The time that the server delays its response.
    pub hold: Duration,
    /// Whether neither end delays its TCP acknowledgements.
    pub quick_ack: bool,
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Forward,
    /// `-R`: the server sends.
    Reverse,
    /// `--full-duplex`: both ends send on the same connection.
    FullDuplex,
    /// `-d`: the server sends at the same time on its own connection to the client.
    Dual,
    /// `-r`: the server sends afterwards on its own connection to the client.
    TradeOff,
}

/// `--permit-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitKey {
    /// The server generates a key.
    Any,
    /// This key.
    Key(String),
}

/// The settings of the output.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct OutputSettings {
    /// `--stock-version`.
    pub version: Version,
    /// `--utc`.
    pub utc: bool,
    /// `--dscp`, which stock's text does not call a setting.
    pub has_dscp_option: bool,
    /// `-e`, or an option that implies it: enhanced reports.
    pub enhanced: bool,
    /// `-f`.
    pub format: Format,
    /// `-i`: the interval of reports; `None` for a report at the end only.
    pub interval: Option<Duration>,
    /// `-y C`.
    pub csv: bool,
    /// `--hide-ips`.
    pub hide_ips: bool,
    /// `--sum-only`.
    pub sum_only: bool,
    /// `--sum-dstip`: sum flows by destination address.
    pub sums_by_destination: bool,
    /// `-U`: UDP, one flow at a time.
    pub single_udp: bool,
    /// `--histograms`.
    pub bins: Option<HistogramBins>,
    /// `--jitter-histograms`, of a server.
    pub jitter_bins: Option<HistogramBins>,
    /// `-i f`: a server reports each burst.
    pub reports_bursts: bool,
    /// `-m`: print the maximum segment size.
    pub print_mss: bool,
    /// `-x`: excluded reports.
    pub exclude: ExcludedReports,
    /// `-o`: the file for reports and errors.
    pub path: Option<PathBuf>,
}

/// `-x`: excluded reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a letter of the option"
)]
pub struct ExcludedReports {
    /// C: connection lines.
    pub connections: bool,
    /// D: results.
    pub data: bool,
    /// M: joined multicast groups.
    pub multicast: bool,
    /// S: the settings.
    pub settings: bool,
    /// V: the report of a UDP server.
    pub server_report: bool,
}

/// `-f`: the units of amounts and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The unit that fits each value.
    Adaptive {
        /// Whether rates are in bytes per second instead of bits.
        bytes: bool,
    },
    /// A fixed unit.
    Fixed {
        /// The power of 1000 or 1024; 0 is no prefix.
        power: u32,
        /// Whether rates are in bytes per second instead of bits.
        bytes: bool,
    },
}

impl Format {
    /// Parses the letter of `-f`.
    pub fn from_letter(letter: char) -> Option<Self> {
        let bytes = letter.is_ascii_uppercase();
        if letter.eq_ignore_ascii_case(&'a') {
            return Some(Self::Adaptive { bytes });
        }
        let power = "bkmgt".find(letter.to_ascii_lowercase())? as u32;
        Some(Self::Fixed { power, bytes })
    }
}

impl Direction {
    /// Sets the direction. Refuses a second direction that differs from the first.
    pub(super) fn add(&mut self, other: Self) -> Result<(), EarlyExit> {
        if *self != Self::Forward && *self != other {
            let line =
                "ERROR: options of --full-duplex, --reverse, -d and -r are mutually exclusive\n";
            return Err(EarlyExit::Exit(Exit::stderr(line, 1)));
        }
        *self = other;
        Ok(())
    }

    /// Whether the server sends on the client's connection.
    pub fn sends_from_server(self) -> bool {
        matches!(self, Self::Reverse | Self::FullDuplex)
    }

    /// Whether the server sends on its own connection to a port of the client.
    pub fn has_connection_back(self) -> bool {
        matches!(self, Self::Dual | Self::TradeOff)
    }
}

impl Settings {
    /// Whether the transport is UDP.
    pub fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }
}
