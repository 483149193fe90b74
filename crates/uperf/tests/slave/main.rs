//! A slave with masters that request work that no profile can express, or that leave early.

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

/// Calls `run_masters` with the port of a running slave.
fn with_slave<T>(config: SlaveConfig, run_masters: impl FnOnce(u16) -> T) -> T {
    let stop = Stop::new();
    let slave =
        Slave::listen(DataProtocol::Tcp, 0, config, stop.clone()).expect("the slave listens");
    let port = u16::try_from(slave.port().expect("the slave is bound")).expect("a TCP port");
    let serving = thread::spawn(move || slave.serve());
    let result = run_masters(port);
    stop.set(StopReason::Cancelled);
    serving.join().expect("no panic");
    result
}

/// A master with one strand, after the handshake.
struct Master {
    control: TcpStream,
    /// Port of the slave's strand.
    data_port: u16,
}

impl Master {
    /// Does the handshake. An error is the slave's reason for a refusal.
    fn start(port: u16, protocol: DataProtocol, work: &WorkRecords) -> Result<Self, String> {
        let control = TcpStream::connect(("127.0.0.1", port)).expect("the slave listens");
        let timeout = Some(Duration::from_secs(10));
        control
            .set_read_timeout(timeout)
            .expect("the timeout is valid");
        let mut master = Self {
            control,
            data_port: 0,
        };
        let mut message = Header::for_phase_2(DataVersion::V0_3_1, 0).encode(Endian::NATIVE);
        message.extend(work.encode(FlowopLayout::WithBatchSize, Endian::NATIVE));
        master.send(&message);
        if let Phase2Answer::Refused(reason) =
            Phase2Answer::decode(&master.receive(), Endian::NATIVE)
        {
            return Err(reason.to_string());
        }
        let info = SlaveInfo::decode(&master.receive(), Endian::NATIVE);
        let data_port = info.port(protocol).expect("the slave reports a port");
        master.data_port = u16::try_from(data_port).expect("a TCP or UDP port");
        master.send(&HANDSHAKE_END);
        assert_eq!(master.receive(), HANDSHAKE_END);
        Ok(master)
    }

    fn send_command(&mut self, command: MasterCommand) {
        self.send(&command.encode(Endian::NATIVE));
    }

    /// Ends the run and returns the goodbye of the slave.
    fn goodbye(mut self) -> Goodbye {
        self.send_command(MasterCommand::SendStatistics);
        Goodbye::decode(&self.receive(), Endian::NATIVE).expect("the goodbye is valid")
    }

    fn send(&mut self, bytes: &[u8]) {
        self.control.write_all(bytes).expect("the slave receives");
    }

    fn receive<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.control
            .read_exact(&mut bytes)
            .expect("the slave answers");
        bytes
    }
}

/// Returns the records that a master with one strand sends.
fn records(transactions: Vec<TransactionSpec>) -> WorkRecords {
    let group = GroupSpec {
        strands: StrandCount {
            count: 1,
            threads: true,
            processes: false,
        },
        transactions,
        ..GroupSpec::default()
    };
    peer_workorder::records_for_host(&group, "127.0.0.1").expect("the group can be sent")
}

fn connect_flowop(protocol: DataProtocol) -> Flowop {
    let mut connect = Flowop::new(FlowopKind::Connect);
    connect.endpoint.protocol = Some(protocol);
    "127.0.0.1".clone_into(&mut connect.endpoint.remote_host);
    connect
}

fn read_flowop(size: u32) -> Flowop {
    let mut read = Flowop::new(FlowopKind::Read);
    read.transfer.amount = Amount::Exactly(size);
    read
}
