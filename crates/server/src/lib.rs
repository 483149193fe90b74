//! The server framework of all dialects, and their common rules.
//!
//! A dialect implements [`Dialect`], which serves one client. [`Server`] accepts the clients that
//! [`ServerConfig`] admits, and ends them when it stops. [`DataPeer`], [`accept_data`] and
//! [`DataAcceptor`] decide which data connections a test accepts and where it may send data.
//! [`DatagramAcceptor`] does so for datagrams. [`Permissions`] limits changes to the host.

#![forbid(unsafe_code)]

mod arrivals;
mod data_acceptor;
mod data_peer;
mod datagram_acceptor;
mod flow_sessions;
mod freed_memory;
mod listener;
mod log_rate_limit;
mod login_attempts;
mod network;
mod permissions;
mod registry;
mod server;
mod service;
mod session_threads;
mod third_party;
mod thread_order;
mod waiting_datagrams;

pub use data_acceptor::{
    AcceptedConnection, DataAcceptor, IsOtherPeer, Nonce, UNEXPECTED_PEER_WAIT, accept_data,
};
pub use data_peer::{DataPeer, PeerPolicy};
pub use datagram_acceptor::{
    DatagramAcceptor, DatagramPeer, ExpectedFlows, NewSource, is_exhaustion,
};
pub use freed_memory::release_freed_memory_soon;
pub use listener::{inherited_listeners, inherited_sockets, listen};
pub use log_rate_limit::{ErrorLog, LogRateLimit, SharedLogLimit};
pub use login_attempts::{Attempt, LoginAttempts};
pub use network::Network;
pub use permissions::Permissions;
pub use registry::{ClientTest, RecordWriter, Registry, RunningTest, TestRecord};
pub use server::{Dialect, Server, ServerContext};
pub use service::{AddressLimits, ClientSlot, Refusal, ServerConfig, Service};
pub use third_party::{MAX_AMPLIFICATION, ThirdParties, UNPROVEN_ADDRESS};
pub use thread_order::order_thread;
