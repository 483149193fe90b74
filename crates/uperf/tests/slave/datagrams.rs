//! A slave that sends datagrams until its master's socket is closed.

use std::net::UdpSocket;
use std::time::Duration;

use uperf::slave::SlaveConfig;
use uperf::wire::{Goodbye, MasterCommand, WorkRecords};
use uperf::{DataProtocol, TransactionSpec};

use super::{Master, connect, read, serving, work};

const HANDSHAKE: &[u8] = b"uperf udp handshake";

#[test]
fn a_closed_socket_is_the_end_of_a_stream() {
    let goodbye = serving(SlaveConfig::default(), receive_and_close);
    let said = goodbye.message.to_string();
    assert_eq!((goodbye.kind, &*said), (Goodbye::INFO, "Success"));
    assert!(goodbye.bytes >= 90);
}

/// A master of one strand, which closes its socket while the slave still sends.
fn receive_and_close(port: u16) -> Goodbye {
    let mut master = Master::begin(port, DataProtocol::Udp, &receives()).expect("it is taken");
    let data = UdpSocket::bind("127.0.0.1:0").expect("a port");
    data.connect(("127.0.0.1", master.data))
        .expect("an address");
    master.command(MasterCommand::NextTransaction(0));
    data.send(HANDSHAKE).expect("it is bound");
    master.command(MasterCommand::NextTransaction(1));
    let mut datagram = [0; 100];
    let patience = Duration::from_secs(20);
    data.set_read_timeout(Some(patience)).expect("a time");
    assert_eq!(data.recv(&mut datagram).expect("a datagram"), 90);
    drop(data);
    // It goes on for two seconds, unless it sees that nobody is there any more.
    master.goodbye()
}

/// Two seconds of datagrams.
fn receives() -> WorkRecords {
    let once = TransactionSpec {
        iterations: 1,
        flowops: vec![connect(DataProtocol::Udp)],
        ..TransactionSpec::default()
    };
    let timed = TransactionSpec {
        duration: Some(Duration::from_secs(2)),
        flowops: vec![read(90)],
        ..TransactionSpec::default()
    };
    work(vec![once, timed])
}
