//! A slave, and masters that ask for what no profile comes to, or leave in the middle.

mod datagrams;
mod files;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use engine::{Stop, StopReason};
use uperf::slave::{Slave, SlaveConfig};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, Goodbye, HANDSHAKE_END, Header, MasterCommand, Phase2Answer,
    SlaveInfo, WorkRecords,
};
use uperf::{
    Amount, DataProtocol, Flowop, FlowopKind, GroupSpec, StrandCount, TransactionSpec,
    peer_workorder,
};

/// Runs `masters` with the port of a slave.
fn serving<T>(terms: SlaveConfig, masters: impl FnOnce(u16) -> T) -> T {
    let stop = Stop::new();
    let slave = Slave::listen(DataProtocol::Tcp, 0, terms, stop.clone()).expect("a port");
    let port = u16::try_from(slave.port().expect("it is bound")).expect("a port");
    let serving = thread::spawn(move || slave.serve());
    let done = masters(port);
    stop.set(StopReason::Cancelled);
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
    fn begin(port: u16, protocol: DataProtocol, work: &WorkRecords) -> Result<Self, String> {
        let control = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let patience = Some(Duration::from_secs(10));
        control.set_read_timeout(patience).expect("a time");
        let mut master = Self { control, data: 0 };
        let mut message = Header::for_phase_2(DataVersion::V0_3_1, 0).encode(Endian::NATIVE);
        message.extend(work.encode(FlowopLayout::WithBatchSize, Endian::NATIVE));
        master.send(&message);
        if let Phase2Answer::Refused(why) = Phase2Answer::decode(&master.take(), Endian::NATIVE) {
            return Err(why.to_string());
        }
        let info = SlaveInfo::decode(&master.take(), Endian::NATIVE);
        master.data = u16::try_from(info.port(protocol).expect("a port")).expect("a port");
        master.send(&HANDSHAKE_END);
        assert_eq!(master.take(), HANDSHAKE_END);
        Ok(master)
    }

    fn command(&mut self, command: MasterCommand) {
        self.send(&command.encode(Endian::NATIVE));
    }

    /// Ends the run, and returns what the slave says of it.
    fn goodbye(mut self) -> Goodbye {
        self.command(MasterCommand::SendStatistics);
        Goodbye::decode(&self.take(), Endian::NATIVE).expect("a goodbye")
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
fn work(transactions: Vec<TransactionSpec>) -> WorkRecords {
    let group = GroupSpec {
        strands: StrandCount {
            count: 1,
            threads: true,
            processes: false,
        },
        transactions,
        ..GroupSpec::default()
    };
    peer_workorder::records_for_host(&group, "127.0.0.1").expect("it fits")
}

fn connect(protocol: DataProtocol) -> Flowop {
    let mut connect = Flowop::new(FlowopKind::Connect);
    connect.endpoint.protocol = Some(protocol);
    "127.0.0.1".clone_into(&mut connect.endpoint.remote_host);
    connect
}

fn read(size: u32) -> Flowop {
    let mut read = Flowop::new(FlowopKind::Read);
    read.transfer.amount = Amount::Exactly(size);
    read
}
