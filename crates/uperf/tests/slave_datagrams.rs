//! A slave that sends datagrams until its master's socket is closed.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use engine::{Reason, Stop};
use uperf::slave::{Slave, Terms};
use uperf::wire::{Ack2, Command, END, Goodbye, Header, Layout, Order, SlaveInfo, Version};
use uperf::{Amount, Flowop, Group, Kind, Protocol, Strands, Transaction, mirror};

const HANDSHAKE: &[u8] = b"uperf udp handshake";

#[test]
fn a_closed_socket_is_the_end_of_a_stream() {
    let stop = Stop::new();
    let slave = Slave::listen(Protocol::Tcp, 0, Terms::default(), stop.clone()).expect("a port");
    let port = u16::try_from(slave.port().expect("it is bound")).expect("a port");
    let serving = thread::spawn(move || slave.serve());
    let goodbye = receive_and_close(port);
    stop.pull(Reason::Cancelled);
    serving.join().expect("no panic");
    let said = goodbye.message.to_string();
    assert_eq!((goodbye.kind, &*said), (Goodbye::INFO, "Success"));
    assert!(goodbye.bytes >= 90);
}

/// A master of one strand, which closes its socket while the slave still sends.
fn receive_and_close(port: u16) -> Goodbye {
    let control = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut message = Header::of_phase_2(Version::V0_3_1, 0).encode(Order::NATIVE);
    message.extend(workorder());
    send(&control, &message);
    let Ack2::Ok { slave_infos: 1 } = Ack2::decode(&take(&control), Order::NATIVE) else {
        panic!("refused");
    };
    let info = SlaveInfo::decode(&take(&control), Order::NATIVE);
    let there = u16::try_from(info.port(Protocol::Udp).expect("a port")).expect("a port");
    send(&control, &END);
    let _: [u8; END.len()] = take(&control);

    let data = UdpSocket::bind("127.0.0.1:0").expect("a port");
    data.connect(("127.0.0.1", there)).expect("an address");
    let command = |command: Command| send(&control, &command.encode(Order::NATIVE));
    command(Command::NextTransaction(0));
    data.send(HANDSHAKE).expect("it is bound");
    command(Command::NextTransaction(1));
    let mut datagram = [0; 100];
    let patience = Duration::from_secs(20);
    data.set_read_timeout(Some(patience)).expect("a time");
    assert_eq!(data.recv(&mut datagram).expect("a datagram"), 90);
    drop(data);
    // It goes on for two seconds, unless it sees that nobody is there any more.
    command(Command::SendStatistics);
    Goodbye::decode(&take(&control), Order::NATIVE).expect("a goodbye")
}

/// What a slave gets of a master that receives for two seconds.
fn workorder() -> Vec<u8> {
    let mut connect = Flowop::new(Kind::Connect);
    connect.endpoint.protocol = Some(Protocol::Udp);
    "127.0.0.1".clone_into(&mut connect.endpoint.remote_host);
    let mut read = Flowop::new(Kind::Read);
    read.size = Amount::Exactly(90);
    let once = Transaction {
        iterations: 1,
        flowops: vec![connect],
        ..Transaction::default()
    };
    let timed = Transaction {
        duration: Some(Duration::from_secs(2)),
        flowops: vec![read],
        ..Transaction::default()
    };
    let group = Group {
        strands: Strands {
            count: 1,
            threads: true,
            processes: false,
        },
        transactions: vec![once, timed],
        ..Group::default()
    };
    let work = mirror::work(&group, "127.0.0.1").expect("it fits");
    work.encode(Layout::BatchSize, Order::NATIVE)
}

fn take<const N: usize>(mut control: &TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    control.read_exact(&mut bytes).expect("an answer");
    bytes
}

fn send(mut control: &TcpStream, bytes: &[u8]) {
    control.write_all(bytes).expect("it reads");
}
