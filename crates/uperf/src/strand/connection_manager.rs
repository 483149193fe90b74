//! The flowops that are not plain transfers: a strand opens, finds and closes connections, and sends files.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use engine::script::{Connection, ConnectionManager, Failure, Performed};
use engine::{StartBarrier, Stop};
use sys::call::{self, Error};

use super::GroupSetup;
use super::allowance::Allowance;
use super::connections::{ConnectionPool, Found};
use super::ends::{self, Acceptance, Listeners};
use super::log::Log;
use crate::workorder::{Amount, Flowop, Kind};

/// As much of a file as one call sends.
const FILE_CHUNK: u64 = 1 << 30;

/// The connections of one strand, which its flowops open, find, use and close.
#[derive(Debug)]
pub(super) struct StrandConnections<'a> {
    pub(super) setup: &'a GroupSetup,
    pub(super) barrier: &'a StartBarrier,
    /// Number of the strand in its group.
    pub(super) index: usize,
    /// The flowops of the transaction that runs.
    pub(super) flowops: &'a [Flowop],
    pub(super) open: ConnectionPool<Connection>,
    pub(super) listeners: Listeners,
    pub(super) allowance: Allowance,
    pub(super) next_file: usize,
    pub(super) log: Log,
}

impl ConnectionManager for StrandConnections<'_> {
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, Failure> {
        self.find(self.flowops[step].connection)
    }

    fn perform(&mut self, at: usize, stop: &Stop) -> Result<Performed, Failure> {
        let flowop = &self.flowops[at];
        match flowop.kind {
            Kind::Connect => self.connect(flowop, stop),
            Kind::Accept => self.accept(flowop, stop),
            Kind::Disconnect => Ok(self.disconnect(flowop)),
            Kind::Sendfile | Kind::Sendfilev => self.send_files(flowop, stop),
            _ => Ok(Performed::default()),
        }
    }
}

impl StrandConnections<'_> {
    fn find(&mut self, connection: u32) -> Result<Rc<Connection>, Failure> {
        match self.open.find(connection) {
            Found::Open(connection) => Ok(connection),
            Found::Closed => Err(Failure::of_call("close", Error::BADF)),
            Found::Nothing => {
                let what = format!("No such connection {connection}");
                Err(Failure::of_sense(what))
            }
        }
    }

    fn connect(&mut self, flowop: &Flowop, stop: &Stop) -> Result<Performed, Failure> {
        self.allowance.make_room(self.open.len())?;
        let endpoint = &flowop.endpoint;
        let host = &endpoint.remote_host;
        let protocol = endpoint
            .protocol
            .ok_or_else(|| Failure::of_sense("a connect without a protocol"))?;
        let target = self.setup.peers.target(host, self.index, protocol);
        let (target, address) = target.ok_or_else(|| unknown(host))?;
        let connection = ends::open(flowop, target, &address, stop).map_err(|error| {
            let protocol = protocol.name().to_ascii_uppercase();
            let what = format!("{protocol}: Cannot connect to {address}");
            Failure::of_call(&what, errno(&error))
        })?;
        self.opened(flowop, connection, stop)
    }

    fn accept(&mut self, flowop: &Flowop, stop: &Stop) -> Result<Performed, Failure> {
        self.allowance.make_room(self.open.len())?;
        let name = &flowop.endpoint.remote_host;
        let host = self.setup.peers.host(name).ok_or_else(|| unknown(name))?;
        let call = Acceptance {
            flowop,
            host,
            setup: self.setup,
            barrier: self.barrier,
            stop,
        };
        let connection = self.listeners.accept(&call, &mut self.log);
        let connection = connection.map_err(|error| Failure::of_call("accept", error))?;
        self.opened(flowop, connection, stop)
    }

    fn opened(
        &mut self,
        flowop: &Flowop,
        connection: Connection,
        stop: &Stop,
    ) -> Result<Performed, Failure> {
        let connection = self.setup.tls.over(connection, flowop, stop)?;
        if flowop.endpoint.window > 0 {
            self.log
                .compare_buffers(&connection.socket(), flowop.endpoint.window);
        }
        self.open.add(flowop.connection, Rc::new(connection));
        Ok(Performed {
            later_forget: true,
            ..Performed::default()
        })
    }

    fn disconnect(&mut self, flowop: &Flowop) -> Performed {
        let Some(closed) = self.open.close(flowop.connection) else {
            self.log.say("Connection already closed", 0);
            return Performed {
                ends: true,
                ..Performed::default()
            };
        };
        for connection in closed.iter().flatten() {
            self.listeners.take_back(connection);
        }
        Performed {
            later_forget: true,
            closed,
            ..Performed::default()
        }
    }

    /// sendfile: one of the files; sendfilev: as many as it says.
    fn send_files(&mut self, flowop: &Flowop, stop: &Stop) -> Result<Performed, Failure> {
        let connection = self.find(flowop.connection)?;
        let number = match flowop.kind {
            Kind::Sendfilev => flowop.files.max(1),
            _ => 1,
        };
        let mut sent = 0;
        for _ in 0..number {
            // An empty file needs no call that a stop could interrupt.
            if stop.is_set() {
                return Err(Failure::of_call("sendfile", Error::INTR));
            }
            sent += self.send_file(flowop, &connection, stop)?;
        }
        Ok(Performed {
            sent,
            ..Performed::default()
        })
    }

    fn send_file(
        &mut self,
        flowop: &Flowop,
        connection: &Connection,
        stop: &Stop,
    ) -> Result<u64, Failure> {
        let directory = &flowop.directory;
        let mut all = self.setup.files.iter();
        let files = all.find(|(name, _)| name == Path::new(directory));
        let files = files.map(|(_, files)| files.as_slice()).unwrap_or_default();
        let Some(file) = files.get(self.next_file % files.len().max(1)) else {
            let what = format!("Error initializing dir: {directory}");
            return Err(Failure::of_sense(what));
        };
        self.next_file += 1;
        let of_call = |error| Failure::of_call("sendfile", error);
        let facts = file.metadata();
        let facts = facts.map_err(|error| Failure::of_call("fstat", errno(&error)))?;
        let length = facts.len();
        let chunk = match flowop.transfer.amount {
            Amount::Exactly(bytes) if bytes > 0 => bytes.into(),
            _ => FILE_CHUNK,
        };
        let mut offset = 0;
        while offset < length {
            if stop.is_set() {
                return Err(of_call(Error::INTR));
            }
            let count = chunk.min(length - offset) as usize;
            match send_part(connection, file, &mut offset, count) {
                // It has become shorter.
                Ok(0) => break,
                Ok(_) => {}
                Err(Error::INTR) if !stop.is_set() => {}
                Err(error) => return Err(of_call(error)),
            }
        }
        Ok(offset)
    }
}

/// Some of a file. The kernel would send it past what encrypts: there it goes through a buffer.
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
    let room = buffer.len().min(count);
    let read = file.read_at(&mut buffer[..room], *offset);
    let read = read.map_err(|error| errno(&error))?;
    if read == 0 {
        return Ok(0);
    }
    let sent = layer.borrow_mut().send(&buffer[..read])?;
    *offset += sent as u64;
    Ok(sent)
}

fn unknown(host: &str) -> Failure {
    Failure::of_sense(format!("Cannot lookup host {host}"))
}

fn errno(error: &std::io::Error) -> Error {
    Error::from_io_error(error).unwrap_or(Error::INVAL)
}
