//! The netperf dialect: `netperf` and `netserver` of the versions that Debian has.
//!
//! Modules: [`options`] (argv → Plan), [`wire`] (bytes ↔ messages), [`client`] and [`server`]
//! (order of messages) and [`output`] (Outcome → text). [`run`](run()) directs them. [`selector`]
//! has the selectors of omni output, which `options` and `output` share.

#![forbid(unsafe_code)]

/// The pattern that fills the buffers without a fill file. Stock has the same pattern.
pub(crate) const FILL_PATTERN: &[u8] = b"netperf\0";

/// Name and version of this program, for the peer and for reports.
pub(crate) const PROGRAM: &str = concat!("linerate ", env!("CARGO_PKG_VERSION"));

/// Name of a linerate peer whose version is unknown.
pub(crate) const PROGRAM_NAME: &str = "linerate";

pub mod client;
mod details;
mod dlpi_interface;
#[cfg(test)]
mod fuzz;
pub mod options;
pub mod output;
mod peer_report;
mod protocol_conventions;
mod result;
mod run;
pub mod selector;
pub mod server;
mod socket_directory;
mod tcp_info;
pub mod version;
mod warnings;
pub mod wire;

pub use peer_report::PeerReport;
pub use result::{Endpoints, FinishedTest, MainFigures, RepeatedResult};
pub use run::{RunResult, run};
