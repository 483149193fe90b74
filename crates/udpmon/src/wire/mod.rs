//! Bytes ↔ messages of UDPmon, protocol version 7. Pure; all numbers are little-endian.
//!
//! Each request, and the start of each test datagram, is a [`Block`]. A reply is a block, or a part of an image without
//! a header. The images are [`Histogram`], [`CounterImage`], [`NicCounters`], [`CpuLoad`]s and records. Two linerates
//! add a [`Capability`] to their blocks and request numbered [`Part`]s.

mod block;
mod capability;
mod counters;
mod cpu;
mod histogram;
mod nic;
mod part;
mod records;

pub use block::{Block, Command, EndReason};
pub use capability::Capability;
pub use counters::{CounterImage, HostCounters, InterfaceCounters, ProtocolCounters, Texts};
pub use cpu::CpuLoad;
pub use histogram::{Binning, Histogram};
pub use nic::NicCounters;
pub use part::{Details, Object, Part};
pub use records::{LostRecord, PacketRecord, aligned};

/// The default port of a responder.
pub const DEFAULT_PORT: u16 = 14_233;

/// The version of the protocol. Programs refuse peers of another version.
pub const VERSION: u32 = 7;

/// The maximum number of image bytes per request of a client.
pub const SLICE: u32 = 1400;

/// Returns the requested part of an image, padded with zeros after the end of the image.
pub fn slice(image: &[u8], from: usize, length: usize) -> Vec<u8> {
    let rest = image.get(from..).unwrap_or_default();
    let mut slice = rest[..rest.len().min(length)].to_vec();
    slice.resize(length, 0);
    slice
}
