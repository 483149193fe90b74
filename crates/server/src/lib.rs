//! The server framework of all dialects, and their common rules.
//!
//! A dialect implements [`Dialect`], which serves one client. [`Server`] accepts the clients that [`ServerConfig`]
//! admits, and ends them when it stops. [`DataPeer`], [`accept_data`] and [`Door`] decide which data connections a test
//! accepts and where it may send data. [`DatagramDoor`] does so for datagrams. [`Permissions`] limits changes to the
//! host.

#![forbid(unsafe_code)]

mod datagram_door;
mod listener;
mod network;
mod pace;
mod peer;
mod permissions;
mod registry;
mod server;
mod service;

pub use datagram_door::{DatagramDoor, DatagramPeer, ExpectedFlows};
pub use listener::{inherited_listeners, inherited_sockets, listen};
pub use network::Network;
pub use pace::{Pace, Verdict};
pub use peer::{Accepted, DataPeer, Door, Nonce, Others, PREFERENCE, Policy, accept_data};
pub use permissions::Permissions;
pub use registry::{Log, Registry, Running, Test, TestRecord};
pub use server::{Dialect, Server, ServerContext};
pub use service::{Limits, Place, Refusal, ServerConfig, Service};
