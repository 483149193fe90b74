//! Runs a Plan's workload: sockets, buffers, hot loops, the clock, and who ends what when.
//!
//! No dialect's name appears here. A dialect opens what its protocol fixes the order of, and runs each flow in a
//! [`MeasuredPhase`], which has the clock, the deadline and the watch of the peer, and which makes a [`model::Side`]
//! of how the loop [`Ran`], however it ended. A list of steps is a [`Job`] of its own.

#![forbid(unsafe_code)]

mod arrivals;
mod budget;
mod buffers;
mod clock;
mod connector;
mod counters;
mod cpu;
mod deadline_thread;
mod departures;
mod end;
mod finish;
mod flow_group;
mod held;
mod hooks;
mod host;
mod instrument;
mod interface;
mod io;
mod job;
mod looper;
mod loops;
mod measured_phase;
mod memory;
mod numbers;
mod one_way;
mod pace;
mod packet_records;
mod run;
mod sampler;
pub mod script;
mod socket;
mod spacing;
mod start_barrier;
mod stop;
mod timer;

pub use arrivals::{Arrived, PacketReceiver, PacketReceiverSettings, PacketWatch, StampCounts};
pub use budget::{Budget, Exceeded, Holder, Share};
pub use buffers::{Buffers, RingError};
pub use clock::Passed;
pub use connector::{
    ConnectError, Connector, PortRange, connect, connect_within, connect_without_data,
};
pub use counters::Counters;
pub use deadline_thread::{DeadlineThread, Promise, deadline_thread, forked};
pub use departures::{PacketSender, PacketsSent};
pub use end::Ran;
pub use finish::Finish;
pub use flow_group::{FlowGroup, GroupMember};
pub use host::facts;
pub use instrument::clock_facts;
pub use interface::InterfaceMeter;
pub use io::{Associations, Flow};
pub use job::{Job, JobBody, Loop, Path, Steps};
pub use looper::Looper;
pub use loops::connection_test::Accepting;
pub use measured_phase::{MeasuredPhase, PhaseSettings};
pub use memory::Memory;
pub use numbers::{DatagramWatch, FirstDatagram, Order};
pub use packet_records::{
    PacketArrival, PacketRecords, PacketTimes, PassedOver, ReceivedPacket, Recording,
};
pub use run::{receive_late, run};
pub use sampler::{Interval, Reading, Sampler, path_sample, sample_until};
pub use socket::{
    DataSocket, Role, SocketError, complete_accepted, data_socket, datagram_branch,
    datagram_listener, dropped, prepare_accepted,
};
pub use start_barrier::{BarrierEvent, BarrierObserver, BarrierStatus, StartBarrier};
pub use stop::{Reason, Stop};
