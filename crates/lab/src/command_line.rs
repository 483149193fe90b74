//! Command-line options of `linerate-lab`.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lab::{ImpairmentSchedule, LinkOptions, TokenBucket};

#[derive(Parser)]
#[command(name = "linerate-lab", version, about)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) subcommand: LabCommand,
}

#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Run a command on a client host that a link connects to a server host; needs root
    Netns(NetnsArgs),
}

/// `LAB_SERVER` is the address of the server host, 198.19.0.1. `LAB_SERVER_NET` is its network
/// namespace, as in `nsenter --net=$LAB_SERVER_NET ss -s`. `LAB_CLIENT` and `LAB_CLIENT_NET` are
/// those of the client host. linerate-lab exits with the exit code of COMMAND.
///
/// WHICH selects packets: `every N`, `packets 3,10-12`, `random 0.1%` or just `0.1%`. The packets
/// of each direction are numbered from 1. TIME has a unit, for example 10ms.
#[derive(Args)]
#[command(after_help = "lab/README.md has examples and describes the schedule language.")]
pub(crate) struct NetnsArgs {
    /// Limit both directions with a token bucket, in units of tc: 100mbit
    #[arg(long)]
    rate: Option<String>,
    /// Limit the direction from the server to the client to a different rate
    #[arg(long, value_name = "RATE")]
    rate_back: Option<String>,
    /// Size of the token bucket, for example 32kb [default: 32 ms at the rate]
    #[arg(long, value_name = "SIZE")]
    burst: Option<String>,
    /// Maximum time that a packet waits for tokens
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    latency: String,

    /// Delay each direction: TIME, `uniform LOW HIGH` or `normal MEAN DEVIATION`
    #[arg(long, value_name = "DELAY")]
    delay: Option<String>,
    /// Drop packets
    #[arg(long, value_name = "WHICH")]
    loss: Option<String>,
    /// Send packets twice
    #[arg(long, value_name = "WHICH")]
    duplicate: Option<String>,
    /// Hold packets back so that later ones overtake them: `every 20 by 5ms`
    #[arg(long, value_name = "WHICH by TIME")]
    reorder: Option<String>,
    /// Add a schedule line, for example `forth udp drop every 100`; repeatable
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// Add the schedule lines of a file
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Seed of the random choices; the same seed selects the same packets
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Maximum number of packets that wait in the forwarder, per direction
    #[arg(long, value_name = "PACKETS", default_value_t = 100_000)]
    limit: usize,
    /// Poll without sleeping, for exact arrival times; keeps two CPUs busy
    #[arg(long)]
    spin: bool,

    /// Write one CSV line per packet, with times of CLOCK_MONOTONIC
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Write the totals of the forwarder as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Do not print the totals of the forwarder
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Add IPv6 addresses; LAB_SERVER6 is fd13::1
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Run PROGRAM as a netserver on the server host, at the default port; if PROGRAM is named
    /// linerate, run `linerate netserver`
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) netserver: Option<PathBuf>,
    /// Run a shell command on the server host until COMMAND ends
    #[arg(long, value_name = "COMMAND LINE")]
    pub(crate) serve: Option<String>,
    /// Start COMMAND when a server listens on this TCP port of the server host
    #[arg(long, value_name = "PORT")]
    pub(crate) await_port: Option<u16>,

    /// Command to run on the client host
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

impl NetnsArgs {
    /// Returns the options of the requested link.
    pub(crate) fn link_options(&self) -> Result<LinkOptions, String> {
        let rate_back = self.rate_back.as_ref().or(self.rate.as_ref());
        let bucket = |rate: Option<&String>| rate.map(|rate| self.token_bucket(rate)).transpose();
        Ok(LinkOptions {
            rates: [bucket(self.rate.as_ref())?, bucket(rate_back)?],
            schedule: self.schedule()?,
            queue_limit: self.limit,
            spin: self.spin,
            ipv6: self.ipv6,
        })
    }

    fn token_bucket(&self, rate: &str) -> Result<TokenBucket, String> {
        let bit_rate = units::parse_bit_rate(rate);
        let bits_per_s = bit_rate
            .ok_or_else(|| format!("invalid rate '{rate}'; an example is 100mbit"))?
            .0;
        // A smaller bucket overflows and loses tokens whenever the machine is busy for a moment.
        let default_burst = || format!("{}", ((bits_per_s * 0.032 / 8.0) as u64).max(5000));
        Ok(TokenBucket {
            rate: rate.to_owned(),
            burst: self.burst.clone().unwrap_or_else(default_burst),
            latency: self.latency.clone(),
        })
    }

    /// Returns the schedule of the forwarder; `None` if no option requires a forwarder.
    fn schedule(&self) -> Result<Option<ImpairmentSchedule>, String> {
        let mut text = String::new();
        for (action, parameters) in [
            ("delay", &self.delay),
            ("drop", &self.loss),
            ("duplicate", &self.duplicate),
            ("reorder", &self.reorder),
        ] {
            if let Some(words) = parameters {
                let _ = writeln!(text, "{action} {words}");
            }
        }
        for rule in &self.rule {
            let _ = writeln!(text, "{rule}");
        }
        if let Some(path) = &self.schedule {
            text += &std::fs::read_to_string(path)
                .map_err(|error| format!("{}: {}", path.display(), sys::describe(&error)))?;
        }
        // An empty schedule file is valid: the forwarder then only records packets.
        if text.is_empty()
            && self.schedule.is_none()
            && self.log.is_none()
            && self.summary.is_none()
        {
            return Ok(None);
        }
        let mut schedule = ImpairmentSchedule::parse(&text).map_err(|error| error.to_string())?;
        schedule.seed = self.seed.unwrap_or(schedule.seed);
        Ok(Some(schedule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_options(line: &str) -> Result<LinkOptions, String> {
        let arguments = format!("linerate-lab netns {line} true");
        let parsed =
            CommandLine::try_parse_from(arguments.split(' ')).map_err(|error| error.to_string())?;
        let LabCommand::Netns(arguments) = parsed.subcommand;
        arguments.link_options()
    }

    #[test]
    fn rates_become_token_buckets() {
        let rates_of = |line| {
            link_options(line)
                .unwrap()
                .rates
                .map(|rate| rate.map(|rate| (rate.rate, rate.burst)))
        };
        let bucket = |rate: &str, burst: &str| Some((rate.to_owned(), burst.to_owned()));
        assert_eq!(rates_of("--ipv6"), [None, None]);
        assert_eq!(
            rates_of("--rate 1gbit"),
            [bucket("1gbit", "4000000"), bucket("1gbit", "4000000")]
        );
        assert_eq!(
            rates_of("--rate 100mbit --rate-back 64kbit --burst 32kb"),
            [bucket("100mbit", "32kb"), bucket("64kbit", "32kb")]
        );
        assert_eq!(
            rates_of("--rate-back 1mbit"),
            [None, bucket("1mbit", "5000")]
        );
        assert_eq!(
            link_options("--rate fast").unwrap_err(),
            "invalid rate 'fast'; an example is 100mbit"
        );
    }

    #[test]
    fn impairments_and_records_need_a_forwarder() {
        for (line, expected) in [
            ("--rate 1mbit", false),
            ("--delay 1ms", true),
            ("--log x", true),
            ("--summary x", true),
        ] {
            assert_eq!(
                link_options(line).unwrap().schedule.is_some(),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn options_become_rules() {
        let parsed = CommandLine::try_parse_from([
            "linerate-lab",
            "netns",
            "--delay",
            "normal 10ms 1ms",
            "--loss",
            "0.1%",
            "--reorder",
            "every 20 by 5ms",
            "--duplicate",
            "packets 3",
            "--seed",
            "9",
            "--",
            "true",
            "--loss",
        ]);
        let LabCommand::Netns(arguments) =
            parsed.unwrap_or_else(|error| panic!("{error}")).subcommand;
        assert_eq!(arguments.command, ["true", "--loss"]);
        let rules = "seed 9\ndelay normal 10ms 1ms\ndrop 0.1%\nduplicate packets 3\nreorder every 20 by 5ms";
        assert_eq!(
            arguments.schedule(),
            Ok(Some(ImpairmentSchedule::parse(rules).unwrap()))
        );
    }
}
