//! What tests against the original tools need, and nothing that the programs themselves use: the
//! two makes of a program, processes that end with their test, servers that listen, network
//! namespaces, output with its figures masked.

#![forbid(unsafe_code)]

pub mod fuzz;
mod hosts;
mod machine;
mod mask;
mod master;
mod namespace;
mod peer;
mod process;
mod profile;
mod relay;
mod runner;
mod server;
mod sockets;
mod transcripts;
mod trial;
mod uperf;

pub use hosts::{Place, TwoHosts};
pub use machine::is_quiet;
pub use mask::{Difference, figures, keyvals, same_text};
pub use master::{LOOPBACK, Master};
pub use namespace::{End, Namespace, link, try_link};
pub use peer::{Make, Peers, Role, STOCK, copy_program, linerate, program, stock};
pub use process::{Finished, Process, run};
pub use profile::{Profile, profiles};
pub use relay::{Fate, Relay, Way};
pub use runner::{Suite, names, run_suites};
pub use server::{Server, Usage};
pub use sockets::{
    connections_of, counter, established, free_port, is_listening, listeners, listening_ports,
    takes_datagrams,
};
pub use transcripts::{Packet, Transcript};
pub use trial::{
    Load, Need, Trial, eventually, required, short_directory, side_by_side, trial, unless,
    unless_absent, within,
};
pub use uperf::Uperf;
