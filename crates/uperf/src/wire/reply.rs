//! Answers of a slave in the handshake.

use codec::{Endian, Field, Text};

use super::protocol::name_in_refusal;
use crate::run_budget::RunLimit;

/// Answer to phase 1, and refusal of a header of phase 2, which a slave sends before it reads the
/// workorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase1Answer {
    /// Accepted.
    Ok,
    /// Refused, with the reason.
    Refused(Text<128>),
}

impl Phase1Answer {
    /// Length in bytes.
    pub const LEN: usize = 192;

    /// Decodes an answer. Everything except the status `OK` is a refusal, because stock slaves
    /// leave the reason of an `OK` and the status of a refusal undefined.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        if Text::<64>::read(bytes, 0, Endian::NATIVE) == *OK {
            return Self::Ok;
        }
        Self::Refused(Text::read(bytes, 64, Endian::NATIVE))
    }

    /// Returns an `OK` message that identifies linerate in the unused reason field.
    pub fn linerate_ok() -> [u8; Self::LEN] {
        let mut bytes = Self::Ok.encode();
        Text::<128>::truncated(LINERATE).write(&mut bytes, 64, Endian::NATIVE);
        bytes
    }

    /// Whether linerate sent this answer.
    pub fn is_linerate(bytes: &[u8; Self::LEN]) -> bool {
        Text::<128>::read(bytes, 64, Endian::NATIVE) == *LINERATE
    }

    /// Returns the message, with zeros in unused fields.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let status = match self {
            Self::Ok => OK,
            Self::Refused(reason) => {
                reason.write(&mut bytes, 64, Endian::NATIVE);
                "Not OK"
            }
        };
        Text::<64>::truncated(status).write(&mut bytes, 0, Endian::NATIVE);
        bytes
    }
}

/// Answer to phase 2, sent when the listeners are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase2Answer {
    /// Accepted.
    Ok {
        /// Number of [`SlaveInfo`](super::SlaveInfo) records after this answer.
        slave_infos: u32,
    },
    /// Refused, with the reason.
    Refused(Text<128>),
}

impl Phase2Answer {
    /// Length in bytes.
    pub const LEN: usize = 196;

    /// Decodes an answer like [`Phase1Answer::decode`]; the count of a refusal is ignored.
    pub fn decode(bytes: &[u8; Self::LEN], order: Endian) -> Self {
        let (start, _) = bytes
            .split_first_chunk()
            .expect("an answer to phase 2 is longer");
        match Phase1Answer::decode(start) {
            Phase1Answer::Ok => Self::Ok {
                slave_infos: u32::read(bytes, Phase1Answer::LEN, order),
            },
            Phase1Answer::Refused(reason) => Self::Refused(reason),
        }
    }

    /// Returns the message, with zeros in unused fields.
    pub fn encode(&self, order: Endian) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let start = match self {
            Self::Ok { slave_infos } => {
                slave_infos.write(&mut bytes, Phase1Answer::LEN, order);
                Phase1Answer::Ok
            }
            Self::Refused(reason) => Phase1Answer::Refused(*reason),
        };
        bytes[..Phase1Answer::LEN].copy_from_slice(&start.encode());
        bytes
    }
}

const OK: &str = "OK";

/// Text in the reason field of linerate's `OK`. Stock masters ignore it.
const LINERATE: &str = "linerate";

/// Reason of a slave's refusal. The texts are those of stock uperf where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkRefusal {
    /// Not a header, or not a group record.
    #[error("Wrong magic")]
    Magic,
    /// Unknown data version.
    #[error("Version 0.3.1 is incompatible with master data version {0}")]
    Version(Text<16>),
    /// Number of a protocol that this host or slave does not support.
    #[error("Unsupported protocol:{}", name_in_refusal(*.0))]
    Protocol(u32),
    /// The slave cannot open listeners, for this reason.
    #[error("Error creating ports: {0}")]
    Ports(String),
    /// Not enough memory: the limit and the remaining amount.
    #[error("Out of Memory: {0}")]
    Memory(String),
    /// The slave cannot create threads, for this reason.
    #[error("Error creating threads: {0}")]
    Threads(String),
    /// The workorder is invalid or exceeds a limit of this slave.
    #[error("{0}")]
    Workorder(String),
}

impl From<RunLimit> for WorkRefusal {
    fn from(limit: RunLimit) -> Self {
        match limit {
            RunLimit::Memory(_) => Self::Memory(limit.to_string()),
            RunLimit::Descriptors(_) | RunLimit::Connections(_) => {
                Self::Workorder(limit.to_string())
            }
        }
    }
}

impl WorkRefusal {
    /// Returns the reason for an answer, truncated to the length of the field.
    pub fn reason(&self) -> Text<128> {
        Text::truncated(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip() {
        let reason = WorkRefusal::Ports("Address already in use".to_owned()).reason();
        for answer in [Phase1Answer::Ok, Phase1Answer::Refused(reason)] {
            assert_eq!(Phase1Answer::decode(&answer.encode()), answer);
        }
        for order in [Endian::Little, Endian::Big] {
            for answer in [
                Phase2Answer::Ok { slave_infos: 258 },
                Phase2Answer::Ok { slave_infos: 0 },
                Phase2Answer::Refused(reason),
            ] {
                assert_eq!(Phase2Answer::decode(&answer.encode(order), order), answer);
            }
        }
    }

    #[test]
    fn only_the_status_decides() {
        for (status, ok) in [
            (&b"OK"[..], true),
            (b"Not OK", false),
            (b"", false),
            (b"OKAY", false),
            (b"ok", false),
        ] {
            let mut bytes = [0xAA; Phase2Answer::LEN];
            bytes[..status.len()].copy_from_slice(status);
            bytes[status.len()] = 0;
            let decoded = Phase2Answer::decode(&bytes, Endian::Big);
            assert_eq!(matches!(decoded, Phase2Answer::Ok { .. }), ok, "{status:?}");
        }
    }

    #[test]
    fn reasons_match_stock() {
        for (refusal, text) in [
            (WorkRefusal::Magic, "Wrong magic"),
            (
                WorkRefusal::Version(Text::truncated("0.3")),
                "Version 0.3.1 is incompatible with master data version 0.3",
            ),
            (WorkRefusal::Protocol(5), "Unsupported protocol:SSL"),
            (WorkRefusal::Protocol(0), "Unsupported protocol:Unknown"),
            (
                WorkRefusal::Protocol(u32::MAX),
                "Unsupported protocol:Unknown",
            ),
            (
                WorkRefusal::Ports("Address already in use".to_owned()),
                "Error creating ports: Address already in use",
            ),
            (
                WorkRefusal::Memory("1 byte left".to_owned()),
                "Out of Memory: 1 byte left",
            ),
        ] {
            assert_eq!(refusal.to_string(), text);
            assert!(refusal.reason() == *text);
        }
        let long = WorkRefusal::Workorder("x".repeat(1000)).reason();
        assert_eq!(long.raw_bytes().len(), 127);
    }
}
