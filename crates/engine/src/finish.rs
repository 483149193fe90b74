//! The end of a flow: marks this end for the peer, and waits for the peer's.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::call::{self, Error};

use crate::io::Flow;
use crate::stop::Stop;

/// How often the kernel is asked for what it has no event for.
const LOOK: Duration = Duration::from_millis(1);

/// The pauses between the marks of a datagram flow's end.
const PAUSES_MS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Errors of earlier datagrams that the first mark may meet.
const MOST_ERRORS: u32 = 10;

/// How a flow says that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// End this end's stream and wait for the peer's end of stream: the peer has then read all.
    HalfClose,
    /// End this end's TCP stream and wait until all of it is acknowledged. A peer that ends its own
    /// stream before that reads no more, and is not waited for.
    Acknowledged,
    /// Wait for the peer's end of stream and throw away what comes before it.
    AwaitClose,
    /// Send empty datagrams, with longer and longer pauses, until the peer's socket is closed or a quarter of a
    /// second has passed: a receiver whose queue is full loses them. A full queue of this end is waited for.
    EmptyDatagrams,
}

impl Finish {
    /// Ends the flow for the peer, and waits for the peer's end until `stop`, which is [`Error::CANCELED`]. A reset is no
    /// end: the peer may not have read all.
    pub fn say(self, flow: &Flow<'_>, stop: &Stop) -> io::Result<()> {
        match (self, flow) {
            (Self::HalfClose, Flow::Connected(socket)) => {
                match call::shutdown_write(*socket) {
                    Ok(()) => await_end(*socket, stop),
                    // The logical link control knows no half, and its end overtakes what is queued.
                    Err(Error::INVAL) => {
                        await_sent(*socket, stop)?;
                        call::shutdown(*socket)?;
                        await_end(*socket, stop)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            (Self::Acknowledged, Flow::Connected(socket)) => {
                call::shutdown_write(*socket)?;
                await_acknowledged(*socket, stop)
            }
            (Self::AwaitClose, Flow::Connected(socket)) => await_end(*socket, stop),
            (Self::EmptyDatagrams, flow) => Ok(send_marks(flow, stop)?),
            _ => Ok(()),
        }
    }
}

/// Sends one empty datagram after the other. Fails if none was sent.
fn send_marks(flow: &Flow<'_>, stop: &Stop) -> Result<(), Error> {
    // What is refused at first may be data.
    let mut any = send_mark(flow, stop, MOST_ERRORS);
    for pause in PAUSES_MS {
        if stop.is_set() {
            break;
        }
        std::thread::sleep(Duration::from_millis(pause));
        match send_mark(flow, stop, 0) {
            Ok(()) => any = Ok(()),
            // The peer has closed its socket.
            Err(_) => break,
        }
    }
    any
}

fn send_mark(flow: &Flow<'_>, stop: &Stop, most_errors: u32) -> Result<(), Error> {
    let mut errors = 0;
    loop {
        let sent = match flow {
            Flow::Connected(socket) => call::send_without_waiting(*socket, &[]),
            Flow::Addressed(socket, to) => call::send_to_without_waiting(*socket, &[], to),
            _ => return Err(Error::NOTSOCK),
        };
        match sent {
            Ok(_) => return Ok(()),
            // Not poll(2): without a connection it does not see that a Unix peer's queue is full.
            Err(Error::AGAIN) if !stop.is_set() => std::thread::sleep(LOOK),
            Err(_) if errors < most_errors && !stop.is_set() => errors += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Waits until nothing is queued any more or waits for an acknowledgement. The kernel has no event for
/// it.
fn await_sent(socket: BorrowedFd<'_>, stop: &Stop) -> io::Result<()> {
    let _attending = stop.attend();
    while !stop.is_set() {
        match sys::option::queued_to_send(socket)? {
            0 => return Ok(()),
            _ => std::thread::sleep(LOOK),
        }
    }
    Err(Error::CANCELED.into())
}

/// Waits until nothing is queued any more or waits for an acknowledgement. The kernel has no event for
/// it.
fn await_acknowledged(socket: BorrowedFd<'_>, stop: &Stop) -> io::Result<()> {
    let mut scrap = [0; 4096];
    while !stop.is_set() {
        if sys::option::unacknowledged(socket)? == 0 {
            return Ok(());
        }
        match call::receive_without_waiting(socket, &mut scrap) {
            Err(Error::AGAIN) => std::thread::sleep(LOOK),
            Ok(1..) | Err(Error::INTR) => {}
            Ok(0) => return Err(Error::PIPE.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::CANCELED.into())
}

fn await_end(socket: BorrowedFd<'_>, stop: &Stop) -> io::Result<()> {
    let _attending = stop.attend();
    let mut scrap = [0; 16 * 1024];
    while !stop.is_set() {
        match call::receive(socket, &mut scrap) {
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
    fn a_peer_that_does_not_read_holds_the_end_mark_up_only_until_the_stop() {
        let (near, _far) = UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.send(b"x").is_ok() {}
        near.set_nonblocking(false).unwrap();
        let stop = Stop::new();
        let _soon = deadline_thread().at(Instant::now() + Duration::from_millis(20), &stop);
        assert!(
            Finish::EmptyDatagrams
                .say(&Flow::Connected(near.as_fd()), &stop)
                .is_err()
        );
    }

    /// Two ends of a connection; the near one has sent more than has room on its way.
    fn full() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        while call::send_without_waiting(near.as_fd(), &[0; 1 << 12]).is_ok() {}
        (near, far)
    }

    #[test]
    fn all_is_acknowledged_when_the_peer_has_taken_it() {
        let (near, mut far) = full();
        let stop = Stop::new();
        let flow = Flow::Connected(near.as_fd());
        let _soon = deadline_thread().at(Instant::now() + Duration::from_millis(20), &stop);
        let ended = Finish::Acknowledged.say(&flow, &stop);
        assert!(ended.is_err(), "nobody reads");
        let reader = std::thread::spawn(move || {
            far.read_to_end(&mut Vec::new()).unwrap();
            far
        });
        Finish::Acknowledged.say(&flow, &Stop::new()).unwrap();
        assert_eq!(sys::option::unacknowledged(near.as_fd()).unwrap(), 0);
        drop(reader.join().unwrap());
    }

    #[test]
    fn a_peer_that_has_ended_is_not_awaited() {
        let (near, far) = full();
        far.shutdown(Shutdown::Write).unwrap();
        let stop = Stop::new();
        // What would wait for ever shall fail.
        let _at_last = deadline_thread().at(Instant::now() + Duration::from_secs(20), &stop);
        let ended = Finish::Acknowledged.say(&Flow::Connected(near.as_fd()), &stop);
        assert!(ended.is_err());
        assert!(!stop.is_set());
    }
}
