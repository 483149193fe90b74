//! flent's command lines and its parser. Terminals and locales, which must not change the output.

use std::collections::HashMap;
use std::process::Command;

use testkit::{Implementation, Namespace, Role, Server, compare_masked, figures};

use super::exchange::{Family, Pair, Setting, programs, run, run_pair};
use super::{Case, CaseResult};

/// Flent's selection.
const SELECTION: &str = "THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,\
    LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,DIRECTION,\
    ELAPSED_TIME,PROTOCOL,LOCAL_SEND_SIZE,LOCAL_RECV_SIZE,REMOTE_SEND_SIZE,REMOTE_RECV_SIZE,\
    LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";

/// Selectors that flent parses as integers.
const INTEGERS: [&str; 11] = [
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
        Case::new("field::flent_probe", flent_probe)
            .without_stock()
            .in_namespace(true),
        Case::new("field::flent", flent).without_stock().run_alone(),
        Case::new("field::terminals", terminals).without_stock(),
        Case::new("field::locales", locales).without_stock(),
    ]
}

/// Without a server, the client accepts the options and fails to connect.
fn flent_probe() -> CaseResult {
    let mut client = programs().command(Implementation::Ours, Role::Client);
    client.args(["-l", "1", "-D", "-0.2", "--", "-e", "1"]);
    let finished = Namespace::new().enter(|| run(client))?;
    let cannot_connect = finished
        .stdout
        .contains("are you sure there is a netserver");
    if !cannot_connect
        || finished.stdout.contains("Demo Mode not configured")
        || !finished.stderr.is_empty()
    {
        return Err(format!("{finished:?}"));
    }
    Ok(())
}

fn flent() -> CaseResult {
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
            let length_and_data = ["-l", "1", "-F", "/dev/urandom"];
            let test_options = ["--", "-H", family.loopback(), "-k", SELECTION];
            let args = [&fixed[..], &length_and_data, format, &test_options, options].concat();
            let finished = run_pair(Pair::OURS, setting, &args)?;
            let fail = |reason: &str| Err(format!("{test}: {reason}: {finished:?}"));
            if finished.code != Some(0) {
                return fail("exit code");
            }
            let (plain, arrays) = parse_pairs(&finished.stdout);
            if plain.values().any(|values| values.len() > 1) {
                return fail("duplicate key");
            }
            let value = |key: &str| plain.get(key).map_or("", |values| values[0]);
            if SELECTION.split(',').any(|key| !plain.contains_key(key)) {
                return fail("missing key");
            }
            if INTEGERS
                .iter()
                .any(|key| value(key).parse::<i64>().is_err())
            {
                return fail("invalid integer");
            }
            let tos = |key: &str| i64::from_str_radix(value(key).trim_start_matches("0x"), 16);
            if tos("LOCAL_SOCKET_TOS") != Ok(0x20) || tos("REMOTE_SOCKET_TOS") != Ok(0x20) {
                return fail("type of service");
            }
            let (protocol, direction) = match test {
                "TCP_STREAM" => ("TCP", "Send"),
                "TCP_MAERTS" => ("TCP", "Receive"),
                _ => ("UDP", "Send|Recv"),
            };
            if (value("PROTOCOL"), value("DIRECTION")) != (protocol, direction) {
                return fail("protocol and direction");
            }
            if points(&arrays).len() < 3 {
                return fail("too few points");
            }
            // Names and integers alternate.
            let info: Vec<&str> = finished
                .stderr
                .lines()
                .filter(|line| line.starts_with("tcpi"))
                .flat_map(str::split_ascii_whitespace)
                .collect();
            let is_valid = info
                .chunks(2)
                .all(|pair| pair.len() == 2 && pair[1].parse::<u64>().is_ok());
            let expected = if test == "UDP_RR" { 0 } else { 10 };
            if !is_valid || info.len() / 2 != expected {
                return fail("TCP information");
            }
        }
    }
    Ok(())
}

type Values<'a> = HashMap<&'a str, Vec<&'a str>>;

/// Parses `KEY=value` lines and `KEY[i]=value` lines, each by key.
fn parse_pairs(text: &str) -> (Values<'_>, Values<'_>) {
    let (mut plain, mut arrays) = (Values::new(), Values::new());
    for (key, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
        match key.split_once('[') {
            Some((key, _)) => arrays.entry(key).or_default().push(value),
            None => plain.entry(key).or_default().push(value),
        }
    }
    (plain, arrays)
}

/// Returns the points that flent keeps: intervals between a tenth and ten times the moving average.
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
    let mut average = times.first().copied().unwrap_or_default();
    let mut kept = Vec::new();
    for ((time, end), rate) in times.into_iter().zip(ends).zip(rates) {
        if time < average * 10.0 && time > average / 10.0 {
            average = 0.5 * average + 0.5 * time;
            kept.push((end, rate));
        }
    }
    kept
}

/// k8s-netperf's driver may run netperf in a terminal: lines end in "\r\n" and include stderr. It
/// searches for keys anywhere in a line.
fn terminals() -> CaseResult {
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
            programs().linerate_path.display(),
            server.port,
        );
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]);
        let text = run(terminal)?.stdout;
        let fail = |reason: &str| Err(format!("{test}: {reason}: {text}"));
        let mut lines = text.split("\r\n");
        if !lines.next().is_some_and(|line| line.contains("TEST from")) {
            return fail("the first line is not the banner");
        }
        let find = |key: &str| {
            let matches: Vec<&str> = text.lines().filter(|line| line.contains(key)).collect();
            matches
                .first()
                .and_then(|line| line.trim().split_once('='))
                .map(|(_, value)| value.to_owned())
                .filter(|_| matches.len() == 1)
        };
        if KEYS.iter().any(|key| find(key).is_none()) {
            return fail("missing or duplicate key");
        }
        let retransmits = find("LOCAL_TRANSPORT_RETRANS").unwrap_or_default();
        if retransmits.starts_with('-') != (test == "UDP_STREAM") {
            return fail("retransmissions");
        }
        if interim.is_empty() == text.contains("NETPERF_INTERIM_RESULT[1]=") {
            return fail("interim results");
        }
    }
    Ok(())
}

/// Numbers have decimal points and no thousands separators in every locale.
fn locales() -> CaseResult {
    for (length, format) in [
        (&["-l", "1", "-D", "0.4"][..], &[][..]),
        (&["-l", "-5M"], &["-k", "THROUGHPUT,ELAPSED_TIME"]),
    ] {
        let args = [length, &["--"], format].concat();
        let stdout = |environment| {
            let setting = Setting {
                environment,
                ..Setting::PLAIN
            };
            run_pair(Pair::OURS, setting, &args).map(|finished| finished.stdout)
        };
        let expected = stdout(&[("LC_ALL", "C")])?;
        if figures(&expected).is_empty() {
            return Err(expected);
        }
        for environment in [
            &[("LC_ALL", "de_DE.UTF-8"), ("LANGUAGE", "de")][..],
            &[("LC_ALL", "fr_FR.UTF-8")],
            &[("LC_NUMERIC", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8")],
        ] {
            let text = stdout(environment)?;
            compare_masked(&text, &expected)
                .map_err(|difference| format!("{environment:?}: {difference}"))?;
        }
    }
    Ok(())
}
