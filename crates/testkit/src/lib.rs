//! What tests against the original tools need, and nothing that the programs themselves use: the
//! two makes of a program, servers that listen, network namespaces, output with its figures masked.

#![forbid(unsafe_code)]

mod command;
mod mask;
mod namespace;
mod peer;
mod server;
mod sockets;
mod trial;

pub use command::{Finished, run};
pub use mask::{Difference, figures, keyvals, same_text};
pub use namespace::{End, Namespace, link, try_link};
pub use peer::{Make, Peers, Role};
pub use server::Server;
pub use sockets::{connections_of, established, is_listening, listeners};
pub use trial::{Need, eventually, required, trial, unless};
