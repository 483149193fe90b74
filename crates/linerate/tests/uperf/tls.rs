//! Data over TLS.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use testkit::{
    LOOPBACK_HOSTS, ProcessOutput, Profile, Receive, Server, TestCase, UperfMaster, free_port,
    is_listening, linerate_with_args, read_profiles, run, short_path_dir, wait_until,
};

use super::{assert_ends_agree, request_profile};

/// Timeout of a run on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(40);

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        counts_agree_over_tls,
        selects_version_and_cipher,
        warns_about_unknown_engine,
        runs_manual_workloads,
        streams_end_at_deadline,
        sends_files,
        verifies_certificates,
        finds_stock_certificate_or_creates_one,
        slave_refuses_cipher_that_its_key_lacks,
        reports_failed_handshake_and_keeps_serving,
        silent_peer_does_not_delay_end_of_run,
    ]
}

fn tls_profile(options: &str) -> String {
    let options = format!("protocol=ssl {options}");
    request_profile().replace("protocol=tcp", options.trim_end())
}

/// Returns the path of a test file of the uperf crate.
fn data_path(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../uperf/tests/data");
    PathBuf::from(directory).join(name)
}

fn counts_agree_over_tls() {
    let slave = Server::start_slave("");
    let output = slave.run_profile("-a", &tls_profile(""));
    assert_ends_agree(&output);
    assert_eq!(output.statistics("master")[2], "445.31KB", "{output:?}");
    let accepting = tls_profile("").replace("\"connect\"", "\"accept\"");
    assert_ends_agree(&slave.run_profile("-a", &accepting));
    let larger = tls_profile("")
        .replace("size=64 count=4", "size=100000 count=3")
        .replace("size=200", "size=40000 timeout=5s")
        .replace("\"500\"", "\"50\"");
    assert_ends_agree(&slave.run_profile("", &larger));
}

fn selects_version_and_cipher() {
    let slave = Server::start_slave("");
    for options in [
        "method=TLSv1_2",
        "method=tlsv1_3 cipher=TLS_AES_128_GCM_SHA256",
        "cipher=ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256",
    ] {
        let output = slave.run_profile("", &tls_profile(options));
        assert_eq!(output.code, Some(0), "{options}: {output:?}");
        assert!(!output.stdout.contains("** "), "{options}: {output:?}");
    }
    for (options, expected) in [
        ("method=TLSv1", "method=TLSv1 is obsolete"),
        ("cipher=AES128-SHA", "cipher=AES128-SHA is unsupported"),
        (
            "method=TLSv1_3 cipher=ECDHE-RSA-AES128-GCM-SHA256",
            "different TLS versions",
        ),
    ] {
        let output = slave.run_profile("", &tls_profile(options));
        assert_eq!(output.code, Some(1), "{options}: {output:?}");
        let line = output.stderr.lines().find(|line| line.contains("error: "));
        let line = line.unwrap_or_else(|| panic!("{options}: {output:?}"));
        let expected = expected.to_lowercase();
        assert!(line.to_lowercase().contains(&expected), "{options}: {line}");
        assert!(line.contains(":5:"), "{options}: {line}");
    }
}

/// The profile is modelled on one of the uperf distribution.
fn warns_about_unknown_engine() {
    let profile = std::fs::read_to_string(data_path("profiles/ssl.xml")).expect("a valid profile");
    let output = Server::start_slave("").run_profile("", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.statistics("master")[2], "16.00KB", "{output:?}");
    assert_eq!(output.statistics("127.0.0.1")[2], "16.00KB", "{output:?}");
    let warning = ":5:66: warning: engine=pkcs11: engines need OpenSSL";
    assert!(output.stderr.contains(warning), "{output:?}");
}

fn runs_manual_workloads() {
    let slave = Server::start_slave("");
    for (name, profile) in read_profiles("workloads") {
        if !["connect", "iperf", "netperf"].contains(&&*name) {
            continue;
        }
        let profile = profile
            .replace("$proto", "ssl")
            .replace("protocol=tcp", "protocol=ssl")
            .replace("\"30s\"", "\"500ms\"")
            .replace("\"1000\"", "\"50\"");
        let output = slave.run_profile("", &profile);
        assert_eq!(output.code, Some(0), "{name}: {output:?}");
        assert!(
            !output.stdout.contains("Errors detected"),
            "{name}: {output:?}"
        );
        assert_ne!(output.statistics("master")[4], "0", "{name}: {output:?}");
    }
}

fn streams_end_at_deadline() {
    let stream = |flowop: &str| {
        Profile::new("stream")
            .group("nthreads=2")
            .single_flowop("connect remotehost=$h protocol=ssl")
            .transaction("duration=500ms", &[&format!("{flowop} size=64k")])
            .single_flowop("disconnect")
            .text()
    };
    let slave = Server::start_slave("");
    for flowop in ["write", "read"] {
        let start = Instant::now();
        let output = slave.run_profile("-a", &stream(flowop));
        assert_eq!(output.code, Some(0), "{flowop}: {output:?}");
        assert!(!output.stdout.contains("** "), "{flowop}: {output:?}");
        assert!(
            start.elapsed() < Duration::from_secs(8),
            "{flowop}: {output:?}"
        );
    }
}

fn sends_files() {
    let directory = short_path_dir();
    std::fs::write(directory.path().join("f"), vec![7; 65_536]).expect("a writable directory");
    let send = format!(
        "<flowop type=\"sendfile\" options=\"dir={}\"/>",
        directory.path().display()
    );
    let profile = tls_profile("")
        .replace(
            "<flowop type=\"write\" options=\"size=64 count=4\"/>",
            &send,
        )
        .replace("<flowop type=\"read\" options=\"size=200\"/>", "")
        .replace("\"500\"", "\"10\"");
    let output = Server::start_slave("").run_profile("", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.statistics("127.0.0.1")[2], "1.25MB", "{output:?}");
    assert_eq!(output.statistics("master")[2], "1.25MB", "{output:?}");
}

fn verifies_certificates() {
    let server_pem = data_path("tls/server.pem");
    let slave = Server::start_slave(&format!("--tls-cert {}", server_pem.display()));
    let verify = format!("--tls-verify {}", data_path("tls/authority.pem").display());
    assert_ends_agree(&slave.run_profile(&verify, &tls_profile("")));
    let without_tls = slave.run_profile(&verify, &request_profile());
    assert_eq!(without_tls.code, Some(0), "{without_tls:?}");
    let expected = "no SSL connections";
    assert!(without_tls.stderr.contains(expected), "{without_tls:?}");
    drop(slave);

    let output = Server::start_slave("").run_profile(&verify, &tls_profile(""));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("unknown issuer"), "{output:?}");

    let version_1_pem = data_path("tls/version-1.pem");
    let slave = Server::start_slave(&format!("--tls-cert {}", version_1_pem.display()));
    let output = slave.run_profile(&verify, &tls_profile(""));
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = "invalid peer certificate: unsupported certificate version";
    assert!(output.stdout.contains(expected), "{output:?}");
    drop(slave);
    let slave = Server::start_slave(&format!("--tls-cert {}", server_pem.display()));
    let other_host = tls_profile("").replace("$h", "127.0.0.2");
    let output = slave.run_profile(&verify, &other_host);
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = "it is for 127.0.0.1, localhost, not for 127.0.0.2";
    assert!(output.stdout.contains(expected), "{output:?}");
    drop(slave);

    // The accepting end verifies its peer as well.
    let certificate = format!("--tls-cert {}", server_pem.display());
    let accepting = tls_profile("").replace("\"connect\"", "\"accept\"");
    let slave = Server::start_slave(&format!("{verify} {certificate}"));
    assert_ends_agree(&slave.run_profile(&format!("{verify} {certificate}"), &tls_profile("")));
    assert_ends_agree(&slave.run_profile(&format!("{verify} {certificate}"), &accepting));
    let output = slave.run_profile(&verify, &tls_profile(""));
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = "ssl: handshake failed: peer sent no certificates";
    assert!(output.stdout.contains(expected), "{output:?}");
    drop(slave);
    let output =
        Server::start_slave("").run_profile(&format!("{verify} {certificate}"), &accepting);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains(expected), "{output:?}");

    let stderr_of_refusal = |options: &str| {
        let port = free_port();
        let slave = linerate_with_args(&format!("uperf -s -P {port} {options}"));
        let output = run(slave, RUN_TIMEOUT).expect("the program ends");
        assert_eq!(output.code, Some(1), "{output:?}");
        // Git keeps no file permissions: there may be warnings about them.
        let lines = output.stderr.lines();
        let errors = lines.filter(|line| !line.ends_with("run chmod 600 on it"));
        assert_eq!(errors.count(), 1, "{output:?}");
        output.stderr
    };
    assert!(stderr_of_refusal("--tls-cert /nowhere.pem").contains("/nowhere.pem: No such file"));
    let wrong = format!("--tls-cert {0} --tls-pass-file {0}", server_pem.display());
    assert!(stderr_of_refusal(&wrong).contains("is the pass phrase right?"));
    assert!(stderr_of_refusal("--tls-key x").contains("--tls-key requires --tls-cert"));
}

fn finds_stock_certificate_or_creates_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let subdirectory = directory.path().join("below");
    std::fs::create_dir(&subdirectory).expect("a writable directory");
    let check_certificate = |is_created: bool| {
        let slave = Server::try_start_with(|port| {
            let mut command = linerate_with_args(&format!("uperf -v -s -P {port}"));
            command.current_dir(&subdirectory);
            command
        });
        let slave = slave.expect("the slave listens");
        let verify = format!("--tls-verify {}", data_path("tls/authority.pem").display());
        let output = slave.run_profile(&verify, &tls_profile(""));
        assert_eq!(output.code, Some(u8::from(is_created).into()), "{output:?}");
        let is_reported = slave.stderr().contains("a self-signed certificate");
        assert_eq!(is_reported, is_created, "{}", slave.stderr());
    };
    check_certificate(true);
    let pem = data_path("tls/server.pem");
    std::fs::copy(pem, directory.path().join("client.pem")).expect("a writable directory");
    check_certificate(false);
}

/// The slave refuses the cipher before the run.
fn slave_refuses_cipher_that_its_key_lacks() {
    let server_pem = data_path("tls/server.pem");
    let slave = Server::start_slave(&format!("--tls-cert {}", server_pem.display()));
    let output = slave.run_profile("", &tls_profile("cipher=ECDHE-ECDSA-AES128-GCM-SHA256"));
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = "127.0.0.1 says: cipher=ECDHE-ECDSA-AES128-GCM-SHA256 does not support the certificate's RSA key";
    let expected = expected.to_lowercase();
    assert!(
        output.stdout.to_lowercase().contains(&expected),
        "{output:?}"
    );
}

/// Runs a profile with a slave to which a stranger connects before the master does. A relay of the
/// control connection delays the slave's messages until the stranger is connected.
fn run_disturbed(
    slave: &Server,
    repetition: &str,
    disturb: impl FnOnce(TcpStream),
) -> ProcessOutput {
    let port = free_port();
    let connect = format!("connect remotehost=$h protocol=ssl port={port}");
    let profile = Profile::new("disturbed")
        .group("nthreads=1")
        .single_flowop("think duration=10ms")
        .transaction(repetition, &[&connect, "write size=64", "disconnect"])
        .text();
    let relay = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let relay_port = relay.local_addr().expect("a bound socket").port();
    let master = UperfMaster::start(relay_port, "", &LOOPBACK_HOSTS, &profile);
    relay.set_nonblocking(true).expect("a non-blocking socket");
    let mut accepted = None;
    wait_until(RUN_TIMEOUT, || {
        accepted = relay.accept().ok();
        accepted.is_some()
    });
    let (to_master, _) = accepted.expect("the master connects");
    let to_slave = TcpStream::connect(("127.0.0.1", slave.port)).expect("the slave listens");
    to_slave
        .set_read_timeout(Some(RUN_TIMEOUT))
        .expect("a non-zero timeout");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &to_master, &mut &to_slave);
            let _ = to_slave.shutdown(Shutdown::Write);
        });
        let mut disturb = Some(disturb);
        let mut message = [0; 4096];
        while let Ok(length @ 1..) = to_slave.receive(&mut message) {
            if let Some(disturb) = disturb.take_if(|_| is_listening(port)) {
                disturb(TcpStream::connect(("127.0.0.1", port)).expect("the slave listens"));
            }
            if (&to_master).write_all(&message[..length]).is_err() {
                break;
            }
        }
        let _ = to_master.shutdown(Shutdown::Both);
        assert!(
            disturb.is_none(),
            "the slave does not listen for data connections"
        );
    });
    master.finish_within(RUN_TIMEOUT)
}

fn reports_failed_handshake_and_keeps_serving() {
    let slave = Server::start_slave("");
    let garbage = run_disturbed(&slave, "iterations=1", |mut stream| {
        stream
            .write_all(b"GET / HTTP/1.0\r\n\r\n")
            .expect("space in the send buffer");
        std::mem::forget(stream);
    });
    assert_ne!(garbage.code, Some(0), "{garbage:?}");
    let expected = "ssl: handshake failed: received corrupt message";
    assert!(garbage.stdout.contains(expected), "{garbage:?}");

    let hung_up = run_disturbed(&slave, "iterations=1", drop);
    assert_ne!(hung_up.code, Some(0), "{hung_up:?}");
    let expected = "ssl: the peer closed the connection during the handshake";
    assert!(hung_up.stdout.contains(expected), "{hung_up:?}");

    assert_ends_agree(&slave.run_profile("", &tls_profile("")));
}

fn silent_peer_does_not_delay_end_of_run() {
    let slave = Server::start_slave("");
    let start = Instant::now();
    let mut silent_stream = None;
    let output = run_disturbed(&slave, "duration=500ms", |stream| {
        silent_stream = Some(stream);
    });
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(15), "{elapsed:?}");
    // The deadline is not a failure. Only the think flowop was executed.
    assert_eq!(output.code, Some(0), "{output:?}");
    for host in ["127.0.0.1", "master"] {
        let row = output.statistics(host);
        assert_eq!((&*row[2], &*row[4]), ("0", "1"), "{output:?}");
    }
    assert_ends_agree(&slave.run_profile("", &tls_profile("")));
}
