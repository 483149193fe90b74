//! Masters and slaves that follow the protocol. Each test controls their data connections.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use uperf::peer_workorder;
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, HANDSHAKE_END, Header,
    MasterCommand, Phase1Answer, Phase2Answer, SHORT_HEADER_LEN, SlaveInfo, TransactionRecord,
    TransactionWork, WorkRecords,
};
use uperf::{DataProtocol, GroupSpec};

use super::network::{PORT, slave_address};

const BYTE_ORDER: Endian = Endian::NATIVE;

/// Timeout of each read.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The first datagram of a UDP connection.
pub(crate) const HANDSHAKE: &[u8] = b"uperf udp handshake";

/// Parses a profile and returns its only group.
pub(crate) fn parse_group(profile: &str) -> GroupSpec {
    let source = ProfileSource {
        name: "profile",
        bytes: profile.as_bytes(),
    };
    let parsed = parse(&source, &ProfileContext::for_this_process());
    let mut workorder = parsed.workorder.expect("a valid profile");
    workorder.groups.remove(0)
}

/// Returns the records that a master sends to the slave on the first host.
pub(crate) fn work_records(profile: &str) -> WorkRecords {
    peer_workorder::records_for_host(&parse_group(profile), &slave_address(0))
        .expect("the work can be encoded")
}

/// Returns a workorder for `strands` threads. Each transaction runs `iterations` times.
pub(crate) fn workorder(
    strands: u32,
    iterations: u64,
    transactions: &[Vec<FlowopRecord>],
) -> WorkRecords {
    WorkRecords {
        group: GroupRecord {
            strand_kind: 4,
            strands,
            transactions: transactions.len() as u32,
            number: 0,
        },
        transactions: (0..)
            .zip(transactions)
            .map(|(number, flowops)| TransactionWork {
                record: TransactionRecord {
                    flowops: flowops.len() as u32,
                    number,
                    iterations,
                    ..TransactionRecord::default()
                },
                flowops: flowops.clone(),
            })
            .collect(),
    }
}

/// Returns the address at which a strand of the slave on the first host listens.
pub(crate) fn data_address(info: &SlaveInfo, protocol: DataProtocol) -> SocketAddr {
    let port = info.port(protocol).expect("the strand listens") as u16;
    SocketAddr::new(slave_address(0).parse().expect("a valid address"), port)
}

/// A master that sends each message at the request of a test.
pub(crate) struct Master {
    pub(crate) control: TcpStream,
}

impl Master {
    /// Connects to the slave on the first host.
    pub(crate) fn connect() -> Self {
        Self::from_stream(
            TcpStream::connect((slave_address(0).as_str(), PORT)).expect("the slave listens"),
        )
    }

    /// Uses an established connection.
    pub(crate) fn from_stream(control: TcpStream) -> Self {
        control
            .set_read_timeout(Some(TIMEOUT))
            .expect("a non-zero timeout");
        control.set_nodelay(true).expect("a TCP socket");
        Self { control }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.control.write_all(bytes).expect("the slave reads");
    }

    pub(crate) fn receive<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.control
            .read_exact(&mut bytes)
            .expect("the slave answers");
        bytes
    }

    /// Sends the header of phase 1 and returns the answer.
    pub(crate) fn exchange_phase_1(&mut self, protocols: &[DataProtocol]) -> Phase1Answer {
        let header = Header::for_phase_1(DataVersion::V0_3_1, protocols.iter().copied());
        self.send(&header.encode(BYTE_ORDER));
        Phase1Answer::decode(&self.receive())
    }

    /// Sends a workorder (phase 2). Returns the ports of the slave's strands, or the reason for a
    /// refusal.
    pub(crate) fn exchange_phase_2(
        &mut self,
        work: &WorkRecords,
    ) -> Result<Vec<SlaveInfo>, String> {
        let mut bytes = Header::for_phase_2(DataVersion::V0_3_1, 0).encode(BYTE_ORDER);
        bytes.extend(work.encode(FlowopLayout::WithBatchSize, BYTE_ORDER));
        // A slave that refuses may not read everything.
        let _ = self.control.write_all(&bytes);
        match Phase2Answer::decode(&self.receive(), BYTE_ORDER) {
            Phase2Answer::Ok { slave_infos } => Ok((0..slave_infos)
                .map(|_| SlaveInfo::decode(&self.receive(), BYTE_ORDER))
                .collect()),
            Phase2Answer::Refused(reason) => Err(reason.to_string()),
        }
    }

    /// Runs the protocol up to the first transaction and returns the ports of the slave's strands.
    pub(crate) fn complete_handshake(profile: &str) -> (Self, Vec<SlaveInfo>) {
        let mut master = Self::connect();
        let answer = master.exchange_phase_1(&peer_workorder::protocols(&parse_group(profile)));
        assert_eq!(answer, Phase1Answer::Ok);
        let infos = master
            .exchange_phase_2(&work_records(profile))
            .expect("the slave accepts the work");
        master.send(&HANDSHAKE_END);
        assert_eq!(master.receive(), HANDSHAKE_END);
        (master, infos)
    }

    pub(crate) fn command(&mut self, command: MasterCommand) {
        self.send(&command.encode(BYTE_ORDER));
    }

    /// Returns the goodbye of the slave.
    pub(crate) fn receive_goodbye(mut self) -> Goodbye {
        Goodbye::decode(&self.receive(), BYTE_ORDER).expect("a goodbye")
    }
}

/// A slave that accepts all work of one master.
pub(crate) struct Slave {
    listener: TcpListener,
}

impl Slave {
    /// Listens at the first slave's address.
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind((slave_address(0).as_str(), PORT)).expect("a free port");
        Self { listener }
    }

    /// Accepts the control connection of a master. Panics if none connects in time.
    pub(crate) fn accept(&self) -> TcpStream {
        let is_ready = sys::call::wait_readable(self.listener.as_fd(), TIMEOUT);
        assert!(matches!(is_ready, Ok(true)), "no master connects");
        let (control, _) = self.listener.accept().expect("a master connects");
        control
            .set_read_timeout(Some(TIMEOUT))
            .expect("a non-zero timeout");
        control
    }

    /// Serves a master up to its first transaction. Returns its control connection and the ports of
    /// its strands.
    pub(crate) fn serve_handshake(&self, profile: &str) -> (TcpStream, Vec<SlaveInfo>) {
        let mut control = self.accept();
        let group = parse_group(profile);
        let mut header = [0; SHORT_HEADER_LEN];
        let mut read = |bytes: &mut [u8]| control.read_exact(bytes).expect("the master sends");
        read(&mut header);
        control
            .write_all(&Phase1Answer::linerate_ok())
            .expect("the master reads");
        let mut read = |bytes: &mut [u8]| control.read_exact(bytes).expect("the master sends");
        read(&mut header);
        read(&mut vec![
            0;
            work_records(profile)
                .encode(FlowopLayout::WithBatchSize, BYTE_ORDER)
                .len()
        ]);
        let (header, _) = Header::decode(&header).expect("a header");
        let infos = (0..header.slave_infos).map(|_| {
            let mut info = [0; SlaveInfo::LEN];
            read(&mut info);
            SlaveInfo::decode(&info, BYTE_ORDER)
        });
        let infos = infos.collect();
        assert!(
            peer_workorder::accepts_connections(&group),
            "the master must listen for data"
        );
        let ok = Phase2Answer::Ok { slave_infos: 0 };
        control
            .write_all(&ok.encode(BYTE_ORDER))
            .expect("the master reads");
        let mut end = [0; HANDSHAKE_END.len()];
        control.read_exact(&mut end).expect("the master sends");
        control.write_all(&end).expect("the master reads");
        let mut next = [0; MasterCommand::LEN];
        control.read_exact(&mut next).expect("the master sends");
        (control, infos)
    }
}

/// Connects to `to` from the local address `from`.
pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::new(from, 0).into())
        .expect("a local address");
    socket.connect(&to.into()).expect("the slave listens");
    let stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(TIMEOUT))
        .expect("a non-zero timeout");
    stream
}

/// Starts a UDP connection to `to` from the local address `from`.
pub(crate) fn connect_udp_from(from: IpAddr, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).expect("a local address");
    socket.connect(to).expect("a route to the slave");
    socket
        .set_read_timeout(Some(TIMEOUT))
        .expect("a non-zero timeout");
    socket.send(HANDSHAKE).expect("a route to the slave");
    socket
}
