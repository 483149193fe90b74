//! Networks to try things on: two hosts in network namespaces, a link of known rate between them or
//! a forwarder that delays, drops, doubles and reorders packets by a written schedule and stamps
//! every one of them.

#![forbid(unsafe_code)]

mod forward;
mod journal;
mod network;
mod random;
mod schedule;

pub use forward::{Stop, Way};
pub use journal::{Journal, Record, Sums, Verdict};
pub use network::{CLIENT, CLIENT6, Link, Network, Rate, SERVER, SERVER6};
pub use schedule::{Course, Direction, Fate, Schedule, ScheduleError};
