//! Conversations with a uperf slave.

use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, HANDSHAKE_END, Header,
    MasterCommand, Phase1Answer, Phase2Answer, SlaveInfo, Text, TransactionRecord, TransactionWork,
    WorkRecords, protocol_number,
};
use uperf::{DataProtocol, FlowopKind};

use super::{Answer, Conversation, Data, Message, THIRD};

/// The first datagram of a UDP connection.
const HANDSHAKE: &[u8] = b"uperf udp handshake";

/// What a run ends with.
const ENDS: [MasterCommand; 3] = [
    MasterCommand::SendStatistics,
    MasterCommand::Abort,
    MasterCommand::Error,
];

/// Number of conversations up to the beginning of the run per conversation to its end.
const BEGINNINGS: usize = 19;

/// Each workorder in each layout, and in both orders.
pub(super) fn conversations(directory: &str) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    for layout in FlowopLayout::ALL {
        for order in [Endian::Little, Endian::Big] {
            for asked in works(directory) {
                let whole =
                    asked.conversation(layout, order, ENDS[conversations.len() % ENDS.len()]);
                // Strands without data keep a session for seconds: most conversations end as the run begins.
                for _ in 0..BEGINNINGS {
                    let mut beginning = whole.clone();
                    beginning.messages.truncate(5);
                    conversations.push(beginning);
                }
                conversations.push(whole);
            }
        }
    }
    conversations
}

/// Where an answer says that the first strand listens.
pub(super) fn data(answer: &[u8]) -> Option<Data> {
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
    Some(Data {
        port: u16::try_from(port).ok()?,
        first: HANDSHAKE.to_vec(),
    })
}

/// What a master asks of the slave.
struct Asked {
    protocol: DataProtocol,
    strand_kind: u32,
    /// Whether the slave's strands listen, or the master's do.
    listens: bool,
    connects: bool,
    transactions: Vec<(TransactionRecord, Vec<FlowopRecord>)>,
}

const STRANDS: u32 = 2;

impl Asked {
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
        let masters = if self.connects { STRANDS } else { 0 };
        let mut work = self.work().encode(layout, order);
        for _ in 0..masters {
            let mut info = SlaveInfo::default();
            info.set_port(self.protocol, 9);
            work.extend(info.encode(order));
        }
        let infos = if self.listens { STRANDS as usize } else { 0 };
        let message = |bytes: Vec<u8>, answer| Message { bytes, answer };
        let command =
            |command: MasterCommand, answer| message(command.encode(order).to_vec(), answer);
        let next = MasterCommand::NextTransaction;
        let mut messages = vec![
            message(
                Header::for_phase_1(version, [announced]).encode(order),
                Answer::Bytes(Phase1Answer::LEN),
            ),
            message(
                Header::for_phase_2(version, masters).encode(order),
                Answer::None,
            ),
            message(
                work,
                Answer::Bytes(Phase2Answer::LEN + infos * SlaveInfo::LEN),
            ),
            message(HANDSHAKE_END.to_vec(), Answer::Bytes(HANDSHAKE_END.len())),
            command(next(0), Answer::None),
            command(next(1), Answer::None),
            command(end, Answer::Bytes(Goodbye::LEN)),
        ];
        if !is_served {
            // This host may lack it: the workorder is the last message.
            messages.truncate(3);
        }
        Conversation {
            protocol: self.protocol.name(),
            messages,
        }
    }

    fn work(&self) -> WorkRecords {
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

/// Each protocol at either end, and each kind of flowop.
fn works(directory: &str) -> Vec<Asked> {
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
    let opens = |kind, protocol| FlowopRecord {
        protocol: protocol_number(protocol),
        remote_host: Text::truncated(&THIRD.to_string()),
        local_host: Text::truncated(&THIRD.to_string()),
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
    let mut works = vec![
        Asked {
            protocol: DataProtocol::Tcp,
            strand_kind: 4,
            listens: false,
            connects: false,
            transactions: vec![
                (once(), vec![think(), FlowopRecord::new(FlowopKind::Nop)]),
                (timed(), vec![think()]),
            ],
        },
        Asked {
            protocol: DataProtocol::Tcp,
            strand_kind: 2,
            listens: false,
            connects: false,
            transactions: vec![(once(), vec![think()])],
        },
        Asked {
            protocol: DataProtocol::Tcp,
            strand_kind: 4,
            listens: true,
            connects: false,
            transactions: vec![
                (once(), vec![opens(FlowopKind::Accept, DataProtocol::Tcp)]),
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
            works.push(Asked {
                protocol,
                strand_kind: 4,
                listens,
                connects: !listens,
                transactions: vec![
                    (
                        once(),
                        vec![
                            opens(kind, protocol),
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
    works
}

/// Fails the test unless there is a conversation with each protocol, version and kind of flowop.
pub(super) fn covers_all(conversations: &[Conversation]) {
    let kinds = works("")
        .iter()
        .flat_map(Asked::work_kinds)
        .collect::<Vec<_>>();
    for kind in FlowopKind::ALL {
        assert!(kinds.contains(&(kind as u32)), "no workorder has {kind}");
    }
    for protocol in DataProtocol::ALL {
        let mut of_protocol = conversations.iter();
        assert!(
            of_protocol.any(|conversation| conversation.protocol == protocol.name()),
            "no conversation is about {protocol}"
        );
    }
    for version in [DataVersion::V0_3, DataVersion::V0_3_1] {
        let mut first = conversations.iter().map(|of| of.messages[0].bytes.len());
        assert!(first.any(|len| len == version.header_len()));
    }
}

impl Asked {
    fn work_kinds(&self) -> Vec<u32> {
        let flowops = self.transactions.iter().flat_map(|(_, flowops)| flowops);
        flowops.map(|flowop| flowop.kind).collect()
    }
}
