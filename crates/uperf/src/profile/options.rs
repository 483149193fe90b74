//! The words of `options=`, and what they set.

use crate::tls::Trouble;
use crate::workorder::{Endpoint, Flags, Flowop, Kind, Protocol, Size};

use super::number::{self, Doubt, NoTime, Number};
use super::text::shortened;

/// A word without a value; nothing where there is no such word.
pub(super) fn flag(word: &str) -> Option<Flags> {
    let (_, flags) = FLAGS.iter().find(|(name, _)| *name == word)?;
    Some(*flags)
}

/// The words without a value, and their bits.
pub(super) const FLAGS: [(&str, Flags); 7] = [
    ("tcp_nodelay", Flags::NO_DELAY),
    ("canfail", Flags::CAN_FAIL),
    ("non_blocking", Flags::NON_BLOCKING),
    ("idle", Flags::IDLE),
    ("busy", Flags::BUSY),
    ("sctp_unordered", Flags::SCTP_UNORDERED),
    ("sctp_nodelay", Flags::SCTP_NO_DELAY),
];

/// What of a second `options=` on the same flowop begins anew.
pub(super) fn reset(flowop: &mut Flowop) {
    let new = Flowop::new(flowop.kind);
    flowop.count = new.count;
    flowop.repeat = new.repeat;
    flowop.batch_size = new.batch_size;
    flowop.size = new.size;
    flowop.duration = new.duration;
    flowop.connection = new.connection;
}

/// Sets what `key` (in lower case) says. With a doubt the value is not what it seems.
///
/// # Errors
///
/// There is no such option, or it takes no such value: in uperf's words.
pub(super) fn set(flowop: &mut Flowop, key: &str, value: &str) -> Result<Option<Doubt>, String> {
    let lower = value.to_ascii_lowercase();
    let is_word = matches!(key, "protocol" | "size" | "sctp_pr_policy");
    let value = if is_word { lower.as_str() } else { value };
    let endpoint = &mut flowop.endpoint;
    let doubt = match key {
        "size" => size(flowop, value)?,
        "rsize" => store(&mut flowop.slave_size, integer(value)?),
        "wndsz" => store(&mut endpoint.window, integer(value)?),
        "nfiles" => store(&mut flowop.files, integer(value)?),
        "bblog" => store(&mut endpoint.black_box_log, integer(value)?),
        "encaps" => {
            let port = within(key, value, integer(value)?, 0..=65535)?;
            store(&mut endpoint.encapsulation_port, port)
        }
        "count" => {
            let number = number::count(value).ok_or_else(|| no_count(key, value))?;
            store(&mut flowop.count, number)
        }
        "repeat" | "batch_size" => {
            let positive = number::count(value).filter(|number| number.value > 0);
            let number = positive.ok_or_else(|| format!("{key} ({value}) should be > 0"))?;
            let field = if key == "repeat" {
                &mut flowop.repeat
            } else {
                &mut flowop.batch_size
            };
            store(field, number)
        }
        "conn" => {
            let positive = number::count(value).filter(|number| number.value > 0);
            let refused = || format!("connection id (conn={value}) should be > 0");
            store(&mut flowop.connection, positive.ok_or_else(refused)?)
        }
        "port" => {
            let number = number::count(value).ok_or_else(|| no_count(key, value))?;
            let port = within(key, value, number, 0..=65535)?;
            store(&mut endpoint.port, port)
        }
        "timeout" => {
            let number = time(key, value)?;
            flowop.timeout = Some(number.value);
            number.doubt
        }
        "duration" => {
            let number = time(key, value)?;
            flowop.duration = number.value;
            number.doubt
        }
        "protocol" => {
            endpoint.protocol = Some(protocol(value)?);
            None
        }
        "remotehost" => text(&mut endpoint.remote_host, key, value, 255)?,
        "localhost" => text(&mut endpoint.local_host, key, value, 255)?,
        "cc" => text(&mut endpoint.congestion_control, key, value, 31)?,
        "stack" => text(&mut endpoint.stack, key, value, 31)?,
        "dir" => text(&mut flowop.directory, key, value, 127)?,
        "engine" => cut(&mut endpoint.engine, key, value, 19),
        "cipher" => text(&mut endpoint.cipher, key, value, 255)?,
        "method" => text(&mut endpoint.method, key, value, 31)?,
        _ => sctp(endpoint, key, value)?,
    };
    Ok(doubt)
}

fn sctp(endpoint: &mut Endpoint, key: &str, value: &str) -> Result<Option<Doubt>, String> {
    let sctp = &mut endpoint.sctp;
    let field = match key {
        "sctp_rto_min" => &mut sctp.rto_min_ms,
        "sctp_rto_max" => &mut sctp.rto_max_ms,
        "sctp_rto_initial" => &mut sctp.rto_initial_ms,
        "sctp_sack_delay" => &mut sctp.sack_delay_ms,
        "sctp_sack_frequency" => &mut sctp.sack_frequency,
        "sctp_max_burst_size" => &mut sctp.max_burst,
        "sctp_max_fragment_size" => &mut sctp.max_fragment_bytes,
        "sctp_hb_interval" => &mut sctp.heartbeat_ms,
        "sctp_path_mtu" => &mut sctp.path_mtu_bytes,
        "sctp_pr_value" => &mut sctp.partial_reliability_value,
        "sctp_in_streams" | "sctp_out_streams" | "sctp_stream_id" => {
            let fewest = u32::from(key != "sctp_stream_id");
            let number = within(key, value, integer(value)?, fewest..=65535)?;
            let field = match key {
                "sctp_in_streams" => &mut sctp.in_streams,
                "sctp_out_streams" => &mut sctp.out_streams,
                _ => &mut sctp.stream,
            };
            *field = number.value as u16;
            return Ok(number.doubt);
        }
        "sctp_pr_policy" => {
            if !["ttl", "rtx", "buf"].contains(&value) {
                let text = format!("{key}={value} is none of ttl, rtx, buf, and uperf ignores it");
                return Ok(Some(Doubt::new(text, "no policy")));
            }
            value.clone_into(&mut sctp.partial_reliability);
            return Ok(None);
        }
        _ => return Err(unknown(key, value)),
    };
    Ok(store(field, integer(value)?))
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

fn no_count(key: &str, value: &str) -> String {
    format!("Cannot understand {key}:{value}: it is less than 0 in 32 bits")
}

fn store<T: From<u32>>(field: &mut T, number: Number<u32>) -> Option<Doubt> {
    *field = number.value.into();
    number.doubt
}

fn integer(value: &str) -> Result<Number<u32>, String> {
    number::integer(value).ok_or_else(|| format!("Cannot parse {value}"))
}

fn within(
    key: &str,
    value: &str,
    number: Number<u32>,
    range: std::ops::RangeInclusive<u32>,
) -> Result<Number<u32>, String> {
    if range.contains(&number.value) {
        return Ok(number);
    }
    let (least, most) = range.into_inner();
    Err(format!(
        "Cannot understand {key}:{value}: it is not from {least} to {most}"
    ))
}

fn time(key: &str, value: &str) -> Result<Number<std::time::Duration>, String> {
    number::time(value).map_err(|why| match why {
        NoTime::NoNumber => {
            format!("Cannot understand {key}:{value}: it is no time of 1 ns or more")
        }
        NoTime::Unit(unit) => format!(
            "{unit} not valid time suffix: {key}={value} would last for ever (s, ms, us or ns)"
        ),
    })
}

/// `size=90`, `size=rand(64,1k)`.
fn size(flowop: &mut Flowop, value: &str) -> Result<Option<Doubt>, String> {
    let Some(range) = value.strip_prefix("rand(") else {
        let number = number::integer(value).ok_or_else(|| format!("Could not parse {value}"))?;
        flowop.size = Size::Fixed(number.value);
        flowop.flags = Flags(flowop.flags.0 & !Flags::RANDOM.0);
        return Ok(number.doubt);
    };
    let refused = |why: &str| format!("Could not parse {value}: {why}");
    let bounds = range
        .strip_suffix(')')
        .and_then(|range| range.split_once(','));
    let (min, max) =
        bounds.ok_or_else(|| refused("a random size is rand(MIN,MAX), without blanks"))?;
    let (min, max) = (integer(min)?, integer(max)?);
    if min.value == 0 || max.value < min.value {
        return Err(refused("it is not from 1 or more to as much or more"));
    }
    flowop.size = Size::Random {
        min: min.value,
        max: max.value,
    };
    flowop.flags = flowop.flags.with(Flags::RANDOM);
    Ok(min.doubt.or(max.doubt))
}

fn protocol(value: &str) -> Result<Protocol, String> {
    let not = format!("Protocol {value} not supported");
    match value {
        "rds" => Err(format!(
            "{not}: linerate has no reliable datagram sockets (AF_RDS, of the kernel's module rds), and \
             uperf only where it was built with them"
        )),
        "udapl" => Err(format!(
            "{not}: it is a name of uperf's past, and no uperf was ever built with it"
        )),
        "ssl" if !cfg!(feature = "tls") => Err(format!("{not}: {}", Trouble::Absent)),
        _ => Protocol::named(value)
            .ok_or_else(|| format!("{not}: there are tcp, udp, ssl, sctp, vsock, unix, mptcp")),
    }
}

/// A text for which the messages of the control connection have room.
fn text(field: &mut String, key: &str, value: &str, most: usize) -> Result<Option<Doubt>, String> {
    if value.len() > most {
        return Err(format!(
            "Cannot understand {key}:{value}: it has more than {most} bytes"
        ));
    }
    value.clone_into(field);
    Ok(None)
}

/// A text of which uperf keeps as much as it has room for.
fn cut(field: &mut String, key: &str, value: &str, most: usize) -> Option<Doubt> {
    let kept = shortened(value, most);
    kept.clone_into(field);
    let text = format!("{key}={value} has more than {most} bytes");
    (kept != value).then(|| Doubt::new(text, kept))
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

/// Whether a flowop of this kind does anything with the word.
pub(super) fn is_used(key: &str, kind: Kind) -> bool {
    let files = kind.sends_files();
    let simple = kind.transfers() && !files;
    match key {
        "size" => kind.transfers(),
        "rsize" | "repeat" | "batch_size" | "sctp_unordered" => simple,
        "sctp_stream_id" | "sctp_pr_value" | "sctp_pr_policy" => simple || kind.opens(),
        "timeout" => simple || kind == Kind::Accept,
        "non_blocking" => kind.transfers() || kind.opens(),
        "conn" => !matches!(kind, Kind::Think | Kind::Nop),
        "duration" | "idle" | "busy" => kind == Kind::Think,
        "nfiles" => kind == Kind::Sendfilev,
        "dir" => files,
        "count" | "remotehost" | "canfail" => true,
        _ => kind.opens(),
    }
}

/// The protocols that the word is for, where it is not for all.
pub(super) fn only_for(key: &str) -> Option<&'static [Protocol]> {
    const TCP: &[Protocol] = &[Protocol::Tcp, Protocol::Ssl, Protocol::Mptcp];
    match key {
        "tcp_nodelay" | "cc" | "stack" | "bblog" => Some(TCP),
        "repeat" | "batch_size" => Some(&[Protocol::Udp, Protocol::Sctp]),
        "non_blocking" => Some(&[Protocol::Udp, Protocol::Vsock]),
        // Over TCP it is refused.
        "encaps" => Some(&[
            Protocol::Sctp,
            Protocol::Tcp,
            Protocol::Ssl,
            Protocol::Mptcp,
        ]),
        "engine" | "cipher" | "method" => Some(&[Protocol::Ssl]),
        _ if key.starts_with("sctp_") => Some(&[Protocol::Sctp]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(words: &[(&str, &str)]) -> Flowop {
        let mut flowop = Flowop::new(Kind::Write);
        for (key, value) in words {
            assert_eq!(set(&mut flowop, key, value), Ok(None), "{key}={value}");
        }
        flowop
    }

    #[test]
    fn each_option_has_its_field() {
        let flowop = after(&[
            ("size", "1.5k"),
            ("rsize", "3k"),
            ("count", "12"),
            ("repeat", "5"),
            ("batch_size", "6"),
            ("conn", "9"),
            ("timeout", "250ms"),
            ("duration", "5us"),
            ("nfiles", "7"),
            ("dir", "/tmp"),
            ("protocol", "TCP"),
            ("remotehost", "a"),
            ("localhost", "b"),
            ("port", "5000"),
            ("wndsz", "96k"),
            ("cc", "reno"),
            ("stack", "s"),
            ("bblog", "3"),
            ("encaps", "9899"),
            ("engine", "e"),
            ("cipher", "c"),
            ("method", "m"),
        ]);
        let endpoint = &flowop.endpoint;
        assert_eq!(flowop.size, Size::Fixed(1536));
        assert_eq!(
            (flowop.slave_size, flowop.count, flowop.repeat),
            (3072, 12, 5)
        );
        assert_eq!(
            (flowop.batch_size, flowop.connection, flowop.files),
            (6, 9, 7)
        );
        assert_eq!(flowop.timeout, Some(std::time::Duration::from_millis(250)));
        assert_eq!(flowop.duration, std::time::Duration::from_micros(5));
        assert_eq!(flowop.directory, "/tmp");
        assert_eq!(endpoint.protocol, Some(Protocol::Tcp));
        assert_eq!((endpoint.port, endpoint.window), (5000, 98_304));
        assert_eq!(
            (endpoint.black_box_log, endpoint.encapsulation_port),
            (3, 9899)
        );
        let texts = [
            &endpoint.remote_host,
            &endpoint.local_host,
            &endpoint.congestion_control,
            &endpoint.stack,
            &endpoint.engine,
            &endpoint.cipher,
            &endpoint.method,
        ];
        assert_eq!(texts, ["a", "b", "reno", "s", "e", "c", "m"]);
    }

    #[test]
    fn each_sctp_option_has_its_field() {
        let flowop = after(&[
            ("sctp_rto_min", "1"),
            ("sctp_rto_max", "2"),
            ("sctp_rto_initial", "3"),
            ("sctp_sack_delay", "4"),
            ("sctp_sack_frequency", "5"),
            ("sctp_max_burst_size", "6"),
            ("sctp_max_fragment_size", "7"),
            ("sctp_hb_interval", "8"),
            ("sctp_path_mtu", "9"),
            ("sctp_out_streams", "10"),
            ("sctp_in_streams", "11"),
            ("sctp_stream_id", "12"),
            ("sctp_pr_policy", "rtx"),
            ("sctp_pr_value", "13"),
        ]);
        let expected = crate::workorder::Sctp {
            rto_min_ms: 1,
            rto_max_ms: 2,
            rto_initial_ms: 3,
            sack_delay_ms: 4,
            sack_frequency: 5,
            max_burst: 6,
            max_fragment_bytes: 7,
            heartbeat_ms: 8,
            path_mtu_bytes: 9,
            out_streams: 10,
            in_streams: 11,
            stream: 12,
            partial_reliability: "rtx".to_owned(),
            partial_reliability_value: 13,
        };
        assert_eq!(flowop.endpoint.sctp, expected);
    }

    #[test]
    fn random_sizes_have_a_flag() {
        let flowop = after(&[("size", "rand(1k,2k)")]);
        let (min, max) = (1024, 2048);
        assert_eq!(flowop.size, Size::Random { min, max });
        assert!(flowop.flags.has(Flags::RANDOM));
        let flowop = after(&[("size", "RAND(1,1)"), ("size", "5")]);
        assert_eq!(flowop.size, Size::Fixed(5));
        assert!(!flowop.flags.has(Flags::RANDOM));
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
}
