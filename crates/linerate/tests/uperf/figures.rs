//! The figures of runs: pages, documents, the sections of the text, times and counters.

use serde_json::Value;
use testkit::{Profile, Server, TestCase};

use super::{requests, rules};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        a_page_stands_alone,
        a_document_of_a_run,
        harnesses_read_real_runs,
        every_section_of_a_real_run,
        figures_are_of_the_time_in_which_something_ran,
        steps_are_told,
        response_times_are_of_threads,
        counters_of_flowops,
    ]
}

/// The page of a real run: whole, and without a request for anything else.
fn a_page_stands_alone() {
    let slave = Server::start_slave("");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let profile = requests().replace("<group ", "<!-- <script src=\"http://x/\"> --> <group ");
    let ended = slave.run_profile(&format!("-e --html {}", path.display()), &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("Run Statistics"), "{ended:?}");
    let page = std::fs::read_to_string(&path).expect("it was written");
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
    // The profile is text, in which quotes are none.
    for way in [
        "src=\"",
        "url(",
        "@import",
        "<script src",
        "<iframe",
        "<form",
        "<base",
        "<object",
    ] {
        assert!(!page.contains(way), "{way}");
    }
    let links: Vec<_> = page.match_indices("href=").collect();
    assert!(
        links.len() == 1 && page.contains("href=\"data:,\""),
        "{links:?}"
    );
    let files = std::fs::read_dir(directory.path())
        .expect("it is ours")
        .count();
    assert_eq!(files, 1);
}

/// The document is all that is on stdout, and its figures are those of the run.
fn a_document_of_a_run() {
    let slave = Server::start_slave("");
    let profile = Profile::requests()
        .group("nthreads=3 name=streams")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("iterations=100", &["write size=8k count=2"])
        .text();
    let ended = slave.run_profile("--json -v -t -f -p -E page-faults -H stdout", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("Completed handshake phase 2\n"),
        "{ended:?}"
    );
    let document: Value = serde_json::from_str(&ended.stdout).expect("a document");
    let at = |place: &str| {
        let value = document.pointer(place);
        value.unwrap_or_else(|| panic!("no {place}: {}", ended.stdout))
    };
    assert_eq!(at("/schema"), "linerate/2");
    assert_eq!(at("/peer/kind"), "linerate");
    assert!(at("/hosts/here/kernel").is_string() && at("/hosts/there").is_null());
    assert_eq!(at("/tests/0/name"), "requests");
    assert!(at("/tests/0/figures/moved_bps").as_f64() > Some(0.0));
    assert_eq!(at("/tests/0/warnings/0/kind"), "same_host");
    let run = "/tests/0/runs/0";
    assert_eq!(at(&format!("{run}/groups/1/name")), "streams");
    let exchange = format!("{run}/groups/0/transactions/1");
    let stream = format!("{run}/groups/1/transactions/1");
    assert!(at(&format!("{exchange}/figures/transactions_per_s")).as_f64() > Some(0.0));
    assert!(at(&format!("{exchange}/figures/throughput_bps")).is_null());
    assert_eq!(at(&format!("{exchange}/rounds")), 1000);
    let sent = "totals/counts/sent_bytes";
    assert_eq!(at(&format!("{exchange}/{sent}")), 2 * 500 * 4 * 64);
    let received = "totals/counts/received_bytes";
    assert_eq!(at(&format!("{exchange}/{received}")), 2 * 500 * 200);
    assert_eq!(at(&format!("{stream}/{sent}")), 3 * 100 * 2 * 8192);
    // All of it arrived, as the slave reported.
    let number = |place: &str| at(&format!("{stream}/{place}")).as_f64().expect("a number");
    let moved = number("figures/throughput_bps") * number("totals/elapsed_ns") / 8e9;
    assert!((moved - 4_915_200.0).abs() < 1.0, "{moved}");
    let write = format!("{exchange}/steps/0");
    assert_eq!(at(&format!("{write}/name")), "write");
    assert_eq!(at(&format!("{write}/times/executions")), 4000);
    assert!(at(&format!("{write}/times/cpu_ns")).as_u64() > Some(0));
    assert_eq!(at(&format!("{exchange}/figures/latency/count")), 1000);
    let workers = at(&format!("{run}/groups/1/workers"));
    assert_eq!(workers.as_array().expect("workers").len(), 3);
    assert_eq!(at(&format!("{run}/peers/1/group")), 1);
    assert_eq!(at(&format!("{run}/peers/1/totals/bytes")), 4_915_200);
    let source = at("/tests/0/plan/source").as_str().expect("a text");
    assert_eq!(source.trim(), profile.trim());
}

/// As benchmark-operator writes it: no XML, with the environment's host and a missing end.
const HARNESS: &str = r#"<?xml version=1.0?>
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

/// Reads real output by the rules of harnesses that parse stock's.
fn harnesses_read_real_runs() {
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
        let ended = slave.run_profile(options, HARNESS);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let text = &ended.stdout;
        let (_, name) = text.split_once("running profile:").expect("a first line");
        let (name, _) = name.split_once(" ...").expect("its end");
        assert_eq!(name, "rr-tcp-64-64-2");
        let terminal = text.replace('\n', "\r\n");
        let samples = rules::raw_samples(text, "Txn2", "");
        assert_eq!(samples, rules::raw_samples(&terminal, "Txn2", "\r"));
        // Ten, but on a machine that is busy with other things they come late.
        assert!(samples.len() >= 2, "{ended:?}");
        assert!(samples.is_sorted_by_key(|sample| sample.1), "{samples:?}");
        let mut anchored = text
            .lines()
            .filter_map(|line| rules::anchored(line, "Txn2"));
        let (_, bytes, operations) = anchored.next_back().expect("samples");
        assert_eq!(
            (samples[samples.len() - 1].1, samples[samples.len() - 1].2),
            (bytes, operations)
        );
        // Each strand may be between a call and its count.
        assert!(bytes.abs_diff(64 * operations) <= 2 * 64, "{ended:?}");
        // All but a connect and a disconnect of each strand, and what they did after the time on a busy machine.
        let total = ended.statistics("master")[4]
            .parse::<u64>()
            .expect("a count");
        let in_time = total - 4;
        assert!(operations <= in_time + 2, "{ended:?}");
        // The last line is of the time; on a busy machine a strand goes on for a while.
        assert!(in_time <= 2 * operations + 2, "{ended:?}");
        assert_eq!(rules::differences(text).len(), 5);
        assert_eq!(rules::suspicious(text), [""; 0], "{ended:?}");
        // With -v a slave's words are in the way, as in stock.
        let rates = usize::from(!options.contains("-v"));
        assert_eq!(
            rules::rates_beside(text, "127.0.0.1").len(),
            rates,
            "{ended:?}"
        );
        let (interfaces, _) = text.split_once("Run Statistics\n").expect("both sections");
        assert_eq!(rules::words_of(interfaces, "lo").len(), 5);
        let mut latencies = ["Average", "50th", "99th"].map(|label| {
            let mut values = text.lines().filter_map(|line| rules::behind(line, label));
            values.next()
        });
        latencies.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
        assert_eq!(latencies[0].is_some(), options.contains("-H"), "{ended:?}");
    }
    let text = std::fs::read_to_string(responses.path()).expect("it was written");
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let are_numbers = words.iter().all(|word| word.parse::<u64>().is_ok());
        assert!(words.len() == 5 && are_numbers, "{line}");
    }
}

/// Text for people, with every section: each line is of the form that stock's has.
fn every_section_of_a_real_run() {
    let ended = Server::start_slave("").run_profile("-a -p -e -i 100ms", HARNESS);
    assert_eq!(ended.code, Some(0), "{ended:?}");
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
    let mut rest = &*ended.stdout;
    for title in titles {
        let found = rest.split_once(&format!("\n{title}"));
        (_, rest) = found.unwrap_or_else(|| panic!("{title}: {ended:?}"));
    }
    assert_eq!(
        rules::rates_beside(&ended.stdout, "127.0.0.1").len(),
        1,
        "{ended:?}"
    );
    assert_eq!(rules::suspicious(&ended.stdout), [""; 0], "{ended:?}");
    let flowop = rules::words_of(&ended.stdout, "read");
    assert_eq!(flowop.len(), 6, "{ended:?}");
    let cpu = flowop[3].trim_end_matches(char::is_alphabetic);
    assert!(cpu.parse::<f64>().is_ok_and(|cpu| cpu > 0.0), "{ended:?}");
}

/// One group works at once, the other thinks first: what stock averages over all of the time is told over
/// the time in which each ran, and a group's totals are those of its strands.
fn figures_are_of_the_time_in_which_something_ran() {
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
    let ended = slave.run_profile("-a", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (_, own) = ended
        .stdout
        .split_once("Over active time\n")
        .expect("our own lines");
    let line = |name: &str| -> (f64, f64) {
        let line = own.lines().find_map(|line| line.strip_prefix(name));
        let (bytes, rest) = line.and_then(|line| line.split_once('/')).expect(name);
        let kilobytes = bytes
            .trim()
            .trim_end_matches(['K', 'B'])
            .parse()
            .expect(bytes);
        let seconds = rest
            .trim()
            .split_once("(s)")
            .expect(rest)
            .0
            .parse()
            .expect(rest);
        (kilobytes, seconds)
    };
    let (at_once, thinks, all) = (line("at once "), line("thinks "), line("All "));
    // 2 strands, 50 times 5 KB; 3 strands, once 50 times 2 KB.
    assert!((at_once.0 - 500.0).abs() < 0.01, "{ended:?}");
    assert!((thinks.0 - 300.0).abs() < 0.01, "{ended:?}");
    assert!((all.0 - 800.0).abs() < 0.01, "{ended:?}");
    assert!(
        at_once.1 < 0.5 && (1.0..2.0).contains(&thinks.1),
        "{ended:?}"
    );
    assert!(all.1 >= thinks.1, "{ended:?}");

    let ended = slave.run_profile("--json", &profile);
    let document: Value = serde_json::from_str(&ended.stdout).expect("a document");
    let at = |place: &str| {
        document
            .pointer(place)
            .and_then(Value::as_f64)
            .expect(place)
    };
    let group = |number: usize| format!("/tests/0/runs/0/groups/{number}");
    for (number, bytes, operations) in [(0, 512_000.0, 504.0), (1, 307_200.0, 159.0)] {
        let active = |member: &str| at(&format!("{}/active/{member}", group(number)));
        let moved = active("counts/sent_bytes") + active("counts/received_bytes");
        assert!((moved - bytes).abs() < 0.1);
        assert!((active("counts/operations") - operations).abs() < 0.1);
        let rate = moved * 8e9 / active("elapsed_ns");
        assert!((active("moved_bps") / rate - 1.0).abs() < 1e-9);
        // No longer than its transactions, one after the other.
        let took = |part: usize| {
            let transaction = format!("{}/transactions/{part}", group(number));
            at(&format!("{transaction}/totals/elapsed_ns"))
        };
        let parts = (0..3).map(took).sum::<f64>();
        assert!((parts - active("elapsed_ns")).abs() < 1.0);
    }
}

/// In the order of what is done, as stock has it.
fn steps_are_told() {
    let slave = Server::start_slave("-v");
    let ended = slave.run_profile("-v", &requests());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut rest = &*ended.stdout;
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
        let found = rest.split_once(step);
        (_, rest) = found.unwrap_or_else(|| panic!("{step}: {ended:?}"));
    }
    let told = slave.stdout();
    for step in [
        "Accepted connection from ::ffff:127.0.0.1:",
        "RX Command [UPERF_CMD_NEXT_TXN, 2] from ::ffff:127.0.0.1\n",
        ": unlocking barrier 2\n",
        "RX Command [UPERF_CMD_SEND_STATS, 0] from ::ffff:127.0.0.1\n",
    ] {
        assert!(told.contains(step), "{step}: {told}");
    }
}

/// Each pass of each flowop: the process, a thread of it for each strand, when it ended and how long it took.
fn response_times_are_of_threads() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().display();
    let ended = Server::start_slave("").run_profile(&format!("-X {path}"), &requests());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = std::fs::read_to_string(file.path()).expect("it was written");
    let line = |line: &str| -> Vec<u64> {
        let words = line.split_whitespace();
        words.map(|word| word.parse().expect(line)).collect()
    };
    let lines: Vec<_> = text.lines().map(line).collect();
    assert_eq!(lines.len(), 2 * (1 + 2 * 500 + 1));
    let mut threads: Vec<_> = lines.iter().map(|words| words[1]).collect();
    threads.dedup();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 2, "{threads:?}");
    for words in &lines {
        // The process's first thread, which has its number, is no strand.
        assert!(
            words.len() == 5 && words[1] != words[0] && words[2] == 0,
            "{words:?}"
        );
        assert!(words[4] > 0 && words[4] < 60_000_000_000, "{words:?}");
    }
}

/// The kernel's own counters are everywhere; the CPU's may not be, and what is not there is no number.
fn counters_of_flowops() {
    let slave = Server::start_slave("");
    let profile = requests().replace(
        "<flowop type=\"read\"",
        "<flowop type=\"think\" options=\"duration=100us busy\"/>\n      <flowop type=\"read\"",
    );
    let ended = slave.run_profile("-E task-clock,cycles,page-faults", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    if ended.stderr.contains("nothing is counted") {
        eprintln!("SKIPPED: {}", ended.stderr);
        return;
    }
    let counted = |flowop: &str, counter: &str| {
        let lines = ended.stdout.lines();
        let mut lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.starts_with(&[flowop, counter]));
        let line = line.unwrap_or_else(|| panic!("no {flowop} {counter}: {ended:?}"));
        (line[2].parse::<u64>().ok(), line[3].parse::<f64>().ok())
    };
    let (total, each) = counted("think", "task-clock");
    assert!(total.is_some_and(|total| total >= 50_000_000), "{ended:?}");
    assert!(each.is_some_and(|each| each >= 50_000.0), "{ended:?}");
    assert!(counted("connect", "task-clock").0 > Some(0), "{ended:?}");
    assert!(counted("read", "page-faults").0.is_some(), "{ended:?}");
    let is_refused = ended.stderr.contains("not counted: cycles");
    assert_eq!(
        counted("read", "cycles").0.is_none(),
        is_refused,
        "{ended:?}"
    );
    assert_eq!(ended.stderr.is_empty(), !is_refused, "{ended:?}");
}
