//! Output of runs: HTML pages, JSON documents, text sections, response times and counters.

use serde_json::Value;
use testkit::{Profile, Server, TestCase};

use super::{harness_parsers, request_profile};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        html_page_is_self_contained,
        json_document_matches_run,
        harness_parsers_parse_output,
        prints_every_section,
        active_rates_exclude_idle_time,
        prints_steps_in_order,
        writes_response_times_per_thread,
        counts_events_per_flowop,
    ]
}

/// The page is complete and loads no other resource.
fn html_page_is_self_contained() {
    let slave = Server::start_slave("");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("page.html");
    let profile =
        request_profile().replace("<group ", "<!-- <script src=\"http://x/\"> --> <group ");
    let output = slave.run_profile(&format!("-e --html {}", path.display()), &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("Run Statistics"), "{output:?}");
    let page = std::fs::read_to_string(&path).expect("linerate wrote the file");
    for part in [
        "<h3>Steps over time</h3>",
        "<h3>Latency</h3>",
        "<h3>Counters</h3>",
        "<h2>Hosts</h2>",
        "both ends run on one machine",
        "&lt;script src=&quot;http://x/&quot;&gt;",
        "</html>\n",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The page escapes the quotes of the profile.
    for reference in [
        "src=\"",
        "url(",
        "@import",
        "<script src",
        "<iframe",
        "<form",
        "<base",
        "<object",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
    let links: Vec<_> = page.match_indices("href=").collect();
    assert!(
        links.len() == 1 && page.contains("href=\"data:,\""),
        "{links:?}"
    );
    let files = std::fs::read_dir(directory.path())
        .expect("a readable directory")
        .count();
    assert_eq!(files, 1);
}

/// stdout contains only the JSON document, and its figures match the run.
fn json_document_matches_run() {
    let slave = Server::start_slave("");
    let profile = Profile::requests()
        .group("nthreads=3 name=streams")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("iterations=100", &["write size=8k count=2"])
        .text();
    let output = slave.run_profile("--json -v -t -f -p -E page-faults -H stdout", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stderr.contains("Completed handshake phase 2\n"),
        "{output:?}"
    );
    let document: Value = serde_json::from_str(&output.stdout).expect("a JSON document");
    let value_at = |pointer: &str| {
        let value = document.pointer(pointer);
        value.unwrap_or_else(|| panic!("no {pointer}: {}", output.stdout))
    };
    assert_eq!(value_at("/schema"), "linerate/3");
    assert_eq!(value_at("/peer/kind"), "linerate");
    assert!(value_at("/hosts/local/kernel").is_string() && value_at("/hosts/remote").is_null());
    assert_eq!(value_at("/tests/0/name"), "requests");
    assert!(value_at("/tests/0/figures/moved_bps").as_f64() > Some(0.0));
    assert_eq!(value_at("/tests/0/warnings/0/kind"), "same_host");
    let run = "/tests/0/runs/0";
    assert_eq!(value_at(&format!("{run}/groups/1/name")), "streams");
    let exchange = format!("{run}/groups/0/transactions/1");
    let stream = format!("{run}/groups/1/transactions/1");
    assert!(value_at(&format!("{exchange}/figures/transactions_per_s")).as_f64() > Some(0.0));
    assert!(value_at(&format!("{exchange}/figures/throughput_bps")).is_null());
    assert_eq!(value_at(&format!("{exchange}/rounds")), 1000);
    let sent = "totals/counts/sent_bytes";
    assert_eq!(value_at(&format!("{exchange}/{sent}")), 2 * 500 * 4 * 64);
    let received = "totals/counts/received_bytes";
    assert_eq!(value_at(&format!("{exchange}/{received}")), 2 * 500 * 200);
    assert_eq!(value_at(&format!("{stream}/{sent}")), 3 * 100 * 2 * 8192);
    // The slave reported that all data arrived.
    let number_at = |member: &str| {
        let value = value_at(&format!("{stream}/{member}"));
        value.as_f64().expect("a number")
    };
    let moved = number_at("figures/throughput_bps") * number_at("totals/elapsed_ns") / 8e9;
    assert!((moved - 4_915_200.0).abs() < 1.0, "{moved}");
    let write = format!("{exchange}/steps/0");
    assert_eq!(value_at(&format!("{write}/name")), "write");
    assert_eq!(value_at(&format!("{write}/times/executions")), 4000);
    assert!(value_at(&format!("{write}/times/cpu_ns")).as_u64() > Some(0));
    assert_eq!(value_at(&format!("{exchange}/figures/latency/count")), 1000);
    let workers = value_at(&format!("{run}/groups/1/workers"));
    assert_eq!(workers.as_array().expect("an array").len(), 3);
    assert_eq!(value_at(&format!("{run}/peers/1/group")), 1);
    assert_eq!(value_at(&format!("{run}/peers/1/totals/bytes")), 4_915_200);
    let source = value_at("/tests/0/plan/source").as_str().expect("a string");
    assert_eq!(source.trim(), profile.trim());
}

/// A profile in the style of benchmark-operator: it is not valid XML, takes the host from the
/// environment, and lacks an end tag.
const HARNESS_PROFILE: &str = r#"<?xml version=1.0?>
<profile name="rr-tcp-64-64-2">
<group nthreads="2">
      <transaction iterations="1">
        <flowop type=connect options="remotehost=$h protocol=tcp"/>
      </transaction>
      <transaction duration="600ms">
        <flowop type=write options="size=64"/>
        <flowop type=read  options="size=64"/>
      <transaction iterations="1">
        <flowop type=disconnect />
      </transaction>
  </group>
</profile>
"#;

/// Harnesses that parse the output of stock can parse linerate's.
fn harness_parsers_parse_output() {
    let slave = Server::start_slave("");
    let responses = tempfile::NamedTempFile::new().expect("a temporary file");
    let with_responses = format!("-v -a -R -i 100ms -X {}", responses.path().display());
    for options in [
        "-v -a -R -i 100ms",
        &with_responses,
        "-v -a -R -i 100ms -H stdout",
        "-R -i 100ms",
        "-R -tTfa -i 100ms -e -p",
    ] {
        let output = slave.run_profile(options, HARNESS_PROFILE);
        assert_eq!(output.code, Some(0), "{output:?}");
        let text = &output.stdout;
        let (_, name) = text.split_once("running profile:").expect("a first line");
        let (name, _) = name.split_once(" ...").expect("the end of the name");
        assert_eq!(name, "rr-tcp-64-64-2");
        let terminal = text.replace('\n', "\r\n");
        let samples = harness_parsers::raw_samples(text, "Txn2", "");
        assert_eq!(
            samples,
            harness_parsers::raw_samples(&terminal, "Txn2", "\r")
        );
        // An idle machine prints ten samples; a busy one prints fewer.
        assert!(samples.len() >= 2, "{output:?}");
        assert!(samples.is_sorted_by_key(|sample| sample.1), "{samples:?}");
        let mut anchored = text
            .lines()
            .filter_map(|line| harness_parsers::parse_anchored_sample(line, "Txn2"));
        let (_, bytes, operations) = anchored.next_back().expect("samples");
        assert_eq!(
            (samples[samples.len() - 1].1, samples[samples.len() - 1].2),
            (bytes, operations)
        );
        // Each strand may have done a call that it has not counted yet.
        assert!(bytes.abs_diff(64 * operations) <= 2 * 64, "{output:?}");
        // The total includes a connect and a disconnect per strand, and operations after the
        // deadline on a busy machine.
        let total = output.statistics("master")[4]
            .parse::<u64>()
            .expect("a count");
        let transfers = total - 4;
        assert!(operations <= transfers + 2, "{output:?}");
        // The last sample is at the deadline. On a busy machine, a strand continues for a while.
        assert!(transfers <= 2 * operations + 2, "{output:?}");
        assert_eq!(harness_parsers::differences(text).len(), 5);
        assert_eq!(harness_parsers::failure_lines(text), [""; 0], "{output:?}");
        // With -v, messages of the slave hide the rate, as in stock.
        let rate_count = usize::from(!options.contains("-v"));
        assert_eq!(
            harness_parsers::rates_of_peer(text, "127.0.0.1").len(),
            rate_count,
            "{output:?}"
        );
        let (interfaces, _) = text.split_once("Run Statistics\n").expect("both sections");
        assert_eq!(harness_parsers::words_of(interfaces, "lo").len(), 5);
        let mut latencies = ["Average", "50th", "99th"].map(|label| {
            let mut values = text
                .lines()
                .filter_map(|line| harness_parsers::number_after_label(line, label));
            values.next()
        });
        latencies.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        assert_eq!(latencies[0].is_some(), options.contains("-H"), "{output:?}");
    }
    let text = std::fs::read_to_string(responses.path()).expect("linerate wrote the file");
    for line in text.lines() {
        let columns: Vec<_> = line.split_whitespace().collect();
        let are_numbers = columns.iter().all(|column| column.parse::<u64>().is_ok());
        assert!(columns.len() == 5 && are_numbers, "{line}");
    }
}

/// The text has every section in order, in stock's format.
fn prints_every_section() {
    let output = Server::start_slave("").run_profile("-a -p -e -i 100ms", HARNESS_PROFILE);
    assert_eq!(output.code, Some(0), "{output:?}");
    let titles = [
        "Total ",
        "Group Details",
        "Strand Details",
        "Txn ",
        "Flowop  ",
        "Netstat statistics for this run",
        "Run Statistics",
        "Difference(%)",
        "Over active time",
        "Beginnings of strands",
    ];
    let mut remainder = &*output.stdout;
    for title in titles {
        let found = remainder.split_once(&format!("\n{title}"));
        (_, remainder) = found.unwrap_or_else(|| panic!("{title}: {output:?}"));
    }
    assert_eq!(
        harness_parsers::rates_of_peer(&output.stdout, "127.0.0.1").len(),
        1,
        "{output:?}"
    );
    assert_eq!(
        harness_parsers::failure_lines(&output.stdout),
        [""; 0],
        "{output:?}"
    );
    let flowop = harness_parsers::words_of(&output.stdout, "read");
    assert_eq!(flowop.len(), 6, "{output:?}");
    let cpu = flowop[3].trim_end_matches(char::is_alphabetic);
    assert!(cpu.parse::<f64>().is_ok_and(|cpu| cpu > 0.0), "{output:?}");
}

/// One group sends at once, the other one thinks first. Stock averages over the whole run. linerate
/// also prints rates over each group's active time, and group totals are the sums of the strands.
fn active_rates_exclude_idle_time() {
    let profile = Profile::new("uneven")
        .group("nthreads=2 name=at_once")
        .single_flowop("connect remotehost=$h protocol=tcp tcp_nodelay")
        .transaction("iterations=50", &["write size=1k count=4", "read size=1k"])
        .single_flowop("disconnect")
        .group("nthreads=3 name=thinks")
        .single_flowop("connect remotehost=$h protocol=tcp tcp_nodelay")
        .transaction(
            "iterations=1",
            &["think duration=1s", "write size=2k count=50"],
        )
        .single_flowop("disconnect")
        .text()
        .replace("at_once", "at once");
    let slave = Server::start_slave("");
    let output = slave.run_profile("-a", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    let (_, section) = output
        .stdout
        .split_once("Over active time\n")
        .expect("the section of active times");
    let kilobytes_and_seconds = |name: &str| -> (f64, f64) {
        let line = section.lines().find_map(|line| line.strip_prefix(name));
        let (bytes, time) = line.and_then(|line| line.split_once('/')).expect(name);
        let kilobytes = bytes
            .trim()
            .trim_end_matches(['K', 'B'])
            .parse()
            .expect(bytes);
        let seconds = time
            .trim()
            .split_once("(s)")
            .expect(time)
            .0
            .parse()
            .expect(time);
        (kilobytes, seconds)
    };
    let (immediate, thinking, all) = (
        kilobytes_and_seconds("at once "),
        kilobytes_and_seconds("thinks "),
        kilobytes_and_seconds("All "),
    );
    // 2 strands × 50 × 5 KB, and 3 strands × 50 × 2 KB.
    assert!((immediate.0 - 500.0).abs() < 0.01, "{output:?}");
    assert!((thinking.0 - 300.0).abs() < 0.01, "{output:?}");
    assert!((all.0 - 800.0).abs() < 0.01, "{output:?}");
    assert!(
        immediate.1 < 0.5 && (1.0..2.0).contains(&thinking.1),
        "{output:?}"
    );
    assert!(all.1 >= thinking.1, "{output:?}");

    let output = slave.run_profile("--json", &profile);
    let document: Value = serde_json::from_str(&output.stdout).expect("a JSON document");
    let value_at = |pointer: &str| {
        document
            .pointer(pointer)
            .and_then(Value::as_f64)
            .expect(pointer)
    };
    let group = |number: usize| format!("/tests/0/runs/0/groups/{number}");
    for (number, bytes, operations) in [(0, 512_000.0, 504.0), (1, 307_200.0, 159.0)] {
        let active = |member: &str| value_at(&format!("{}/active/{member}", group(number)));
        let moved = active("counts/sent_bytes") + active("counts/received_bytes");
        assert!((moved - bytes).abs() < 0.1);
        assert!((active("counts/operations") - operations).abs() < 0.1);
        let rate = moved * 8e9 / active("elapsed_ns");
        assert!((active("moved_bps") / rate - 1.0).abs() < 1e-9);
        // The active time is the sum of the transactions' times.
        let elapsed = |index: usize| {
            let transaction = format!("{}/transactions/{index}", group(number));
            value_at(&format!("{transaction}/totals/elapsed_ns"))
        };
        let sum = (0..3).map(elapsed).sum::<f64>();
        assert!((sum - active("elapsed_ns")).abs() < 1.0);
    }
}

/// The master prints its steps in the order of stock. The slave prints its steps too.
fn prints_steps_in_order() {
    let slave = Server::start_slave("-v");
    let output = slave.run_profile("-v", &request_profile());
    assert_eq!(output.code, Some(0), "{output:?}");
    let mut remainder = &*output.stdout;
    for step in [
        "Completed handshake phase 1\nStarting handshake phase 2\nHandshake phase 2 with 127.0.0.1\n",
        "  Done preprocessing accepts\n  Sent handshake header\n  Sending workorder\n",
        "    Sent workorder\n    Sent transaction\n    Sent flowop\n    Sent transaction\n    Sent flowop\n",
        "TX worklist success  Sent workorder\nHandshake phase 2 with 127.0.0.1 done\n",
        "Completed handshake phase 2\nStarting 2 threads",
        "TX command [UPERF_CMD_NEXT_TXN, 0] to 127.0.0.1\n",
        "TX command [UPERF_CMD_NEXT_TXN, 2] to 127.0.0.1\n",
        "TX command [UPERF_CMD_SEND_STATS, 0] to 127.0.0.1\n",
        "\n[127.0.0.1] Success127.0.0.1 ",
    ] {
        let found = remainder.split_once(step);
        (_, remainder) = found.unwrap_or_else(|| panic!("{step}: {output:?}"));
    }
    let slave_stdout = slave.stdout();
    for step in [
        "Accepted connection from ::ffff:127.0.0.1:",
        "RX Command [UPERF_CMD_NEXT_TXN, 2] from ::ffff:127.0.0.1\n",
        ": unlocking barrier 2\n",
        "RX Command [UPERF_CMD_SEND_STATS, 0] from ::ffff:127.0.0.1\n",
    ] {
        assert!(slave_stdout.contains(step), "{step}: {slave_stdout}");
    }
}

/// A line per execution of a flowop: process, thread of the strand, end time and duration.
fn writes_response_times_per_thread() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().display();
    let output = Server::start_slave("").run_profile(&format!("-X {path}"), &request_profile());
    assert_eq!(output.code, Some(0), "{output:?}");
    let text = std::fs::read_to_string(file.path()).expect("linerate wrote the file");
    let parse = |line: &str| -> Vec<u64> {
        let columns = line.split_whitespace();
        columns.map(|column| column.parse().expect(line)).collect()
    };
    let lines: Vec<_> = text.lines().map(parse).collect();
    assert_eq!(lines.len(), 2 * (1 + 2 * 500 + 1));
    let mut threads: Vec<_> = lines.iter().map(|columns| columns[1]).collect();
    threads.dedup();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 2, "{threads:?}");
    for columns in &lines {
        // The main thread, whose ID is the process ID, runs no strand.
        assert!(
            columns.len() == 5 && columns[1] != columns[0] && columns[2] == 0,
            "{columns:?}"
        );
        assert!(columns[4] > 0 && columns[4] < 60_000_000_000, "{columns:?}");
    }
}

/// Every machine has the kernel's software counters. CPU counters may be unavailable, which the
/// output shows instead of a number.
fn counts_events_per_flowop() {
    let slave = Server::start_slave("");
    let profile = request_profile().replace(
        "<flowop type=\"read\"",
        "<flowop type=\"think\" options=\"duration=100us busy\"/>\n      <flowop type=\"read\"",
    );
    let output = slave.run_profile("-E task-clock,cycles,page-faults", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    if output.stderr.contains("not counted: task-clock") {
        eprintln!("SKIPPED: {}", output.stderr);
        return;
    }
    let counted = |flowop: &str, counter: &str| {
        let lines = output.stdout.lines();
        let mut lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|columns| columns.starts_with(&[flowop, counter]));
        let line = line.unwrap_or_else(|| panic!("no {flowop} {counter}: {output:?}"));
        (line[2].parse::<u64>().ok(), line[3].parse::<f64>().ok())
    };
    let (total, each) = counted("think", "task-clock");
    assert!(total.is_some_and(|total| total >= 50_000_000), "{output:?}");
    assert!(each.is_some_and(|each| each >= 50_000.0), "{output:?}");
    assert!(counted("connect", "task-clock").0 > Some(0), "{output:?}");
    assert!(counted("read", "page-faults").0.is_some(), "{output:?}");
    let is_refused = output.stderr.contains("not counted: cycles");
    assert_eq!(
        counted("read", "cycles").0.is_none(),
        is_refused,
        "{output:?}"
    );
    assert_eq!(output.stderr.is_empty(), !is_refused, "{output:?}");
}
