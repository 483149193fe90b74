//! What `linerate run` is told.

use std::path::PathBuf;

use model::{IoMethod, Transport};
use stats::confidence::{Goal, Level};
use units::BitRate;

use super::choice::{self, Test};

/// Measures a path and explains what it found.
///
/// Each test has a control connection of its own, to any netserver that there is on HOST, linerate's
/// or the stock one. Without HOST a server is started in this process, and this machine is measured
/// over its loopback interface.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one option without a value"
)]
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A host with a netserver; without it this machine
    pub(crate) host: Option<String>,

    /// Tests, in this order [default: TCP_STREAM, TCP_MAERTS, UDP_STREAM, TCP_RR, UDP_RR, TCP_CRR]
    #[arg(
        short = 't',
        long = "test",
        value_name = "TEST,...",
        value_delimiter = ','
    )]
    tests: Vec<String>,

    /// Run the tests over tcp, udp, mptcp, udplite, sctp, sctp-many, dccp, unix, unix-datagram or vsock (where
    /// HOST is a context's number); in -t they then need no prefix: STREAM,MAERTS,RR,CRR,CC
    #[arg(long, value_name = "TRANSPORT", value_parser = choice::transport)]
    pub(crate) transport: Option<Transport>,

    /// How long each test runs: whole seconds, or a duration such as 1m30s
    #[arg(short = 'l', long = "length", value_name = "SECONDS", default_value_t = 2, value_parser = length)]
    pub(crate) length: u32,

    /// Print one JSON document in place of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report as an HTML page, with plots of the rate over time and of latencies
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// The port of the host's netserver
    #[arg(long, value_name = "PORT", default_value_t = 12865, value_parser = clap::value_parser!(u16).range(1..), requires = "host")]
    pub(crate) port: u16,

    /// The port that the server's end of the data connections has, for a path with a firewall
    /// (netperf: -- -P ,PORT); with --parallel the first of as many
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) data_port: Option<u16>,

    /// Pace one-way datagrams to this rate of payload (100mbit), or not at all (unlimited) [default: the
    /// rate of a stream test before it, or of a second of TCP_STREAM]
    #[arg(long, value_name = "RATE", value_parser = udp_rate)]
    pub(crate) udp_rate: Option<UdpRate>,

    /// Move one-way datagrams by this method: plain is one call per datagram, mmsg one call (sendmmsg,
    /// recvmmsg) for up to 64, which a linerate at the other end does, too
    #[arg(long, value_name = "METHOD", default_value = "plain", value_parser = io_method)]
    pub(crate) io: IoMethod,

    /// Run each test so often, or with --confidence at most; show the median and the range
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,

    /// Run each test until its mean rate is known at LEVEL % (95 or 99) to an interval WIDTH % wide (5): 3 to
    /// 10 times, or up to --repeat
    #[arg(long, value_name = "LEVEL[,WIDTH]", value_parser = confidence)]
    confidence: Option<Confidence>,

    /// Run each test this long first, and discard the results
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = seconds)]
    pub(crate) warm_up: u32,

    /// Run so many flows of a test at once, and show their sum
    #[arg(long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) parallel: u32,

    /// Run as many flows the other way at the same time, of one-way tests, which are the default then
    #[arg(long)]
    pub(crate) bidirectional: bool,

    /// Write the times of all transactions, or of single calls, as a histogram log
    #[arg(long, value_name = "FILE")]
    pub(crate) histogram: Option<PathBuf>,

    /// Exit with 3 if anything makes a result doubtful
    #[arg(long)]
    pub(crate) strict: bool,

    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6")]
    pub(crate) v4: bool,

    /// Use IPv6 only
    #[arg(short = '6', requires = "host")]
    pub(crate) v6: bool,
}

/// What `--udp-rate` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UdpRate {
    /// As fast as it goes.
    Unlimited,
    /// Payload of all flows together in one direction.
    Paced(BitRate),
}

/// What `--confidence` asks for.
#[derive(Clone, Copy, Debug)]
struct Confidence {
    level: Level,
    /// The interval's full width, as a fraction of the mean.
    width: f64,
}

/// As netperf's `-i` and `-I` have it, where nothing else is asked for.
const ITERATIONS: (u32, u32) = (3, 10);

const EXIT_CODES: &str = "\
Exit codes:
  0    every test has a result
  1    a test failed; where the peer does not answer, or a transport's data does not get
       through, the tests that would fail for the same reason are not run
  2    the command line is wrong
  3    with --strict: every test has a result, and something makes one doubtful
  130  SIGINT or SIGTERM ended the run; what was measured until then is printed";

impl Args {
    /// The tests, or one line that says what is wrong.
    pub(crate) fn tests(&self) -> Result<Vec<Test>, String> {
        let tests = choice::choose(&self.tests, self.transport, self.bidirectional)?;
        let over_vsock = |test: &Test| test.transport == Transport::Vsock;
        let has_pace = |test: &Test| test.is_one_way_over_datagrams();
        if self.udp_rate.is_some() && !tests.iter().any(has_pace) {
            return Err("--udp-rate: none of the tests sends datagrams one way".to_owned());
        }
        if self.io == IoMethod::Mmsg {
            if !tests.iter().any(has_pace) {
                return Err("--io mmsg: none of the tests sends datagrams one way".to_owned());
            }
            if self.histogram.is_some() {
                return Err(
                    "--io mmsg contradicts --histogram, which times single calls".to_owned(),
                );
            }
        }
        let has_no_ports = |test: &Test| test.transport.is_of_one_host();
        if self.data_port.is_some() && tests.iter().any(has_no_ports) {
            return Err("--data-port contradicts Unix domain sockets, which have none".to_owned());
        }
        if self.host.is_some() && tests.iter().any(over_vsock) {
            if !tests.iter().all(over_vsock) {
                return Err("a HOST over vsock is a context: test others apart from it".to_owned());
            }
            if self.v4 || self.v6 {
                return Err("-4 and -6 contradict vsock, which has no IP".to_owned());
            }
        }
        Ok(tests)
    }

    /// How often a test is run at most, and when that is often enough.
    pub(crate) fn iterations(&self) -> (u32, Option<Goal>) {
        let Some(Confidence { level, width }) = self.confidence else {
            return (self.repeat, None);
        };
        let (min, usual) = ITERATIONS;
        let max = if self.repeat > 1 { self.repeat } else { usual };
        let goal = Goal {
            level,
            width,
            min: min.min(max),
            max,
        };
        (max, Some(goal))
    }
}

fn confidence(text: &str) -> Result<Confidence, String> {
    let (level, width) = text.split_once(',').unwrap_or((text, "5"));
    let level: u8 = level.parse().unwrap_or(0);
    let level = Level::try_from(level).map_err(str::to_owned)?;
    match width.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent > 0.0 => Ok(Confidence {
            level,
            width: percent / 100.0,
        }),
        _ => Err("a width is a number of percent above 0".to_owned()),
    }
}

fn io_method(text: &str) -> Result<IoMethod, String> {
    match text {
        "plain" => Ok(IoMethod::Plain),
        "mmsg" => Ok(IoMethod::Mmsg),
        _ => Err("a method is plain or mmsg".to_owned()),
    }
}

fn udp_rate(text: &str) -> Result<UdpRate, String> {
    if text == "unlimited" {
        return Ok(UdpRate::Unlimited);
    }
    let rate = units::bit_rate(text).map(UdpRate::Paced);
    rate.ok_or_else(|| "a rate is such as 100mbit, or unlimited".to_owned())
}

fn length(text: &str) -> Result<u32, String> {
    match seconds(text)? {
        0 => Err("a test takes at least one second".to_owned()),
        seconds => Ok(seconds),
    }
}

/// As netperf's `-l`, up to the week that a netserver allows.
fn seconds(text: &str) -> Result<u32, String> {
    const LONGEST: u32 = 604_800;
    match netperf::options::test_seconds(text)? {
        seconds if seconds > LONGEST => Err(format!("a test takes at most {LONGEST} seconds")),
        seconds => Ok(seconds),
    }
}
