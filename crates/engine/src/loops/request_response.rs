//! Requests and responses on one connection.

use super::exchange::{Exchange, receive_all, receive_rest, send_all, send_rest};
use crate::end::{Bounds, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Io;
use crate::timer::Timer;

/// One request, one response, over and over.
pub(crate) fn ask<I: Io>(
    io: &I,
    exchange: &mut Exchange<'_>,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    let (requests, responses) = (&mut *exchange.requests, &mut *exchange.responses);
    counters.expect(requests.size(), responses.size(), true);
    timer.start();
    while !stop.is_set() {
        if hooks.waited(stop) {
            timer.start();
            continue;
        }
        let request = requests.advance();
        hooks.before_send(request);
        let sent = io.send(request);
        let mut missed = None;
        if sent != Ok(request.len()) {
            missed = send_rest(io, request, sent, stop, counters).err();
        }
        if missed.is_none() {
            let response = responses.advance();
            let received = io.receive(response);
            if received != Ok(response.len()) {
                missed = receive_rest(io, response, received, stop, counters).err();
                if missed.is_some() {
                    counters.sent(request.len(), 1);
                }
            }
            if missed.is_none() {
                hooks.after_receive(response);
            }
        }
        hooks.took_turn();
        match missed {
            None => {
                timer.lap();
                counters.pass();
                if budget.spend(1) {
                    return LoopEnd::Count;
                }
            }
            // Nobody waits any more for what did not leave or come: the next request is tried.
            Some(LoopEnd::TimedOut) if exchange.asks_again => timer.start(),
            Some(LoopEnd::Dropped) => timer.start(),
            Some(end) => return end,
        }
    }
    LoopEnd::Stopped
}

/// The other end of [`ask`]. The peer's end of stream, or an empty datagram, ends it.
pub(crate) fn answer<I: Io>(
    io: &I,
    exchange: &mut Exchange<'_>,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    let (requests, responses) = (&mut *exchange.requests, &mut *exchange.responses);
    counters.expect(responses.size(), requests.size(), true);
    while !stop.is_set() {
        if hooks.waited(stop) {
            continue;
        }
        let request = requests.advance();
        if let Err(end) = receive_all(io, request, stop, counters) {
            return end;
        }
        hooks.after_receive(request);
        let response = responses.advance();
        hooks.before_send(response);
        hooks.took_turn();
        match send_all(io, response, stop, counters) {
            Ok(()) => {}
            Err(end) => {
                counters.received(requests.size() as usize, 1);
                if end == LoopEnd::Dropped {
                    continue;
                }
                return end;
            }
        }
        counters.pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}
