//! Bytes ↔ messages of UDPmon, protocol version 7. Pure; all numbers are little-endian.
//!
//! Each request is a [`Block`], which the datagrams of a test also begin with. A reply is a block, or a part of an image
//! without a header: the images are [`Histogram`], [`CounterImage`], [`NicCounters`], [`CpuLoad`]s and records. Two
//! linerates add a [`Capability`] to their blocks and ask for numbered [`Part`]s.

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

/// Where a responder listens by default.
pub const DEFAULT_PORT: u16 = 14_233;

/// The protocol's version. Programs of another one refuse to talk.
pub const VERSION: u32 = 7;

/// The most bytes of an image that a client asks for in one request.
pub const SLICE: u32 = 1400;

/// The part of an image that a request asks for. Where the image ends, zeros follow.
pub fn slice(image: &[u8], from: usize, length: usize) -> Vec<u8> {
    let rest = image.get(from..).unwrap_or_default();
    let mut slice = rest[..rest.len().min(length)].to_vec();
    slice.resize(length, 0);
    slice
}
