//! One direction without pause.

use sys::call::Error;

use crate::cell::Cell;
use crate::channel::{Sink, Source, Timer};
use crate::run::{Budget, End};
use crate::stop::Stop;

/// Sends until the budget is spent or somebody stops it.
pub(crate) fn send(
    source: &mut impl Source,
    mut budget: Budget,
    stop: &Stop,
    cell: &Cell,
    timer: &mut impl Timer,
) -> End {
    let whole = source.size() as usize;
    cell.expect(source.size(), 0, false);
    timer.start();
    while !stop.is_set() {
        match source.send() {
            Ok(sent) => {
                timer.lap();
                if sent == whole {
                    cell.pass();
                } else {
                    cell.sent(sent);
                }
                if budget.spend(sent as u64) {
                    return End::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            // The interface's queue is full; the datagram was dropped here, the test goes on.
            Err(Error::NOBUFS) => cell.send_failed(),
            Err(error) => return End::from_call("send", error),
        }
    }
    End::Stopped
}

/// Receives until the peer ends it, the budget is spent or somebody stops it.
pub(crate) fn receive(
    sink: &mut impl Sink,
    mut budget: Budget,
    stop: &Stop,
    cell: &Cell,
    timer: &mut impl Timer,
) -> End {
    timer.start();
    while !stop.is_set() {
        match sink.receive() {
            Ok(0) => return End::PeerClosed,
            Ok(received) => {
                timer.lap();
                cell.received(received);
                if budget.spend(received as u64) {
                    return End::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            Err(error) => return End::from_call("receive", error),
        }
    }
    End::Stopped
}

/// Receives what comes after the test's time, to the peer's end mark; counted apart.
pub(crate) fn receive_late(sink: &mut impl Sink, stop: &Stop, cell: &Cell) -> End {
    while !stop.is_set() {
        match sink.receive() {
            Ok(0) => return End::PeerClosed,
            Ok(received) => cell.received_late(received),
            Err(Error::INTR) => {}
            Err(error) => return End::from_call("receive", error),
        }
    }
    End::Stopped
}
