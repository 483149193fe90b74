//! The control connection, as both ends use it: whole records, each within its time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use engine::Stop;
use sys::call::{self, Error};
use sys::{Address, Socket};

/// As much as one call sends: SCTP sends a message whole or not at all, and a workorder of thousands of
/// flowops has no room in its buffer.
const PIECE: usize = 16 * 1024;

/// How long a socket that takes nothing is left alone though poll(2) has room in it: for SCTP, room is any,
/// and a message may need more.
const REST: Duration = Duration::from_millis(1);

/// A control connection. Whatever waits on it ends with its stop.
#[derive(Debug)]
pub(crate) struct Control {
    socket: Socket,
    peer: Address,
    stop: Stop,
}

impl Control {
    /// A connection that has been opened, or accepted.
    pub(crate) fn new(socket: Socket, stop: Stop) -> io::Result<Self> {
        let peer = Address::of_peer(&socket)?;
        if matches!(peer, Address::Inet(_)) {
            // Each is refused by the other's sockets; SCTP has heartbeats of its own.
            let _ = socket.set_tcp_nodelay(true);
            let _ = sys::option::set_vanishing_peer_notice(socket.as_fd());
            let _ = sys::option::set_sctp_no_delay(socket.as_fd());
        }
        Ok(Self { socket, peer, stop })
    }

    /// Where the other end is.
    pub(crate) fn peer(&self) -> &Address {
        &self.peer
    }

    /// Where this end is, as the other one reaches it.
    pub(crate) fn here(&self) -> Option<Address> {
        Address::of(&self.socket).ok()
    }

    /// Its address as uperf writes it: an IPv4 address in the form of IPv6, as of a socket for both.
    pub(crate) fn peer_text(&self) -> String {
        match &self.peer {
            Address::Inet(address) => host_text(*address),
            Address::Vsock { context, .. } => context.to_string(),
            other => other.to_string(),
        }
    }

    /// From now on what waits on it ends with its time alone: there are last words to be heard.
    pub(crate) fn outlive_stop(&mut self) {
        self.stop = Stop::new();
    }

    /// The same connection, for last words after the stop.
    pub(crate) fn beyond_stop(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            peer: self.peer.clone(),
            stop: Stop::new(),
        })
    }

    /// Reads so many bytes; [`io::ErrorKind::UnexpectedEof`] if the other end has no more,
    /// [`io::ErrorKind::TimedOut`] if they have not come by then.
    pub(crate) fn read<const N: usize>(&self, until: Instant) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, until)?;
        Ok(bytes)
    }

    /// As [`Self::read`], into what is given.
    pub(crate) fn fill(&self, mut rest: &mut [u8], until: Instant) -> io::Result<()> {
        while !rest.is_empty() {
            if !self.is_readable(until)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match call::receive(self.socket.as_fd(), rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => rest = &mut rest[count..],
                Err(Error::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether there is something to read, or the other end is gone; waits for it until then.
    pub(crate) fn is_readable(&self, until: Instant) -> io::Result<bool> {
        let _attending = self.stop.attend();
        loop {
            if self.stop.is_set() {
                return Err(Error::CANCELED.into());
            }
            let left = until.saturating_duration_since(Instant::now());
            match call::wait_readable(self.socket.as_fd(), left) {
                Ok(ready) => return Ok(ready),
                Err(Error::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends all of it, in one call as long as there is room: a stock slave takes what one read gives
    /// it for a whole command.
    pub(crate) fn write(&self, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
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
                thread::sleep(REST);
                Ok(())
            }
            Err(Error::INTR) if !self.stop.is_set() => Ok(()),
            Ok(false) => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Why a connection is of no use any more, in words for whoever reads of its end.
pub(crate) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        io::ErrorKind::TimedOut if error.raw_os_error().is_none() => "no word in time".to_owned(),
        _ if Error::from_io_error(error) == Some(Error::CANCELED) => "interrupted here".to_owned(),
        _ => sys::describe(error),
    }
}

fn host_text(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_string(),
        IpAddr::V6(ip) => ip.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (Control, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Socket::from(listener.accept().unwrap().0);
        (Control::new(near, Stop::new()).unwrap(), far)
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
    }

    #[test]
    fn a_stop_ends_what_waits() {
        let (control, _far) = pair();
        let stop = control.stop.clone();
        let _deadline = engine::keeper().at(in_milliseconds(20), &stop);
        assert!(control.read::<1>(in_milliseconds(60_000)).is_err());
    }

    #[test]
    fn last_words_are_heard_after_the_stop() {
        let (mut control, mut far) = pair();
        control.stop.pull(engine::Reason::Cancelled);
        assert!(control.read::<1>(in_milliseconds(9000)).is_err());
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
        assert!(begun.elapsed() >= 10 * REST);
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

    #[test]
    fn addresses_are_those_of_a_socket_for_both_families() {
        assert_eq!(pair().0.peer_text(), "::ffff:127.0.0.1");
    }
}
