//! Encoder and decoder for the messages of the control connection between a master and a slave.
//! This module does no I/O.
//!
//! The protocol has no frames and no lengths. Records of fixed size follow each other; earlier
//! records determine the next one. Integers have the master's byte order in both directions.
//! Decoding keeps every number as the peer sent it. It fails only where the protocol has a magic
//! word; [`crate::peer_workorder`] checks the numbers. Decoding ignores undefined bytes, because
//! stock programs send uninitialised memory there. Encoding writes zeros to them.
//!
//! A session:
//!
//! 1. The master sends a [`Header`] of phase 1. The slave replies with a [`Phase1Answer`].
//! 2. The master sends a [`Header`] of phase 2, [`WorkRecords`] and optionally a [`SlaveInfo`] per
//!    strand. The slave replies with a [`Phase2Answer`] and optionally a [`SlaveInfo`] per strand.
//! 3. The master sends [`HANDSHAKE_END`]. The slave returns it.
//! 4. The master sends a [`MasterCommand`] per transaction and one at the end. The slave replies
//!    with a [`Goodbye`].

mod as_field;
mod command;
mod flowop;
mod header;
mod layout;
mod protocol;
mod records;
mod reply;
mod work;

pub use codec::{Endian, Text};

pub(crate) use as_field::AsField;
pub use command::{Goodbye, MasterCommand, WrongMagic};
pub use flowop::FlowopRecord;
pub use header::{DataVersion, Header};
pub use layout::FlowopLayout;
pub use protocol::{protocol_from_number, protocol_number};
pub use records::{GroupRecord, SlaveInfo, TransactionRecord};
pub use reply::{Phase1Answer, Phase2Answer, WorkRefusal};
pub use work::{ReceivedWork, TransactionWork, WorkRecords};

/// Length in bytes of the shortest header. Longer headers have all their fields in these bytes.
pub const SHORT_HEADER_LEN: usize = 352;

/// Message that a master sends when its strands are ready. A slave returns any bytes of this
/// length unchanged when its own strands are ready.
pub const HANDSHAKE_END: [u8; 192] = [0; 192];
