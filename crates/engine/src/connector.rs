//! Opens connections, from a range of local ports if the plan has one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use model::{EndCause, SocketFacts, SocketOptions, Transport};
use sys::call::{self, Error, KernelAddress};
use sys::{Address, Socket, option};

use crate::end::LoopEnd;
use crate::socket::{Role, connected_facts, open_data_socket};
use crate::stop::Stop;

/// Opens a new connection per pass, from the next local port of a range.
///
/// The peer refuses a local port while the port's last connection is in TIME_WAIT at the peer. Like
/// netperf, this uses the ports of a range in turn, which gives every run the same number of ports.
#[derive(Debug)]
pub struct Connector {
    transport: Transport,
    to: Address,
    to_kernel: KernelAddress,
    from: Address,
    ports: PortRange,
    next_in_range: u16,
    options: SocketOptions,
    retries_all_errors: bool,
    /// Facts of the first connection's socket.
    first_facts: Option<SocketFacts>,
    /// Number of further connections whose fast open or multipath state is checked.
    connections_to_check: u32,
}

/// Number of connections until a cookie is in use. The first connection fetches the cookie, and the
/// second uses it (RFC 7413, section 4.1).
const CONNECTIONS_FOR_COOKIE: u32 = 2;

/// Local ports from `first` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The port after the last one.
    pub end: u16,
}

/// A new connection. `sent` is the number of bytes of the request that its opening has sent.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) socket: Socket,
    pub(crate) sent: usize,
}

impl Connector {
    /// Creates a connector from `from` to `to`. `first_port_offset` selects the first port and
    /// wraps at the end of the range. If `retries_all_errors`, each failed connect is retried from
    /// the next port.
    pub fn new(
        transport: Transport,
        to: Address,
        from: Address,
        ports: PortRange,
        first_port_offset: u16,
        options: SocketOptions,
        retries_all_errors: bool,
    ) -> io::Result<Self> {
        let width = ports.end.saturating_sub(ports.first).max(1);
        let connections_to_check = match transport {
            _ if options.fast_open => CONNECTIONS_FOR_COOKIE,
            Transport::Mptcp => 1,
            _ => 0,
        };
        Ok(Self {
            transport,
            to_kernel: KernelAddress::try_from(&to)?,
            to,
            from,
            ports,
            next_in_range: ports.first + first_port_offset % width,
            options,
            retries_all_errors,
            first_facts: None,
            connections_to_check,
        })
    }

    /// Returns the facts of the first connection's socket, at its start.
    pub fn first_facts(&self) -> Option<&SocketFacts> {
        self.first_facts.as_ref()
    }

    /// Closes a connection that has ended.
    #[inline]
    pub(crate) fn close(&mut self, opened: NewConnection) {
        if self.connections_to_check > 0 {
            self.update_first_facts(&opened);
        }
        drop(opened);
    }

    #[cold]
    fn update_first_facts(&mut self, opened: &NewConnection) {
        self.connections_to_check -= 1;
        let (Some(facts), socket) = (self.first_facts.as_mut(), opened.socket.as_fd()) else {
            return;
        };
        if opened.sent > 0 {
            let info = option::tcp_info(socket).ok();
            facts.data_in_syn = info.map(|info| info.is_syn_data_acknowledged);
        }
        if self.transport == Transport::Mptcp {
            facts.multipath = option::is_multipath(socket).ok();
        }
    }

    /// Opens the next connection outside of a transaction. Returns `None` if the stop was set.
    pub fn connect(&mut self, stop: &Stop) -> io::Result<Option<Socket>> {
        let _registration = stop.register_thread();
        match self.open(&[], stop) {
            Ok(opened) => Ok(Some(opened.socket)),
            Err(LoopEnd::Failed { errno, .. }) => Err(io::Error::from_raw_os_error(errno)),
            Err(_) => Ok(None),
        }
    }

    /// Opens the next connection. With fast open, the opening sends `request`.
    pub(crate) fn open(&mut self, request: &[u8], stop: &Stop) -> Result<NewConnection, LoopEnd> {
        loop {
            let port = self.next_port().into();
            let from = self
                .from
                .with_port(port)
                .unwrap_or_else(|| self.from.clone());
            let socket =
                match open_data_socket(self.transport, &from, &self.options, Role::Initiator) {
                    Ok(socket) => socket,
                    Err(error) if error.error().kind() == io::ErrorKind::AddrInUse => {
                        if stop.is_set() {
                            return Err(LoopEnd::Stopped);
                        }
                        continue;
                    }
                    Err(error) => return Err(LoopEnd::from_io(error.action(), error.error())),
                };
            let (socket_fd, to) = (socket.as_fd(), &self.to_kernel);
            let opened = match (self.options.fast_open, request) {
                (false, _) => call::connect(socket_fd, to).map(|()| 0),
                (true, []) => call::connect_fast_open(socket_fd, to).map(|()| 0),
                (true, request) => call::send_fast_open(socket_fd, request, to),
            };
            match opened {
                Ok(sent) => {
                    self.first_facts
                        .get_or_insert_with(|| connected_facts(&socket));
                    return Ok(NewConnection { socket, sent });
                }
                Err(Error::INTR) if stop.is_set() => return Err(LoopEnd::Stopped),
                // Interrupted without a stop: the kernel continues to connect.
                Err(Error::INTR) => {
                    finish_connect(&socket, stop)?;
                    return Ok(NewConnection { socket, sent: 0 });
                }
                Err(Error::ADDRINUSE | Error::ADDRNOTAVAIL) => {}
                Err(_) if self.retries_all_errors => {}
                Err(error) => return Err(LoopEnd::from_call("connect", error)),
            }
            if stop.is_set() {
                return Err(LoopEnd::Stopped);
            }
        }
    }

    fn next_port(&mut self) -> u16 {
        // Skip the peer's port: on one host, a socket could connect to itself.
        let skipped = self.to.port();
        let mut port = self.next_in_range;
        if u32::from(port) == skipped {
            port = self.port_after(port);
        }
        self.next_in_range = self.port_after(port);
        port
    }

    fn port_after(&self, port: u16) -> u16 {
        if port
            .checked_add(1)
            .is_none_or(|next| next >= self.ports.end)
        {
            self.ports.first
        } else {
            port + 1
        }
    }
}

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The stop ended the attempt for this reason.
    #[error("the connection attempt was stopped")]
    Stopped(EndCause),
    /// The system refused the attempt, or the peer did not answer.
    #[error("{}", sys::describe(.0))]
    Failed(io::Error),
}

/// Opens the one connection of a flow. Only `stop` limits the time.
pub fn connect(socket: &Socket, to: &Address, stop: &Stop) -> Result<(), ConnectError> {
    connect_with(call::connect, socket, to, stop)
}

/// Does the same as [`connect`], within `timeout`. Returns ETIMEDOUT after that, and ECANCELED if
/// `stop` is set.
pub fn connect_within(
    timeout: Duration,
    socket: &Socket,
    to: &Address,
    stop: &Stop,
) -> io::Result<()> {
    let (timed_stop, _deadline) = stop.child_until(Instant::now() + timeout);
    connect(socket, to, &timed_stop).map_err(|error| match error {
        _ if stop.is_set() => Error::CANCELED.into(),
        ConnectError::Stopped(_) => Error::TIMEDOUT.into(),
        ConnectError::Failed(error) => error,
    })
}

/// Does the same as [`connect`], but opens a TCP Fast Open connection immediately. Such a
/// connection otherwise opens with its first data, which an end that receives first does not have.
pub fn connect_without_data(
    socket: &Socket,
    to: &Address,
    stop: &Stop,
) -> Result<(), ConnectError> {
    connect_with(call::connect_fast_open, socket, to, stop)
}

fn connect_with(
    connect: fn(BorrowedFd<'_>, &KernelAddress) -> Result<(), Error>,
    socket: &Socket,
    to: &Address,
    stop: &Stop,
) -> Result<(), ConnectError> {
    let _registration = stop.register_thread();
    let end = match KernelAddress::try_from(to).map(|to| connect(socket.as_fd(), &to)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Error::INTR)) => match finish_connect(socket, stop) {
            Ok(()) => return Ok(()),
            Err(end) => end,
        },
        Ok(Err(error)) => LoopEnd::from_call("connect", error),
        Err(error) => LoopEnd::from_io("connect", &error),
    };
    let result = end.into_result(stop);
    Err(match result.failure {
        Some((_, errno)) => ConnectError::Failed(io::Error::from_raw_os_error(errno)),
        None => ConnectError::Stopped(result.ended),
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
    use crate::stop::StopReason;

    fn connector(to_port: u16, first: u16, end: u16, first_port_offset: u16) -> Connector {
        let to = Address::Inet(([127, 0, 0, 1], to_port).into());
        let (tcp, options) = (Transport::Tcp, SocketOptions::default());
        let ports = PortRange { first, end };
        Connector::new(
            tcp,
            to.clone(),
            to,
            ports,
            first_port_offset,
            options,
            false,
        )
        .unwrap()
    }

    #[test]
    fn ports_wrap_and_skip_the_port_of_the_peer() {
        let mut connector = connector(5002, 5000, 5004, 1);
        let used_ports: Vec<u16> = (0..5).map(|_| connector.next_port()).collect();
        assert_eq!(used_ports, [5001, 5003, 5000, 5001, 5003]);
    }

    #[test]
    fn a_stop_while_a_port_is_in_use_is_not_a_failure() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let stop = Stop::new();
        stop.set(StopReason::Cancelled);
        let opened = connector(1, port, port + 1, 0).open(&[], &stop);
        assert!(matches!(opened, Err(LoopEnd::Stopped)));
    }

    #[test]
    fn a_range_of_one_port_repeats_it() {
        let mut connector = connector(1, 65_534, 65_535, 9);
        assert_eq!(
            [connector.next_port(), connector.next_port()],
            [65_534, 65_534]
        );
    }
}
