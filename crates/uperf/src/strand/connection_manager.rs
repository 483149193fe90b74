//! Finds a strand's connections for the engine, and executes the flowops that the engine leaves to
//! uperf: connect, accept, disconnect, sendfile, sendfilev.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use engine::script::{Connection, ConnectionManager, DialectStepResult, StepFailure};
use engine::{StartBarrier, Stop};
use sys::call::{self, Error};

use super::GroupSetup;
use super::connection_budget::ConnectionBudget;
use super::connections::{ConnectionPool, Lookup};
use super::endpoints::{self, AcceptRequest, Listeners};
use super::log::Log;
use crate::workorder::{Amount, Flowop, FlowopKind};

/// Maximum size of a part of a file that one call sends, bytes.
const MAX_FILE_CHUNK: u64 = 1 << 30;

/// The connections of one strand, which its flowops open, find, use and close.
#[derive(Debug)]
pub(super) struct StrandConnections<'a> {
    pub(super) setup: &'a GroupSetup,
    pub(super) barrier: &'a StartBarrier,
    /// Index of the strand in its group.
    pub(super) index: usize,
    /// The flowops of the current transaction.
    pub(super) flowops: &'a [Flowop],
    pub(super) pool: ConnectionPool<Connection>,
    pub(super) listeners: Listeners,
    pub(super) connection_budget: ConnectionBudget,
    pub(super) next_file: usize,
    pub(super) log: Log,
}

impl ConnectionManager for StrandConnections<'_> {
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, StepFailure> {
        self.find(self.flowops[step].connection)
    }

    fn perform(
        &mut self,
        step_index: usize,
        stop: &Stop,
    ) -> Result<DialectStepResult, StepFailure> {
        let flowop = &self.flowops[step_index];
        match flowop.kind {
            FlowopKind::Connect => self.connect(flowop, stop),
            FlowopKind::Accept => self.accept(flowop, stop),
            FlowopKind::Disconnect => Ok(self.disconnect(flowop)),
            FlowopKind::Sendfile | FlowopKind::Sendfilev => self.send_files(flowop, stop),
            _ => Ok(DialectStepResult::default()),
        }
    }
}

impl StrandConnections<'_> {
    fn find(&mut self, connection: u32) -> Result<Rc<Connection>, StepFailure> {
        match self.pool.find(connection) {
            Lookup::Open(connection) => Ok(connection),
            Lookup::Closed => Err(StepFailure::from_call("close", Error::BADF)),
            Lookup::Missing => {
                let text = format!("No such connection {connection}");
                Err(StepFailure::from_text(text))
            }
        }
    }

    fn connect(&mut self, flowop: &Flowop, stop: &Stop) -> Result<DialectStepResult, StepFailure> {
        self.connection_budget.reserve_one(self.pool.len())?;
        let endpoint = &flowop.endpoint;
        let host = &endpoint.remote_host;
        let protocol = endpoint
            .protocol
            .ok_or_else(|| StepFailure::from_text("connect without a protocol"))?;
        let target = self.setup.peers.target(host, self.index, protocol);
        let (target, address) = target.ok_or_else(|| unknown_host(host))?;
        let connection =
            endpoints::open_connection(flowop, target, &address, stop).map_err(|error| {
                let protocol = protocol.name().to_ascii_uppercase();
                let action = format!("{protocol}: Cannot connect to {address}");
                StepFailure::from_call(&action, errno(&error))
            })?;
        self.add_connection(flowop, connection, stop)
    }

    fn accept(&mut self, flowop: &Flowop, stop: &Stop) -> Result<DialectStepResult, StepFailure> {
        self.connection_budget.reserve_one(self.pool.len())?;
        let name = &flowop.endpoint.remote_host;
        let host = self
            .setup
            .peers
            .host(name)
            .ok_or_else(|| unknown_host(name))?;
        let request = AcceptRequest {
            flowop,
            host,
            setup: self.setup,
            barrier: self.barrier,
            stop,
        };
        let connection = self.listeners.accept(&request, &mut self.log);
        let connection = connection.map_err(|error| StepFailure::from_call("accept", error))?;
        self.add_connection(flowop, connection, stop)
    }

    fn add_connection(
        &mut self,
        flowop: &Flowop,
        connection: Connection,
        stop: &Stop,
    ) -> Result<DialectStepResult, StepFailure> {
        let connection = self.setup.tls.establish(connection, flowop, stop)?;
        if flowop.endpoint.window > 0 {
            self.log
                .check_buffer_sizes(&connection.socket(), flowop.endpoint.window);
        }
        self.pool.add(flowop.connection, Rc::new(connection));
        Ok(DialectStepResult {
            rebinds_this_and_later_steps: true,
            ..DialectStepResult::default()
        })
    }

    fn disconnect(&mut self, flowop: &Flowop) -> DialectStepResult {
        let Some(closed) = self.pool.close(flowop.connection) else {
            self.log.error("Connection already closed", 0);
            return DialectStepResult {
                is_script_done: true,
                ..DialectStepResult::default()
            };
        };
        for connection in closed.iter().flatten() {
            self.listeners.return_datagrams_to_listener(connection);
        }
        DialectStepResult {
            rebinds_this_and_later_steps: true,
            closed_connections: closed,
            ..DialectStepResult::default()
        }
    }

    /// Sends the next file (sendfile), or the next `flowop.files` files (sendfilev).
    fn send_files(
        &mut self,
        flowop: &Flowop,
        stop: &Stop,
    ) -> Result<DialectStepResult, StepFailure> {
        let connection = self.find(flowop.connection)?;
        let count = match flowop.kind {
            FlowopKind::Sendfilev => flowop.files.max(1),
            _ => 1,
        };
        let mut sent = 0;
        for _ in 0..count {
            // An empty file needs no call that a stop could interrupt.
            if stop.is_set() {
                return Err(StepFailure::from_call("sendfile", Error::INTR));
            }
            sent += self.send_file(flowop, &connection, stop)?;
        }
        Ok(DialectStepResult {
            sent,
            ..DialectStepResult::default()
        })
    }

    fn send_file(
        &mut self,
        flowop: &Flowop,
        connection: &Connection,
        stop: &Stop,
    ) -> Result<u64, StepFailure> {
        let directory = &flowop.directory;
        let mut directories = self.setup.files.iter();
        let files = directories.find(|(name, _)| name == Path::new(directory));
        let files = files.map(|(_, files)| files.as_slice()).unwrap_or_default();
        let Some(file) = files.get(self.next_file % files.len().max(1)) else {
            let text = format!("Error initializing dir: {directory}");
            return Err(StepFailure::from_text(text));
        };
        self.next_file += 1;
        let call_failure = |error| StepFailure::from_call("sendfile", error);
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| StepFailure::from_call("fstat", errno(&error)))?;
        let length = metadata.len();
        let chunk = match flowop.transfer.amount {
            Amount::Exactly(bytes) if bytes > 0 => bytes.into(),
            _ => MAX_FILE_CHUNK,
        };
        let mut offset = 0;
        while offset < length {
            if stop.is_set() {
                return Err(call_failure(Error::INTR));
            }
            let count = chunk.min(length - offset) as usize;
            match send_part(connection, file, &mut offset, count) {
                // The file has become shorter.
                Ok(0) => break,
                Ok(_) => {}
                Err(Error::INTR) if !stop.is_set() => {}
                Err(error) => return Err(call_failure(error)),
            }
        }
        Ok(offset)
    }
}

/// Sends a part of a file. With TLS it goes through a buffer, because sendfile(2) would bypass the
/// encryption.
fn send_part(
    connection: &Connection,
    file: &File,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Error> {
    let Connection::Layered(layer, _) = connection else {
        return call::send_file(connection.socket(), file.as_fd(), offset, count);
    };
    let mut buffer = [0; 8192];
    let limit = buffer.len().min(count);
    let read = file.read_at(&mut buffer[..limit], *offset);
    let read = read.map_err(|error| errno(&error))?;
    if read == 0 {
        return Ok(0);
    }
    let sent = layer.borrow_mut().send(&buffer[..read])?;
    *offset += sent as u64;
    Ok(sent)
}

fn unknown_host(host: &str) -> StepFailure {
    StepFailure::from_text(format!("Cannot lookup host {host}"))
}

fn errno(error: &std::io::Error) -> Error {
    Error::from_io_error(error).unwrap_or(Error::INVAL)
}
