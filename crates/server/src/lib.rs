//! A server of any dialect, and the rules that all of them keep.
//!
//! A dialect implements [`Dialect`], what it does with one client. [`Server`] accepts the clients that [`ServerConfig`]
//! admits, and ends them when it stops. Whose data a test takes, and where its data may go: [`DataPeer`],
//! [`accept_data`] and [`Door`]; of datagrams, [`DatagramDoor`]. What clients may have the host do: [`Permissions`].

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
