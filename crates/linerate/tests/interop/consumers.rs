//! Command lines of harnesses that use netperf. Each case parses our output as the harness does and
//! checks what the harness relies on.

use std::process::Command;

use testkit::{ProcessOutput, Server, figures};

use super::exchange::{Family, Pair, Setting, programs, run, stdout_of};
use super::{Case, CaseResult};

type Consumer = fn() -> CaseResult;

pub(crate) fn cases() -> Vec<Case> {
    let consumers: [(&str, Consumer); 12] = [
        ("cilium", cilium),
        ("k8s_netperf", k8s_netperf),
        ("k8s_netperf_in_parallel", k8s_netperf_in_parallel),
        ("super_netperf", super_netperf),
        ("lkp", lkp),
        ("phoronix", phoronix),
        ("lisa", lisa),
        ("perf_tests", perf_tests),
        ("avocado", avocado),
        ("kernel_scripts", kernel_scripts),
        ("openwrt_betterspeedtest", openwrt_betterspeedtest),
        ("irrelevant_options", irrelevant_options),
    ];
    consumers
        .map(|(name, check)| Case::new(format!("consumers::{name}"), check).without_stock())
        .into()
}

/// Returns the stdout of our client against our server.
fn ours(args: &[&str]) -> Result<String, String> {
    stdout_of(Pair::OURS, Setting::PLAIN, args)
}

/// Returns an error with the text unless `condition` holds.
fn check(condition: bool, subject: &str, text: &str) -> CaseResult {
    if condition {
        return Ok(());
    }
    Err(format!("unexpected {subject}:\n{text}"))
}

fn is_positive(word: &str) -> bool {
    word.parse::<f64>().is_ok_and(|number| number > 0.0)
}

/// Returns `-l` for a run that ends within milliseconds. The harnesses request seconds, which
/// changes no text; the first test of each runs for one second.
fn short_length(test: &str) -> &'static str {
    if test.ends_with("RR") { "-300" } else { "-5M" }
}

/// cilium-cli reads the lines that begin with a digit. It expects one with nine fields, the first
/// six in microseconds.
fn cilium() -> CaseResult {
    const SELECTION: &str = "MIN_LATENCY,MEAN_LATENCY,MAX_LATENCY,P50_LATENCY,P90_LATENCY,\
        P99_LATENCY,TRANSACTION_RATE,THROUGHPUT,THROUGHPUT_UNITS";
    for (test, size, unit) in [
        ("TCP_RR", None, "Trans/s"),
        ("TCP_CRR", None, "Trans/s"),
        ("UDP_RR", None, "Trans/s"),
        ("TCP_STREAM", Some("1024"), "10^6bits/s"),
        ("UDP_STREAM", Some("1024"), "10^6bits/s"),
    ] {
        let mut args = vec!["-l", "1s", "-t", test, "--", "-R", "1", "-o", SELECTION];
        args.extend(size.into_iter().flat_map(|size| ["-m", size]));
        let text = ours(&args)?;
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with(|char: char| char.is_ascii_digit()))
            .map(|line| line.split(',').collect())
            .collect();
        let [row] = &rows[..] else {
            return check(false, "rows", &text);
        };
        check(row.len() == 9, "number of fields", &text)?;
        let numbers = row[..8].iter().all(|field| field.parse::<f64>().is_ok());
        check(numbers && is_positive(row[7]), "numbers", &text)?;
        check(row[8] == unit, "unit", &text)?;
    }
    Ok(())
}

/// k8s-netperf's super-netperf keeps the first line, greps values by key and passes them to bc(1).
/// Its driver takes −1 retransmissions for UDP and computes the loss from the calls.
fn k8s_netperf() -> CaseResult {
    const SELECTION: &str = "rt_latency,p99_latency,throughput,throughput_units,\
        remote_recv_calls,local_send_calls,local_transport_retrans";
    const KEYS: [&str; 6] = [
        "RT_LATENCY",
        "P99_LATENCY",
        "THROUGHPUT",
        "REMOTE_RECV_CALLS",
        "LOCAL_SEND_CALLS",
        "LOCAL_TRANSPORT_RETRANS",
    ];
    for (test, options) in [
        ("TCP_STREAM", &["-m", "1024"][..]),
        ("UDP_STREAM", &["-m", "1024", "-R", "1"]),
        ("TCP_RR", &["-r", "1024,1024"]),
        ("TCP_RR", &["-r", "1024,1024", "-b", "4"]),
        ("UDP_RR", &["-r", "1024,1024"]),
        ("TCP_CRR", &["-r", "1024,1024"]),
    ] {
        let (wait, length) = match test {
            "TCP_STREAM" => ("2", "1"),
            _ => ("0", short_length(test)),
        };
        let fixed = ["-s", wait, "-l", length, "-t", test, "--", "-k", SELECTION];
        let setting = Setting::PLAIN;
        let args = [&fixed, options, &["-P", "22424"]].concat();
        let text = stdout_of(Pair::OURS, setting, &args)?;
        check(text.lines().count() >= 5, "number of lines", &text)?;
        let banner = text
            .lines()
            .next()
            .is_some_and(|line| line.contains("TEST from"));
        check(banner, "banner", &text)?;
        let value = |key: &str| -> Option<f64> {
            let mut values = text
                .lines()
                .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            values.next()?.parse().ok()
        };
        check(
            KEYS.into_iter().all(|key| value(key).is_some()),
            "keys",
            &text,
        )?;
        check(value("THROUGHPUT") > Some(0.0), "throughput", &text)?;
        let is_unknown = value("LOCAL_TRANSPORT_RETRANS") < Some(0.0);
        check(
            is_unknown == test.starts_with("UDP"),
            "retransmissions",
            &text,
        )?;
        let no_latency = text.lines().any(|line| line == "RT_LATENCY=-1.000");
        check(no_latency == test.ends_with("STREAM"), "latency", &text)?;
        if test.ends_with("RR") {
            let unit = text.lines().any(|line| line == "THROUGHPUT_UNITS=Trans/s");
            check(unit, "unit", &text)?;
        }
    }
    // k8s-netperf's probe has an argument that netperf ignores.
    ours(&["-l", "1", "--", "22424"]).map(drop)
}

/// k8s-netperf's driver reads its script's output for several netperfs: a banner, then keys. It
/// matches substrings of keys in this order and accepts `\r`. Retransmissions below 0 mean
/// datagrams; it computes their loss from the calls.
fn k8s_netperf_in_parallel() -> CaseResult {
    for flows in ["1", "3"] {
        for (test, options) in [
            ("TCP_STREAM", &["-m", "1024"][..]),
            ("UDP_STREAM", &["-m", "1024", "-R", "1"]),
            ("TCP_RR", &["-r", "1024,1024", "-b", "4"]),
            ("UDP_RR", &["-r", "1024,1024"]),
            ("TCP_CRR", &["-r", "1024,1024"]),
        ] {
            let selection = "rt_latency,p99_latency,throughput,throughput_units,\
                remote_recv_calls,local_send_calls,local_transport_retrans";
            let length = if test == "TCP_STREAM" {
                "1"
            } else {
                short_length(test)
            };
            let fixed = ["-l", length, "-t", test, "--", "-k", selection];
            let text = parallel_stdout(
                "super-netperf",
                &[flows, "42624"],
                &[&fixed, options].concat(),
            )?;
            check(text.split('\n').count() >= 5, "number of lines", &text)?;
            let (mut unit, mut seen) = ("", [None::<f64>; 6]);
            let [rate, p99, latency, sent, received, retransmitted] = [0, 1, 2, 3, 4, 5];
            for line in text.split('\n') {
                let Some((key, value)) = line.split_once('=') else {
                    continue;
                };
                if key.contains("THROUGHPUT_UNITS") {
                    unit = value;
                    continue;
                }
                let keys = [
                    ("THROUGHPUT", rate),
                    ("P99_LATENCY", p99),
                    ("RT_LATENCY", latency),
                    ("LOCAL_SEND_CALLS", sent),
                    ("REMOTE_RECV_CALLS", received),
                    ("LOCAL_TRANSPORT_RETRANS", retransmitted),
                ];
                if let Some((_, index)) = keys.into_iter().find(|(name, _)| key.contains(name)) {
                    seen[index] = value.trim_matches('\r').parse().ok();
                }
            }
            let numbers: Option<Vec<f64>> = seen.into_iter().collect();
            let Some(seen) = numbers else {
                return check(false, "set of keys", &text);
            };
            check(
                seen[rate] > 0.0 && seen[p99] > 0.0 && seen[sent] > 0.0,
                "figures",
                &text,
            )?;
            if test.starts_with("UDP") {
                check(seen[retransmitted] < 0.0, "retransmissions", &text)?;
            }
            if test == "UDP_STREAM" {
                let loss = 100.0 - seen[received] / seen[sent] * 100.0;
                check((0.0..=100.0).contains(&loss), "loss", &text)?;
            }
            let is_stream = test.ends_with("STREAM");
            check(
                unit == if is_stream { "10^6bits/s" } else { "Trans/s" },
                "unit",
                &text,
            )?;
            let no_latency = text.lines().any(|line| line == "RT_LATENCY=-1.000");
            check(no_latency == is_stream, "latency", &text)?;
        }
    }
    Ok(())
}

/// super_netperf, which kernel developers use, prints one number; scripts parse the whole output.
fn super_netperf() -> CaseResult {
    for (flows, args) in [
        ("1", "-l 1"),
        ("4", "-t TCP_RR -l 1 -- -r 1,1"),
        ("3", "-t TCP_MAERTS -l -5M -v 2 -P 1"),
        ("2", "-t TCP_CRR -l -50"),
        ("2", "-t UDP_STREAM -l -200K -- -R 1 -m 120"),
        ("2", "-c -C -t TCP_SENDFILE -l -5M"),
        ("2", "-t OMNI -l -5M"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let text = parallel_stdout("super_netperf", &[flows], &args)?;
        check(text.lines().count() == 1, "number of lines", &text)?;
        check(is_positive(text.trim_end()), "sum", &text)?;
    }
    // Selected values cover all flows.
    let args = ["-t", "TCP_RR", "-l", "-50", "--", "-k", "LATENCY_SAMPLES"];
    let text = parallel_stdout("super_netperf", &["3"], &args)?;
    check(
        text.lines().any(|line| line == "LATENCY_SAMPLES=150"),
        "number of samples",
        &text,
    )?;
    // Without a server, it prints one line on stderr and no number.
    let failed = run_parallel("super_netperf", &["2"], "1", &["-l", "1"])?;
    let lines = failed.stderr.lines().count();
    check(
        failed.code != Some(0) && failed.stdout.is_empty() && lines == 1,
        "result without a server",
        &failed.stderr,
    )
}

/// Returns the stdout of a parallel netperf that runs under `name`. `flow_args` come before the
/// netperf arguments.
fn parallel_stdout(name: &str, flow_args: &[&str], args: &[&str]) -> Result<String, String> {
    let server = Server::start("");
    let finished = run_parallel(name, flow_args, &server.port.to_string(), args)?;
    // stderr may have a warning: ours replaces a port that both ends of one host request.
    if finished.code == Some(0) {
        return Ok(finished.stdout);
    }
    Err(format!("{name} {}: {finished:?}", args.join(" ")))
}

fn run_parallel(
    name: &str,
    flow_args: &[&str],
    port: &str,
    args: &[&str],
) -> Result<ProcessOutput, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let link = directory.path().join(name);
    std::os::unix::fs::symlink(&programs().linerate_path, &link)
        .map_err(|error| error.to_string())?;
    let mut client = Command::new(link);
    client.args(flow_args).args(["-H", "127.0.0.1", "-p", port]);
    client.args(args);
    run(client)
}

/// LKP finds a column by its position among the titles, and the row by its leading numbers.
fn lkp() -> CaseResult {
    for (test, options, title, unit) in [
        ("TCP_STREAM", &["-m", "16K"][..], "Throughput", "10^6bits"),
        ("TCP_MAERTS", &[], "Throughput", "10^6bits"),
        ("TCP_SENDFILE", &["-m", "16K"], "Throughput", "10^6bits"),
        (
            "UDP_STREAM",
            &["-m", "1K", "-R", "1"],
            "Throughput",
            "10^6bits",
        ),
        ("TCP_RR", &[], "Rate", "per sec"),
        ("UDP_RR", &[], "Rate", "per sec"),
        ("TCP_CRR", &[], "Rate", "per sec"),
    ] {
        let length = if test == "TCP_STREAM" {
            "1"
        } else {
            short_length(test)
        };
        let fixed = ["-4", "-t", test, "-c", "-C", "-l", length, "--"];
        let text = ours(&[&fixed, options].concat())?;
        let units = text
            .lines()
            .any(|line| line.starts_with("bytes") && line.contains("secs") && line.contains(unit));
        check(units, "units", &text)?;
        let titles = text
            .lines()
            .any(|line| line.starts_with("Socket") && line.contains("Elapsed"));
        check(titles, "titles", &text)?;
        // The words of the row match those of the titles.
        let words = |line: &str| {
            line.split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let column = text.lines().find_map(|line| {
            let sizes = line.starts_with("Size ") || line.starts_with("Send ");
            let column = words(line).iter().position(|word| word == title)?;
            sizes.then_some(column)
        });
        let row = text
            .lines()
            .map(words)
            .find(|row| row.len() >= 5 && row.iter().all(|word| word.parse::<f64>().is_ok()));
        let (Some(column), Some(row)) = (column, row) else {
            return check(false, "columns or rows", &text);
        };
        // In UDP_STREAM, one title word covers two figures.
        check(
            row.get(column).is_some_and(|word| is_positive(word)),
            "figure",
            &text,
        )?;
    }
    Ok(())
}

/// Phoronix drops the lines that contain "is" and takes the remaining word as the result.
fn phoronix() -> CaseResult {
    for options in [
        &["-t", "TCP_STREAM"][..],
        &["-t", "TCP_MAERTS"],
        &["-t", "UDP_STREAM", "-b", "10G"],
        &["-t", "TCP_RR"],
        &["-t", "UDP_RR"],
        &["-t", "TCP_SENDFILE"],
    ] {
        let length = match options[1] {
            "TCP_STREAM" => "1",
            test => short_length(test),
        };
        let text = ours(&[&["-P", "0", "-v", "0"], options, &["-l", length]].concat())?;
        let remaining: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains("is"))
            .flat_map(str::split_ascii_whitespace)
            .collect();
        check(
            remaining.len() == 1 && is_positive(remaining[0]),
            "remaining words",
            &text,
        )?;
    }
    Ok(())
}

/// LISA's selection is one argument with blanks after its commas.
fn lisa() -> CaseResult {
    let selection = "THROUGHPUT, THROUGHPUT_UNITS, MIN_LATENCY, MEAN_LATENCY, MAX_LATENCY, \
        P50_LATENCY, P90_LATENCY, P99_LATENCY, STDDEV_LATENCY";
    let text = ours(&[
        "-t", "TCP_RR", "-n", "2", "-l", "2", "-D", "1", "--", "-O", selection,
    ])?;
    let row: Vec<&str> = text
        .lines()
        .last()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .collect();
    check(row.len() == 9 && row[1] == "Trans/s", "columns", &text)?;
    let numbers = row
        .iter()
        .enumerate()
        .all(|(index, word)| index == 1 || word.parse::<f64>().is_ok());
    check(numbers && is_positive(row[0]), "numbers", &text)
}

/// kubernetes/perf-tests expects five numbers with a blank after the last.
fn perf_tests() -> CaseResult {
    let text = ours(&["-l", "1"])?;
    let row = text.lines().last().unwrap_or_default();
    let words: Vec<&str> = row.split_ascii_whitespace().collect();
    check(words.len() == 5 && is_positive(words[4]), "numbers", &text)?;
    check(row.ends_with(' '), "end of the row", &text)
}

/// avocado-misc-tests takes the last word of the output if a line ends in "Throughput".
fn avocado() -> CaseResult {
    for test in ["TCP_STREAM", "TCP_MAERTS"] {
        let text = ours(&["-t", test, "-l", "1", "-i", "2,1"])?;
        let mut lines = text
            .lines()
            .filter_map(|line| line.split_ascii_whitespace().last());
        check(lines.any(|word| word == "Throughput"), "title", &text)?;
        let last = text.split_ascii_whitespace().last();
        check(last.is_some_and(is_positive), "last word", &text)?;
    }
    Ok(())
}

/// Kernel scripts use `grep -v '[a-zA-Z]' | awk '{ print $6 }'`.
fn kernel_scripts() -> CaseResult {
    let text = ours(&["-t", "TCP_RR", "-l", "1"])?;
    let rates: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains(|char: char| char.is_ascii_alphabetic()))
        .filter_map(|line| line.split_ascii_whitespace().nth(5))
        .collect();
    check(rates.len() == 1 && is_positive(rates[0]), "rates", &text)
}

/// OpenWrt's test script sums bare figures.
fn openwrt_betterspeedtest() -> CaseResult {
    for family in Family::ALL {
        let setting = Setting {
            family,
            ..Setting::PLAIN
        };
        let args = ["-t", "TCP_MAERTS", "-l", "1", "-v", "0", "-P", "0"];
        let text = stdout_of(Pair::OURS, setting, &args)?;
        check(
            figures(&text).len() == 1 && is_positive(text.trim()),
            "figures",
            &text,
        )?;
    }
    Ok(())
}

/// Small test images pass every option to every test.
fn irrelevant_options() -> CaseResult {
    for (test, options) in [
        (
            "UDP_STREAM",
            &["-s", "16k", "-S", "16k", "-m", "1k", "-M", "1k"][..],
        ),
        (
            "TCP_STREAM",
            &["-s", "16k", "-S", "16k", "-m", "1k", "-M", "1k"],
        ),
        (
            "UDP_RR",
            &[
                "-s", "16k", "-S", "16k", "-m", "1k", "-M", "1k", "-r", "64,64", "-R", "1",
            ],
        ),
        (
            "TCP_RR",
            &[
                "-s", "16k", "-S", "16k", "-m", "1k", "-M", "1k", "-r", "64,64", "-R", "1",
            ],
        ),
        (
            "TCP_CRR",
            &[
                "-s", "16k", "-S", "16k", "-m", "1k", "-M", "1k", "-r", "64,64", "-R", "1",
            ],
        ),
    ] {
        let fixed = ["-t", test, "-l", short_length(test), "-P", "0", "--"];
        let text = ours(&[&fixed, options].concat())?;
        check(figures(&text).len() >= 5, "row", &text)?;
    }
    Ok(())
}
