//! The measurement engine: sockets, buffers, transfer loops, clocks and stop conditions.
//!
//! The engine does not depend on any dialect: the command line, wire protocol and output of a tool
//! that linerate is compatible with. A dialect opens its connections in the order that its protocol
//! requires. It runs each flow in a [`MeasuredPhase`], which provides the clock, the deadline and
//! the watch on the peer's connection. The phase turns a [`LoopResult`] into a [`model::Side`]. A
//! list of steps runs as a [`Job`] without a phase.

#![forbid(unsafe_code)]

mod arrivals;
mod budget;
mod buffers;
mod clock;
mod clock_cost;
mod connector;
mod counters;
mod cpu;
mod deadline_thread;
mod departures;
mod end;
mod finish;
mod flow_group;
mod hooks;
mod host;
mod interface;
mod io;
mod job;
mod kernel_pacer;
mod looper;
mod loops;
mod measured_phase;
mod memory;
mod numbers;
mod one_way;
mod pace;
mod packet_records;
mod resources;
mod run;
mod sampler;
pub mod script;
mod shared_limit;
mod socket;
mod spacing;
mod start_barrier;
mod stop;
mod timer;

pub use arrivals::{
    PacketObserver, PacketReceiver, PacketReceiverSettings, ReceiveEvent, StampCounts,
};
pub use budget::{BudgetExceeded, BudgetHolder, BudgetShare, SharedBudget};
pub use buffers::{BufferError, Buffers};
pub use clock::PhaseTimes;
pub use clock_cost::clock_facts;
pub use connector::{
    ConnectError, Connector, PortRange, connect, connect_within, connect_without_data,
};
pub use counters::{Counters, acknowledged_bytes};
pub use deadline_thread::{DeadlineGuard, DeadlineThread, IdleWatch, deadline_thread, mark_forked};
pub use departures::{PacketSendResult, PacketSender};
pub use end::LoopResult;
pub use finish::FinishMethod;
pub use flow_group::{FlowGroup, GroupMember};
pub use host::host_facts;
pub use interface::InterfaceMeter;
pub use io::{Associations, FlowSockets};
pub use job::{FlowLoop, Job, JobBody, JobSockets, ScriptLoop};
pub use looper::Looper;
pub use loops::connections::Acceptor;
pub use measured_phase::{MeasuredPhase, PhaseSettings};
pub use memory::BufferMemory;
pub use numbers::{ArrivalOrder, DatagramObserver, FirstDatagram};
pub use packet_records::{
    PacketArrival, PacketRecords, PacketTimes, ReceivedPacket, Recording, SkippedNumber,
};
pub use resources::{
    Resource, ResourceAmounts, ResourceBudget, ResourceExceeded, ResourceShare, spawn, spawn_scoped,
};
pub use run::{receive_late, run};
pub use sampler::{
    CounterDelta, CounterReading, Sampler, arrived_bytes, path_sample, sample_until,
};
pub use shared_limit::SharedLimit;
pub use socket::{
    DataSocket, Role, SocketError, congestion_control, dropped_datagrams, open_data_socket,
    open_datagram_branch, open_datagram_listener, prepare_accepted_llc, set_accepted_priority,
};
pub use start_barrier::{BarrierEvent, BarrierObserver, BarrierStatus, StartBarrier};
pub use stop::{Stop, StopReason};
