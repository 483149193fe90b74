//! The statistics of network measurement, as pure functions and values.

#![forbid(unsafe_code)]

mod histogram;

pub use histogram::{Histogram, Summary};
