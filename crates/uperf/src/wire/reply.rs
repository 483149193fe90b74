//! What a slave answers in the handshake.

use codec::{Field, Order, Text};

use super::protocol::refused_name;
use crate::account::Scarce;

/// The answer to phase 1, and to each phase that is refused before the workorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack1 {
    /// Go on.
    Ok,
    /// With this reason.
    Refused(Text<128>),
}

impl Ack1 {
    /// Length in bytes.
    pub const LEN: usize = 192;

    /// Stock slaves leave the reason undefined where there is none to give, and the status where
    /// there is: only `OK` is looked for.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        if Text::<64>::read(bytes, 0, Order::NATIVE) == *OK {
            return Self::Ok;
        }
        Self::Refused(Text::read(bytes, 64, Order::NATIVE))
    }

    /// An `OK` that also says who says it, where there is no reason to give.
    pub fn of_linerate() -> [u8; Self::LEN] {
        let mut bytes = Self::Ok.encode();
        Text::<128>::cut(LINERATE).write(&mut bytes, 64, Order::NATIVE);
        bytes
    }

    /// Whether a linerate says this.
    pub fn is_of_linerate(bytes: &[u8; Self::LEN]) -> bool {
        Text::<128>::read(bytes, 64, Order::NATIVE) == *LINERATE
    }

    /// As it travels, with nothing undefined.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let status = match self {
            Self::Ok => OK,
            Self::Refused(reason) => {
                reason.write(&mut bytes, 64, Order::NATIVE);
                "Not OK"
            }
        };
        Text::<64>::cut(status).write(&mut bytes, 0, Order::NATIVE);
        bytes
    }
}

/// The answer to phase 2, when the listeners are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack2 {
    /// Go on.
    Ok {
        /// How many [`SlaveInfo`](super::SlaveInfo) follow.
        slave_infos: u32,
    },
    /// With this reason.
    Refused(Text<128>),
}

impl Ack2 {
    /// Length in bytes.
    pub const LEN: usize = 196;

    /// What is undefined with stock slaves is not looked at, as in [`Ack1`]; of a refusal the count
    /// is.
    pub fn decode(bytes: &[u8; Self::LEN], order: Order) -> Self {
        let (start, _) = bytes.split_first_chunk().expect("it is longer");
        match Ack1::decode(start) {
            Ack1::Ok => Self::Ok {
                slave_infos: u32::read(bytes, Ack1::LEN, order),
            },
            Ack1::Refused(reason) => Self::Refused(reason),
        }
    }

    /// As it travels, with nothing undefined.
    pub fn encode(&self, order: Order) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let start = match self {
            Self::Ok { slave_infos } => {
                slave_infos.write(&mut bytes, Ack1::LEN, order);
                Ack1::Ok
            }
            Self::Refused(reason) => Ack1::Refused(*reason),
        };
        bytes[..Ack1::LEN].copy_from_slice(&start.encode());
        bytes
    }
}

const OK: &str = "OK";

/// What stands where a refusal has its reason, in an `OK` of ours. Stock masters do not look at it.
const LINERATE: &str = "linerate";

/// Why a slave refuses, in stock's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This is no header, or no group.
    #[error("Wrong magic")]
    Magic,
    /// A data version that is not known.
    #[error("Version 0.3.1 is incompatible with master data version {0}")]
    Version(Text<16>),
    /// A protocol, by its number, that cannot be opened here.
    #[error("Unsupported protocol:{}", refused_name(*.0))]
    Protocol(u32),
    /// Listeners cannot be had, for this reason of the system.
    #[error("Error creating ports: {0}")]
    Ports(String),
    /// There is no memory: which bound leaves how much.
    #[error("Out of Memory: {0}")]
    Memory(String),
    /// There are no threads, for this reason of the system.
    #[error("Error creating threads: {0}")]
    Threads(String),
    /// What is in the workorder cannot be, or is more than this slave does.
    #[error("{0}")]
    Workorder(String),
}

impl From<Scarce> for Refusal {
    fn from(scarce: Scarce) -> Self {
        match scarce {
            Scarce::Memory(_) => Self::Memory(scarce.to_string()),
            Scarce::Descriptors(_) | Scarce::Connections(_) => Self::Workorder(scarce.to_string()),
        }
    }
}

impl Refusal {
    /// As the reason of an answer: cut where it is too long for one.
    pub fn reason(&self) -> Text<128> {
        Text::cut(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back() {
        let reason = Refusal::Ports("Address already in use".to_owned()).reason();
        for answer in [Ack1::Ok, Ack1::Refused(reason)] {
            assert_eq!(Ack1::decode(&answer.encode()), answer);
        }
        for order in [Order::Little, Order::Big] {
            for answer in [
                Ack2::Ok { slave_infos: 258 },
                Ack2::Ok { slave_infos: 0 },
                Ack2::Refused(reason),
            ] {
                assert_eq!(Ack2::decode(&answer.encode(order), order), answer);
            }
        }
    }

    #[test]
    fn only_the_status_tells() {
        for (status, ok) in [
            (&b"OK"[..], true),
            (b"Not OK", false),
            (b"", false),
            (b"OKAY", false),
            (b"ok", false),
        ] {
            let mut bytes = [0xAA; Ack2::LEN];
            bytes[..status.len()].copy_from_slice(status);
            bytes[status.len()] = 0;
            let decoded = Ack2::decode(&bytes, Order::Big);
            assert_eq!(matches!(decoded, Ack2::Ok { .. }), ok, "{status:?}");
        }
    }

    #[test]
    fn reasons_are_in_stocks_words() {
        for (refusal, text) in [
            (Refusal::Magic, "Wrong magic"),
            (
                Refusal::Version(Text::cut("0.3")),
                "Version 0.3.1 is incompatible with master data version 0.3",
            ),
            (Refusal::Protocol(5), "Unsupported protocol:SSL"),
            (Refusal::Protocol(0), "Unsupported protocol:Unknown"),
            (Refusal::Protocol(u32::MAX), "Unsupported protocol:Unknown"),
            (
                Refusal::Ports("Address already in use".to_owned()),
                "Error creating ports: Address already in use",
            ),
            (
                Refusal::Memory("1 byte left".to_owned()),
                "Out of Memory: 1 byte left",
            ),
        ] {
            assert_eq!(refusal.to_string(), text);
            assert!(refusal.reason() == *text);
        }
        let long = Refusal::Workorder("x".repeat(1000)).reason();
        assert_eq!(long.raw_bytes().len(), 127);
    }
}
