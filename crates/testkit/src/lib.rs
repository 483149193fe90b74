//! Support for tests: linerate and stock programs, processes that end with their test, servers,
//! network namespaces, fuzz loops, a test runner, and comparison of outputs with masked figures.
//! The programs that linerate ships do not use this crate.

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
mod receive;
mod relay;
mod runner;
mod server;
mod sockets;
mod standstill;
mod stock_peer;
mod test_case;
mod transcripts;
mod uperf;

pub use hosts::{LinkAddress, TwoHosts};
pub use machine::is_machine_idle;
pub use mask::{Difference, compare_masked, figures, key_values, without_pace_warnings};
pub use master::{LOOPBACK_HOSTS, UperfMaster};
pub use namespace::{LinkEnd, Namespace, add_link, try_add_link};
pub use peer::{
    Implementation, NetperfPrograms, Role, STOCK_NETPERF, copy_linerate, linerate_path,
    linerate_with_args, stock_with_args,
};
pub use process::{ProcessOutput, TestProcess, run};
pub use profile::{Profile, read_profiles};
pub use receive::{Receive, ReceiveFrom};
pub use relay::{Relay, RelayAction, RelayDirection};
pub use runner::{Suite, full_names, run_suites};
pub use server::{ProcessUsage, Server};
pub use sockets::{
    connection_count, datagram_connections, free_port, has_unread_bytes, is_listening,
    kernel_counter, listener_count, listening_ports, receives_datagrams,
};
pub use stock_peer::{Release, StockPeer};
pub use test_case::{
    Concurrency, Feature, Requirement, TestCase, feature_pairs, optional_test_case,
    requirements_are_mandatory, run_in_parallel, short_path_dir, test_case, test_case_unless,
    wait_until, with_prefix,
};
pub use transcripts::{RecordedPacket, Transcript};
pub use uperf::StockUperf;
