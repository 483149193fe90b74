//! The slave: executes the other half of its masters' profiles.

mod budget;
mod commands;
mod files;
mod goodbye;
mod permit;
mod prepare;
mod session;

pub use files::ServedFiles;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use control::ControlConnection;
use engine::{ResourceBudget, Stop};
use model::Transport;
use server::{Dialect, ErrorLog, PeerPolicy, Server, ServerContext, Service, listen};
use sys::call::Error;
use sys::{Address, Socket};

use crate::DataProtocol;
use crate::options::SlaveLimits;
use crate::strand::any_address;
use crate::tls::TlsSettings;
use crate::wire::{Phase1Answer, Text};

use budget::SlaveBudget;

/// Configuration of a slave.
#[derive(Clone, Debug, Default)]
pub struct SlaveConfig {
    /// Limits and permissions, and the addresses of accepted masters.
    pub limits: SlaveLimits,
    /// Files that masters may request; none by default.
    pub served_files: Arc<ServedFiles>,
    /// Allowed sources and destinations of a run's data.
    pub policy: PeerPolicy,
    /// Log events on stdout.
    pub verbose: bool,
    /// Settings of its TLS connections.
    pub tls: Arc<TlsSettings>,
}

/// Slave with open listeners.
#[derive(Debug)]
pub struct Slave {
    listeners: Vec<Socket>,
    server: Arc<Server<SlaveDialect>>,
}

/// Returns the uperf server of a service with several dialects.
pub fn server_for_service(
    service: &Service,
    config: SlaveConfig,
) -> Arc<Server<impl Dialect + use<>>> {
    Server::with_service(SlaveDialect::new(config), service)
}

/// Configuration and budget of a slave, shared by the sessions of all masters.
#[derive(Debug)]
struct SlaveDialect {
    config: SlaveConfig,
    budget: SlaveBudget,
}

impl Slave {
    /// Opens the listeners of a control port; port 0 is any free port. `stop` ends the slave.
    pub fn listen(
        control: DataProtocol,
        port: u32,
        config: SlaveConfig,
        stop: Stop,
    ) -> io::Result<Self> {
        let wildcards = || u16::try_from(port).map(Address::wildcards);
        let wildcards = || wildcards().map_err(|_| Error::INVAL);
        let listeners = match control {
            DataProtocol::Vsock => listen(Transport::Vsock, &[any_address(control, port)], false),
            DataProtocol::Tcp => listen(Transport::Tcp, &wildcards()?, false),
            DataProtocol::Sctp => listen(Transport::Sctp, &wildcards()?, false),
            _ => Err(Error::PROTONOSUPPORT.into()),
        }?;
        let server_config = config.limits.server.clone();
        let dialect = SlaveDialect::new(config);
        dialect.log(format_args!("resources: {}", ResourceBudget::process()));
        Ok(Self {
            listeners,
            server: Server::new(dialect, server_config, stop),
        })
    }

    /// Returns the control port.
    pub fn port(&self) -> io::Result<u32> {
        let listener = self.listeners.first().ok_or(Error::NOTCONN)?;
        Ok(Address::local(listener)?.port())
    }

    /// Returns the [`Stop`] that cancels the runs which continue while a stopped slave drains.
    pub fn cancel_stop(&self) -> Stop {
        self.server.cancel_stop().clone()
    }

    /// Serves masters until the stop. Runs may then continue until they end or are cancelled.
    pub fn serve(self) {
        self.server.run(self.listeners);
    }
}

impl SlaveDialect {
    fn new(config: SlaveConfig) -> Self {
        let budget = SlaveBudget::new(&config.limits);
        Self { config, budget }
    }
}

impl Dialect for SlaveDialect {
    const NAME: &'static str = "uperf";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        session::serve(control, self, server)
    }

    fn send_refusal(&self, control: &ControlConnection, reason: &str) {
        // A master reads the first answer before it sends anything else.
        let refused = Phase1Answer::Refused(Text::truncated(reason));
        let _ = control.write(&refused.encode(), Duration::ZERO);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        if self.config.verbose {
            // Ignore a closed pipe.
            let _ = writeln!(getopt::stdout(), "{line}");
        }
    }

    fn warn(&self, line: fmt::Arguments<'_>) {
        if self.config.verbose {
            self.log(line);
        } else {
            write_error(line);
        }
    }
}

/// Writes a line to standard error, within the limit of the log.
fn write_error(line: fmt::Arguments<'_>) {
    static ERRORS: ErrorLog = ErrorLog::new("uperf");
    ERRORS.write(line, ErrorLog::MAX_WARNINGS);
}
