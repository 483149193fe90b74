//! Data over TLS.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use testkit::{Finished, Process, Trial, eventually, free_port, is_listening, linerate};

use super::{LIMIT, REQUESTS, Slave, agree, statistics};

pub(crate) fn trials() -> Vec<Trial> {
    testkit::trials![
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
    REQUESTS.replace("protocol=tcp", options.trim_end())
}

/// A file of the dialect's own tests.
fn data(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../uperf/tests/data");
    PathBuf::from(directory).join(name)
}

fn tls_requests_and_responses() {
    let slave = Slave::start();
    let ended = slave.run("-a", &over_tls(""));
    agree(&ended);
    assert_eq!(statistics(&ended, "master")[2], "445.31KB", "{ended:?}");
    let accepting = over_tls("").replace("\"connect\"", "\"accept\"");
    agree(&slave.run("-a", &accepting));
    let larger = over_tls("")
        .replace("size=64 count=4", "size=100000 count=3")
        .replace("size=200", "size=40000 timeout=5s")
        .replace("\"500\"", "\"50\"");
    agree(&slave.run("", &larger));
}

fn tls_of_one_version_and_cipher() {
    let slave = Slave::start();
    for options in [
        "method=TLSv1_2",
        "method=tlsv1_3 cipher=TLS_AES_128_GCM_SHA256",
        "cipher=ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256",
    ] {
        let ended = slave.run("", &over_tls(options));
        assert_eq!(ended.code, Some(0), "{options}: {ended:?}");
        assert!(!ended.stdout.contains("** "), "{options}: {ended:?}");
    }
    for (options, expected) in [
        ("method=TLSv1", "method=TLSv1 is given up"),
        (
            "cipher=AES128-SHA",
            "cipher=AES128-SHA: linerate has no cipher",
        ),
        (
            "method=TLSv1_3 cipher=ECDHE-RSA-AES128-GCM-SHA256",
            "another version",
        ),
    ] {
        let ended = slave.run("", &over_tls(options));
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
    let ended = Slave::start().run("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(statistics(&ended, "master")[2], "16.00KB", "{ended:?}");
    assert_eq!(statistics(&ended, "127.0.0.1")[2], "16.00KB", "{ended:?}");
    let warning = ":5:66: warning: engine=pkcs11: engines are OpenSSL's";
    assert!(ended.stderr.contains(warning), "{ended:?}");
}

fn tls_under_the_manuals_workloads() {
    let slave = Slave::start();
    for name in ["connect", "iperf", "netperf"] {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
        let path = PathBuf::from(directory).join(name).with_extension("xml");
        let profile = std::fs::read_to_string(path).expect("a profile");
        let profile = profile
            .replace("$proto", "ssl")
            .replace("protocol=tcp", "protocol=ssl")
            .replace("\"30s\"", "\"500ms\"")
            .replace("\"1000\"", "\"50\"");
        let ended = slave.run("", &profile);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(
            !ended.stdout.contains("Errors detected"),
            "{name}: {ended:?}"
        );
        assert_ne!(statistics(&ended, "master")[4], "0", "{name}: {ended:?}");
    }
}

fn tls_ends_with_its_time() {
    let stream = |flowop: &str| {
        format!(
            r#"<profile name="stream">
  <group nthreads="2">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=ssl"/>
    </transaction>
    <transaction duration="500ms">
      <flowop type="{flowop}" options="size=64k"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>
"#
        )
    };
    let slave = Slave::start();
    for flowop in ["write", "read"] {
        let begun = Instant::now();
        let ended = slave.run("-a", &stream(flowop));
        assert_eq!(ended.code, Some(0), "{flowop}: {ended:?}");
        assert!(!ended.stdout.contains("** "), "{flowop}: {ended:?}");
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "{flowop}: {ended:?}"
        );
    }
}

fn tls_carries_files() {
    // A profile's words are folded to lower case, as uperf does.
    let directory = tempfile::Builder::new()
        .prefix(&format!("tls-files-{}", std::process::id()))
        .rand_bytes(0)
        .tempdir()
        .expect("a directory");
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
    let ended = Slave::start().run("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(statistics(&ended, "127.0.0.1")[2], "1.25MB", "{ended:?}");
    assert_eq!(statistics(&ended, "master")[2], "1.25MB", "{ended:?}");
}

fn tls_certificates_are_named_and_asked_for() {
    let server = data("tls/server.pem");
    let slave = Slave::start_with(&format!("--tls-cert {}", server.display()));
    let asks = format!("--tls-verify {}", data("tls/authority.pem").display());
    agree(&slave.run(&asks, &over_tls("")));
    let useless = slave.run(&asks, REQUESTS);
    assert_eq!(useless.code, Some(0), "{useless:?}");
    assert!(useless.stderr.contains("no SSL connections"), "{useless:?}");
    drop(slave);

    let ended = Slave::start().run(&asks, &over_tls(""));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("unknown issuer"), "{ended:?}");

    let other = data("tls/version-1.pem");
    let slave = Slave::start_with(&format!("--tls-cert {}", other.display()));
    let ended = slave.run(&asks, &over_tls(""));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "invalid peer certificate: unsupported certificate version";
    assert!(ended.stdout.contains(words), "{ended:?}");
    drop(slave);
    let slave = Slave::start_with(&format!("--tls-cert {}", server.display()));
    let elsewhere = over_tls("").replace("$h", "127.0.0.2");
    let ended = slave.run(&asks, &elsewhere);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "it is for 127.0.0.1, localhost, not for 127.0.0.2";
    assert!(ended.stdout.contains(words), "{ended:?}");
    drop(slave);

    // An end that accepts verifies the other as well.
    let shows = format!("--tls-cert {}", server.display());
    let accepting = over_tls("").replace("\"connect\"", "\"accept\"");
    let slave = Slave::start_with(&format!("{asks} {shows}"));
    agree(&slave.run(&format!("{asks} {shows}"), &over_tls("")));
    agree(&slave.run(&format!("{asks} {shows}"), &accepting));
    let ended = slave.run(&asks, &over_tls(""));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "ssl: no handshake: peer sent no certificates";
    assert!(ended.stdout.contains(words), "{ended:?}");
    drop(slave);
    let ended = Slave::start().run(&format!("{asks} {shows}"), &accepting);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains(words), "{ended:?}");

    let refused = |options: &str| {
        let port = free_port();
        let ended =
            Process::start(&mut linerate(&format!("uperf -s -P {port} {options}"))).finish(LIMIT);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        ended.stderr
    };
    assert!(refused("--tls-cert /nowhere.pem").contains("/nowhere.pem: No such file"));
    let wrong = format!("--tls-cert {0} --tls-pass-file {0}", server.display());
    assert!(refused(&wrong).contains("is the pass phrase right?"));
    assert!(refused("--tls-key x").contains("--tls-key without --tls-cert"));
}

fn tls_files_of_stock_are_found_and_without_them_one_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let below = directory.path().join("below");
    std::fs::create_dir(&below).expect("it is ours");
    let run = |made: bool| {
        let port = free_port();
        let mut command = linerate(&format!("uperf -v -s -P {port}"));
        let mut process = Process::start(command.current_dir(&below));
        assert!(eventually(Duration::from_secs(10), || is_listening(port)));
        let asks = format!("--tls-verify {}", data("tls/authority.pem").display());
        let slave = Slave { port, process };
        let ended = slave.run(&asks, &over_tls(""));
        assert_eq!(ended.code, Some(u8::from(made).into()), "{ended:?}");
        process = slave.process;
        let told = process.stderr().contains("a certificate is made");
        assert_eq!(told, made, "{}", process.stderr());
    };
    run(true);
    let pem = data("tls/server.pem");
    std::fs::copy(pem, directory.path().join("client.pem")).expect("it is ours");
    run(false);
}

/// A slave that cannot do what it is told says so before the run.
fn tls_that_a_slave_cannot_have_is_refused() {
    let server = data("tls/server.pem");
    let slave = Slave::start_with(&format!("--tls-cert {}", server.display()));
    let ended = slave.run("", &over_tls("cipher=ECDHE-ECDSA-AES128-GCM-SHA256"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "127.0.0.1 says: cipher=ECDHE-ECDSA-AES128-GCM-SHA256 is not for a certificate of an RSA key";
    let words = words.to_lowercase();
    assert!(ended.stdout.to_lowercase().contains(&words), "{ended:?}");
}

/// A run whose slave waits for a TLS connection at a port that is known, to which somebody else comes before.
fn disturbed(slave: &Slave, repeated: &str, disturb: impl FnOnce(TcpStream)) -> Finished {
    let port = free_port();
    let profile = format!(
        r#"<profile name="disturbed">
  <group nthreads="1">
    <transaction iterations="1">
      <flowop type="think" options="duration=1s"/>
    </transaction>
    <transaction {repeated}>
      <flowop type="connect" options="remotehost=$h protocol=ssl port={port}"/>
      <flowop type="write" options="size=64"/>
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>
"#
    );
    std::thread::scope(|scope| {
        let run = scope.spawn(|| slave.run("", &profile));
        let listens = eventually(Duration::from_secs(10), || is_listening(port));
        assert!(listens, "the slave does not listen for data");
        disturb(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
        run.join().expect("no panic")
    })
}

fn tls_with_who_speaks_none_is_named_and_the_slave_lives() {
    let slave = Slave::start();
    let garbage = disturbed(&slave, "iterations=\"1\"", |mut stream| {
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("room");
        std::mem::forget(stream);
    });
    assert_ne!(garbage.code, Some(0), "{garbage:?}");
    let words = "ssl: no handshake: received corrupt message";
    assert!(garbage.stdout.contains(words), "{garbage:?}");

    let hung_up = disturbed(&slave, "iterations=\"1\"", drop);
    assert_ne!(hung_up.code, Some(0), "{hung_up:?}");
    let words = "ssl: the other end hung up in the handshake";
    assert!(hung_up.stdout.contains(words), "{hung_up:?}");

    agree(&slave.run("", &over_tls("")));
}

fn tls_with_who_says_nothing_ends_with_the_run() {
    let slave = Slave::start();
    let begun = Instant::now();
    let mut silent = None;
    let ended = disturbed(&slave, "duration=\"500ms\"", |stream| silent = Some(stream));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    // Its time was up, which is no failure; the think alone was executed.
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for host in ["127.0.0.1", "master"] {
        let row = statistics(&ended, host);
        assert_eq!((&*row[2], &*row[4]), ("0", "1"), "{ended:?}");
    }
    agree(&slave.run("", &over_tls("")));
}
