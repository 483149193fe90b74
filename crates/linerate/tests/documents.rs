//! The JSON document and the HTML page of every command. All documents have one schema, and pages
//! load no other resources.

mod figures;

use std::time::Duration;

use base64::Engine as _;
use jsonschema::Validator;
use rustix::process::Signal;
use serde_json::Value;
use sha2::Digest as _;
use testkit::{
    Profile, Server, TestCase, TestProcess, free_port, linerate_with_args, run, wait_until,
    with_prefix,
};

use crate::iperf::is_bound_to_udp;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        documents_of_run,
        documents_of_netperf,
        documents_of_uperf,
        documents_of_iperf,
        documents_of_iperf3,
        documents_of_udpmon,
        json_is_refused_where_it_has_no_use,
        pages_load_nothing,
    ];
    test_cases.extend(with_prefix("figures", figures::test_cases()));
    test_cases
}

const TIMEOUT: Duration = Duration::from_secs(60);

const SCHEMA: &str = include_str!("../../../docs/schema/linerate-3.json");

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    jsonschema::draft202012::new(&schema).expect("the schema is valid")
}

/// Runs a command and returns the document that it prints. The document must be valid.
fn run_document(line: &str, code: i32) -> Value {
    let output = run(linerate_with_args(line), TIMEOUT).expect("linerate exits in time");
    assert_eq!(output.code, Some(code), "{line}: {output:?}");
    parse_valid(line, &output.stdout)
}

/// Parses a document and checks it against the schema.
fn parse_valid(line: &str, text: &str) -> Value {
    let document: Value = serde_json::from_str(text).expect(line);
    let errors: Vec<String> = validator()
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{line}: {errors:#?}");
    document
}

fn documents_of_run() {
    let default = run_document("run -l 1 --json", 0);
    assert_eq!(default["tests"].as_array().map(Vec::len), Some(6));
    let bidirectional = run_document(
        "run -l 1 -t TCP_STREAM,UDP_STREAM --bidirectional --parallel 2 --json",
        0,
    );
    assert_eq!(
        bidirectional["tests"][0]["runs"][0]["flows"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
    let confident = run_document("run -l 1 -t TCP_RR --confidence 95,50 --json", 0);
    assert!(confident["tests"][0]["confidence"]["iterations"].as_u64() >= Some(3));
    let failed = run_document(
        &format!("run 127.0.0.1 --port {} -l 1 --json", free_port()),
        1,
    );
    assert!(failed["error"].is_string() && failed["tests"][0]["error"].is_string());
    let line = "run -l 60 -t TCP_RR --json";
    let partial = parse_valid(line, &interrupted_stdout(line, 130));
    assert_eq!(partial["interrupted"], true);
    assert_eq!(partial["tests"][0]["runs"][0]["interrupted"], true);
}

/// Interrupts a running command. Returns its standard output.
fn interrupted_stdout(line: &str, code: i32) -> String {
    let mut child = TestProcess::start(&mut linerate_with_args(line));
    child.wait_for_cpu_ticks(20);
    child.signal(Signal::INT);
    let output = child.finish(TIMEOUT);
    assert_eq!(output.code, Some(code), "{line}: {output:?}");
    output.stdout
}

fn documents_of_netperf() {
    let server = Server::start("");
    let to = format!("-H 127.0.0.1 -p {}", server.port);
    for test in ["TCP_STREAM", "TCP_RR", "TCP_CRR", "UDP_STREAM", "OMNI"] {
        let line = format!("netperf {to} -t {test} -l 1 -c -C -j --json");
        let document = run_document(&line, 0);
        let [test] = &document["tests"].as_array().expect(&line)[..] else {
            panic!("{line}: not exactly one test");
        };
        // An idle machine takes ten samples; a busy one takes fewer.
        let samples = &test["runs"][0]["series"][0]["samples"];
        assert!(
            samples.as_array().map(Vec::len) > Some(2),
            "{line}: {samples}"
        );
        // The receiver cannot acknowledge what was not sent.
        for sample in samples.as_array().into_iter().flatten() {
            let acknowledged = sample["acknowledged_bytes"].as_u64();
            assert!(acknowledged <= sample["sent_bytes"].as_u64(), "{line}");
        }
        assert!(test["runs"][0]["local"]["cpu"].is_object(), "{line}");
        assert_eq!(document["peer"]["kind"], "linerate", "{line}");
    }
    let flows = run_document(&format!("netperf {to} -l 1 --parallel 3 --json"), 0);
    assert_eq!(
        flows["tests"][0]["runs"][0]["flows"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    let line = format!("netperf {to} -t OMNI -l 1 --bidirectional --json");
    let plan = &run_document(&line, 0)["tests"][0]["plan"];
    assert_eq!(plan["groups"].as_array().map(Vec::len), Some(2), "{plan}");
    let confident = run_document(&format!("netperf {to} -t TCP_RR -l 1 -i 3,3 --json"), 0);
    assert_eq!(
        confident["tests"][0]["runs"].as_array().map(Vec::len),
        Some(3)
    );
    assert_eq!(confident["tests"][0]["confidence"]["iterations"], 3);
    let failed = run_document(
        &format!("netperf -H 127.0.0.1 -p {} --json", free_port()),
        255,
    );
    assert!(failed["error"].is_string() && failed["peer"]["kind"].is_null());
    let line = format!("netperf {to} -t TCP_RR -l 60 --json");
    let partial = parse_valid(&line, &interrupted_stdout(&line, 0));
    assert_eq!(partial["interrupted"], true);
}

fn documents_of_uperf() {
    let slave = Server::start_slave("");
    let profile = Profile::requests()
        .group("nthreads=3 name=streams")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("iterations=100", &["write size=8k count=2"])
        .text();
    for options in ["--json", "--json -t -f -p -E page-faults,cycles -H stdout"] {
        let output = slave.run_profile(options, &profile);
        assert_eq!(output.code, Some(0), "{output:?}");
        let document = parse_valid(options, &output.stdout);
        assert_eq!(
            document["tests"][0]["runs"][0]["groups"]
                .as_array()
                .map(Vec::len),
            Some(2)
        );
    }
}

/// Returns the first run of the first test.
fn first_run(document: &Value) -> &Value {
    &document["tests"][0]["runs"][0]
}

/// Returns the kinds of the first run's warnings.
fn warning_kinds(document: &Value) -> Vec<&str> {
    let warnings = first_run(document)["warnings"].as_array();
    let kinds = warnings.into_iter().flatten();
    kinds
        .filter_map(|warning| warning["kind"].as_str())
        .collect()
}

/// Checks the documents of iperf's tests over TCP and UDP. `sends` and `receives` are the
/// expected directions at the client.
fn documents_of_iperf() {
    let tcp = start_iperf();
    let udp = free_port();
    let _udp_server = TestProcess::start(&mut linerate_with_args(&format!("iperf -s -u -p {udp}")));
    assert!(wait_until(TIMEOUT, || is_bound_to_udp(udp)));
    let datagrams = "-u -l 1000 -b 2m";
    for (port, options, sends, receives) in [
        (tcp.port, "-l 10000 -b 8m", true, false),
        (tcp.port, "-l 10000 -b 8m -R", false, true),
        (tcp.port, "-l 10000 -b 8m --full-duplex -P 2", true, true),
        (udp, &format!("{datagrams} -P 2"), true, false),
        (udp, &format!("{datagrams} -R"), false, true),
    ] {
        let line = format!("iperf -c 127.0.0.1 -p {port} -t 0.4 {options} --json");
        let document = run_document(&line, 0);
        assert_moved_data(&line, &document, sends, receives);
        assert_eq!(document["peer"]["kind"], "iperf", "{line}");
    }
    let line = format!("iperf -c 127.0.0.1 -p {} -t 0.4 --bounceback", tcp.port);
    let bounceback = run_document(&format!("{line} --json"), 0);
    let figures = &first_run(&bounceback)["figures"];
    assert_eq!(figures["latency"]["count"], 10, "{figures}");
    assert!(figures["transactions_per_s"].is_f64(), "{figures}");
    let strict = run_document(&format!("{line} --json --strict"), 3);
    assert!(warning_kinds(&strict).contains(&"same_host"), "{strict}");
    let failed = run_document(&format!("iperf -c 127.0.0.1 -p {} --json", free_port()), 1);
    assert!(failed["error"].is_string() && failed["peer"]["kind"].is_null());
    let line = format!("iperf -c 127.0.0.1 -p {} -t 60 --json", tcp.port);
    assert_eq!(
        parse_valid(&line, &interrupted_stdout(&line, 0))["interrupted"],
        true
    );
}

fn documents_of_iperf3() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let line = |options: &str| {
        let port = server.port;
        format!("iperf3 -c 127.0.0.1 -p {port} {options} --linerate-json -")
    };
    for (options, sends, receives) in [
        ("-t 1 -i 0.3 -l 10000 -b 8M", true, false),
        ("-t 1 -i 0.3 -l 10000 -b 8M -R", false, true),
        ("-t 1 -i 0.3 -l 10000 -b 8M --bidir -P 2", true, true),
        ("-t 1 -O 1 -u -l 1000 -b 2M", true, false),
        ("-t 1 -i 0.3 -u -l 1000 -b 2M -R", false, true),
    ] {
        let line = line(options);
        let document = run_document(&line, 0);
        assert_moved_data(&line, &document, sends, receives);
        assert_eq!(document["peer"]["kind"], "iperf3", "{line}");
    }
    let strict = run_document(&line("-n 1M --strict"), 3);
    assert!(warning_kinds(&strict).contains(&"same_host"), "{strict}");
    assert_eq!(first_run(&strict)["ended"], "count");
    let rtt = &first_run(&strict)["local"]["smoothed_rtt"];
    assert!(rtt["p99_ns"].as_u64() >= rtt["p50_ns"].as_u64(), "{rtt}");
    let port = free_port();
    let failed = run_document(
        &format!("iperf3 -c 127.0.0.1 -p {port} --linerate-json -"),
        1,
    );
    assert!(failed["error"].is_string() && failed["peer"]["kind"].is_null());
    let line = line("-t 60 --strict");
    let partial = parse_valid(&line, &interrupted_stdout(&line, 3));
    assert_eq!(partial["interrupted"], true);
    assert_eq!(first_run(&partial)["ended"], "cancelled");
    assert!(
        warning_kinds(&partial).contains(&"ended_early"),
        "{partial}"
    );
}

/// Starts an iperf 2 server for TCP at a free port.
fn start_iperf() -> Server {
    Server::start_with(|port| format!("iperf -s -p {port}"))
}

/// Checks that the test moved data in the expected directions, and that both ends' counts agree. A
/// paced sender reports its gaps.
fn assert_moved_data(line: &str, document: &Value, sends: bool, receives: bool) {
    let run = first_run(document);
    let count = |side: &str, counter: &str| run[side]["counts"][counter].as_u64().unwrap_or(0);
    for (is_moved, from, to) in [(sends, "local", "remote"), (receives, "remote", "local")] {
        let bytes = [count(from, "sent_bytes"), count(to, "received_bytes")];
        assert_eq!(is_moved, bytes[0] > 0 && bytes[1] > 0, "{line}: {run}");
        // With -O, each end omits the first seconds by its own clock.
        let is_complete = !line.contains(" -O ");
        assert!(bytes[1] <= bytes[0] || !is_complete, "{line}: {bytes:?}");
    }
    let gaps = run["local"]["send_gaps"]["count"].as_u64();
    assert_eq!(gaps > Some(1), sends, "{line}: {gaps:?}");
    let figures = &run["figures"];
    assert!(figures["throughput_bps"].is_f64(), "{line}: {figures}");
    let is_udp = line.contains(" -u ");
    let datagrams = &figures["datagrams"];
    assert_eq!(datagrams["sent"].as_u64() > Some(1), is_udp, "{line}");
    assert!(
        datagrams["lost"].as_u64() <= datagrams["sent"].as_u64(),
        "{line}: {datagrams}"
    );
    assert!(run["local"]["cpu"].is_object(), "{line}");
    let samples = run["series"][0]["samples"].as_array();
    assert!(samples.map(Vec::len) > Some(2), "{line}: {run}");
}

fn start_responder() -> Server {
    Server::start_with(|port| format!("udpmon_resp -u {port}"))
}

/// A document has one test per size and gap. With packet records it also has their figures and the
/// clock fit.
fn documents_of_udpmon() {
    let responder = start_responder();
    let to = format!("-d 127.0.0.1 -u {}", responder.port);
    let line = format!("udpmon_bw_mon {to} -p 200 -l 40 -w 100 -G 40 --json");
    let with_records = run_document(&line, 0);
    let run = &with_records["tests"][0]["runs"][0];
    assert_eq!(run["packet_figures"]["numbers"], 40, "{run}");
    assert!(run["clock_fit"]["least_rtt_ns"].as_u64() > Some(0), "{run}");
    assert_eq!(run["local"]["spacing_result"]["sent"], 40, "{run}");
    let line = format!("udpmon_bw_mon {to} --sizes 64,200 --gaps 20,50 -l 20 --json");
    let sweep = run_document(&line, 0);
    assert_eq!(sweep["tests"].as_array().map(Vec::len), Some(4));
    let flow = &sweep["tests"][3]["plan"]["groups"][0]["body"]["loop"];
    assert_eq!(flow["local"]["spacing"]["gap_ns"], 50_000, "{flow}");
    run_document(&format!("udpmon_req {to} -p 64 -r 64 -l 5 --json"), 0);
    run_document(&format!("udpmon_send {to} -p 64 -l 5 --json"), 0);
}

fn json_is_refused_where_it_has_no_use() {
    for (line, expected_part) in [
        ("-- -o", "test options -o, -O and -k"),
        ("-D 1", "contradicts -D"),
        ("-v 2", "contradicts -v"),
        ("-B brand", "contradicts -B"),
        ("-f k", "contradicts -f"),
        ("-t LOC_CPU", "LOC_CPU moves no data"),
    ]
    .map(|(options, expected_part)| (format!("netperf --json {options}"), expected_part))
    .into_iter()
    .chain([
        (
            "iperf -c 127.0.0.1 --json -y C".to_owned(),
            "cannot be combined with -y",
        ),
        ("iperf -c 127.0.0.1 --json -o x".to_owned(), "or -o"),
        ("iperf -s --json".to_owned(), "client options"),
        (
            "iperf3 -c 127.0.0.1 --linerate-json - -J".to_owned(),
            "cannot be combined with -J",
        ),
        ("iperf3 -s --linerate-json -".to_owned(), "client only"),
    ]) {
        let output = run(linerate_with_args(&line), TIMEOUT).expect("linerate exits in time");
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(
            output.code != Some(0) && text.contains(expected_part),
            "{line}: {output:?}"
        );
    }
}

/// Each page has a content security policy with the hashes of its styles and scripts, and refers to
/// no other resource.
fn pages_load_nothing() {
    let server = Server::start("");
    let slave = Server::start_slave("");
    let iperf2 = start_iperf();
    let iperf3 = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let directory = tempfile::tempdir().expect("the directory for temporary files is writable");
    let path = directory.path().join("page.html");
    let file = path.display();
    let lines = [
        format!("run -l 1 -t TCP_STREAM,TCP_RR --parallel 2 --html {file}"),
        format!("run 127.0.0.1 --port {} -l 1 --html {file}", free_port()),
        format!(
            "netperf -H 127.0.0.1 -p {} -l 1 -j -t TCP_RR --html {file}",
            server.port
        ),
        format!(
            "iperf -c 127.0.0.1 -p {} -t 0.4 -P 2 --html {file}",
            iperf2.port
        ),
        format!(
            "iperf -c 127.0.0.1 -p {} -t 0.4 --bounceback --html {file}",
            iperf2.port
        ),
        format!(
            "iperf3 -c 127.0.0.1 -p {} -n 1M --bidir --html {file}",
            iperf3.port
        ),
    ];
    for line in lines {
        run(linerate_with_args(&line), TIMEOUT).expect("linerate exits in time");
        assert_page_loads_nothing(&std::fs::read_to_string(&path).expect(&line));
        std::fs::remove_file(&path).expect("the page is removable");
    }
    let responder = start_responder();
    for option in ["html", "plot"] {
        let to = format!("-d 127.0.0.1 -u {}", responder.port);
        let line = format!("udpmon_bw_mon {to} -p 200 -l 40 -w 100 -G 40 --{option} {file}");
        run(linerate_with_args(&line), TIMEOUT).expect("linerate exits in time");
        let page = std::fs::read_to_string(&path).expect(&line);
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 3, "{line}");
        assert_page_loads_nothing(&page);
        std::fs::remove_file(&path).expect("the page is removable");
    }
    let output = slave.run_profile(&format!("--html {file}"), &Profile::requests().text());
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_page_loads_nothing(&std::fs::read_to_string(&path).expect("uperf wrote the page"));
}

fn assert_page_loads_nothing(page: &str) {
    let policy = page.split_once("Content-Security-Policy\" content=\"");
    let policy = policy
        .and_then(|(_, policy)| policy.split_once('"'))
        .expect("the page has a policy")
        .0;
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for (start, end, expected) in [
        ("<style>", "</style>", 3..=3),
        ("<script>", "</script>", 0..=2),
    ] {
        let mut count = 0;
        for part in page.split(start).skip(1) {
            let (text, _) = part.split_once(end).expect("the element has an end");
            let hash = sha2::Sha256::digest(text.as_bytes());
            let hash = base64::engine::general_purpose::STANDARD.encode(hash);
            assert!(
                policy.contains(&format!("'sha256-{hash}'")),
                "{hash}: {policy}"
            );
            count += 1;
        }
        assert!(expected.contains(&count), "{count} {start}");
    }
    for reference in [
        " src=",
        "url(",
        "@import",
        "<iframe",
        "<form",
        "<base",
        "<object",
        " style=\"",
        " onload=",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert_eq!(page.matches(" href=").count(), 1);
    assert!(page.contains("href=\"data:,\""));
    assert!(page.ends_with("</html>\n"));
}
