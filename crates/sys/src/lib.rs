//! The operating system, one safe function a call: sockets and their options, the calls of the hot
//! loops, CPU time, affinity, waking threads, detaching.
//!
//! The only crate with `unsafe`. `socket2` and `rustix` come first; `libc` fills what they lack.
//! `rustix` makes system calls without the C library in between, which in a process with threads
//! saves two atomic operations of cancellation bookkeeping a call.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "this is the crate that the others have it in")]

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
pub mod interface;
pub mod message;
pub mod multicast;
pub mod neighbours;
pub mod option;
pub mod poller;
pub mod process;
pub mod resolve;
pub mod restricted_dir;
pub mod sctp;
pub mod shared;
pub mod signal;
pub mod stamped;
pub mod tun;
pub mod user;
pub mod wake;
mod whole_file;

pub use address::{Address, Llc};
pub use error::{describe, report_doubts, write_error, write_error_line};
pub use socket2::{Domain, Protocol, SockRef, Socket, Type};
pub use whole_file::WholeFile;
