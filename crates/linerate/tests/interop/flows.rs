//! Several flows in one test, against both makes of server: what they moved adds up.

use std::collections::HashMap;

use testkit::{figures, keyvals};

use crate::exchange::{Pair, Setting, exchange, succeed};
use crate::{Case, Outcome};

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
            if pair == Pair::OURS {
                case.alone()
            } else {
                case
            }
        })
    });
    let alone = [
        Case::against_stock("flows::refused", refused).alone(),
        Case::against_stock("flows::one_cannot", one_cannot).alone(),
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
    keyvals(&text)
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

const BYTES: &str = "FLOWS,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,\
    REMOTE_BYTES_RECVD,THROUGHPUT,OUTBOUND_THROUGHPUT,INBOUND_THROUGHPUT";

fn streams(pair: Pair) -> Outcome {
    for (test, sent, received) in [
        ("TCP_STREAM", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
        ("TCP_MAERTS", "REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
    ] {
        let args = ["-t", test, "-l", "1", "--parallel", "3"];
        let seen = values(pair, &args, BYTES)?;
        check(
            seen[received] > 0.0 && close(seen[sent], seen[received]),
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
        ("-l 1 --parallel 2", &["sum"][..]),
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
        ("--bidirectional -t TCP_RR", "both ways"),
        ("--bidirectional -t TCP_CRR", "both ways"),
        ("--bidirectional -t TCP_SENDFILE", "TCP_SENDFILE"),
        ("--parallel 2 -p 12865,5000", "control port"),
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
