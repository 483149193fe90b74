//! One direction, without pause or at a pace.

use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;

use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::Moved;

use crate::counters::{Counter, CounterWriter};
use crate::end::{Bounds, LoopEnd};
use crate::hooks::Hooks;
use crate::stop::Stop;
use crate::timer::Timer;

/// Sends messages of `size` bytes, one or several a `call`, until the budget is spent or the stop is pulled.
pub(crate) fn send<H: Hooks>(
    mut call: impl FnMut(&mut H) -> Result<Moved, Error>,
    size: u32,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut H,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    counters.expect(size, 0, false);
    timer.start();
    while !stop.is_set() {
        if hooks.waited(stop) {
            timer.start();
            continue;
        }
        match call(hooks) {
            // A file that has become shorter than it was.
            Ok(Moved { bytes: 0, .. }) => return LoopEnd::from_call("send", Error::NODATA),
            Ok(Moved { bytes, messages }) => {
                timer.lap();
                hooks.took_turns(messages);
                if bytes == size as usize * messages {
                    counters.add(Counter::Passes, messages as u64);
                } else {
                    counters.sent(bytes, messages as u64);
                }
                if budget.spend(bytes as u64) {
                    return LoopEnd::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            // The interface's queue is full; the datagram was dropped here, the test goes on.
            Err(Error::NOBUFS) => {
                hooks.took_turn();
                counters.add(Counter::FailedSends, 1);
            }
            Err(error) => return LoopEnd::from_call("send", error),
        }
    }
    LoopEnd::Stopped
}

/// Receives until the peer ends it, the budget is spent or the stop is pulled.
pub(crate) fn receive<H: Hooks>(
    mut call: impl FnMut(&mut H) -> Result<Moved, Error>,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut H,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    timer.start();
    while !stop.is_set() {
        if hooks.waited(stop) {
            timer.start();
            continue;
        }
        match call(hooks) {
            Ok(Moved { bytes: 0, .. }) => return LoopEnd::PeerClosed,
            Ok(Moved { bytes, messages }) => {
                timer.lap();
                hooks.took_turns(messages);
                counters.received(bytes, messages as u64);
                if budget.spend(bytes as u64) {
                    return LoopEnd::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            Err(error) => return LoopEnd::from_call("receive", error),
        }
    }
    LoopEnd::Stopped
}

/// Receives once, and writes it to a file.
pub(crate) fn receive_into(
    socket: BorrowedFd<'_>,
    ring: &mut BufferRing,
    file: &mut File,
) -> Result<Moved, Error> {
    let buffer = ring.advance();
    let received = call::receive(socket, buffer)?;
    let written = file.write_all(&buffer[..received]);
    written.map_err(|error| Error::from_io_error(&error).unwrap_or(Error::IO))?;
    Ok(Moved::one(received))
}

/// Receives what comes after the test's time, to the peer's end mark or an error; counted apart.
pub(crate) fn receive_late(
    socket: BorrowedFd<'_>,
    ring: &mut BufferRing,
    stop: &Stop,
    counters: CounterWriter<'_>,
) {
    while !stop.is_set() {
        match call::receive(socket, ring.advance()) {
            Ok(0) => return,
            Ok(received) => counters.received_late(received, 1),
            Err(Error::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::Counters;

    #[test]
    fn what_comes_late_is_counted_apart_until_the_end_mark() {
        let (near, far) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        for data in [&b"1234"[..], b"1234", b"", b"1234"] {
            far.send_to(data, near.local_addr().unwrap()).unwrap();
        }
        let mut ring = BufferRing::new(1, 4, 8, 0).unwrap();
        let (stop, counters) = (Stop::new(), Counters::default());
        receive_late(near.as_fd(), &mut ring, &stop, counters.writer());
        assert_eq!(counters.counts().received.0, 0);
        assert_eq!(counters.counts().receive_calls_late, 2);
    }
}
