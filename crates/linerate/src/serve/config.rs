//! The limits and secrets of `linerate serve`. They come from the command line, or from a file with
//! one option per line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
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
    /// if their address is unproven. This applies to UDP tests of iperf 2 in which the server
    /// sends, and to long responses to stock UDPmon. Addresses on the server's links need no option
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = Network::parse)]
    pub(super) allow_third_party: Vec<Network>,
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
    /// Reads a limits file. A FIFO could block the server, so it must be a regular file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = sys::input_file::read_regular(path).map_err(|error| file_error(path, &error))?;
        parse_file(path, &text)
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
        }
    }
}

impl AuthSecrets {
    /// Reads a secrets file. Fails if other users have any access to it or to a file that it names.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let read = |path: &Path| {
            sys::input_file::read_secret(path).map_err(|error| file_error(path, &error))
        };
        let secrets: Self = parse_file(path, &read(path)?)?;
        let named = [
            &secrets.iperf3_rsa_private_key,
            &secrets.iperf3_authorized_users,
        ];
        for path in named.into_iter().flatten() {
            read(path)?;
        }
        Ok(secrets)
    }
}

/// Parses a file with one option per line, without the leading dashes. A line that begins with `#` is
/// a comment; elsewhere, a secret may contain that character. An error names the line and shows none
/// of its text except a valid name.
fn parse_file<T: clap::Args>(path: &Path, text: &str) -> Result<T, String> {
    let parse = |options: &[String]| {
        let program = std::iter::once(String::new());
        FileOptions::<T>::try_parse_from(program.chain(options.iter().cloned()))
    };
    let command = FileOptions::<T>::command();
    let names: Vec<_> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .filter(|name| *name != "help")
        .collect();
    let mut options: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |reason: String| {
            let (path, number) = (path.display(), index + 1);
            Err(format!("{path}: line {number}: {reason}"))
        };
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if !names.contains(&name) {
            return fail(format!("unknown option; use {}", names.join(", ")));
        }
        let value = value.trim();
        if value.is_empty() {
            return fail(format!("{name} needs a value"));
        }
        let option = format!("--{name}={value}");
        if let Err(error) = parse(std::slice::from_ref(&option))
            && error.kind() != ErrorKind::MissingRequiredArgument
        {
            let reason = std::error::Error::source(&error);
            let reason = reason.map_or("invalid value".to_owned(), ToString::to_string);
            return fail(format!("{name}: {reason}"));
        }
        if options
            .iter()
            .any(|other| other.split('=').next() == option.split('=').next())
        {
            return fail(format!("{name} is set twice"));
        }
        options.push(option);
    }
    let parsed = parse(&options).map_err(|error| {
        let missing = names.iter().filter(|name| {
            let option = format!("--{name}=");
            !options.iter().any(|other| other.starts_with(&option))
                && error.to_string().contains(&format!("--{name} "))
        });
        let missing: Vec<_> = missing.copied().collect();
        format!("{}: missing: {}", path.display(), missing.join(", "))
    });
    Ok(parsed?.args)
}

fn file_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {}", path.display(), sys::describe(error))
}

fn parse_rate(text: &str) -> Result<u64, &'static str> {
    units::parse_strict_bit_rate(text).map(|rate| rate.0 as u64)
}
