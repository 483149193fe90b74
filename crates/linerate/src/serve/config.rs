//! The limits and secrets of `linerate serve`. They come from the command line, or from a file with
//! one option per line.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use server::{AddressLimits, Network};

/// Limits for one address.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct LimitArgs {
    /// Run at most N tests of one address at a time (of IPv6, of one /64)
    #[arg(long, value_name = "N")]
    max_tests: Option<u32>,

    /// End the tests of an address if their total rate exceeds RATE (100mbit, 1gbit), and refuse
    /// further ones until the rate fits again; bursts up to one second at RATE are allowed
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    max_rate: Option<u64>,

    /// Refuse tests longer than SEC seconds; end a running test after SEC + 10 seconds
    #[arg(long, value_name = "SEC", value_parser = units::parse_duration)]
    max_seconds: Option<Duration>,

    /// Serve only clients of these networks, such as 10.0.0.0/8
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = Network::parse)]
    pub(super) allow_peers: Vec<Network>,

    /// Let clients of these networks receive more than three times the bytes that they sent, even
    /// if their address is unproven. This applies to UDP tests of stock iperf 2 in which the server
    /// sends, and to long responses to stock UDPmon
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = Network::parse)]
    allow_third_party: Vec<Network>,
}

/// Secrets that clients must know.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct AuthSecrets {
    #[arg(long)]
    pub(super) netperf_passphrase: Option<String>,
    #[arg(long)]
    pub(super) iperf_permit_key: Option<String>,
    #[arg(long, requires = "iperf3_authorized_users")]
    pub(super) iperf3_rsa_private_key: Option<PathBuf>,
    #[arg(long, requires = "iperf3_rsa_private_key")]
    pub(super) iperf3_authorized_users: Option<PathBuf>,
}

/// The options of a file, parsed as if they were on a command line.
#[derive(Parser)]
struct FileOptions<T: clap::Args> {
    #[command(flatten)]
    args: T,
}

impl LimitArgs {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        parse_file(path)
    }

    /// Replaces each limit that `file` sets.
    pub(super) fn override_with(&mut self, file: Self) {
        self.max_tests = file.max_tests.or(self.max_tests);
        self.max_rate = file.max_rate.or(self.max_rate);
        self.max_seconds = file.max_seconds.or(self.max_seconds);
        if !file.allow_peers.is_empty() {
            self.allow_peers = file.allow_peers;
        }
        if !file.allow_third_party.is_empty() {
            self.allow_third_party = file.allow_third_party;
        }
    }

    pub(super) fn limits(&self) -> AddressLimits {
        AddressLimits {
            max_tests: self.max_tests,
            max_bits_per_second: self.max_rate,
            max_duration: self.max_seconds,
            proof_exempt_networks: Some(self.allow_third_party.clone()),
        }
    }
}

impl AuthSecrets {
    /// Reads a secrets file. Fails if other users have any access to the file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = std::fs::metadata(path).map_err(|error| file_error(path, &error))?;
        if file.permissions().mode() & 0o077 != 0 {
            return Err(format!(
                "{}: other users have access to this file; run chmod 600 on it",
                path.display()
            ));
        }
        parse_file(path)
    }
}

/// Parses a file with one option per line, without the leading dashes; `#` begins a comment.
fn parse_file<T: clap::Args>(path: &Path) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| file_error(path, &error))?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let options = lines.filter(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        format!("--{name}={}", value.trim())
    });
    let parsed = FileOptions::<T>::try_parse_from(std::iter::once(String::new()).chain(options));
    let parsed = parsed.map_err(|error| {
        let text = error.to_string();
        let message = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<_> = message.split_whitespace().skip(1).collect();
        format!("{}: {}", path.display(), words.join(" "))
    });
    Ok(parsed?.args)
}

fn file_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {}", path.display(), sys::describe(error))
}

fn parse_rate(text: &str) -> Result<u64, &'static str> {
    units::parse_strict_bit_rate(text).map(|rate| rate.0 as u64)
}
