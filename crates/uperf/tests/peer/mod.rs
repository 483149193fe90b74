//! A peer that plays one side of a recorded conversation over a real connection, message by message,
//! and sees whether the other side does its part.
//!
//! What is said of a test is compared; what is measured in it, and what is another in each run, is
//! not: ports (but for which protocols there are any), counts, times, and the texts of warnings.

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

/// What is said on one control connection, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    name: String,
    layout: FlowopLayout,
    order: Endian,
    messages: Vec<Message>,
}

impl Script {
    /// That of a recorded connection.
    pub(crate) fn new(recording: &Recording, connection: usize) -> Self {
        Self {
            name: format!("{}/{connection}", recording.name),
            layout: recording.layout,
            order: recording.order,
            messages: recording.of_connection(connection),
        }
    }

    /// With these ports in place of those that `side` told, where nobody listens any more.
    pub(crate) fn with_ports(mut self, side: Sender, ports: &[SlaveInfo]) -> Self {
        let order = self.order;
        let told = self.messages.iter_mut();
        let told = told.filter(|message| message.kind == Kind::Ports && message.sender == side);
        for (message, ports) in told.zip(ports) {
            message.bytes = ports.encode(order).to_vec();
        }
        self
    }
}

/// What one side has said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) sender: Sender,
    pub(crate) said: Said,
}

/// A message that has been understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
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
    /// Nothing more will be said.
    Fin,
}

/// Where the other side left the script.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Which conversation, and which of its messages.
    place: String,
    expected: String,
    found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            expected,
            found,
        } = self;
        write!(f, "{place}: expected {expected}, found {found}")
    }
}

/// Plays `side` of the script on this connection, and gives all that was said by both.
pub(crate) fn play(
    script: &Script,
    side: Sender,
    stream: &TcpStream,
) -> Result<Vec<Event>, Difference> {
    play_with(script, side, stream, |_| {})
}

/// As [`play`], and shows each message: its own before it is sent, which may so be held back until
/// something has happened, and the other side's when it has come.
pub(crate) fn play_with(
    script: &Script,
    side: Sender,
    mut stream: &TcpStream,
    mut show: impl FnMut(&Event),
) -> Result<Vec<Event>, Difference> {
    let mut events = Vec::new();
    for (number, message) in script.messages.iter().enumerate() {
        let difference = |expected: &dyn fmt::Debug, found: &dyn fmt::Debug| Difference {
            place: format!("{}, message {number}", script.name),
            expected: format!("{expected:?}"),
            found: format!("{found:?}"),
        };
        let sender = message.sender;
        let expected = understood(script, message.kind, &message.bytes)
            .map_err(|what| difference(&"a script", &what))?;
        if sender == side {
            let event = Event {
                sender,
                said: expected,
            };
            show(&event);
            say(stream, message).map_err(|error| difference(&event.said, &error))?;
            events.push(event);
            continue;
        }
        let bytes = listen(&mut stream, message).map_err(|error| difference(&expected, &error))?;
        let said = understood(script, message.kind, &bytes)
            .map_err(|what| difference(&expected, &what))?;
        if !agree(&expected, &said) {
            return Err(difference(&expected, &said));
        }
        let event = Event { sender, said };
        show(&event);
        events.push(event);
    }
    Ok(events)
}

/// As [`play`], with data connections: strands do what the recorded workorder says, over TCP or UDP,
/// and listen at ports of their own. The script goes on where they are through.
pub(crate) fn play_whole(
    recording: &Recording,
    connection: usize,
    side: Sender,
    stream: &TcpStream,
) -> Result<Vec<Event>, Difference> {
    let received = recording.workorder(connection).expect("a workorder");
    let (work, here) = (received.work, stream.local_addr().expect("connected").ip());
    let there = stream.peer_addr().expect("connected").ip();
    let listeners = Listeners::new(&work, side, here);
    let script = Script::new(recording, connection).with_ports(side, &listeners.ports());
    let transactions = work.transactions.len() as u32;

    let (mut listeners, mut strands) = (Some(listeners), None::<Strands>);
    let mut ports = Vec::new();
    let mut cut_off = None;
    let played = play_with(&script, side, stream, |event| match &event.said {
        Said::Ports(other) if event.sender != side => ports.push(other.clone()),
        Said::Command(MasterCommand::NextTransaction(number)) => {
            if let Some(listeners) = listeners.take() {
                strands = Some(Strands::start(&work, side, listeners, there, &ports));
            }
            let Some(strands) = &strands else { return };
            if side == Sender::Master {
                strands.wait(transactions.min(*number));
                strands.await_tick();
                // A slave interrupts at once what it has not come to the end of.
                thread::sleep(Duration::from_millis(100));
            }
            cut_off = cut_off.or_else(|| strands.before_tick());
            strands.release(*number);
        }
        Said::Command(MasterCommand::SendStatistics) => {
            let Some(strands) = &strands else { return };
            if side == Sender::Master {
                strands.wait(transactions);
                strands.await_tick();
            }
            cut_off = cut_off.or_else(|| strands.before_tick());
        }
        Said::Goodbye(_) if event.sender == side => {
            if let Some(strands) = &strands {
                strands.wait(transactions);
            }
        }
        _ => {}
    });
    if let Some(strands) = strands {
        strands.stop();
    }
    let cut_off = cut_off.map(|transaction| Difference {
        place: script.name.clone(),
        expected: format!("an order after the slave's tick in transaction {transaction}"),
        found: "one before it".to_owned(),
    });
    played.and_then(|events| cut_off.map_or(Ok(events), Err))
}

fn say(mut stream: &TcpStream, message: &Message) -> io::Result<()> {
    if message.kind == Kind::Fin {
        // The other side may have closed, which is no matter at the end.
        return match stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        };
    }
    stream.set_nodelay(true)?;
    stream.write_all(&message.bytes)
}

/// As many bytes as the message has; nothing at the end of the stream if that is what should come.
fn listen(stream: &mut &TcpStream, message: &Message) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    if message.kind == Kind::Fin {
        let mut more = [0];
        return match stream.read(&mut more) {
            Ok(0) => Ok(Vec::new()),
            Ok(_) => Err(io::Error::other("more of something")),
            // One that closes while there is something to read for it resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Vec::new()),
            Err(error) => Err(error),
        };
    }
    let mut bytes = vec![0; message.bytes.len()];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// How long the other side may take for a message.
const PATIENCE: Duration = Duration::from_secs(20);

fn understood(script: &Script, kind: Kind, bytes: &[u8]) -> Result<Said, String> {
    let (layout, order) = (script.layout, script.order);
    let of_order = |found: Endian| (found == order).then_some(()).ok_or("the other byte order");
    Ok(match kind {
        Kind::Header => {
            let (header, found) = Header::decode(array(bytes)?).map_err(|no| no.to_string())?;
            of_order(found)?;
            Said::Header(header)
        }
        Kind::Ack1 => Said::Ack1(Phase1Answer::decode(array(bytes)?)),
        Kind::Group => {
            let group = GroupRecord::decode(array(bytes)?, order);
            Said::Group(group.map_err(|no| no.to_string())?)
        }
        Kind::Transaction => Said::Transaction(TransactionRecord::decode(array(bytes)?, order)),
        Kind::Flowop => {
            let flowop = FlowopRecord::decode(bytes, layout, order);
            Said::Flowop(Box::new(flowop.ok_or("too short")?))
        }
        Kind::Ports => Said::Ports(SlaveInfo::decode(array(bytes)?, order)),
        Kind::Ack2 => Said::Ack2(Phase2Answer::decode(array(bytes)?, order)),
        Kind::End if bytes.len() == HANDSHAKE_END.len() => Said::End(bytes.to_vec()),
        Kind::End => return Err("too short".to_owned()),
        Kind::Command => {
            let command = MasterCommand::decode(array(bytes)?, order);
            Said::Command(command.map_err(|wrong| format!("{wrong:?}"))?)
        }
        Kind::Goodbye => {
            let goodbye = Goodbye::decode(array(bytes)?, order);
            Said::Goodbye(Box::new(goodbye.map_err(|wrong| format!("{wrong:?}"))?))
        }
        Kind::Fin => Said::Fin,
    })
}

/// The first `N` bytes: of a longer header the rest says nothing.
fn array<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], String> {
    bytes.first_chunk().ok_or_else(|| "too short".to_owned())
}

/// Whether the other side has said what the script has, as far as it can be the same.
fn agree(expected: &Said, said: &Said) -> bool {
    match (expected, said) {
        (Said::Flowop(expected), Said::Flowop(said)) => {
            let mut said = said.clone();
            // A random size has its bounds; for the size itself stock says nothing.
            if FlowopFlags(expected.flags).has(FlowopFlags::RANDOM) && said.size == said.random_max
            {
                said.size = expected.size;
            }
            said == *expected
        }
        (Said::Ports(expected), Said::Ports(said)) => {
            let listens = |info: &SlaveInfo| info.ports.map(|port| port != 0);
            listens(expected) == listens(said)
        }
        (Said::Goodbye(expected), Said::Goodbye(said)) => {
            // Stock warns where buffers are larger than was asked for, which need not be a warning.
            let only_warns = expected.message.to_string().contains("Warning");
            only_warns || expected.kind == said.kind
        }
        _ => expected == said,
    }
}
