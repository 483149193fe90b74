//! The slave against recorded stock masters: what it says is what the recorded slave said.

#[expect(dead_code, reason = "only the test of the transcripts needs all of it")]
mod data;
mod peer;

use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use data::{Recording, Sender, recordings};
use engine::{Stop, StopReason};
use peer::{Script, play, play_whole};
use uperf::DataProtocol;
use uperf::options::TlsFiles;
use uperf::slave::{Slave, SlaveConfig};
use uperf::tls::TlsSettings;

/// Recordings that cannot be played against this slave, and why.
const NOT_HERE: [(&str, &str); 5] = [
    ("refused-version", "this slave speaks that version"),
    ("refused-port", "the port is not taken here"),
    ("refused-protocol", "this slave has TLS"),
    (
        "two-hosts-failing",
        "its strands fail with connections to two slaves",
    ),
    ("abort-by-master", "the recorded master fails by itself"),
];

#[test]
fn the_slave_says_what_the_recorded_one_said() {
    let stop = Stop::new();
    let tls = TlsFiles {
        certificate: Some(peer::tls::file("server.pem")),
        ..TlsFiles::default()
    };
    let terms = SlaveConfig {
        tls: Arc::new(TlsSettings::for_slave(&tls, false).expect("a certificate")),
        ..SlaveConfig::default()
    };
    let slave = Slave::listen(DataProtocol::Tcp, 0, terms, stop.clone()).expect("a port");
    let port = u16::try_from(slave.port().expect("it is bound")).expect("a port");
    let serving = thread::spawn(move || slave.serve());
    let recordings = recordings();
    let here = recordings
        .iter()
        .filter(|recording| NOT_HERE.iter().all(|(name, _)| *name != recording.name));
    let outcomes: Vec<Option<String>> = thread::scope(|scope| {
        let connections = here.flat_map(|recording| {
            let connections = 0..recording.hosts.len();
            connections.map(move |connection| (recording, connection))
        });
        let played: Vec<_> = connections
            .map(|(recording, connection)| scope.spawn(move || master(recording, connection, port)))
            .collect();
        let played = played.into_iter().map(|one| one.join().expect("no panic"));
        played.collect()
    });
    stop.set(StopReason::Cancelled);
    serving.join().expect("no panic");
    assert!(outcomes.len() >= 18, "{} played", outcomes.len());
    let differences: Vec<String> = outcomes.into_iter().flatten().collect();
    assert_eq!(differences, Vec::<String>::new());
}

fn master(recording: &Recording, connection: usize, port: u16) -> Option<String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let played = if recording.workorder(connection).is_some() {
        play_whole(recording, connection, Sender::Master, &stream)
    } else {
        play(&Script::new(recording, connection), Sender::Master, &stream)
    };
    played.err().map(|difference| difference.to_string())
}
