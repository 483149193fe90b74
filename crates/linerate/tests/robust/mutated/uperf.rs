//! Conversations with a uperf slave.

use testkit::short_path_dir;
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, HANDSHAKE_END, Header,
    MasterCommand, Phase1Answer, Phase2Answer, SlaveInfo, Text, TransactionRecord, TransactionWork,
    WorkRecords, protocol_number,
};
use uperf::{DataProtocol, FlowopKind};

use super::conversation::{Answer, Channel, Conversation, DataSocket, Message};
use super::servers::{IDLE_TIMEOUT, RunningServer, without_backtraces};
use super::target::Target;
use super::third_host::{THIRD_HOST, ThirdHost};
use crate::hosts::network::{Hosts, PORT};

/// The first datagram of a UDP connection.
const HANDSHAKE: &[u8] = b"uperf udp handshake";

/// Commands that end a run.
const END_COMMANDS: [MasterCommand; 3] = [
    MasterCommand::SendStatistics,
    MasterCommand::Abort,
    MasterCommand::Error,
];

/// Number of conversations that end at the start of the run, per complete conversation.
const SHORT_CONVERSATIONS: usize = 19;

pub(super) fn run() {
    let hosts = Hosts::new(1);
    let third_host = ThirdHost::linked_to(&hosts.slaves[0]);
    let files = short_path_dir();
    std::fs::write(files.path().join("f"), b"a file").expect("the directory is writable");
    let directory = files.path().display().to_string();
    let target = Target {
        conversations: conversations(&directory),
        parse_data_socket,
        ..Target::default()
    };
    assert_covers_all(&target.conversations);
    let slave = hosts.start_slave_with(
        0,
        &without_backtraces(&format!(
            "uperf -s -P {PORT} --control-idle 5 --max-length 1 --max-masters 8192 --max-strands 2048 \
             --allow-dir {directory}"
        )),
    );
    let idle_usage = slave.idle_usage();
    target.attack(
        &hosts,
        &third_host,
        &RunningServer {
            idle_usage,
            usage: &|| slave.usage(),
            assert_serves: &|| {
                let event = "the mutated messages";
                slave.assert_cleaned_up_and_serves(idle_usage, IDLE_TIMEOUT, event);
            },
            processes: vec![slave.pid() as u32],
            resident_kib: &|| slave.resident_kib(),
            log: &|| slave.stderr(),
        },
    );
}

/// Returns conversations with each workorder in each layout and byte order.
pub(super) fn conversations(directory: &str) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    for layout in FlowopLayout::ALL {
        for order in [Endian::Little, Endian::Big] {
            for workorder in workorders(directory) {
                let complete = workorder.conversation(
                    layout,
                    order,
                    END_COMMANDS[conversations.len() % END_COMMANDS.len()],
                );
                // Strands without data keep a session open for seconds. Most conversations
                // therefore end at the start of the run.
                for _ in 0..SHORT_CONVERSATIONS {
                    let mut short = complete.clone();
                    short.messages.truncate(5);
                    conversations.push(short);
                }
                conversations.push(complete);
            }
        }
    }
    conversations
}

/// Returns the data socket of the first strand that an answer announces.
pub(super) fn parse_data_socket(answer: &[u8]) -> Option<DataSocket> {
    let info = answer.get(Phase2Answer::LEN..)?.first_chunk()?;
    let port = [Endian::Little, Endian::Big]
        .into_iter()
        .find_map(|order| {
            let info = SlaveInfo::decode(info, order);
            let port = |protocol| info.port(protocol);
            [DataProtocol::Tcp, DataProtocol::Udp, DataProtocol::Ssl]
                .into_iter()
                .find_map(port)
        })?;
    Some(DataSocket {
        port: u16::try_from(port).ok()?,
        first_bytes: HANDSHAKE.to_vec(),
    })
}

/// A workorder that a master sends to the slave.
struct Workorder {
    protocol: DataProtocol,
    strand_kind: u32,
    /// The slave's strands listen.
    listens: bool,
    /// The slave's strands connect to the master's.
    connects: bool,
    transactions: Vec<(TransactionRecord, Vec<FlowopRecord>)>,
}

const STRANDS: u32 = 2;

impl Workorder {
    fn conversation(
        &self,
        layout: FlowopLayout,
        order: Endian,
        end: MasterCommand,
    ) -> Conversation {
        let version = layout.version();
        let is_served = matches!(
            self.protocol,
            DataProtocol::Tcp | DataProtocol::Udp | DataProtocol::Ssl
        );
        let announced = if is_served {
            self.protocol
        } else {
            DataProtocol::Tcp
        };
        let master_infos = if self.connects { STRANDS } else { 0 };
        let mut records = self.records().encode(layout, order);
        for _ in 0..master_infos {
            let mut info = SlaveInfo::default();
            info.set_port(self.protocol, 9);
            records.extend(info.encode(order));
        }
        let slave_infos = if self.listens { STRANDS as usize } else { 0 };
        let message = |name: String, bytes: Vec<u8>, answer_len| {
            let message = Message::new(name, Channel::CONTROL, bytes);
            match answer_len {
                0 => message,
                len => message.answered(Answer::Bytes(len)),
            }
        };
        let command = |name: &str, command: MasterCommand, answer_len| {
            message(name.to_owned(), command.encode(order).to_vec(), answer_len)
        };
        let next = MasterCommand::NextTransaction;
        let mut messages = vec![
            message(
                "header of phase 1".to_owned(),
                Header::for_phase_1(version, [announced]).encode(order),
                Phase1Answer::LEN,
            ),
            message(
                "header of phase 2".to_owned(),
                Header::for_phase_2(version, master_infos).encode(order),
                0,
            ),
            message(
                format!("workorder with {}", self.protocol.name()),
                records,
                Phase2Answer::LEN + slave_infos * SlaveInfo::LEN,
            ),
            message(
                "end of handshake".to_owned(),
                HANDSHAKE_END.to_vec(),
                HANDSHAKE_END.len(),
            ),
            command("first transaction", next(0), 0),
            command("next transaction", next(1), 0),
            command(&format!("{end:?}"), end, Goodbye::LEN),
        ];
        if !is_served {
            // This host may lack the protocol, so the workorder is the last message.
            messages.truncate(3);
        }
        Conversation {
            protocol: self.protocol.name(),
            messages,
        }
    }

    fn records(&self) -> WorkRecords {
        let transactions = (0..).zip(&self.transactions);
        WorkRecords {
            group: GroupRecord {
                strand_kind: self.strand_kind,
                strands: STRANDS,
                transactions: self.transactions.len() as u32,
                number: 0,
            },
            transactions: transactions
                .map(|(number, (record, flowops))| TransactionWork {
                    record: TransactionRecord {
                        number,
                        ..record.clone()
                    },
                    flowops: flowops.clone(),
                })
                .collect(),
        }
    }
}

/// Returns workorders with each protocol at either end, and with each kind of flowop.
fn workorders(directory: &str) -> Vec<Workorder> {
    let once = || TransactionRecord {
        iterations: 1,
        ..TransactionRecord::default()
    };
    let timed = || TransactionRecord {
        duration_ns: 20_000_000,
        rate: 100,
        rate_text: Text::truncated("100"),
        ..TransactionRecord::default()
    };
    let open = |kind, protocol| FlowopRecord {
        protocol: protocol_number(protocol),
        remote_host: Text::truncated(&THIRD_HOST.to_string()),
        local_host: Text::truncated(&THIRD_HOST.to_string()),
        window: 65_536,
        congestion_control: Text::truncated("reno"),
        ..FlowopRecord::new(kind)
    };
    let transfer = |kind| FlowopRecord {
        size: 64,
        timeout_ns: 1_000_000,
        ..FlowopRecord::new(kind)
    };
    let file = |kind| FlowopRecord {
        files: 1,
        directory: Text::truncated(directory),
        ..FlowopRecord::new(kind)
    };
    let think = || FlowopRecord {
        duration_ns: 1_000_000,
        ..FlowopRecord::new(FlowopKind::Think)
    };
    let close = || FlowopRecord::new(FlowopKind::Disconnect);
    let mut workorders = vec![
        Workorder {
            protocol: DataProtocol::Tcp,
            strand_kind: 4,
            listens: false,
            connects: false,
            transactions: vec![
                (once(), vec![think(), FlowopRecord::new(FlowopKind::Nop)]),
                (timed(), vec![think()]),
            ],
        },
        Workorder {
            protocol: DataProtocol::Tcp,
            strand_kind: 2,
            listens: false,
            connects: false,
            transactions: vec![(once(), vec![think()])],
        },
        Workorder {
            protocol: DataProtocol::Tcp,
            strand_kind: 4,
            listens: true,
            connects: false,
            transactions: vec![
                (once(), vec![open(FlowopKind::Accept, DataProtocol::Tcp)]),
                (
                    once(),
                    vec![
                        file(FlowopKind::Sendfile),
                        file(FlowopKind::Sendfilev),
                        close(),
                    ],
                ),
            ],
        },
    ];
    for protocol in DataProtocol::ALL {
        for (kind, listens) in [(FlowopKind::Accept, true), (FlowopKind::Connect, false)] {
            workorders.push(Workorder {
                protocol,
                strand_kind: 4,
                listens,
                connects: !listens,
                transactions: vec![
                    (
                        once(),
                        vec![
                            open(kind, protocol),
                            transfer(FlowopKind::Read),
                            transfer(FlowopKind::Write),
                        ],
                    ),
                    (
                        timed(),
                        vec![
                            transfer(FlowopKind::Recv),
                            transfer(FlowopKind::Send),
                            close(),
                        ],
                    ),
                ],
            });
        }
    }
    workorders
}

/// Fails the test unless there is a conversation with each protocol, version and kind of flowop.
pub(super) fn assert_covers_all(conversations: &[Conversation]) {
    let kinds = workorders("")
        .iter()
        .flat_map(Workorder::flowop_kinds)
        .collect::<Vec<_>>();
    for kind in FlowopKind::ALL {
        assert!(kinds.contains(&(kind as u32)), "no workorder has {kind}");
    }
    for protocol in DataProtocol::ALL {
        let mut protocols = conversations.iter();
        assert!(
            protocols.any(|conversation| conversation.protocol == protocol.name()),
            "no conversation uses {protocol}"
        );
    }
    for version in [DataVersion::V0_3, DataVersion::V0_3_1] {
        let mut header_lens = conversations
            .iter()
            .map(|conversation| conversation.messages[0].bytes.len());
        assert!(header_lens.any(|len| len == version.header_len()));
    }
}

impl Workorder {
    fn flowop_kinds(&self) -> Vec<u32> {
        let flowops = self.transactions.iter().flat_map(|(_, flowops)| flowops);
        flowops.map(|flowop| flowop.kind).collect()
    }
}
