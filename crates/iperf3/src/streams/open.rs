//! An open stream, and what both ends do alike before and after they open it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use engine::{Counters, DataSocket};
use model::FlowPlan;
use sys::Address;

use crate::talk::Events;
use crate::wire::error::{self, Fault};

/// An open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The number by which both ends know it.
    pub(crate) number: u32,
    /// What stands before its lines.
    pub(crate) label: i32,
    /// Whether this end sends.
    pub(crate) sends: bool,
    /// This end's address.
    pub(crate) local: Address,
    /// The other end's.
    pub(crate) peer: Address,
    /// The connected socket.
    pub(crate) data: DataSocket,
    /// What this end does on it.
    pub(crate) plan: FlowPlan,
    /// What it sends, or writes.
    pub(crate) file: Option<File>,
    /// Where it counts.
    pub(crate) counters: Arc<Counters>,
}

/// Binds this thread, and those of the streams to come, to a CPU.
pub(crate) fn bind(cpu: Option<u32>) -> Result<(), Fault> {
    // It serves other tests as well.
    engine::deadline_thread();
    let bound = cpu.map_or(Ok(()), sys::cpu::bind_thread);
    bound.map_err(|error| Fault::io(error::AFFINITY, &error))
}

/// Opens the file of `-F` for this end's part of a stream.
pub(crate) fn open_file(plan: &FlowPlan, path: Option<&Path>) -> Result<Option<File>, Fault> {
    let Some(path) = path else { return Ok(None) };
    let opened = if plan.workload.sends() {
        File::open(path)
    } else {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)
    };
    let file = opened.map_err(|error| Fault::io(error::FILE, &error))?;
    let is_empty = || file.metadata().map(|metadata| metadata.len() == 0);
    if plan.workload.sends() && is_empty().unwrap_or(true) {
        return Err(Fault::because(error::FILE, "it is empty"));
    }
    Ok(Some(file))
}

/// Reports what the sockets were given.
pub(crate) fn describe(streams: &[Stream], events: &mut dyn Events) {
    for stream in streams {
        let facts = &stream.data.facts;
        let asked = stream.plan.here.socket.send_buffer_bytes.unwrap_or(0);
        let sizes = [facts.send_buffer_bytes, facts.receive_buffer_bytes];
        for (name, bytes) in ["SNDBUF", "RCVBUF"].into_iter().zip(sizes) {
            let line = format!("{name} is {}, expecting {asked}", bytes.unwrap_or(0));
            events.debug(&line, None);
        }
        let end = stream.data.facts_at_end(&stream.data.socket);
        if let Some(name) = end.congestion_control {
            events.debug(&format!("Congestion algorithm is {name}"), None);
        }
    }
}
