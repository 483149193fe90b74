//! Test networks: two hosts in network namespaces with a link of known rate or an impairing
//! forwarder between them.
//!
//! The forwarder delays, drops, duplicates and reorders packets according to a schedule. It records
//! the arrival and departure time of each packet.

#![forbid(unsafe_code)]

mod forward;
mod network;
mod random;
mod records;
mod schedule;

pub use forward::{Forwarder, ForwarderStop};
pub use network::{
    CLIENT_ADDRESS, CLIENT_ADDRESS6, LinkOptions, SERVER_ADDRESS, SERVER_ADDRESS6, TestNetwork,
    TokenBucket,
};
pub use records::{DirectionSums, ForwardRecord, PacketSums, PacketVerdict};
pub use schedule::{Impairer, ImpairmentSchedule, LinkDirection, PacketDecision, ScheduleError};
