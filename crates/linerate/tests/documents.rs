//! The JSON document and the HTML page of every command: one schema, and pages that need nothing but themselves.

use std::time::Duration;

use base64::Engine as _;
use jsonschema::Validator;
use rustix::process::Signal;
use serde_json::Value;
use sha2::Digest as _;
use testkit::{Process, Profile, Server, Trial, free_port, linerate, run};

pub(crate) fn trials() -> Vec<Trial> {
    testkit::trials![
        documents_of_runs,
        documents_of_netperf,
        documents_of_uperf,
        json_contradicts_other_output,
        pages_load_nothing,
    ]
}

const LIMIT: Duration = Duration::from_secs(60);

const SCHEMA: &str = include_str!("../../../docs/schema/linerate-2.json");

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    jsonschema::draft202012::new(&schema).expect("the schema is one")
}

/// The document that a command prints, which is valid and all that it prints.
fn document(line: &str, code: i32) -> Value {
    let ended = run(linerate(line), LIMIT).expect("it ends");
    assert_eq!(ended.code, Some(code), "{line}: {ended:?}");
    valid(line, &ended.stdout)
}

fn valid(line: &str, text: &str) -> Value {
    let document: Value = serde_json::from_str(text).expect(line);
    let errors: Vec<String> = validator()
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{line}: {errors:#?}");
    document
}

fn documents_of_runs() {
    let usual = document("run -l 1 --json", 0);
    assert_eq!(usual["tests"].as_array().map(Vec::len), Some(6));
    let both = document(
        "run -l 1 -t TCP_STREAM,UDP_STREAM --bidirectional --parallel 2 --json",
        0,
    );
    assert_eq!(
        both["tests"][0]["runs"][0]["flows"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
    let confident = document("run -l 1 -t TCP_RR --confidence 95,50 --json", 0);
    assert!(confident["tests"][0]["confidence"]["iterations"].as_u64() >= Some(3));
    let failed = document(
        &format!("run 127.0.0.1 --port {} -l 1 --json", free_port()),
        1,
    );
    assert!(failed["error"].is_string() && failed["tests"][0]["error"].is_string());
    let line = "run -l 60 -t TCP_RR --json";
    let cut = valid(line, &interrupted(line, 130));
    assert_eq!(cut["interrupted"], true);
    assert_eq!(cut["tests"][0]["runs"][0]["interrupted"], true);
}

fn interrupted(line: &str, code: i32) -> String {
    let mut child = Process::start(&mut linerate(line));
    child.await_cpu_ticks(20);
    child.signal(Signal::INT);
    let ended = child.finish(LIMIT);
    assert_eq!(ended.code, Some(code), "{line}: {ended:?}");
    ended.stdout
}

fn documents_of_netperf() {
    let server = Server::start("");
    let to = format!("-H 127.0.0.1 -p {}", server.port);
    for test in ["TCP_STREAM", "TCP_RR", "TCP_CRR", "UDP_STREAM", "OMNI"] {
        let line = format!("netperf {to} -t {test} -l 1 -c -C -j --json");
        let document = document(&line, 0);
        let [test] = &document["tests"].as_array().expect(&line)[..] else {
            panic!("{line}: one test");
        };
        let samples = &test["runs"][0]["series"][0]["samples"];
        assert!(
            samples.as_array().map(Vec::len) > Some(10),
            "{line}: {samples}"
        );
        assert!(test["runs"][0]["here"]["cpu"].is_object(), "{line}");
        assert_eq!(document["peer"]["kind"], "linerate", "{line}");
    }
    let flows = document(&format!("netperf {to} -l 1 --parallel 3 --json"), 0);
    assert_eq!(
        flows["tests"][0]["runs"][0]["flows"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    let both = format!("netperf {to} -t OMNI -l 1 --bidirectional --json");
    let plan = &document(&both, 0)["tests"][0]["plan"];
    assert_eq!(plan["groups"].as_array().map(Vec::len), Some(2), "{plan}");
    let confident = document(&format!("netperf {to} -t TCP_RR -l 1 -i 3,3 --json"), 0);
    assert_eq!(
        confident["tests"][0]["runs"].as_array().map(Vec::len),
        Some(3)
    );
    assert_eq!(confident["tests"][0]["confidence"]["iterations"], 3);
    let failed = document(
        &format!("netperf -H 127.0.0.1 -p {} --json", free_port()),
        255,
    );
    assert!(failed["error"].is_string() && failed["peer"]["kind"].is_null());
    let line = format!("netperf {to} -t TCP_RR -l 60 --json");
    let cut = valid(&line, &interrupted(&line, 0));
    assert_eq!(cut["interrupted"], true);
}

fn documents_of_uperf() {
    let slave = Server::slave("");
    let profile = Profile::requests()
        .group("nthreads=3 name=streams")
        .once("connect remotehost=$h protocol=tcp")
        .transaction("iterations=100", &["write size=8k count=2"])
        .text();
    for options in ["--json", "--json -t -f -p -E page-faults,cycles -H stdout"] {
        let ended = slave.run_profile(options, &profile);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let document = valid(options, &ended.stdout);
        assert_eq!(
            document["tests"][0]["runs"][0]["groups"]
                .as_array()
                .map(Vec::len),
            Some(2)
        );
    }
}

fn json_contradicts_other_output() {
    for (options, why) in [
        ("-- -o", "test options -o, -O and -k"),
        ("-D 1", "contradicts -D"),
        ("-v 2", "contradicts -v"),
        ("-B brand", "contradicts -B"),
        ("-f k", "contradicts -f"),
        ("-t LOC_CPU", "LOC_CPU moves no data"),
    ] {
        let ended = run(linerate(&format!("netperf --json {options}")), LIMIT).expect("it ends");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(
            ended.code != Some(0) && said.contains(why),
            "{options}: {ended:?}"
        );
    }
}

/// Each page has its policy, whose hashes are those of its own styles and scripts, and no reference to
/// anything else.
fn pages_load_nothing() {
    let server = Server::start("");
    let slave = Server::slave("");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let file = path.display();
    let lines = [
        format!("run -l 1 -t TCP_STREAM,TCP_RR --parallel 2 --html {file}"),
        format!("run 127.0.0.1 --port {} -l 1 --html {file}", free_port()),
        format!(
            "netperf -H 127.0.0.1 -p {} -l 1 -j -t TCP_RR --html {file}",
            server.port
        ),
    ];
    for line in lines {
        run(linerate(&line), LIMIT).expect("it ends");
        page_stands_alone(&std::fs::read_to_string(&path).expect(&line));
        std::fs::remove_file(&path).expect("it is ours");
    }
    let ended = slave.run_profile(&format!("--html {file}"), &Profile::requests().text());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    page_stands_alone(&std::fs::read_to_string(&path).expect("uperf's"));
}

fn page_stands_alone(page: &str) {
    let policy = page.split_once("Content-Security-Policy\" content=\"");
    let policy = policy
        .and_then(|(_, rest)| rest.split_once('"'))
        .expect("a policy")
        .0;
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for (start, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
        let mut count = 0;
        for part in page.split(start).skip(1) {
            let (text, _) = part.split_once(end).expect("an end");
            let hash = sha2::Sha256::digest(text.as_bytes());
            let hash = base64::engine::general_purpose::STANDARD.encode(hash);
            assert!(
                policy.contains(&format!("'sha256-{hash}'")),
                "{hash}: {policy}"
            );
            count += 1;
        }
        assert_eq!(count, 2, "{start}");
    }
    for way in [
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
        assert!(!page.contains(way), "{way}");
    }
    assert_eq!(page.matches(" href=").count(), 1);
    assert!(page.contains("href=\"data:,\""));
    assert!(page.ends_with("</html>\n"));
}
