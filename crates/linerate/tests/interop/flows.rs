//! Several flows in one test, against both servers: the totals match the flows.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testkit::{Implementation, ProcessOutput, Role, Server, figures, key_values};

use super::exchange::{Pair, Setting, programs, run, run_pair, stdout_of};
use super::{Case, CaseResult};

/// Our client against either server.
const PAIRS: [Pair; 2] = [Pair::OURS, Pair::OURS_TO_STOCK];

type Check = fn(Pair) -> CaseResult;

pub(crate) fn cases() -> Vec<Case> {
    let checks: [(&str, Check); 8] = [
        ("transactions", transactions),
        ("streams", streams),
        ("bidirectional_streams", bidirectional_streams),
        ("bidirectional_datagrams", bidirectional_datagrams),
        ("cpu_counted_once", cpu_counted_once),
        ("consecutive_ports", consecutive_ports),
        ("interim", interim),
        ("text", text),
    ];
    let of_pairs = PAIRS.into_iter().flat_map(|pair| {
        checks.map(|(name, check)| {
            let case = Case::new(format!("flows::{name}::{}", pair.name()), move || {
                check(pair)
            });
            let case = match pair {
                Pair::OURS => case.without_stock(),
                _ => case,
            };
            match name {
                "cpu_counted_once" | "interim" => case.run_alone(),
                _ => case,
            }
        })
    });
    let of_ours = [
        Case::new("flows::rejects_options", rejects_options).without_stock(),
        Case::new("flows::server_limit", server_limit).without_stock(),
        Case::new("flows::histograms", histograms).without_stock(),
        Case::new("flows::warns_about_other_test", warns_about_other_test).without_stock(),
    ];
    of_pairs.chain(of_ours).collect()
}

/// Runs a test and returns the values of the selectors `names`.
fn values(pair: Pair, args: &[&str], names: &str) -> Result<HashMap<String, f64>, String> {
    let (global, specific): (&[&str], &[&str]) = match args.iter().position(|arg| *arg == "--") {
        Some(index) => (&args[..index], &args[index + 1..]),
        None => (args, &[]),
    };
    let args = [global, &["-P", "0", "--"], specific, &["-k", names]].concat();
    let text = stdout_of(pair, Setting::PLAIN, &args)?;
    key_values(&text)
        .into_iter()
        .map(|(name, value)| {
            let value = value
                .parse()
                .map_err(|_| format!("{name} is not a number:\n{text}"))?;
            Ok((name.to_owned(), value))
        })
        .collect()
}

/// Returns an error with the values unless `condition` holds.
fn check(condition: bool, subject: &str, values: &HashMap<String, f64>) -> CaseResult {
    if condition {
        return Ok(());
    }
    Err(format!("unexpected {subject}: {values:?}"))
}

fn is_close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.001
}

fn transactions(pair: Pair) -> CaseResult {
    const NAMES: &str = "FLOWS,LOCAL_SEND_CALLS,LATENCY_SAMPLES,REMOTE_RECV_CALLS,\
        FLOW_MIN_THROUGHPUT,FLOW_MAX_THROUGHPUT,JAIN_INDEX,FLOW_START_SPREAD,THROUGHPUT";
    let seen = values(
        pair,
        &["-t", "TCP_RR", "-l", "-500", "--parallel", "4"],
        NAMES,
    )?;
    check(is_close(seen["FLOWS"], 4.0), "number of flows", &seen)?;
    for total in ["LOCAL_SEND_CALLS", "LATENCY_SAMPLES", "REMOTE_RECV_CALLS"] {
        check(is_close(seen[total], 2000.0), total, &seen)?;
    }
    let (min, max) = (seen["FLOW_MIN_THROUGHPUT"], seen["FLOW_MAX_THROUGHPUT"]);
    check(0.0 < min && min <= max, "range of throughput", &seen)?;
    let jain = seen["JAIN_INDEX"];
    check((0.25..=1.0).contains(&jain), "Jain's index", &seen)?;
    check(seen["FLOW_START_SPREAD"] >= 0.0, "start spread", &seen)?;
    // The time of the sum spans all flows, so the sum is at most four times the fastest flow.
    check(seen["THROUGHPUT"] <= 4.0 * max, "sum", &seen)?;

    // The round trip is that of one flow; the rate is that of all flows.
    let names = "RT_LATENCY,MEAN_LATENCY,TRANSACTION_RATE";
    let seen = values(pair, &["-t", "TCP_RR", "-l", "1", "--parallel", "3"], names)?;
    let ratio = seen["RT_LATENCY"] / seen["MEAN_LATENCY"];
    check((0.8..1.25).contains(&ratio), "round trip", &seen)
}

/// Bytes of a flow that the default buffers of both ends can hold.
const MAX_IN_FLIGHT: f64 = 10_485_760.0;

const BYTES: &str = "FLOWS,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,\
    REMOTE_BYTES_RECVD,THROUGHPUT,OUTBOUND_THROUGHPUT,INBOUND_THROUGHPUT";

fn streams(pair: Pair) -> CaseResult {
    for (test, sent, received) in [
        ("TCP_STREAM", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
        ("TCP_MAERTS", "REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
    ] {
        let args = ["-t", test, "-l", "1", "--parallel", "3"];
        let seen = values(pair, &args, BYTES)?;
        check(seen[received] > 0.0, test, &seen)?;
        // The client can end before it receives all bytes that the server sent.
        let max_in_flight = if test == "TCP_MAERTS" {
            3.0 * MAX_IN_FLIGHT
        } else {
            0.0
        };
        let missing = seen[sent] - seen[received];
        let allowed = 0.001 * seen[sent] + max_in_flight;
        check(
            (-0.001 * seen[sent]..=allowed).contains(&missing),
            test,
            &seen,
        )?;
        check(
            is_close(seen["OUTBOUND_THROUGHPUT"], -1.0),
            "OUTBOUND_THROUGHPUT",
            &seen,
        )?;
    }
    Ok(())
}

fn bidirectional_streams(pair: Pair) -> CaseResult {
    for test in ["TCP_STREAM", "TCP_MAERTS", "OMNI"] {
        let args = ["-t", test, "-l", "1", "--bidirectional", "--parallel", "2"];
        let seen = values(pair, &args, BYTES)?;
        check(is_close(seen["FLOWS"], 4.0), "number of flows", &seen)?;
        for (sent, received) in [
            ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
            ("REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
        ] {
            let is_received = seen[received] > 0.0 && is_close(seen[sent], seen[received]);
            check(is_received, received, &seen)?;
        }
        let (outbound, inbound) = (seen["OUTBOUND_THROUGHPUT"], seen["INBOUND_THROUGHPUT"]);
        check(
            is_close(outbound + inbound, seen["THROUGHPUT"]),
            "total throughput",
            &seen,
        )?;
    }
    Ok(())
}

fn bidirectional_datagrams(pair: Pair) -> CaseResult {
    let args = "-t UDP_STREAM -l 1 --bidirectional -- -R 1 -m 1000";
    let args: Vec<&str> = args.split(' ').collect();
    let names = "LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD,\
        LOCAL_SEND_CALLS,REMOTE_SEND_CALLS";
    let seen = values(pair, &args, names)?;
    for (sent, received, calls) in [
        ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD", "LOCAL_SEND_CALLS"),
        (
            "REMOTE_BYTES_SENT",
            "LOCAL_BYTES_RECVD",
            "REMOTE_SEND_CALLS",
        ),
    ] {
        let is_received = seen[received] > 0.0 && seen[received] <= seen[sent];
        check(is_received, received, &seen)?;
        // A size for one end also applies to the other.
        check(is_close(seen[sent], 1000.0 * seen[calls]), "size", &seen)?;
    }
    Ok(())
}

/// The CPU time of the host counts once for all flows. Concurrent netperfs would each report all of
/// it.
fn cpu_counted_once(pair: Pair) -> CaseResult {
    let names = "LOCAL_CPU_UTIL,LOCAL_CPU_COUNT,LOCAL_SD,REMOTE_CPU_UTIL,REMOTE_CPU_COUNT,\
        REMOTE_SD,TRANSACTION_RATE";
    let args = "-t TCP_RR -l 1 -c -C --parallel 3";
    let seen = values(pair, &args.split(' ').collect::<Vec<_>>(), names)?;
    for end in ["LOCAL", "REMOTE"] {
        let value = |name: &str| seen[&format!("{end}_{name}")];
        let utilisation = value("CPU_UTIL");
        check(
            utilisation > 0.0 && utilisation <= 100.0,
            "utilisation",
            &seen,
        )?;
        let demand = utilisation * 10_000.0 * value("CPU_COUNT") / seen["TRANSACTION_RATE"];
        let error = (value("SD") / demand - 1.0).abs();
        check(error < 0.01, "service demand", &seen)?;
    }
    Ok(())
}

/// A requested port applies to the first flow; the other flows use the next ports.
fn consecutive_ports(pair: Pair) -> CaseResult {
    for test in ["TCP_RR", "UDP_RR"] {
        let args = [
            "-t",
            test,
            "-l",
            "-100",
            "--parallel",
            "3",
            "--",
            "-P",
            "42524",
        ];
        let seen = values(pair, &args, "LOCAL_SEND_CALLS,REMOTE_RECV_CALLS")?;
        for calls in ["LOCAL_SEND_CALLS", "REMOTE_RECV_CALLS"] {
            check(is_close(seen[calls], 300.0), test, &seen)?;
        }
    }
    Ok(())
}

/// Interim results cover all flows.
fn interim(pair: Pair) -> CaseResult {
    let args = "-t TCP_RR -l 2 -D 0.25 --parallel 2 -P 0 -- -o TRANSACTION_RATE,ELAPSED_TIME";
    let text = stdout_of(pair, Setting::PLAIN, &args.split(' ').collect::<Vec<_>>())?;
    let rows: Vec<Vec<f64>> = text.lines().map(figures).collect();
    let Some((last, interim)) = rows.split_last() else {
        return Err("no output".to_owned());
    };
    let interim_total: f64 = interim.iter().map(|row| row[0] * row[1]).sum();
    let total = last[0] * last[1];
    if interim.len() < 3 || (interim_total / total - 1.0).abs() > 0.05 {
        return Err(format!(
            "{interim_total} transactions in interim results, {total} in the result:\n{text}"
        ));
    }
    Ok(())
}

/// Below its usual table, the test prints one row per direction. At verbosity 0 it prints only the
/// sum.
fn text(pair: Pair) -> CaseResult {
    for (args, rows) in [
        ("-l -5M --parallel 2", &["sum"][..]),
        ("-l 1 --bidirectional", &["out", "in", "both"]),
        ("-t TCP_CRR -l -100 --parallel 2", &["sum"]),
        (
            "-t UDP_STREAM -l 1 --bidirectional -- -R 1",
            &["out", "in", "both"],
        ),
    ] {
        let arguments: Vec<&str> = args.split(' ').collect();
        let text = stdout_of(pair, Setting::PLAIN, &arguments)?;
        let (_, table) = text
            .split_once("Flows  Throughput")
            .ok_or_else(|| format!("{args} prints no table of flows:\n{text}"))?;
        let labels: Vec<&str> = table
            .lines()
            .filter(|line| line.starts_with(['s', 'o', 'i', 'b']))
            .filter_map(|line| line.split_ascii_whitespace().next())
            .collect();
        if labels != rows {
            return Err(format!("{args}: {labels:?}, not {rows:?}:\n{text}"));
        }
        let arguments = [&["-P", "0", "-v", "0"], &arguments[..]].concat();
        let text = stdout_of(pair, Setting::PLAIN, &arguments)?;
        if figures(&text).len() != 1 {
            return Err(format!("{args}: expected one figure:\n{text}"));
        }
    }
    Ok(())
}

fn rejects_options() -> CaseResult {
    for (args, expected) in [
        ("--parallel 0", "--parallel"),
        ("--parallel x", "--parallel"),
        ("--parallel 513", "--parallel"),
        ("--parallel 2 -t TCP_MSS", "TCP_MSS"),
        ("--parallel 2 -t LOC_CPU", "LOC_CPU"),
        ("--bidirectional -t TCP_RR", "both directions"),
        ("--bidirectional -t TCP_CRR", "both directions"),
        ("--bidirectional -t TCP_SENDFILE", "TCP_SENDFILE"),
        ("--parallel 2 -p 12865,5000", "control port"),
        ("-N --bidirectional", "-N"),
        ("--histogram /nonexistent/file", "/nonexistent/file"),
        ("--parallel 4 -l 1 -- -P 65534", "65536"),
    ] {
        let arguments: Vec<&str> = args.split(' ').collect();
        // The client rejects the options before it connects to the server.
        let finished = run_pair(Pair::OURS, Setting::PLAIN, &arguments)?;
        let lines = finished.stderr.lines().count();
        if finished.code != Some(1) || lines != 1 || !finished.stderr.contains(expected) {
            return Err(format!("{args}: {finished:?}"));
        }
    }
    Ok(())
}

/// If the flows exceed the server's limit of clients, the client fails and runs no test.
fn server_limit() -> CaseResult {
    let setting = Setting {
        server_args: &["--max-clients", "2"],
        ..Setting::PLAIN
    };
    let finished = run_pair(
        Pair::OURS,
        setting,
        &["-l", "1", "-P", "0", "--parallel", "4"],
    )?;
    // As in stock, an error of the server begins on standard output.
    let has_result = !finished.stdout.is_empty() && !finished.stdout.contains("remote error");
    if finished.code == Some(0) || has_result || finished.stderr.is_empty() {
        return Err(format!("{finished:?}"));
    }
    Ok(())
}

/// Histogram logs of several runs merge into one with their total count and their extremes.
fn histograms() -> CaseResult {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (first, second, sum) = (path("first"), path("second"), path("sum"));
    let rr = ["-t", "TCP_RR", "-l", "-300", "-P", "0"];
    let mut extremes = Vec::new();
    for (file, flows) in [(&first, "1"), (&second, "3")] {
        let selection = ["--", "-k", "MIN_LATENCY,MAX_LATENCY"];
        let options = ["--histogram", file, "--parallel", flows];
        let text = stdout_of(
            Pair::OURS,
            Setting::PLAIN,
            &[&rr[..], &options, &selection].concat(),
        )?;
        extremes.extend(figures(&text));
    }
    let merged = histogram_json(&["--json", &first, &second, "-o", &sum])?;
    let histogram = &merged["histograms"][0];
    if histogram["tag"] != "TCP_RR" || histogram["merged"] != 2 || histogram["count"] != 1200 {
        return Err(format!("{merged:#}"));
    }
    let nanos = |key: &str| histogram[key].as_u64().unwrap_or(0);
    let (min, max) = (nanos("min_ns") / 1000, nanos("max_ns").div_ceil(1000));
    let micros = || extremes.iter().map(|figure| *figure as u64);
    if micros().min() != Some(min) || micros().max() != Some(max) {
        return Err(format!("{extremes:?}: {merged:#}"));
    }
    // The merged file has the same histogram.
    let from_file = histogram_json(&["--json", &sum])?;
    for key in ["count", "min_ns", "max_ns", "mean_ns", "percentiles"] {
        if from_file["histograms"][0][key] != histogram[key] {
            return Err(format!("{key}: {from_file:#}, not {merged:#}"));
        }
    }
    let text = histogram_stdout(&[&sum])?;
    if !text.starts_with("TCP_RR (1 histogram)") || !text.contains("p99.9") {
        return Err(text);
    }

    // A stream has one histogram per end, of its calls.
    let args = ["-l", "1", "-P", "0", "--histogram", &first];
    stdout_of(Pair::OURS, Setting::PLAIN, &args)?;
    let calls = histogram_json(&["--json", &first])?;
    let tags: Vec<_> = calls["histograms"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|histogram| histogram["tag"].as_str())
        .collect();
    if tags != ["TCP_STREAM.send", "TCP_STREAM.remote_recv"] {
        return Err(format!("{calls:#}"));
    }

    // An error contains the invalid line or the reason.
    std::fs::write(&first, "hello\n").map_err(|error| error.to_string())?;
    for (file, expected) in [(&first[..], "line 1"), ("/no/such/file", "No such file")] {
        let failed = run_histogram(&[file])?;
        let lines = failed.stderr.lines().count();
        if failed.code != Some(1) || lines != 1 || !failed.stderr.contains(expected) {
            return Err(format!("{failed:?}"));
        }
    }
    Ok(())
}

fn histogram_json(args: &[&str]) -> Result<serde_json::Value, String> {
    let text = histogram_stdout(args)?;
    serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
}

fn histogram_stdout(args: &[&str]) -> Result<String, String> {
    let finished = run_histogram(args)?;
    if finished.code == Some(0) {
        return Ok(finished.stdout);
    }
    Err(format!("{finished:?}"))
}

/// Runs `linerate histogram`.
fn run_histogram(args: &[&str]) -> Result<ProcessOutput, String> {
    let mut command = std::process::Command::new(programs().linerate_path);
    command.arg("histogram").args(args);
    run(command)
}

/// Both of two overlapping clients warn about the other's test.
fn warns_about_other_test() -> CaseResult {
    const WARNING: &str = "other tests ran on this host";
    let message = |error: std::io::Error| error.to_string();
    let server = Server::start("");
    let port = server.port.to_string();
    let client = |args: &[&str]| {
        let mut command = programs().command(Implementation::Ours, Role::Client);
        command.args(["-H", "127.0.0.1", "-p", &port, "--strict"]);
        command.args(args);
        command
    };
    let mut long = client(&["-l", "3", "-D", "0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(message)?;
    // The first interim result shows that the test runs.
    let mut lines = BufReader::new(long.stdout.take().ok_or("no output")?).lines();
    while let Some(line) = lines.next().transpose().map_err(message)? {
        if line.starts_with("Interim") {
            break;
        }
    }
    let short = run(client(&["-l", "1"]))?;
    lines.for_each(drop);
    let long = long.wait_with_output().map_err(message)?;
    let long = String::from_utf8_lossy(&long.stderr);
    for stderr in [&short.stderr[..], &long] {
        if !stderr.contains(WARNING) {
            return Err(format!("no warning about the other test: {stderr}"));
        }
    }
    Ok(())
}
