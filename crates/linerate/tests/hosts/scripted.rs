//! Masters and slaves that speak the protocol, and do with data connections what a test wants.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
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

use super::ground::{PORT, address};

const ORDER: Endian = Endian::NATIVE;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The first datagram of a UDP connection.
pub(crate) const HANDSHAKE: &[u8] = b"uperf udp handshake";

/// The only group of a profile.
pub(crate) fn group(profile: &str) -> GroupSpec {
    let source = ProfileSource {
        name: "profile",
        bytes: profile.as_bytes(),
    };
    let parsed = parse(&source, &ProfileContext::for_this_process());
    let mut workorder = parsed.workorder.expect("a profile");
    workorder.groups.remove(0)
}

/// What the slave on the first host is sent for a profile.
pub(crate) fn work(profile: &str) -> WorkRecords {
    peer_workorder::records_for_host(&group(profile), &address(0)).expect("it can be sent")
}

/// A workorder of so many strands; each of these transactions runs so often.
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

/// Where a strand of the slave on the first host listens.
pub(crate) fn place_of(info: &SlaveInfo, protocol: DataProtocol) -> SocketAddr {
    let port = info.port(protocol).expect("it listens") as u16;
    SocketAddr::new(address(0).parse().expect("an address"), port)
}

/// A master whose words a test says one by one.
pub(crate) struct Master {
    pub(crate) control: TcpStream,
}

impl Master {
    /// Connects to the slave on the first host.
    pub(crate) fn connect() -> Self {
        Self::over(TcpStream::connect((address(0).as_str(), PORT)).expect("it listens"))
    }

    /// The same, over a connection that is there.
    pub(crate) fn over(control: TcpStream) -> Self {
        control.set_read_timeout(Some(LIMIT)).expect("not zero");
        control.set_nodelay(true).expect("it is TCP");
        Self { control }
    }

    pub(crate) fn say(&mut self, words: &[u8]) {
        self.control.write_all(words).expect("the slave reads");
    }

    pub(crate) fn hear<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.control
            .read_exact(&mut bytes)
            .expect("the slave answers");
        bytes
    }

    /// Phase 1.
    pub(crate) fn greet(&mut self, protocols: &[DataProtocol]) -> Phase1Answer {
        let header = Header::for_phase_1(DataVersion::V0_3_1, protocols.iter().copied());
        self.say(&header.encode(ORDER));
        Phase1Answer::decode(&self.hear())
    }

    /// Phase 2: where the slave's strands listen, or why it refuses.
    pub(crate) fn assign(&mut self, work: &WorkRecords) -> Result<Vec<SlaveInfo>, String> {
        let mut words = Header::for_phase_2(DataVersion::V0_3_1, 0).encode(ORDER);
        words.extend(work.encode(FlowopLayout::WithBatchSize, ORDER));
        // What is refused may not be read to its end.
        let _ = self.control.write_all(&words);
        match Phase2Answer::decode(&self.hear(), ORDER) {
            Phase2Answer::Ok { slave_infos } => Ok((0..slave_infos)
                .map(|_| SlaveInfo::decode(&self.hear(), ORDER))
                .collect()),
            Phase2Answer::Refused(why) => Err(why.to_string()),
        }
    }

    /// All that comes before the first transaction; where the slave's strands listen.
    pub(crate) fn begin(profile: &str) -> (Self, Vec<SlaveInfo>) {
        let mut master = Self::connect();
        let greeted = master.greet(&peer_workorder::protocols(&group(profile)));
        assert_eq!(greeted, Phase1Answer::Ok);
        let infos = master.assign(&work(profile)).expect("it is taken");
        master.say(&HANDSHAKE_END);
        assert_eq!(master.hear(), HANDSHAKE_END);
        (master, infos)
    }

    pub(crate) fn command(&mut self, command: MasterCommand) {
        self.say(&command.encode(ORDER));
    }

    /// The slave's last words.
    pub(crate) fn goodbye(mut self) -> Goodbye {
        Goodbye::decode(&self.hear(), ORDER).expect("a goodbye")
    }
}

/// A slave that says yes to everything, for one master.
pub(crate) struct Slave {
    listener: TcpListener,
}

impl Slave {
    /// Listens at the first slave's address.
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind((address(0).as_str(), PORT)).expect("a port");
        Self { listener }
    }

    /// A master's control connection.
    pub(crate) fn accept(&self) -> TcpStream {
        let (control, _) = self.listener.accept().expect("a master");
        control.set_read_timeout(Some(LIMIT)).expect("not zero");
        control
    }

    /// Serves a master up to its first transaction; where it is, and where its strands listen.
    pub(crate) fn serve(&self, profile: &str) -> (TcpStream, Vec<SlaveInfo>) {
        let mut control = self.accept();
        let group = group(profile);
        let mut header = [0; SHORT_HEADER_LEN];
        let mut read = |bytes: &mut [u8]| control.read_exact(bytes).expect("the master speaks");
        read(&mut header);
        control
            .write_all(&Phase1Answer::linerate_ok())
            .expect("it listens");
        let mut read = |bytes: &mut [u8]| control.read_exact(bytes).expect("the master speaks");
        read(&mut header);
        read(&mut vec![
            0;
            work(profile)
                .encode(FlowopLayout::WithBatchSize, ORDER)
                .len()
        ]);
        let (header, _) = Header::decode(&header).expect("a header");
        let infos = (0..header.slave_infos).map(|_| {
            let mut info = [0; SlaveInfo::LEN];
            read(&mut info);
            SlaveInfo::decode(&info, ORDER)
        });
        let infos = infos.collect();
        assert!(
            peer_workorder::accepts_connections(&group),
            "the master's part is to listen"
        );
        let ok = Phase2Answer::Ok { slave_infos: 0 };
        control.write_all(&ok.encode(ORDER)).expect("it listens");
        let mut end = [0; HANDSHAKE_END.len()];
        control.read_exact(&mut end).expect("the master speaks");
        control.write_all(&end).expect("it listens");
        let mut next = [0; MasterCommand::LEN];
        control.read_exact(&mut next).expect("the master speaks");
        (control, infos)
    }
}

/// A TCP connection that comes from this address.
pub(crate) fn stream_from(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::new(from, 0).into())
        .expect("it is ours");
    socket.connect(&to.into()).expect("it listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).expect("not zero");
    stream
}

/// A UDP connection that begins at this address.
pub(crate) fn datagrams_from(from: IpAddr, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).expect("it is ours");
    socket.connect(to).expect("there is a route");
    socket.set_read_timeout(Some(LIMIT)).expect("not zero");
    socket.send(HANDSHAKE).expect("there is a route");
    socket
}
