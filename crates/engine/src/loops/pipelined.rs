//! Several requests in flight on one connection.

use std::collections::VecDeque;
use std::time::Duration;

use stats::Histogram;
use sys::call::{self, Error};
use sys::clock::monotonic_ns;

use super::exchange::Exchange;
use crate::counters::{Counter, CounterWriter};
use crate::end::{Bounds, Budget, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Io;
use crate::stop::Stop;

/// As [`ask`](super::request_response::ask), with up to `window` requests in flight.
///
/// A request is sent without waiting: a peer that waits for room for its answer would otherwise wait for this end
/// for ever (both sides full, `-b 6 -r 32K,32K`). No more requests are sent than the budget has transactions, or
/// the peer, which answered the last one, would reset the connection over the surplus. Each time runs from the
/// send of a request to its response.
///
/// A pace applies to the requests, and responses are taken as they come. A time includes no wait for the pace,
/// and fewer than `window` requests are in flight if the pace asks for no more.
pub(crate) fn ask<I: Io>(
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
    // Calls are counted singly: at the end it is not clear which request a send belonged to.
    counters.expect(0, 0, true);
    let mut pipeline = Pipeline::new(io, exchange, window, counters, times.is_some());
    while !stop.is_set() {
        let held = match pipeline.fill(budget, stop, hooks) {
            Ok(held) => held,
            Err(end) => return end,
        };
        if pipeline.in_flight == 0 {
            // The queue took nothing, or it is too early; there is no answer to wait for.
            hooks.waited(stop);
            continue;
        }
        if held == HeldBy::Pace && !hooks.has_input_before_turn(io.socket()) {
            continue;
        }
        match pipeline.receive(held == HeldBy::Socket, hooks) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(end) => return end,
        }
        if let (Some(times), Some(sent_at_ns)) = (times.as_deref_mut(), pipeline.answered()) {
            times.record(monotonic_ns() - sent_at_ns);
        }
        counters.pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// The requests in flight.
struct Pipeline<'a, 'b, I> {
    io: &'a I,
    exchange: &'a mut Exchange<'b>,
    counters: CounterWriter<'a>,
    /// How long a call waits for either direction: the shorter of the socket's timeouts.
    patience: Duration,
    window: usize,
    in_flight: usize,
    /// Bytes of the last request that the socket has not taken.
    unsent: usize,
    /// Bytes of the next response that have not come.
    missing: usize,
    /// When each request left, oldest first, if times are kept.
    sent_at_ns: Option<VecDeque<u64>>,
}

/// Why no more requests leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldBy {
    /// The window is full, the budget is spent, or a datagram was dropped here.
    Window,
    Pace,
    Socket,
}

impl<'a, 'b, I: Io> Pipeline<'a, 'b, I> {
    fn new(
        io: &'a I,
        exchange: &'a mut Exchange<'b>,
        window: usize,
        counters: CounterWriter<'a>,
        timed: bool,
    ) -> Self {
        let (receive_patience, send_patience) = sys::option::timeouts(io.socket());
        Self {
            io,
            missing: exchange.responses.size() as usize,
            exchange,
            counters,
            patience: receive_patience.min(send_patience),
            window,
            in_flight: 0,
            unsent: 0,
            sent_at_ns: timed.then(|| VecDeque::with_capacity(window)),
        }
    }

    /// Sends requests as long as the window, the budget, the pace and the socket take them.
    #[inline]
    fn fill(
        &mut self,
        budget: Budget,
        stop: &Stop,
        hooks: &mut impl Hooks,
    ) -> Result<HeldBy, LoopEnd> {
        while self.unsent > 0 || self.in_flight < self.window && budget.exceeds(self.in_flight) {
            if self.unsent == 0 {
                if !hooks.is_my_turn() {
                    return Ok(HeldBy::Pace);
                }
                let request = self.exchange.requests.advance();
                hooks.before_send(request);
                hooks.took_turn();
                self.unsent = request.len();
                self.asked();
            }
            let request = self.exchange.requests.current();
            match self.io.try_send(&request[request.len() - self.unsent..]) {
                Ok(sent) => {
                    self.counters.sent(sent, 1);
                    self.unsent -= sent;
                }
                Err(error) => {
                    if let Some(held) = self.not_sent(error, stop)? {
                        return Ok(held);
                    }
                }
            }
        }
        Ok(HeldBy::Window)
    }

    #[cold]
    fn not_sent(&mut self, error: Error, stop: &Stop) -> Result<Option<HeldBy>, LoopEnd> {
        match error {
            Error::AGAIN => Ok(Some(HeldBy::Socket)),
            Error::INTR if stop.is_set() => Err(LoopEnd::Stopped),
            Error::INTR => Ok(None),
            Error::NOBUFS => {
                self.counters.add(Counter::FailedSends, 1);
                self.take_back();
                Ok(Some(HeldBy::Window))
            }
            error => Err(LoopEnd::from_call("send", error)),
        }
    }

    /// Receives a part of a response; returns whether that completes it. `either` waits until the socket takes or
    /// has something.
    #[inline]
    fn receive(&mut self, either: bool, hooks: &mut impl Hooks) -> Result<bool, LoopEnd> {
        let mut in_time = true;
        if either {
            match call::wait_either(self.io.socket(), self.patience) {
                Ok(ready) => in_time = ready,
                Err(_) => return Ok(false),
            }
        }
        let buffer = self.exchange.responses.advance();
        let room = self.missing.min(buffer.len());
        let received = if either {
            self.io.try_receive(&mut buffer[..room])
        } else {
            self.io.receive(&mut buffer[..room])
        };
        match received {
            Ok(0) => Err(LoopEnd::PeerClosed),
            Ok(received) => {
                hooks.after_receive(&mut buffer[..received]);
                self.counters.received(received, 1);
                self.missing -= received;
                if self.missing > 0 {
                    return Ok(false);
                }
                self.missing = self.exchange.responses.size() as usize;
                Ok(true)
            }
            Err(error) => self.not_received(error, either && in_time),
        }
    }

    #[cold]
    fn not_received(&mut self, error: Error, may_come: bool) -> Result<bool, LoopEnd> {
        match error {
            Error::AGAIN if may_come => {}
            // A receive timeout: the requests in flight are given up, and as many are sent again.
            Error::AGAIN if self.exchange.asks_again => self.give_up(),
            Error::AGAIN => return Err(LoopEnd::TimedOut),
            Error::INTR => {}
            error => return Err(LoopEnd::from_call("receive", error)),
        }
        Ok(false)
    }

    fn asked(&mut self) {
        self.in_flight += 1;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.push_back(monotonic_ns());
        }
    }

    /// The last request did not leave.
    fn take_back(&mut self) {
        self.unsent = 0;
        self.in_flight -= 1;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.pop_back();
        }
    }

    /// Notes an answer; returns when its request left. The answer to a request that was given up comes late, and
    /// is the answer to none.
    fn answered(&mut self) -> Option<u64> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.sent_at_ns.as_mut()?.pop_front()
    }

    /// Forgets the requests in flight. A datagram that found no room has not left.
    fn give_up(&mut self) {
        self.in_flight = 0;
        self.unsent = 0;
        self.missing = self.exchange.responses.size() as usize;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Instant;

    use sys::buffer::BufferRing;

    use super::*;
    use crate::Counters;
    use crate::io::Plain;

    #[test]
    fn requests_that_were_given_up_are_asked_again() {
        let (near, far) = pair();
        near.set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let (stop, counters) = (Stop::new(), Counters::default());
        let bounds = Bounds {
            budget: Budget(10),
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
        let end = ask(
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

    /// A peer that neither reads nor answers ends it as a peer that only does not answer.
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
            budget: Budget(u64::MAX),
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
        let end = ask(&connected, &mut exchange, window, bounds, None, &mut ());
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

    fn ring() -> BufferRing {
        ring_of(4)
    }

    fn ring_of(bytes: u32) -> BufferRing {
        BufferRing::new(1, bytes, 8, 0).unwrap()
    }
}
