//! Every test, in every pair of client and server that has one of ours, over both families: on one
//! host, and between two hosts that have two links and two addresses on each.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use testkit::{Implementation, LinkAddress, ProcessOutput, figures, key_values};

use super::exchange::{Family, Pair, Setting, exchange, succeed};
use super::variants::same;
use super::{Case, Outcome};

/// A test of the matrix.
struct Test {
    name: &'static str,
    /// Which test, and what it needs besides.
    global: &'static [&'static str],
    specific: &'static [&'static str],
    /// `-l` for a run that ends by count.
    count: &'static str,
    /// The figure of merit on loopback is at least this, however busy the machine.
    floor: f64,
    bytes: Bytes,
}

/// What the two ends' byte counts owe each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bytes {
    /// A stream to the server: all that was sent was received.
    Up,
    /// A stream from the server: likewise, if the client reads to the end.
    Down,
    /// Both ways; the end of the time may cut a transaction short.
    Both,
    /// Datagrams to the server: no more received than sent.
    DatagramsUp,
    /// Datagrams from the server: likewise.
    DatagramsDown,
    /// No payload is counted.
    NoPayload,
    /// The test prints a table and no more.
    TableOnly,
}

/// Least throughput of a bulk test, 10^6 bit/s.
const BULK: f64 = 50.0;
/// Least rate of transactions or connections, 1/s.
const TRANSACTIONS: f64 = 50.0;
/// `-l` for a bulk run that ends by count: bytes, and so many of the default size of a send.
const BULK_COUNT: &str = "-10M";
/// `-l` for any other that does: transactions or connections.
const TRANSACTION_COUNT: &str = "-300";

const TESTS: &[Test] = &[
    bulk("tcp_stream", &["-t", "TCP_STREAM"], &[], Bytes::Up),
    bulk("tcp_maerts", &["-t", "TCP_MAERTS"], &[], Bytes::Down),
    bulk(
        "tcp_sendfile",
        &["-t", "TCP_SENDFILE"],
        &[],
        Bytes::TableOnly,
    ),
    bulk("tcp_mss", &["-t", "TCP_MSS"], &[], Bytes::TableOnly),
    bulk(
        "udp_stream",
        &["-t", "UDP_STREAM"],
        &["-R", "1"],
        Bytes::DatagramsUp,
    ),
    rate("tcp_rr", &["-t", "TCP_RR"], &[], Bytes::Both),
    rate("tcp_crr", &["-t", "TCP_CRR"], &[], Bytes::Both),
    rate("tcp_cc", &["-t", "TCP_CC"], &[], Bytes::TableOnly),
    rate("udp_rr", &["-t", "UDP_RR"], &[], Bytes::Both),
    bulk("omni_send", OMNI, &["-d", "send"], Bytes::Up),
    bulk("omni_stream", OMNI, &["-d", "stream"], Bytes::Up),
    bulk("omni_recv", OMNI, &["-d", "recv"], Bytes::Down),
    bulk("omni_maerts", OMNI, &["-d", "maerts"], Bytes::Down),
    rate("omni_rr", OMNI, &["-d", "rr"], Bytes::Both),
    rate("omni_crr", OMNI, &["-d", "rr", "-c"], Bytes::Both),
    rate("omni_connect_close", OMNI, &["-c"], Bytes::NoPayload),
    bulk(
        "omni_udp_send",
        OMNI,
        &["-T", "udp", "-d", "send", "-m", "1024", "-R", "1"],
        Bytes::DatagramsUp,
    ),
    bulk(
        "omni_udp_recv",
        OMNI,
        &["-T", "udp", "-d", "recv", "-M", "1024", "-R", "1"],
        Bytes::DatagramsDown,
    ),
    rate("omni_udp_rr", OMNI, &["-T", "udp", "-d", "rr"], Bytes::Both),
];

const OMNI: &[&str] = &["-t", "OMNI"];

/// Bytes of a send by default, the original's and ours.
const SEND: f64 = 16_384.0;

/// Bytes that the two ends' buffers can hold by default: 4 MiB at the sender, 6 MiB at the receiver.
const UNDER_WAY: f64 = 10_485_760.0;

/// What the counts are compared by.
const SELECTION: &str = "THROUGHPUT,ELAPSED_TIME,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,\
    REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";

const fn bulk(
    name: &'static str,
    global: &'static [&'static str],
    specific: &'static [&'static str],
    bytes: Bytes,
) -> Test {
    Test {
        name,
        global,
        specific,
        count: BULK_COUNT,
        floor: BULK,
        bytes,
    }
}

const fn rate(
    name: &'static str,
    global: &'static [&'static str],
    specific: &'static [&'static str],
    bytes: Bytes,
) -> Test {
    Test {
        name,
        global,
        specific,
        count: TRANSACTION_COUNT,
        floor: TRANSACTIONS,
        bytes,
    }
}

/// Where client and server are, and what a case's name says of it.
const PLACES: [(&str, Family, Option<LinkAddress>); 6] = [
    ("ipv4", Family::V4, None),
    ("ipv6", Family::V6, None),
    apart("ipv4-second-address", Family::V4, 0, 1),
    apart("ipv6-second-address", Family::V6, 0, 1),
    apart("ipv4-second-interface", Family::V4, 1, 0),
    apart("ipv6-second-interface", Family::V6, 1, 0),
];

const fn apart(
    name: &'static str,
    family: Family,
    link: u8,
    address: u8,
) -> (&'static str, Family, Option<LinkAddress>) {
    let is_v6 = matches!(family, Family::V6);
    let place = LinkAddress {
        link,
        address,
        is_v6,
    };
    (name, family, Some(place))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (place_name, family, place) in PLACES {
        let setting = Setting {
            family,
            place,
            ..Setting::PLAIN
        };
        for test in TESTS {
            // What stock says to itself is asked for once.
            let control = Arc::new(Control::default());
            for pair in Pair::TESTED {
                let name = format!("matrix::{}::{place_name}::{}", test.name, pair.name());
                let control = Arc::clone(&control);
                let case = Case::against_stock(name, move || test.check(pair, setting, &control));
                let case = case.inside(test.connects() || place.is_some());
                cases.push(if test.connects() {
                    // At the end of such a test a stock server waits for some seconds.
                    case.waiting()
                } else {
                    case
                });
            }
        }
        if place.is_none() {
            for pair in Pair::TESTED {
                let name = format!("matrix::uuid::{place_name}::{}", pair.name());
                cases.push(Case::against_stock(name, move || uuid(pair, setting)));
            }
        }
    }
    cases
}

/// What stock's client said to stock's server, once for all pairs that are compared with it.
#[derive(Default)]
struct Control {
    counted: Once,
    text: Once,
}

type Once = OnceLock<Result<ProcessOutput, String>>;

impl Control {
    fn ask(once: &Once, setting: Setting, args: &[&str]) -> Result<ProcessOutput, String> {
        once.get_or_init(|| exchange(Pair::CONTROL, setting, args))
            .clone()
    }
}

impl Test {
    /// Whether it makes a connection a transaction, which TIME_WAIT would slow the next test down
    /// with.
    fn connects(&self) -> bool {
        self.name == "tcp_crr" || self.name == "tcp_cc" || self.specific.contains(&"-c")
    }

    /// By time once for each pair on one host; by count everywhere.
    fn check(&self, pair: Pair, setting: Setting, control: &Control) -> Outcome {
        let setting = setting.inside(self.connects());
        let is_near = setting.place.is_none();
        if is_near && (setting.family == Family::V4 || pair == Pair::OURS) {
            self.plausible(pair, setting)?;
        }
        self.counted(pair, setting, control)?;
        self.text(pair, setting, control)
    }

    /// One second: the figure of merit, and the two ends' counts.
    fn plausible(&self, pair: Pair, setting: Setting) -> Outcome {
        if self.bytes == Bytes::TableOnly {
            let text = succeed(pair, setting, &self.args("1", &["-P", "0", "-v", "0"], &[]))?;
            let figure = figures(&text).first().copied().unwrap_or(0.0);
            return self.at_least_the_floor(figure, &text);
        }
        let text = succeed(pair, setting, &self.args("1", &[], &["-k", SELECTION]))?;
        let value = values(&text);
        self.at_least_the_floor(value["THROUGHPUT"], &text)?;
        let elapsed = value["ELAPSED_TIME"];
        if !(0.9..3.0).contains(&elapsed) {
            return Err(format!("{elapsed} s where 1 s was asked for"));
        }
        self.bytes_agree(&value, pair.client, false)
            .map_err(|error| format!("{error}: {text}"))
    }

    /// By count: to the byte what the original moves, and the same at both ends.
    fn counted(&self, pair: Pair, setting: Setting, control: &Control) -> Outcome {
        if matches!(self.bytes, Bytes::TableOnly | Bytes::DatagramsDown) {
            return Ok(());
        }
        let args = self.args(self.count, &[], &["-k", SELECTION]);
        let text = succeed(pair, setting, &args)?;
        let value = values(&text);
        self.bytes_agree(&value, pair.client, true)
            .map_err(|error| format!("{error}: {text}"))?;
        if self.bytes == Bytes::DatagramsUp {
            return Ok(());
        }
        let control = values(&Control::ask(&control.counted, setting, &args)?.stdout);
        for key in ["LOCAL_BYTES_SENT", "LOCAL_BYTES_RECVD"] {
            if differ(value[key], control[key]) {
                return Err(format!("{key} is {}, control {}", value[key], control[key]));
            }
        }
        Ok(())
    }

    /// The text, figures masked, is the control's.
    fn text(&self, pair: Pair, setting: Setting, control: &Control) -> Outcome {
        // A client that counts datagrams waits for ever for one that is lost.
        let length = match self.bytes {
            Bytes::DatagramsDown => "1",
            _ => self.count,
        };
        let args = self.args(length, &[], &[]);
        let mut ours = exchange(pair, setting, &args)?;
        let control = Control::ask(&control.text, setting, &args)?;
        if self.bytes == Bytes::DatagramsDown
            && pair.server == Implementation::Stock
            && setting.place.is_some()
        {
            // A stock server sends from the address that its route has, which a connected socket refuses. Stock's
            // client says nothing of that.
            ours.stderr.clear();
        }
        same(&ours, &control)
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

    fn at_least_the_floor(&self, figure: f64, text: &str) -> Outcome {
        if figure >= self.floor {
            return Ok(());
        }
        Err(format!("{figure} is less than {}: {text}", self.floor))
    }

    fn bytes_agree(
        &self,
        value: &BTreeMap<String, f64>,
        client: Implementation,
        counted: bool,
    ) -> Outcome {
        let up = (value["LOCAL_BYTES_SENT"], value["REMOTE_BYTES_RECVD"]);
        let down = (value["REMOTE_BYTES_SENT"], value["LOCAL_BYTES_RECVD"]);
        // Requests and responses are of one byte, so that this is one transaction under way.
        let transaction = if counted { 0.0 } else { 1.0 };
        // The original does not count a send that the end of its time cut short.
        let cut_short = if counted || client == Implementation::Ours {
            0.0
        } else {
            SEND
        };
        let under_way = UNDER_WAY.max(0.05 * down.0);
        let agree = match self.bytes {
            Bytes::Up => up.0 > 0.0 && (0.0..=cut_short).contains(&(up.1 - up.0)),
            Bytes::Down if counted => !differ(down.0, down.1) && down.0 > 0.0,
            // The client's time can be over before it has all that the server sent in its own.
            Bytes::Down => down.1 > 0.0 && (-SEND..=under_way).contains(&(down.0 - down.1)),
            Bytes::Both => [up, down]
                .into_iter()
                .all(|(sent, received)| (sent - received).abs() <= transaction && sent > 0.0),
            Bytes::DatagramsUp => up.0 >= up.1 && up.1 > 0.0,
            Bytes::DatagramsDown => down.0 >= down.1 && down.1 > 0.0,
            Bytes::NoPayload | Bytes::TableOnly => true,
        };
        if agree {
            return Ok(());
        }
        Err("the two ends' bytes do not agree".to_owned())
    }
}

/// Whether two counts differ; they are whole numbers, which these hold exactly.
fn differ(a: f64, b: f64) -> bool {
    (a - b).abs() >= 1.0
}

/// A name for a test: without a newline, and no two the same.
fn uuid(pair: Pair, setting: Setting) -> Outcome {
    let first = succeed(pair, setting, &["-t", "UUID"])?;
    let second = succeed(pair, setting, &["-t", "UUID"])?;
    let shape = |text: &str| -> String {
        text.chars()
            .map(|char| if char.is_ascii_hexdigit() { 'x' } else { char })
            .collect()
    };
    if shape(&first) != "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" || first == second {
        return Err(format!("{first:?}, then {second:?}"));
    }
    Ok(())
}

/// The figures of a `-k` run by key; a key that is missing is not a number.
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
