//! The statistics of network measurement, as pure functions and values.

#![forbid(unsafe_code)]

mod fairness;
mod hdr;
mod histogram;
pub mod log;

pub use fairness::jain_index;
pub use hdr::HdrError;
pub use histogram::{Histogram, Summary};
