//! The UDPmon dialect: the five programs of UDPmon 1.5.2 (protocol 7). They measure a path with
//! paced, numbered datagrams.

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
pub mod sequence;
pub mod server;
pub mod wire;

/// The version of UDPmon that this dialect replaces.
pub const VERSION: &str = "1.5.2";
