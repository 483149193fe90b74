//! Several flows in one test, against both makes of server: what they moved adds up.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testkit::{Implementation, ProcessOutput, Role, Server, figures, key_values};

use super::exchange::{Pair, Setting, exchange, peers, run, succeed};
use super::{Case, Outcome};

/// Our client against either server.
const PAIRS: [Pair; 2] = [Pair::OURS, Pair::TESTED[0]];

type Check = fn(Pair) -> Outcome;

pub(crate) fn cases() -> Vec<Case> {
    let checks: [(&str, Check); 8] = [
        ("transactions", transactions),
        ("streams", streams),
        ("both_ways", both_ways),
        ("datagrams_both_ways", datagrams_both_ways),
        ("cpu_once", cpu_once),
        ("own_ports", own_ports),
        ("interim", interim),
        ("text", text),
    ];
    let against = PAIRS.into_iter().flat_map(|pair| {
        checks.map(|(name, check)| {
            let case = Case::against_stock(format!("flows::{name}::{}", pair.name()), move || {
                check(pair)
            });
            let case = match pair {
                Pair::OURS => case.alone(),
                _ => case,
            };
            match name {
                "cpu_once" | "interim" => case.quiet(),
                _ => case,
            }
        })
    });
    let alone = [
        Case::against_stock("flows::refused", refused).alone(),
        Case::against_stock("flows::one_cannot", one_cannot).alone(),
        Case::against_stock("flows::histograms", histograms).alone(),
        Case::against_stock("flows::overlap", overlap).alone(),
    ];
    against.chain(alone).collect()
}

/// The values by their selectors.
fn values(pair: Pair, args: &[&str], names: &str) -> Result<HashMap<String, f64>, String> {
    let (before, after): (&[&str], &[&str]) = match args.iter().position(|word| *word == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &[]),
    };
    let args = [before, &["-P", "0", "--"], after, &["-k", names]].concat();
    let text = succeed(pair, Setting::PLAIN, &args)?;
    key_values(&text)
        .into_iter()
        .map(|(name, value)| {
            let value = value
                .parse()
                .map_err(|_| format!("{name} is no number:\n{text}"))?;
            Ok((name.to_owned(), value))
        })
        .collect()
}

fn check(holds: bool, what: &str, values: &HashMap<String, f64>) -> Outcome {
    if holds {
        return Ok(());
    }
    Err(format!("{what}: {values:?}"))
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.001
}

fn transactions(pair: Pair) -> Outcome {
    const NAMES: &str = "FLOWS,LOCAL_SEND_CALLS,LATENCY_SAMPLES,REMOTE_RECV_CALLS,\
        FLOW_MIN_THROUGHPUT,FLOW_MAX_THROUGHPUT,JAIN_INDEX,FLOW_START_SPREAD,THROUGHPUT";
    let seen = values(
        pair,
        &["-t", "TCP_RR", "-l", "-500", "--parallel", "4"],
        NAMES,
    )?;
    check(close(seen["FLOWS"], 4.0), "flows", &seen)?;
    for sum in ["LOCAL_SEND_CALLS", "LATENCY_SAMPLES", "REMOTE_RECV_CALLS"] {
        check(close(seen[sum], 2000.0), sum, &seen)?;
    }
    let (least, most) = (seen["FLOW_MIN_THROUGHPUT"], seen["FLOW_MAX_THROUGHPUT"]);
    check(0.0 < least && least <= most, "spread", &seen)?;
    let jain = seen["JAIN_INDEX"];
    check((0.25..=1.0).contains(&jain), "fairness", &seen)?;
    check(seen["FLOW_START_SPREAD"] >= 0.0, "start", &seen)?;
    // The sum is over the time of all of them, so no more than the sum of the fastest.
    check(seen["THROUGHPUT"] <= 4.0 * most, "sum", &seen)?;

    // A round trip is a flow's, though the rate is that of all.
    let names = "RT_LATENCY,MEAN_LATENCY,TRANSACTION_RATE";
    let seen = values(pair, &["-t", "TCP_RR", "-l", "1", "--parallel", "3"], names)?;
    let ratio = seen["RT_LATENCY"] / seen["MEAN_LATENCY"];
    check((0.8..1.25).contains(&ratio), "round trip", &seen)
}

/// Bytes of a flow that the two ends' buffers can hold by default.
const UNDER_WAY: f64 = 10_485_760.0;

const BYTES: &str = "FLOWS,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,\
    REMOTE_BYTES_RECVD,THROUGHPUT,OUTBOUND_THROUGHPUT,INBOUND_THROUGHPUT";

fn streams(pair: Pair) -> Outcome {
    for (test, sent, received) in [
        ("TCP_STREAM", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
        ("TCP_MAERTS", "REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
    ] {
        let args = ["-t", test, "-l", "1", "--parallel", "3"];
        let seen = values(pair, &args, BYTES)?;
        check(seen[received] > 0.0, test, &seen)?;
        // A client's time can be over before it has all that the server sent in its own.
        let under_way = if test == "TCP_MAERTS" {
            3.0 * UNDER_WAY
        } else {
            0.0
        };
        let missing = seen[sent] - seen[received];
        let allowed = 0.001 * seen[sent] + under_way;
        check(
            (-0.001 * seen[sent]..=allowed).contains(&missing),
            test,
            &seen,
        )?;
        check(
            close(seen["OUTBOUND_THROUGHPUT"], -1.0),
            "one direction",
            &seen,
        )?;
    }
    Ok(())
}

fn both_ways(pair: Pair) -> Outcome {
    for test in ["TCP_STREAM", "TCP_MAERTS", "OMNI"] {
        let args = ["-t", test, "-l", "1", "--bidirectional", "--parallel", "2"];
        let seen = values(pair, &args, BYTES)?;
        check(close(seen["FLOWS"], 4.0), "flows", &seen)?;
        for (sent, received) in [
            ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
            ("REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
        ] {
            let arrived = seen[received] > 0.0 && close(seen[sent], seen[received]);
            check(arrived, received, &seen)?;
        }
        let (out, back) = (seen["OUTBOUND_THROUGHPUT"], seen["INBOUND_THROUGHPUT"]);
        check(close(out + back, seen["THROUGHPUT"]), "the total", &seen)?;
    }
    Ok(())
}

fn datagrams_both_ways(pair: Pair) -> Outcome {
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
        let some = seen[received] > 0.0 && seen[received] <= seen[sent];
        check(some, received, &seen)?;
        // The size that one end was given is the other's, too.
        check(close(seen[sent], 1000.0 * seen[calls]), "size", &seen)?;
    }
    Ok(())
}

/// Each of several netperfs would claim the machine's CPU time for itself.
fn cpu_once(pair: Pair) -> Outcome {
    let names = "LOCAL_CPU_UTIL,LOCAL_CPU_COUNT,LOCAL_SD,REMOTE_CPU_UTIL,REMOTE_CPU_COUNT,\
        REMOTE_SD,TRANSACTION_RATE";
    let args = "-t TCP_RR -l 1 -c -C --parallel 3";
    let seen = values(pair, &args.split(' ').collect::<Vec<_>>(), names)?;
    for end in ["LOCAL", "REMOTE"] {
        let value = |name: &str| seen[&format!("{end}_{name}")];
        let busy = value("CPU_UTIL");
        check(busy > 0.0 && busy <= 100.0, "utilisation", &seen)?;
        let demand = busy * 10_000.0 * value("CPU_COUNT") / seen["TRANSACTION_RATE"];
        let error = (value("SD") / demand - 1.0).abs();
        check(error < 0.01, "service demand of the whole", &seen)?;
    }
    Ok(())
}

/// A port that was asked for is the first flow's; the next ones follow.
fn own_ports(pair: Pair) -> Outcome {
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
            check(close(seen[calls], 300.0), test, &seen)?;
        }
    }
    Ok(())
}

/// Interim results are of all flows.
fn interim(pair: Pair) -> Outcome {
    let args = "-t TCP_RR -l 2 -D 0.25 --parallel 2 -P 0 -- -o TRANSACTION_RATE,ELAPSED_TIME";
    let text = succeed(pair, Setting::PLAIN, &args.split(' ').collect::<Vec<_>>())?;
    let rows: Vec<Vec<f64>> = text.lines().map(figures).collect();
    let Some((last, interim)) = rows.split_last() else {
        return Err("nothing was printed".to_owned());
    };
    let done: f64 = interim.iter().map(|row| row[0] * row[1]).sum();
    let all = last[0] * last[1];
    if interim.len() < 3 || (done / all - 1.0).abs() > 0.05 {
        return Err(format!("{done} of {all}:\n{text}"));
    }
    Ok(())
}

/// The test's own table, and a row a direction below it; at verbosity 0 the sum alone.
fn text(pair: Pair) -> Outcome {
    for (args, rows) in [
        ("-l -5M --parallel 2", &["sum"][..]),
        ("-l 1 --bidirectional", &["out", "in", "both"]),
        ("-t TCP_CRR -l -100 --parallel 2", &["sum"]),
        (
            "-t UDP_STREAM -l 1 --bidirectional -- -R 1",
            &["out", "in", "both"],
        ),
    ] {
        let words: Vec<&str> = args.split(' ').collect();
        let text = succeed(pair, Setting::PLAIN, &words)?;
        let (_, block) = text
            .split_once("Flows  Throughput")
            .ok_or_else(|| format!("{args} has no block of flows:\n{text}"))?;
        let seen: Vec<&str> = block
            .lines()
            .filter(|line| line.starts_with(['s', 'o', 'i', 'b']))
            .filter_map(|line| line.split_ascii_whitespace().next())
            .collect();
        if seen != rows {
            return Err(format!("{args}: {seen:?}, not {rows:?}:\n{text}"));
        }
        let brief = [&["-P", "0", "-v", "0"], &words[..]].concat();
        let text = succeed(pair, Setting::PLAIN, &brief)?;
        if figures(&text).len() != 1 {
            return Err(format!("{args}: not one figure:\n{text}"));
        }
    }
    Ok(())
}

fn refused() -> Outcome {
    for (args, word) in [
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
        let words: Vec<&str> = args.split(' ').collect();
        // What -p says is what this refuses, so nothing is asked of a server.
        let finished = exchange(Pair::OURS, Setting::PLAIN, &words)?;
        let lines = finished.stderr.lines().count();
        if finished.code != Some(1) || lines != 1 || !finished.stderr.contains(word) {
            return Err(format!("{args}: {finished:?}"));
        }
    }
    Ok(())
}

/// A server that has no room for all of them: nothing runs, and nobody waits.
fn one_cannot() -> Outcome {
    let setting = Setting {
        server_args: &["--max-clients", "2"],
        ..Setting::PLAIN
    };
    let finished = exchange(
        Pair::OURS,
        setting,
        &["-l", "1", "-P", "0", "--parallel", "4"],
    )?;
    if finished.code == Some(0) || !finished.stdout.is_empty() || finished.stderr.is_empty() {
        return Err(format!("{finished:?}"));
    }
    Ok(())
}

/// Logs of several runs are merged into one: counts are sums, extremes those of all.
fn histograms() -> Outcome {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (first, second, sum) = (path("first"), path("second"), path("sum"));
    let rr = ["-t", "TCP_RR", "-l", "-300", "-P", "0"];
    let mut extremes = Vec::new();
    for (file, flows) in [(&first, "1"), (&second, "3")] {
        let selection = ["--", "-k", "MIN_LATENCY,MAX_LATENCY"];
        let own = ["--histogram", file, "--parallel", flows];
        let text = succeed(
            Pair::OURS,
            Setting::PLAIN,
            &[&rr[..], &own, &selection].concat(),
        )?;
        extremes.extend(figures(&text));
    }
    let merged = document(&["--json", &first, &second, "-o", &sum])?;
    let one = &merged["histograms"][0];
    if one["tag"] != "TCP_RR" || one["merged"] != 2 || one["count"] != 1200 {
        return Err(format!("{merged:#}"));
    }
    let nanos = |key: &str| one[key].as_u64().unwrap_or(0);
    let (min, max) = (nanos("min_ns") / 1000, nanos("max_ns").div_ceil(1000));
    let whole = || extremes.iter().map(|figure| *figure as u64);
    if whole().min() != Some(min) || whole().max() != Some(max) {
        return Err(format!("{extremes:?}: {merged:#}"));
    }
    // What was merged and written is read again, the same.
    let again = document(&["--json", &sum])?;
    for key in ["count", "min_ns", "max_ns", "mean_ns", "percentiles"] {
        if again["histograms"][0][key] != one[key] {
            return Err(format!("{key}: {again:#}, not {merged:#}"));
        }
    }
    let text = histogram(&[&sum])?;
    if !text.starts_with("TCP_RR (1 histogram)") || !text.contains("p99.9") {
        return Err(text);
    }

    // Both ends' calls, each for itself.
    let own = ["-l", "1", "-P", "0", "--histogram", &first];
    succeed(Pair::OURS, Setting::PLAIN, &own)?;
    let calls = document(&["--json", &first])?;
    let tags: Vec<_> = calls["histograms"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|histogram| histogram["tag"].as_str())
        .collect();
    if tags != ["TCP_STREAM.send", "TCP_STREAM.remote_recv"] {
        return Err(format!("{calls:#}"));
    }

    // What is no log is named, with its line.
    std::fs::write(&first, "hello\n").map_err(|error| error.to_string())?;
    for (file, why) in [(&first[..], "line 1"), ("/no/such/file", "No such file")] {
        let refused = merge(&[file])?;
        let lines = refused.stderr.lines().count();
        if refused.code != Some(1) || lines != 1 || !refused.stderr.contains(why) {
            return Err(format!("{refused:?}"));
        }
    }
    Ok(())
}

fn document(args: &[&str]) -> Result<serde_json::Value, String> {
    let text = histogram(args)?;
    serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
}

fn histogram(args: &[&str]) -> Result<String, String> {
    let finished = merge(args)?;
    if finished.code == Some(0) {
        return Ok(finished.stdout);
    }
    Err(format!("{finished:?}"))
}

fn merge(args: &[&str]) -> Result<ProcessOutput, String> {
    let mut command = std::process::Command::new(peers().linerate_path);
    command.arg("histogram").args(args);
    run(command)
}

/// Two that were started apart learn of each other, the one that was there before, too.
fn overlap() -> Outcome {
    const DOUBT: &str = "other tests ran on this host";
    let failed = |error: std::io::Error| error.to_string();
    let server = Server::start("");
    let port = server.port.to_string();
    let client = |args: &[&str]| {
        let mut command = peers().command(Implementation::Ours, Role::Client);
        command.args(["-H", "127.0.0.1", "-p", &port, "--strict"]);
        command.args(args);
        command
    };
    let mut long = client(&["-l", "3", "-D", "0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // Its first result tells that it runs.
    let mut printed = BufReader::new(long.stdout.take().ok_or("no output")?).lines();
    while let Some(line) = printed.next().transpose().map_err(failed)? {
        if line.starts_with("Interim") {
            break;
        }
    }
    let short = run(client(&["-l", "1"]))?;
    printed.for_each(drop);
    let long = long.wait_with_output().map_err(failed)?;
    let long = String::from_utf8_lossy(&long.stderr);
    for said in [&short.stderr[..], &long] {
        if !said.contains(DOUBT) {
            return Err(format!("nothing of the other test: {said}"));
        }
    }
    Ok(())
}
