//! A slave, and masters that ask for what no profile comes to, or leave in the middle.

mod datagrams;
mod files;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use engine::{Reason, Stop};
use uperf::slave::{Slave, Terms};
use uperf::wire::{Ack2, Command, END, Goodbye, Header, Layout, Order, SlaveInfo, Version, Work};
use uperf::{Amount, Flowop, Group, Kind, Protocol, Strands, Transaction, mirror};

/// Runs `masters` with the port of a slave.
fn serving<T>(terms: Terms, masters: impl FnOnce(u16) -> T) -> T {
    let stop = Stop::new();
    let slave = Slave::listen(Protocol::Tcp, 0, terms, stop.clone()).expect("a port");
    let port = u16::try_from(slave.port().expect("it is bound")).expect("a port");
    let serving = thread::spawn(move || slave.serve());
    let done = masters(port);
    stop.pull(Reason::Cancelled);
    serving.join().expect("no panic");
    done
}

/// A master of one strand that knows where the slave's strand listens.
struct Master {
    control: TcpStream,
    /// The port of the slave's strand.
    data: u16,
}

impl Master {
    /// The handshake; an error is the slave's reason for a refusal.
    fn begin(port: u16, protocol: Protocol, work: &Work) -> Result<Self, String> {
        let control = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let patience = Some(Duration::from_secs(10));
        control.set_read_timeout(patience).expect("a time");
        let mut master = Self { control, data: 0 };
        let mut message = Header::of_phase_2(Version::V0_3_1, 0).encode(Order::NATIVE);
        message.extend(work.encode(Layout::BatchSize, Order::NATIVE));
        master.send(&message);
        if let Ack2::Refused(why) = Ack2::decode(&master.take(), Order::NATIVE) {
            return Err(why.to_string());
        }
        let info = SlaveInfo::decode(&master.take(), Order::NATIVE);
        master.data = u16::try_from(info.port(protocol).expect("a port")).expect("a port");
        master.send(&END);
        assert_eq!(master.take(), END);
        Ok(master)
    }

    fn command(&mut self, command: Command) {
        self.send(&command.encode(Order::NATIVE));
    }

    /// Ends the run, and returns what the slave says of it.
    fn goodbye(mut self) -> Goodbye {
        self.command(Command::SendStatistics);
        Goodbye::decode(&self.take(), Order::NATIVE).expect("a goodbye")
    }

    fn send(&mut self, bytes: &[u8]) {
        self.control.write_all(bytes).expect("it reads");
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.control.read_exact(&mut bytes).expect("an answer");
        bytes
    }
}

/// What a slave gets from a master of one strand.
fn work(transactions: Vec<Transaction>) -> Work {
    let group = Group {
        strands: Strands {
            count: 1,
            threads: true,
            processes: false,
        },
        transactions,
        ..Group::default()
    };
    mirror::work(&group, "127.0.0.1").expect("it fits")
}

fn connect(protocol: Protocol) -> Flowop {
    let mut connect = Flowop::new(Kind::Connect);
    connect.endpoint.protocol = Some(protocol);
    "127.0.0.1".clone_into(&mut connect.endpoint.remote_host);
    connect
}

fn read(size: u32) -> Flowop {
    let mut read = Flowop::new(Kind::Read);
    read.transfer.amount = Amount::Exactly(size);
    read
}
