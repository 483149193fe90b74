//! The control connection between the two ends of a test, in every dialect: whole messages, each with a deadline.

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

/// The deadline of a connection attempt to one address; the kernel's own is over two minutes.
const CONNECT_DEADLINE: Duration = Duration::from_secs(20);

/// The most bytes per send(2). SCTP sends a message whole or not at all, and a workorder of thousands of
/// flowops does not fit into its buffer.
const PIECE: usize = 16 * 1024;

/// The pause after a send(2) that took nothing although poll(2) reported room: SCTP reports any room, and a
/// message may need more.
const PAUSE: Duration = Duration::from_millis(1);

/// A control connection. Its stop ends every wait on it.
#[derive(Debug)]
pub struct ControlConnection {
    socket: Socket,
    peer: Address,
    stop: Stop,
}

/// The attempts to reach a peer at its addresses, each with its error.
#[derive(Debug)]
pub struct Unreached(pub Vec<(Address, io::Error)>);

impl ControlConnection {
    /// Connects to the first of a peer's addresses that answers.
    pub fn reach(transport: Transport, to: &[Address], stop: &Stop) -> Result<Self, Unreached> {
        let mut unreached = Vec::new();
        for to in to {
            match Self::connect(transport, &to.anywhere().with_any_port(), to, stop) {
                Ok(control) => return Ok(control),
                Err(error) => unreached.push((to.clone(), error)),
            }
        }
        Err(Unreached(unreached))
    }

    /// Connects to `to` from the local address `from`. A wildcard address and port 0 leave the choice to the kernel.
    /// [`is_stopped`] recognises a stop that ended the attempt.
    pub fn connect(
        transport: Transport,
        from: &Address,
        to: &Address,
        stop: &Stop,
    ) -> io::Result<Self> {
        let socket =
            engine::data_socket(transport, from, &SocketOptions::default(), Role::Initiator)
                .map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        engine::connect_within(CONNECT_DEADLINE, &socket, to, stop)?;
        Self::new(socket, stop.clone())
    }

    /// Wraps a connected or accepted socket.
    pub fn new(socket: Socket, stop: Stop) -> io::Result<Self> {
        let peer = Address::of_peer(&socket)?;
        if matches!(peer, Address::Inet(_)) {
            // TCP refuses SCTP's option and the other way round; SCTP has heartbeats of its own.
            let _ = socket.set_tcp_nodelay(true);
            let _ = sys::option::set_vanishing_peer_notice(socket.as_fd());
            let _ = sys::option::set_sctp_no_delay(socket.as_fd());
        }
        Ok(Self { socket, peer, stop })
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> &Address {
        &self.peer
    }

    /// Returns the local address, by which the peer reaches this host.
    pub fn here(&self) -> Option<Address> {
        Address::of(&self.socket).ok()
    }

    /// Returns the address to bind a data socket for this peer to: the local one, with any port.
    pub fn data_address(&self) -> io::Result<Address> {
        let local = Address::of(&self.socket)?;
        Ok(match local.ip().map(|ip| ip.to_canonical()) {
            // A dual stack's form of an IPv4 address is no address to bind to.
            Some(IpAddr::V4(ip)) => SocketAddr::from((ip, 0)).into(),
            _ => local.with_any_port(),
        })
    }

    /// Returns another descriptor of a connection that turns out to carry data, without what only control needs.
    pub fn as_data(&self) -> io::Result<Socket> {
        // SCTP has no such option.
        let _ = self.socket.set_tcp_nodelay(false);
        self.socket.try_clone()
    }

    /// Detaches the connection from its stop: the last messages of an interrupted test have only their deadlines.
    pub fn outlive_stop(&mut self) {
        self.stop = Stop::new();
    }

    /// Reads `N` bytes; see [`Self::fill`].
    pub fn read<const N: usize>(&self, until: Instant) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, until)?;
        Ok(bytes)
    }

    /// Fills the buffer. Fails with [`io::ErrorKind::UnexpectedEof`] if the peer closes the connection before;
    /// [`is_late`] and [`is_stopped`] recognise the deadline and the stop.
    pub fn fill(&self, buffer: &mut [u8], until: Instant) -> io::Result<()> {
        match self.receive(buffer, until, &self.stop)? {
            received if received == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Fills the buffer, and returns the number of received bytes: fewer than requested if the peer closes the
    /// connection before. `stop` takes the place of the connection's own.
    pub fn receive(&self, buffer: &mut [u8], until: Instant, stop: &Stop) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if !stop.wait_readable(self.as_fd(), until)? {
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

    /// Reads a line of at most `most` bytes and returns it without its end (LF, or CR LF), which counts. Fails as
    /// [`Self::fill`] does, and with [`io::ErrorKind::InvalidData`] if the line is longer or is not UTF-8.
    pub fn read_line(&self, most: usize, until: Instant) -> io::Result<String> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut line = Vec::new();
        // A byte per call: what follows the line is not this message's.
        while line.last() != Some(&b'\n') {
            if line.len() == most {
                return Err(invalid(format!("a line of more than {most} bytes")));
            }
            line.push(self.read::<1>(until)?[0]);
        }
        let line = String::from_utf8(line);
        let line = line.map_err(|_| invalid("a line that is not UTF-8".to_owned()))?;
        let text = line.trim_end_matches('\n');
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    }

    /// Waits until there is something to read or the peer has closed the connection; `false` at the deadline.
    pub fn is_readable(&self, until: Instant) -> io::Result<bool> {
        Ok(self.stop.wait_readable(self.as_fd(), until)?)
    }

    /// Sends all bytes, in one call as long as there is room: a stock slave takes the bytes of one read(2) for a
    /// whole command.
    pub fn write(&self, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
        let _attending = self.stop.attend();
        let until = Instant::now() + patience;
        while !bytes.is_empty() {
            let piece = &bytes[..bytes.len().min(PIECE)];
            match call::send_without_waiting(self.socket.as_fd(), piece) {
                Ok(count) => bytes = &bytes[count..],
                Err(Error::INTR) if !self.stop.is_set() => {}
                Err(Error::AGAIN) => self.wait_for_room(until)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait_for_room(&self, until: Instant) -> io::Result<()> {
        if self.stop.is_set() {
            return Err(Error::CANCELED.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        match call::wait_writable(self.socket.as_fd(), left) {
            Ok(true) if left.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            Ok(true) => {
                thread::sleep(PAUSE);
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

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot connect")?;
        for (at, (to, error)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator} to {to}: {}", why(error))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unreached {}

/// Whether a wait ended at its deadline. The kernel's own ETIMEDOUT is an error of the connection.
pub fn is_late(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// Whether a wait ended at its stop.
pub fn is_stopped(error: &io::Error) -> bool {
    Error::from_io_error(error) == Some(Error::CANCELED)
}

/// Describes the end of a connection.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ if is_late(error) && error.get_ref().is_none() => "no word in time".to_owned(),
        _ if is_stopped(error) => "interrupted here".to_owned(),
        _ => sys::describe(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (ControlConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Socket::from(listener.accept().unwrap().0);
        (ControlConnection::new(near, Stop::new()).unwrap(), far)
    }

    fn in_milliseconds(milliseconds: u64) -> Instant {
        Instant::now() + Duration::from_millis(milliseconds)
    }

    #[test]
    fn records_come_whole_or_not_at_all() {
        let (control, mut far) = pair();
        far.write_all(b"ab").unwrap();
        far.write_all(b"cdef").unwrap();
        assert_eq!(control.read::<3>(in_milliseconds(9000)).unwrap(), *b"abc");
        let late = control.read::<4>(in_milliseconds(10)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        drop(far);
        let gone = control.read::<4>(in_milliseconds(9000)).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
        let none = control.receive(&mut [0; 4], in_milliseconds(9000), &Stop::new());
        assert_eq!(none.unwrap(), 0);
    }

    #[test]
    fn data_sockets_bind_where_the_peer_connects_to() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (to, expected) in [("127.0.0.1", "127.0.0.1:0"), ("::1", "[::1]:0")] {
            let _far = TcpStream::connect((to, port)).unwrap();
            let near = Socket::from(listener.accept().unwrap().0);
            let control = ControlConnection::new(near, Stop::new()).unwrap();
            assert_eq!(control.data_address().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn lines_have_an_end_and_a_bound() {
        let (control, mut far) = pair();
        far.write_all(b"one\ntwo\r\n\n12345678\n\xff\n123456789\nx")
            .unwrap();
        let line = || control.read_line(9, in_milliseconds(9000));
        for expected in ["one", "two", "", "12345678"] {
            assert_eq!(line().unwrap(), expected);
        }
        assert_eq!(why(&line().unwrap_err()), "a line that is not UTF-8");
        let long = line().unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
        assert_eq!(why(&long), "a line of more than 9 bytes");
        assert_eq!(line().unwrap(), "", "the end of the long one");
        drop(far);
        let cut = line().unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = Address::from(listener.local_addr().unwrap());
        // This one is bound, so that it is nobody else's, and does not listen.
        let closed = Socket::new(sys::Domain::IPV4, sys::Type::STREAM, None).unwrap();
        let any_port = "127.0.0.1:0".parse::<SocketAddr>().unwrap();
        closed.bind(&any_port.into()).unwrap();
        let closed = Address::of(&closed).unwrap();
        let reach = |to: &[Address]| ControlConnection::reach(Transport::Tcp, to, &Stop::new());
        let control = reach(&[closed.clone(), there.clone()]).unwrap();
        assert_eq!(*control.peer(), there);
        let unreached = reach(&[closed.clone(), closed.clone()]).unwrap_err();
        let refused = format!("to {closed}: Connection refused");
        let expected = format!("cannot connect {refused}, {refused}");
        assert_eq!(unreached.to_string(), expected);
    }

    #[test]
    fn a_stop_ends_what_waits() {
        let (control, _far) = pair();
        let stop = control.stop.clone();
        let _deadline = engine::deadline_thread().at(in_milliseconds(20), &stop);
        assert!(control.read::<1>(in_milliseconds(60_000)).is_err());
    }

    #[test]
    fn a_stop_ends_an_attempt_to_connect() {
        // A queue of one connection that nobody accepts: further attempts get no answer.
        let listener = Socket::new(sys::Domain::IPV4, sys::Type::STREAM, None).unwrap();
        let any_port = "127.0.0.1:0".parse::<SocketAddr>().unwrap();
        listener.bind(&any_port.into()).unwrap();
        listener.listen(0).unwrap();
        let to = Address::of(&listener).unwrap();
        let from = Address::from(any_port);
        let stop = Stop::new();
        let _deadline = engine::deadline_thread().at(in_milliseconds(200), &stop);
        let attempts =
            (0..8).map(|_| ControlConnection::connect(Transport::Tcp, &from, &to, &stop));
        let attempts: Vec<_> = attempts.collect();
        let failed = attempts.iter().find_map(|attempt| attempt.as_ref().err());
        assert!(is_stopped(failed.expect("the queue is full")), "{failed:?}");
    }

    #[test]
    fn last_words_are_heard_after_the_stop() {
        let (mut control, mut far) = pair();
        control.stop.pull(engine::Reason::Cancelled);
        assert!(control.read::<1>(in_milliseconds(9000)).is_err());
        far.write_all(b"a").unwrap();
        let received = control.receive(&mut [0], in_milliseconds(9000), &Stop::new());
        assert_eq!(received.unwrap(), 1);
        control.outlive_stop();
        far.write_all(b"a").unwrap();
        assert_eq!(control.read::<1>(in_milliseconds(9000)).unwrap(), *b"a");
    }

    #[test]
    fn room_that_was_none_is_not_asked_for_without_rest() {
        let (control, _far) = pair();
        let begun = Instant::now();
        for _ in 0..10 {
            control.wait_for_room(in_milliseconds(9000)).unwrap();
        }
        assert!(begun.elapsed() >= 10 * PAUSE);
        let late = control.wait_for_room(begun).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        control.stop.pull(engine::Reason::Cancelled);
        let ended = control.wait_for_room(in_milliseconds(9000)).unwrap_err();
        assert_eq!(why(&ended), "interrupted here");
    }

    #[test]
    fn ends_of_connections_have_words() {
        let (control, far) = pair();
        let words = |until| why(&control.read::<1>(until).unwrap_err());
        assert_eq!(words(in_milliseconds(1)), "no word in time");
        drop(far);
        assert_eq!(words(in_milliseconds(9000)), "the connection was closed");
        let gone = io::Error::from_raw_os_error(Error::TIMEDOUT.raw_os_error());
        assert_eq!(why(&gone), "Connection timed out");
    }
}
