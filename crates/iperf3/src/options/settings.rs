//! What a command line asks for.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use model::with_defaults;
use server::Network;
use units::iperf::Scale;

use crate::wire::Parameters;

with_defaults! {
    /// What both roles have.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Common {
        /// `-p`.
        pub port: u16 = 5201,
        /// `-f`: the unit of rates; `None` picks one by the amount.
        pub format: Option<Scale> = None,
        /// `-i`: `None` of 0, which is no intervals.
        pub interval: Option<Duration> = Some(Duration::from_secs(1)),
        /// `-I`.
        pub pid_file: Option<PathBuf> = None,
        /// `-F`: sent, or written.
        pub file: Option<PathBuf> = None,
        /// `-A`: the CPU of this end.
        pub cpu: Option<u32> = None,
        /// `-B`: the local address.
        pub bind: Option<String> = None,
        /// `--bind-dev`, or what follows `%` in `-B` and `-c`.
        pub device: Option<String> = None,
        /// `-V`.
        pub verbose: bool = false,
        /// `-J`.
        pub json: bool = false,
        /// `--json-stream`.
        pub json_stream: bool = false,
        /// `--json-stream-full-output`.
        pub full_output: bool = false,
        /// `--timestamps`: in the form of strftime(3).
        pub timestamps: Option<CString> = None,
        /// `-d`: print messages of the control connection, and sockets.
        pub debug: bool = false,
        /// `--cntl-ka`: seconds of silence, seconds between probes, probes.
        pub keep_alive: Option<[u32; 3]> = None,
        /// `--logfile`.
        pub log_file: Option<PathBuf> = None,
        /// `--rcv-timeout`.
        pub receive_timeout: Duration = Duration::from_secs(120),
        /// `--snd-timeout`, in milliseconds.
        pub send_timeout_ms: Option<u32> = None,
        /// `-4`, `-6`.
        pub family: Wanted = Wanted::Any,
        /// `--html`.
        pub html: Option<PathBuf> = None,
        /// `--linerate-json`.
        pub report: Option<PathBuf> = None,
        /// `--strict`.
        pub strict: bool = false,
    }
}

impl Common {
    /// Whether all output is JSON.
    pub(crate) fn prints_json(&self) -> bool {
        self.json || self.json_stream
    }
}

with_defaults! {
    /// What a client does.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Client {
        /// `-c`.
        pub host: String = String::new(),
        /// What it asks the server for.
        pub parameters: Parameters = Parameters::default(),
        /// `--connect-timeout`.
        pub connect_timeout: Option<Duration> = None,
        /// `-X`: further local addresses of SCTP associations.
        pub links: Vec<String> = Vec::new(),
        /// `--nstreams`: streams of an SCTP association.
        pub association_streams: Option<u16> = None,
        /// The test ends with the file of `-F`.
        pub sends_whole_file: bool = false,
        /// `--cport`: the local port of the first stream.
        pub local_port: Option<u16> = None,
        /// `--username`.
        pub user: Option<String> = None,
        /// `--rsa-public-key-path`.
        pub public_key: Option<PathBuf> = None,
        /// `--use-pkcs1-padding`: the padding of 3.16 and before.
        pub old_padding: bool = false,
    }
}

with_defaults! {
    /// What a server allows.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Server {
        /// `-D`.
        pub daemon: bool = false,
        /// `-1`.
        pub one_off: bool = false,
        /// `--server-bitrate-limit`: bits per second of all streams of a test, and the time over which they count.
        pub rate_limit: Option<(u64, Duration)> = None,
        /// `--server-max-duration`, in seconds.
        pub longest_test: Option<u32> = None,
        /// `--idle-timeout`.
        pub idle_timeout: Option<Duration> = None,
        /// `--rsa-private-key-path`.
        pub private_key: Option<PathBuf> = None,
        /// `--authorized-users-path`.
        pub users: Option<PathBuf> = None,
        /// `--time-skew-threshold`.
        pub skew: Duration = Duration::from_secs(10),
        /// `--use-pkcs1-padding`: the padding of 3.16 and before.
        pub old_padding: bool = false,
        /// `--max-tests`: tests at a time.
        pub tests: u32 = 1024,
        /// `--allow-peers`.
        pub networks: Vec<Network> = Vec::new(),
    }
}

/// A command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What both roles have.
    pub common: Common,
    /// Client or server.
    pub role: Role,
    /// Lines for standard error before anything starts.
    pub notices: Vec<String>,
}

/// Client or server.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// `-c`.
    Client(Box<Client>),
    /// `-s`.
    Server(Box<Server>),
}

/// Which addresses are used.
pub use sys::resolve::Wanted;
