//! Runs a Plan's workload: sockets, buffers, hot loops, the clock, and who ends what when.
//!
//! No dialect's name appears here. A dialect opens or hands over what its protocol fixes the order
//! of, describes the rest as data, and gets a [`model::Side`] back, however the run ended.

#![forbid(unsafe_code)]

mod bulk;
mod cell;
mod channel;
mod connection;
mod connector;
mod cpu;
mod host;
mod keeper;
mod memory;
mod ring;
mod run;
mod socket;
mod stop;
mod transaction;

pub use cell::Cell;
pub use connector::{Connector, PortRange};
pub use host::{facts, same_host};
pub use keeper::{Keeper, keeper};
pub use memory::Memory;
pub use ring::{Contents, MAX_DATAGRAM, Ring, RingError, SendFile};
pub use run::{Clock, Finish, Job, Path, Times, connect, run};
pub use socket::{DataSocket, Role, buffer_sizes, data_socket, facts_at_end};
pub use stop::{Reason, Stop};
