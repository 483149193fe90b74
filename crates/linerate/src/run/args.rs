//! The arguments of `linerate run`.

use std::path::PathBuf;

use model::{IoMethod, Transport};
use stats::confidence::{ConfidenceGoal, ConfidenceLevel};
use units::BitRate;

use super::test_selection::{self, Test};

/// Measures a path and explains the result.
///
/// Each test opens its own control connection to the netserver on HOST: linerate's or the stock
/// one. Without HOST, linerate starts a server in its own process, and measures this machine over
/// the loopback interface.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one option without a value"
)]
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    // Not a doc comment, in which rustdoc takes the brackets for a link.
    #[arg(
        value_parser = parse_host,
        help = "Host with a netserver, or HOST:PORT; without HOST, this machine. An IPv6 address before \
                a port needs brackets, as in [::1]:12865"
    )]
    host: Option<Host>,

    /// Tests, in this order [default: TCP_STREAM, TCP_MAERTS, UDP_STREAM, TCP_RR, UDP_RR, TCP_CRR]
    #[arg(
        short = 't',
        long = "test",
        value_name = "TEST,...",
        value_delimiter = ','
    )]
    tests: Vec<String>,

    /// Run the tests over tcp, udp, mptcp, udplite, sctp, sctp-many, dccp, unix, unix-datagram or
    /// vsock (HOST is then a context ID); names in -t then need no prefix: STREAM,MAERTS,RR,CRR,CC
    #[arg(long, value_name = "TRANSPORT", value_parser = test_selection::parse_transport)]
    pub(crate) transport: Option<Transport>,

    /// Length of each test: whole seconds, or a duration such as 1m30s
    #[arg(short = 'l', long = "length", value_name = "SECONDS", default_value_t = 2, value_parser = parse_length)]
    pub(crate) length: u32,

    /// Print a JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report as an HTML page with plots of the rate over time and of latencies
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Port of the netserver
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..), requires = "host")]
    port: u16,

    /// Server port of the data connections, for a path with a firewall (netperf: -- -P ,PORT); with
    /// --parallel, the first of consecutive ports
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) data_port: Option<u16>,

    /// Pace one-way datagrams to this payload rate (100mbit), or do not pace them (unlimited)
    /// [default: the rate of an earlier stream test, or of one second of TCP_STREAM]
    #[arg(long, value_name = "RATE", value_parser = parse_udp_rate)]
    pub(crate) udp_rate: Option<UdpRate>,

    /// System calls for one-way datagrams: plain uses one call per datagram; mmsg uses one call
    /// (sendmmsg, recvmmsg) for up to 64, and so does the peer if it is linerate
    #[arg(long, value_name = "METHOD", default_value = "plain", value_parser = parse_io_method)]
    pub(crate) io: IoMethod,

    /// Number of runs of each test, or with --confidence the maximum; show the median and the range
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,

    /// Repeat each test until the confidence interval of its mean rate at LEVEL % (95 or 99) is at
    /// most WIDTH % wide (default 5): 3 to 10 times, or up to --repeat
    #[arg(long, value_name = "LEVEL[,WIDTH]", value_parser = parse_confidence)]
    confidence: Option<Confidence>,

    /// Warm up each test for SECONDS seconds; discard the results
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = parse_seconds)]
    pub(crate) warm_up: u32,

    /// Run FLOWS flows of each test in parallel; show their sum
    #[arg(long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) parallel: u32,

    /// Also run the same number of flows in the opposite direction. Only for one-way tests, which
    /// are then the default
    #[arg(long)]
    pub(crate) bidirectional: bool,

    /// Write the times of all transactions, or of single calls, as a histogram log
    #[arg(long, value_name = "FILE")]
    pub(crate) histogram: Option<PathBuf>,

    /// Exit with 3 if there is a warning
    #[arg(long)]
    pub(crate) strict: bool,

    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6")]
    pub(crate) v4: bool,

    /// Use IPv6 only
    #[arg(short = '6', requires = "host")]
    pub(crate) v6: bool,
}

/// HOST or HOST:PORT.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: String,
    port: Option<u16>,
}

/// Port of a netserver.
const DEFAULT_PORT: u16 = 12865;

/// Value of `--udp-rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UdpRate {
    /// No pacing.
    Unlimited,
    /// Total payload rate of all flows in one direction.
    Paced(BitRate),
}

/// Value of `--confidence`.
#[derive(Clone, Copy, Debug)]
struct Confidence {
    level: ConfidenceLevel,
    /// Full width of the interval, as a fraction of the mean.
    width: f64,
}

/// Default minimum and maximum number of runs with `--confidence`, as in netperf (`-i`, `-I`).
const DEFAULT_ITERATIONS: (u32, u32) = (3, 10);

const EXIT_CODES: &str = "\
Exit codes:
  0    every test has a result
  1    a test failed; if the peer does not answer or a transport does not work, linerate
       skips the tests that would fail for the same reason
  2    the command line is wrong
  3    with --strict: every test has a result, and there is a warning
  130  SIGINT or SIGTERM ended the run; linerate printed the results up to then";

impl Args {
    /// Returns the name or address of the host.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_ref().map(|host| host.name.as_str())
    }

    /// Returns the port of the netserver.
    pub(crate) fn port(&self) -> u16 {
        let port_of_host = self.host.as_ref().and_then(|host| host.port);
        port_of_host.unwrap_or(self.port)
    }

    /// Returns the selected tests, after checking the arguments. The error is one line.
    pub(crate) fn tests(&self) -> Result<Vec<Test>, String> {
        let tests = test_selection::select_tests(&self.tests, self.transport, self.bidirectional)?;
        if self.port != DEFAULT_PORT && self.port() != self.port {
            return Err(format!(
                "--port {} contradicts the port {} after HOST",
                self.port,
                self.port()
            ));
        }
        let is_vsock = |test: &Test| test.transport == Transport::Vsock;
        let sends_datagrams = |test: &Test| test.is_one_way_over_datagrams();
        if self.udp_rate.is_some() && !tests.iter().any(sends_datagrams) {
            return Err("--udp-rate: no test sends one-way datagrams".to_owned());
        }
        if self.io == IoMethod::Mmsg {
            if !tests.iter().any(sends_datagrams) {
                return Err("--io mmsg: no test sends one-way datagrams".to_owned());
            }
            if self.histogram.is_some() {
                return Err(
                    "--io mmsg contradicts --histogram, which times single calls".to_owned(),
                );
            }
        }
        let has_no_ports = |test: &Test| test.transport.is_local();
        if self.data_port.is_some() && tests.iter().any(has_no_ports) {
            return Err(
                "--data-port contradicts Unix domain sockets, which have no ports".to_owned(),
            );
        }
        if self.host.is_some() && tests.iter().any(is_vsock) {
            if !tests.iter().all(is_vsock) {
                return Err(
                    "HOST is a context ID over vsock: use a separate run for other transports"
                        .to_owned(),
                );
            }
            if self.v4 || self.v6 {
                return Err("-4 and -6 contradict vsock, which does not use IP".to_owned());
            }
        }
        Ok(tests)
    }

    /// Returns the maximum number of runs per test, and the goal that ends the runs earlier.
    pub(crate) fn iterations(&self) -> (u32, Option<ConfidenceGoal>) {
        let Some(Confidence { level, width }) = self.confidence else {
            return (self.repeat, None);
        };
        let (min, default_max) = DEFAULT_ITERATIONS;
        let max = if self.repeat > 1 {
            self.repeat
        } else {
            default_max
        };
        let goal = ConfidenceGoal {
            level,
            max_relative_width: width,
            min_samples: min.min(max),
            max_samples: max,
        };
        (max, Some(goal))
    }
}

/// Parses `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`. More than one colon without brackets
/// is an IPv6 address.
fn parse_host(text: &str) -> Result<Host, String> {
    let (name, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((name, ""))) => (name, None),
        Some(Some((name, rest))) => match rest.strip_prefix(':') {
            Some(port) => (name, Some(port)),
            None => return Err("only a colon and a port may follow the brackets".to_owned()),
        },
        Some(None) => return Err("the bracket is not closed".to_owned()),
        None => match text.split_once(':') {
            Some((name, port)) if !port.contains(':') => (name, Some(port)),
            _ => (text, None),
        },
    };
    let port = port.map(|port| match port.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("'{port}' is not a port")),
    });
    if name.is_empty() {
        return Err("the host is missing".to_owned());
    }
    Ok(Host {
        name: name.to_owned(),
        port: port.transpose()?,
    })
}

fn parse_confidence(text: &str) -> Result<Confidence, String> {
    let (level, width) = text.split_once(',').unwrap_or((text, "5"));
    let level: u8 = level.parse().unwrap_or(0);
    let level = ConfidenceLevel::try_from(level).map_err(str::to_owned)?;
    match width.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent > 0.0 => Ok(Confidence {
            level,
            width: percent / 100.0,
        }),
        _ => Err("the width must be a number of percent above 0".to_owned()),
    }
}

fn parse_io_method(text: &str) -> Result<IoMethod, String> {
    match text {
        "plain" => Ok(IoMethod::OnePerCall),
        "mmsg" => Ok(IoMethod::Mmsg),
        _ => Err("a method is plain or mmsg".to_owned()),
    }
}

fn parse_udp_rate(text: &str) -> Result<UdpRate, String> {
    if text == "unlimited" {
        return Ok(UdpRate::Unlimited);
    }
    let rate = units::parse_strict_bit_rate(text).map(UdpRate::Paced);
    rate.map_err(|error| format!("{error}, or unlimited"))
}

fn parse_length(text: &str) -> Result<u32, String> {
    match parse_seconds(text)? {
        0 => Err("a test takes at least one second".to_owned()),
        seconds => Ok(seconds),
    }
}

/// Parses a duration in whole seconds. The maximum is one week, the limit of linerate's netserver.
fn parse_seconds(text: &str) -> Result<u32, String> {
    const MAX_SECONDS: u32 = 604_800;
    let duration = units::parse_duration(text)?;
    if duration.subsec_nanos() != 0 {
        return Err("the protocol carries whole seconds only".to_owned());
    }
    match u32::try_from(duration.as_secs()) {
        Ok(seconds) if seconds <= MAX_SECONDS => Ok(seconds),
        _ => Err(format!("a test takes at most {MAX_SECONDS} seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_may_have_ports() {
        for (text, name, port) in [
            ("host", "host", None),
            ("host:1", "host", Some(1)),
            ("10.0.0.1:65535", "10.0.0.1", Some(65535)),
            ("::1", "::1", None),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[::1]", "::1", None),
            ("[fe80::1%eth0]:12865", "fe80::1%eth0", Some(12865)),
        ] {
            let name = name.to_owned();
            assert_eq!(parse_host(text), Ok(Host { name, port }), "{text}");
        }
        for text in [
            "",
            ":1",
            "host:",
            "host:x",
            "host:0",
            "host:65536",
            "[]:1",
            "[::1",
            "[::1]1",
            "[::1]:",
        ] {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }
}
