//! What a master says while a test runs, and the last word of its slaves.

use codec::{Field, Order, Record, Text, record};

/// What a slave is to do.
///
/// A stock slave takes what one read(2) gives it for a command: each must be sent in one call, on a
/// connection that delays nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begin with this transaction, or leave it out if there is none of that number.
    NextTransaction(u32),
    /// Stop all strands.
    Abort,
    /// Tell what was counted when all strands are through.
    SendStatistics,
    /// Listed in every uperf, and sent by none.
    Error,
    /// Any other number, and the value beside it.
    Other(u32, u32),
}

impl Command {
    /// Length in bytes.
    pub const LEN: usize = 72;

    /// Fails if these bytes are no command.
    pub fn decode(bytes: &[u8; Self::LEN], order: Order) -> Result<Self, WrongMagic> {
        check_magic(bytes, COMMAND)?;
        let value = u32::read(bytes, 68, order);
        Ok(match u32::read(bytes, 64, order) {
            0 => Self::NextTransaction(value),
            1 => Self::Abort,
            2 => Self::SendStatistics,
            3 => Self::Error,
            number => Self::Other(number, value),
        })
    }

    /// As it travels.
    pub fn encode(self, order: Order) -> [u8; Self::LEN] {
        let (number, value) = match self {
            Self::NextTransaction(number) => (0, number),
            Self::Abort => (1, 0),
            Self::SendStatistics => (2, 0),
            Self::Error => (3, 0),
            Self::Other(number, value) => (number, value),
        };
        let mut bytes = [0; Self::LEN];
        Text::<64>::cut(COMMAND).write(&mut bytes, 0, order);
        number.write(&mut bytes, 64, order);
        value.write(&mut bytes, 68, order);
        bytes
    }
}

record! {
    /// What a slave has counted. Whatever comes from a slave before this was asked for ends the test.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Goodbye: 616 bytes {
        /// What [`Self::message`] is: [`Self::ERROR`] and so on.
        [64] kind: u64,
        /// From the end of the handshake to the end of the last strand, ns.
        [72] elapsed_ns: u64,
        /// Failed executions; 0 from stock slaves.
        [80] errors: u64,
        /// Payload sent and received.
        [88] bytes: u64,
        /// Executions of flowops, and the end of each strand that was not killed.
        [96] operations: u64,
        /// `Success`, or the slave's log.
        [104] message: Text<512>,
    }
}

impl Goodbye {
    /// The message is the log.
    pub const ERROR: u64 = 0xAA;
    /// The message is a warning.
    pub const WARNING: u64 = 0xBB;
    /// The message tells that all went well.
    pub const INFO: u64 = 0xCC;
    /// There is no message.
    pub const NONE: u64 = 0xDD;

    /// How the log of a linerate slave begins that was stopped before the run's end; the place follows.
    pub const INTERRUPTED: &str = "interrupted ";

    /// Whether the run was interrupted at a linerate slave.
    pub fn is_interruption(&self) -> bool {
        let log = self.message.raw_bytes();
        self.kind == Self::ERROR
            && log
                .trim_ascii_start()
                .starts_with(Self::INTERRUPTED.as_bytes())
    }

    /// Fails if these bytes are no goodbye.
    pub fn decode(bytes: &[u8; Self::LEN], order: Order) -> Result<Self, WrongMagic> {
        check_magic(bytes, GOODBYE)?;
        Ok(Self::of_bytes(bytes, order))
    }

    /// As it travels.
    pub fn encode(&self, order: Order) -> [u8; Self::LEN] {
        let mut bytes = self.to_bytes(order);
        Text::<64>::cut(GOODBYE).write(&mut bytes, 0, order);
        bytes
    }
}

/// The message begins with this, and not with its magic words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongMagic(pub Text<64>);

fn check_magic(bytes: &[u8], magic: &str) -> Result<(), WrongMagic> {
    let found = Text::<64>::read(bytes, 0, Order::NATIVE);
    (found == *magic).then_some(()).ok_or(WrongMagic(found))
}

const COMMAND: &str = "uperf_command";
const GOODBYE: &str = "So Long, and Thanks for All the Fish";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_goodbyes_come_back() {
        let goodbye = Goodbye {
            kind: Goodbye::ERROR,
            elapsed_ns: 1,
            errors: 2,
            bytes: u64::MAX,
            operations: 3,
            message: Text::cut(" No such connection 7  \n"),
        };
        for order in [Order::Little, Order::Big] {
            for command in [
                Command::NextTransaction(258),
                Command::Abort,
                Command::SendStatistics,
                Command::Error,
                Command::Other(4, 9),
            ] {
                let bytes = command.encode(order);
                assert_eq!(Command::decode(&bytes, order), Ok(command));
            }
            let bytes = goodbye.encode(order);
            assert_eq!(Goodbye::decode(&bytes, order), Ok(goodbye.clone()));
        }
    }

    #[test]
    fn magic_words_are_looked_at() {
        let mut bytes = Command::Abort.encode(Order::Little);
        bytes[12] = b'D';
        let found = WrongMagic(Text::cut("uperf_commanD"));
        assert_eq!(Command::decode(&bytes, Order::Little), Err(found));

        let mut bytes = Goodbye::default().encode(Order::Little);
        bytes[36] = b'!';
        assert!(Goodbye::decode(&bytes, Order::Little).is_err());
    }
}
