//! A slave that sends datagrams until the master closes its socket.

use std::net::UdpSocket;
use std::time::Duration;

use uperf::slave::SlaveConfig;
use uperf::wire::{Goodbye, MasterCommand, WorkRecords};
use uperf::{DataProtocol, TransactionSpec};

use super::{Master, connect_flowop, read_flowop, records, with_slave};

const HANDSHAKE: &[u8] = b"uperf udp handshake";

#[test]
fn slave_treats_closed_socket_as_end_of_stream() {
    let goodbye = with_slave(SlaveConfig::default(), receive_and_close);
    let message = goodbye.message.to_string();
    assert_eq!((goodbye.kind, &*message), (Goodbye::INFO, "Success"));
    assert!(goodbye.bytes >= 90);
}

/// Runs a master with one strand that closes its socket while the slave still sends.
fn receive_and_close(port: u16) -> Goodbye {
    let mut master = Master::start(port, DataProtocol::Udp, &receive_work())
        .expect("the slave accepts the work");
    let data = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    data.connect(("127.0.0.1", master.data_port))
        .expect("the address is valid");
    master.send_command(MasterCommand::NextTransaction(0));
    data.send(HANDSHAKE).expect("the socket is connected");
    master.send_command(MasterCommand::NextTransaction(1));
    let mut datagram = [0; 100];
    let timeout = Duration::from_secs(20);
    data.set_read_timeout(Some(timeout))
        .expect("the timeout is valid");
    assert_eq!(
        data.recv(&mut datagram)
            .expect("the slave sends a datagram"),
        90
    );
    drop(data);
    // The slave sends for two seconds unless it notices the closed socket.
    master.goodbye()
}

/// Returns work in which the slave sends datagrams for two seconds.
fn receive_work() -> WorkRecords {
    let connect = TransactionSpec {
        iterations: 1,
        flowops: vec![connect_flowop(DataProtocol::Udp)],
        ..TransactionSpec::default()
    };
    let receive = TransactionSpec {
        duration: Some(Duration::from_secs(2)),
        flowops: vec![read_flowop(90)],
        ..TransactionSpec::default()
    };
    records(vec![connect, receive])
}
