use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use model::{SocketFacts, SocketOptions, Transport};
use sys::Socket;
use sys::call::{self, Address, Error};

use crate::end::LoopEnd;
use crate::socket::{Role, connected_facts, data_socket};
use crate::stop::Stop;

/// Opens a new connection each time, from the next local port of a range.
///
/// Each connection needs a local port that the peer has not just closed a connection with, or the
/// peer's TIME_WAIT would refuse it; walking a range is netperf's way, and gives every run the same
/// number of ports to use up.
#[derive(Debug)]
pub struct Connector {
    to: SocketAddr,
    to_kernel: Address,
    from: SocketAddr,
    ports: PortRange,
    next: u16,
    options: SocketOptions,
    retry_all: bool,
    /// What the kernel gave the first connection.
    first: Option<SocketFacts>,
}

/// Local ports: `min` and on, below `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first.
    pub min: u16,
    /// One past the last.
    pub max: u16,
}

/// A connection, and how much of the first request left with its opening.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) socket: Socket,
    pub(crate) sent: usize,
}

impl Connector {
    /// Connections to `to` from `from`, the first from port `first` (any number: it is brought into
    /// the range). `retry_all` goes on to the next port whatever a connect failed of.
    pub fn new(
        to: SocketAddr,
        from: SocketAddr,
        ports: PortRange,
        first: u16,
        options: SocketOptions,
        retry_all: bool,
    ) -> Self {
        let width = ports.max.saturating_sub(ports.min).max(1);
        Self {
            to,
            to_kernel: to.into(),
            from,
            ports,
            next: ports.min + first % width,
            options,
            retry_all,
            first: None,
        }
    }

    /// What the kernel gave the first connection, at its start.
    pub fn first_facts(&self) -> Option<&SocketFacts> {
        self.first.as_ref()
    }

    /// The next connection. `first` is sent with its opening where fast open is asked for.
    pub(crate) fn open(&mut self, first: &[u8], stop: &Stop) -> Result<Opened, LoopEnd> {
        loop {
            let mut from = self.from;
            from.set_port(self.next_port());
            let socket = match data_socket(Transport::Tcp, from, &self.options, Role::Initiator) {
                Ok(socket) => socket,
                Err(error) if error.error.kind() == io::ErrorKind::AddrInUse && !stop.is_set() => {
                    continue;
                }
                Err(error) => return Err(LoopEnd::from_io(error.what, &error.error)),
            };
            let opened = if self.options.fast_open && !first.is_empty() {
                call::send_fast_open(socket.as_fd(), first, &self.to_kernel)
            } else {
                call::connect(socket.as_fd(), &self.to_kernel).map(|()| 0)
            };
            match opened {
                Ok(sent) => {
                    self.first.get_or_insert_with(|| connected_facts(&socket));
                    return Ok(Opened { socket, sent });
                }
                Err(Error::INTR) if stop.is_set() => return Err(LoopEnd::Stopped),
                // Interrupted for nothing: connect(2) goes on by itself.
                Err(Error::INTR) => {
                    finish_connect(&socket, stop)?;
                    return Ok(Opened { socket, sent: 0 });
                }
                Err(Error::ADDRINUSE | Error::ADDRNOTAVAIL) => {}
                Err(_) if self.retry_all => {}
                Err(error) => return Err(LoopEnd::from_call("connect", error)),
            }
            if stop.is_set() {
                return Err(LoopEnd::Stopped);
            }
        }
    }

    fn next_port(&mut self) -> u16 {
        // The peer's own port is left out: on one host a socket could connect to itself.
        let skipped = self.to.port();
        let mut port = self.next;
        if port == skipped {
            port = self.after(port);
        }
        self.next = self.after(port);
        port
    }

    fn after(&self, port: u16) -> u16 {
        if port
            .checked_add(1)
            .is_none_or(|next| next >= self.ports.max)
        {
            self.ports.min
        } else {
            port + 1
        }
    }
}

/// Opens the one connection of a flow: the time that it takes is the flow's.
pub(crate) fn connect(socket: &Socket, to: SocketAddr, stop: &Stop) -> Result<(), LoopEnd> {
    match call::connect(socket.as_fd(), &to.into()) {
        Ok(()) => Ok(()),
        Err(Error::INTR) => finish_connect(socket, stop),
        Err(error) => Err(LoopEnd::from_call("connect", error)),
    }
}

fn finish_connect(socket: &Socket, stop: &Stop) -> Result<(), LoopEnd> {
    while call::wait_writable(socket.as_fd()).is_err() {
        if stop.is_set() {
            return Err(LoopEnd::Stopped);
        }
    }
    match socket.take_error() {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(error) => Err(LoopEnd::from_io("connect", &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn ports_go_round_and_leave_the_peers_out() {
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 5002);
        let ports = PortRange {
            min: 5000,
            max: 5004,
        };
        let mut connector = Connector::new(to, to, ports, 1, SocketOptions::default(), false);
        let walked: Vec<u16> = (0..5).map(|_| connector.next_port()).collect();
        assert_eq!(walked, [5001, 5003, 5000, 5001, 5003]);
    }

    #[test]
    fn the_last_port_of_all_wraps() {
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
        let ports = PortRange {
            min: 65_534,
            max: 65_535,
        };
        let mut connector = Connector::new(to, to, ports, 9, SocketOptions::default(), false);
        assert_eq!(
            [connector.next_port(), connector.next_port()],
            [65_534, 65_534]
        );
    }
}
