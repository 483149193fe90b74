//! Reimplemented parsers of iperf's and iperf3's output from harnesses of other projects. Each runs
//! its harness's commands with linerate, and with the stock programs as a check of the parser.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{
    ProcessOutput, Release, Requirement, Server, StockPeer, TestCase, TestProcess, is_listening,
    linerate_path, run, test_case_unless, wait_until,
};

/// Timeout of a test of one second on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Result of a check. The error describes the failure.
type Outcome = Result<(), String>;

type Consumer = fn(&Programs) -> Outcome;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let consumers: [(&str, Consumer); 14] = [
        ("knb", knb),
        ("perf_tests", perf_tests),
        ("k8s_e2e", k8s_e2e),
        ("kernel_selftests", kernel_selftests),
        ("wireguard_selftest", wireguard_selftest),
        ("lisa", lisa),
        ("pscheduler_iperf3", pscheduler_iperf3),
        ("pscheduler_iperf2", pscheduler_iperf2),
        ("iperf3_exporter", iperf3_exporter),
        ("lkp", lkp),
        ("k8s_netperf", k8s_netperf),
        ("flent", flent),
        ("phoronix", phoronix),
        ("crucible", crucible),
    ];
    let mut test_cases = Vec::new();
    for (name, consumer) in consumers {
        for release in [Release::Debian12, Release::Debian13] {
            let fails = release == Release::Debian13 && FAIL_WITH_2_2_1.contains(&name);
            let name = match release {
                Release::Debian12 => name.to_owned(),
                _ => format!("{name}::newer"),
            };
            if !fails {
                let ours = move || consumer(&Programs::ours(release));
                let name = format!("consumers::{name}::ours");
                test_cases.push(test_case_unless(None, name, ours).allow_many_at_once());
            }
            // A stock server does not listen for a short time after a test. On a busy machine it may
            // count nothing.
            let stock = move |_| {
                let mut attempts = (0..5).map(|_| consumer(&Programs::stock(release)));
                if fails {
                    let is_read = attempts.any(|outcome| outcome.is_ok());
                    return check(!is_read, "a failure", "the parser reads 2.2.1's output");
                }
                let first = attempts.next().unwrap_or(Ok(()));
                if first.is_ok() || attempts.any(|outcome| outcome.is_ok()) {
                    Ok(())
                } else {
                    first
                }
            };
            let name = format!("consumers::{name}::stock");
            let peer = peers(release)[0];
            test_cases.push(peer.test_case(name, stock).allow_many_at_once());
        }
    }
    let complete_lines = || writes_complete_lines_immediately(&Programs::ours(Release::Debian13));
    let name = "consumers::writes_complete_lines_immediately";
    test_cases.push(test_case_unless(None, name, complete_lines).allow_many_at_once());
    test_cases
}

/// The harnesses whose parsers do not read the output of stock iperf 2.2.1. With linerate, they need
/// the output of 2.1.8.
const FAIL_WITH_2_2_1: [&str; 3] = ["k8s_e2e", "pscheduler_iperf2", "flent"];

/// Returns the `iperf` and the `iperf3` of a release.
fn peers(release: Release) -> Vec<StockPeer> {
    let all = crate::iperf::STOCK_VERSIONS.into_iter();
    let all = all.chain(crate::iperf3::STOCK_VERSIONS);
    all.filter(|peer| peer.release == release).collect()
}

/// `iperf` and `iperf3`: a directory with both names.
struct Programs {
    directory: PathBuf,
    /// The value of `LINERATE_STOCK_VERSION`.
    versions: &'static str,
    /// Whether the loader runs the programs, which then have the loader's name.
    is_loaded: bool,
    _links: Option<tempfile::TempDir>,
}

impl Programs {
    fn stock(release: Release) -> Self {
        let directory = if release == Release::Debian12 {
            PathBuf::from("/usr/bin")
        } else {
            let path = peers(release)[0].path().expect("the program exists");
            path.parent().expect("a directory").to_owned()
        };
        Self {
            directory,
            versions: "",
            is_loaded: release != Release::Debian12,
            _links: None,
        }
    }

    /// Links to linerate, as `linerate links` creates them, with the output of this release's
    /// versions, or of the newest ones.
    fn ours(release: Release) -> Self {
        let links = tempfile::tempdir().expect("a temporary directory");
        for name in ["iperf", "iperf3"] {
            symlink(linerate_path(), links.path().join(name)).expect("a new name");
        }
        Self {
            directory: links.path().to_owned(),
            versions: match release {
                Release::Debian12 => "iperf=2.1.8,iperf3=3.12",
                _ => "",
            },
            is_loaded: false,
            _links: Some(links),
        }
    }

    fn command(&self, line: &str) -> Command {
        let mut arguments = line.split_whitespace();
        let name = arguments.next().unwrap_or_default();
        let mut command = Command::new(self.directory.join(name));
        command.args(arguments);
        command.env("LINERATE_STOCK_VERSION", self.versions);
        command
    }

    /// Starts a server. `PORT` in the line stands for its port.
    fn start_server(&self, line: &str) -> Result<Server, String> {
        let server =
            Server::try_start_with(|port| self.command(&line.replace("PORT", &port.to_string())));
        server.map_err(|error| format!("{line}: {error}"))
    }

    /// Runs a client. `HOST` and `PORT` in the line stand for the address of the server.
    fn run_client(&self, line: &str, server: &Server) -> Result<ProcessOutput, String> {
        let line = line.replace("HOST", "127.0.0.1");
        let line = line.replace("PORT", &server.port.to_string());
        let client = run(self.command(&line), TIMEOUT).map_err(|error| error.to_string())?;
        check(
            !client.stdout.contains('\r'),
            "no carriage returns",
            &client.stdout,
        )?;
        Ok(client)
    }

    /// Does the same and returns the standard output. The client must succeed.
    fn client_stdout(&self, line: &str, server: &Server) -> Result<String, String> {
        let client = self.run_client(line, server)?;
        check(
            client.code == Some(0),
            "exit code 0",
            &format!("{client:#?}"),
        )?;
        Ok(client.stdout)
    }

    fn client_json(&self, line: &str, server: &Server) -> Result<Value, String> {
        let text = self.client_stdout(line, server)?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }
}

/// Returns an error that quotes `text` unless `is_met`.
fn check(is_met: bool, requirement: &str, text: &str) -> Outcome {
    if is_met {
        return Ok(());
    }
    Err(format!("expected {requirement}:\n{text}"))
}

fn parse_number(word: &str) -> Option<f64> {
    word.parse().ok()
}

fn is_positive(word: &str) -> bool {
    parse_number(word).is_some_and(|number| number > 0.0)
}

/// Splits a line at blanks, as awk(1) does.
fn split_words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// Returns the word that precedes the word `unit`.
fn word_before<'a>(line: &'a str, unit: &str) -> Option<&'a str> {
    let words = split_words(line);
    let index = words.iter().position(|word| *word == unit)?;
    words.get(index.checked_sub(1)?).copied()
}

/// Returns an error unless these members of a document are numbers.
fn check_numbers(json: &Value, paths: &[&str]) -> Outcome {
    for path in paths {
        let value = json.pointer(path);
        check(value.is_some_and(Value::is_number), path, &json.to_string())?;
    }
    Ok(())
}

/// knb reads the seventh word of the receiver's line.
fn knb(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -p PORT")?;
    for options in ["", "-w 128K", "-u -b 20M"] {
        let line = format!("iperf3 {options} -c HOST -p PORT -O 1 -f m -t 1");
        let text = programs.client_stdout(&line, &server)?;
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("receiver"))
            .collect();
        let [row] = rows[..] else {
            return check(false, "one receiver line", &text);
        };
        let rate = split_words(row).get(6).copied();
        check(
            rate.is_some_and(is_positive),
            "a rate in the seventh word",
            &text,
        )?;
    }
    Ok(())
}

/// kubernetes/perf-tests types a word after `-s`. It reads the sum, the CPU utilisation, and the
/// jitter of UDP.
fn perf_tests(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s 127.0.0.1 -J -i 60 -p PORT")?;
    let line = "iperf3 -c HOST -p PORT -V -N -i 30 -t 1 -f m -w 128K -Z -P 8 -M 1460";
    let text = programs.client_stdout(line, &server)?;
    let mut sums = text
        .lines()
        .filter(|line| line.contains("SUM") && line.ends_with("receiver"));
    let rate = sums.next().and_then(|line| word_before(line, "Mbits/sec"));
    check(rate.is_some_and(is_positive), "a rate in the sum", &text)?;
    let utilisation = text
        .lines()
        .find_map(|line| line.strip_prefix("CPU Utilization: "));
    // local/sender 1.0% (0.5%u/0.5%s), remote/receiver …
    let utilisation = utilisation.ok_or_else(|| format!("no CPU utilisation: {text}"))?;
    for end in ["local/sender ", "remote/receiver "] {
        let parts = utilisation
            .split_once(end)
            .map(|(_, percentages)| percentages.split(['%', '(', '/', ')']));
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        // 1.0 " " 0.5 u 0.5 s
        let numbers = [0, 2, 4].map(|index| parts.get(index).copied().and_then(parse_number));
        check(numbers.iter().all(Option::is_some), end, utilisation)?;
    }
    let text =
        programs.client_stdout("iperf3 -c HOST -p PORT -i 30 -t 1 -f m -b 10M -u", &server)?;
    let row = text
        .lines()
        .find(|line| line.contains("Mbits/sec") && line.contains(" ms "));
    let rate = row.and_then(|line| word_before(line, "Mbits/sec"));
    check(
        rate.is_some_and(is_positive),
        "a rate of the datagrams",
        &text,
    )
}

/// Kubernetes' e2e tests read nine columns. The last row is the total.
fn k8s_e2e(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf -s -p PORT")?;
    let line = "iperf -e -p PORT --reportstyle C -i 1 -c HOST -t 2 -b 100m";
    let text = programs.client_stdout(line, &server)?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    check(rows.len() >= 3, "one row per second and a total", &text)?;
    for row in &rows {
        check(row.len() == 9, "nine columns", &text)?;
        check(
            row[0].len() == 18 && row[0].as_bytes()[14] == b'.',
            "a time",
            &text,
        )?;
        let interval: Option<(f64, f64)> = row[6]
            .split_once('-')
            .and_then(|(from, to)| Some((parse_number(from)?, parse_number(to)?)));
        check(
            interval.is_some_and(|(from, to)| from < to),
            "an interval in seconds",
            &text,
        )?;
        check(
            row[7..].iter().all(|word| is_positive(word)),
            "bytes and a rate",
            &text,
        )?;
    }
    let total = rows.last().map(|row| row[6]);
    check(
        total.is_some_and(|interval| interval.starts_with("0.0-2.")),
        "a total",
        &text,
    )
}

/// The kernel's selftests end tests by a signal.
fn kernel_selftests(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -1 -p PORT")?;
    let line = format!("iperf3 -c 127.0.0.1 -P 16 -p {} -t 86400", server.port);
    let client = TestProcess::start(&mut programs.command(&line));
    let is_running = wait_until(TIMEOUT, || client.stdout().contains("[SUM]"));
    check(is_running, "16 streams", &client.stdout())?;
    client.signal(Signal::TERM);
    let client = client.finish(TIMEOUT);
    // Stock 3.12 exits with 1, and later versions with 0. The selftests ignore the code.
    check(
        client.code.is_some(),
        "an exit code of the client",
        &format!("{client:#?}"),
    )?;
    let server = server.wait(TIMEOUT);
    check(
        server.code == Some(0),
        "exit code 0 of the server",
        &format!("{server:#?}"),
    )
}

/// WireGuard's selftest waits until ss(8) lists the name and process id of the server.
fn wireguard_selftest(programs: &Programs) -> Outcome {
    for (options, client) in [
        ("", "iperf3 -Z -t 1 -c HOST -p PORT"),
        ("", "iperf3 -Z -t 1 -b 100M -u -c HOST -p PORT"),
    ] {
        let server =
            programs.start_server(&format!("iperf3 -s -1 -B 127.0.0.1 -p PORT {options}"))?;
        if !programs.is_loaded && Requirement::Program("ss").missing_reason().is_none() {
            let filter = format!("sport = {}", server.port);
            let table = Command::new("ss").args(["-tlpH", &filter]).output();
            let table = table.map_err(|error| error.to_string())?;
            let table = String::from_utf8_lossy(&table.stdout).into_owned();
            let expected = format!("\"iperf3\",pid={},fd=", server.pid());
            check(table.contains(&expected), &expected, &table)?;
        }
        programs.client_stdout(client, &server)?;
        let server = server.wait(TIMEOUT);
        check(
            server.code == Some(0),
            "exit code 0 of the server",
            &format!("{server:#?}"),
        )?;
    }
    Ok(())
}

/// LISA starts a daemon for one test. It reads documents, or sums in Gbit/s.
fn lisa(programs: &Programs) -> Outcome {
    for (udp, format) in [("", "-J"), ("-u -b 10M", "-J"), ("", "")] {
        let port = testkit::free_port();
        let line = format!("iperf3 -s -D -1 -i 1 -f g -p {port} -B 127.0.0.1 {format}");
        let daemon = run(programs.command(&line), TIMEOUT).map_err(|error| error.to_string())?;
        check(
            daemon.code == Some(0),
            "a started daemon",
            &format!("{daemon:#?}"),
        )?;
        check(
            wait_until(TIMEOUT, || is_listening(port)),
            "a listening daemon",
            "",
        )?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let log = directory.path().join("log");
        let line = format!(
            "iperf3 -t 1 -c 127.0.0.1 {udp} {format} -i 1 -f g -p {port} -P 2 -B 127.0.0.1 -l 1400 -4 --logfile {}",
            log.display()
        );
        let client = run(programs.command(&line), TIMEOUT).map_err(|error| error.to_string())?;
        let text = read_file(&log)?;
        check(
            client.code == Some(0) && client.stdout.is_empty(),
            "output only in the log",
            &text,
        )?;
        if format.is_empty() {
            for end in ["sender", "receiver"] {
                let is_sum =
                    |line: &&str| line.starts_with("[SUM]") && line.trim_end().ends_with(end);
                let rate = text
                    .lines()
                    .rfind(is_sum)
                    .and_then(|line| word_before(line, "Gbits/sec"));
                check(rate.is_some_and(is_positive), end, &text)?;
            }
            continue;
        }
        let json: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        let paths: &[&str] = if udp.is_empty() {
            &[
                "/intervals/0/streams/0/snd_cwnd",
                "/end/sum_received/bits_per_second",
                "/end/streams/0/sender/retransmits",
            ]
        } else {
            &["/end/sum/lost_percent", "/end/sum/bits_per_second"]
        };
        check_numbers(&json, paths)?;
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// pScheduler reads the intervals, streams and summaries of documents.
fn pscheduler_iperf3(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -1 -p PORT")?;
    drop(server);
    for (options, udp) in [
        ("-w 128K -M 1400 -O 1 -b 10M -P 2 -N", false),
        ("-R --fq-rate 10M -S 8", false),
        ("-u -b 10M -l 1000", true),
        ("-u -b 10M -l 1000 -R", true),
        ("-Z -C cubic -b 10M -4 -B 127.0.0.1", false),
    ] {
        let server = programs.start_server("iperf3 -s -1 -p PORT")?;
        let line = format!("iperf3 -p PORT -c HOST -t 2 -i 1 --json {options}");
        let json = programs.client_json(&line, &server)?;
        let text = json.to_string();
        check(json.get("error").is_none(), "no error", &text)?;
        let interval_keys: &[&str] = match (udp, options.contains("-R")) {
            (true, true) => &["jitter_ms", "lost_packets", "packets"],
            (true, false) => &["packets"],
            (false, true) => &[],
            (false, false) => &["retransmits", "snd_cwnd", "rtt"],
        };
        let common_keys = ["socket", "start", "end", "bytes", "bits_per_second"];
        let intervals = json["intervals"].as_array().ok_or("no intervals")?;
        check(intervals.len() >= 2, "two intervals", &text)?;
        for interval in intervals {
            let streams = interval["streams"].as_array().ok_or("no streams")?;
            for stream in streams {
                let is_number = |key: &&str| stream[*key].is_number();
                let mut keys = common_keys.iter().chain(interval_keys);
                check(keys.all(is_number), "figures of a stream", &text)?;
                check(stream["omitted"].is_boolean(), "omitted", &text)?;
            }
            check(interval["sum"]["bytes"].is_number(), "a sum", &text)?;
        }
        if udp {
            let keys = ["jitter_ms", "lost_packets", "packets", "lost_percent"];
            let is_number = |key: &&str| json["end"]["sum"][*key].is_number();
            check(keys.iter().all(is_number), "figures of the sum", &text)?;
        } else {
            check_numbers(&json, &["/end/sum_sent/bytes", "/end/sum_sent/retransmits"])?;
            check_numbers(&json, &["/end/streams/0/sender/mean_rtt"])?;
        }
    }
    Ok(())
}

/// pScheduler reads the unscaled figures (`-f b`) of enhanced lines, and the connection line.
fn pscheduler_iperf2(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf -s -p PORT")?;
    let text = programs.client_stdout("iperf -c HOST -p PORT -t 2 -i 1 -e -f b -b 10m", &server)?;
    let values = text
        .lines()
        .find_map(|line| line.split_once("(icwnd/mss/irtt="));
    let values = values.and_then(|(_, end)| end.split_once(')'));
    let values: Vec<&str> = values.map_or_else(Vec::new, |(values, _)| values.split('/').collect());
    check(
        values.len() == 3 && values.iter().all(|word| is_positive(word)),
        "values of the connection",
        &text,
    )?;
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("bits/sec"))
        .collect();
    check(rows.len() >= 3, "three rows", &text)?;
    for row in rows {
        // [  1] 0.0000-1.0000 sec  N Bytes  N bits/sec  W/E  R  nK/n(n) us  n
        let words = split_words(row);
        let figures = ["Bytes", "bits/sec"].map(|unit| word_before(row, unit));
        check(
            figures
                .iter()
                .flatten()
                .filter(|word| is_positive(word))
                .count()
                == 2,
            "figures",
            row,
        )?;
        let writes = words.get(8).and_then(|word| word.split_once('/'));
        check(
            writes.is_some_and(|(calls, _)| is_positive(calls)),
            "writes",
            row,
        )?;
        check(
            words
                .get(9)
                .is_some_and(|word| parse_number(word).is_some()),
            "retries",
            row,
        )?;
        let window = words.get(10).and_then(|word| word.split_once("K/"));
        check(
            window.is_some_and(|(window, _)| parse_number(window).is_some()),
            "window",
            row,
        )?;
        check(words.get(11) == Some(&"us"), "microseconds", row)?;
    }
    let server = programs.start_server("iperf -s -u -e -p PORT")?;
    let port = server.port;
    let line = format!("iperf -u -c 127.0.0.1 -p {port} -t 1 -i 1 -e -f b -b 1m");
    let client = run(programs.command(&line), TIMEOUT).map_err(|error| error.to_string())?;
    let rates = client
        .stdout
        .lines()
        .filter_map(|line| word_before(line, "pps"));
    check(
        rates.filter(|rate| is_positive(rate)).count() >= 2,
        "pps",
        &client.stdout,
    )?;
    drop(server);
    Ok(())
}

/// iperf3_exporter reads the sums of both ends. A server that does not listen is an error.
fn iperf3_exporter(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -p PORT")?;
    for (options, keys) in [
        ("", &["seconds", "bytes", "retransmits"][..]),
        ("-R", &["seconds", "bytes", "retransmits"]),
        (
            "-u -b 10M",
            &[
                "seconds",
                "bytes",
                "packets",
                "jitter_ms",
                "lost_packets",
                "lost_percent",
            ],
        ),
    ] {
        let line = format!("iperf3 -J -t 1 -c HOST -p PORT {options}");
        let json = programs.client_json(&line, &server)?;
        let sum = if options.contains("-u") {
            "sum"
        } else {
            "sum_sent"
        };
        for key in keys {
            check_numbers(&json, &[&format!("/end/{sum}/{key}")])?;
        }
        check_numbers(
            &json,
            &["/end/sum_received/seconds", "/end/sum_received/bytes"],
        )?;
    }
    drop(server);
    let free_port = testkit::free_port();
    let line = format!("iperf3 -J -t 1 -c 127.0.0.1 -p {free_port}");
    let client = run(programs.command(&line), TIMEOUT).map_err(|error| error.to_string())?;
    let json: Value = serde_json::from_str(&client.stdout).map_err(|error| error.to_string())?;
    check(json["error"].is_string(), "an error", &client.stdout)?;
    // Stock 3.12 reports the error only in the document, not by its exit code.
    let is_ours = programs.directory != Path::new("/usr/bin");
    check(
        !is_ours || client.code == Some(1),
        "exit code 1",
        &format!("{client:#?}"),
    )
}

/// LKP reads consecutive documents. A member of `end` distinguishes UDP from TCP.
fn lkp(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -p PORT")?;
    let mut text = String::new();
    for udp in ["", "-u -b 10M"] {
        text += &programs.client_stdout(
            &format!("iperf3 -i 10 -T 1 -J -t 1 -c HOST -p PORT {udp}"),
            &server,
        )?;
    }
    let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let documents: Result<Vec<Value>, _> = documents.collect();
    let documents = documents.map_err(|error| format!("{error}: {text}"))?;
    let has_sum = documents
        .iter()
        .map(|json| json.pointer("/end/sum/bits_per_second").is_some());
    check(
        has_sum.collect::<Vec<_>>() == [false, true],
        "a sum of UDP only",
        &text,
    )?;
    let titles: BTreeSet<&str> = documents
        .iter()
        .filter_map(|json| json["title"].as_str())
        .collect();
    check(titles == BTreeSet::from(["1"]), "titles", &text)
}

/// k8s-netperf reads a document from a log.
fn k8s_netperf(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -p PORT")?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    for (index, udp) in ["", "-u -b 20M"].into_iter().enumerate() {
        let log = directory.path().join(index.to_string());
        let line = format!(
            "iperf3 -J -P 2 -c HOST -t 1 -l 1024 -p PORT --logfile={} {udp}",
            log.display()
        );
        programs.client_stdout(&line, &server)?;
        let text = read_file(&log)?;
        let json: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        let paths: &[&str] = if udp.is_empty() {
            &[
                "/end/sum_received/bits_per_second",
                "/end/sum_sent/retransmits",
            ]
        } else {
            &["/end/sum/bits_per_second", "/end/sum/lost_percent"]
        };
        check_numbers(&json, paths)?;
    }
    Ok(())
}

/// flent searches the help for an option, and reads CSV.
fn flent(programs: &Programs) -> Outcome {
    let help = run(programs.command("iperf -h"), TIMEOUT).map_err(|error| error.to_string())?;
    let help = help.stdout + &help.stderr;
    check(help.contains("--enhanced"), "--enhanced in the help", &help)?;
    let server = programs.start_server("iperf -s -p PORT")?;
    let udp_server = programs.start_server("iperf -s -u -p PORT")?;
    for (options, port) in [
        ("--nodelay", server.port),
        ("--udp --bandwidth 10M --len 1000", udp_server.port),
    ] {
        let line = format!(
            "iperf --enhanced --reportstyle C --format m --client HOST -p {port} --time 1 --interval 0.2 --tos 0x10 {options}"
        );
        let text = programs.client_stdout(&line, &server)?;
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        check(rows.len() >= 4, "one row per interval", &text)?;
        for row in rows {
            check(
                row.len() >= 9 && parse_number(row[8]).is_some(),
                "columns",
                &text,
            )?;
            let (second, millis) = row[0].split_once('.').unwrap_or_default();
            let is_digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
            let is_time =
                second.len() == 14 && millis.len() == 3 && is_digits(second) && is_digits(millis);
            check(is_time, "a time", &text)?;
        }
    }
    drop(udp_server);
    Ok(())
}

/// Phoronix reads the first sender line, or the sum, after the title of the summary.
fn phoronix(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s -p PORT")?;
    for (options, streams) in [("", 1), ("", 4), ("-u -b 10M", 1)] {
        let line = format!("iperf3 -c HOST -p PORT -t 1 {options} -P {streams} -V -f m");
        let text = programs.client_stdout(&line, &server)?;
        let summary = text.split_once("Test Complete. Summary Results:");
        let (_, summary) = summary.ok_or_else(|| format!("no summary: {text}"))?;
        let row_name = if streams == 1 { "sender" } else { "SUM" };
        let rate = summary.lines().find(|line| line.contains(row_name));
        let rate = rate.and_then(|line| word_before(line, "Mbits/sec"));
        check(rate.is_some_and(is_positive), "a rate", &text)?;
    }
    Ok(())
}

/// Crucible reads interval lines in Kbit/s, with roles if both ends send.
fn crucible(programs: &Programs) -> Outcome {
    let server = programs.start_server("iperf3 -s --format k -p PORT")?;
    for (options, roles) in [
        ("--omit 1 --bitrate 8M", &[""][..]),
        ("-u --bitrate 8M", &[""]),
        ("--bidir --bitrate 8M", &["[TX-C]", "[RX-C]"]),
    ] {
        let line = format!("iperf3 --format k -c HOST -p PORT -l 1400 -t 2 {options}");
        let text = programs.client_stdout(&line, &server)?;
        for role in roles {
            let rows = text
                .lines()
                .filter(|line| line.contains(role) && line.contains("sec"));
            let rates = rows.filter_map(|line| word_before(line, "Kbits/sec"));
            check(
                rates.filter(|rate| is_positive(rate)).count() >= 3,
                role,
                &text,
            )?;
        }
    }
    Ok(())
}

/// Programs write each line to a pipe as soon as it is complete.
fn writes_complete_lines_immediately(programs: &Programs) -> Outcome {
    for (name, word, udp) in [("iperf3", "Bytes", "-u"), ("iperf", "/sec", "")] {
        let server = programs.start_server(&format!("{name} -s -p PORT"))?;
        let line = format!(
            "{name} -c 127.0.0.1 -p {} -t 600 -i 0.2 -b 8M {udp}",
            server.port
        );
        let mut client = programs.command(&line);
        client.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut client = client.spawn().map_err(|error| error.to_string())?;
        let mut reader = BufReader::new(client.stdout.take().ok_or("a pipe")?);
        let mut text = String::new();
        let mut interval_count = 0;
        while interval_count < 3 {
            let line_start = text.len();
            let count = reader
                .read_line(&mut text)
                .map_err(|error| error.to_string())?;
            check(count > 0, "a further line", &text)?;
            interval_count += usize::from(text[line_start..].contains(word));
        }
        check(
            matches!(client.try_wait(), Ok(None)),
            "a running client",
            &text,
        )?;
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&client), Signal::INT);
        reader
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        let _ = client.wait();
        check(
            text.ends_with('\n') && !text.contains('\r'),
            "complete lines",
            &text,
        )?;
    }
    Ok(())
}
