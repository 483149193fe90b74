//! Every test with every pair that includes ours, over both families: on one host, and between two
//! hosts with two links and two addresses on each.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use testkit::{Implementation, LinkAddress, ProcessOutput, Release, figures, key_values};

use super::exchange::{Family, Pair, RELEASES, Setting, missing_reason, run_pair, stdout_of};
use super::variants::compare_output;
use super::{Case, CaseResult};

/// A test of the matrix.
struct Test {
    name: &'static str,
    /// Global options.
    global: &'static [&'static str],
    /// Test options.
    specific: &'static [&'static str],
    /// `-l` for a run that ends by count.
    count: &'static str,
    /// Minimum result on the loopback interface, including on a busy machine.
    min_result: f64,
    payload: Payload,
}

/// Payload of a test: the expected relation between the byte counts of the two ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// A stream to the server: the server receives all sent bytes.
    ToServer,
    /// A stream from the server: the client receives all sent bytes if it reads to the end.
    FromServer,
    /// Transactions. The end of the test may interrupt one.
    Transactions,
    /// Datagrams to the server: the server receives at most the sent bytes.
    DatagramsToServer,
    /// Datagrams from the server: the client receives at most the sent bytes.
    DatagramsFromServer,
    /// The test counts no payload.
    Uncounted,
    /// The test only prints a table.
    TableOnly,
}

/// Minimum throughput of a bulk test, 10^6 bit/s.
const MIN_THROUGHPUT: f64 = 50.0;
/// Minimum rate of transactions or connections, 1/s.
const MIN_RATE: f64 = 50.0;
/// Runs of a test until one is fast enough. A busy machine may leave a run little time.
const MAX_TIMED_RUNS: usize = 10;
/// `-l` for a bulk run that ends by count, in bytes.
const BULK_COUNT: &str = "-10M";
/// `-l` for any other run that ends by count, in transactions or connections.
const TRANSACTION_COUNT: &str = "-300";

const TESTS: &[Test] = &[
    bulk("tcp_stream", &["-t", "TCP_STREAM"], &[], Payload::ToServer),
    bulk(
        "tcp_maerts",
        &["-t", "TCP_MAERTS"],
        &[],
        Payload::FromServer,
    ),
    bulk(
        "tcp_sendfile",
        &["-t", "TCP_SENDFILE"],
        &[],
        Payload::TableOnly,
    ),
    bulk("tcp_mss", &["-t", "TCP_MSS"], &[], Payload::TableOnly),
    bulk(
        "udp_stream",
        &["-t", "UDP_STREAM"],
        &["-R", "1"],
        Payload::DatagramsToServer,
    ),
    rate("tcp_rr", &["-t", "TCP_RR"], &[], Payload::Transactions),
    rate("tcp_crr", &["-t", "TCP_CRR"], &[], Payload::Transactions),
    rate("tcp_cc", &["-t", "TCP_CC"], &[], Payload::TableOnly),
    rate("udp_rr", &["-t", "UDP_RR"], &[], Payload::Transactions),
    bulk("omni_send", OMNI, &["-d", "send"], Payload::ToServer),
    bulk("omni_stream", OMNI, &["-d", "stream"], Payload::ToServer),
    bulk("omni_recv", OMNI, &["-d", "recv"], Payload::FromServer),
    bulk("omni_maerts", OMNI, &["-d", "maerts"], Payload::FromServer),
    rate("omni_rr", OMNI, &["-d", "rr"], Payload::Transactions),
    rate("omni_crr", OMNI, &["-d", "rr", "-c"], Payload::Transactions),
    rate("omni_connect_close", OMNI, &["-c"], Payload::Uncounted),
    bulk(
        "omni_udp_send",
        OMNI,
        &["-T", "udp", "-d", "send", "-m", "1024", "-R", "1"],
        Payload::DatagramsToServer,
    ),
    bulk(
        "omni_udp_recv",
        OMNI,
        &["-T", "udp", "-d", "recv", "-M", "1024", "-R", "1"],
        Payload::DatagramsFromServer,
    ),
    rate(
        "omni_udp_rr",
        OMNI,
        &["-T", "udp", "-d", "rr"],
        Payload::Transactions,
    ),
];

const OMNI: &[&str] = &["-t", "OMNI"];

/// Default bytes per send, of the original and of ours.
const SEND_SIZE: f64 = 16_384.0;

/// Bytes that the default buffers of both ends can hold: 4 MiB at the sender, 6 MiB at the
/// receiver.
const MAX_IN_FLIGHT: f64 = 10_485_760.0;

/// Selectors with the result and the byte counts.
const SELECTION: &str = "THROUGHPUT,ELAPSED_TIME,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,\
    REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";

/// Returns a test whose result is a throughput.
const fn bulk(
    name: &'static str,
    global: &'static [&'static str],
    specific: &'static [&'static str],
    payload: Payload,
) -> Test {
    Test {
        name,
        global,
        specific,
        count: BULK_COUNT,
        min_result: MIN_THROUGHPUT,
        payload,
    }
}

/// Returns a test whose result is a rate of transactions or connections.
const fn rate(
    name: &'static str,
    global: &'static [&'static str],
    specific: &'static [&'static str],
    payload: Payload,
) -> Test {
    Test {
        name,
        global,
        specific,
        count: TRANSACTION_COUNT,
        min_result: MIN_RATE,
        payload,
    }
}

/// Locations of client and server: name, family, and the server's address if it is on another host.
const LOCATIONS: [(&str, Family, Option<LinkAddress>); 6] = [
    ("ipv4", Family::V4, None),
    ("ipv6", Family::V6, None),
    two_hosts("ipv4-second-address", Family::V4, 0, 1),
    two_hosts("ipv6-second-address", Family::V6, 0, 1),
    two_hosts("ipv4-second-interface", Family::V4, 1, 0),
    two_hosts("ipv6-second-interface", Family::V6, 1, 0),
];

const fn two_hosts(
    name: &'static str,
    family: Family,
    link: u8,
    index: u8,
) -> (&'static str, Family, Option<LinkAddress>) {
    let is_v6 = matches!(family, Family::V6);
    let link_address = LinkAddress { link, index, is_v6 };
    (name, family, Some(link_address))
}

pub(crate) fn cases() -> Vec<Case> {
    let releases = RELEASES.into_iter();
    let cases = releases.flat_map(|(release, suffix)| cases_with(release, suffix));
    cases.collect()
}

fn cases_with(release: Release, suffix: &str) -> Vec<Case> {
    let missing = missing_reason(release);
    let mut cases = Vec::new();
    for (location, family, link_address) in LOCATIONS {
        if release != Release::Debian12 && link_address.is_some() {
            continue;
        }
        let setting = Setting {
            release,
            family,
            link_address,
            ..Setting::PLAIN
        };
        for test in TESTS {
            // The stock pair runs once for all pairs.
            let stock = Arc::new(StockRuns::default());
            for pair in Pair::TESTED {
                let name = format!("matrix::{}::{location}::{}{suffix}", test.name, pair.name());
                let stock = Arc::clone(&stock);
                let case = Case::new(name, move || test.check(pair, setting, &stock));
                let case = case.in_namespace(test.connects() || link_address.is_some());
                let case = case.unless(missing.clone());
                cases.push(if test.connects() {
                    // A stock server waits for some seconds at the end of a connection test.
                    case.allow_many_at_once()
                } else {
                    case
                });
            }
        }
        if link_address.is_none() {
            for pair in Pair::TESTED {
                let name = format!("matrix::uuid::{location}::{}{suffix}", pair.name());
                cases.push(Case::new(name, move || uuid(pair, setting)).unless(missing.clone()));
            }
        }
    }
    cases
}

/// Runs of the stock pair, shared by all pairs that are compared with it.
#[derive(Default)]
struct StockRuns {
    counted: SharedRun,
    text: SharedRun,
}

type SharedRun = OnceLock<Result<ProcessOutput, String>>;

impl StockRuns {
    fn run_once(run: &SharedRun, setting: Setting, args: &[&str]) -> Result<ProcessOutput, String> {
        run.get_or_init(|| run_pair(Pair::STOCK, setting, args))
            .clone()
    }
}

impl Test {
    /// Returns whether the test opens a connection per transaction. Its sockets in TIME_WAIT would
    /// slow down the next test.
    fn connects(&self) -> bool {
        self.name == "tcp_crr" || self.name == "tcp_cc" || self.specific.contains(&"-c")
    }

    /// Runs the test by count everywhere. On one host, also runs it for one second.
    fn check(&self, pair: Pair, setting: Setting, stock: &StockRuns) -> CaseResult {
        let setting = setting.in_namespace(self.connects());
        let on_one_host = setting.link_address.is_none();
        if on_one_host && (setting.family == Family::V4 || pair == Pair::OURS) {
            self.check_timed_run(pair, setting)?;
        }
        self.check_counted_run(pair, setting, stock)?;
        self.compare_text(pair, setting, stock)
    }

    /// Checks the result and the byte counts of a one-second run.
    fn check_timed_run(&self, pair: Pair, setting: Setting) -> CaseResult {
        if self.payload == Payload::TableOnly {
            let args = self.args("1", &["-P", "0", "-v", "0"], &[]);
            let first_figure = |text: &str| figures(text).first().copied().unwrap_or(0.0);
            return self
                .run_until_fast(pair, setting, &args, first_figure)
                .map(drop);
        }
        let args = self.args("1", &[], &["-k", SELECTION]);
        let throughput = |text: &str| values(text)["THROUGHPUT"];
        let text = self.run_until_fast(pair, setting, &args, throughput)?;
        let value = values(&text);
        let elapsed = value["ELAPSED_TIME"];
        if !(0.9..3.0).contains(&elapsed) {
            return Err(format!("{elapsed} s elapsed, 1 s requested"));
        }
        self.check_bytes(&value, pair.client, false)
            .map_err(|error| format!("{error}: {text}"))
    }

    /// Checks the byte counts of a run that ends by count: both ends agree, and the client's counts
    /// equal stock's.
    fn check_counted_run(&self, pair: Pair, setting: Setting, stock: &StockRuns) -> CaseResult {
        if matches!(
            self.payload,
            Payload::TableOnly | Payload::DatagramsFromServer
        ) {
            return Ok(());
        }
        let args = self.args(self.count, &[], &["-k", SELECTION]);
        let text = stdout_of(pair, setting, &args)?;
        let value = values(&text);
        self.check_bytes(&value, pair.client, true)
            .map_err(|error| format!("{error}: {text}"))?;
        if self.payload == Payload::DatagramsToServer {
            return Ok(());
        }
        let stock = values(&StockRuns::run_once(&stock.counted, setting, &args)?.stdout);
        for key in ["LOCAL_BYTES_SENT", "LOCAL_BYTES_RECVD"] {
            if differ(value[key], stock[key]) {
                return Err(format!("{key} is {}, stock {}", value[key], stock[key]));
            }
        }
        Ok(())
    }

    /// Compares the output with the stock pair's, except for figures.
    fn compare_text(&self, pair: Pair, setting: Setting, stock: &StockRuns) -> CaseResult {
        // A client that counts datagrams waits forever for a lost one.
        let length = match self.payload {
            Payload::DatagramsFromServer => "1",
            _ => self.count,
        };
        let args = self.args(length, &[], &[]);
        let mut ours = run_pair(pair, setting, &args)?;
        let stock = StockRuns::run_once(&stock.text, setting, &args)?;
        if self.payload == Payload::DatagramsFromServer
            && pair.server == Implementation::Stock
            && setting.link_address.is_some()
        {
            // A stock server sends from its route's address, which a connected socket refuses.
            // Stock's client does not report that.
            ours.stderr.clear();
        }
        compare_output(&ours, &stock)
    }

    fn args(
        &self,
        length: &'static str,
        global: &[&'static str],
        specific: &[&'static str],
    ) -> Vec<&'static str> {
        [
            self.global,
            &["-l", length],
            global,
            &["--"],
            self.specific,
            specific,
        ]
        .concat()
    }

    /// Returns the output of the first run whose figure is at least the minimum.
    fn run_until_fast(
        &self,
        pair: Pair,
        setting: Setting,
        args: &[&'static str],
        figure_of: impl Fn(&str) -> f64,
    ) -> Result<String, String> {
        let mut slow_runs = String::new();
        for _ in 0..MAX_TIMED_RUNS {
            let text = stdout_of(pair, setting, args)?;
            if figure_of(&text) >= self.min_result {
                return Ok(text);
            }
            slow_runs += &text;
        }
        Err(format!(
            "each run is below {}: {slow_runs}",
            self.min_result
        ))
    }

    fn check_bytes(
        &self,
        value: &BTreeMap<String, f64>,
        client: Implementation,
        counted: bool,
    ) -> CaseResult {
        let to_server = (value["LOCAL_BYTES_SENT"], value["REMOTE_BYTES_RECVD"]);
        let from_server = (value["REMOTE_BYTES_SENT"], value["LOCAL_BYTES_RECVD"]);
        // One transaction in flight. Requests and responses have one byte.
        let max_unfinished = if counted { 0.0 } else { 1.0 };
        // The original does not count a send that the end of the test interrupts.
        let max_uncounted = if counted || client == Implementation::Ours {
            0.0
        } else {
            SEND_SIZE
        };
        let max_in_flight = MAX_IN_FLIGHT.max(0.05 * from_server.0);
        let agree = match self.payload {
            Payload::ToServer => {
                let uncounted = to_server.1 - to_server.0;
                to_server.0 > 0.0 && (0.0..=max_uncounted).contains(&uncounted)
            }
            Payload::FromServer if counted => {
                !differ(from_server.0, from_server.1) && from_server.0 > 0.0
            }
            // The client can end before it receives all bytes that the server sent.
            Payload::FromServer => {
                let missing = from_server.0 - from_server.1;
                from_server.1 > 0.0 && (-SEND_SIZE..=max_in_flight).contains(&missing)
            }
            Payload::Transactions => [to_server, from_server]
                .into_iter()
                .all(|(sent, received)| (sent - received).abs() <= max_unfinished && sent > 0.0),
            Payload::DatagramsToServer => to_server.0 >= to_server.1 && to_server.1 > 0.0,
            Payload::DatagramsFromServer => from_server.0 >= from_server.1 && from_server.1 > 0.0,
            Payload::Uncounted | Payload::TableOnly => true,
        };
        if agree {
            return Ok(());
        }
        Err("the byte counts of the two ends do not match".to_owned())
    }
}

/// Returns whether two counts differ. They are integers, which f64 represents exactly.
fn differ(a: f64, b: f64) -> bool {
    (a - b).abs() >= 1.0
}

/// The UUID test prints a different UUID each time, without a newline.
fn uuid(pair: Pair, setting: Setting) -> CaseResult {
    let first = stdout_of(pair, setting, &["-t", "UUID"])?;
    let second = stdout_of(pair, setting, &["-t", "UUID"])?;
    let format = |text: &str| -> String {
        text.chars()
            .map(|char| if char.is_ascii_hexdigit() { 'x' } else { char })
            .collect()
    };
    if format(&first) != "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" || first == second {
        return Err(format!("{first:?}, then {second:?}"));
    }
    Ok(())
}

/// Returns the figures of a `-k` run by key; NaN for missing keys.
fn values(text: &str) -> BTreeMap<String, f64> {
    let mut values: BTreeMap<String, f64> = SELECTION
        .split(',')
        .map(|key| (key.to_owned(), f64::NAN))
        .collect();
    for (key, value) in key_values(text) {
        values.insert(key.to_owned(), value.parse().unwrap_or(f64::NAN));
    }
    values
}
