//! Non-blocking calls, with poll(2) if a call would block.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::call::{self, Error};

use super::method::Io;

/// A method whose calls never block. poll(2) waits instead, up to the socket's timeouts.
pub(super) struct Polled<C> {
    io: C,
    receive_timeout: Duration,
    send_timeout: Duration,
}

impl<C: Io> Polled<C> {
    /// Reads the socket's timeouts, which must already be set.
    pub(super) fn new(io: C) -> Self {
        let (receive_timeout, send_timeout) = sys::option::timeouts(io.socket());
        Self {
            io,
            receive_timeout,
            send_timeout,
        }
    }

    /// Repeats a call that would block. `wait` returns `false` at the timeout.
    #[inline]
    fn repeat_when_ready(
        &self,
        mut attempt: impl FnMut() -> Result<usize, Error>,
        wait: impl Fn() -> Result<bool, Error>,
    ) -> Result<usize, Error> {
        let mut was_ready = false;
        loop {
            match attempt() {
                Err(Error::AGAIN) => {}
                other => return other,
            }
            if was_ready {
                call::discard_errors(self.socket());
            }
            if !wait()? {
                return Err(Error::AGAIN);
            }
            was_ready = true;
        }
    }
}

impl<C: Io> Io for Polled<C> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.io.socket()
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        self.repeat_when_ready(
            || self.io.try_send(data),
            || call::wait_writable(self.socket(), self.send_timeout),
        )
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        self.io.try_send(data)
    }

    fn is_connected(&self) -> bool {
        self.io.is_connected()
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.repeat_when_ready(
            || self.io.try_receive(buffer),
            || call::wait_readable(self.socket(), self.receive_timeout),
        )
    }

    #[inline]
    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.io.try_receive(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use std::cell::Cell;

    use super::*;
    use crate::io::plain::Plain;

    /// A method whose first non-blocking calls fail with EAGAIN. Its blocking calls panic.
    struct Busy<'a> {
        socket: BorrowedFd<'a>,
        refusals: Cell<u32>,
    }

    impl Busy<'_> {
        fn take_refusal(&self) -> bool {
            let left = self.refusals.get();
            self.refusals.set(left.saturating_sub(1));
            left > 0
        }
    }

    impl Io for Busy<'_> {
        fn socket(&self) -> BorrowedFd<'_> {
            self.socket
        }

        fn send(&self, _: &[u8]) -> Result<usize, Error> {
            panic!("a blocking send was called");
        }

        fn receive(&self, _: &mut [u8]) -> Result<usize, Error> {
            panic!("a blocking receive was called");
        }

        fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
            if self.take_refusal() {
                return Err(Error::AGAIN);
            }
            Ok(data.len())
        }

        fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
            if self.take_refusal() {
                return Err(Error::AGAIN);
            }
            Ok(buffer.len())
        }
    }

    #[test]
    fn polled_calls_wait_only_in_poll() {
        let (near, far) = UnixDatagram::pair().unwrap();
        far.send(b"x").unwrap();
        let polled = Polled::new(Busy {
            socket: near.as_fd(),
            refusals: Cell::new(3),
        });
        assert_eq!(polled.send(b"xx"), Ok(2));
        polled.io.refusals.set(3);
        assert_eq!(polled.receive(&mut [0; 5]), Ok(5));
    }

    #[test]
    fn queued_errors_do_not_prevent_the_timeout() {
        let [socket, closed] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.connect(closed.local_addr().unwrap()).unwrap();
        drop(closed);
        sys::option::set_receive_errors(socket.as_fd(), false).unwrap();
        socket.send(b"x").unwrap();
        let timeout = Duration::from_millis(5);
        socket.set_read_timeout(Some(timeout)).unwrap();
        let polled = Polled::new(Plain(socket.as_fd()));
        let receive = || polled.receive(&mut [0; 1]);
        assert_eq!(
            [receive(), receive()],
            [Err(Error::CONNREFUSED), Err(Error::AGAIN)]
        );
    }

    #[test]
    fn polled_calls_keep_the_socket_timeouts() {
        let (near, _far) = UnixDatagram::pair().unwrap();
        let timeout = Some(Duration::from_millis(5));
        near.set_read_timeout(timeout).unwrap();
        near.set_write_timeout(timeout).unwrap();
        let polled = Polled::new(Plain(near.as_fd()));
        assert_eq!(polled.receive(&mut [0; 1]), Err(Error::AGAIN));
        let error = (0..1 << 16).find_map(|_| polled.send(b"x").err());
        assert_eq!(error, Some(Error::AGAIN));
    }
}
