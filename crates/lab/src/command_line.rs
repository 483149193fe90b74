//! What can be asked for.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lab::{Link, Rate, Schedule};

#[derive(Parser)]
#[command(name = "linerate-lab", version, about)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) part: Part,
}

#[derive(Subcommand)]
pub(crate) enum Part {
    /// Run a command in a client host with a server host beyond a link; needs root
    Netns(NetnsArgs),
}

/// The command finds the server host at 198.19.0.1, in `LAB_SERVER`, and its network namespace in
/// `LAB_SERVER_NET`, as in `nsenter --net=$LAB_SERVER_NET ss -s`; the same for `LAB_CLIENT`. Its exit
/// code becomes this program's.
///
/// WHICH packets: `every N`, `packets 3,10-12`, `random 0.1%` or just `0.1%`. Each direction counts
/// its packets from 1. TIME is such as 10ms.
#[derive(Args)]
#[command(after_help = "lab/README.md has examples, and the schedule's language.")]
pub(crate) struct NetnsArgs {
    /// Limit both directions by a token bucket, in tc's words: 100mbit
    #[arg(long)]
    rate: Option<String>,
    /// Another rate from the server to the client
    #[arg(long, value_name = "RATE")]
    rate_back: Option<String>,
    /// The bucket's size, such as 32kb [default: 32 ms of the rate]
    #[arg(long, value_name = "SIZE")]
    burst: Option<String>,
    /// How long a packet may wait for the bucket
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
    /// Hold packets back for others to overtake: `every 20 by 5ms`
    #[arg(long, value_name = "WHICH by TIME")]
    reorder: Option<String>,
    /// A line of a schedule, such as `forth udp drop every 100`; may be given again
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// A file of such lines
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// What random choices start from; each seed is a different course, always the same
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Packets that may wait in the forwarder, in each direction
    #[arg(long, value_name = "PACKETS", default_value_t = 100_000)]
    limit: usize,
    /// The forwarder never sleeps: arrivals are stamped at once, and two processors are busy
    #[arg(long)]
    spin: bool,

    /// Write a line for each packet: CSV, times of CLOCK_MONOTONIC
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Write the forwarder's sums: JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Do not print the forwarder's sums
    #[arg(long)]
    pub(crate) quiet: bool,

    /// IPv6 too: the server at fd13::1, in LAB_SERVER6
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Run PROGRAM on the server host as a netserver, at its usual port, or as `linerate netserver`
    /// if it is called linerate
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) netserver: Option<PathBuf>,
    /// Run a shell command on the server host until COMMAND has ended
    #[arg(long, value_name = "COMMAND LINE")]
    pub(crate) serve: Option<String>,
    /// Start COMMAND only when something on the server host listens at this TCP port
    #[arg(long, value_name = "PORT")]
    pub(crate) await_port: Option<u16>,

    /// What to run on the client host
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

impl NetnsArgs {
    /// The link that is asked for.
    pub(crate) fn link(&self) -> Result<Link, String> {
        let back = self.rate_back.as_ref().or(self.rate.as_ref());
        let rate = |rate: Option<&String>| rate.map(|rate| self.rate(rate)).transpose();
        Ok(Link {
            rates: [rate(self.rate.as_ref())?, rate(back)?],
            schedule: self.schedule()?,
            limit: self.limit,
            spin: self.spin,
            ipv6: self.ipv6,
        })
    }

    fn rate(&self, rate: &str) -> Result<Rate, String> {
        let bits = units::bit_rate(rate);
        let bits = bits
            .ok_or_else(|| format!("'{rate}' is no rate such as 100mbit"))?
            .0;
        // Less, and a machine that is busy for a moment makes the bucket overflow.
        let burst = || format!("{}", ((bits * 0.032 / 8.0) as u64).max(5000));
        Ok(Rate {
            rate: rate.to_owned(),
            burst: self.burst.clone().unwrap_or_else(burst),
            latency: self.latency.clone(),
        })
    }

    /// `None` if nothing asks for a forwarder.
    fn schedule(&self) -> Result<Option<Schedule>, String> {
        let mut text = String::new();
        for (action, words) in [
            ("delay", &self.delay),
            ("drop", &self.loss),
            ("duplicate", &self.duplicate),
            ("reorder", &self.reorder),
        ] {
            if let Some(words) = words {
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
        // A file may be empty on purpose: a forwarder that does nothing but stamp.
        if text.is_empty()
            && self.schedule.is_none()
            && self.log.is_none()
            && self.summary.is_none()
        {
            return Ok(None);
        }
        let mut schedule = Schedule::parse(&text).map_err(|error| error.to_string())?;
        schedule.seed = self.seed.unwrap_or(schedule.seed);
        Ok(Some(schedule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(line: &str) -> Result<Link, String> {
        let words = format!("linerate-lab netns {line} true");
        let parsed =
            CommandLine::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?;
        let Part::Netns(arguments) = parsed.part;
        arguments.link()
    }

    #[test]
    fn rates() {
        let rates = |line| {
            link(line)
                .unwrap()
                .rates
                .map(|rate| rate.map(|rate| (rate.rate, rate.burst)))
        };
        let rate = |rate: &str, burst: &str| Some((rate.to_owned(), burst.to_owned()));
        assert_eq!(rates("--ipv6"), [None, None]);
        assert_eq!(
            rates("--rate 1gbit"),
            [rate("1gbit", "4000000"), rate("1gbit", "4000000")]
        );
        assert_eq!(
            rates("--rate 100mbit --rate-back 64kbit --burst 32kb"),
            [rate("100mbit", "32kb"), rate("64kbit", "32kb")]
        );
        assert_eq!(rates("--rate-back 1mbit"), [None, rate("1mbit", "5000")]);
        assert_eq!(
            link("--rate fast").unwrap_err(),
            "'fast' is no rate such as 100mbit"
        );
    }

    #[test]
    fn a_forwarder_only_if_it_has_something_to_do() {
        for (line, expected) in [
            ("--rate 1mbit", false),
            ("--delay 1ms", true),
            ("--log x", true),
            ("--summary x", true),
        ] {
            assert_eq!(link(line).unwrap().schedule.is_some(), expected, "{line}");
        }
    }

    #[test]
    fn options_are_rules() {
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
        let Part::Netns(arguments) = parsed.unwrap_or_else(|error| panic!("{error}")).part;
        assert_eq!(arguments.command, ["true", "--loss"]);
        let rules = "seed 9\ndelay normal 10ms 1ms\ndrop 0.1%\nduplicate packets 3\nreorder every 20 by 5ms";
        assert_eq!(
            arguments.schedule(),
            Ok(Some(Schedule::parse(rules).unwrap()))
        );
    }
}
