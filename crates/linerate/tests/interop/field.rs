//! What flent types and how it reads the answer, and what terminals and locales must not change.

use std::collections::HashMap;
use std::process::Command;

use testkit::{Implementation, Namespace, Role, Server, compare_masked, figures};

use super::exchange::{Family, Pair, Setting, exchange, peers, run};
use super::{Case, Outcome};

/// What flent selects.
const SELECTION: &str = "THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,\
    LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,DIRECTION,\
    ELAPSED_TIME,PROTOCOL,LOCAL_SEND_SIZE,LOCAL_RECV_SIZE,REMOTE_SEND_SIZE,REMOTE_RECV_SIZE,\
    LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";

/// The ones that it reads as whole numbers.
const WHOLE: [&str; 11] = [
    "TRANSPORT_MSS",
    "LOCAL_TRANSPORT_RETRANS",
    "REMOTE_TRANSPORT_RETRANS",
    "LOCAL_SEND_SIZE",
    "LOCAL_RECV_SIZE",
    "REMOTE_SEND_SIZE",
    "REMOTE_RECV_SIZE",
    "LOCAL_BYTES_SENT",
    "LOCAL_BYTES_RECVD",
    "REMOTE_BYTES_SENT",
    "REMOTE_BYTES_RECVD",
];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::against_stock("field::flent_probe", flent_probe)
            .alone()
            .inside(true),
        Case::against_stock("field::flent", flent).alone().quiet(),
        Case::against_stock("field::terminals", terminals).alone(),
        Case::against_stock("field::locales", locales).alone(),
    ]
}

/// Without a server it must come as far as asking for one.
fn flent_probe() -> Outcome {
    let mut client = peers().command(Implementation::Ours, Role::Client);
    client.args(["-l", "1", "-D", "-0.2", "--", "-e", "1"]);
    let finished = Namespace::new().enter(|| run(client))?;
    let told = finished
        .stdout
        .contains("are you sure there is a netserver");
    if !told || finished.stdout.contains("Demo Mode not configured") || !finished.stderr.is_empty()
    {
        return Err(format!("{finished:?}"));
    }
    Ok(())
}

fn flent() -> Outcome {
    for family in Family::ALL {
        for (test, options) in [
            ("TCP_STREAM", &["-m", "16384", "-M", "16384"][..]),
            ("TCP_MAERTS", &["-K", "cubic"]),
            ("UDP_RR", &["-e", "2"]),
        ] {
            let setting = Setting {
                family,
                environment: &[("DUMP_TCP_INFO", "1")],
                ..Setting::PLAIN
            };
            let version = if family == Family::V4 { "-4" } else { "-6" };
            let format: &[&str] = if test == "UDP_RR" { &[] } else { &["-f", "m"] };
            let fixed = [
                "-P",
                "0",
                "-v",
                "0",
                "-D",
                "-0.20",
                version,
                "-Y",
                "0x20,0x20",
                "-t",
                test,
            ];
            let rest = ["-l", "1", "-F", "/dev/urandom"];
            let data = ["--", "-H", family.loopback(), "-k", SELECTION];
            let args = [&fixed[..], &rest, format, &data, options].concat();
            let finished = exchange(Pair::OURS, setting, &args)?;
            let wrong = |what: &str| Err(format!("{test}: {what}: {finished:?}"));
            if finished.code != Some(0) {
                return wrong("exit code");
            }
            let (plain, arrays) = pairs(&finished.stdout);
            if plain.values().any(|values| values.len() > 1) {
                return wrong("a key comes twice");
            }
            let value = |key: &str| plain.get(key).map_or("", |values| values[0]);
            if SELECTION.split(',').any(|key| !plain.contains_key(key)) {
                return wrong("a key is missing");
            }
            if WHOLE.iter().any(|key| value(key).parse::<i64>().is_err()) {
                return wrong("a whole number is none");
            }
            let tos = |key: &str| i64::from_str_radix(value(key).trim_start_matches("0x"), 16);
            if tos("LOCAL_SOCKET_TOS") != Ok(0x20) || tos("REMOTE_SOCKET_TOS") != Ok(0x20) {
                return wrong("type of service");
            }
            let (protocol, direction) = match test {
                "TCP_STREAM" => ("TCP", "Send"),
                "TCP_MAERTS" => ("TCP", "Receive"),
                _ => ("UDP", "Send|Recv"),
            };
            if (value("PROTOCOL"), value("DIRECTION")) != (protocol, direction) {
                return wrong("protocol and direction");
            }
            if points(&arrays).len() < 3 {
                return wrong("too few points");
            }
            // Names and whole numbers, by turns; flent overlooks the line's end that it cannot spell.
            let info: Vec<&str> = finished
                .stderr
                .lines()
                .filter(|line| line.starts_with("tcpi"))
                .flat_map(str::split_ascii_whitespace)
                .collect();
            let readable = info
                .chunks(2)
                .all(|pair| pair.len() == 2 && pair[1].parse::<u64>().is_ok());
            let expected = if test == "UDP_RR" { 0 } else { 10 };
            if !readable || info.len() / 2 != expected {
                return wrong("TCP's facts");
            }
        }
    }
    Ok(())
}

type Values<'a> = HashMap<&'a str, Vec<&'a str>>;

/// `KEY=value` lines, and `KEY[i]=value` lines by their key.
fn pairs(text: &str) -> (Values<'_>, Values<'_>) {
    let (mut plain, mut arrays) = (Values::new(), Values::new());
    for (key, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
        match key.split_once('[') {
            Some((key, _)) => arrays.entry(key).or_default().push(value),
            None => plain.entry(key).or_default().push(value),
        }
    }
    (plain, arrays)
}

/// The points that flent keeps: those whose time is not ten times, nor a tenth, of what is usual.
fn points(arrays: &Values<'_>) -> Vec<(f64, f64)> {
    let numbers = |key: &str| -> Vec<f64> {
        let values = arrays.get(key).into_iter().flatten();
        values.filter_map(|value| value.parse().ok()).collect()
    };
    let (times, ends, rates) = (
        numbers("NETPERF_INTERVAL"),
        numbers("NETPERF_ENDING"),
        numbers("NETPERF_INTERIM_RESULT"),
    );
    let mut usual = times.first().copied().unwrap_or_default();
    let mut kept = Vec::new();
    for ((time, end), rate) in times.into_iter().zip(ends).zip(rates) {
        if time < usual * 10.0 && time > usual / 10.0 {
            usual = 0.5 * usual + 0.5 * time;
            kept.push((end, rate));
        }
    }
    kept
}

/// k8s-netperf's driver may have a terminal at the other end: lines end in "\r\n", and what goes to
/// stderr stands among them. It looks for keys anywhere in a line.
fn terminals() -> Outcome {
    const KEYS: [&str; 4] = [
        "THROUGHPUT_UNITS",
        "P99_LATENCY",
        "RT_LATENCY",
        "LOCAL_TRANSPORT_RETRANS",
    ];
    let server = Server::start("-4");
    let selection = "rt_latency,p99_latency,throughput,throughput_units,remote_recv_calls,\
        local_send_calls,local_transport_retrans";
    for (test, interim) in [
        ("TCP_STREAM", ""),
        ("TCP_RR", "-D 0.25"),
        ("UDP_STREAM", ""),
    ] {
        let line = format!(
            "{} netperf -H 127.0.0.1 -p {} -l 1 {interim} -t {test} -- -k {selection} -R 1",
            peers().linerate_path.display(),
            server.port,
        );
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]);
        let text = run(terminal)?.stdout;
        let wrong = |what: &str| Err(format!("{test}: {what}: {text}"));
        let mut lines = text.split("\r\n");
        if !lines.next().is_some_and(|line| line.contains("TEST from")) {
            return wrong("the first line is no banner");
        }
        let found = |key: &str| {
            let hits: Vec<&str> = text.lines().filter(|line| line.contains(key)).collect();
            hits.first()
                .and_then(|line| line.trim().split_once('='))
                .map(|(_, value)| value.to_owned())
                .filter(|_| hits.len() == 1)
        };
        if KEYS.iter().any(|key| found(key).is_none()) {
            return wrong("a key is missing, or comes twice");
        }
        let retransmits = found("LOCAL_TRANSPORT_RETRANS").unwrap_or_default();
        if retransmits.starts_with('-') != (test == "UDP_STREAM") {
            return wrong("retransmissions");
        }
        if interim.is_empty() == text.contains("NETPERF_INTERIM_RESULT[1]=") {
            return wrong("interim results");
        }
    }
    Ok(())
}

/// Numbers have points and no thousands' marks, whatever the user's language.
fn locales() -> Outcome {
    for (length, form) in [
        (&["-l", "1", "-D", "0.4"][..], &[][..]),
        (&["-l", "-5M"], &["-k", "THROUGHPUT,ELAPSED_TIME"]),
    ] {
        let args = [length, &["--"], form].concat();
        let of = |environment| {
            let setting = Setting {
                environment,
                ..Setting::PLAIN
            };
            exchange(Pair::OURS, setting, &args).map(|finished| finished.stdout)
        };
        let plain = of(&[("LC_ALL", "C")])?;
        if figures(&plain).is_empty() {
            return Err(plain);
        }
        for environment in [
            &[("LC_ALL", "de_DE.UTF-8"), ("LANGUAGE", "de")][..],
            &[("LC_ALL", "fr_FR.UTF-8")],
            &[("LC_NUMERIC", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8")],
        ] {
            let text = of(environment)?;
            compare_masked(&text, &plain).map_err(|why| format!("{environment:?}: {why}"))?;
        }
    }
    Ok(())
}
