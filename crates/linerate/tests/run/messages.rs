//! Failures in the system's words, without the number that Rust's library adds to them.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use testkit::{ProcessOutput, Profile, Server, free_port, linerate_with_args, run};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![
        no_message_has_an_error_number,
        a_full_disk_is_described_in_words,
    ]
}

/// Long enough for a busy machine; none of these programs waits for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// Each way to fail with an error of the system: what is run, and a word of the message.
fn no_message_has_an_error_number() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    fs::write(directory.path().join("log"), "").unwrap();
    let profile = directory.path().join("profile.xml");
    fs::write(&profile, unserved()).unwrap();
    let profile = profile.display();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port();
    let closed = free_port();
    let server = Server::start("");
    let at_server = format!("-H 127.0.0.1 -p {} -l 1", server.port);
    for (line, word) in [
        (format!("netperf -H 127.0.0.1 -p {closed}"), "netserver"),
        (format!("netperf {at_server} -F {here}/none"), "none"),
        (format!("netperf {at_server} -F ,{here}"), "remote error"),
        (format!("netperf {at_server} -L 192.0.2.77"), "192.0.2.77"),
        (
            format!("netperf {at_server} -- -L 192.0.2.77"),
            "data socket",
        ),
        (
            format!("netperf {at_server} --histogram {here}/no/log"),
            "--histogram",
        ),
        (
            format!("netperf {at_server} -t STREAM_STREAM -- -p {here}/no"),
            "socket",
        ),
        (format!("netperf {at_server} -t SCTP_STREAM"), "SCTP"),
        (format!("super_netperf 2 {at_server} -F {here}/no"), "no"),
        (format!("netserver -D -L 127.0.0.1 -p {taken}"), "Unable"),
        ("netserver -D -L 192.0.2.77".to_owned(), "Unable"),
        (format!("run 127.0.0.1 --port {closed}"), "failed"),
        (format!("run --histogram {here}/no/log"), "--histogram"),
        (format!("histogram {here}/none"), "none"),
        (format!("histogram {here}/log -o {here}/no/log"), "log"),
        (format!("links {here}/none"), "none"),
        ("man /dev/null".to_owned(), "/dev/null"),
        (format!("uperf -m {here}/none"), "none"),
        (format!("uperf --check {here}/none"), "none"),
        (format!("uperf -m {profile} -P {closed}"), "127.0.0.1"),
        (format!("uperf -m {profile} --html {here}/no/page"), "page"),
        (format!("uperf -s -P {taken}"), "listen"),
        (format!("uperf -s --allow-dir {here}/none"), "none"),
    ] {
        let ended = run(linerate_with_args(&line), LIMIT).unwrap();
        has_no_number(&line, &ended);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        // Of SCTP a kernel may have all that it takes.
        let succeeded = ended.code == Some(0) && line.contains("SCTP");
        assert!(succeeded || said.contains(word), "{line}: {ended:?}");
    }
    // The server has its side of the refusals in its log.
    let log = server.stderr();
    assert!(log.contains("refused"), "{log}");
    assert!(!log.contains("os error"), "{log}");
}

fn a_full_disk_is_described_in_words() {
    for line in ["run -l 1 -t TCP_RR", "run -l 1 -t TCP_RR --json"] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" {line} >/dev/full")]);
        command.arg(testkit::program());
        let ended = run(command, LIMIT).unwrap();
        has_no_number(line, &ended);
        assert!(ended.stderr.contains("No space left"), "{line}: {ended:?}");
        assert_eq!(ended.code, Some(1));
    }
}

fn has_no_number(line: &str, ended: &ProcessOutput) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains("os error"), "{line}: {ended:?}");
    }
}

/// A connection to a slave that is not there.
fn unserved() -> String {
    let connect = "connect remotehost=127.0.0.1 protocol=tcp";
    Profile::new("p")
        .group("nthreads=1")
        .single_flowop(connect)
        .text()
}
