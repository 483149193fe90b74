//! Commands of a master during a test, and the final report of a slave (goodbye).

use codec::{Endian, Field, Record, Text, record};

/// Command of a master to a slave.
///
/// A stock slave treats the bytes of one read(2) as one command. So each command must be sent in
/// one call, on a connection that sends without delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterCommand {
    /// Start the transaction with this number; skip the command if there is no such transaction.
    NextTransaction(u32),
    /// Stop all strands.
    Abort,
    /// Report the counters after all strands have ended.
    SendStatistics,
    /// Defined in every uperf version, but never sent.
    Error,
    /// Any other command number, and its value.
    Other(u32, u32),
}

impl MasterCommand {
    /// Length in bytes.
    pub const LEN: usize = 72;

    /// Decodes a command; fails without its magic word.
    pub fn decode(bytes: &[u8; Self::LEN], order: Endian) -> Result<Self, WrongMagic> {
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

    /// Returns the message.
    pub fn encode(self, order: Endian) -> [u8; Self::LEN] {
        let (number, value) = match self {
            Self::NextTransaction(number) => (0, number),
            Self::Abort => (1, 0),
            Self::SendStatistics => (2, 0),
            Self::Error => (3, 0),
            Self::Other(number, value) => (number, value),
        };
        let mut bytes = [0; Self::LEN];
        Text::<64>::truncated(COMMAND).write(&mut bytes, 0, order);
        number.write(&mut bytes, 64, order);
        value.write(&mut bytes, 68, order);
        bytes
    }
}

record! {
    /// Counters of a slave. If a slave sends anything before the master requests the counters, the
    /// test ends.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Goodbye: 616 bytes {
        /// Kind of [`Self::message`], such as [`Self::ERROR`].
        [64] kind: u64,
        /// Time from the end of the handshake to the end of the last strand, ns.
        [72] elapsed_ns: u64,
        /// Failed executions; 0 from stock slaves.
        [80] errors: u64,
        /// Payload bytes sent and received.
        [88] bytes: u64,
        /// Executions of flowops, plus 1 per strand that was not killed.
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
    /// The message reports success.
    pub const INFO: u64 = 0xCC;
    /// There is no message.
    pub const NONE: u64 = 0xDD;

    /// Start of the log of a linerate slave that was stopped before the end of the run. The stage
    /// follows.
    pub const INTERRUPTED: &str = "interrupted ";

    /// Whether a linerate slave was stopped during the run.
    pub fn is_interruption(&self) -> bool {
        let log = self.message.raw_bytes();
        self.kind == Self::ERROR
            && log
                .trim_ascii_start()
                .starts_with(Self::INTERRUPTED.as_bytes())
    }

    /// Decodes a goodbye; fails without its magic words.
    pub fn decode(bytes: &[u8; Self::LEN], order: Endian) -> Result<Self, WrongMagic> {
        check_magic(bytes, GOODBYE)?;
        Ok(Self::from_bytes(bytes, order))
    }

    /// Returns the message.
    pub fn encode(&self, order: Endian) -> [u8; Self::LEN] {
        let mut bytes = self.to_bytes(order);
        Text::<64>::truncated(GOODBYE).write(&mut bytes, 0, order);
        bytes
    }
}

/// Error: the message starts with this text instead of its magic words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongMagic(pub Text<64>);

fn check_magic(bytes: &[u8], magic: &str) -> Result<(), WrongMagic> {
    let found = Text::<64>::read(bytes, 0, Endian::NATIVE);
    (found == *magic).then_some(()).ok_or(WrongMagic(found))
}

const COMMAND: &str = "uperf_command";
const GOODBYE: &str = "So Long, and Thanks for All the Fish";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_goodbyes_round_trip() {
        let goodbye = Goodbye {
            kind: Goodbye::ERROR,
            elapsed_ns: 1,
            errors: 2,
            bytes: u64::MAX,
            operations: 3,
            message: Text::truncated(" No such connection 7  \n"),
        };
        for order in [Endian::Little, Endian::Big] {
            for command in [
                MasterCommand::NextTransaction(258),
                MasterCommand::Abort,
                MasterCommand::SendStatistics,
                MasterCommand::Error,
                MasterCommand::Other(4, 9),
            ] {
                let bytes = command.encode(order);
                assert_eq!(MasterCommand::decode(&bytes, order), Ok(command));
            }
            let bytes = goodbye.encode(order);
            assert_eq!(Goodbye::decode(&bytes, order), Ok(goodbye.clone()));
        }
    }

    #[test]
    fn wrong_magic_words_are_refused() {
        let mut bytes = MasterCommand::Abort.encode(Endian::Little);
        bytes[12] = b'D';
        let found = WrongMagic(Text::truncated("uperf_commanD"));
        assert_eq!(MasterCommand::decode(&bytes, Endian::Little), Err(found));

        let mut bytes = Goodbye::default().encode(Endian::Little);
        bytes[36] = b'!';
        assert!(Goodbye::decode(&bytes, Endian::Little).is_err());
    }
}
