//! The netperf dialect: `netperf` and `netserver` of version 2.7.0 as Debian builds them.
//!
//! Five rooms: [`options`] (argv → Plan), [`wire`] (bytes ↔ messages), [`client`] and [`server`]
//! (the order of messages), [`output`] (Outcome → text). [`run`](run()) stands above them. Beside them is what two of them need:
//! [`selector`], the names that omni output knows.

#![forbid(unsafe_code)]

/// What buffers hold, over and over, when no fill file is given: what the stock programs send.
pub(crate) const PATTERN: &[u8] = b"netperf\0";

/// Who measures, in what one linerate tells another.
pub(crate) const PROGRAM: &str = concat!("linerate ", env!("CARGO_PKG_VERSION"));

/// The same of a peer whose version is unknown.
pub(crate) const NAME: &str = "linerate";

mod attachment;
pub mod client;
mod conventions;
mod details;
#[cfg(test)]
mod fuzz;
pub mod options;
pub mod output;
mod peer_report;
mod place;
mod result;
mod run;
pub mod selector;
pub mod server;
mod tcp_info;
mod warnings;
pub mod wire;

pub use peer_report::PeerReport;
pub use result::{Endpoints, Headline, Repeated, TestRun};
pub use run::{Finished, run};
