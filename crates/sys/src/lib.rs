//! Safe wrappers of system calls: one function per call. They cover sockets and their options, the
//! calls of the hot loops, CPU time, CPU affinity, waking threads, and detaching from a terminal.
//!
//! All `unsafe` code is in this crate. The crate prefers `socket2` and `rustix`, and uses `libc`
//! for calls that they lack. `rustix` makes system calls without the C library. In a process with
//! threads, this saves two atomic operations of cancellation bookkeeping per call.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "all unsafe code is in this crate")]

mod address;
pub mod batch;
pub mod buffer;
pub mod call;
pub mod clock;
pub mod counter;
pub mod cpu;
pub mod datagram;
pub mod directory;
mod error;
pub mod facts;
mod fault;
pub mod input_file;
pub mod instances;
pub mod interface;
pub mod kernel_file;
pub mod message;
pub mod multicast;
mod observed_socket;
pub mod option;
mod output_file;
pub mod poller;
pub mod process;
pub mod resolve;
pub mod restricted_dir;
pub mod sctp;
pub mod shared_memory;
pub mod signal;
pub mod stamped;
pub mod tun;
pub mod user;
pub mod wake;

pub use address::{Address, LlcAddress};
pub use error::{describe, report_warnings, write_error, write_error_line};
pub use observed_socket::ObservedSocket;
pub use output_file::{OutputFile, open_output, truncate};
pub use socket2::{Domain, Protocol, SockRef, Socket, Type};
