//! Plays recorded stock masters against the slave. Its messages must match the recorded slave.

#[expect(dead_code, reason = "each test program uses only a part of it")]
mod data;
mod peer;

use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use data::{Recording, Sender, recordings};
use engine::{Stop, StopReason};
use peer::{Script, play, play_with_data};
use uperf::DataProtocol;
use uperf::options::TlsFiles;
use uperf::slave::{Slave, SlaveConfig};
use uperf::tls::TlsSettings;

/// Recordings that cannot be played against this slave, with the reason.
const SKIPPED: [(&str, &str); 5] = [
    ("refused-version", "this slave supports that version"),
    ("refused-port", "the port is free here"),
    ("refused-protocol", "this slave supports TLS"),
    (
        "two-hosts-failing",
        "its strands need connections to two slaves",
    ),
    ("abort-by-master", "the recorded master fails on its own"),
];

#[test]
fn slave_sends_recorded_messages() {
    let stop = Stop::new();
    let tls = TlsFiles {
        certificate: Some(peer::tls::certificate_path("server.pem")),
        ..TlsFiles::default()
    };
    let config = SlaveConfig {
        tls: Arc::new(TlsSettings::for_slave(&tls, false).expect("the certificate is valid")),
        ..SlaveConfig::default()
    };
    let slave =
        Slave::listen(DataProtocol::Tcp, 0, config, stop.clone()).expect("the slave listens");
    let port = u16::try_from(slave.port().expect("the slave is bound")).expect("a TCP port");
    let serving = thread::spawn(move || slave.serve());
    let recordings = recordings();
    let played_recordings = recordings
        .iter()
        .filter(|recording| SKIPPED.iter().all(|(name, _)| *name != recording.name));
    let outcomes: Vec<Option<String>> = thread::scope(|scope| {
        let connections = played_recordings.flat_map(|recording| {
            let connections = 0..recording.hosts.len();
            connections.map(move |connection| (recording, connection))
        });
        let masters: Vec<_> = connections
            .map(|(recording, connection)| {
                scope.spawn(move || play_master(recording, connection, port))
            })
            .collect();
        let outcomes = masters.into_iter().map(std::thread::ScopedJoinHandle::join);
        outcomes.map(|outcome| outcome.expect("no panic")).collect()
    });
    stop.set(StopReason::Cancelled);
    serving.join().expect("no panic");
    assert!(
        outcomes.len() >= 18,
        "{} connections played",
        outcomes.len()
    );
    let differences: Vec<String> = outcomes.into_iter().flatten().collect();
    assert_eq!(differences, Vec::<String>::new());
}

/// Returns the first difference from the recording.
fn play_master(recording: &Recording, connection: usize, port: u16) -> Option<String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the slave listens");
    let played = if recording.workorder(connection).is_some() {
        play_with_data(recording, connection, Sender::Master, &stream)
    } else {
        play(&Script::new(recording, connection), Sender::Master, &stream)
    };
    played.err().map(|difference| difference.to_string())
}
