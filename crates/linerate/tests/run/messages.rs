//! Error messages of the system, without the error number that Rust's library adds.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use testkit::{ProcessOutput, Profile, Server, free_port, linerate_with_args, run};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![messages_have_no_error_number, describes_full_disk,]
}

/// Time limit of each program, ample for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Each case fails with a system error: command line, and a part of the message.
fn messages_have_no_error_number() {
    let directory = tempfile::tempdir().unwrap();
    let directory_name = directory.path().display();
    fs::write(directory.path().join("log"), "").unwrap();
    let profile = directory.path().join("profile.xml");
    fs::write(&profile, profile_without_slave()).unwrap();
    let profile = profile.display();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let used_port = listener.local_addr().unwrap().port();
    let closed_port = free_port();
    let server = Server::start("");
    let server_options = format!("-H 127.0.0.1 -p {} -l 1", server.port);
    for (line, expected_part) in [
        (
            format!("netperf -H 127.0.0.1 -p {closed_port}"),
            "netserver",
        ),
        (
            format!("netperf {server_options} -F {directory_name}/none"),
            "none",
        ),
        (
            format!("netperf {server_options} -F ,{directory_name}"),
            "remote error",
        ),
        (
            format!("netperf {server_options} -L 192.0.2.77"),
            "192.0.2.77",
        ),
        (
            format!("netperf {server_options} -- -L 192.0.2.77"),
            "data socket",
        ),
        (
            format!("netperf {server_options} --histogram {directory_name}/no/log"),
            "--histogram",
        ),
        (
            format!("netperf {server_options} -t STREAM_STREAM -- -p {directory_name}/no"),
            "socket",
        ),
        (format!("netperf {server_options} -t SCTP_STREAM"), "SCTP"),
        (
            format!("super_netperf 2 {server_options} -F {directory_name}/no"),
            "no",
        ),
        (
            format!("netserver -D -L 127.0.0.1 -p {used_port}"),
            "Unable",
        ),
        ("netserver -D -L 192.0.2.77".to_owned(), "Unable"),
        (format!("run 127.0.0.1 --port {closed_port}"), "failed"),
        (
            format!("run --histogram {directory_name}/no/log"),
            "--histogram",
        ),
        (format!("histogram {directory_name}/none"), "none"),
        (
            format!("histogram {directory_name}/log -o {directory_name}/no/log"),
            "log",
        ),
        (format!("links {directory_name}/log/none"), "none"),
        ("man /dev/null".to_owned(), "/dev/null"),
        (format!("uperf -m {directory_name}/none"), "none"),
        (format!("uperf --check {directory_name}/none"), "none"),
        (format!("uperf -m {profile} -P {closed_port}"), "127.0.0.1"),
        (
            format!("uperf -m {profile} --html {directory_name}/no/page"),
            "page",
        ),
        (format!("uperf -s -P {used_port}"), "listen"),
        (
            format!("uperf -s --allow-dir {directory_name}/none"),
            "none",
        ),
    ] {
        let output = run(linerate_with_args(&line), TIMEOUT).unwrap();
        assert_no_error_number(&line, &output);
        let text = format!("{}{}", output.stdout, output.stderr);
        // The kernel may support SCTP.
        let succeeded = output.code == Some(0) && line.contains("SCTP");
        assert!(
            succeeded || text.contains(expected_part),
            "{line}: {output:?}"
        );
    }
    // The server logs its refusals.
    let log = server.stderr();
    assert!(log.contains("refused"), "{log}");
    assert!(!log.contains("os error"), "{log}");
}

fn describes_full_disk() {
    for line in ["run -l 1 -t TCP_RR", "run -l 1 -t TCP_RR --json"] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" {line} >/dev/full")]);
        command.arg(testkit::linerate_path());
        let output = run(command, TIMEOUT).unwrap();
        assert_no_error_number(line, &output);
        assert!(
            output.stderr.contains("No space left"),
            "{line}: {output:?}"
        );
        assert_eq!(output.code, Some(1));
    }
}

fn assert_no_error_number(line: &str, output: &ProcessOutput) {
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("os error"), "{line}: {output:?}");
    }
}

/// Returns a profile that connects to a slave. No slave runs.
fn profile_without_slave() -> String {
    let connect = "connect remotehost=127.0.0.1 protocol=tcp";
    Profile::new("p")
        .group("nthreads=1")
        .single_flowop(connect)
        .text()
}
