//! The words of `options=`: what each sets in a flowop, how that is shown again, and what has a use for it.

use crate::workorder::{Amount, Flags, Flowop, Kind, Protocol, Transfer};

use super::form::{self, Given};
use super::number::{self, Doubt};

/// With a doubt the value is not what it seems. An error is in uperf's words.
type Set = Result<Option<Doubt>, String>;

/// A word of `options=`.
struct Word {
    /// Its name, in lower case.
    key: &'static str,
    says: Says,
    /// Whether a flowop of this kind does anything with it.
    is_used: fn(Kind) -> bool,
    /// The protocols that it is for; empty if it is for all.
    only_for: &'static [Protocol],
}

/// What a word says of a flowop.
enum Says {
    /// It has no value.
    Flag(Flags),
    /// It has a value, which is set, and shown unless it is uperf's default.
    Value(fn(&mut Flowop, &str) -> Set, fn(&Flowop) -> String),
}

/// The word of this name, in lower case.
fn word(key: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.key == key)
}

/// Sets what `key` (in lower case) says. An error also says that there is no such option.
pub(super) fn set(flowop: &mut Flowop, key: &str, value: &str) -> Set {
    match word(key).map(|word| &word.says) {
        Some(Says::Value(set, _)) => set(flowop, value),
        _ => Err(unknown(key, value)),
    }
}

/// A word without a value; nothing where there is no such word.
pub(super) fn flag(key: &str) -> Option<Flags> {
    match word(key)?.says {
        Says::Flag(flags) => Some(flags),
        Says::Value(..) => None,
    }
}

/// Whether a flowop of this kind does anything with the word.
pub(super) fn is_used(key: &str, kind: Kind) -> bool {
    word(key).is_some_and(|word| (word.is_used)(kind))
}

/// The protocols that the word is for; none, if it is for all.
pub(super) fn only_for(key: &str) -> &'static [Protocol] {
    word(key).map_or(ALL, |word| word.only_for)
}

/// The options that are not uperf's defaults, as `options=` takes them.
pub(super) fn shown(flowop: &Flowop) -> String {
    let words = WORDS.iter().filter_map(|word| match word.says {
        Says::Flag(flags) => flowop.flags.has(flags).then(|| word.key.to_owned()),
        Says::Value(_, show) => {
            let value = show(flowop);
            (!value.is_empty()).then(|| format!("{}={value}", word.key))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

const fn flag_word(
    key: &'static str,
    flags: Flags,
    is_used: fn(Kind) -> bool,
    only_for: &'static [Protocol],
) -> Word {
    let says = Says::Flag(flags);
    Word {
        key,
        says,
        is_used,
        only_for,
    }
}

/// A word, its place in a flowop, how its value is read and, where that is not as it is displayed, how it is shown.
macro_rules! value {
    ($key:literal $($place:ident).+: $read:ident($($bound:expr)?) $($show:expr)?, $is_used:expr, $only_for:expr) => {
        Word {
            key: $key,
            says: Says::Value(
                |flowop, value| {
                    let given = Given { key: $key, value };
                    let (value, doubt) = given.$read($($bound)?)?;
                    flowop.$($place).+ = value;
                    Ok(doubt)
                },
                |flowop| {
                    let value = &flowop.$($place).+;
                    if *value == Flowop::new(flowop.kind).$($place).+ {
                        return String::new();
                    }
                    shown_as!(value $($show)?)
                },
            ),
            is_used: $is_used,
            only_for: $only_for,
        }
    };
}

macro_rules! shown_as {
    ($value:ident) => {
        $value.to_string()
    };
    ($value:ident $show:expr) => {
        $show(*$value)
    };
}

const ALL: &[Protocol] = &[];
const TCP: &[Protocol] = &[Protocol::Tcp, Protocol::Ssl, Protocol::Mptcp];
const SSL: &[Protocol] = &[Protocol::Ssl];
const SCTP: &[Protocol] = &[Protocol::Sctp];
const MESSAGES: &[Protocol] = &[Protocol::Udp, Protocol::Sctp];
const UDP_OR_VSOCK: &[Protocol] = &[Protocol::Udp, Protocol::Vsock];
/// Over TCP it is refused.
const ENCAPSULATED: &[Protocol] = &[
    Protocol::Sctp,
    Protocol::Tcp,
    Protocol::Ssl,
    Protocol::Mptcp,
];

const OPENS: fn(Kind) -> bool = Kind::opens;
const ANY: fn(Kind) -> bool = |_| true;
const THINK: fn(Kind) -> bool = |kind| kind == Kind::Think;
const BUFFERED: fn(Kind) -> bool = Kind::goes_through_a_buffer;
const OPENS_OR_BUFFERED: fn(Kind) -> bool = |kind| kind.opens() || BUFFERED(kind);

/// In the order in which they are shown.
static WORDS: &[Word] = &[
    value!("remotehost" endpoint.remote_host: text(255), ANY, ALL),
    value!("localhost" endpoint.local_host: text(255), OPENS, ALL),
    value!("protocol" endpoint.protocol: protocol() |name: Option<_>| name.map_or("", Protocol::name).to_owned(), OPENS, ALL),
    value!("port" endpoint.port: count(0..=65_535), OPENS, ALL),
    value!("wndsz" endpoint.window: number() form::bytes, OPENS, ALL),
    value!("cc" endpoint.congestion_control: text(31), OPENS, TCP),
    value!("stack" endpoint.stack: text(31), OPENS, TCP),
    value!("bblog" endpoint.black_box_log: number(), OPENS, TCP),
    value!("encaps" endpoint.encapsulation_port: number_in(0..=65_535), OPENS, ENCAPSULATED),
    value!("engine" endpoint.engine: cut(19), OPENS, SSL),
    value!("cipher" endpoint.cipher: text(255), OPENS, SSL),
    value!("method" endpoint.method: text(31), OPENS, SSL),
    value!("sctp_rto_min" endpoint.sctp.rto_min_ms: number(), OPENS, SCTP),
    value!("sctp_rto_max" endpoint.sctp.rto_max_ms: number(), OPENS, SCTP),
    value!("sctp_rto_initial" endpoint.sctp.rto_initial_ms: number(), OPENS, SCTP),
    value!("sctp_sack_delay" endpoint.sctp.sack_delay_ms: number(), OPENS, SCTP),
    value!("sctp_sack_frequency" endpoint.sctp.sack_frequency: number(), OPENS, SCTP),
    value!("sctp_max_burst_size" endpoint.sctp.max_burst: number(), OPENS, SCTP),
    value!("sctp_max_fragment_size" endpoint.sctp.max_fragment_bytes: number(), OPENS, SCTP),
    value!("sctp_hb_interval" endpoint.sctp.heartbeat_ms: number(), OPENS, SCTP),
    value!("sctp_path_mtu" endpoint.sctp.path_mtu_bytes: number(), OPENS, SCTP),
    value!("sctp_in_streams" endpoint.sctp.in_streams: number_in(1..=65_535), OPENS, SCTP),
    value!("sctp_out_streams" endpoint.sctp.out_streams: number_in(1..=65_535), OPENS, SCTP),
    value!("sctp_stream_id" endpoint.sctp.stream: number_in(0..=65_535), OPENS_OR_BUFFERED, SCTP),
    Word {
        key: "sctp_pr_policy",
        says: Says::Value(
            |flowop, value| Ok(set_policy(flowop, value)),
            |flowop| flowop.endpoint.sctp.partial_reliability.clone(),
        ),
        is_used: OPENS_OR_BUFFERED,
        only_for: SCTP,
    },
    value!("sctp_pr_value" endpoint.sctp.partial_reliability_value: number(), OPENS_OR_BUFFERED, SCTP),
    value!("conn" connection: positive(), |kind| !matches!(kind, Kind::Think | Kind::Nop), ALL),
    value!("count" count: count(0..=u32::MAX), ANY, ALL),
    value!("repeat" transfer.repeat: positive(), BUFFERED, MESSAGES),
    value!("batch_size" batch_size: positive(), BUFFERED, MESSAGES),
    Word {
        key: "size",
        says: Says::Value(set_size, |flowop| form::size(flowop.transfer.amount)),
        is_used: Kind::transfers,
        only_for: ALL,
    },
    value!("rsize" slave_size: number() form::bytes, BUFFERED, ALL),
    value!("nfiles" files: number(), |kind| kind == Kind::Sendfilev, ALL),
    value!("dir" directory: text(127), Kind::sends_files, ALL),
    value!("timeout" transfer.patience: time() |time: Option<_>| form::time(time.unwrap_or_default()), |kind| kind == Kind::Accept || BUFFERED(kind), ALL),
    value!("duration" duration: time() form::time, THINK, ALL),
    flag_word("tcp_nodelay", Flags::NO_DELAY, OPENS, TCP),
    flag_word("canfail", Flags::CAN_FAIL, ANY, ALL),
    flag_word(
        "non_blocking",
        Flags::NON_BLOCKING,
        |kind| kind.transfers() || kind.opens(),
        UDP_OR_VSOCK,
    ),
    flag_word("idle", Flags::IDLE, THINK, ALL),
    flag_word("busy", Flags::BUSY, THINK, ALL),
    flag_word("sctp_unordered", Flags::SCTP_UNORDERED, BUFFERED, SCTP),
    flag_word("sctp_nodelay", Flags::SCTP_NO_DELAY, OPENS, SCTP),
];

/// What of a second `options=` on the same flowop begins anew.
pub(super) fn reset(flowop: &mut Flowop) {
    let new = Flowop::new(flowop.kind);
    flowop.count = new.count;
    flowop.batch_size = new.batch_size;
    flowop.transfer = Transfer {
        patience: flowop.transfer.patience,
        ..new.transfer
    };
    flowop.duration = new.duration;
    flowop.connection = new.connection;
}

/// `size=90`, `size=rand(64,1k)`.
fn set_size(flowop: &mut Flowop, value: &str) -> Set {
    let value = value.to_ascii_lowercase();
    let Some(range) = value.strip_prefix("rand(") else {
        let number = number::integer(&value);
        let (bytes, doubt) = number.ok_or_else(|| format!("Could not parse {value}"))?;
        flowop.transfer.amount = Amount::Exactly(bytes);
        return Ok(doubt);
    };
    let refused = |why: &str| format!("Could not parse {value}: {why}");
    let range = range.strip_suffix(')');
    let bounds = range.and_then(|range| range.split_once(','));
    let (min, max) =
        bounds.ok_or_else(|| refused("a random size is rand(MIN,MAX), without blanks"))?;
    let ((min, doubt), (max, other)) = (form::integer(min)?, form::integer(max)?);
    if min == 0 || max < min {
        return Err(refused("it is not from 1 or more to as much or more"));
    }
    flowop.transfer.amount = Amount::Between { min, max };
    Ok(doubt.or(other))
}

/// A policy of SCTP, in any case.
fn set_policy(flowop: &mut Flowop, value: &str) -> Option<Doubt> {
    let value = value.to_ascii_lowercase();
    if !["ttl", "rtx", "buf"].contains(&value.as_str()) {
        let text = format!("sctp_pr_policy={value} is none of ttl, rtx, buf, and uperf ignores it");
        return Some(Doubt::new(text, "no policy"));
    }
    flowop.endpoint.sctp.partial_reliability = value;
    None
}

fn unknown(key: &str, value: &str) -> String {
    let text = format!("parser - Option unrecognized {key}={value}");
    if matches!(key, "rate" | "iterations" | "nthreads" | "nprocs" | "type") {
        format!("{text}: {key} is an attribute of its own, and no flowop's option")
    } else if flag(key).is_some() {
        format!("{text}: {key} has no value")
    } else {
        text
    }
}

/// The option in the name that it has here, and what is said of it where that is another.
pub(super) fn known_as(key: &str) -> (&str, Option<Doubt>) {
    match key {
        "poll_timeout" => {
            let text = "poll_timeout is the manual's word, which uperf does not know";
            ("timeout", Some(Doubt::new(text, "timeout")))
        }
        _ => (key, None),
    }
}

/// The flowop of this name (in lower case), and what is said of it where the name is only the manual's.
pub(super) fn kind(name: &str) -> Option<(Kind, Option<Doubt>)> {
    let (kind, why) = match name {
        // A misprint of the manual's list: where it explains them, it says recv.
        "redv" => (
            Kind::Recv,
            "redv is the manual's word, which uperf does not know",
        ),
        "sendto" => (
            Kind::Write,
            "sendto is the manual's word, which uperf does not know",
        ),
        _ => {
            let mut all = Kind::ALL.into_iter();
            return all
                .find(|kind| kind.name() == name)
                .map(|kind| (kind, None));
        }
    };
    Some((kind, Some(Doubt::new(why, kind.name()))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workorder::{Endpoint, Sctp};

    fn after(words: &[(&str, &str)]) -> Flowop {
        let mut flowop = Flowop::new(Kind::Write);
        for (key, value) in words {
            assert_eq!(set(&mut flowop, key, value), Ok(None), "{key}={value}");
        }
        flowop
    }

    #[test]
    fn names_and_sizes_are_in_any_case() {
        let flowop = after(&[("protocol", "TCP"), ("sctp_pr_policy", "RTX")]);
        assert_eq!(flowop.endpoint.protocol, Some(Protocol::Tcp));
        assert_eq!(flowop.endpoint.sctp.partial_reliability, "rtx");
        let flowop = after(&[("size", "rand(1k,2k)")]);
        let (min, max) = (1024, 2048);
        assert_eq!(flowop.transfer.amount, Amount::Between { min, max });
        let flowop = after(&[("size", "RAND(1,1)"), ("size", "5")]);
        assert_eq!(flowop.transfer.amount, Amount::Exactly(5));
    }

    #[test]
    fn refusals_begin_with_uperfs_words() {
        for (key, value, expected) in [
            ("size", "x", "Could not parse x"),
            ("size", "2g", "Could not parse 2g"),
            ("size", "rand(1,", "Could not parse rand(1,: "),
            ("size", "rand(0,5)", "Could not parse rand(0,5): "),
            ("size", "rand(5,4)", "Could not parse rand(5,4): "),
            ("size", "rand($a,1)", "Cannot parse $a"),
            ("rsize", "x", "Cannot parse x"),
            ("wndsz", "-1", "Cannot parse -1"),
            ("repeat", "0", "repeat (0) should be > 0"),
            ("batch_size", "x", "batch_size (x) should be > 0"),
            ("conn", "0", "connection id (conn=0) should be > 0"),
            ("conn", "name", "connection id (conn=name) should be > 0"),
            ("protocol", "xtp", "Protocol xtp not supported: "),
            ("protocol", "rds", "Protocol rds not supported: "),
            ("protocol", "udapl", "Protocol udapl not supported: "),
            ("timeout", "0", "Cannot understand timeout:0: "),
            ("duration", "x", "Cannot understand duration:x: "),
            ("duration", "1h", "h not valid time suffix: "),
            ("port", "65536", "Cannot understand port:65536: "),
            ("encaps", "65536", "Cannot understand encaps:65536: "),
            (
                "sctp_in_streams",
                "0",
                "Cannot understand sctp_in_streams:0: ",
            ),
            (
                "sctp_stream_id",
                "65536",
                "Cannot understand sctp_stream_id:65536: ",
            ),
            ("count", "-5", "Cannot understand count:-5: "),
            (
                "rate",
                "5",
                "parser - Option unrecognized rate=5: rate is an attribute",
            ),
            (
                "canfail",
                "1",
                "parser - Option unrecognized canfail=1: canfail has no value",
            ),
            ("sise", "5", "parser - Option unrecognized sise=5"),
        ] {
            let refused = set(&mut Flowop::new(Kind::Write), key, value);
            let text = refused.expect_err(value);
            assert!(text.starts_with(expected), "{key}={value}: {text}");
        }
        let long = "x".repeat(300);
        for key in ["remotehost", "localhost", "cc", "stack", "dir"] {
            let refused = set(&mut Flowop::new(Kind::Write), key, &long);
            let text = refused.expect_err(key);
            assert!(
                text.starts_with(&format!("Cannot understand {key}:")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_uperf_cuts_or_ignores_is_doubtful() {
        for (key, value, assumed) in [
            ("engine", "twenty-characters-xx", "twenty-characters-x"),
            ("sctp_pr_policy", "all", "no policy"),
            ("count", "2k", "2"),
            ("port", "http", "0"),
            ("timeout", "5", "5 s"),
        ] {
            let doubt = set(&mut Flowop::new(Kind::Write), key, value);
            let found = doubt.ok().flatten().map(|doubt| doubt.assumed);
            assert_eq!(found.as_deref(), Some(assumed), "{key}={value}");
        }
    }

    #[test]
    fn a_second_list_begins_anew_in_part() {
        let mut flowop = after(&[
            ("count", "2"),
            ("repeat", "2"),
            ("batch_size", "2"),
            ("size", "2"),
            ("duration", "2s"),
            ("conn", "2"),
            ("rsize", "2"),
            ("remotehost", "h"),
        ]);
        reset(&mut flowop);
        let expected = after(&[("rsize", "2"), ("remotehost", "h")]);
        assert_eq!(flowop, expected);
    }

    #[test]
    fn flowops_have_names() {
        for kind in Kind::ALL {
            assert_eq!(super::kind(kind.name()), Some((kind, None)));
        }
        for (name, expected) in [("redv", Kind::Recv), ("sendto", Kind::Write)] {
            let (kind, doubt) = kind(name).expect("a name of the manual");
            assert!(doubt.is_some());
            assert_eq!(kind, expected);
        }
        for name in ["", "wait", "reads", "Read"] {
            assert_eq!(kind(name), None, "{name}");
        }
    }

    #[test]
    fn each_option_has_its_field_and_is_shown_again() {
        let all = "remotehost=a localhost=b protocol=sctp port=5000 wndsz=96k cc=reno stack=s bblog=3 \
                   encaps=9899 engine=e cipher=c method=m sctp_rto_min=1 sctp_rto_max=2 \
                   sctp_rto_initial=3 sctp_sack_delay=4 sctp_sack_frequency=5 sctp_max_burst_size=6 \
                   sctp_max_fragment_size=7 sctp_hb_interval=8 sctp_path_mtu=9 sctp_in_streams=10 \
                   sctp_out_streams=11 sctp_stream_id=12 sctp_pr_policy=ttl sctp_pr_value=13 conn=9 \
                   count=12 repeat=5 batch_size=6 size=rand(100,3k) rsize=4m nfiles=7 dir=/tmp \
                   timeout=1500us duration=30000001024ns tcp_nodelay canfail non_blocking idle busy \
                   sctp_unordered sctp_nodelay";
        let mut flowop = Flowop::new(Kind::Write);
        for word in all.split(' ') {
            if let Some((key, value)) = word.split_once('=') {
                let doubt = set(&mut flowop, key, value);
                assert_eq!(doubt, Ok(None), "{word}");
            } else {
                let flag = flag(word).expect("a flag");
                flowop.flags = flowop.flags.with(flag);
            }
        }
        let flags = [
            Flags::NO_DELAY,
            Flags::CAN_FAIL,
            Flags::NON_BLOCKING,
            Flags::IDLE,
            Flags::BUSY,
            Flags::SCTP_UNORDERED,
            Flags::SCTP_NO_DELAY,
        ];
        let expected = Flowop {
            count: 12,
            transfer: Transfer {
                amount: Amount::Between {
                    min: 100,
                    max: 3072,
                },
                repeat: 5,
                patience: Some(Duration::from_micros(1500)),
                ..Transfer::PLAIN
            },
            batch_size: 6,
            slave_size: 4 << 20,
            connection: 9,
            flags: flags.into_iter().fold(Flags::default(), Flags::with),
            duration: Duration::from_nanos(30_000_001_024),
            endpoint: Endpoint {
                protocol: Some(Protocol::Sctp),
                remote_host: "a".to_owned(),
                local_host: "b".to_owned(),
                port: 5000,
                window: 98_304,
                congestion_control: "reno".to_owned(),
                stack: "s".to_owned(),
                black_box_log: 3,
                encapsulation_port: 9899,
                sctp: Sctp {
                    rto_min_ms: 1,
                    rto_max_ms: 2,
                    rto_initial_ms: 3,
                    sack_delay_ms: 4,
                    sack_frequency: 5,
                    max_burst: 6,
                    max_fragment_bytes: 7,
                    heartbeat_ms: 8,
                    path_mtu_bytes: 9,
                    out_streams: 11,
                    in_streams: 10,
                    stream: 12,
                    partial_reliability: "ttl".to_owned(),
                    partial_reliability_value: 13,
                },
                engine: "e".to_owned(),
                cipher: "c".to_owned(),
                method: "m".to_owned(),
            },
            files: 7,
            directory: "/tmp".to_owned(),
            ..Flowop::new(Kind::Write)
        };
        assert_eq!(flowop, expected);
        assert_eq!(shown(&flowop), all);
        assert_eq!(shown(&Flowop::new(Kind::Nop)), "");
    }
}
