//! The scripted peer itself: recordings played against each other, and against what leaves the
//! script.

#[expect(dead_code, reason = "only the test of the transcripts needs all of it")]
mod data;
mod peer;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use data::{Kind, Sender, recording, recordings};
use peer::{Said, Script, play, play_whole, play_with};
use uperf::DataProtocol;
use uperf::wire::{MasterCommand, SlaveInfo};

#[test]
fn every_conversation_can_be_played() {
    for recording in recordings() {
        for connection in 0..recording.hosts.len() {
            let script = Script::new(&recording, connection);
            let (one, other) = connection_pair();
            let events = thread::scope(|scope| {
                let slave = scope.spawn(|| play(&script, Sender::Slave, &other));
                let master = play(&script, Sender::Master, &one);
                let slave = slave.join().expect("no panic");
                [master, slave].map(|events| match events {
                    Ok(events) => events,
                    Err(difference) => panic!("{difference}"),
                })
            });
            assert_eq!(events[0], events[1], "{}", recording.name);
            assert_eq!(events[0].len(), recording.of_connection(connection).len());
        }
    }
}

#[test]
fn with_data_both_sides_come_through() {
    thread::scope(|scope| {
        for (name, connection) in [
            ("connect-loop-2threads", 0),
            ("mixed-ops", 0),
            ("rand-udp", 0),
            ("sendfile", 0),
            ("two-groups", 0),
            ("rr-tcp-accept-2threads", 0),
        ] {
            scope.spawn(move || {
                let recording = recording(name);
                let (one, other) = connection_pair();
                let slave = {
                    let recording = recording.clone();
                    thread::spawn(move || play_whole(&recording, connection, Sender::Slave, &other))
                };
                let master = play_whole(&recording, connection, Sender::Master, &one);
                let slave = slave.join().expect("no panic");
                let differences = [master, slave].map(|played| {
                    let difference = played.err();
                    difference.map_or_else(String::new, |difference| difference.to_string())
                });
                assert_eq!(differences, ["", ""], "master and slave");
            });
        }
    });
}

#[test]
fn ports_may_be_others() {
    let recording = recording("rr-tcp-connect");
    let recorded = Script::new(&recording, 0);
    let mut info = SlaveInfo::default();
    info.set_port(DataProtocol::Tcp, 12_345);
    let changed = recorded.clone().with_ports(Sender::Slave, &[info.clone()]);
    let (one, other) = connection_pair();
    thread::scope(|scope| {
        let slave = scope.spawn(|| play(&changed, Sender::Slave, &other));
        let mut seen = Vec::new();
        let played = play_with(&recorded, Sender::Master, &one, |event| {
            if let Said::Ports(ports) = &event.said {
                seen.push((event.sender, ports.clone()));
            }
        });
        assert!(played.is_ok() && slave.join().is_ok_and(|played| played.is_ok()));
        assert_eq!(seen, [(Sender::Slave, info)]);
    });
}

#[test]
fn whoever_leaves_the_script_is_told_where() {
    let recording = recording("connect-loop-2threads");
    let script = Script::new(&recording, 0);
    let messages = recording.of_connection(0);
    let first_command = messages
        .iter()
        .position(|message| message.kind == Kind::Command);
    let before = &messages[..first_command.expect("a command")];

    // The first command is another, and does not come at all.
    for (last, words) in [
        (Some(MasterCommand::Abort), "found Command(Abort)"),
        (None, "failed to fill whole buffer"),
    ] {
        let (mut one, other) = connection_pair();
        let difference = thread::scope(|scope| {
            let slave = scope.spawn(|| play(&script, Sender::Slave, &other));
            for message in before {
                if message.sender == Sender::Master {
                    one.write_all(&message.bytes).expect("it is taken");
                } else {
                    let mut bytes = vec![0; message.bytes.len()];
                    one.read_exact(&mut bytes).expect("it comes");
                }
            }
            if let Some(command) = last {
                one.write_all(&command.encode(recording.order))
                    .expect("it is taken");
            }
            drop(one);
            slave.join().expect("no panic").expect_err("a difference")
        });
        let text = difference.to_string();
        let place = format!("connect-loop-2threads/0, message {}", before.len());
        assert!(text.starts_with(&place), "{text}");
        assert!(
            text.contains("expected Command(NextTransaction(0))"),
            "{text}"
        );
        assert!(text.contains(words), "{text}");
    }
}

fn connection_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let one = TcpStream::connect(address).expect("a connection");
    let (other, _) = listener.accept().expect("a connection");
    (one, other)
}
