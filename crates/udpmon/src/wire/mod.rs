//! Encoding and decoding of UDPmon messages, protocol version 7. All numbers are little-endian.
//!
//! Each request and each test datagram starts with a [`MessageBlock`]. A reply is a block, or a
//! part of an object without a header. The objects are [`LinearHistogram`], [`CountersObject`],
//! [`NicCounters`], [`CpuLoad`]s and records. Two linerates add a [`LinerateExtension`] to their
//! blocks, and transfer parts with a [`PartHeader`].

mod block;
mod counters;
mod cpu;
mod extension;
mod histogram;
mod nic;
mod part;
mod records;

pub use block::{Command, EndReason, MessageBlock};
pub(crate) use counters::MAX_INTERFACES;
pub use counters::{
    CountersObject, HostCounters, InterfaceCounters, KernelTexts, ProtocolCounters, UNAVAILABLE,
};
pub use cpu::CpuLoad;
pub use extension::LinerateExtension;
pub use histogram::{Binning, LinearHistogram};
pub use nic::NicCounters;
pub use part::{PartHeader, ResponderDetails, ResultObject};
pub use records::{ArrivalRecord, LostRecord, align_records};

/// The default port of a responder.
pub const DEFAULT_PORT: u16 = 14_233;

/// The version of the protocol. Requesters refuse responders of another version.
pub const VERSION: u32 = 7;

/// The maximum number of object bytes that a requester requests at a time.
pub const MAX_IMAGE_BYTES_PER_REQUEST: u32 = 1400;

/// Returns a part of an object, padded with zeros after the end of the object.
pub fn padded_slice(image: &[u8], from: usize, length: usize) -> Vec<u8> {
    let tail = image.get(from..).unwrap_or_default();
    let mut slice = tail[..tail.len().min(length)].to_vec();
    slice.resize(length, 0);
    slice
}
