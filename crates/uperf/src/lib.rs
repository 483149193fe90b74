//! The uperf dialect: profiles, the protocol between master and slaves, and uperf's output.

#![forbid(unsafe_code)]

mod event;
pub mod master;
mod named_enum;
pub mod options;
pub mod output;
pub mod peer_workorder;
pub mod profile;
mod run;
mod run_budget;
pub mod slave;
mod strand;
pub mod tls;
pub mod wire;
mod work_limits;
mod workorder;

pub use event::{MasterEvent, ProtocolStep, running_transaction_name, transaction_name};
pub use run::{INTERRUPTED, RunResult, run};
pub use work_limits::WorkLimits;
pub use workorder::{
    Amount, DataProtocol, Endpoint, Flowop, FlowopFlags, FlowopKind, GroupSpec, SctpOptions,
    StrandCount, TransactionSpec, Transfer, Workorder,
};
