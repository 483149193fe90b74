//! Requests and responses on one connection, with one request in flight.

use super::exchange::{Exchange, continue_receive, continue_send, receive_all, send_all};
use crate::counters::PassKind;
use crate::end::{Bounds, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Io;
use crate::timer::Timer;

/// Repeatedly sends a request and receives its response.
pub(crate) fn run_requester<I: Io>(
    io: &I,
    exchange: &mut Exchange<'_>,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    let (requests, responses) = (&mut *exchange.requests, &mut *exchange.responses);
    counters.set_pass_sizes(requests.size(), responses.size(), PassKind::Transaction);
    timer.start();
    while !stop.is_set() {
        if hooks.wait_if_early(stop) {
            timer.start();
            continue;
        }
        let request = requests.advance();
        hooks.before_send(request);
        let sent = io.send(request);
        let mut failure = None;
        if sent != Ok(request.len()) {
            failure = continue_send(io, request, sent, stop, counters).err();
        }
        if failure.is_none() {
            let response = responses.advance();
            let received = io.receive(response);
            if received != Ok(response.len()) {
                failure = continue_receive(io, response, received, stop, counters).err();
                if failure.is_some() {
                    counters.count_sent(request.len(), 1);
                }
            }
            if failure.is_none() {
                hooks.after_receive(response);
            }
        }
        hooks.record_paced_pass();
        match failure {
            None => {
                timer.lap();
                counters.count_pass();
                if budget.spend(1) {
                    return LoopEnd::Count;
                }
            }
            // The request or response was lost; the next request is sent.
            Some(LoopEnd::TimedOut) if exchange.can_retry => timer.start(),
            Some(LoopEnd::Dropped) => timer.start(),
            Some(end) => return end,
        }
    }
    LoopEnd::Stopped
}

/// Repeatedly receives a request and sends its response: the peer of [`run_requester`]. It ends at
/// the end of the stream, or at an empty datagram.
pub(crate) fn run_responder<I: Io>(
    io: &I,
    exchange: &mut Exchange<'_>,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    let (requests, responses) = (&mut *exchange.requests, &mut *exchange.responses);
    counters.set_pass_sizes(responses.size(), requests.size(), PassKind::Transaction);
    while !stop.is_set() {
        if hooks.wait_if_early(stop) {
            continue;
        }
        let request = requests.advance();
        if let Err(end) = receive_all(io, request, stop, counters) {
            return end;
        }
        hooks.after_receive(request);
        let response = responses.advance();
        hooks.before_send(response);
        hooks.record_paced_pass();
        match send_all(io, response, stop, counters) {
            Ok(()) => {}
            Err(end) => {
                counters.count_received(requests.size() as usize, 1);
                if end == LoopEnd::Dropped {
                    continue;
                }
                return end;
            }
        }
        counters.count_pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}
