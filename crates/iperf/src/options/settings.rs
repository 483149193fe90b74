//! The settings in force, and their parts.

use std::path::PathBuf;
use std::time::Duration;

use getopt::{Exit, Quit};
use model::{Plan, SocketOptions, Transport};
use server::ServerConfig;

use super::shape::Shape;
use crate::tally::Bins;

/// The settings in force for one iperf.
#[derive(Debug)]
pub struct Settings {
    /// Which end it is.
    pub role: Role,
    /// `-p`: the first and the last port.
    pub ports: (u16, u16),
    /// TCP or UDP.
    pub transport: Transport,
    /// `-B`.
    pub bind: Option<String>,
    /// `-V`.
    pub v6: bool,
    /// The options of data sockets.
    pub socket: SocketOptions,
    /// Bytes a call, or a datagram.
    pub length: u32,
    /// Bits of payload per second, if that is bounded.
    pub rate: Option<f64>,
    /// `--permit-key`.
    pub permit_key: Option<PermitKey>,
    /// `-C`: without a header.
    pub compatible: bool,
    /// `-z`.
    pub real_time: bool,
    /// The output.
    pub print: Print,
    /// Lines for standard error before anything else.
    pub notices: Vec<String>,
}

/// Which end this is, with its own settings.
#[derive(Debug)]
pub enum Role {
    /// It connects.
    Client(Box<Client>),
    /// It listens.
    Server(Serve),
}

/// A client's settings.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Client {
    /// The server, as it was typed, and the device that leads to it.
    pub host: String,
    /// A group per direction. If the server sends alone, the direction is turned.
    pub plan: Plan,
    /// Which way data goes.
    pub direction: Direction,
    /// `-l` was typed.
    pub has_length: bool,
    /// `-L`.
    pub listen_port: u16,
    /// `-b` as a server is asked to send: 0 is no bound.
    pub asked_rate: u64,
    /// `-X`.
    pub peer_detect: bool,
    /// `--no-udp-fin`.
    pub no_udp_fin: bool,
    /// `--trip-times`.
    pub trip_times: bool,
    /// How it sends.
    pub shape: Shape,
    /// What the header asks for beside that: `--tcp-quickack`, `--l2checks`, `--txstart-time`.
    pub asks: u16,
    /// When traffic begins.
    pub begin: Begins,
    /// `--bounceback-congest`: the settings of another client, which runs beside.
    pub load: Option<Box<Settings>>,
    /// `--connect-only`.
    pub connect_only: Option<ConnectOnly>,
    /// `--incr-dstip` and the like.
    pub increments: Increments,
    /// `--bounceback`.
    pub bounceback: Option<Bounceback>,
    /// `--connect-retries`.
    pub retries: u32,
    /// Flows start together.
    pub together: bool,
    /// `--json`.
    pub json: bool,
    /// `--html`.
    pub html: Option<PathBuf>,
    /// `--strict`.
    pub strict: bool,
}

/// A server's settings.
#[derive(Debug)]
pub struct Serve {
    /// Which clients it accepts.
    pub config: ServerConfig,
    /// `-t`.
    pub time: Option<Duration>,
    /// `-D`.
    pub daemon: bool,
    /// `--tos-override`.
    pub service_of_senders: Option<u8>,
    /// `-H`: what a group is received from.
    pub source: Option<String>,
    /// `--permit-key-timeout`.
    pub key_timeout: Option<Duration>,
}

/// When traffic begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begins {
    /// `--txstart-time`, since 1970.
    pub at: Option<Duration>,
    /// `--txdelay-time`, after the connections are there.
    pub delay: Option<Duration>,
}

/// Connections without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOnly {
    /// So many; `None` is for ever.
    pub count: Option<u32>,
}

/// What each further flow has one more of.
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

/// A test of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounceback {
    /// Requests a period.
    pub burst: u32,
    /// From one burst to the next; 0 is without pause.
    pub period: Duration,
    /// How long the server keeps a request.
    pub hold: Duration,
    /// Neither end delays its acknowledgements.
    pub quick_ack: bool,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Forward,
    /// `-R`.
    Reverse,
    /// `--full-duplex`.
    FullDuplex,
    /// `-d`.
    Dual,
    /// `-r`.
    TradeOff,
}

/// `--permit-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitKey {
    /// A server makes one.
    Any,
    /// This one.
    This(String),
}

/// The output.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Print {
    /// `-e`, or an option that implies it.
    pub enhanced: bool,
    /// `-f`.
    pub format: Format,
    /// `-i`.
    pub interval: Option<Duration>,
    /// `-y C`.
    pub csv: bool,
    /// `--hide-ips`.
    pub hide_ips: bool,
    /// `--sum-only`.
    pub sum_only: bool,
    /// `--sum-dstip`: sums are of the flows to an address.
    pub sums_by_destination: bool,
    /// `-U`.
    pub single: bool,
    /// `--histograms`.
    pub bins: Option<Bins>,
    /// `-i f`.
    pub by_frames: bool,
    /// `-m`.
    pub segment: bool,
    /// `-x`.
    pub exclude: Exclude,
    /// `-o`.
    pub file: Option<PathBuf>,
}

/// `-x`: reports that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a letter of the option"
)]
pub struct Exclude {
    /// C: connections.
    pub connections: bool,
    /// D: figures.
    pub data: bool,
    /// M: groups that are joined.
    pub multicast: bool,
    /// S: the settings.
    pub settings: bool,
    /// V: what a UDP server reports.
    pub server_report: bool,
}

/// `-f`: the units of amounts and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The unit that fits, as bytes or bits per second.
    Adaptive {
        /// Rates are bytes per second.
        bytes: bool,
    },
    /// This power of 1000 or 1024.
    Fixed {
        /// 0 is no prefix.
        power: u32,
        /// Rates are bytes per second.
        bytes: bool,
    },
}

impl Format {
    /// Reads the letter.
    pub fn of_letter(letter: char) -> Option<Self> {
        let bytes = letter.is_ascii_uppercase();
        if letter.eq_ignore_ascii_case(&'a') {
            return Some(Self::Adaptive { bytes });
        }
        let power = "bkmgt".find(letter.to_ascii_lowercase())? as u32;
        Some(Self::Fixed { power, bytes })
    }
}

impl Direction {
    /// Adds what another option asks for; of the last four directions one may be asked for.
    pub(super) fn add(&mut self, other: Self) -> Result<(), Quit> {
        if *self != Self::Forward && *self != other {
            let line =
                "ERROR: options of --full-duplex, --reverse, -d and -r are mutually exclusive\n";
            return Err(Quit::Exit(Exit::stderr(line, 1)));
        }
        *self = other;
        Ok(())
    }

    /// Whether the server sends on the client's own connection.
    pub fn sends_from_server(self) -> bool {
        matches!(self, Self::Reverse | Self::FullDuplex)
    }

    /// Whether the server sends to a port of the client's.
    pub fn has_connection_back(self) -> bool {
        matches!(self, Self::Dual | Self::TradeOff)
    }
}

impl Settings {
    /// Whether it is UDP.
    pub fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }
}
