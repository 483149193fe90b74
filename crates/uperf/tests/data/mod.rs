//! The recorded control connections of `transcripts.txt`, which says how they were captured.

use uperf::WorkLimits;
use uperf::wire::{
    Endian, FlowopLayout, Goodbye, GroupRecord, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Phase2Answer, ReceivedWork, SlaveInfo, TransactionRecord, WorkRefusal,
};

/// One run of a master: all of its control connections.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    /// The master's command line, with its environment before it.
    pub(crate) master: &'static str,
    /// That of its flowops.
    pub(crate) layout: FlowopLayout,
    /// That of its integers.
    pub(crate) order: Endian,
    /// Of each control connection.
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) profile: String,
    pub(crate) messages: Vec<Message>,
}

/// One message, and who sent it over which connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) sender: Sender,
    pub(crate) connection: usize,
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Master,
    Slave,
}

/// In the words of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Header,
    Ack1,
    Group,
    Transaction,
    Flowop,
    Ports,
    Ack2,
    End,
    Command,
    Goodbye,
    /// The sender sends no more.
    Fin,
}

impl Recording {
    /// What its master has in the environment.
    pub(crate) fn environment(&self, name: &str) -> Option<String> {
        let words = self
            .master
            .split(' ')
            .map_while(|word| word.split_once('='));
        let mut same = words.filter(|(variable, _)| *variable == name);
        same.next().map(|(_, value)| value.to_owned())
    }

    /// The messages of one connection, up to the ends of both sides.
    pub(crate) fn of_connection(&self, connection: usize) -> Vec<Message> {
        let messages = self.messages.iter();
        let messages = messages.filter(|message| message.connection == connection);
        messages.cloned().collect()
    }

    /// What the master sends behind the header of phase 2, as a slave puts it together; `None` where
    /// it does not come so far.
    pub(crate) fn workorder(&self, connection: usize) -> Option<ReceivedWork> {
        let messages = self.of_connection(connection);
        let mut headers = messages
            .iter()
            .filter(|message| message.kind == Kind::Header);
        let header = headers.next_back()?.bytes.first_chunk()?;
        let (header, order) = Header::decode(header).ok()?;
        let version = header.version().ok()?;
        let of_master = messages
            .iter()
            .filter(|message| message.sender == Sender::Master);
        let behind = of_master.skip_while(|message| message.kind != Kind::Group);
        let bytes: Vec<u8> = behind.flat_map(|message| message.bytes.clone()).collect();
        let (mut rest, limits) = (&bytes[..], WorkLimits::default());
        let count = header.slave_infos;
        let fill = |buffer: &mut [u8], _| fill(buffer, &mut rest);
        let received = ReceivedWork::receive(version, order, count, &limits, fill);
        received.inspect_err(|why| assert_eq!(*why, short())).ok()
    }

    /// Length of a message of that kind in bytes.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        match kind {
            Kind::Header => self.layout.version().header_len(),
            Kind::Ack1 => Phase1Answer::LEN,
            Kind::Group => GroupRecord::LEN,
            Kind::Transaction => TransactionRecord::LEN,
            Kind::Flowop => self.layout.record_len(),
            Kind::Ports => SlaveInfo::LEN,
            Kind::Ack2 => Phase2Answer::LEN,
            Kind::End => HANDSHAKE_END.len(),
            Kind::Command => MasterCommand::LEN,
            Kind::Goodbye => Goodbye::LEN,
            Kind::Fin => 0,
        }
    }
}

/// All of them, in the order of the file.
pub(crate) fn recordings() -> Vec<Recording> {
    let mut recordings = Vec::<Recording>::new();
    for line in include_str!("transcripts.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            recordings.push(Recording {
                name: name.trim_end_matches(']'),
                master: "",
                layout: FlowopLayout::WithBatchSize,
                order: Endian::Little,
                hosts: Vec::new(),
                profile: String::new(),
                messages: Vec::new(),
            });
        } else if let Some(recording) = recordings.last_mut() {
            read(recording, line);
        }
    }
    recordings
}

/// The one of this name.
pub(crate) fn recording(name: &str) -> Recording {
    let found = recordings().into_iter().find(|other| other.name == name);
    found.expect("a recording")
}

fn read(recording: &mut Recording, line: &'static str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "layout" => {
            recording.layout = match rest {
                "1.0.7" => FlowopLayout::V1_0_7,
                "1.0.8" => FlowopLayout::V1_0_8,
                "batch_size" => FlowopLayout::WithBatchSize,
                other => panic!("layout {other}"),
            }
        }
        "master" => {
            recording.master = rest;
            if rest.contains("big-endian") {
                recording.order = Endian::Big;
            }
        }
        "host" => recording.hosts.push(rest),
        "|" => {
            recording.profile += rest;
            recording.profile.push('\n');
        }
        ">" => push(recording, Sender::Master, rest),
        "<" => push(recording, Sender::Slave, rest),
        "exit" | "" => {}
        other => panic!("{other}"),
    }
}

fn push(recording: &mut Recording, sender: Sender, text: &str) {
    let mut words = text.split(' ');
    let connection = words.next().and_then(|word| word.parse().ok());
    let kind = match words.next().expect("a kind") {
        "header" => Kind::Header,
        "ack1" => Kind::Ack1,
        "group" => Kind::Group,
        "transaction" => Kind::Transaction,
        "flowop" => Kind::Flowop,
        "ports" => Kind::Ports,
        "ack2" => Kind::Ack2,
        "end" => Kind::End,
        "command" => Kind::Command,
        "goodbye" => Kind::Goodbye,
        "FIN" => Kind::Fin,
        other => panic!("{other}"),
    };
    let mut bytes = Vec::new();
    for word in words {
        if let Some(zeros) = word.strip_prefix('*') {
            let zeros: usize = zeros.parse().expect("a number of words");
            bytes.resize(bytes.len() + 4 * zeros, 0);
        } else {
            let word = u32::from_str_radix(word, 16).expect("a word");
            bytes.extend(word.to_be_bytes());
        }
    }
    bytes.resize(recording.len(kind), 0);
    recording.messages.push(Message {
        sender,
        connection: connection.expect("a connection"),
        kind,
        bytes,
    });
}

/// Fills a buffer from the front of `bytes`.
pub(crate) fn fill(buffer: &mut [u8], bytes: &mut &[u8]) -> Result<(), WorkRefusal> {
    let (now, later) = bytes.split_at_checked(buffer.len()).ok_or_else(short)?;
    buffer.copy_from_slice(now);
    *bytes = later;
    Ok(())
}

fn short() -> WorkRefusal {
    WorkRefusal::Workorder("it is short".to_owned())
}
