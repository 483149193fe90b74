//! iperf 2's dialect: client and server, with the options, the protocol and the output of
//! iperf 2.2.1, or with the output of 2.1.8.
//!
//! `options` converts a command line to a plan. `client` and `server` run its flows and report to
//! an [`event::Observer`]. `output` prints these events. The binary connects the modules.

#![forbid(unsafe_code)]

pub mod client;
mod connection;
pub mod event;
mod flow;
pub mod options;
pub mod output;
mod peer_checks;
mod report_group;
pub mod server;
mod stream_loop;
pub mod timing;
mod traffic;
mod udp;
pub mod version;
pub mod wire;
