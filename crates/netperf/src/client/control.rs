//! The control connection.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::{ControlConnection, is_stopped, is_timeout};
use engine::{Stop, StopReason};
use model::Transport;
use sys::Address;

use super::endpoints::{family_of, look_up, parse_port, wildcard, with_port};
use super::error::ClientError;
use crate::options::{ControlOptions, Family};
use crate::wire::{Capability, Frame, MESSAGE_BYTES, Request, SysInfo};

/// Timeout of a response, as in the stock tool; results may take the test's time in addition.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout of a response that is optional, because the client cancelled the test.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time that data in queues may delay a message.
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the server to close its side at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// An established control connection.
#[derive(Debug)]
pub struct ServerConnection {
    pub(super) connection: ControlConnection,
    cancel: Stop,
    /// The server's address; the port is the control port.
    pub remote: Address,
    /// The resolver's canonical name of the server.
    pub remote_name: String,
    description: Option<ServerDescription>,
    /// Whether a late response may still arrive. It would be taken for the response to the next
    /// request.
    pub(super) has_pending_response: bool,
}

/// A server's description of itself, before any test.
#[derive(Clone, Debug)]
pub(super) struct ServerDescription {
    /// Its extensions to netperf's protocol; `None` for a stock server.
    pub(super) capability: Option<Capability>,
    /// Its operating system.
    pub(super) system: SysInfo,
}

impl ServerConnection {
    /// Connects to the first of the server's addresses that accepts, from the first local address
    /// of the same family. Sends the passphrase, if any.
    ///
    /// `cancel` ends this and every later wait on the connection.
    pub fn connect(control: &ControlOptions, cancel: &Stop) -> Result<Self, ClientError> {
        let remote = look_up(&control.host, control.family)?;
        let local = if let Some(host) = &control.local_host {
            look_up(host, control.local_family)?.addresses
        } else {
            // The stock tool binds the IPv4 wildcard by default. So it reaches a name with
            // addresses of both families by IPv4.
            let mut wildcards = wildcard(Family::V4).addresses;
            wildcards.extend(wildcard(Family::V6).addresses);
            wildcards.extend(wildcard(Family::Vsock).addresses);
            wildcards.retain(|address| control.local_family.includes(address));
            wildcards
        };
        let (remote_port, local_port) =
            (parse_port(&control.port)?, parse_port(&control.local_port)?);
        let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
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
                            description: None,
                            has_pending_response: false,
                        };
                        if let Some(passphrase) = &control.passphrase {
                            let text = passphrase.clone().into_bytes();
                            established.send(&Request::Passphrase(text).encode(None))?;
                        }
                        return Ok(established);
                    }
                    Err(_) if cancel.is_set() => return Err(ClientError::Interrupted),
                    Err(error) => last_error = error,
                }
            }
        }
        // The family of the server's first address, for the message.
        let remote_family = remote.addresses.first().map_or(Family::V4, family_of);
        let control = Box::new(control.clone());
        Err(ClientError::ControlConnect(
            control,
            remote_family,
            last_error,
        ))
    }

    /// Returns the server's description, requested once per connection and only if needed. A stock
    /// server describes only its host.
    pub(super) fn description(&mut self) -> Result<&ServerDescription, ClientError> {
        let description = if let Some(description) = self.description.take() {
            description
        } else {
            let mut frame = Request::SysInfo.encode(None);
            Capability::of_this_process().write_into(&mut frame);
            self.send(&frame)?;
            let answer = self.receive()?;
            ServerDescription {
                capability: Capability::find(&answer),
                // A server that refuses the request has an empty description.
                system: SysInfo::decode(&answer).unwrap_or_default(),
            }
        };
        Ok(self.description.insert(description))
    }

    /// Whether the user has ended the test.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }

    pub(super) fn send(&self, frame: &Frame) -> Result<(), ClientError> {
        self.connection
            .write(frame, ANSWER_TIMEOUT)
            .map_err(|error| control_error(error, ANSWER_TIMEOUT))
    }

    /// Receives the next message within the stock tool's timeout; after a cancel, within a short
    /// one.
    pub(super) fn receive(&self) -> Result<Frame, ClientError> {
        let mut frame = [0; MESSAGE_BYTES];
        self.receive_exact(&mut frame, ANSWER_TIMEOUT)?;
        Ok(frame)
    }

    /// Receives the results of a test that has sent data, also after the user's cancel. The data may
    /// wait in queues before the results.
    pub(super) fn receive_results(&self) -> Result<Frame, ClientError> {
        let mut frame = [0; MESSAGE_BYTES];
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut received = self.connection.receive(&mut frame, deadline, &self.cancel);
        if self.cancel.reason() == Some(StopReason::Cancelled)
            && received.as_ref().is_err_and(is_stopped)
        {
            let deadline = deadline.min(Instant::now() + QUEUE_TIMEOUT);
            received = self.connection.receive(&mut frame, deadline, &Stop::new());
        }
        match received {
            Ok(MESSAGE_BYTES) => Ok(frame),
            Ok(received) => Err(ClientError::Truncated(received)),
            Err(error) => Err(control_error(error, ANSWER_TIMEOUT)),
        }
    }

    /// Fills the buffer within `timeout`. After a cancel, only a short deadline ends the wait.
    pub(super) fn receive_exact(
        &self,
        buffer: &mut [u8],
        timeout: Duration,
    ) -> Result<(), ClientError> {
        let (stop, timeout) = if self.cancel.is_set() {
            (&Stop::new(), timeout.min(OPTIONAL_TIMEOUT))
        } else {
            (&self.cancel, timeout)
        };
        let deadline = Instant::now() + timeout;
        match self.connection.receive(buffer, deadline, stop) {
            Ok(received) if received < buffer.len() => Err(ClientError::Truncated(received)),
            Ok(_) => Ok(()),
            Err(error) => Err(control_error(error, timeout)),
        }
    }

    /// Closes the connection as the stock tool does: shuts down this side and waits for the peer's.
    /// After a cancel it does not wait, because the server may continue its test.
    pub fn close(self) {
        let _ = sys::call::shutdown_write(self.connection.as_fd());
        let _ = self
            .connection
            .wait_readable(Instant::now() + CLOSE_TIMEOUT);
    }
}

fn control_error(error: io::Error, timeout: Duration) -> ClientError {
    match error {
        error if is_timeout(&error) => ClientError::NoAnswer(timeout.as_secs()),
        error if is_stopped(&error) => ClientError::Interrupted,
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
