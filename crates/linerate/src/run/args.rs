//! What `linerate run` is told.

use std::path::PathBuf;

use netperf::options::Test;

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

    /// Tests, in this order
    #[arg(short = 't', long = "test", value_name = "TEST,...", value_delimiter = ',', default_values = DEFAULT_TESTS, default_value_if("bidirectional", "true", "TCP_STREAM,UDP_STREAM"))]
    tests: Vec<String>,

    /// How long each test runs
    #[arg(short = 'l', long = "length", value_name = "SECONDS", default_value_t = 2, value_parser = seconds(1))]
    pub(crate) length: u32,

    /// Print one JSON document in place of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// The port of the host's netserver
    #[arg(long, value_name = "PORT", default_value_t = 12865, value_parser = clap::value_parser!(u16).range(1..), requires = "host")]
    pub(crate) port: u16,

    /// Run each test so often, and show the median and the range
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,

    /// Run each test this long first, and throw that away
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = seconds(0))]
    pub(crate) warm_up: u32,

    /// Run so many flows of a test at once, and show their sum
    #[arg(long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) parallel: u32,

    /// Run as many flows the other way at the same time; the tests are TCP_STREAM and UDP_STREAM then
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

const DEFAULT_TESTS: [&str; 6] = [
    "TCP_STREAM",
    "TCP_MAERTS",
    "UDP_STREAM",
    "TCP_RR",
    "UDP_RR",
    "TCP_CRR",
];

/// The tests whose result is a rate.
const TESTS: [Test; 8] = [
    Test::TcpStream,
    Test::TcpMaerts,
    Test::TcpSendfile,
    Test::UdpStream,
    Test::TcpRr,
    Test::UdpRr,
    Test::TcpCrr,
    Test::TcpCc,
];

const EXIT_CODES: &str = "\
Exit codes:
  0    every test has a result
  1    a test failed; the others were run
  2    the command line is wrong
  3    with --strict: every test has a result, and something makes one doubtful
  130  SIGINT or SIGTERM ended the run; what was measured until then is printed";

impl Args {
    /// The tests, or one line that names what is none.
    pub(crate) fn tests(&self) -> Result<Vec<Test>, String> {
        self.tests.iter().map(|name| by_name(name)).collect()
    }
}

fn by_name(name: &str) -> Result<Test, String> {
    TESTS
        .into_iter()
        .find(|test| test.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| {
            let known: Vec<_> = TESTS.iter().map(|test| test.name()).collect();
            format!(
                "unknown test '{name}' in -t; there are {}",
                known.join(", ")
            )
        })
}

/// Whole seconds, as the protocol carries them, up to the week that a netserver allows.
fn seconds(least: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=604_800)
}
