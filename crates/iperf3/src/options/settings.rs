//! The settings of a command line.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use model::with_defaults;
use server::{Network, ThirdParties};
use units::iperf::Scale;

use crate::Version;
use crate::wire::Parameters;

with_defaults! {
    /// The settings of both roles.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CommonSettings {
        /// `--stock-version`: the version of stock iperf3 whose output is printed.
        pub version: Version = Version::V3_22,
        /// `-p`.
        pub port: u16 = 5201,
        /// `-f`: the unit of rates; `None` selects a unit for each rate.
        pub format: Option<Scale> = None,
        /// `-i`: the interval between reports; `None` (0) disables them.
        pub interval: Option<Duration> = Some(Duration::from_secs(1)),
        /// `-I`.
        pub pid_file: Option<PathBuf> = None,
        /// `-F`: the file to send, or to write received data to.
        pub file: Option<PathBuf> = None,
        /// `-A`: the CPU of this end.
        pub cpu: Option<u32> = None,
        /// `-B`: the local address.
        pub bind: Option<String> = None,
        /// `--bind-dev`, or the part after `%` in `-B` and `-c`.
        pub device: Option<String> = None,
        /// `-V`.
        pub verbose: bool = false,
        /// `-J`.
        pub json: bool = false,
        /// `--json-stream`.
        pub json_stream: bool = false,
        /// `--json-stream-full-output`.
        pub json_stream_full_output: bool = false,
        /// `--timestamps`: a format of strftime(3).
        pub timestamps: Option<CString> = None,
        /// `-d`: print control messages and socket settings.
        pub debug: bool = false,
        /// `--cntl-ka`: idle seconds, seconds between probes, number of probes.
        pub keep_alive: Option<[u32; 3]> = None,
        /// `--logfile`.
        pub log_file: Option<PathBuf> = None,
        /// `--rcv-timeout`.
        pub receive_timeout: Duration = Duration::from_secs(120),
        /// `--snd-timeout`, in milliseconds.
        pub send_timeout_ms: Option<u32> = None,
        /// `-4`, `-6`.
        pub family: AddressFamily = AddressFamily::Any,
        /// `--html`.
        pub html: Option<PathBuf> = None,
        /// `--linerate-json`.
        pub linerate_json: Option<PathBuf> = None,
        /// `--strict`.
        pub strict: bool = false,
    }
}

impl CommonSettings {
    /// Returns whether all output is JSON.
    pub(crate) fn prints_json(&self) -> bool {
        self.json || self.json_stream
    }
}

with_defaults! {
    /// The settings of a client.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ClientSettings {
        /// `-c`.
        pub host: String = String::new(),
        /// The parameters that the client requests from the server.
        pub parameters: Parameters = Parameters::default(),
        /// `--connect-timeout`.
        pub connect_timeout: Option<Duration> = None,
        /// `-X`: further local addresses of SCTP associations.
        pub extra_local_addresses: Vec<String> = Vec::new(),
        /// `--nstreams`: streams of an SCTP association.
        pub association_streams: Option<u16> = None,
        /// Whether the test ends with the file of `-F`.
        pub sends_whole_file: bool = false,
        /// `--cport`: the local port of the first stream.
        pub local_port: Option<u16> = None,
        /// `--username`.
        pub user: Option<String> = None,
        /// `--rsa-public-key-path`.
        pub public_key: Option<PathBuf> = None,
        /// `--use-pkcs1-padding`: the padding of 3.16 and earlier.
        pub pkcs1_padding: bool = false,
    }
}

with_defaults! {
    /// The settings of a server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerSettings {
        /// `-D`.
        pub daemon: bool = false,
        /// `-1`.
        pub one_off: bool = false,
        /// `--server-bitrate-limit`: bits per second of all streams of a test, and the averaging
        /// time.
        pub rate_limit: Option<(u64, Duration)> = None,
        /// `--server-max-duration`, in seconds.
        pub max_test_seconds: Option<u32> = None,
        /// `--idle-timeout`.
        pub idle_timeout: Option<Duration> = None,
        /// `--rsa-private-key-path`.
        pub private_key: Option<PathBuf> = None,
        /// `--authorized-users-path`.
        pub users_file: Option<PathBuf> = None,
        /// `--time-skew-threshold`.
        pub max_clock_skew: Duration = Duration::from_secs(10),
        /// `--use-pkcs1-padding`: the padding of 3.16 and earlier.
        pub pkcs1_padding: bool = false,
        /// `--max-tests`: the maximum number of concurrent tests.
        pub max_tests: u32 = 1024,
        /// `--allow-peers`.
        pub allowed_networks: Vec<Network> = Vec::new(),
        /// `--allow-third-party`.
        pub third_parties: ThirdParties = ThirdParties::default(),
    }
}

/// The settings of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The settings of both roles.
    pub common: CommonSettings,
    /// Client or server.
    pub role: Role,
    /// Warnings to print on standard error before the start.
    pub notices: Vec<String>,
}

/// Client or server.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// `-c`.
    Client(Box<ClientSettings>),
    /// `-s`.
    Server(Box<ServerSettings>),
}

/// The address family to use.
pub use sys::resolve::AddressFamily;
