//! What the tests stand on beside `testkit`: processes that end with their test, servers.

mod process;
mod server;
mod sockets;

pub(crate) use process::{Finished, Process, linerate, stock};
pub(crate) use server::{Server, Usage, free_port};
pub(crate) use sockets::{connections_of, established, is_listening, listeners};
pub(crate) use testkit::{Namespace, Need, eventually, link, trial};

/// netperf and netserver 2.7 as the distribution has them: one package.
pub(crate) const STOCK: Need = Need::Program("netperf");
