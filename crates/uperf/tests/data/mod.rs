//! The recorded control connections in `transcripts.txt`. The file describes how they were
//! captured.

use uperf::WorkLimits;
use uperf::wire::{
    Endian, FlowopLayout, Goodbye, GroupRecord, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Phase2Answer, ReceivedWork, SlaveInfo, TransactionRecord, WorkRefusal,
};

/// One run of a master with all its control connections.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    /// The master's command line, after its environment variables.
    pub(crate) master: &'static str,
    /// Layout of the flowops.
    pub(crate) layout: FlowopLayout,
    /// Byte order of the integers.
    pub(crate) order: Endian,
    /// Host of each control connection.
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) profile: String,
    pub(crate) messages: Vec<Message>,
}

/// One message with its sender and its control connection.
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

/// Kind of a message, named as in the file.
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
    /// Returns the value of an environment variable of the master.
    pub(crate) fn environment(&self, name: &str) -> Option<String> {
        let words = self
            .master
            .split(' ')
            .map_while(|word| word.split_once('='));
        let mut matching = words.filter(|(variable, _)| *variable == name);
        matching.next().map(|(_, value)| value.to_owned())
    }

    /// Returns the messages of one connection, up to the ends of both sides.
    pub(crate) fn of_connection(&self, connection: usize) -> Vec<Message> {
        let messages = self.messages.iter();
        let messages = messages.filter(|message| message.connection == connection);
        messages.cloned().collect()
    }

    /// Returns the workorder after the header of phase 2, as a slave receives it. Returns `None` if
    /// the recording ends earlier.
    pub(crate) fn workorder(&self, connection: usize) -> Option<ReceivedWork> {
        let messages = self.of_connection(connection);
        let mut headers = messages
            .iter()
            .filter(|message| message.kind == Kind::Header);
        let header = headers.next_back()?.bytes.first_chunk()?;
        let (header, order) = Header::decode(header).ok()?;
        let version = header.version().ok()?;
        let master_messages = messages
            .iter()
            .filter(|message| message.sender == Sender::Master);
        let work_messages = master_messages.skip_while(|message| message.kind != Kind::Group);
        let bytes: Vec<u8> = work_messages
            .flat_map(|message| message.bytes.clone())
            .collect();
        let (mut remaining, limits) = (&bytes[..], WorkLimits::default());
        let count = header.slave_infos;
        let fill = |buffer: &mut [u8], _| fill(buffer, &mut remaining);
        let received = ReceivedWork::receive(version, order, count, &limits, fill);
        let received = received.inspect_err(|error| assert_eq!(*error, too_short()));
        received.ok()
    }

    /// Returns the length of a message of this kind in bytes.
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

/// Returns all recordings, in the order of the file.
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
            parse_line(recording, line);
        }
    }
    recordings
}

/// Returns the recording with this name.
pub(crate) fn recording(name: &str) -> Recording {
    let recording = recordings()
        .into_iter()
        .find(|recording| recording.name == name);
    recording.expect("the recording exists")
}

fn parse_line(recording: &mut Recording, line: &'static str) {
    let (word, value) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "layout" => {
            recording.layout = match value {
                "1.0.7" => FlowopLayout::V1_0_7,
                "1.0.8" => FlowopLayout::V1_0_8,
                "batch_size" => FlowopLayout::WithBatchSize,
                unknown => panic!("unknown layout: {unknown}"),
            }
        }
        "master" => {
            recording.master = value;
            if value.contains("big-endian") {
                recording.order = Endian::Big;
            }
        }
        "host" => recording.hosts.push(value),
        "|" => {
            recording.profile += value;
            recording.profile.push('\n');
        }
        ">" => push_message(recording, Sender::Master, value),
        "<" => push_message(recording, Sender::Slave, value),
        "exit" | "" => {}
        unknown => panic!("unknown line: {unknown}"),
    }
}

fn push_message(recording: &mut Recording, sender: Sender, text: &str) {
    let mut words = text.split(' ');
    let connection = words.next().and_then(|word| word.parse().ok());
    let kind = match words.next().expect("the line has a kind") {
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
        unknown => panic!("unknown kind: {unknown}"),
    };
    let mut bytes = Vec::new();
    for word in words {
        if let Some(zeros) = word.strip_prefix('*') {
            let zeros: usize = zeros.parse().expect("the count is a number");
            bytes.resize(bytes.len() + 4 * zeros, 0);
        } else {
            let word = u32::from_str_radix(word, 16).expect("the word is hexadecimal");
            bytes.extend(word.to_be_bytes());
        }
    }
    bytes.resize(recording.len(kind), 0);
    recording.messages.push(Message {
        sender,
        connection: connection.expect("the line has a connection number"),
        kind,
        bytes,
    });
}

/// Fills a buffer from the front of `bytes`.
pub(crate) fn fill(buffer: &mut [u8], bytes: &mut &[u8]) -> Result<(), WorkRefusal> {
    let (front, remaining) = bytes.split_at_checked(buffer.len()).ok_or_else(too_short)?;
    buffer.copy_from_slice(front);
    *bytes = remaining;
    Ok(())
}

fn too_short() -> WorkRefusal {
    WorkRefusal::Workorder("it is short".to_owned())
}
