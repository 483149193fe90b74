//! The slave: does the other half of what its masters' profiles say.

mod budget;
mod commands;
mod files;
mod goodbye;
mod permit;
mod prepare;
mod session;

pub use files::Shelf;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use control::ControlConnection;
use engine::Stop;
use model::Transport;
use server::{Dialect, Policy, Server, ServerContext, Service, listen};
use sys::call::Error;
use sys::{Address, Socket};

use crate::Protocol;
use crate::options::Limits;
use crate::strand::anywhere;
use crate::tls::Security;

use budget::ResourceBudget;

/// What a slave lets be done.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Bounds, and which masters are accepted.
    pub limits: Limits,
    /// What a master may have sent to it; nothing by default.
    pub shelf: Arc<Shelf>,
    /// Whose data a run takes, and where its datagrams go.
    pub policy: Policy,
    /// Says on stdout what happens.
    pub verbose: bool,
    /// What its TLS connections are made with.
    pub tls: Arc<Security>,
}

/// A slave that listens.
#[derive(Debug)]
pub struct Slave {
    listeners: Vec<Socket>,
    server: Arc<Server<Masters>>,
}

/// The server of masters among those of a service.
pub fn among(service: &Service, terms: Terms) -> Arc<Server<impl Dialect + use<>>> {
    sys::process::keep_little_freed_memory();
    Server::of(Masters::new(terms), service)
}

/// What the sessions of all masters share.
#[derive(Debug)]
struct Masters {
    terms: Terms,
    budget: ResourceBudget,
}

impl Slave {
    /// Listens at a control port, 0 for any, until `stop`.
    pub fn listen(control: Protocol, port: u32, terms: Terms, stop: Stop) -> io::Result<Self> {
        sys::process::keep_little_freed_memory();
        let wildcards = || u16::try_from(port).map(Address::wildcards);
        let wildcards = || wildcards().map_err(|_| Error::INVAL);
        let listeners = match control {
            Protocol::Vsock => listen(Transport::Vsock, &[anywhere(control, port)], false),
            Protocol::Tcp => listen(Transport::Tcp, &wildcards()?, false),
            Protocol::Sctp => listen(Transport::Sctp, &wildcards()?, false),
            _ => Err(Error::PROTONOSUPPORT.into()),
        }?;
        let config = terms.limits.server.clone();
        Ok(Self {
            listeners,
            server: Server::new(Masters::new(terms), config, stop),
        })
    }

    /// Returns the control port.
    pub fn port(&self) -> io::Result<u32> {
        let listener = self.listeners.first().ok_or(Error::NOTCONN)?;
        Ok(Address::of(listener)?.port())
    }

    /// Returns the stop that ends runs which are given time to end.
    pub fn cut(&self) -> Stop {
        self.server.cut().clone()
    }

    /// Serves masters until the stop, and then as long as runs may go on.
    pub fn serve(self) {
        self.server.run(self.listeners);
    }
}

impl Masters {
    fn new(terms: Terms) -> Self {
        let budget = ResourceBudget::new(&terms.limits);
        Self { terms, budget }
    }
}

impl Dialect for Masters {
    const NAME: &'static str = "uperf";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        session::serve(control, self, server)
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        if self.terms.verbose {
            // A reader that has closed the pipe is no failure.
            let _ = writeln!(io::stdout(), "{line}");
        }
    }
}
