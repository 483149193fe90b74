//! A peer that plays one side of a recorded conversation over a real connection, message by
//! message, and compares the messages of the other side with the recording.
//!
//! The comparison ignores values that differ between runs: port numbers, counts, times, and the
//! texts of warnings. The protocols with a port must be the same.

mod strands;
pub(crate) mod tls;

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use uperf::FlowopFlags;
use uperf::wire::{
    Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, HANDSHAKE_END, Header, MasterCommand,
    Phase1Answer, Phase2Answer, SlaveInfo, TransactionRecord,
};

use crate::data::{Kind, Message, Recording, Sender};
use strands::{Listeners, Strands};

/// The recorded messages of one control connection, in order.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    name: String,
    layout: FlowopLayout,
    order: Endian,
    messages: Vec<Message>,
}

impl Script {
    /// Returns the script of a recorded connection.
    pub(crate) fn new(recording: &Recording, connection: usize) -> Self {
        Self {
            name: format!("{}/{connection}", recording.name),
            layout: recording.layout,
            order: recording.order,
            messages: recording.of_connection(connection),
        }
    }

    /// Replaces the recorded ports of `side`, which are no longer open, with these.
    pub(crate) fn with_ports(mut self, side: Sender, ports: &[SlaveInfo]) -> Self {
        let order = self.order;
        let messages = self.messages.iter_mut();
        let recorded =
            messages.filter(|message| message.kind == Kind::Ports && message.sender == side);
        for (message, ports) in recorded.zip(ports) {
            message.bytes = ports.encode(order).to_vec();
        }
        self
    }
}

/// A message with its sender.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) sender: Sender,
    pub(crate) message: DecodedMessage,
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DecodedMessage {
    Header(Header),
    Ack1(Phase1Answer),
    Group(GroupRecord),
    Transaction(TransactionRecord),
    Flowop(Box<FlowopRecord>),
    Ports(SlaveInfo),
    Ack2(Phase2Answer),
    End(Vec<u8>),
    Command(MasterCommand),
    Goodbye(Box<Goodbye>),
    /// The sender sends no more.
    Fin,
}

/// A message that differs from the script.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Name of the conversation and number of the message.
    position: String,
    expected: String,
    found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            position,
            expected,
            found,
        } = self;
        write!(f, "{position}: expected {expected}, found {found}")
    }
}

/// Plays `side` of the script on this connection. Returns the messages of both sides.
pub(crate) fn play(
    script: &Script,
    side: Sender,
    stream: &TcpStream,
) -> Result<Vec<Event>, Difference> {
    play_with(script, side, stream, |_| {})
}

/// Does the same as [`play`], and calls `on_event` with each message. It calls it before it sends
/// an own message, so that `on_event` can delay the message, and after it receives one.
pub(crate) fn play_with(
    script: &Script,
    side: Sender,
    mut stream: &TcpStream,
    mut on_event: impl FnMut(&Event),
) -> Result<Vec<Event>, Difference> {
    let mut events = Vec::new();
    for (number, message) in script.messages.iter().enumerate() {
        let difference = |expected: &dyn fmt::Debug, found: &dyn fmt::Debug| Difference {
            position: format!("{}, message {number}", script.name),
            expected: format!("{expected:?}"),
            found: format!("{found:?}"),
        };
        let sender = message.sender;
        let expected = decode(script, message.kind, &message.bytes)
            .map_err(|error| difference(&"a valid script", &error))?;
        if sender == side {
            let event = Event {
                sender,
                message: expected,
            };
            on_event(&event);
            send(stream, message).map_err(|error| difference(&event.message, &error))?;
            events.push(event);
            continue;
        }
        let bytes = receive(&mut stream, message).map_err(|error| difference(&expected, &error))?;
        let received =
            decode(script, message.kind, &bytes).map_err(|error| difference(&expected, &error))?;
        if !is_equivalent(&expected, &received) {
            return Err(difference(&expected, &received));
        }
        let event = Event {
            sender,
            message: received,
        };
        on_event(&event);
        events.push(event);
    }
    Ok(events)
}

/// Does the same as [`play`], with data connections. Strands execute the recorded workorder and
/// listen on their own ports. The script continues when they have finished a transaction.
pub(crate) fn play_with_data(
    recording: &Recording,
    connection: usize,
    side: Sender,
    stream: &TcpStream,
) -> Result<Vec<Event>, Difference> {
    let received = recording
        .workorder(connection)
        .expect("the recording has a workorder");
    let work = received.work;
    let local_address = stream.local_addr().expect("the stream is connected").ip();
    let peer_address = stream.peer_addr().expect("the stream is connected").ip();
    let listeners = Listeners::new(&work, side, local_address);
    let script = Script::new(recording, connection).with_ports(side, &listeners.ports());
    let transactions = work.transactions.len() as u32;

    let (mut listeners, mut strands) = (Some(listeners), None::<Strands>);
    let mut peer_ports = Vec::new();
    let mut interrupted = None;
    let played = play_with(&script, side, stream, |event| match &event.message {
        DecodedMessage::Ports(info) if event.sender != side => peer_ports.push(info.clone()),
        DecodedMessage::Command(MasterCommand::NextTransaction(number)) => {
            if let Some(listeners) = listeners.take() {
                strands = Some(Strands::start(
                    &work,
                    side,
                    listeners,
                    peer_address,
                    &peer_ports,
                ));
            }
            let Some(strands) = &strands else { return };
            if side == Sender::Master {
                strands.wait_until_finished(transactions.min(*number));
                strands.wait_for_tick();
                // The command makes a slave interrupt an unfinished transaction at once.
                thread::sleep(Duration::from_millis(100));
            }
            interrupted = interrupted.or_else(|| strands.transaction_before_tick());
            strands.release(*number);
        }
        DecodedMessage::Command(MasterCommand::SendStatistics) => {
            let Some(strands) = &strands else { return };
            if side == Sender::Master {
                strands.wait_until_finished(transactions);
                strands.wait_for_tick();
            }
            interrupted = interrupted.or_else(|| strands.transaction_before_tick());
        }
        DecodedMessage::Goodbye(_) if event.sender == side => {
            if let Some(strands) = &strands {
                strands.wait_until_finished(transactions);
            }
        }
        _ => {}
    });
    if let Some(strands) = strands {
        strands.stop();
    }
    let interrupted = interrupted.map(|transaction| Difference {
        position: script.name.clone(),
        expected: format!("a command after the slave's tick in transaction {transaction}"),
        found: "a command before it".to_owned(),
    });
    played.and_then(|events| interrupted.map_or(Ok(events), Err))
}

fn send(mut stream: &TcpStream, message: &Message) -> io::Result<()> {
    if message.kind == Kind::Fin {
        // The other side may already have closed the connection.
        return match stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        };
    }
    stream.set_nodelay(true)?;
    stream.write_all(&message.bytes)
}

/// Receives as many bytes as the message has, or the end of the stream for [`Kind::Fin`].
fn receive(stream: &mut &TcpStream, message: &Message) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    if message.kind == Kind::Fin {
        let mut byte = [0];
        return match stream.read(&mut byte) {
            Ok(0) => Ok(Vec::new()),
            Ok(_) => Err(io::Error::other("unexpected data")),
            // A peer that closes with unread data resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Vec::new()),
            Err(error) => Err(error),
        };
    }
    let mut bytes = vec![0; message.bytes.len()];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Maximum time to wait for a message.
const TIMEOUT: Duration = Duration::from_secs(20);

fn decode(script: &Script, kind: Kind, bytes: &[u8]) -> Result<DecodedMessage, String> {
    let (layout, order) = (script.layout, script.order);
    let check_order = |found: Endian| (found == order).then_some(()).ok_or("wrong byte order");
    Ok(match kind {
        Kind::Header => {
            let (header, found) =
                Header::decode(array(bytes)?).map_err(|error| error.to_string())?;
            check_order(found)?;
            DecodedMessage::Header(header)
        }
        Kind::Ack1 => DecodedMessage::Ack1(Phase1Answer::decode(array(bytes)?)),
        Kind::Group => {
            let group = GroupRecord::decode(array(bytes)?, order);
            DecodedMessage::Group(group.map_err(|error| error.to_string())?)
        }
        Kind::Transaction => {
            DecodedMessage::Transaction(TransactionRecord::decode(array(bytes)?, order))
        }
        Kind::Flowop => {
            let flowop = FlowopRecord::decode(bytes, layout, order);
            DecodedMessage::Flowop(Box::new(flowop.ok_or("too short")?))
        }
        Kind::Ports => DecodedMessage::Ports(SlaveInfo::decode(array(bytes)?, order)),
        Kind::Ack2 => DecodedMessage::Ack2(Phase2Answer::decode(array(bytes)?, order)),
        Kind::End if bytes.len() == HANDSHAKE_END.len() => DecodedMessage::End(bytes.to_vec()),
        Kind::End => return Err("too short".to_owned()),
        Kind::Command => {
            let command = MasterCommand::decode(array(bytes)?, order);
            DecodedMessage::Command(command.map_err(|error| format!("{error:?}"))?)
        }
        Kind::Goodbye => {
            let goodbye = Goodbye::decode(array(bytes)?, order);
            DecodedMessage::Goodbye(Box::new(goodbye.map_err(|error| format!("{error:?}"))?))
        }
        Kind::Fin => DecodedMessage::Fin,
    })
}

/// Returns the first `N` bytes. The remaining bytes of a longer header have no meaning.
fn array<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], String> {
    bytes.first_chunk().ok_or_else(|| "too short".to_owned())
}

/// Returns whether two messages are equal, except for values that differ between runs.
fn is_equivalent(expected: &DecodedMessage, received: &DecodedMessage) -> bool {
    match (expected, received) {
        (DecodedMessage::Flowop(expected), DecodedMessage::Flowop(received)) => {
            let mut received = received.clone();
            // Stock leaves the size of a random size unset; only the bounds count.
            if FlowopFlags(expected.flags).has(FlowopFlags::RANDOM)
                && received.size == received.random_max
            {
                received.size = expected.size;
            }
            received == *expected
        }
        (DecodedMessage::Ports(expected), DecodedMessage::Ports(received)) => {
            let listens = |info: &SlaveInfo| info.ports.map(|port| port != 0);
            listens(expected) == listens(received)
        }
        (DecodedMessage::Goodbye(expected), DecodedMessage::Goodbye(received)) => {
            // Stock warns about buffers that are larger than requested. We need not warn.
            let only_warns = expected.message.to_string().contains("Warning");
            only_warns || expected.kind == received.kind
        }
        _ => expected == received,
    }
}
