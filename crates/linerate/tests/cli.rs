//! linerate's own command line: help texts, links, manual pages, and `linerate run` on loopback.
//! `BLESS=1` writes the help texts into the snapshots.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Server, TestCase, TestProcess};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        closed_pipe_keeps_exit_code,
        reports_output_that_cannot_be_written,
        fifo_without_reader_does_not_block,
        run_accepts_host_with_port,
        help,
        passes_arguments_to_dialect_unchanged,
        reports_usage_errors_with_exit_code_2,
        manual_has_valid_page_for_each_name,
        creates_links_and_overwrites_nothing,
        runs_two_tests_as_json,
        prints_plain_table_without_terminal,
        runs_every_transport,
        repeats_until_interval_is_reached,
        reports_absent_peer_in_valid_document,
        succeeds_quietly_without_reader,
        interrupted_run_reports_partial_result,
    ]
}

fn help() {
    for (arguments, file) in [
        (&[][..], "help-short.txt"),
        (&["--help"], "help.txt"),
        (&["help", "netperf"], "help-netperf.txt"),
        (&["help", "run"], "help-run.txt"),
    ] {
        let output = run_linerate(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_matches_snapshot(file, &stdout(&output));
    }
    assert_eq!(
        stdout(&run_linerate(&["--version"])),
        concat!("linerate ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

fn passes_arguments_to_dialect_unchanged() {
    let help = run_linerate(&["netperf", "-h"]);
    assert_eq!(help.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&help.stderr)
            .starts_with("\nUsage: netperf [global options] -- [test options]")
    );
    let version = run_linerate(&["netperf", "-V"]);
    assert!(stdout(&version).starts_with("Netperf version 2.7.1\n"));
    // The second -h is an option of the test, after `--`.
    let test_help = run_linerate(&["netperf", "--", "-h"]);
    assert!(
        stdout(&test_help).contains("-m local,remote"),
        "{}",
        stdout(&test_help)
    );
}

fn reports_usage_errors_with_exit_code_2() {
    for arguments in [
        &["walk"][..],
        &["--quick"],
        &["run", "-l", "0"],
        &["run", "--port", "1"],
        &["run", "-6"],
        &["run", "--transport", "xti"],
        &["run", "--transport", "llc2"],
        &["run", "--transport", "udp", "-t", "TCP_RR"],
        &["run", "2", "--transport", "vsock", "-4"],
        &["run", "--confidence", "98"],
        &["run", "--data-port", "0"],
        &["run", "--udp-rate", "fast"],
        &["run", "--udp-rate", "10mbit", "-t", "UDP_RR"],
        &["run", "--data-port", "5001", "--transport", "unix"],
        &["run", "--confidence", "99,0"],
    ] {
        let output = run_linerate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
    for (arguments, expected_part) in [
        (
            ["run", "-l", "1.5"],
            "the protocol carries whole seconds only",
        ),
        (
            ["run", "-l", "1500ms"],
            "the protocol carries whole seconds only",
        ),
        (["run", "-l", "x"], "not a duration: use seconds"),
        (["run", "-l", "10x"], "or numbers with h, m, s"),
        (["run", "-l", "3d"], "not a duration"),
        (["run", "-l", "1K"], "not a duration"),
        (
            ["run", "--udp-rate", "10mbps"],
            "use a number with bit, kbit, mbit",
        ),
        (
            ["run", "--udp-rate", "10"],
            "use a number with bit, kbit, mbit",
        ),
        (
            ["serve", "--max-rate", "10mbps"],
            "use a number with bit, kbit, mbit",
        ),
        (
            ["serve", "--max-rate", "10"],
            "use a number with bit, kbit, mbit",
        ),
        (["serve", "--max-seconds", "10x"], "not a duration"),
        (["serve", "--drain-on-exit", "3d"], "not a duration"),
        (["run", "host:x", "--json"], "'x' is not a port"),
        (["run", "[::1", "--json"], "the bracket is not closed"),
        (["run", "-l", "-5"], "unexpected argument '-5'"),
        (["run", "-l", "169h"], "a test takes at most 604800 seconds"),
        (
            ["run", "--warm-up", "0.5"],
            "the protocol carries whole seconds only",
        ),
    ] {
        let output = run_linerate(&arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text.contains(expected_part), "{arguments:?}: {text}");
    }
    let output = run_linerate(&["run", "-t", "TCP_RR,TCP_WALK"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.starts_with("linerate run: unknown test 'TCP_WALK' in -t")
            && text.lines().count() == 1,
        "{text}"
    );
}

/// If groff is installed, it reports no warnings about the pages.
fn manual_has_valid_page_for_each_name() {
    let directory = tempfile::tempdir().unwrap();
    let output = run_linerate(&["man", directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for (page, expected_parts) in [
        (
            "netperf.1",
            &["\\-\\-strict", "TCP_MAERTS", "P99.9_LATENCY"][..],
        ),
        ("netserver.1", &["\\-\\-allow\\-fill\\-dir", "inetd"]),
        ("uperf.1", &["\\-\\-check", "slave"]),
        ("iperf.1", &["\\-\\-bounceback", "TCP_WINDOW_SIZE"]),
        ("iperf3.1", &["\\-\\-max\\-tests", "IPERF3_PASSWORD"]),
        ("udpmon.1", &["udpmon bw_mon", "udpmon_resp(1)"]),
        ("udpmon_bw_mon.1", &["\\-\\-search", "udpmon_resp(1)"]),
        ("udpmon_resp.1", &["\\-\\-max\\-records", "14233"]),
        ("super_netperf.1", &["flows", "netperf(1)"]),
        ("super-netperf.1", &["flows port", "k8s\\-netperf"]),
        (
            "linerate.1",
            &["linerate run", "\\-\\-warm\\-up", "[default: 12865]"],
        ),
    ] {
        let path = directory.path().join(page);
        let text = fs::read_to_string(&path).unwrap();
        for part in expected_parts {
            assert!(text.contains(part), "no {part} in {page}");
        }
        match Command::new("groff")
            .args(["-man", "-ww", "-z"])
            .arg(&path)
            .output()
        {
            Ok(groff) => assert_eq!(String::from_utf8_lossy(&groff.stderr), "", "{page}"),
            Err(error) if testkit::requirements_are_mandatory() => {
                panic!("groff over {page}: {error}")
            }
            Err(error) => println!("SKIPPED groff over {page}: {error}"),
        }
    }
    let page = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    // An option without a long name is listed once.
    assert!(!page("linerate.1").contains("\\-4, \\-4"));
    // Each program name has a page.
    let links = tempfile::tempdir().unwrap();
    run_linerate(&["links", links.path().to_str().unwrap()]);
    for link in fs::read_dir(links.path()).unwrap() {
        let name = link.unwrap().file_name().into_string().unwrap();
        assert!(page(&format!("{name}.1")).contains(".TH"), "{name}");
    }
    // README installs into a new directory.
    let new_directory = links.path().join("share/man/man1");
    let output = run_linerate(&["man", new_directory.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(new_directory.join("netperf.1").exists());
    let output = run_linerate(&["man", "/proc/no/such/directory"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("linerate man: /proc/no/such"));
}

fn creates_links_and_overwrites_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let create_links = || run_linerate(&["links", path.to_str().unwrap()]);
    fs::remove_dir(path).unwrap();
    let created = create_links();
    assert_eq!(created.status.code(), Some(0));
    assert_eq!(
        stdout(&created)
            .lines()
            .filter(|line| line.starts_with("created "))
            .count(),
        13
    );
    assert!(
        stdout(&create_links())
            .lines()
            .all(|line| line.starts_with("kept "))
    );

    let version = Command::new(path.join("netperf"))
        .arg("-V")
        .output()
        .unwrap();
    assert!(stdout(&version).starts_with("Netperf version 2.7.1\n"));

    fs::remove_file(path.join("netperf")).unwrap();
    fs::remove_file(path.join("netserver")).unwrap();
    let foreign = path.join("netserver");
    let occupy: [&dyn Fn(); 3] = [
        &|| fs::write(&foreign, "x").unwrap(),
        &|| symlink("/bin/sh", &foreign).unwrap(),
        &|| symlink("/missing", &foreign).unwrap(),
    ];
    for occupy in occupy {
        occupy();
        let refused = create_links();
        assert_eq!(refused.status.code(), Some(1));
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains("netserver exists and is not a link")
        );
        assert!(
            !path.join("netperf").exists(),
            "no link is created if a file is in the way"
        );
        fs::remove_file(&foreign).unwrap();
    }
}

/// Every program reports a full disk and exits with 1.
fn reports_output_that_cannot_be_written() {
    let directory = testkit::short_path_dir();
    let histogram = directory.path().join("histogram");
    let histogram = histogram.to_str().unwrap();
    run_linerate(&["run", "-l", "1", "-t", "TCP_RR", "--histogram", histogram]);
    let server = Server::start_with(|port| {
        let status = directory.path().join("status");
        format!(
            "serve --status {} --netperf-port {port} --iperf-port 0 --iperf3-port 0 \
             --uperf-port 0 --udpmon-port 0",
            status.display()
        )
    });
    let status = directory.path().join("status");
    let listening = server.stderr();
    let port = |name: &str| {
        let mut words = listening.split_whitespace();
        words.find(|word| *word == name).unwrap();
        words.next().unwrap().trim_end_matches(',').to_owned()
    };
    let (iperf, iperf3, udpmon) = (port("iperf"), port("iperf3"), port("udpmon"));
    let pages = directory.path().join("pages");
    let links = directory.path().join("links");
    for line in [
        format!("netperf -p {} -H 127.0.0.1 -l -1000", server.port),
        format!("netperf -p {} -H 127.0.0.1 -l -1000 --json", server.port),
        "netperf -V".to_owned(),
        format!("iperf -c 127.0.0.1 -p {iperf} -n 1000"),
        format!("iperf3 -c 127.0.0.1 -p {iperf3} -n 1000"),
        format!("iperf3 -c 127.0.0.1 -p {iperf3} -n 1000 -J"),
        format!("iperf3 -c 127.0.0.1 -p {iperf3} -n 1000 --logfile /dev/full"),
        format!("udpmon_req -d 127.0.0.1 -u {udpmon} -p 64 -l 2"),
        format!("udpmon_bw_mon -d 127.0.0.1 -u {udpmon} -p 1000 -l 10 -w 100"),
        "uperf -h".to_owned(),
        format!("histogram {histogram}"),
        format!("status --status {}", status.display()),
        format!("status --json --status {}", status.display()),
        "run -l 1 -t TCP_RR".to_owned(),
        "run -l 1 -t TCP_RR --json".to_owned(),
        format!("links {}", links.display()),
        format!("man {}", pages.display()),
        "--help".to_owned(),
        "help run".to_owned(),
        "--version".to_owned(),
    ] {
        let mut command = testkit::linerate_with_args(&line);
        command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let message = "cannot write the output: No space left on device";
        assert!(
            output.status.code() == Some(1) && stderr.contains(message),
            "{line}: {output:?}"
        );
    }
}

/// A FIFO without a reader is an error. It neither blocks the program nor keeps it from ending.
fn fifo_without_reader_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for option in ["--linerate-json", "--logfile"] {
        let line = format!(
            "iperf3 -c 127.0.0.1 -p {} -n 1000 {option} {}",
            server.port,
            fifo.display()
        );
        let client = TestProcess::start(&mut testkit::linerate_with_args(&line));
        let output = client.finish(Duration::from_secs(60));
        assert!(
            output.code == Some(1) && output.stderr.contains("no program reads from it"),
            "{output:#?}"
        );
    }
}

fn run_accepts_host_with_port() {
    let server = Server::start("");
    let port = server.port;
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let target = format!("{host}:{port}");
        let output = run_linerate(&["run", &target, "-l", "1", "-t", "TCP_RR", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{target}: {output:?}");
    }
    let port = port.to_string();
    let output = run_linerate(&["run", "[::1]", "--port", &port, "-l", "1", "-t", "TCP_RR"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = run_linerate(&["run", "localhost:1", "--port", "2"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

fn runs_two_tests_as_json() {
    let output = run_linerate(&["run", "-l", "1s", "-t", "TCP_STREAM,udp_rr", "--json"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stderr.is_empty(), "progress without a terminal");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "linerate/3");
    assert_eq!(document["peer"]["kind"], "linerate");
    assert_eq!(document["peer"]["embedded"], true);
    assert!(document["error"].is_null());
    for end in ["local", "remote"] {
        for fact in ["kernel", "cpus", "mtu_bytes", "congestion_control"] {
            assert!(!document["hosts"][end][fact].is_null(), "{end} {fact}");
        }
    }
    let [stream, transactions] = [0, 1].map(|index| &document["tests"][index]);
    assert_eq!(
        stream["plan"]["groups"][0]["body"]["loop"]["limit"]["time_ns"],
        1_000_000_000_u64
    );
    assert!(stream["figures"]["throughput_bps"].as_f64().unwrap() > 0.0);
    assert!(stream["figures"]["transactions_per_s"].is_null());
    assert_eq!(transactions["name"], "UDP_RR");
    assert!(
        transactions["figures"]["latency"]["p99_ns"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(transactions["runs"][0]["remote"]["cpu"]["busy_percent"].is_number());
    assert_eq!(transactions["warnings"][0]["kind"], "same_host");
}

fn prints_plain_table_without_terminal() {
    let output = run_linerate(&[
        "run",
        "-l",
        "1",
        "-t",
        "TCP_RR",
        "--repeat",
        "2",
        "--parallel",
        "2",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(!text.contains('\u{1b}') && output.stderr.is_empty());
    assert!(
        text.contains("tran/s") && text.contains("2 flows at once, the median of 2 runs"),
        "{text}"
    );
}

/// The report is about the requested transport, or names the support that this kernel lacks.
fn runs_every_transport() {
    for (transport, tests) in [
        ("tcp", "STREAM,CC"),
        ("udp", "STREAM,RR"),
        ("mptcp", "STREAM,MAERTS,TCP_RR,CRR,CC"),
        ("udplite", "STREAM,RR"),
        ("sctp", "STREAM,MAERTS,RR,CRR,CC"),
        ("sctp-many", "STREAM,RR"),
        ("dccp", "STREAM,MAERTS,RR,CRR,CC"),
        ("unix", "STREAM,RR"),
        ("unix-datagram", "STREAM,RR"),
        ("vsock", "STREAM,MAERTS,RR,CRR,CC"),
    ] {
        let output = run_linerate(&[
            "run",
            "-l",
            "1",
            "--transport",
            transport,
            "-t",
            tests,
            "--json",
        ]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        if let Some(error) = document["error"].as_str() {
            // Not every kernel has these transports. lab/suite/transports.sh checks their figures.
            let optional = ["sctp", "sctp-many", "dccp", "vsock"];
            assert!(
                optional.contains(&transport) && error.contains("this kernel has no"),
                "{transport}: {error}"
            );
            assert_eq!(output.status.code(), Some(1), "{transport}");
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{transport}");
        for test in document["tests"].as_array().unwrap() {
            let (name, figures) = (&test["name"], &test["figures"]);
            assert_eq!(
                test["plan"]["groups"][0]["body"]["loop"]["transport"]
                    .as_str()
                    .unwrap()
                    .replace('_', "-"),
                match transport {
                    "udplite" => "udp-lite",
                    "unix" => "unix-stream",
                    name => name,
                }
            );
            let rate = [&figures["throughput_bps"], &figures["transactions_per_s"]]
                .into_iter()
                .find_map(Value::as_f64);
            assert!(rate.is_some_and(|rate| rate > 0.0), "{name}: {figures}");
        }
    }
}

fn repeats_until_interval_is_reached() {
    let confidence = |options: &[&str]| {
        let common = ["run", "-l", "1", "-t", "TCP_RR", "--json"];
        let output = run_linerate(&[&common, options].concat());
        assert_eq!(output.status.code(), Some(0));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let test = document["tests"][0].clone();
        assert_eq!(
            test["confidence"]["iterations"].as_u64(),
            test["runs"].as_array().map(|runs| runs.len() as u64)
        );
        test["confidence"].clone()
    };
    // The interval of any three rates at 99 % is less than twenty times as wide as their mean.
    let wide = confidence(&["--confidence", "99,2000"]);
    assert_eq!(
        (&wide["level_percent"], &wide["iterations"]),
        (&99.into(), &3.into())
    );
    assert_eq!(wide["target_width_percent"], 2000.0);
    assert_eq!(wide["is_reached"], true);
    let half_width = wide["rate_half_width_percent"].as_f64().unwrap();
    assert!((0.0..1000.0).contains(&half_width), "{half_width}");
    let narrow = confidence(&["--confidence", "95,0.000001", "--repeat", "4"]);
    assert_eq!(
        (&narrow["iterations"], &narrow["is_reached"]),
        (&4.into(), &false.into())
    );
    let fixed = confidence(&["--repeat", "2"]);
    assert_eq!(
        (&fixed["level_percent"], &fixed["iterations"]),
        (&95.into(), &2.into())
    );
    assert!(fixed["target_width_percent"].is_null() && fixed["is_reached"].is_null());
}

fn reports_absent_peer_in_valid_document() {
    // The port is free again.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        .to_string();
    let output = run_linerate(&[
        "run",
        "127.0.0.1",
        "--port",
        &port,
        "-t",
        "TCP_STREAM,TCP_RR",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["error"].as_str().unwrap().contains(&port));
    // A failure that affects all tests ends the run.
    assert_eq!(document["tests"].as_array().unwrap().len(), 1);
    assert!(document["tests"][0]["figures"].is_null());
    assert_eq!(document["not_run"], serde_json::json!(["TCP_RR"]));
}

fn succeeds_quietly_without_reader() {
    let mut child = Command::new(testkit::linerate_path())
        .args(["run", "-l", "1", "-t", "TCP_RR"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

fn interrupted_run_reports_partial_result() {
    let line = "run -l 60 -t TCP_RR,TCP_STREAM --json";
    let mut child = TestProcess::start(&mut testkit::linerate_with_args(line));
    // Only a running test uses 0.2 s of CPU time.
    child.wait_for_cpu_ticks(20);
    child.signal(Signal::INT);
    let output = child.finish(Duration::from_secs(20));
    assert_eq!(output.code, Some(130));
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["tests"][0]["runs"][0]["ended"], "cancelled");
    assert!(
        document["tests"][0]["figures"]["transactions_per_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert!(
        document["not_run"]
            .as_array()
            .unwrap()
            .contains(&"TCP_STREAM".into())
    );
}

fn run_linerate(arguments: &[&str]) -> Output {
    Command::new(testkit::linerate_path())
        .args(arguments)
        .env_remove("COLUMNS")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn assert_matches_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    assert_eq!(
        text,
        fs::read_to_string(&path).unwrap_or_default(),
        "{}",
        path.display()
    );
}

/// `program 2>&1 | head` must not abort the program.
fn closed_pipe_keeps_exit_code() {
    for (line, code) in [
        ("nonsense", 2),
        ("netperf -H 127.0.0.1 -p 1", 255),
        ("uperf -m /no/such/profile", 1),
        ("iperf -c 127.0.0.1 -p 1", 1),
        ("iperf3 -c 127.0.0.1 -p 1", 1),
        ("udpmon", 1),
        ("udpmon -h", 0),
        ("udpmon_bw_mon -d 127.0.0.1 -u 1 -l 1", 1),
        ("serve --auth /no/such/file", 1),
        ("status --status /no/such/socket", 1),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = testkit::linerate_with_args(line);
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let status = command.status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}: {status}");
    }
}
