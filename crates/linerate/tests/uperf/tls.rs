//! Data over TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use testkit::{
    LOOPBACK_HOSTS, ProcessOutput, Profile, Server, TestCase, UperfMaster, free_port, is_listening,
    linerate_with_args, read_profiles, run, short_directory, wait_until,
};

use super::{agree, requests};

/// Longer than any of these runs takes, on a busy machine.
const SOON: Duration = Duration::from_secs(40);

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        tls_requests_and_responses,
        tls_of_one_version_and_cipher,
        tls_with_an_engine_that_nobody_knows,
        tls_under_the_manuals_workloads,
        tls_ends_with_its_time,
        tls_carries_files,
        tls_certificates_are_named_and_asked_for,
        tls_files_of_stock_are_found_and_without_them_one_is_made,
        tls_that_a_slave_cannot_have_is_refused,
        tls_with_who_speaks_none_is_named_and_the_slave_lives,
        tls_with_who_says_nothing_ends_with_the_run,
    ]
}

fn over_tls(options: &str) -> String {
    let options = format!("protocol=ssl {options}");
    requests().replace("protocol=tcp", options.trim_end())
}

/// A file of the dialect's own tests.
fn data(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../uperf/tests/data");
    PathBuf::from(directory).join(name)
}

fn tls_requests_and_responses() {
    let slave = Server::start_slave("");
    let ended = slave.run_profile("-a", &over_tls(""));
    agree(&ended);
    assert_eq!(ended.statistics("master")[2], "445.31KB", "{ended:?}");
    let accepting = over_tls("").replace("\"connect\"", "\"accept\"");
    agree(&slave.run_profile("-a", &accepting));
    let larger = over_tls("")
        .replace("size=64 count=4", "size=100000 count=3")
        .replace("size=200", "size=40000 timeout=5s")
        .replace("\"500\"", "\"50\"");
    agree(&slave.run_profile("", &larger));
}

fn tls_of_one_version_and_cipher() {
    let slave = Server::start_slave("");
    for options in [
        "method=TLSv1_2",
        "method=tlsv1_3 cipher=TLS_AES_128_GCM_SHA256",
        "cipher=ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256",
    ] {
        let ended = slave.run_profile("", &over_tls(options));
        assert_eq!(ended.code, Some(0), "{options}: {ended:?}");
        assert!(!ended.stdout.contains("** "), "{options}: {ended:?}");
    }
    for (options, expected) in [
        ("method=TLSv1", "method=TLSv1 is obsolete"),
        ("cipher=AES128-SHA", "cipher=AES128-SHA is unsupported"),
        (
            "method=TLSv1_3 cipher=ECDHE-RSA-AES128-GCM-SHA256",
            "different TLS versions",
        ),
    ] {
        let ended = slave.run_profile("", &over_tls(options));
        assert_eq!(ended.code, Some(1), "{options}: {ended:?}");
        let place = ":5:";
        let line = ended.stderr.lines().find(|line| line.contains("error: "));
        let line = line.unwrap_or_else(|| panic!("{options}: {ended:?}"));
        let expected = expected.to_lowercase();
        assert!(line.to_lowercase().contains(&expected), "{options}: {line}");
        assert!(line.contains(place), "{options}: {line}");
    }
}

/// The like of the profile that uperf comes with.
fn tls_with_an_engine_that_nobody_knows() {
    let profile = std::fs::read_to_string(data("profiles/ssl.xml")).expect("a profile");
    let ended = Server::start_slave("").run_profile("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.statistics("master")[2], "16.00KB", "{ended:?}");
    assert_eq!(ended.statistics("127.0.0.1")[2], "16.00KB", "{ended:?}");
    let warning = ":5:66: warning: engine=pkcs11: engines need OpenSSL";
    assert!(ended.stderr.contains(warning), "{ended:?}");
}

fn tls_under_the_manuals_workloads() {
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
        let ended = slave.run_profile("", &profile);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(
            !ended.stdout.contains("Errors detected"),
            "{name}: {ended:?}"
        );
        assert_ne!(ended.statistics("master")[4], "0", "{name}: {ended:?}");
    }
}

fn tls_ends_with_its_time() {
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
        let begun = Instant::now();
        let ended = slave.run_profile("-a", &stream(flowop));
        assert_eq!(ended.code, Some(0), "{flowop}: {ended:?}");
        assert!(!ended.stdout.contains("** "), "{flowop}: {ended:?}");
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "{flowop}: {ended:?}"
        );
    }
}

fn tls_carries_files() {
    let directory = short_directory();
    std::fs::write(directory.path().join("f"), vec![7; 65_536]).expect("it is ours");
    let send = format!(
        "<flowop type=\"sendfile\" options=\"dir={}\"/>",
        directory.path().display()
    );
    let profile = over_tls("")
        .replace(
            "<flowop type=\"write\" options=\"size=64 count=4\"/>",
            &send,
        )
        .replace("<flowop type=\"read\" options=\"size=200\"/>", "")
        .replace("\"500\"", "\"10\"");
    let ended = Server::start_slave("").run_profile("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.statistics("127.0.0.1")[2], "1.25MB", "{ended:?}");
    assert_eq!(ended.statistics("master")[2], "1.25MB", "{ended:?}");
}

fn tls_certificates_are_named_and_asked_for() {
    let server = data("tls/server.pem");
    let slave = Server::start_slave(&format!("--tls-cert {}", server.display()));
    let asks = format!("--tls-verify {}", data("tls/authority.pem").display());
    agree(&slave.run_profile(&asks, &over_tls("")));
    let useless = slave.run_profile(&asks, &requests());
    assert_eq!(useless.code, Some(0), "{useless:?}");
    assert!(useless.stderr.contains("no SSL connections"), "{useless:?}");
    drop(slave);

    let ended = Server::start_slave("").run_profile(&asks, &over_tls(""));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("unknown issuer"), "{ended:?}");

    let other = data("tls/version-1.pem");
    let slave = Server::start_slave(&format!("--tls-cert {}", other.display()));
    let ended = slave.run_profile(&asks, &over_tls(""));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "invalid peer certificate: unsupported certificate version";
    assert!(ended.stdout.contains(words), "{ended:?}");
    drop(slave);
    let slave = Server::start_slave(&format!("--tls-cert {}", server.display()));
    let elsewhere = over_tls("").replace("$h", "127.0.0.2");
    let ended = slave.run_profile(&asks, &elsewhere);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "it is for 127.0.0.1, localhost, not for 127.0.0.2";
    assert!(ended.stdout.contains(words), "{ended:?}");
    drop(slave);

    // An end that accepts verifies the other as well.
    let shows = format!("--tls-cert {}", server.display());
    let accepting = over_tls("").replace("\"connect\"", "\"accept\"");
    let slave = Server::start_slave(&format!("{asks} {shows}"));
    agree(&slave.run_profile(&format!("{asks} {shows}"), &over_tls("")));
    agree(&slave.run_profile(&format!("{asks} {shows}"), &accepting));
    let ended = slave.run_profile(&asks, &over_tls(""));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "ssl: handshake failed: peer sent no certificates";
    assert!(ended.stdout.contains(words), "{ended:?}");
    drop(slave);
    let ended = Server::start_slave("").run_profile(&format!("{asks} {shows}"), &accepting);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains(words), "{ended:?}");

    let refused = |options: &str| {
        let port = free_port();
        let slave = linerate_with_args(&format!("uperf -s -P {port} {options}"));
        let ended = run(slave, SOON).expect("it ends");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        ended.stderr
    };
    assert!(refused("--tls-cert /nowhere.pem").contains("/nowhere.pem: No such file"));
    let wrong = format!("--tls-cert {0} --tls-pass-file {0}", server.display());
    assert!(refused(&wrong).contains("is the pass phrase right?"));
    assert!(refused("--tls-key x").contains("--tls-key requires --tls-cert"));
}

fn tls_files_of_stock_are_found_and_without_them_one_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let below = directory.path().join("below");
    std::fs::create_dir(&below).expect("it is ours");
    let run = |made: bool| {
        let slave = Server::try_start_with(|port| {
            let mut command = linerate_with_args(&format!("uperf -v -s -P {port}"));
            command.current_dir(&below);
            command
        });
        let slave = slave.expect("it listens");
        let asks = format!("--tls-verify {}", data("tls/authority.pem").display());
        let ended = slave.run_profile(&asks, &over_tls(""));
        assert_eq!(ended.code, Some(u8::from(made).into()), "{ended:?}");
        let told = slave.stderr().contains("a self-signed certificate");
        assert_eq!(told, made, "{}", slave.stderr());
    };
    run(true);
    let pem = data("tls/server.pem");
    std::fs::copy(pem, directory.path().join("client.pem")).expect("it is ours");
    run(false);
}

/// A slave that cannot do what it is told says so before the run.
fn tls_that_a_slave_cannot_have_is_refused() {
    let server = data("tls/server.pem");
    let slave = Server::start_slave(&format!("--tls-cert {}", server.display()));
    let ended = slave.run_profile("", &over_tls("cipher=ECDHE-ECDSA-AES128-GCM-SHA256"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "127.0.0.1 says: cipher=ECDHE-ECDSA-AES128-GCM-SHA256 does not support the certificate's RSA key";
    let words = words.to_lowercase();
    assert!(ended.stdout.to_lowercase().contains(&words), "{ended:?}");
}

/// Runs a profile with a slave that has a connection of a stranger before its master's. The control connection goes
/// through a relay that holds back the slave's messages until the stranger is connected.
fn disturbed(slave: &Server, repeated: &str, disturb: impl FnOnce(TcpStream)) -> ProcessOutput {
    let port = free_port();
    let connect = format!("connect remotehost=$h protocol=ssl port={port}");
    let profile = Profile::new("disturbed")
        .group("nthreads=1")
        .single_flowop("think duration=10ms")
        .transaction(repeated, &[&connect, "write size=64", "disconnect"])
        .text();
    let relay = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let relayed = relay.local_addr().expect("it listens").port();
    let master = UperfMaster::start(relayed, "", &LOOPBACK_HOSTS, &profile);
    relay.set_nonblocking(true).expect("it is ours");
    let mut accepted = None;
    wait_until(SOON, || {
        accepted = relay.accept().ok();
        accepted.is_some()
    });
    let (to_master, _) = accepted.expect("the master connects");
    let to_slave = TcpStream::connect(("127.0.0.1", slave.port)).expect("it listens");
    to_slave.set_read_timeout(Some(SOON)).expect("not zero");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &to_master, &mut &to_slave);
            let _ = to_slave.shutdown(Shutdown::Write);
        });
        let mut disturb = Some(disturb);
        let mut message = [0; 4096];
        while let Ok(length @ 1..) = (&to_slave).read(&mut message) {
            if let Some(disturb) = disturb.take_if(|_| is_listening(port)) {
                disturb(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
            }
            if (&to_master).write_all(&message[..length]).is_err() {
                break;
            }
        }
        let _ = to_master.shutdown(Shutdown::Both);
        assert!(disturb.is_none(), "the slave does not listen for data");
    });
    master.finish_within(SOON)
}

fn tls_with_who_speaks_none_is_named_and_the_slave_lives() {
    let slave = Server::start_slave("");
    let garbage = disturbed(&slave, "iterations=1", |mut stream| {
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("room");
        std::mem::forget(stream);
    });
    assert_ne!(garbage.code, Some(0), "{garbage:?}");
    let words = "ssl: handshake failed: received corrupt message";
    assert!(garbage.stdout.contains(words), "{garbage:?}");

    let hung_up = disturbed(&slave, "iterations=1", drop);
    assert_ne!(hung_up.code, Some(0), "{hung_up:?}");
    let words = "ssl: the peer closed the connection during the handshake";
    assert!(hung_up.stdout.contains(words), "{hung_up:?}");

    agree(&slave.run_profile("", &over_tls("")));
}

fn tls_with_who_says_nothing_ends_with_the_run() {
    let slave = Server::start_slave("");
    let begun = Instant::now();
    let mut silent = None;
    let ended = disturbed(&slave, "duration=500ms", |stream| silent = Some(stream));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    // Its time was up, which is no failure; the think alone was executed.
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for host in ["127.0.0.1", "master"] {
        let row = ended.statistics(host);
        assert_eq!((&*row[2], &*row[4]), ("0", "1"), "{ended:?}");
    }
    agree(&slave.run_profile("", &over_tls("")));
}
