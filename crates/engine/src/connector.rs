//! Opens connections, from local ports of a range where the plan has one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use model::{Ended, SocketFacts, SocketOptions, Transport};
use sys::call::{self, Error, Peer};
use sys::{Address, Socket, option};

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
    transport: Transport,
    to: Address,
    to_kernel: Peer,
    from: Address,
    ports: PortRange,
    next: u16,
    options: SocketOptions,
    retry_all: bool,
    /// What the kernel gave the first connection.
    first: Option<SocketFacts>,
    /// Connections that are still to be asked whether what was asked for is in force.
    to_ask: u32,
}

/// The first connection fetches the cookie, the second one uses it: RFC 7413, section 4.1.
const CONNECTIONS_TO_A_COOKIE: u32 = 2;

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
        transport: Transport,
        to: Address,
        from: Address,
        ports: PortRange,
        first: u16,
        options: SocketOptions,
        retry_all: bool,
    ) -> io::Result<Self> {
        let width = ports.max.saturating_sub(ports.min).max(1);
        let to_ask = match transport {
            _ if options.fast_open => CONNECTIONS_TO_A_COOKIE,
            Transport::Mptcp => 1,
            _ => 0,
        };
        Ok(Self {
            transport,
            to_kernel: Peer::try_from(&to)?,
            to,
            from,
            ports,
            next: ports.min + first % width,
            options,
            retry_all,
            first: None,
            to_ask,
        })
    }

    /// What the kernel gave the first connection, at its start.
    pub fn first_facts(&self) -> Option<&SocketFacts> {
        self.first.as_ref()
    }

    /// A connection has ended, and is closed.
    #[inline]
    pub(crate) fn close(&mut self, opened: Opened) {
        if self.to_ask > 0 {
            self.ask(&opened);
        }
        drop(opened);
    }

    #[cold]
    fn ask(&mut self, opened: &Opened) {
        self.to_ask -= 1;
        let (Some(first), socket) = (self.first.as_mut(), opened.socket.as_fd()) else {
            return;
        };
        if opened.sent > 0 {
            let info = option::tcp_info(socket).ok();
            first.data_in_syn = info.map(|info| info.data_in_syn);
        }
        if self.transport == Transport::Mptcp {
            first.multipath = option::is_multipath(socket).ok();
        }
    }

    /// Opens the next connection, for what is no transaction; `None` if it was stopped.
    pub fn connect(&mut self, stop: &Stop) -> io::Result<Option<Socket>> {
        let _attending = stop.attend();
        match self.open(&[], stop) {
            Ok(opened) => Ok(Some(opened.socket)),
            Err(LoopEnd::Failed { errno, .. }) => Err(io::Error::from_raw_os_error(errno)),
            Err(_) => Ok(None),
        }
    }

    /// The next connection. `first` is sent with its opening where fast open is asked for.
    pub(crate) fn open(&mut self, first: &[u8], stop: &Stop) -> Result<Opened, LoopEnd> {
        loop {
            let port = self.next_port().into();
            let from = self
                .from
                .with_port(port)
                .unwrap_or_else(|| self.from.clone());
            let socket = match data_socket(self.transport, &from, &self.options, Role::Initiator) {
                Ok(socket) => socket,
                Err(error) if error.error().kind() == io::ErrorKind::AddrInUse => {
                    if stop.is_set() {
                        return Err(LoopEnd::Stopped);
                    }
                    continue;
                }
                Err(error) => return Err(LoopEnd::from_io(error.what(), error.error())),
            };
            let (socket_fd, to) = (socket.as_fd(), &self.to_kernel);
            let opened = match (self.options.fast_open, first) {
                (false, _) => call::connect(socket_fd, to).map(|()| 0),
                (true, []) => call::connect_fast_open(socket_fd, to).map(|()| 0),
                (true, first) => call::send_fast_open(socket_fd, first, to),
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
        if u32::from(port) == skipped {
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

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The stop ended the attempt, for this reason.
    #[error("the attempt to connect was ended")]
    Stopped(Ended),
    /// The system refused it, or the peer did not answer.
    #[error("{}", sys::describe(.0))]
    Failed(io::Error),
}

/// Opens the one connection of a flow before `stop`. The time that it takes is the flow's.
pub fn connect(socket: &Socket, to: &Address, stop: &Stop) -> Result<(), ConnectError> {
    connect_by(call::connect, socket, to, stop)
}

/// As [`connect`], within `patience`: ETIMEDOUT, and ECANCELED at the stop.
pub fn connect_within(
    patience: Duration,
    socket: &Socket,
    to: &Address,
    stop: &Stop,
) -> io::Result<()> {
    let (in_time, _deadline) = stop.follower_until(Instant::now() + patience);
    connect(socket, to, &in_time).map_err(|error| match error {
        _ if stop.is_set() => Error::CANCELED.into(),
        ConnectError::Stopped(_) => Error::TIMEDOUT.into(),
        ConnectError::Failed(error) => error,
    })
}

/// As [`connect`], at once on a socket with TCP Fast Open, which would open with its first data: an end that receives
/// first has none.
pub fn connect_without_data(
    socket: &Socket,
    to: &Address,
    stop: &Stop,
) -> Result<(), ConnectError> {
    connect_by(call::connect_fast_open, socket, to, stop)
}

fn connect_by(
    connect: fn(BorrowedFd<'_>, &Peer) -> Result<(), Error>,
    socket: &Socket,
    to: &Address,
    stop: &Stop,
) -> Result<(), ConnectError> {
    let _attending = stop.attend();
    let end = match Peer::try_from(to).map(|to| connect(socket.as_fd(), &to)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Error::INTR)) => match finish_connect(socket, stop) {
            Ok(()) => return Ok(()),
            Err(end) => end,
        },
        Ok(Err(error)) => LoopEnd::from_call("connect", error),
        Err(error) => LoopEnd::from_io("connect", &error),
    };
    let ran = end.ran(stop);
    Err(match ran.failure {
        Some((_, errno)) => ConnectError::Failed(io::Error::from_raw_os_error(errno)),
        None => ConnectError::Stopped(ran.ended),
    })
}

fn finish_connect(socket: &Socket, stop: &Stop) -> Result<(), LoopEnd> {
    while call::wait_writable(socket.as_fd(), Duration::MAX).is_err() {
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
    use super::*;
    use crate::stop::Reason;

    fn connector(to_port: u16, min: u16, max: u16, first: u16) -> Connector {
        let to = Address::Inet(([127, 0, 0, 1], to_port).into());
        let (tcp, options) = (Transport::Tcp, SocketOptions::default());
        let ports = PortRange { min, max };
        Connector::new(tcp, to.clone(), to, ports, first, options, false).unwrap()
    }

    #[test]
    fn ports_go_round_and_leave_the_peers_out() {
        let mut connector = connector(5002, 5000, 5004, 1);
        let walked: Vec<u16> = (0..5).map(|_| connector.next_port()).collect();
        assert_eq!(walked, [5001, 5003, 5000, 5001, 5003]);
    }

    #[test]
    fn a_stop_at_a_taken_port_is_no_failure() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let stop = Stop::new();
        stop.pull(Reason::Cancelled);
        let opened = connector(1, port, port + 1, 0).open(&[], &stop);
        assert!(matches!(opened, Err(LoopEnd::Stopped)));
    }

    #[test]
    fn the_last_port_of_all_wraps() {
        let mut connector = connector(1, 65_534, 65_535, 9);
        assert_eq!(
            [connector.next_port(), connector.next_port()],
            [65_534, 65_534]
        );
    }
}
