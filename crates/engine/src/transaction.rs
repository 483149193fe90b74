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
    while !stop.is_set() {
        timer.start();
        match send_all(channel, requests.advance(), stop, cell) {
            Ok(()) => {}
            // Nobody waits for a request that did not leave: the next one is tried.
            Err(End::TimedOut) => continue,
            Err(end) => return end,
        }
        match receive_all(channel, responses.advance(), stop, cell) {
            Ok(()) => {}
            Err(End::TimedOut) => continue,
            Err(end) => return end,
        }
        timer.stop();
        cell.transaction();
        if budget.spend(1) {
            return End::Count;
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
    while !stop.is_set() {
        let exchange = receive_all(channel, requests.advance(), stop, cell)
            .and_then(|()| send_all(channel, responses.advance(), stop, cell));
        if let Err(end) = exchange {
            return end;
        }
        cell.transaction();
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
        cell.transaction();
        if budget.spend(1) {
            return End::Count;
        }
    }
    End::Stopped
}

/// Sends a whole buffer; a stop ends it in the middle.
#[inline]
pub(crate) fn send_all<C: Channel>(
    channel: &C,
    mut data: &[u8],
    stop: &Stop,
    cell: &Cell,
) -> Result<(), End> {
    loop {
        match channel.send(data) {
            Ok(sent) => {
                cell.sent(sent);
                if sent == data.len() {
                    return Ok(());
                }
                data = &data[sent..];
            }
            Err(Error::INTR) => {}
            Err(Error::NOBUFS) => {
                cell.send_failed();
                return Err(End::TimedOut);
            }
            Err(error) => return Err(End::from_call("send", error)),
        }
        if stop.is_set() {
            return Err(End::Stopped);
        }
    }
}

/// Receives a whole buffer; a stop ends it in the middle.
#[inline]
pub(crate) fn receive_all<C: Channel>(
    channel: &C,
    mut buffer: &mut [u8],
    stop: &Stop,
    cell: &Cell,
) -> Result<(), End> {
    loop {
        match channel.receive(buffer) {
            Ok(0) => return Err(End::PeerClosed),
            Ok(received) => {
                cell.received(received);
                if received == buffer.len() {
                    return Ok(());
                }
                buffer = &mut buffer[received..];
            }
            Err(Error::INTR) => {}
            // SO_RCVTIMEO: tcp(7), socket(7).
            Err(Error::AGAIN) => return Err(End::TimedOut),
            Err(error) => return Err(End::from_call("receive", error)),
        }
        if stop.is_set() {
            return Err(End::Stopped);
        }
    }
}
