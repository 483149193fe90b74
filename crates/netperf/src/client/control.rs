//! The control connection.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::{ControlConnection, is_late, is_stopped};
use engine::Stop;
use model::Transport;
use sys::Address;

use super::endpoints::{family_of, look_up, port, wildcard, with_port};
use super::error::ClientError;
use crate::options::{Control, Family};
use crate::wire::{Capability, Frame, MESSAGE_LEN, Request, SysInfo};

/// How long an answer may take beyond the test: the stock tool's patience.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// How long an answer may take when the user has ended the test, or when it is not needed.
pub(super) const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// How long the server has to close its side at the end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);

/// A control connection that stands.
#[derive(Debug)]
pub struct Established {
    pub(super) connection: ControlConnection,
    cancel: Stop,
    /// The server's address; the port is the control port.
    pub remote: Address,
    /// The resolver's canonical name of the server.
    pub remote_name: String,
    introduced: Option<Introduction>,
    /// An answer may still come that nobody waits for any more: it would be taken for the next one.
    pub(super) out_of_step: bool,
}

/// How a server describes itself before any test.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    /// What it can do beyond netperf's protocol; `None` of a stock server.
    pub(super) capability: Option<Capability>,
    /// Its host.
    pub(super) system: SysInfo,
}

impl Established {
    /// Connects to the first of the server's addresses that answers, from the first local address of
    /// its family, and offers the passphrase if there is one.
    ///
    /// `cancel` ends this and every later wait on the connection.
    pub fn connect(control: &Control, cancel: &Stop) -> Result<Self, ClientError> {
        let remote = look_up(&control.host, control.family)?;
        let local = if let Some(host) = &control.local_host {
            look_up(host, control.local_family)?.addresses
        } else {
            // The stock tool's default is the IPv4 wildcard, so that a name with both kinds of
            // addresses is reached by IPv4.
            let mut any = wildcard(Family::V4).addresses;
            any.extend(wildcard(Family::V6).addresses);
            any.extend(wildcard(Family::Vsock).addresses);
            any.retain(|address| control.local_family.admits(address));
            any
        };
        let (remote_port, local_port) = (port(&control.port)?, port(&control.local_port)?);
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for from in &local {
            for to in remote
                .addresses
                .iter()
                .filter(|to| family_of(to) == family_of(from))
            {
                let to = with_port(to, remote_port);
                match connect(&to, &with_port(from, local_port), cancel) {
                    Ok(connection) => {
                        let established = Self {
                            connection,
                            cancel: cancel.clone(),
                            remote: to,
                            remote_name: remote.name,
                            introduced: None,
                            out_of_step: false,
                        };
                        if let Some(passphrase) = &control.passphrase {
                            let text = passphrase.clone().into_bytes();
                            established.send(&Request::Passphrase(text).encode(None))?;
                        }
                        return Ok(established);
                    }
                    Err(_) if cancel.is_set() => return Err(ClientError::Interrupted),
                    Err(error) => last = error,
                }
            }
        }
        // The server's family is what its first address has.
        let remote_family = remote.addresses.first().map_or(Family::V4, family_of);
        let control = Box::new(control.clone());
        Err(ClientError::NotEstablished(control, remote_family, last))
    }

    /// Who the server is. It is asked once a connection, and only if somebody wants to know: a stock
    /// server answers too, but has nothing to say.
    pub(super) fn introduction(&mut self) -> Result<&Introduction, ClientError> {
        let introduction = if let Some(introduction) = self.introduced.take() {
            introduction
        } else {
            let mut frame = Request::SysInfo.encode(None);
            Capability::own().put(&mut frame);
            self.send(&frame)?;
            let answer = self.receive()?;
            Introduction {
                capability: Capability::find(&answer),
                // A server that does not know the question is one that says nothing of its host.
                system: SysInfo::decode(&answer).unwrap_or_default(),
            }
        };
        Ok(self.introduced.insert(introduction))
    }

    /// Whether the user has ended the test.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }

    pub(super) fn send(&self, frame: &Frame) -> Result<(), ClientError> {
        self.connection
            .write(frame, ANSWER_PATIENCE)
            .map_err(|error| failure(error, ANSWER_PATIENCE))
    }

    /// The next answer, within the stock tool's patience, or soon where the user has ended the test and
    /// is waiting.
    pub(super) fn receive(&self) -> Result<Frame, ClientError> {
        let mut frame = [0; MESSAGE_LEN];
        self.receive_exact(&mut frame, ANSWER_PATIENCE)?;
        Ok(frame)
    }

    /// Fills the buffer within `patience`. After a cancel the deadline alone ends the wait, and it is short.
    pub(super) fn receive_exact(
        &self,
        buffer: &mut [u8],
        patience: Duration,
    ) -> Result<(), ClientError> {
        let (stop, patience) = if self.cancel.is_set() {
            (&Stop::new(), patience.min(SHORT_PATIENCE))
        } else {
            (&self.cancel, patience)
        };
        let until = Instant::now() + patience;
        match self.connection.receive(buffer, until, stop) {
            Ok(received) if received < buffer.len() => Err(ClientError::Truncated(received)),
            Ok(_) => Ok(()),
            Err(error) => Err(failure(error, patience)),
        }
    }

    /// Ends the connection as the stock tool does: closes this side and waits for the other's. After
    /// a cancel nobody waits: the server may be at it for as long as its own clock says.
    pub fn close(self) {
        let _ = sys::call::shutdown_write(self.connection.as_fd());
        let _ = self.connection.is_readable(Instant::now() + CLOSE_PATIENCE);
    }
}

fn failure(error: io::Error, patience: Duration) -> ClientError {
    match error {
        late if is_late(&late) => ClientError::NoAnswer(patience.as_secs()),
        stopped if is_stopped(&stopped) => ClientError::Interrupted,
        error => ClientError::Control(error),
    }
}

fn connect(to: &Address, from: &Address, cancel: &Stop) -> io::Result<ControlConnection> {
    let transport = match to {
        Address::Vsock { .. } => Transport::Vsock,
        _ => Transport::Tcp,
    };
    ControlConnection::connect(transport, from, to, cancel)
}
