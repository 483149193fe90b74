//! The uperf dialect: profiles, the protocol between master and slaves, and the text that uperf prints.

#![forbid(unsafe_code)]

mod account;
mod event;
pub mod master;
pub mod mirror;
pub mod options;
pub mod output;
pub mod profile;
mod run;
pub mod slave;
mod strand;
pub mod tls;
pub mod wire;
mod words;
mod work_limits;
mod workorder;

pub use event::{Event, Step, running_name, transaction_name};
pub use run::{Finished, INTERRUPTED, run};
pub use work_limits::WorkLimits;
pub use workorder::{
    Amount, Endpoint, Flags, Flowop, Group, Kind, Protocol, Sctp, Strands, Transaction, Transfer,
    Workorder,
};
