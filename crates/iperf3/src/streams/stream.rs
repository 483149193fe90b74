//! An open data stream, and the steps that client and server share when opening one.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use engine::{Counters, DataSocket};
use model::FlowPlan;
use sys::Address;

use crate::control_channel::TestEvents;
use crate::wire::error::{self, Fault};

/// An open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The stream number, which is the same at both ends.
    pub(crate) number: u32,
    /// The number in brackets at the start of the stream's output lines: in stock, a descriptor.
    pub(crate) label: i32,
    /// Whether this end sends.
    pub(crate) sends: bool,
    /// This end's address.
    pub(crate) local: Address,
    /// The other end's address.
    pub(crate) peer: Address,
    /// The connected socket.
    pub(crate) data: DataSocket,
    /// The flow plan of this end.
    pub(crate) plan: FlowPlan,
    /// The file to send, or to write received data to.
    pub(crate) file: Option<File>,
    /// The counters of the stream's thread.
    pub(crate) counters: Arc<Counters>,
}

/// Binds this thread, and the stream threads that it will start, to a CPU.
pub(crate) fn bind_cpu(cpu: Option<u32>) -> Result<(), Fault> {
    // Start the deadline thread first: it serves other tests too and must not be bound.
    engine::deadline_thread();
    let bound = cpu.map_or(Ok(()), sys::cpu::bind_thread);
    bound.map_err(|error| Fault::io(error::AFFINITY, &error))
}

/// Opens the file of `-F` for a stream: for reading if this end sends, else for writing.
pub(crate) fn open_file(plan: &FlowPlan, path: Option<&Path>) -> Result<Option<File>, Fault> {
    let Some(path) = path else { return Ok(None) };
    let opened = if plan.workload.sends() {
        sys::input_file::open(path)
    } else {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        sys::open_output(&mut options, path)
    };
    let file = opened.map_err(|error| Fault::io(error::FILE, &error))?;
    let is_empty = || file.metadata().map(|metadata| metadata.len() == 0);
    if plan.workload.sends() && is_empty().unwrap_or(true) {
        return Err(Fault::with_reason(error::FILE, "it is empty"));
    }
    Ok(Some(file))
}

/// Logs the buffer sizes and the congestion control of the sockets as debugging output.
pub(crate) fn log_socket_settings(streams: &[Stream], events: &mut dyn TestEvents) {
    for stream in streams {
        let facts = &stream.data.facts;
        let requested = stream.plan.local.socket.send_buffer_bytes.unwrap_or(0);
        let sizes = [facts.send_buffer_bytes, facts.receive_buffer_bytes];
        for (name, bytes) in ["SNDBUF", "RCVBUF"].into_iter().zip(sizes) {
            let line = format!("{name} is {}, expecting {requested}", bytes.unwrap_or(0));
            events.debug(&line, None);
        }
        let current = stream.data.current_facts(&stream.data.socket);
        if let Some(name) = current.congestion_control {
            events.debug(&format!("Congestion algorithm is {name}"), None);
        }
    }
}
