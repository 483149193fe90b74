//! What the tests stand on beside `testkit`: processes that end with their test, servers.

mod process;
mod server;

pub(crate) use process::{Finished, Process, linerate, stock};
pub(crate) use server::{Server, Usage, free_port};
pub(crate) use testkit::{
    Namespace, Need, connections_of, established, eventually, is_listening, link, listeners, trial,
};

/// netperf and netserver 2.7 as the distribution has them: one package.
pub(crate) const STOCK: Need = Need::Program("netperf");
