//! Requests and responses on one connection.

use std::collections::VecDeque;
use std::time::Instant;

use stats::Histogram;
use sys::call::{self, Error};

use crate::cell::Cell;
use crate::channel::{Channel, Timer};
use crate::ring::Ring;
use crate::run::{Budget, End};
use crate::stop::Stop;

/// One request, one response, over and over.
pub(crate) fn ask<C: Channel>(
    channel: &C,
    requests: &mut Ring,
    responses: &mut Ring,
    mut budget: Budget,
    stop: &Stop,
    cell: &Cell,
    timer: &mut impl Timer,
) -> End {
    cell.expect(requests.size(), responses.size(), true);
    timer.start();
    while !stop.is_set() {
        let request = requests.advance();
        let sent = channel.send(request);
        let mut missed = None;
        if sent != Ok(request.len()) {
            missed = send_rest(channel, request, sent, stop, cell).err();
        }
        if missed.is_none() {
            let response = responses.advance();
            let received = channel.receive(response);
            if received != Ok(response.len()) {
                missed = receive_rest(channel, response, received, stop, cell).err();
                if missed.is_some() {
                    cell.sent(request.len());
                }
            }
        }
        match missed {
            None => {
                timer.lap();
                cell.pass();
                if budget.spend(1) {
                    return End::Count;
                }
            }
            // Nobody waits any more for what did not come in time: the next request is tried.
            Some(End::TimedOut) => timer.start(),
            Some(end) => return end,
        }
    }
    End::Stopped
}

/// The other end of [`ask`]. The peer's end of stream, or an empty datagram, ends it.
pub(crate) fn answer<C: Channel>(
    channel: &C,
    requests: &mut Ring,
    responses: &mut Ring,
    mut budget: Budget,
    stop: &Stop,
    cell: &Cell,
) -> End {
    cell.expect(responses.size(), requests.size(), true);
    while !stop.is_set() {
        if let Err(end) = receive_all(channel, requests.advance(), stop, cell) {
            return end;
        }
        if let Err(end) = send_all(channel, responses.advance(), stop, cell) {
            cell.received(requests.size() as usize);
            return end;
        }
        cell.pass();
        if budget.spend(1) {
            return End::Count;
        }
    }
    End::Stopped
}

/// As [`ask`], with `window` requests on their way at any time.
///
/// A request is sent without waiting: a peer that is itself waiting for room to answer in would
/// otherwise wait for us for ever (both sides full, `-b 6 -r 32K,32K`). No more requests are sent
/// than the budget has transactions, or the peer, having answered the last, would reset the
/// connection over the surplus. Each time runs from its own request's send to its response.
#[allow(
    clippy::too_many_arguments,
    reason = "they are the loop's whole state, settled before it starts"
)]
pub(crate) fn ask_ahead<C: Channel>(
    channel: &C,
    requests: &mut Ring,
    responses: &mut Ring,
    window: usize,
    mut budget: Budget,
    stop: &Stop,
    cell: &Cell,
    mut times: Option<&mut Histogram>,
) -> End {
    // Calls are counted singly: which request a send belonged to is no longer clear at the end.
    cell.expect(0, 0, true);
    let mut may_send = budget;
    let mut sent_at = VecDeque::with_capacity(if times.is_some() { window } else { 0 });
    let mut in_flight = 0;
    // What is left of the request being sent, and of the response being received.
    let mut request: &[u8] = &[];
    let mut missing = responses.size() as usize;
    let mut all_asked = false;
    while !stop.is_set() {
        let mut blocked = false;
        while !blocked && (!request.is_empty() || (in_flight < window && !all_asked)) {
            if request.is_empty() {
                request = requests.advance();
                in_flight += 1;
                all_asked = may_send.spend(1);
                if times.is_some() {
                    sent_at.push_back(Instant::now());
                }
            }
            match channel.try_send(request) {
                Ok(sent) => {
                    cell.sent(sent);
                    request = &request[sent..];
                }
                Err(Error::AGAIN) => blocked = true,
                Err(Error::INTR) if stop.is_set() => return End::Stopped,
                Err(Error::INTR) => {}
                Err(Error::NOBUFS) => {
                    cell.send_failed();
                    request = &[];
                    in_flight -= 1;
                    sent_at.pop_back();
                    break;
                }
                Err(error) => return End::from_call("send", error),
            }
        }
        if blocked && call::wait_either(channel.socket()).is_err() {
            continue;
        }
        let buffer = responses.advance();
        let room = missing.min(buffer.len());
        let received = if blocked {
            call::receive_without_waiting(channel.socket(), &mut buffer[..room])
        } else {
            channel.receive(&mut buffer[..room])
        };
        match received {
            Ok(0) => return End::PeerClosed,
            Ok(received) => {
                cell.received(received);
                missing -= received;
            }
            Err(Error::AGAIN) if blocked => continue,
            // A receive timeout: what is on its way is given up, and as much is asked again.
            Err(Error::AGAIN) => {
                in_flight = 0;
                sent_at.clear();
                missing = responses.size() as usize;
                continue;
            }
            Err(Error::INTR) => continue,
            Err(error) => return End::from_call("receive", error),
        }
        if missing > 0 {
            continue;
        }
        missing = responses.size() as usize;
        // A response to a request that was given up comes late; it answers nothing any more.
        in_flight = in_flight.saturating_sub(1);
        if let (Some(times), Some(sent_at)) = (times.as_deref_mut(), sent_at.pop_front()) {
            times.record(sent_at.elapsed().as_nanos() as u64);
        }
        cell.pass();
        if budget.spend(1) {
            return End::Count;
        }
    }
    End::Stopped
}

/// Sends a whole buffer, which the pass counts as one call; a stop ends it in the middle.
#[inline]
pub(crate) fn send_all<C: Channel>(
    channel: &C,
    data: &[u8],
    stop: &Stop,
    cell: &Cell,
) -> Result<(), End> {
    match channel.send(data) {
        Ok(sent) if sent == data.len() => Ok(()),
        other => send_rest(channel, data, other, stop, cell),
    }
}

/// What seldom happens: a call that did not take all, an interruption, an error.
#[cold]
fn send_rest<C: Channel>(
    channel: &C,
    data: &[u8],
    mut last: Result<usize, Error>,
    stop: &Stop,
    cell: &Cell,
) -> Result<(), End> {
    let (mut sent, mut calls) = (0, 0);
    let end = loop {
        match last {
            Ok(more) => {
                sent += more;
                calls += 1;
            }
            Err(Error::INTR) => {}
            Err(Error::NOBUFS) => {
                cell.send_failed();
                break End::TimedOut;
            }
            Err(error) => break End::from_call("send", error),
        }
        if sent == data.len() {
            cell.more_send_calls(calls - 1);
            return Ok(());
        }
        if stop.is_set() {
            break End::Stopped;
        }
        last = channel.send(&data[sent..]);
    };
    // Not a pass, but it left all the same.
    cell.count_sent(sent, calls);
    Err(end)
}

/// Receives a whole buffer, which the pass counts as one call; a stop ends it in the middle.
#[inline]
pub(crate) fn receive_all<C: Channel>(
    channel: &C,
    buffer: &mut [u8],
    stop: &Stop,
    cell: &Cell,
) -> Result<(), End> {
    match channel.receive(buffer) {
        Ok(received) if received == buffer.len() => Ok(()),
        other => receive_rest(channel, buffer, other, stop, cell),
    }
}

#[cold]
fn receive_rest<C: Channel>(
    channel: &C,
    buffer: &mut [u8],
    mut last: Result<usize, Error>,
    stop: &Stop,
    cell: &Cell,
) -> Result<(), End> {
    let (mut received, mut calls) = (0, 0);
    let end = loop {
        match last {
            Ok(0) => break End::PeerClosed,
            Ok(more) => {
                received += more;
                calls += 1;
            }
            Err(Error::INTR) => {}
            Err(error) => break End::from_call("receive", error),
        }
        if received == buffer.len() {
            cell.more_receive_calls(calls - 1);
            return Ok(());
        }
        if stop.is_set() {
            break End::Stopped;
        }
        last = channel.receive(&mut buffer[received..]);
    };
    cell.count_received(received, calls);
    Err(end)
}
