//! Bytes ↔ messages of the control connection between a master and a slave; no I/O.
//!
//! There are no frames and no lengths: records of fixed size follow each other, and what was said
//! before tells what comes. Integers are in the master's byte order, in both directions. Decoding
//! loses nothing that has a meaning: every number is what the peer sent, and fails only where the
//! protocol has a magic word; whether a number makes sense is for [`crate::mirror`] to say. What a
//! message does not define is not looked at on decoding, since stock programs leave there what was
//! in memory, and is sent as zeros.
//!
//! A session:
//!
//! 1. The master sends a [`Header`] of phase 1, and the slave an [`Ack1`].
//! 2. The master sends a [`Header`] of phase 2, a [`Work`] and perhaps a [`SlaveInfo`] for each
//!    strand, and the slave an [`Ack2`] and perhaps its own.
//! 3. The master sends [`END`], which the slave sends back.
//! 4. The master sends a [`Command`] now and then, and the slave a [`Goodbye`].

mod as_field;
mod command;
mod flowop;
mod header;
mod layout;
mod protocol;
mod records;
mod reply;
mod work;

pub use codec::{Order, Text};

pub(crate) use as_field::AsField;
pub use command::{Command, Goodbye, WrongMagic};
pub use flowop::FlowopRecord;
pub use header::{Header, Version};
pub use layout::Layout;
pub use protocol::{protocol_number, protocol_numbered};
pub use records::{GroupRecord, SlaveInfo, TransactionRecord};
pub use reply::{Ack1, Ack2, Refusal};
pub use work::{Received, TransactionWork, Work};

/// Length in bytes of the shortest header, which is enough of the others to understand them.
pub const SHORT_HEADER: usize = 352;

/// What a master sends when its strands are ready, and a slave sends back when its are, whatever it
/// was.
pub const END: [u8; 192] = [0; 192];
