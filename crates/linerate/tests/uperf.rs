//! uperf's masters and slaves, ours with ours, over loopback.

mod processes;
mod shipped;
mod tls;
mod transports;

#[path = "../../uperf/tests/output/rules.rs"]
mod rules;

use std::time::Duration;

use serde_json::Value;
use testkit::{Finished, Process, Trial, eventually, free_port, is_listening, linerate, within};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = testkit::trials![
        requests_and_responses,
        the_master_listens,
        datagrams_that_may_be_lost,
        connections_again_and_again,
        a_duration_ends_it,
        every_host_has_its_own_connections,
        groups_run_side_by_side_and_end_by_themselves,
        files_are_sent_whole,
        a_page_stands_alone,
        a_page_that_cannot_be_written_is_no_surprise,
        a_document_of_a_run,
        harnesses_read_real_runs,
        every_section_of_a_real_run,
        figures_are_of_the_time_in_which_something_ran,
        steps_are_told,
        response_times_are_of_threads,
        counters_of_flowops,
        a_slave_that_is_lost_is_named,
        without_a_slave_it_says_so,
        what_is_no_profile_is_said_with_its_place,
        the_workloads_run,
        what_cannot_be_opened_is_said,
        the_log_is_in_stocks_order,
    ];
    for (part, more) in [
        ("processes", processes::trials()),
        ("shipped", shipped::trials()),
        ("tls", tls::trials()),
        ("transports", transports::trials()),
    ] {
        trials.extend(within(part, more));
    }
    trials
}

/// Longer than any of these runs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// A slave, which ends with its test.
struct Slave {
    port: u16,
    process: Process,
}

impl Slave {
    fn start() -> Self {
        Self::start_with("")
    }

    fn start_with(options: &str) -> Self {
        let port = free_port();
        let process = Process::start(&mut linerate(&format!("uperf -s -P {port} {options}")));
        let listens = eventually(Duration::from_secs(10), || is_listening(port));
        assert!(listens, "the slave does not listen");
        Self { port, process }
    }

    /// Runs a profile with this slave, `$h` being this host.
    fn run(&self, options: &str, profile: &str) -> Finished {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), profile).expect("it is ours");
        let port = self.port;
        let path = file.path().display();
        let mut command = linerate(&format!("uperf {options} -P {port} -m {path}"));
        let variables = [
            ("h", "127.0.0.1"),
            ("h1", "127.0.0.1"),
            ("h2", "127.0.0.2"),
            ("h3", "127.0.0.3"),
            ("proto", "tcp"),
            ("nthr", "4"),
            ("iter", "50"),
        ];
        command.envs(variables);
        Process::start(&mut command).finish(LIMIT)
    }
}

/// The words of the line of Run Statistics that begins with this word.
fn statistics(ended: &Finished, host: &str) -> Vec<String> {
    let (_, report) = ended
        .stdout
        .split_once("Run Statistics")
        .unwrap_or_else(|| panic!("no statistics: {ended:?}"));
    let line = report.lines().find(|line| line.starts_with(host));
    let line = line.unwrap_or_else(|| panic!("no line of {host}: {ended:?}"));
    line.split_whitespace().map(str::to_owned).collect()
}

/// Bytes and operations of both ends are the same.
#[track_caller]
fn agree(ended: &Finished) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let slave = statistics(ended, "127.0.0.1");
    let master = statistics(ended, "master");
    assert_eq!(slave[2], master[2], "bytes: {ended:?}");
    assert_eq!(slave[4], master[4], "operations: {ended:?}");
    assert!(!ended.stdout.contains("** "), "{ended:?}");
    assert_eq!(ended.stderr, "", "{ended:?}");
}

const REQUESTS: &str = r#"<?xml version="1.0"?>
<profile name="requests">
  <group nthreads="2">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp tcp_nodelay"/>
    </transaction>
    <transaction iterations="500">
      <flowop type="write" options="size=64 count=4"/>
      <flowop type="read" options="size=200"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect" />
    </transaction>
  </group>
</profile>
"#;

fn requests_and_responses() {
    let slave = Slave::start();
    let ended = slave.run("-a", REQUESTS);
    agree(&ended);
    let master = statistics(&ended, "master");
    // Two strands: a connect, 500 times 4 writes and a read, a disconnect.
    assert_eq!(master[4], "5004", "{ended:?}");
    assert_eq!(master[2], "445.31KB", "{ended:?}");
    for line in [
        "Starting 2 threads running profile:requests ...",
        "Group0",
        "Thr1",
        "Txn1 ",
    ] {
        assert!(ended.stdout.contains(line), "{line}: {ended:?}");
    }
}

fn the_master_listens() {
    let profile = REQUESTS.replace("\"connect\"", "\"accept\"");
    agree(&Slave::start().run("", &profile));
}

fn datagrams_that_may_be_lost() {
    let profile = REQUESTS
        .replace("protocol=tcp tcp_nodelay", "protocol=udp")
        .replace("size=200", "size=200 timeout=500ms canfail");
    let slave = Slave::start();
    agree(&slave.run("", &profile));
    // The slave's listener can be had again.
    agree(&slave.run("", &profile));
}

fn connections_again_and_again() {
    let profile = r#"<profile name="churn">
  <group nthreads="3">
    <transaction iterations="200">
      <flowop type="connect" options="remotehost=$h protocol=tcp"/>
      <flowop type="write" options="size=1"/>
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>
"#;
    let ended = Slave::start().run("-f -t", profile);
    agree(&ended);
    assert_eq!(statistics(&ended, "master")[4], "1800", "{ended:?}");
}

fn a_duration_ends_it() {
    let profile = REQUESTS
        .replace("iterations=\"500\"", "duration=\"1s\"")
        .replace("requests", "a-b-c-d-e");
    let ended = Slave::start().run("-R -a -v -i 1", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let samples: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("timestamp_ms:") && line.contains("name:Txn2 "))
        .collect();
    assert!(samples.len() >= 2, "{ended:?}");
    let last = samples.last().and_then(|line| line.split("nr_ops:").nth(1));
    let operations: u64 = last.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    assert!(operations > 100, "{ended:?}");
}

fn every_host_has_its_own_connections() {
    // Neither write nor read says whose they are.
    let profile = r#"<profile name="two">
  <group nthreads="1">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp conn=1"/>
      <flowop type="connect" options="remotehost=127.0.0.2 protocol=udp conn=2"/>
    </transaction>
    <transaction iterations="50">
      <flowop type="write" options="size=300 conn=1"/>
      <flowop type="read" options="size=300 conn=2"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect" options="conn=1"/>
      <flowop type="disconnect" options="conn=2"/>
    </transaction>
  </group>
</profile>
"#;
    let ended = Slave::start().run("", profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(statistics(&ended, "127.0.0.1")[2], "14.65KB");
    assert_eq!(statistics(&ended, "127.0.0.2")[2], "14.65KB");
    assert_eq!(statistics(&ended, "master")[2], "29.30KB");
}

fn groups_run_side_by_side_and_end_by_themselves() {
    let group = |name: &str, duration: &str| {
        format!(
            r#"<group nthreads="2" name="{name}">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp"/>
    </transaction>
    <transaction duration="{duration}">
      <flowop type="write" options="size=8k"/>
    </transaction>
  </group>
"#
        )
    };
    // Last transactions of different lengths, in which stock hangs.
    let groups = group("short", "300ms") + &group("long", "900ms");
    let profile = format!("<profile name=\"groups\">\n{groups}</profile>\n");
    let ended = Slave::start().run("-g", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("\nshort"), "{ended:?}");
}

/// One longer than what a slave reads at once by stock's rule, several in one execution, and several of different
/// lengths: a number of times, all of them arrive, and the run ends.
fn files_are_sent_whole() {
    let slave = Slave::start();
    for (lengths, flowop, bytes) in [
        (&[65_536][..], "sendfile", "640.00KB"),
        (&[5_000_000], "sendfile", "47.68MB"),
        (&[100_000], "sendfilev nfiles=3", "2.86MB"),
        (&[1000], "sendfile size=100", "9.77KB"),
        (&[100, 900_000], "sendfile", "4.29MB"),
        (&[100, 900_000], "sendfilev nfiles=2", "8.58MB"),
    ] {
        // A profile's words are folded to lower case, as uperf does.
        let directory = tempfile::Builder::new()
            .prefix(&format!("files-{}", std::process::id()))
            .rand_bytes(0)
            .tempdir()
            .expect("a directory");
        for (number, length) in lengths.iter().enumerate() {
            let file = directory.path().join(number.to_string());
            std::fs::write(file, vec![7; *length]).expect("it is ours");
        }
        let (kind, options) = flowop.split_once(' ').unwrap_or((flowop, ""));
        let profile = format!(
            r#"<profile name="files">
  <group nthreads="1">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp"/>
    </transaction>
    <transaction iterations="10">
      <flowop type="{kind}" options="dir={} {options}"/>
    </transaction>
  </group>
</profile>
"#,
            directory.path().display()
        );
        let ended = slave.run("", &profile);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for end in ["127.0.0.1", "master"] {
            let moved = &statistics(&ended, end)[2];
            assert_eq!(moved, bytes, "{flowop} {lengths:?} {end}: {ended:?}");
        }
    }
}

/// The page of a real run: whole, and without a request for anything else.
fn a_page_stands_alone() {
    let slave = Slave::start();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let profile = REQUESTS.replace("<group ", "<!-- <script src=\"http://x/\"> --> <group ");
    let ended = slave.run(&format!("-e --html {}", path.display()), &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("Run Statistics"), "{ended:?}");
    let page = std::fs::read_to_string(&path).expect("it was written");
    for part in [
        "<h2>Operations over time</h2>",
        "<h2>Latency</h2>",
        "<h2>Counters</h2>",
        "<h3>master</h3>",
        "this host is the master&#39;s, too",
        "both ends run on one machine",
        "&lt;script src=&quot;http://x/&quot;&gt;",
        "</html>\n",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The profile is text, in which quotes are none.
    for way in [
        "src=\"", "url(", "@import", "<script", "<iframe", "<form", "<base", "<object",
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

/// Before anything runs: nobody listens at the port, and nothing is said of that.
fn a_page_that_cannot_be_written_is_no_surprise() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), REQUESTS).expect("it is ours");
    let (port, path) = (free_port(), file.path().display());
    for page in ["/proc", "/missing/page.html"] {
        let mut command = linerate(&format!("uperf -P {port} -m {path} --html {page}"));
        command.env("h", "127.0.0.1");
        let ended = Process::start(&mut command).finish(LIMIT);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stdout, "", "{ended:?}");
        assert!(ended.stderr.contains(page), "{ended:?}");
    }
}

/// The document is all that is on stdout, and its figures are those of the run.
fn a_document_of_a_run() {
    let slave = Slave::start();
    let streams = r#"  <group nthreads="3" name="streams">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp"/>
    </transaction>
    <transaction iterations="100">
      <flowop type="write" options="size=8k count=2"/>
    </transaction>
  </group>
</profile>"#;
    let profile = REQUESTS.replace("</profile>", streams);
    let ended = slave.run("--json -v -t -f -p -E page-faults -H stdout", &profile);
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
    assert_eq!(at("/schema"), "linerate-run/1");
    assert_eq!(at("/profile/schema"), "linerate-profile/1");
    assert_eq!(at("/peer/kind"), "linerate");
    assert!(at("/hosts/here/kernel").is_string() && at("/hosts/there").is_null());
    assert_eq!(at("/tests/1/name"), "Group0/Txn1");
    assert!(at("/tests/1/figures/transactions_per_s").as_f64() > Some(0.0));
    assert!(at("/tests/1/figures/throughput_bps").is_null());
    assert_eq!(at("/tests/1/warnings/0/kind"), "same_host");
    assert_eq!(at("/tests/4/name"), "streams/Txn1");
    // All of it arrived, as the slave told.
    let exchange = "/profile/groups/0/transactions/1";
    let stream = "/profile/groups/1/transactions/1";
    assert_eq!(at(&format!("{exchange}/executions")), 1000);
    assert_eq!(at(&format!("{exchange}/sent_bytes")), 2 * 500 * 4 * 64);
    assert_eq!(at(&format!("{exchange}/received_bytes")), 2 * 500 * 200);
    assert_eq!(at(&format!("{stream}/sent_bytes")), 3 * 100 * 2 * 8192);
    let seconds = at(&format!("{stream}/elapsed_ns"))
        .as_f64()
        .expect("a time")
        / 1e9;
    let rate = at("/tests/4/figures/throughput_bps")
        .as_f64()
        .expect("a rate");
    let moved = rate * seconds / 8.0;
    assert!((moved - 4_915_200.0).abs() < 1.0, "{moved}");
    assert_eq!(at(&format!("{exchange}/flowops/0/name")), "write");
    assert_eq!(at(&format!("{exchange}/flowops/0/times/executions")), 4000);
    assert!(at(&format!("{exchange}/flowops/0/times/cpu_ns")).as_u64() > Some(0));
    let kept = at("/tests/1/figures/latency/count");
    assert_eq!(kept, 1000);
    let strands = at("/profile/groups/1/strands").as_array().expect("strands");
    assert_eq!(strands.len(), 3);
    assert_eq!(at("/profile/slaves/1/group"), "streams");
    assert_eq!(at("/profile/slaves/1/totals/bytes"), 4_915_200);
    assert_eq!(
        at("/profile/text").as_str().expect("a text").trim(),
        profile.trim()
    );
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

/// Real output, read by the rules of those who read stock's.
fn harnesses_read_real_runs() {
    let slave = Slave::start();
    let responses = tempfile::NamedTempFile::new().expect("a temporary file");
    let with_responses = format!("-v -a -R -i 100ms -X {}", responses.path().display());
    for options in [
        "-v -a -R -i 100ms",
        &with_responses,
        "-v -a -R -i 100ms -H stdout",
        "-R -i 100ms",
        "-R -tTfa -i 100ms -e -p",
    ] {
        let ended = slave.run(options, HARNESS);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let text = &ended.stdout;
        let (_, name) = text.split_once("running profile:").expect("a first line");
        let (name, _) = name.split_once(" ...").expect("its end");
        assert_eq!(name, "rr-tcp-64-64-2");
        let terminal = text.replace('\n', "\r\n");
        let samples = rules::raw_samples(text, "Txn2", "");
        assert_eq!(samples, rules::raw_samples(&terminal, "Txn2", "\r"));
        assert!(samples.len() >= 6, "{ended:?}");
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
        let total = statistics(&ended, "master")[4]
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
    let ended = Slave::start().run("-a -p -e -i 100ms", HARNESS);
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
    let profile = r#"<profile name="uneven">
  <group nthreads="2" name="at once">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp tcp_nodelay"/>
    </transaction>
    <transaction iterations="50">
      <flowop type="write" options="size=1k count=4"/>
      <flowop type="read" options="size=1k"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect"/>
    </transaction>
  </group>
  <group nthreads="3" name="thinks">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp tcp_nodelay"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="think" options="duration=1s"/>
      <flowop type="write" options="size=2k count=50"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>
"#;
    let slave = Slave::start();
    let ended = slave.run("-a", profile);
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

    let ended = slave.run("--json", profile);
    let document: Value = serde_json::from_str(&ended.stdout).expect("a document");
    let at = |place: &str| {
        document
            .pointer(place)
            .and_then(Value::as_f64)
            .expect(place)
    };
    assert!((at("/profile/groups/0/active/bytes") - 512_000.0).abs() < 0.1);
    assert!((at("/profile/groups/0/active/operations") - 504.0).abs() < 0.1);
    assert!((at("/profile/groups/1/active/bytes") - 307_200.0).abs() < 0.1);
    assert!((at("/profile/groups/1/active/operations") - 159.0).abs() < 0.1);
    for group in [0, 1] {
        let of = |member| at(&format!("/profile/groups/{group}/active/{member}"));
        let rate = of("bytes") * 8e9 / of("elapsed_ns");
        assert!((of("rate_bps") / rate - 1.0).abs() < 1e-9);
        // No longer than its transactions, one after the other.
        let parts = (0..3).map(|number| {
            at(&format!(
                "/profile/groups/{group}/transactions/{number}/elapsed_ns"
            ))
        });
        assert!((parts.sum::<f64>() - of("elapsed_ns")).abs() < 1.0);
    }
}

/// In the order of what is done, as stock has it.
fn steps_are_told() {
    let slave = Slave::start_with("-v");
    let ended = slave.run("-v", REQUESTS);
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
    let told = slave.process.stdout();
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
    let ended = Slave::start().run(&format!("-X {path}"), REQUESTS);
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
    let slave = Slave::start();
    let profile = REQUESTS.replace(
        "<flowop type=\"read\"",
        "<flowop type=\"think\" options=\"duration=100us busy\"/>\n      <flowop type=\"read\"",
    );
    let ended = slave.run("-E task-clock,cycles,page-faults", &profile);
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

fn a_slave_that_is_lost_is_named() {
    let slave = Slave::start();
    let profile = REQUESTS.replace("iterations=\"500\"", "duration=\"30s\"");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), profile).expect("it is ours");
    let (port, path) = (slave.port, file.path().display());
    let mut command = linerate(&format!("uperf -P {port} -m {path}"));
    command.env("h", "127.0.0.1");
    let mut master = Process::start(&mut command);
    let runs = eventually(Duration::from_secs(10), || master.stdout().contains("Txn2"));
    assert!(runs && master.is_running(), "{}", master.stdout());
    drop(slave);
    let ended = master.finish(Duration::from_secs(10));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("[127.0.0.1] lost in Txn2"),
        "{ended:?}"
    );
}

fn without_a_slave_it_says_so() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), REQUESTS).expect("it is ours");
    let (port, path) = (free_port(), file.path().display());
    let mut command = linerate(&format!("uperf -P {port} -m {path}"));
    command.env("h", "127.0.0.1");
    let ended = Process::start(&mut command).finish(LIMIT);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let stdout = format!(
        "Error connecting to 127.0.0.1\n\n** TCP: Cannot connect to 127.0.0.1:{port} Connection refused\n"
    );
    assert_eq!(ended.stdout, stdout, "{ended:?}");
}

/// The words are stock's, and so is where they go.
fn what_cannot_be_opened_is_said() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), REQUESTS).expect("it is ours");
    let profile = file.path().display();
    for (options, stdout, stderr) in [
        (
            "-m /no/such/profile".to_owned(),
            "Error parsing /no/such/profile\n",
            "Cannot stat file /no/such/profile: No such file or directory",
        ),
        (
            format!("-m {profile} -X /no/such/file"),
            "Cannot open file\n",
            "cannot open /no/such/file: No such file or directory",
        ),
    ] {
        let mut command = linerate(&format!("uperf {options}"));
        command.env("h", "127.0.0.1");
        let ended = Process::start(&mut command).finish(LIMIT);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stdout, stdout, "{ended:?}");
        assert!(ended.stderr.contains(stderr), "{ended:?}");
    }
}

/// Each failure has one line; the master's come before those of its slaves.
fn the_log_is_in_stocks_order() {
    let slave = Slave::start();
    let profile = REQUESTS.replace("tcp_nodelay", "tcp_nodelay wndsz=50k");
    let ended = slave.run("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let places: Vec<_> = ["\n** Warning: Send ", "\n** [127.0.0.1] Warning: "]
        .map(|line| ended.stdout.find(line))
        .into_iter()
        .flatten()
        .collect();
    assert!(places.len() == 2 && places.is_sorted(), "{ended:?}");

    let profile = REQUESTS
        .replace("protocol=tcp tcp_nodelay", "protocol=udp")
        .replace("size=64 count=4", "size=70000");
    let ended = slave.run("", &profile);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let lines = ended.stdout.lines().filter(|line| line.starts_with("** "));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["** Error for flowop write  Message too long"]
    );
}

fn what_is_no_profile_is_said_with_its_place() {
    let profile = REQUESTS.replace("type=\"write\"", "type=\"wirte\"");
    let ended = Slave::start().run("", &profile);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains(":8:"), "{ended:?}");
    assert!(ended.stderr.contains("Unknown flowop wirte"), "{ended:?}");
}

/// Each of them, shortened, with a slave that is three hosts.
fn the_workloads_run() {
    let slave = Slave::start();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    let mut ran = 0;
    for entry in std::fs::read_dir(directory).expect("the workloads") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let profile = std::fs::read_to_string(&path).expect("a profile");
        let profile = profile
            .replace("\"30s\"", "\"500ms\"")
            .replace("\"1000\"", "\"50\"")
            .replace("\"250\"", "\"50\"");
        let ended = slave.run("-a", &profile);
        let name = path.display();
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(
            !ended.stdout.contains("Errors detected"),
            "{name}: {ended:?}"
        );
        assert_ne!(statistics(&ended, "127.0.0.1")[4], "0", "{name}: {ended:?}");
        ran += 1;
    }
    assert_eq!(ran, 12);
}
