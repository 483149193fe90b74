//! One direction, without pause or at a pace.

use sys::call::Error;

use crate::cell::Cell;
use crate::channel::{Sink, Source, Timer};
use crate::end::{Bounds, LoopEnd};
use crate::hooks::Hooks;
use crate::stop::Stop;

/// Sends until the budget is spent or somebody stops it.
pub(crate) fn send(
    source: &mut impl Source,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        cell,
    } = bounds;
    let whole = source.size() as usize;
    cell.expect(source.size(), 0, false);
    timer.start();
    while !stop.is_set() {
        if hooks.waited(stop) {
            timer.start();
            continue;
        }
        match source.send(hooks) {
            // A file that has become shorter than it was.
            Ok(0) => return LoopEnd::from_call("send", Error::NODATA),
            Ok(sent) => {
                timer.lap();
                hooks.took_turn();
                if sent == whole {
                    cell.pass();
                } else {
                    cell.sent(sent);
                }
                if budget.spend(sent as u64) {
                    return LoopEnd::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            // The interface's queue is full; the datagram was dropped here, the test goes on.
            Err(Error::NOBUFS) => {
                hooks.took_turn();
                cell.send_failed();
            }
            Err(error) => return LoopEnd::from_call("send", error),
        }
    }
    LoopEnd::Stopped
}

/// Receives until the peer ends it, the budget is spent or somebody stops it.
pub(crate) fn receive(
    sink: &mut impl Sink,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        cell,
    } = bounds;
    timer.start();
    while !stop.is_set() {
        if hooks.waited(stop) {
            timer.start();
            continue;
        }
        match sink.receive(hooks) {
            Ok(0) => return LoopEnd::PeerClosed,
            Ok(received) => {
                timer.lap();
                hooks.took_turn();
                cell.received(received);
                if budget.spend(received as u64) {
                    return LoopEnd::Count;
                }
            }
            Err(Error::INTR) => timer.start(),
            Err(error) => return LoopEnd::from_call("receive", error),
        }
    }
    LoopEnd::Stopped
}

/// Receives what comes after the test's time, to the peer's end mark; counted apart.
pub(crate) fn receive_late(sink: &mut impl Sink, stop: &Stop, cell: &Cell) -> LoopEnd {
    while !stop.is_set() {
        match sink.receive(&mut ()) {
            Ok(0) => return LoopEnd::PeerClosed,
            Ok(received) => cell.received_late(received),
            Err(Error::INTR) => {}
            Err(error) => return LoopEnd::from_call("receive", error),
        }
    }
    LoopEnd::Stopped
}
