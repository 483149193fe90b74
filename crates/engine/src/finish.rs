//! Ends a flow: signals the end to the peer, and waits for the peer's end.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::call::{self, Error};

use crate::io::FlowSockets;
use crate::stop::Stop;

/// Polling interval of states that the kernel has no event for.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Pauses between the end marks of a datagram flow, in milliseconds.
const END_MARK_PAUSES_MS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Maximum number of errors of earlier datagrams that the first end mark may return.
const MAX_ERRORS: u32 = 10;

/// How a flow signals its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishMethod {
    /// Ends the local stream and waits for the peer's end of stream. The peer has then read all
    /// data.
    HalfClose,
    /// Ends the local TCP stream and waits until the peer has acknowledged all of it. The wait
    /// fails if the peer ends its own stream first, because the peer then reads no more.
    Acknowledged,
    /// Waits for the peer's end of stream, and discards the data before it.
    AwaitClose,
    /// Sends empty datagrams with increasing pauses, until the peer's socket is closed or a quarter
    /// of a second has passed. Several are needed because a receiver with a full queue loses them.
    /// If the local queue is full, the method waits.
    EmptyDatagrams,
}

impl FinishMethod {
    /// Ends the flow and waits for the peer's end. Returns [`Error::CANCELED`] if `stop` is
    /// set first. A reset is an error, because the peer may not have read all data.
    pub fn run(self, flow: &FlowSockets<'_>, stop: &Stop) -> io::Result<()> {
        match (self, flow) {
            (Self::HalfClose, FlowSockets::Connected(socket)) => {
                match call::shutdown_write(*socket) {
                    Ok(()) => await_close(*socket, stop),
                    // LLC cannot close one direction, and its close overtakes queued data.
                    Err(Error::INVAL) => {
                        await_sent(*socket, stop)?;
                        call::shutdown(*socket)?;
                        await_close(*socket, stop)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            (Self::Acknowledged, FlowSockets::Connected(socket)) => {
                call::shutdown_write(*socket)?;
                await_acknowledged(*socket, stop)
            }
            (Self::AwaitClose, FlowSockets::Connected(socket)) => await_close(*socket, stop),
            (Self::EmptyDatagrams, flow) => Ok(send_end_marks(flow, stop)?),
            _ => Ok(()),
        }
    }
}

/// Sends all end marks. Fails if none was sent.
fn send_end_marks(flow: &FlowSockets<'_>, stop: &Stop) -> Result<(), Error> {
    // The first error may be that of an earlier datagram.
    let mut result = send_end_mark(flow, stop, MAX_ERRORS);
    for pause in END_MARK_PAUSES_MS {
        if stop.is_set() {
            break;
        }
        std::thread::sleep(Duration::from_millis(pause));
        match send_end_mark(flow, stop, 0) {
            Ok(()) => result = Ok(()),
            // The peer has closed its socket.
            Err(_) => break,
        }
    }
    result
}

fn send_end_mark(flow: &FlowSockets<'_>, stop: &Stop, max_errors: u32) -> Result<(), Error> {
    let mut errors = 0;
    loop {
        let sent = match flow {
            FlowSockets::Connected(socket) => call::send_without_waiting(*socket, &[]),
            FlowSockets::Addressed(socket, to) => call::send_to_without_waiting(*socket, &[], to),
            _ => return Err(Error::NOTSOCK),
        };
        match sent {
            Ok(_) => return Ok(()),
            // poll(2) does not help: without a connection, it does not report that a Unix peer's
            // queue is full.
            Err(Error::AGAIN) if !stop.is_set() => std::thread::sleep(POLL_INTERVAL),
            Err(_) if errors < max_errors && !stop.is_set() => errors += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Waits until no data is queued. The kernel has no event for this.
fn await_sent(socket: BorrowedFd<'_>, stop: &Stop) -> io::Result<()> {
    let _registration = stop.register_thread();
    while !stop.is_set() {
        match sys::option::send_memory_bytes(socket)? {
            0 => return Ok(()),
            _ => std::thread::sleep(POLL_INTERVAL),
        }
    }
    Err(Error::CANCELED.into())
}

/// Waits until all data is acknowledged. The kernel has no event for this.
fn await_acknowledged(socket: BorrowedFd<'_>, stop: &Stop) -> io::Result<()> {
    let mut discarded = [0; 4096];
    while !stop.is_set() {
        if sys::option::unacknowledged_bytes(socket)? == 0 {
            return Ok(());
        }
        match call::receive_without_waiting(socket, &mut discarded) {
            Err(Error::AGAIN) => std::thread::sleep(POLL_INTERVAL),
            Ok(1..) | Err(Error::INTR) => {}
            Ok(0) => return Err(Error::PIPE.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::CANCELED.into())
}

fn await_close(socket: BorrowedFd<'_>, stop: &Stop) -> io::Result<()> {
    let _registration = stop.register_thread();
    let mut discarded = [0; 16 * 1024];
    while !stop.is_set() {
        match call::receive(socket, &mut discarded) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Error::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::CANCELED.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;
    use std::time::Instant;

    use super::*;
    use crate::deadline_thread;

    #[test]
    fn a_stop_ends_the_wait_for_a_full_queue() {
        let (near, _far) = UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.send(b"x").is_ok() {}
        near.set_nonblocking(false).unwrap();
        let stop = Stop::new();
        let _deadline = deadline_thread().set_at(Instant::now() + Duration::from_millis(20), &stop);
        assert!(
            FinishMethod::EmptyDatagrams
                .run(&FlowSockets::Connected(near.as_fd()), &stop)
                .is_err()
        );
    }

    /// Returns both ends of a connection whose buffers are full of data from the near end.
    fn full_connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        while call::send_without_waiting(near.as_fd(), &[0; 1 << 12]).is_ok() {}
        (near, far)
    }

    #[test]
    fn acknowledged_waits_until_the_peer_has_read_all() {
        let (near, mut far) = full_connection();
        let stop = Stop::new();
        let flow = FlowSockets::Connected(near.as_fd());
        let _deadline = deadline_thread().set_at(Instant::now() + Duration::from_millis(20), &stop);
        let result = FinishMethod::Acknowledged.run(&flow, &stop);
        assert!(
            result.is_err(),
            "the wait ended before the peer read the data"
        );
        let reader = std::thread::spawn(move || {
            far.read_to_end(&mut Vec::new()).unwrap();
            far
        });
        FinishMethod::Acknowledged.run(&flow, &Stop::new()).unwrap();
        assert_eq!(sys::option::unacknowledged_bytes(near.as_fd()).unwrap(), 0);
        drop(reader.join().unwrap());
    }

    #[test]
    fn the_wait_fails_if_the_peer_ends_its_stream_first() {
        let (near, far) = full_connection();
        far.shutdown(Shutdown::Write).unwrap();
        let stop = Stop::new();
        // The deadline turns an endless wait into a failure.
        let _deadline = deadline_thread().set_at(Instant::now() + Duration::from_secs(20), &stop);
        let result = FinishMethod::Acknowledged.run(&FlowSockets::Connected(near.as_fd()), &stop);
        assert!(result.is_err());
        assert!(!stop.is_set());
    }
}
