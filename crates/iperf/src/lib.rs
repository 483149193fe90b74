//! iperf 2's dialect: client and server, with the options, the protocol and the output of iperf 2.1.8.
//!
//! `options` makes a Plan of the command line; `client` and `server` run its flows and report to an
//! [`event::Observer`]; `output` prints the events. The binary brings them together.

#![forbid(unsafe_code)]

mod bursts;
pub mod client;
mod connection;
pub mod event;
mod flow;
pub mod options;
pub mod output;
mod report_group;
pub mod server;
pub mod tally;
mod traffic;
mod udp;
pub mod wire;
