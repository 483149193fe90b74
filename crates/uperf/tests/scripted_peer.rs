//! Tests of the scripted peer: it plays recordings against itself and against deviating messages.

#[expect(dead_code, reason = "each test program uses only a part of it")]
mod data;
mod peer;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use data::{Kind, Sender, recording, recordings};
use peer::{DecodedMessage, Script, play, play_with, play_with_data};
use uperf::DataProtocol;
use uperf::wire::{MasterCommand, SlaveInfo};

#[test]
fn plays_every_conversation() {
    for recording in recordings() {
        for connection in 0..recording.hosts.len() {
            let script = Script::new(&recording, connection);
            let (master_stream, slave_stream) = connection_pair();
            let events = thread::scope(|scope| {
                let slave = scope.spawn(|| play(&script, Sender::Slave, &slave_stream));
                let master = play(&script, Sender::Master, &master_stream);
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
fn plays_both_sides_with_data() {
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
                let (master_stream, slave_stream) = connection_pair();
                let slave = {
                    let recording = recording.clone();
                    thread::spawn(move || {
                        play_with_data(&recording, connection, Sender::Slave, &slave_stream)
                    })
                };
                let master = play_with_data(&recording, connection, Sender::Master, &master_stream);
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
fn accepts_different_ports() {
    let recording = recording("rr-tcp-connect");
    let recorded = Script::new(&recording, 0);
    let mut info = SlaveInfo::default();
    info.set_port(DataProtocol::Tcp, 12_345);
    let changed = recorded.clone().with_ports(Sender::Slave, &[info.clone()]);
    let (master_stream, slave_stream) = connection_pair();
    thread::scope(|scope| {
        let slave = scope.spawn(|| play(&changed, Sender::Slave, &slave_stream));
        let mut received = Vec::new();
        let played = play_with(&recorded, Sender::Master, &master_stream, |event| {
            if let DecodedMessage::Ports(ports) = &event.message {
                received.push((event.sender, ports.clone()));
            }
        });
        assert!(played.is_ok() && slave.join().is_ok_and(|played| played.is_ok()));
        assert_eq!(received, [(Sender::Slave, info)]);
    });
}

#[test]
fn reports_position_of_difference() {
    let recording = recording("connect-loop-2threads");
    let script = Script::new(&recording, 0);
    let messages = recording.of_connection(0);
    let first_command = messages
        .iter()
        .position(|message| message.kind == Kind::Command);
    let before = &messages[..first_command.expect("the recording has a command")];

    // The first command differs, then it is missing.
    for (command, expected_message) in [
        (Some(MasterCommand::Abort), "found Command(Abort)"),
        (None, "failed to fill whole buffer"),
    ] {
        let (mut master_stream, slave_stream) = connection_pair();
        let difference = thread::scope(|scope| {
            let slave = scope.spawn(|| play(&script, Sender::Slave, &slave_stream));
            for message in before {
                if message.sender == Sender::Master {
                    master_stream
                        .write_all(&message.bytes)
                        .expect("the slave receives");
                } else {
                    let mut bytes = vec![0; message.bytes.len()];
                    master_stream
                        .read_exact(&mut bytes)
                        .expect("the slave sends");
                }
            }
            if let Some(command) = command {
                master_stream
                    .write_all(&command.encode(recording.order))
                    .expect("the slave receives");
            }
            drop(master_stream);
            slave
                .join()
                .expect("no panic")
                .expect_err("the message differs")
        });
        let text = difference.to_string();
        let position = format!("connect-loop-2threads/0, message {}", before.len());
        assert!(text.starts_with(&position), "{text}");
        assert!(
            text.contains("expected Command(NextTransaction(0))"),
            "{text}"
        );
        assert!(text.contains(expected_message), "{text}");
    }
}

fn connection_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener is bound");
    let master_stream = TcpStream::connect(address).expect("the connection succeeds");
    let (slave_stream, _) = listener.accept().expect("the connection succeeds");
    (master_stream, slave_stream)
}
