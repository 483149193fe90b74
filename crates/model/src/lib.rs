//! The middle of the program: a [`Plan`] goes in, an [`Outcome`] comes out.
//!
//! A dialect turns its command line into a Plan; the engine runs it; the Outcome says what happened;
//! the dialect, or a report, turns that into text. Nothing else crosses the middle.

#![forbid(unsafe_code)]

mod confidence;
mod datagram;
mod defaults;
mod doubts;
mod flows;
mod group;
mod half;
mod outcome;
mod pacing;
mod plan;
mod sample;
mod spacing;
mod step;
mod timed;
mod transport;
mod warning;
mod workload;

pub use confidence::Confidence;
pub use datagram::*;
pub use flows::*;
pub use group::*;
pub use half::*;
pub use outcome::*;
pub use pacing::*;
pub use plan::*;
pub use sample::*;
pub use spacing::*;
pub use step::*;
pub use transport::*;
pub use warning::*;
pub use workload::*;
