//! Transfers in one direction, without pauses or paced.

use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;

use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::MessageTotals;

use crate::counters::{Counter, CounterWriter, PassKind};
use crate::end::{Bounds, Budget, LoopEnd};
use crate::hooks::Hooks;
use crate::shared_limit::SharedLimit;
use crate::stop::Stop;
use crate::timer::Timer;

/// Sends messages of `size` bytes until the budget or the limit that it shares is spent, or until
/// the stop is set. One `call` sends one or several messages, at most those of a budget.
pub(crate) fn send<H: Hooks>(
    mut call: impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error>,
    size: u32,
    bounds: Bounds<'_>,
    shared_limit: Option<&SharedLimit>,
    timer: &mut impl Timer,
    hooks: &mut H,
) -> LoopEnd {
    bounds.counters.set_pass_sizes(size, 0, PassKind::OneWay);
    let mut left = bounds.work_left;
    while let Some(work_left) = left.take_share(shared_limit) {
        let bounds = Bounds {
            work_left,
            ..bounds
        };
        match send_share(&mut call, size, bounds, timer, hooks) {
            LoopEnd::Count => {}
            end => return end,
        }
    }
    LoopEnd::Count
}

/// Sends until the budget is spent or the stop is set.
#[inline]
fn send_share<H: Hooks>(
    call: &mut impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error>,
    size: u32,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut H,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    timer.start();
    while !stop.is_set() {
        if hooks.wait_if_early(stop) {
            timer.start();
            continue;
        }
        match call(hooks, budget) {
            // The sent file has become shorter.
            Ok(MessageTotals { bytes: 0, .. }) => return LoopEnd::from_call("send", Error::NODATA),
            Ok(MessageTotals { bytes, messages }) => {
                timer.lap();
                hooks.record_paced_passes(messages);
                if bytes == size as usize * messages {
                    counters.add(Counter::Passes, messages as u64);
                } else {
                    counters.count_sent(bytes, messages as u64);
                }
                if budget.spend(bytes as u64) {
                    return LoopEnd::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            // The interface's queue is full; this host dropped the datagram. The test continues.
            Err(Error::NOBUFS) => {
                hooks.record_paced_pass();
                counters.add(Counter::FailedSends, 1);
            }
            Err(error) => return LoopEnd::from_call("send", error),
        }
    }
    LoopEnd::Stopped
}

/// Receives until the peer ends the data, the budget is spent or the stop is set. One `call`
/// receives one or several messages, at most those of a budget.
pub(crate) fn receive<H: Hooks>(
    mut call: impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error>,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut H,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    timer.start();
    while !stop.is_set() {
        if hooks.wait_if_early(stop) {
            timer.start();
            continue;
        }
        match call(hooks, budget) {
            Ok(MessageTotals { bytes: 0, .. }) => return LoopEnd::PeerClosed,
            Ok(MessageTotals { bytes, messages }) => {
                timer.lap();
                hooks.record_paced_passes(messages);
                counters.count_received(bytes, messages as u64);
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

/// Receives once and writes the data to a file.
pub(crate) fn receive_to_file(
    socket: BorrowedFd<'_>,
    ring: &mut BufferRing,
    file: &mut File,
) -> Result<MessageTotals, Error> {
    let buffer = ring.advance();
    let received = call::receive(socket, buffer)?;
    let written = file.write_all(&buffer[..received]);
    written.map_err(|error| Error::from_io_error(&error).unwrap_or(Error::IO))?;
    Ok(MessageTotals::single(received))
}

/// Receives data after the end of the test, until the peer's end mark or an error. The data is
/// counted as late.
pub(crate) fn receive_late(
    socket: BorrowedFd<'_>,
    ring: &mut BufferRing,
    stop: &Stop,
    counters: CounterWriter<'_>,
) {
    while !stop.is_set() {
        match call::receive(socket, ring.advance()) {
            Ok(0) => return,
            Ok(received) => counters.count_received_late(received, 1),
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
    fn late_data_is_counted_separately_until_the_end_mark() {
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
