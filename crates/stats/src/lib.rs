//! Statistics of network measurements, as pure functions and values.

#![forbid(unsafe_code)]

pub mod clock;
pub mod confidence;
mod fairness;
mod hdr;
mod histogram;
mod levels;
pub mod log;
mod modes;
pub mod packets;

pub use clock::ClockFit;
pub use fairness::jain_index;
pub use hdr::HdrError;
pub use histogram::{Histogram, HistogramSummary};
pub use levels::{RateLevels, find_levels};
pub use modes::{Modes, find_modes};
pub use packets::{Packet, PacketFigures};
