//! The UDPmon dialect: the programs of version 1.5.2 (protocol 7), which measure a path with paced, numbered datagrams.

#![forbid(unsafe_code)]

mod calibration;
pub mod client;
mod endpoint;
mod host;
pub mod options;
pub mod output;
pub mod receiver;
pub mod result;
pub mod run;
pub mod server;
pub mod steps;
pub mod wire;

/// The version of UDPmon that this dialect replaces.
pub const VERSION: &str = "1.5.2";
