//! What harnesses in the field type and pick out of iperf's and iperf3's output, in words of our own: done to ours, and
//! to stock's, which proves that it is read right.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{
    ProcessOutput, Requirement, Server, TestCase, TestProcess, is_listening, program, run,
    test_case_unless, wait_until,
};

/// How long a test of a second may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a case does: an error says what is wrong.
type Outcome = Result<(), String>;

type Consumer = fn(&Tools) -> Outcome;

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
    for (name, check) in consumers {
        let of_ours = move || check(&Tools::ours());
        test_cases
            .push(test_case_unless(None, format!("consumers::{name}::ours"), of_ours).allow_many());
        let programs = [
            Requirement::Program("iperf3"),
            Requirement::Program("iperf"),
        ];
        let missing = programs.into_iter().find_map(Requirement::missing_reason);
        // A stock server does not listen for a moment after a test, and may count nothing on a busy machine.
        let of_stock = move || {
            let mut tries = (0..5).map(|_| check(&Tools::stock()));
            let last = tries.next().unwrap_or(Ok(()));
            if last.is_ok() || tries.any(|outcome| outcome.is_ok()) {
                Ok(())
            } else {
                last
            }
        };
        test_cases.push(
            test_case_unless(missing, format!("consumers::{name}::stock"), of_stock).allow_many(),
        );
    }
    let whole_lines = || whole_lines_as_they_come(&Tools::ours());
    test_cases.push(
        test_case_unless(None, "consumers::whole_lines_as_they_come", whole_lines).allow_many(),
    );
    test_cases
}

/// Both programs, by the names that harnesses type.
struct Tools {
    directory: PathBuf,
    _links: Option<tempfile::TempDir>,
}

impl Tools {
    fn stock() -> Self {
        let directory = PathBuf::from("/usr/bin");
        Self {
            directory,
            _links: None,
        }
    }

    /// Links to ours, as `linerate links` makes them.
    fn ours() -> Self {
        let links = tempfile::tempdir().expect("a directory");
        for name in ["iperf", "iperf3"] {
            symlink(program(), links.path().join(name)).expect("a new name");
        }
        Self {
            directory: links.path().to_owned(),
            _links: Some(links),
        }
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut command = Command::new(self.directory.join(name));
        command.args(words);
        command
    }

    /// A server with PORT in its line.
    fn serve(&self, line: &str) -> Result<Server, String> {
        let server =
            Server::try_start_with(|port| self.command(&line.replace("PORT", &port.to_string())));
        server.map_err(|error| format!("{line}: {error}"))
    }

    /// Runs a client at loopback to its end.
    fn client(&self, line: &str, server: &Server) -> Result<ProcessOutput, String> {
        let line = line.replace("HOST", "127.0.0.1");
        let line = line.replace("PORT", &server.port.to_string());
        let client = run(self.command(&line), PATIENCE).map_err(|error| error.to_string())?;
        check(
            !client.stdout.contains('\r'),
            "carriage returns",
            &client.stdout,
        )?;
        Ok(client)
    }

    /// The same; what it printed.
    fn print(&self, line: &str, server: &Server) -> Result<String, String> {
        let client = self.client(line, server)?;
        check(client.code == Some(0), "exit code", &format!("{client:#?}"))?;
        Ok(client.stdout)
    }

    fn json(&self, line: &str, server: &Server) -> Result<Value, String> {
        let text = self.print(line, server)?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }
}

/// An error that shows the text unless `holds`.
fn check(holds: bool, what: &str, text: &str) -> Outcome {
    if holds {
        return Ok(());
    }
    Err(format!("{what}:\n{text}"))
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok()
}

fn is_positive(word: &str) -> bool {
    number(word).is_some_and(|number| number > 0.0)
}

/// Blank-separated words, as awk(1) has them.
fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// The word before the one that is this.
fn before<'a>(line: &'a str, unit: &str) -> Option<&'a str> {
    let words = words(line);
    let at = words.iter().position(|word| *word == unit)?;
    words.get(at.checked_sub(1)?).copied()
}

/// Fails unless these members of a document are numbers.
fn has_numbers(json: &Value, paths: &[&str]) -> Outcome {
    for path in paths {
        let found = json.pointer(path);
        check(found.is_some_and(Value::is_number), path, &json.to_string())?;
    }
    Ok(())
}

/// knb takes the seventh word of the line of the receiver.
fn knb(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -p PORT")?;
    for options in ["", "-w 128K", "-u -b 20M"] {
        let line = format!("iperf3 {options} -c HOST -p PORT -O 1 -f m -t 1");
        let text = tools.print(&line, &server)?;
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("receiver"))
            .collect();
        let [row] = rows[..] else {
            return check(false, "one receiver", &text);
        };
        let rate = words(row).get(6).copied();
        check(rate.is_some_and(is_positive), "the seventh word", &text)?;
    }
    Ok(())
}

/// kubernetes/perf-tests has a word behind `-s`, and looks for a sum, for the load of the CPUs, and for datagrams' jitter.
fn perf_tests(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s 127.0.0.1 -J -i 60 -p PORT")?;
    let line = "iperf3 -c HOST -p PORT -V -N -i 30 -t 1 -f m -w 128K -Z -P 8 -M 1460";
    let text = tools.print(line, &server)?;
    let mut sums = text
        .lines()
        .filter(|line| line.contains("SUM") && line.ends_with("receiver"));
    let rate = sums.next().and_then(|line| before(line, "Mbits/sec"));
    check(rate.is_some_and(is_positive), "the sum", &text)?;
    let load = text
        .lines()
        .find_map(|line| line.strip_prefix("CPU Utilization: "));
    // local/sender 1.0% (0.5%u/0.5%s), remote/receiver …
    let load = load.ok_or_else(|| format!("no load: {text}"))?;
    for end in ["local/sender ", "remote/receiver "] {
        let parts = load
            .split_once(end)
            .map(|(_, rest)| rest.split(['%', '(', '/', ')']));
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        // 1.0 " " 0.5 u 0.5 s
        let numbers = [0, 2, 4].map(|at| parts.get(at).copied().and_then(number));
        check(numbers.iter().all(Option::is_some), end, load)?;
    }
    let text = tools.print("iperf3 -c HOST -p PORT -i 30 -t 1 -f m -b 10M -u", &server)?;
    let jitter = text
        .lines()
        .find(|line| line.contains("Mbits/sec") && line.contains(" ms "));
    let rate = jitter.and_then(|line| before(line, "Mbits/sec"));
    check(rate.is_some_and(is_positive), "datagrams", &text)
}

/// Nine columns; the last row is the total.
fn k8s_e2e(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf -s -p PORT")?;
    let line = "iperf -e -p PORT --reportstyle C -i 1 -c HOST -t 2 -b 100m";
    let text = tools.print(line, &server)?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    check(rows.len() >= 3, "a row per second and the total", &text)?;
    for row in &rows {
        check(row.len() == 9, "nine columns", &text)?;
        check(
            row[0].len() == 18 && row[0].as_bytes()[14] == b'.',
            "the time",
            &text,
        )?;
        let span: Option<(f64, f64)> = row[6]
            .split_once('-')
            .and_then(|(from, to)| Some((number(from)?, number(to)?)));
        check(
            span.is_some_and(|(from, to)| from < to),
            "the seconds",
            &text,
        )?;
        check(
            row[7..].iter().all(|word| is_positive(word)),
            "bytes and rate",
            &text,
        )?;
    }
    let total = rows.last().map(|row| row[6]);
    check(
        total.is_some_and(|span| span.starts_with("0.0-2.")),
        "the total",
        &text,
    )
}

/// Tests that are ended by a signal.
fn kernel_selftests(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -1 -p PORT")?;
    let line = format!("iperf3 -c 127.0.0.1 -P 16 -p {} -t 86400", server.port);
    let client = TestProcess::start(&mut tools.command(&line));
    let runs = wait_until(PATIENCE, || client.stdout().contains("[SUM]"));
    check(runs, "16 streams", &client.stdout())?;
    client.signal(Signal::TERM);
    let client = client.finish(PATIENCE);
    // 3.12 of its own has 1, later versions have 0, and selftests do not look.
    check(client.code.is_some(), "its end", &format!("{client:#?}"))?;
    let server = server.wait(PATIENCE);
    check(
        server.code == Some(0),
        "the server's end",
        &format!("{server:#?}"),
    )
}

/// It waits until ss(8) has the shell's child listen by its name.
fn wireguard_selftest(tools: &Tools) -> Outcome {
    for (options, client) in [
        ("", "iperf3 -Z -t 1 -c HOST -p PORT"),
        ("", "iperf3 -Z -t 1 -b 100M -u -c HOST -p PORT"),
    ] {
        let server = tools.serve(&format!("iperf3 -s -1 -B 127.0.0.1 -p PORT {options}"))?;
        if Requirement::Program("ss").missing_reason().is_none() {
            let filter = format!("sport = {}", server.port);
            let table = Command::new("ss").args(["-tlpH", &filter]).output();
            let table = table.map_err(|error| error.to_string())?;
            let table = String::from_utf8_lossy(&table.stdout).into_owned();
            let expected = format!("\"iperf3\",pid={},fd=", server.pid());
            check(table.contains(&expected), &expected, &table)?;
        }
        tools.print(client, &server)?;
        let server = server.wait(PATIENCE);
        check(
            server.code == Some(0),
            "the server's end",
            &format!("{server:#?}"),
        )?;
    }
    Ok(())
}

/// A daemon for one test; documents, or a text with sums in Gbit/s.
fn lisa(tools: &Tools) -> Outcome {
    for (udp, form) in [("", "-J"), ("-u -b 10M", "-J"), ("", "")] {
        let port = testkit::free_port();
        let daemon = format!("iperf3 -s -D -1 -i 1 -f g -p {port} -B 127.0.0.1 {form}");
        let started = run(tools.command(&daemon), PATIENCE).map_err(|error| error.to_string())?;
        check(
            started.code == Some(0),
            "the daemon",
            &format!("{started:#?}"),
        )?;
        check(
            wait_until(PATIENCE, || is_listening(port)),
            "it listens",
            "",
        )?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let log = directory.path().join("log");
        let line = format!(
            "iperf3 -t 1 -c 127.0.0.1 {udp} {form} -i 1 -f g -p {port} -P 2 -B 127.0.0.1 -l 1400 -4 --logfile {}",
            log.display()
        );
        let client = run(tools.command(&line), PATIENCE).map_err(|error| error.to_string())?;
        let text = read(&log)?;
        check(
            client.code == Some(0) && client.stdout.is_empty(),
            "a log",
            &text,
        )?;
        if form.is_empty() {
            for end in ["sender", "receiver"] {
                let sum = |line: &&str| line.starts_with("[SUM]") && line.trim_end().ends_with(end);
                let rate = text
                    .lines()
                    .rfind(sum)
                    .and_then(|line| before(line, "Gbits/sec"));
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
        has_numbers(&json, paths)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Intervals, streams and summaries of documents.
fn pscheduler_iperf3(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -1 -p PORT")?;
    drop(server);
    for (options, udp) in [
        ("-w 128K -M 1400 -O 1 -b 10M -P 2 -N", false),
        ("-R --fq-rate 10M -S 8", false),
        ("-u -b 10M -l 1000", true),
        ("-u -b 10M -l 1000 -R", true),
        ("-Z -C cubic -b 10M -4 -B 127.0.0.1", false),
    ] {
        let server = tools.serve("iperf3 -s -1 -p PORT")?;
        let line = format!("iperf3 -p PORT -c HOST -t 2 -i 1 --json {options}");
        let json = tools.json(&line, &server)?;
        let text = json.to_string();
        check(json.get("error").is_none(), "an error", &text)?;
        let of_interval: &[&str] = match (udp, options.contains("-R")) {
            (true, true) => &["jitter_ms", "lost_packets", "packets"],
            (true, false) => &["packets"],
            (false, true) => &[],
            (false, false) => &["retransmits", "snd_cwnd", "rtt"],
        };
        let all = ["socket", "start", "end", "bytes", "bits_per_second"];
        let intervals = json["intervals"].as_array().ok_or("no intervals")?;
        check(intervals.len() >= 2, "intervals", &text)?;
        for interval in intervals {
            let streams = interval["streams"].as_array().ok_or("no streams")?;
            for stream in streams {
                let has = |key: &&str| stream[*key].is_number();
                check(all.iter().chain(of_interval).all(has), "a stream", &text)?;
                check(stream["omitted"].is_boolean(), "omitted", &text)?;
            }
            check(interval["sum"]["bytes"].is_number(), "a sum", &text)?;
        }
        if udp {
            let keys = ["jitter_ms", "lost_packets", "packets", "lost_percent"];
            let has = |key: &&str| json["end"]["sum"][*key].is_number();
            check(keys.iter().all(has), "the sum", &text)?;
        } else {
            has_numbers(&json, &["/end/sum_sent/bytes", "/end/sum_sent/retransmits"])?;
            let mean = "/end/streams/0/sender/mean_rtt";
            has_numbers(&json, &[mean])?;
        }
    }
    Ok(())
}

/// Full figures (`-f b`) of the enhanced lines, and what stands in the connection's line.
fn pscheduler_iperf2(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf -s -p PORT")?;
    let text = tools.print("iperf -c HOST -p PORT -t 2 -i 1 -e -f b -b 10m", &server)?;
    let facts = text
        .lines()
        .find_map(|line| line.split_once("(icwnd/mss/irtt="));
    let facts = facts.and_then(|(_, rest)| rest.split_once(')'));
    let facts: Vec<&str> = facts.map_or_else(Vec::new, |(facts, _)| facts.split('/').collect());
    check(
        facts.len() == 3 && facts.iter().all(|word| is_positive(word)),
        "facts",
        &text,
    )?;
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("bits/sec"))
        .collect();
    check(rows.len() >= 3, "rows", &text)?;
    for row in rows {
        // [  1] 0.0000-1.0000 sec  N Bytes  N bits/sec  W/E  R  nK/n(n) us  n
        let words = words(row);
        let figures = ["Bytes", "bits/sec"].map(|unit| before(row, unit));
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
            words.get(9).is_some_and(|word| number(word).is_some()),
            "retries",
            row,
        )?;
        let window = words.get(10).and_then(|word| word.split_once("K/"));
        check(
            window.is_some_and(|(window, _)| number(window).is_some()),
            "window",
            row,
        )?;
        check(words.get(11) == Some(&"us"), "microseconds", row)?;
    }
    let server = tools.serve("iperf -s -u -e -p PORT")?;
    let port = server.port;
    let line = format!("iperf -u -c 127.0.0.1 -p {port} -t 1 -i 1 -e -f b -b 1m");
    let client = run(tools.command(&line), PATIENCE).map_err(|error| error.to_string())?;
    let rates = client.stdout.lines().filter_map(|line| before(line, "pps"));
    check(
        rates.filter(|rate| is_positive(rate)).count() >= 2,
        "pps",
        &client.stdout,
    )?;
    drop(server);
    Ok(())
}

/// Sums of both ends; what is not reachable is a failure.
fn iperf3_exporter(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -p PORT")?;
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
        let json = tools.json(&line, &server)?;
        let sum = if options.contains("-u") {
            "sum"
        } else {
            "sum_sent"
        };
        for key in keys {
            has_numbers(&json, &[&format!("/end/{sum}/{key}")])?;
        }
        has_numbers(
            &json,
            &["/end/sum_received/seconds", "/end/sum_received/bytes"],
        )?;
    }
    drop(server);
    let nobody = testkit::free_port();
    let line = format!("iperf3 -J -t 1 -c 127.0.0.1 -p {nobody}");
    let client = run(tools.command(&line), PATIENCE).map_err(|error| error.to_string())?;
    let json: Value = serde_json::from_str(&client.stdout).map_err(|error| error.to_string())?;
    check(json["error"].is_string(), "an error", &client.stdout)?;
    // Stock 3.12 says it there alone.
    let is_ours = tools.directory != Path::new("/usr/bin");
    check(
        !is_ours || client.code == Some(1),
        "exit code",
        &format!("{client:#?}"),
    )
}

/// Documents one after the other; a member of the end tells datagrams from a stream.
fn lkp(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -p PORT")?;
    let mut all = String::new();
    for udp in ["", "-u -b 10M"] {
        all += &tools.print(
            &format!("iperf3 -i 10 -T 1 -J -t 1 -c HOST -p PORT {udp}"),
            &server,
        )?;
    }
    let documents = serde_json::Deserializer::from_str(&all).into_iter::<Value>();
    let documents: Result<Vec<Value>, _> = documents.collect();
    let documents = documents.map_err(|error| format!("{error}: {all}"))?;
    let has_sum = documents
        .iter()
        .map(|json| json.pointer("/end/sum/bits_per_second").is_some());
    check(has_sum.collect::<Vec<_>>() == [false, true], "sums", &all)?;
    let titles: BTreeSet<&str> = documents
        .iter()
        .filter_map(|json| json["title"].as_str())
        .collect();
    check(titles == BTreeSet::from(["1"]), "titles", &all)
}

/// A document in a log.
fn k8s_netperf(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -p PORT")?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    for (at, udp) in ["", "-u -b 20M"].into_iter().enumerate() {
        let log = directory.path().join(at.to_string());
        let line = format!(
            "iperf3 -J -P 2 -c HOST -t 1 -l 1024 -p PORT --logfile={} {udp}",
            log.display()
        );
        tools.print(&line, &server)?;
        let text = read(&log)?;
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
        has_numbers(&json, paths)?;
    }
    Ok(())
}

/// flent looks for an option in the help, and reads CSV.
fn flent(tools: &Tools) -> Outcome {
    let help = run(tools.command("iperf -h"), PATIENCE).map_err(|error| error.to_string())?;
    let help = help.stdout + &help.stderr;
    check(help.contains("--enhanced"), "the help", &help)?;
    let server = tools.serve("iperf -s -p PORT")?;
    let datagrams = tools.serve("iperf -s -u -p PORT")?;
    for (udp, port) in [
        ("--nodelay", server.port),
        ("--udp --bandwidth 10M --len 1000", datagrams.port),
    ] {
        let line = format!(
            "iperf --enhanced --reportstyle C --format m --client HOST -p {port} --time 1 --interval 0.2 --tos 0x10 {udp}"
        );
        let text = tools.print(&line, &server)?;
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        check(rows.len() >= 4, "a row per interval", &text)?;
        for row in rows {
            check(row.len() >= 9 && number(row[8]).is_some(), "columns", &text)?;
            let (second, millis) = row[0].split_once('.').unwrap_or_default();
            let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
            let is_time =
                second.len() == 14 && millis.len() == 3 && digits(second) && digits(millis);
            check(is_time, "the time", &text)?;
        }
    }
    drop(datagrams);
    Ok(())
}

/// The first line of the sender, or the sum, behind the title of the summary.
fn phoronix(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s -p PORT")?;
    for (options, streams) in [("", 1), ("", 4), ("-u -b 10M", 1)] {
        let line = format!("iperf3 -c HOST -p PORT -t 1 {options} -P {streams} -V -f m");
        let text = tools.print(&line, &server)?;
        let summary = text.split_once("Test Complete. Summary Results:");
        let (_, summary) = summary.ok_or_else(|| format!("no summary: {text}"))?;
        let mark = if streams == 1 { "sender" } else { "SUM" };
        let rate = summary.lines().find(|line| line.contains(mark));
        let rate = rate.and_then(|line| before(line, "Mbits/sec"));
        check(rate.is_some_and(is_positive), "the rate", &text)?;
    }
    Ok(())
}

/// Lines of intervals in Kbit/s, with roles where both send.
fn crucible(tools: &Tools) -> Outcome {
    let server = tools.serve("iperf3 -s --format k -p PORT")?;
    for (options, roles) in [
        ("--omit 1 --bitrate 8M", &[""][..]),
        ("-u --bitrate 8M", &[""]),
        ("--bidir --bitrate 8M", &["[TX-C]", "[RX-C]"]),
    ] {
        let line = format!("iperf3 --format k -c HOST -p PORT -l 1400 -t 2 {options}");
        let text = tools.print(&line, &server)?;
        for role in roles {
            let rows = text
                .lines()
                .filter(|line| line.contains(role) && line.contains("sec"));
            let rates = rows.filter_map(|line| before(line, "Kbits/sec"));
            check(
                rates.filter(|rate| is_positive(rate)).count() >= 3,
                role,
                &text,
            )?;
        }
    }
    Ok(())
}

/// Into a pipe, a line comes when it is complete, not at the end.
fn whole_lines_as_they_come(tools: &Tools) -> Outcome {
    for (name, word, udp) in [("iperf3", "Bytes", "-u"), ("iperf", "/sec", "")] {
        let server = tools.serve(&format!("{name} -s -p PORT"))?;
        let line = format!(
            "{name} -c 127.0.0.1 -p {} -t 600 -i 0.2 -b 8M {udp}",
            server.port
        );
        let mut client = tools.command(&line);
        client.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut client = client.spawn().map_err(|error| error.to_string())?;
        let mut lines = BufReader::new(client.stdout.take().ok_or("a pipe")?);
        let mut text = String::new();
        let mut read = 0;
        while read < 3 {
            let begun = text.len();
            let count = lines
                .read_line(&mut text)
                .map_err(|error| error.to_string())?;
            check(count > 0, "it ended", &text)?;
            read += usize::from(text[begun..].contains(word));
        }
        // Ten minutes are not over.
        check(matches!(client.try_wait(), Ok(None)), "it runs", &text)?;
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&client), Signal::INT);
        lines
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        let _ = client.wait();
        check(text.ends_with('\n') && !text.contains('\r'), "lines", &text)?;
    }
    Ok(())
}
