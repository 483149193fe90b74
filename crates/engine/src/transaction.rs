//! Requests and responses on one connection.

use std::collections::VecDeque;

use stats::Histogram;
use sys::call::{self, Error};
use sys::clock::monotonic_ns;

use crate::connection_test::Exchange;
use crate::counters::{Counter, CounterWriter};
use crate::end::{Bounds, Budget, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Io;
use crate::stop::Stop;
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

/// As [`ask`], with `window` requests on their way at any time.
///
/// A request is sent without waiting: a peer that is itself waiting for room to answer in would
/// otherwise wait for us for ever (both sides full, `-b 6 -r 32K,32K`). No more requests are sent
/// than the budget has transactions, or the peer, having answered the last, would reset the
/// connection over the surplus. Each time runs from its own request's send to its response.
///
/// At a pace it is the requests that are paced, and responses are taken as they come: so a time has no
/// wait in it, and fewer than `window` requests are on their way when the pace asks for no more.
pub(crate) fn ask_ahead<I: Io>(
    io: &I,
    exchange: &mut Exchange<'_>,
    window: usize,
    bounds: Bounds<'_>,
    mut times: Option<&mut Histogram>,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    // Calls are counted singly: which request a send belonged to is no longer clear at the end.
    counters.expect(0, 0, true);
    let (requests, responses) = (&mut *exchange.requests, &mut *exchange.responses);
    let mut ahead = Ahead::new(window, times.is_some());
    // Where both ways are awaited the first that would have been given up ends it.
    let (receive_patience, send_patience) = sys::option::timeouts(io.socket());
    let patience = receive_patience.min(send_patience);
    // What is left of the request being sent, and of the response being received.
    let mut request: &[u8] = &[];
    let mut missing = responses.size() as usize;
    while !stop.is_set() {
        let (mut blocked, mut early) = (false, false);
        while !blocked && (!request.is_empty() || ahead.may_ask(budget)) {
            if request.is_empty() {
                early = !hooks.is_my_turn();
                if early {
                    break;
                }
                let next = requests.advance();
                hooks.before_send(next);
                hooks.took_turn();
                request = next;
                ahead.asked();
            }
            match io.try_send(request) {
                Ok(sent) => {
                    counters.sent(sent, 1);
                    request = &request[sent..];
                }
                Err(Error::AGAIN) => blocked = true,
                Err(Error::INTR) if stop.is_set() => return LoopEnd::Stopped,
                Err(Error::INTR) => {}
                Err(Error::NOBUFS) => {
                    counters.add(Counter::FailedSends, 1);
                    request = &[];
                    ahead.take_back();
                    break;
                }
                Err(error) => return LoopEnd::from_call("send", error),
            }
        }
        if ahead.in_flight == 0 {
            // The queue took nothing, or it is too early; there is no answer to wait for.
            hooks.waited(stop);
            continue;
        }
        if early && !hooks.has_input_before_turn(io.socket()) {
            continue;
        }
        let mut in_time = true;
        if blocked {
            match call::wait_either(io.socket(), patience) {
                Ok(ready) => in_time = ready,
                Err(_) => continue,
            }
        }
        let buffer = responses.advance();
        let room = missing.min(buffer.len());
        let received = if blocked {
            io.try_receive(&mut buffer[..room])
        } else {
            io.receive(&mut buffer[..room])
        };
        match received {
            Ok(0) => return LoopEnd::PeerClosed,
            Ok(received) => {
                hooks.after_receive(&mut buffer[..received]);
                counters.received(received, 1);
                missing -= received;
            }
            Err(Error::AGAIN) if blocked && in_time => continue,
            // A receive timeout: what is on its way is given up, and as much is asked again.
            Err(Error::AGAIN) if !exchange.asks_again => return LoopEnd::TimedOut,
            Err(Error::AGAIN) => {
                ahead.give_up();
                // A datagram that found no room has not left.
                request = &[];
                missing = responses.size() as usize;
                continue;
            }
            Err(Error::INTR) => continue,
            Err(error) => return LoopEnd::from_call("receive", error),
        }
        if missing > 0 {
            continue;
        }
        missing = responses.size() as usize;
        if let (Some(times), Some(sent_at_ns)) = (times.as_deref_mut(), ahead.answered()) {
            times.record(monotonic_ns() - sent_at_ns);
        }
        counters.pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// The requests that are on their way.
struct Ahead {
    window: usize,
    in_flight: usize,
    /// When each left, oldest first, if that is wanted.
    sent_at_ns: Option<VecDeque<u64>>,
}

impl Ahead {
    fn new(window: usize, timed: bool) -> Self {
        Self {
            window,
            in_flight: 0,
            sent_at_ns: timed.then(|| VecDeque::with_capacity(window)),
        }
    }

    /// Whether there is room for another request, and its transaction is wanted.
    fn may_ask(&self, budget: Budget) -> bool {
        self.in_flight < self.window && budget.exceeds(self.in_flight)
    }

    fn asked(&mut self) {
        self.in_flight += 1;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.push_back(monotonic_ns());
        }
    }

    /// The last request did not leave.
    fn take_back(&mut self) {
        self.in_flight -= 1;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.pop_back();
        }
    }

    /// An answer came: when its request left. One to a request that was given up comes late, and
    /// answers nothing any more.
    fn answered(&mut self) -> Option<u64> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.sent_at_ns.as_mut()?.pop_front()
    }

    fn give_up(&mut self) {
        self.in_flight = 0;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.clear();
        }
    }
}

/// Sends a whole buffer, which the pass counts as one call; a stop ends it in the middle.
#[inline]
pub(crate) fn send_all<I: Io>(
    io: &I,
    data: &[u8],
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    match io.send(data) {
        Ok(sent) if sent == data.len() => Ok(()),
        other => send_rest(io, data, other, stop, counters),
    }
}

/// What seldom happens: a call that did not take all, an interruption, an error.
#[cold]
fn send_rest<I: Io>(
    io: &I,
    data: &[u8],
    mut last: Result<usize, Error>,
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    let (mut sent, mut calls) = (0, 0);
    let end = loop {
        match last {
            Ok(more) => {
                sent += more;
                calls += 1;
            }
            Err(Error::INTR) => {}
            Err(Error::NOBUFS) => {
                counters.add(Counter::FailedSends, 1);
                break LoopEnd::Dropped;
            }
            Err(error) => break LoopEnd::from_call("send", error),
        }
        if sent == data.len() {
            counters.add(Counter::SendCalls, calls - 1);
            return Ok(());
        }
        if stop.is_set() {
            break LoopEnd::Stopped;
        }
        last = io.send(&data[sent..]);
    };
    // Not a pass, but it left all the same.
    counters.sent(sent, calls);
    Err(end)
}

/// Receives a whole buffer, which the pass counts as one call; a stop ends it in the middle.
#[inline]
pub(crate) fn receive_all<I: Io>(
    io: &I,
    buffer: &mut [u8],
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    match io.receive(buffer) {
        Ok(received) if received == buffer.len() => Ok(()),
        other => receive_rest(io, buffer, other, stop, counters),
    }
}

#[cold]
fn receive_rest<I: Io>(
    io: &I,
    buffer: &mut [u8],
    mut last: Result<usize, Error>,
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    let (mut received, mut calls) = (0, 0);
    let end = loop {
        match last {
            Ok(0) => break LoopEnd::PeerClosed,
            Ok(more) => {
                received += more;
                calls += 1;
            }
            Err(Error::INTR) => {}
            Err(error) => break LoopEnd::from_call("receive", error),
        }
        if received == buffer.len() {
            counters.add(Counter::ReceiveCalls, calls - 1);
            return Ok(());
        }
        if stop.is_set() {
            break LoopEnd::Stopped;
        }
        last = io.receive(&mut buffer[received..]);
    };
    counters.received(received, calls);
    Err(end)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use model::{BufferPlan, Limit, SizeRule, WidthRule};

    use super::*;
    use crate::io::Plain;
    use crate::ring::{Contents, Ring};
    use crate::{Counters, Memory};

    #[test]
    fn requests_that_were_given_up_are_asked_again() {
        let (near, far) = pair();
        near.set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let (stop, counters) = (Stop::new(), Counters::default());
        let bounds = Bounds {
            budget: Budget::of(Limit::Transactions(10), 0),
            stop: &stop,
            counters: counters.writer(),
        };
        let peer = std::thread::spawn(move || {
            let mut buffer = [0; 16];
            for datagram in 0.. {
                let Ok(length) = far.recv(&mut buffer) else {
                    return;
                };
                // The first window is lost as a whole, and one datagram later on.
                if datagram > 4 && datagram != 8 {
                    far.send(&buffer[..length]).unwrap();
                }
            }
        });
        let (mut requests, mut responses) = (ring(), ring());
        let mut exchange = Exchange {
            requests: &mut requests,
            responses: &mut responses,
            asks_again: true,
        };
        let mut times = Histogram::default();
        let end = ask_ahead(
            &Plain(near.as_fd()),
            &mut exchange,
            5,
            bounds,
            Some(&mut times),
            &mut (),
        );
        assert_eq!(end, LoopEnd::Count);
        assert_eq!(counters.counts().transactions, 10);
        drop(near);
        peer.join().unwrap();
    }

    /// Whoever neither reads nor answers ends it as one who only does not answer.
    #[test]
    fn a_peer_that_reads_no_more_requests_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let (stop, counters) = (Stop::new(), Counters::default());
        // What would wait for ever shall fail.
        let _attending = stop.attend();
        let _at_last = crate::deadline_thread().at(Instant::now() + Duration::from_secs(20), &stop);
        let bounds = Bounds {
            budget: Budget::of(Limit::Transactions(u64::MAX), 0),
            stop: &stop,
            counters: counters.writer(),
        };
        let (mut requests, mut responses) = (ring_of(1 << 16), ring());
        let mut exchange = Exchange {
            requests: &mut requests,
            responses: &mut responses,
            asks_again: false,
        };
        let window = 1 << 20;
        let connected = Plain(near.as_fd());
        let end = ask_ahead(&connected, &mut exchange, window, bounds, None, &mut ());
        assert_eq!(end, LoopEnd::TimedOut);
        assert_eq!(counters.counts().transactions, 0);
    }

    fn pair() -> (UdpSocket, UdpSocket) {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        (near, far)
    }

    fn ring() -> Ring {
        ring_of(4)
    }

    fn ring_of(bytes: u32) -> Ring {
        let plan = BufferPlan {
            size: SizeRule::Bytes(bytes),
            width: WidthRule::Buffers(1),
            ..BufferPlan::default()
        };
        Ring::new(
            &plan,
            None,
            None,
            Contents::Nothing,
            &Memory::new(1 << 20, 1 << 20),
        )
        .unwrap()
    }
}
