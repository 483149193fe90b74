//! Data types shared by the dialects, the engine and the reports.
//!
//! A dialect turns its command line into a [`Plan`]. The engine runs the Plan and returns an
//! [`Outcome`] with the results. The dialect or a report prints the Outcome.

#![forbid(unsafe_code)]

mod confidence;
mod datagram;
mod defaults;
mod derived_warnings;
mod endpoint;
mod flows;
mod group;
mod histogram_intervals;
mod nanos;
mod outcome;
mod pacing;
mod plan;
mod sample;
mod spacing;
mod step;
mod transport;
mod warning;
mod workload;

pub use confidence::Confidence;
pub use datagram::*;
pub use endpoint::*;
pub use flows::*;
pub use group::*;
pub use outcome::*;
pub use pacing::*;
pub use plan::*;
pub use sample::*;
pub use spacing::*;
pub use step::*;
pub use transport::*;
pub use warning::*;
pub use workload::*;
