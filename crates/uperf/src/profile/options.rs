//! Options of flowops: how each is parsed, formatted, and which flowops and protocols use it.

use crate::workorder::{Amount, DataProtocol, Flowop, FlowopFlags, FlowopKind, Transfer};

use super::number::{self, ProfileWarning};
use super::option_value::{self, OptionText};

/// Result of setting an option: a warning, or an error in uperf's words.
type SetResult = Result<Option<ProfileWarning>, String>;

/// Definition of an option.
struct OptionSpec {
    /// Name, in lower case.
    key: &'static str,
    effect: OptionEffect,
    /// True for flowops that use the option.
    is_used: fn(FlowopKind) -> bool,
    /// Protocols that use the option; empty for all.
    protocols: &'static [DataProtocol],
}

/// Effect of an option on a flowop.
enum OptionEffect {
    /// Option without a value; sets these flags.
    Flag(FlowopFlags),
    /// Option with a value: functions that set and format it. A default value formats as empty.
    Value(fn(&mut Flowop, &str) -> SetResult, fn(&Flowop) -> String),
}

/// Returns the option of this name, in lower case.
fn find_option(key: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|option| option.key == key)
}

/// Sets the option `key` (in lower case). Fails for an unknown option or an invalid value.
pub(super) fn set(flowop: &mut Flowop, key: &str, value: &str) -> SetResult {
    match find_option(key).map(|option| &option.effect) {
        Some(OptionEffect::Value(set, _)) => set(flowop, value),
        _ => Err(unknown_option(key, value)),
    }
}

/// Returns the flags of an option without a value; `None` if no such option exists.
pub(super) fn find_flag(key: &str) -> Option<FlowopFlags> {
    match find_option(key)?.effect {
        OptionEffect::Flag(flags) => Some(flags),
        OptionEffect::Value(..) => None,
    }
}

/// Returns true if a flowop of this kind uses the option.
pub(super) fn is_used(key: &str, kind: FlowopKind) -> bool {
    find_option(key).is_some_and(|option| (option.is_used)(kind))
}

/// Returns the protocols that use the option; empty for all.
pub(super) fn protocols(key: &str) -> &'static [DataProtocol] {
    find_option(key).map_or(ANY_PROTOCOL, |option| option.protocols)
}

/// Formats the options that differ from uperf's defaults, in the syntax of `options=`.
pub(super) fn format_options(flowop: &Flowop) -> String {
    let words = OPTIONS.iter().filter_map(|option| match option.effect {
        OptionEffect::Flag(flags) => flowop.flags.has(flags).then(|| option.key.to_owned()),
        OptionEffect::Value(_, format) => {
            let value = format(flowop);
            (!value.is_empty()).then(|| format!("{}={value}", option.key))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

const fn flag_option(
    key: &'static str,
    flags: FlowopFlags,
    is_used: fn(FlowopKind) -> bool,
    protocols: &'static [DataProtocol],
) -> OptionSpec {
    let effect = OptionEffect::Flag(flags);
    OptionSpec {
        key,
        effect,
        is_used,
        protocols,
    }
}

/// Defines an option with a value: name, field of the flowop, parser, optional formatter, and the
/// flowops and protocols that use it. Without a formatter, the value's `Display` is used.
macro_rules! value {
    (
        $key:literal $($field:ident).+: $parse:ident($($bound:expr)?) $($format:expr)?,
        $is_used:expr, $protocols:expr
    ) => {
        OptionSpec {
            key: $key,
            effect: OptionEffect::Value(
                |flowop, value| {
                    let option = OptionText { key: $key, value };
                    let (value, warning) = option.$parse($($bound)?)?;
                    flowop.$($field).+ = value;
                    Ok(warning)
                },
                |flowop| {
                    let value = &flowop.$($field).+;
                    if *value == Flowop::new(flowop.kind).$($field).+ {
                        return String::new();
                    }
                    format_value!(value $($format)?)
                },
            ),
            is_used: $is_used,
            protocols: $protocols,
        }
    };
}

macro_rules! format_value {
    ($value:ident) => {
        $value.to_string()
    };
    ($value:ident $format:expr) => {
        $format(*$value)
    };
}

const ANY_PROTOCOL: &[DataProtocol] = &[];
const TCP: &[DataProtocol] = &[DataProtocol::Tcp, DataProtocol::Ssl, DataProtocol::Mptcp];
const SSL: &[DataProtocol] = &[DataProtocol::Ssl];
const SCTP: &[DataProtocol] = &[DataProtocol::Sctp];
const MESSAGES: &[DataProtocol] = &[DataProtocol::Udp, DataProtocol::Sctp];
const UDP_OR_VSOCK: &[DataProtocol] = &[DataProtocol::Udp, DataProtocol::Vsock];
/// Protocols that accept `encaps=`. Over TCP, the socket probe refuses the option before the run.
const ENCAPSULATED: &[DataProtocol] = &[
    DataProtocol::Sctp,
    DataProtocol::Tcp,
    DataProtocol::Ssl,
    DataProtocol::Mptcp,
];

const OPENS: fn(FlowopKind) -> bool = FlowopKind::opens;
const ANY_FLOWOP: fn(FlowopKind) -> bool = |_| true;
const THINK: fn(FlowopKind) -> bool = |kind| kind == FlowopKind::Think;
const BUFFERED: fn(FlowopKind) -> bool = FlowopKind::uses_buffer;
const OPENS_OR_BUFFERED: fn(FlowopKind) -> bool = |kind| kind.opens() || BUFFERED(kind);

/// All options, in the order of [`format_options`].
static OPTIONS: &[OptionSpec] = &[
    value!("remotehost" endpoint.remote_host: text(255), ANY_FLOWOP, ANY_PROTOCOL),
    value!("localhost" endpoint.local_host: text(255), OPENS, ANY_PROTOCOL),
    value!("protocol" endpoint.protocol: protocol() |name: Option<_>| name.map_or("", DataProtocol::name).to_owned(), OPENS, ANY_PROTOCOL),
    value!("port" endpoint.port: count(0..=65_535), OPENS, ANY_PROTOCOL),
    value!("wndsz" endpoint.window: number() option_value::format_bytes, OPENS, ANY_PROTOCOL),
    value!("cc" endpoint.congestion_control: text(31), OPENS, TCP),
    value!("stack" endpoint.stack: text(31), OPENS, TCP),
    value!("bblog" endpoint.black_box_log: number(), OPENS, TCP),
    value!("encaps" endpoint.encapsulation_port: number_in(0..=65_535), OPENS, ENCAPSULATED),
    value!("engine" endpoint.engine: truncated_text(19), OPENS, SSL),
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
    OptionSpec {
        key: "sctp_pr_policy",
        effect: OptionEffect::Value(
            |flowop, value| Ok(set_policy(flowop, value)),
            |flowop| flowop.endpoint.sctp.partial_reliability.clone(),
        ),
        is_used: OPENS_OR_BUFFERED,
        protocols: SCTP,
    },
    value!("sctp_pr_value" endpoint.sctp.partial_reliability_value: number(), OPENS_OR_BUFFERED, SCTP),
    value!("conn" connection: positive(), |kind| !matches!(kind, FlowopKind::Think | FlowopKind::Nop), ANY_PROTOCOL),
    value!("count" count: count(0..=u32::MAX), ANY_FLOWOP, ANY_PROTOCOL),
    value!("repeat" transfer.repeat: positive(), BUFFERED, MESSAGES),
    value!("batch_size" batch_size: positive(), BUFFERED, MESSAGES),
    OptionSpec {
        key: "size",
        effect: OptionEffect::Value(set_size, |flowop| {
            option_value::format_size(flowop.transfer.amount)
        }),
        is_used: FlowopKind::transfers,
        protocols: ANY_PROTOCOL,
    },
    value!("rsize" slave_size: number() option_value::format_bytes, BUFFERED, ANY_PROTOCOL),
    value!("nfiles" files: number(), |kind| kind == FlowopKind::Sendfilev, ANY_PROTOCOL),
    value!("dir" directory: text(127), FlowopKind::sends_files, ANY_PROTOCOL),
    value!("timeout" transfer.timeout: time() |time: Option<_>| option_value::format_time(time.unwrap_or_default()), |kind| kind == FlowopKind::Accept || BUFFERED(kind), ANY_PROTOCOL),
    value!("duration" duration: time() option_value::format_time, THINK, ANY_PROTOCOL),
    flag_option("tcp_nodelay", FlowopFlags::NO_DELAY, OPENS, TCP),
    flag_option("canfail", FlowopFlags::CAN_FAIL, ANY_FLOWOP, ANY_PROTOCOL),
    flag_option(
        "non_blocking",
        FlowopFlags::NON_BLOCKING,
        |kind| kind.transfers() || kind.opens(),
        UDP_OR_VSOCK,
    ),
    flag_option("idle", FlowopFlags::IDLE, THINK, ANY_PROTOCOL),
    flag_option("busy", FlowopFlags::BUSY, THINK, ANY_PROTOCOL),
    flag_option(
        "sctp_unordered",
        FlowopFlags::SCTP_UNORDERED,
        BUFFERED,
        SCTP,
    ),
    flag_option("sctp_nodelay", FlowopFlags::SCTP_NO_DELAY, OPENS, SCTP),
];

/// Resets the options that uperf resets at a second `options=` of the same flowop.
pub(super) fn reset_for_second_list(flowop: &mut Flowop) {
    let defaults = Flowop::new(flowop.kind);
    flowop.count = defaults.count;
    flowop.batch_size = defaults.batch_size;
    flowop.transfer = Transfer {
        timeout: flowop.transfer.timeout,
        ..defaults.transfer
    };
    flowop.duration = defaults.duration;
    flowop.connection = defaults.connection;
}

/// Sets a size, as in `size=90` or `size=rand(64,1k)`.
fn set_size(flowop: &mut Flowop, value: &str) -> SetResult {
    let value = value.to_ascii_lowercase();
    let Some(range) = value.strip_prefix("rand(") else {
        let number = number::integer(&value);
        let (bytes, warning) = number.ok_or_else(|| format!("Could not parse {value}"))?;
        flowop.transfer.amount = Amount::Exactly(bytes);
        return Ok(warning);
    };
    let describe_error = |reason: &str| format!("Could not parse {value}: {reason}");
    let range = range.strip_suffix(')');
    let bounds = range.and_then(|range| range.split_once(','));
    let (min, max) =
        bounds.ok_or_else(|| describe_error("a random size is rand(MIN,MAX), without blanks"))?;
    let ((min, warning), (max, other_warning)) =
        (option_value::integer(min)?, option_value::integer(max)?);
    if min == 0 || max < min {
        return Err(describe_error(
            "MIN must be at least 1, and MAX at least MIN",
        ));
    }
    flowop.transfer.amount = Amount::Between { min, max };
    Ok(warning.or(other_warning))
}

/// Sets the SCTP partial reliability policy, in upper or lower case.
fn set_policy(flowop: &mut Flowop, value: &str) -> Option<ProfileWarning> {
    let value = value.to_ascii_lowercase();
    if !["ttl", "rtx", "buf"].contains(&value.as_str()) {
        let text = format!("uperf ignores sctp_pr_policy={value}; use ttl, rtx or buf");
        return Some(ProfileWarning::new(text, "no policy"));
    }
    flowop.endpoint.sctp.partial_reliability = value;
    None
}

fn unknown_option(key: &str, value: &str) -> String {
    let text = format!("parser - Option unrecognized {key}={value}");
    if matches!(key, "rate" | "iterations" | "nthreads" | "nprocs" | "type") {
        format!("{text}: {key} is an attribute, not an option of a flowop")
    } else if find_flag(key).is_some() {
        format!("{text}: {key} has no value")
    } else {
        text
    }
}

/// Returns linerate's name of the option, with a warning if the manual has another name.
pub(super) fn canonical_name(key: &str) -> (&str, Option<ProfileWarning>) {
    match key {
        "poll_timeout" => {
            let text = "poll_timeout is in the manual, but uperf does not accept it";
            ("timeout", Some(ProfileWarning::new(text, "timeout")))
        }
        _ => (key, None),
    }
}

/// Returns the flowop of this name (in lower case), with a warning if only the manual has the name.
pub(super) fn flowop_kind(name: &str) -> Option<(FlowopKind, Option<ProfileWarning>)> {
    let (kind, text) = match name {
        // The manual's list of flowops has this misprint; its description of the flowop has recv.
        "redv" => (
            FlowopKind::Recv,
            "redv is in the manual, but uperf does not accept it",
        ),
        "sendto" => (
            FlowopKind::Write,
            "sendto is in the manual, but uperf does not accept it",
        ),
        _ => {
            let mut all = FlowopKind::ALL.into_iter();
            return all
                .find(|kind| kind.name() == name)
                .map(|kind| (kind, None));
        }
    };
    Some((kind, Some(ProfileWarning::new(text, kind.name()))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workorder::{Endpoint, SctpOptions};

    fn flowop_with(words: &[(&str, &str)]) -> Flowop {
        let mut flowop = Flowop::new(FlowopKind::Write);
        for (key, value) in words {
            assert_eq!(set(&mut flowop, key, value), Ok(None), "{key}={value}");
        }
        flowop
    }

    #[test]
    fn names_and_sizes_are_case_insensitive() {
        let flowop = flowop_with(&[("protocol", "TCP"), ("sctp_pr_policy", "RTX")]);
        assert_eq!(flowop.endpoint.protocol, Some(DataProtocol::Tcp));
        assert_eq!(flowop.endpoint.sctp.partial_reliability, "rtx");
        let flowop = flowop_with(&[("size", "rand(1k,2k)")]);
        let (min, max) = (1024, 2048);
        assert_eq!(flowop.transfer.amount, Amount::Between { min, max });
        let flowop = flowop_with(&[("size", "RAND(1,1)"), ("size", "5")]);
        assert_eq!(flowop.transfer.amount, Amount::Exactly(5));
    }

    #[test]
    fn errors_begin_with_uperfs_text() {
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
            let result = set(&mut Flowop::new(FlowopKind::Write), key, value);
            let text = result.expect_err(value);
            assert!(text.starts_with(expected), "{key}={value}: {text}");
        }
        let long = "x".repeat(300);
        for key in ["remotehost", "localhost", "cc", "stack", "dir"] {
            let result = set(&mut Flowop::new(FlowopKind::Write), key, &long);
            let text = result.expect_err(key);
            assert!(
                text.starts_with(&format!("Cannot understand {key}:")),
                "{text}"
            );
        }
    }

    #[test]
    fn values_that_uperf_truncates_or_ignores_cause_a_warning() {
        for (key, value, assumed) in [
            ("engine", "twenty-characters-xx", "twenty-characters-x"),
            ("sctp_pr_policy", "all", "no policy"),
            ("count", "2k", "2"),
            ("port", "http", "0"),
            ("timeout", "5", "5 s"),
        ] {
            let result = set(&mut Flowop::new(FlowopKind::Write), key, value);
            let found = result.ok().flatten().map(|warning| warning.assumed);
            assert_eq!(found.as_deref(), Some(assumed), "{key}={value}");
        }
    }

    #[test]
    fn a_second_list_resets_some_options() {
        let mut flowop = flowop_with(&[
            ("count", "2"),
            ("repeat", "2"),
            ("batch_size", "2"),
            ("size", "2"),
            ("duration", "2s"),
            ("conn", "2"),
            ("rsize", "2"),
            ("remotehost", "h"),
        ]);
        reset_for_second_list(&mut flowop);
        let expected = flowop_with(&[("rsize", "2"), ("remotehost", "h")]);
        assert_eq!(flowop, expected);
    }

    #[test]
    fn flowops_are_found_by_their_names() {
        for kind in FlowopKind::ALL {
            assert_eq!(super::flowop_kind(kind.name()), Some((kind, None)));
        }
        for (name, expected) in [("redv", FlowopKind::Recv), ("sendto", FlowopKind::Write)] {
            let (kind, warning) = flowop_kind(name).expect("a name of the manual");
            assert!(warning.is_some());
            assert_eq!(kind, expected);
        }
        for name in ["", "wait", "reads", "Read"] {
            assert_eq!(flowop_kind(name), None, "{name}");
        }
    }

    #[test]
    fn each_option_sets_its_field_and_is_formatted_as_written() {
        let all = "remotehost=a localhost=b protocol=sctp port=5000 wndsz=96k cc=reno stack=s bblog=3 \
                   encaps=9899 engine=e cipher=c method=m sctp_rto_min=1 sctp_rto_max=2 \
                   sctp_rto_initial=3 sctp_sack_delay=4 sctp_sack_frequency=5 sctp_max_burst_size=6 \
                   sctp_max_fragment_size=7 sctp_hb_interval=8 sctp_path_mtu=9 sctp_in_streams=10 \
                   sctp_out_streams=11 sctp_stream_id=12 sctp_pr_policy=ttl sctp_pr_value=13 conn=9 \
                   count=12 repeat=5 batch_size=6 size=rand(100,3k) rsize=4m nfiles=7 dir=/tmp \
                   timeout=1500us duration=30000001024ns tcp_nodelay canfail non_blocking idle busy \
                   sctp_unordered sctp_nodelay";
        let mut flowop = Flowop::new(FlowopKind::Write);
        for word in all.split(' ') {
            if let Some((key, value)) = word.split_once('=') {
                let result = set(&mut flowop, key, value);
                assert_eq!(result, Ok(None), "{word}");
            } else {
                let flag = find_flag(word).expect("a flag");
                flowop.flags = flowop.flags.with(flag);
            }
        }
        let flags = [
            FlowopFlags::NO_DELAY,
            FlowopFlags::CAN_FAIL,
            FlowopFlags::NON_BLOCKING,
            FlowopFlags::IDLE,
            FlowopFlags::BUSY,
            FlowopFlags::SCTP_UNORDERED,
            FlowopFlags::SCTP_NO_DELAY,
        ];
        let expected = Flowop {
            count: 12,
            transfer: Transfer {
                amount: Amount::Between {
                    min: 100,
                    max: 3072,
                },
                repeat: 5,
                timeout: Some(Duration::from_micros(1500)),
                ..Transfer::DEFAULT
            },
            batch_size: 6,
            slave_size: 4 << 20,
            connection: 9,
            flags: flags
                .into_iter()
                .fold(FlowopFlags::default(), FlowopFlags::with),
            duration: Duration::from_nanos(30_000_001_024),
            endpoint: Endpoint {
                protocol: Some(DataProtocol::Sctp),
                remote_host: "a".to_owned(),
                local_host: "b".to_owned(),
                port: 5000,
                window: 98_304,
                congestion_control: "reno".to_owned(),
                stack: "s".to_owned(),
                black_box_log: 3,
                encapsulation_port: 9899,
                sctp: SctpOptions {
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
            ..Flowop::new(FlowopKind::Write)
        };
        assert_eq!(flowop, expected);
        assert_eq!(format_options(&flowop), all);
        assert_eq!(format_options(&Flowop::new(FlowopKind::Nop)), "");
    }
}
