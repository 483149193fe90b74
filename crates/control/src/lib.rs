//! The control connection between the two ends of a test, for all dialects. It transfers complete
//! messages, each with a deadline.

#![forbid(unsafe_code)]

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Role, Stop};
use model::{SocketOptions, Transport};
use sys::call::{self, Error};
use sys::{Address, Socket};

/// The timeout of a connection attempt to one address. The kernel's timeout is over two minutes.
const CONNECT_DEADLINE: Duration = Duration::from_secs(20);

/// The maximum bytes per send(2). SCTP accepts a message completely or not at all, and a uperf
/// workorder of thousands of flowops does not fit into the socket buffer.
const MAX_SEND_BYTES: usize = 16 * 1024;

/// The pause after a send(2) that failed with EAGAIN although poll(2) reported buffer space. SCTP
/// reports any free space, even if it is too small for the message.
const SEND_RETRY_PAUSE: Duration = Duration::from_millis(1);

/// A control connection. Its [`Stop`] ends every wait on it.
#[derive(Debug)]
pub struct ControlConnection {
    socket: Socket,
    peer: Address,
    stop: Stop,
}

/// The failed connection attempts to a peer's addresses, each with its error.
#[derive(Debug)]
pub struct ConnectFailures(pub Vec<(Address, io::Error)>);

impl ControlConnection {
    /// Connects to the first of a peer's addresses that accepts a connection.
    pub fn connect_any(
        transport: Transport,
        addresses: &[Address],
        stop: &Stop,
    ) -> Result<Self, ConnectFailures> {
        let mut failures = Vec::new();
        for address in addresses {
            match Self::connect(
                transport,
                &address.with_any_host().with_any_port(),
                address,
                stop,
            ) {
                Ok(control) => return Ok(control),
                Err(error) => failures.push((address.clone(), error)),
            }
        }
        Err(ConnectFailures(failures))
    }

    /// Connects from `local` to `remote`. If `local` has a wildcard address or port 0, the kernel
    /// chooses the address or the port. [`is_stopped`] recognises the error of a stopped attempt.
    pub fn connect(
        transport: Transport,
        local: &Address,
        remote: &Address,
        stop: &Stop,
    ) -> io::Result<Self> {
        let socket =
            engine::open_data_socket(transport, local, &SocketOptions::default(), Role::Initiator)
                .map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        engine::connect_within(CONNECT_DEADLINE, &socket, remote, stop)?;
        Self::new(socket, stop.clone())
    }

    /// Wraps a connected or accepted socket.
    pub fn new(socket: Socket, stop: Stop) -> io::Result<Self> {
        let peer = Address::peer(&socket)?;
        if matches!(peer, Address::Inet(_)) {
            // Errors are ignored: TCP refuses SCTP's option and vice versa. SCTP has heartbeats.
            let _ = socket.set_tcp_nodelay(true);
            let _ = sys::option::set_dead_peer_detection(socket.as_fd());
            let _ = sys::option::set_sctp_no_delay(socket.as_fd());
        }
        Ok(Self { socket, peer, stop })
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> &Address {
        &self.peer
    }

    /// Returns the local address, at which the peer reaches this host.
    pub fn local_address(&self) -> Option<Address> {
        Address::local(&self.socket).ok()
    }

    /// Returns the address to which to bind a data socket for this peer: the local address, port 0.
    pub fn data_address(&self) -> io::Result<Address> {
        let local = Address::local(&self.socket)?;
        Ok(match local.ip().map(|ip| ip.to_canonical()) {
            // An IPv4 socket cannot bind to an IPv4-mapped IPv6 address.
            Some(IpAddr::V4(ip)) => SocketAddr::from((ip, 0)).into(),
            _ => local.with_any_port(),
        })
    }

    /// Returns a second descriptor of a connection that carries data, not control messages, and
    /// disables its TCP_NODELAY.
    pub fn to_data_socket(&self) -> io::Result<Socket> {
        // The error is ignored: SCTP lacks the option.
        let _ = self.socket.set_tcp_nodelay(false);
        self.socket.try_clone()
    }

    /// Detaches the connection from its [`Stop`]. The last messages of an interrupted test are
    /// limited by their deadlines only.
    pub fn detach_stop(&mut self) {
        self.stop = Stop::new();
    }

    /// Reads `N` bytes; see [`Self::read_exact`].
    pub fn read<const N: usize>(&self, deadline: Instant) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes, deadline)?;
        Ok(bytes)
    }

    /// Fills the buffer. Fails with [`io::ErrorKind::UnexpectedEof`] if the peer closes the
    /// connection first. [`is_timeout`] and [`is_stopped`] recognise the deadline and the stop.
    pub fn read_exact(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        match self.receive(buffer, deadline, &self.stop)? {
            received if received == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Fills the buffer and returns the number of received bytes, which is lower than requested if
    /// the peer closes the connection first. `stop` replaces the connection's [`Stop`].
    pub fn receive(&self, buffer: &mut [u8], deadline: Instant, stop: &Stop) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if !stop.wait_readable(self.as_fd(), deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match call::receive(self.socket.as_fd(), &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Error::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// Reads a line of at most `max_bytes` bytes, including its end (LF or CR LF), and returns it
    /// without the end. Fails as [`Self::read_exact`] does, and with
    /// [`io::ErrorKind::InvalidData`] if the line is longer or is not UTF-8.
    pub fn read_line(&self, max_bytes: usize, deadline: Instant) -> io::Result<String> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let mut line = Vec::new();
        // One byte per call: the bytes after the line belong to the next message.
        while line.last() != Some(&b'\n') {
            if line.len() == max_bytes {
                return Err(invalid(format!("a line of more than {max_bytes} bytes")));
            }
            line.push(self.read::<1>(deadline)?[0]);
        }
        let line = String::from_utf8(line);
        let line = line.map_err(|_| invalid("a line that is not UTF-8".to_owned()))?;
        let text = line.trim_end_matches('\n');
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    }

    /// Waits until data is readable or the peer has closed the connection. Returns `false` at the
    /// deadline.
    pub fn wait_readable(&self, deadline: Instant) -> io::Result<bool> {
        Ok(self.stop.wait_readable(self.as_fd(), deadline)?)
    }

    /// Sends all bytes, with one call if there are at most `MAX_SEND_BYTES` and they fit into the
    /// socket buffer. A stock uperf slave takes the bytes of one read(2) for a complete command.
    pub fn write(&self, mut bytes: &[u8], timeout: Duration) -> io::Result<()> {
        let _registration = self.stop.register_thread();
        let deadline = Instant::now() + timeout;
        while !bytes.is_empty() {
            let chunk = &bytes[..bytes.len().min(MAX_SEND_BYTES)];
            match call::send_without_waiting(self.socket.as_fd(), chunk) {
                Ok(count) => bytes = &bytes[count..],
                Err(Error::INTR) if !self.stop.is_set() => {}
                Err(Error::AGAIN) => self.wait_for_buffer_space(deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until poll(2) reports buffer space, then pauses for [`SEND_RETRY_PAUSE`].
    fn wait_for_buffer_space(&self, deadline: Instant) -> io::Result<()> {
        if self.stop.is_set() {
            return Err(Error::CANCELED.into());
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        match call::wait_writable(self.socket.as_fd(), remaining) {
            Ok(true) if remaining.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            Ok(true) => {
                thread::sleep(SEND_RETRY_PAUSE);
                Ok(())
            }
            Err(Error::INTR) if !self.stop.is_set() => Ok(()),
            Ok(false) => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for ControlConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Display for ConnectFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot connect")?;
        for (index, (address, error)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator} to {address}: {}", describe_error(error))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectFailures {}

/// Whether a wait ended at its deadline. The kernel's ETIMEDOUT is a connection error instead.
pub fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// Whether a [`Stop`] ended a wait.
pub fn is_stopped(error: &io::Error) -> bool {
    Error::from_io_error(error) == Some(Error::CANCELED)
}

/// Describes why a control connection failed.
pub fn describe_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ if is_timeout(error) && error.get_ref().is_none() => "timed out".to_owned(),
        _ if is_stopped(error) => "interrupted on this host".to_owned(),
        _ => sys::describe(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connected_pair() -> (ControlConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let local = Socket::from(listener.accept().unwrap().0);
        (ControlConnection::new(local, Stop::new()).unwrap(), remote)
    }

    fn deadline_in_ms(milliseconds: u64) -> Instant {
        Instant::now() + Duration::from_millis(milliseconds)
    }

    #[test]
    fn reads_are_complete_or_fail() {
        let (control, mut remote) = connected_pair();
        remote.write_all(b"ab").unwrap();
        remote.write_all(b"cdef").unwrap();
        assert_eq!(control.read::<3>(deadline_in_ms(9000)).unwrap(), *b"abc");
        let timed_out = control.read::<4>(deadline_in_ms(10)).unwrap_err();
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
        drop(remote);
        let closed = control.read::<4>(deadline_in_ms(9000)).unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::UnexpectedEof);
        let received = control.receive(&mut [0; 4], deadline_in_ms(9000), &Stop::new());
        assert_eq!(received.unwrap(), 0);
    }

    #[test]
    fn data_sockets_bind_to_the_control_address() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (to, expected) in [("127.0.0.1", "127.0.0.1:0"), ("::1", "[::1]:0")] {
            let _remote = TcpStream::connect((to, port)).unwrap();
            let local = Socket::from(listener.accept().unwrap().0);
            let control = ControlConnection::new(local, Stop::new()).unwrap();
            assert_eq!(control.data_address().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn lines_are_terminated_and_bounded() {
        let (control, mut remote) = connected_pair();
        remote
            .write_all(b"one\ntwo\r\n\n12345678\n\xff\n123456789\nx")
            .unwrap();
        let line = || control.read_line(9, deadline_in_ms(9000));
        for expected in ["one", "two", "", "12345678"] {
            assert_eq!(line().unwrap(), expected);
        }
        assert_eq!(
            describe_error(&line().unwrap_err()),
            "a line that is not UTF-8"
        );
        let long = line().unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
        assert_eq!(describe_error(&long), "a line of more than 9 bytes");
        assert_eq!(line().unwrap(), "", "the rest of the long line");
        drop(remote);
        let closed = line().unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn connects_to_the_first_open_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = Address::from(listener.local_addr().unwrap());
        // This socket does not listen. It is bound so that no other program uses its port.
        let closed = Socket::new(sys::Domain::IPV4, sys::Type::STREAM, None).unwrap();
        let any_port = "127.0.0.1:0".parse::<SocketAddr>().unwrap();
        closed.bind(&any_port.into()).unwrap();
        let closed = Address::local(&closed).unwrap();
        let connect =
            |to: &[Address]| ControlConnection::connect_any(Transport::Tcp, to, &Stop::new());
        let control = connect(&[closed.clone(), open.clone()]).unwrap();
        assert_eq!(*control.peer(), open);
        let failures = connect(&[closed.clone(), closed.clone()]).unwrap_err();
        let failure = format!("to {closed}: Connection refused");
        let expected = format!("cannot connect {failure}, {failure}");
        assert_eq!(failures.to_string(), expected);
    }

    #[test]
    fn a_stop_ends_a_read() {
        let (control, _remote) = connected_pair();
        let stop = control.stop.clone();
        let _deadline = engine::deadline_thread().set_at(deadline_in_ms(20), &stop);
        assert!(control.read::<1>(deadline_in_ms(60_000)).is_err());
    }

    #[test]
    fn a_stop_ends_an_attempt_to_connect() {
        // The queue holds one connection, and none is accepted: further attempts get no answer.
        let listener = Socket::new(sys::Domain::IPV4, sys::Type::STREAM, None).unwrap();
        let any_port = "127.0.0.1:0".parse::<SocketAddr>().unwrap();
        listener.bind(&any_port.into()).unwrap();
        listener.listen(0).unwrap();
        let to = Address::local(&listener).unwrap();
        let from = Address::from(any_port);
        let stop = Stop::new();
        let _deadline = engine::deadline_thread().set_at(deadline_in_ms(200), &stop);
        let attempts =
            (0..8).map(|_| ControlConnection::connect(Transport::Tcp, &from, &to, &stop));
        let attempts: Vec<_> = attempts.collect();
        let failed = attempts.iter().find_map(|attempt| attempt.as_ref().err());
        assert!(is_stopped(failed.expect("the queue is full")), "{failed:?}");
    }

    #[test]
    fn messages_arrive_after_forget_connect_stop() {
        let (mut control, mut remote) = connected_pair();
        control.stop.set(engine::StopReason::Cancelled);
        assert!(control.read::<1>(deadline_in_ms(9000)).is_err());
        remote.write_all(b"a").unwrap();
        let received = control.receive(&mut [0], deadline_in_ms(9000), &Stop::new());
        assert_eq!(received.unwrap(), 1);
        control.detach_stop();
        remote.write_all(b"a").unwrap();
        assert_eq!(control.read::<1>(deadline_in_ms(9000)).unwrap(), *b"a");
    }

    #[test]
    fn waits_for_buffer_space_are_paced() {
        let (control, _remote) = connected_pair();
        let start = Instant::now();
        for _ in 0..10 {
            control.wait_for_buffer_space(deadline_in_ms(9000)).unwrap();
        }
        assert!(start.elapsed() >= 10 * SEND_RETRY_PAUSE);
        let timed_out = control.wait_for_buffer_space(start).unwrap_err();
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
        control.stop.set(engine::StopReason::Cancelled);
        let ended = control
            .wait_for_buffer_space(deadline_in_ms(9000))
            .unwrap_err();
        assert_eq!(describe_error(&ended), "interrupted on this host");
    }

    #[test]
    fn errors_are_described() {
        let (control, remote) = connected_pair();
        let description = |until| describe_error(&control.read::<1>(until).unwrap_err());
        assert_eq!(description(deadline_in_ms(1)), "timed out");
        drop(remote);
        assert_eq!(
            description(deadline_in_ms(9000)),
            "the connection was closed"
        );
        let kernel_timeout = io::Error::from_raw_os_error(Error::TIMEDOUT.raw_os_error());
        assert_eq!(describe_error(&kernel_timeout), "Connection timed out");
    }
}
