//! Requests and responses with several requests in flight on one connection.

use std::collections::VecDeque;
use std::time::Duration;

use stats::Histogram;
use sys::call::{self, Error};
use sys::clock::monotonic_ns;

use super::exchange::Exchange;
use crate::counters::{Counter, CounterWriter, PassKind};
use crate::end::{Bounds, Budget, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Io;
use crate::stop::Stop;

/// Sends requests and receives responses like
/// [`run_requester`](super::request_response::run_requester), with up to `window` requests in
/// flight.
///
/// Requests are sent with non-blocking calls. With blocking calls both ends can deadlock with full
/// buffers (`-b 6 -r 32K,32K`). The loop sends no more requests than the budget has transactions:
/// the peer closes after the last transaction and would reset the connection because of unread
/// requests. Each recorded time is from the send of a request to its response.
///
/// Pacing applies to the requests; responses are received when they arrive. Recorded times do not
/// include the wait for the pace. A slow pace keeps fewer than `window` requests in flight.
pub(crate) fn run_requester<I: Io>(
    io: &I,
    exchange: &mut Exchange<'_>,
    window: usize,
    bounds: Bounds<'_>,
    mut times: Option<&mut Histogram>,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    // Calls are counted individually: at the end, sends cannot be assigned to passes.
    counters.set_pass_sizes(0, 0, PassKind::Transaction);
    let mut pipeline = Pipeline::new(io, exchange, window, counters, times.is_some());
    while !stop.is_set() {
        let blocked_by = match pipeline.send_requests(budget, stop, hooks) {
            Ok(blocked_by) => blocked_by,
            Err(end) => return end,
        };
        if pipeline.in_flight == 0 {
            // The device's queue was full (ENOBUFS), or the next request is not due. No response
            // can arrive.
            hooks.wait_if_early(stop);
            continue;
        }
        if blocked_by == BlockedBy::Pace && !hooks.wait_for_input_until_next_pass(io.socket()) {
            continue;
        }
        match pipeline.receive(blocked_by == BlockedBy::Socket, hooks) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(end) => return end,
        }
        if let (Some(times), Some(sent_at_ns)) = (times.as_deref_mut(), pipeline.end_request()) {
            times.record(monotonic_ns() - sent_at_ns);
        }
        counters.count_pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// The requests in flight and their connection.
struct Pipeline<'a, 'b, I> {
    io: &'a I,
    exchange: &'a mut Exchange<'b>,
    counters: CounterWriter<'a>,
    /// Timeout of a wait for either direction: the shorter one of the socket's timeouts.
    timeout: Duration,
    window: usize,
    in_flight: usize,
    /// Bytes of the last request that have not been sent.
    unsent_bytes: usize,
    /// Bytes of the next response that have not arrived.
    missing_bytes: usize,
    /// Send time of each request in flight, oldest first; `None` if times are not recorded.
    sent_at_ns: Option<VecDeque<u64>>,
}

/// Reason for which no more requests are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockedBy {
    /// The window is full, the budget is spent, or this host dropped a datagram.
    Window,
    /// The next request is not due.
    Pace,
    /// The send buffer is full.
    Socket,
}

impl<'a, 'b, I: Io> Pipeline<'a, 'b, I> {
    fn new(
        io: &'a I,
        exchange: &'a mut Exchange<'b>,
        window: usize,
        counters: CounterWriter<'a>,
        is_timed: bool,
    ) -> Self {
        let (receive_timeout, send_timeout) = sys::option::timeouts(io.socket());
        Self {
            io,
            missing_bytes: exchange.responses.size() as usize,
            exchange,
            counters,
            timeout: receive_timeout.min(send_timeout),
            window,
            in_flight: 0,
            unsent_bytes: 0,
            sent_at_ns: is_timed.then(|| VecDeque::with_capacity(window)),
        }
    }

    /// Sends requests until the window, the budget, the pace or the socket prevents more.
    #[inline]
    fn send_requests(
        &mut self,
        budget: Budget,
        stop: &Stop,
        hooks: &mut impl Hooks,
    ) -> Result<BlockedBy, LoopEnd> {
        while self.unsent_bytes > 0
            || self.in_flight < self.window && budget.exceeds(self.in_flight)
        {
            if self.unsent_bytes == 0 {
                if !hooks.is_pass_due() {
                    return Ok(BlockedBy::Pace);
                }
                let request = self.exchange.requests.advance();
                hooks.before_send(request);
                hooks.record_paced_pass();
                self.unsent_bytes = request.len();
                self.start_request();
            }
            let request = self.exchange.requests.current();
            match self
                .io
                .try_send(&request[request.len() - self.unsent_bytes..])
            {
                Ok(sent) => {
                    self.counters.count_sent(sent, 1);
                    self.unsent_bytes -= sent;
                }
                Err(error) => {
                    if let Some(blocked_by) = self.handle_send_error(error, stop)? {
                        return Ok(blocked_by);
                    }
                }
            }
        }
        Ok(BlockedBy::Window)
    }

    #[cold]
    fn handle_send_error(
        &mut self,
        error: Error,
        stop: &Stop,
    ) -> Result<Option<BlockedBy>, LoopEnd> {
        match error {
            Error::AGAIN => Ok(Some(BlockedBy::Socket)),
            Error::INTR if stop.is_set() => Err(LoopEnd::Stopped),
            Error::INTR => Ok(None),
            Error::NOBUFS => {
                self.counters.add(Counter::FailedSends, 1);
                self.cancel_request();
                Ok(Some(BlockedBy::Window))
            }
            error => Err(LoopEnd::from_call("send", error)),
        }
    }

    /// Receives part of a response; returns whether it completes the response. If
    /// `is_send_blocked`, it first waits until the socket is readable or writable.
    #[inline]
    fn receive(&mut self, is_send_blocked: bool, hooks: &mut impl Hooks) -> Result<bool, LoopEnd> {
        let mut is_ready = true;
        if is_send_blocked {
            match call::wait_readable_or_writable(self.io.socket(), self.timeout) {
                Ok(ready) => is_ready = ready,
                Err(_) => return Ok(false),
            }
        }
        let buffer = self.exchange.responses.advance();
        let length = self.missing_bytes.min(buffer.len());
        let received = if is_send_blocked {
            self.io.try_receive(&mut buffer[..length])
        } else {
            self.io.receive(&mut buffer[..length])
        };
        match received {
            Ok(0) => Err(LoopEnd::PeerClosed),
            Ok(received) => {
                hooks.after_receive(&mut buffer[..received]);
                self.counters.count_received(received, 1);
                self.missing_bytes -= received;
                if self.missing_bytes > 0 {
                    return Ok(false);
                }
                self.missing_bytes = self.exchange.responses.size() as usize;
                Ok(true)
            }
            Err(error) => self.handle_receive_error(error, is_send_blocked && is_ready),
        }
    }

    #[cold]
    fn handle_receive_error(
        &mut self,
        error: Error,
        can_wait_again: bool,
    ) -> Result<bool, LoopEnd> {
        match error {
            Error::AGAIN if can_wait_again => {}
            // The receive timed out: the requests in flight are discarded, and new ones are sent.
            Error::AGAIN if self.exchange.can_retry => self.discard_requests(),
            Error::AGAIN => return Err(LoopEnd::TimedOut),
            Error::INTR => {}
            error => return Err(LoopEnd::from_call("receive", error)),
        }
        Ok(false)
    }

    /// Records the start of a request.
    fn start_request(&mut self) {
        self.in_flight += 1;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.push_back(monotonic_ns());
        }
    }

    /// Removes the last request, which was not sent.
    fn cancel_request(&mut self) {
        self.unsent_bytes = 0;
        self.in_flight -= 1;
        if let Some(sent_at) = &mut self.sent_at_ns {
            sent_at.pop_back();
        }
    }

    /// Records a response; returns the send time of its request. A late response to a discarded
    /// request has none.
    fn end_request(&mut self) -> Option<u64> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.sent_at_ns.as_mut()?.pop_front()
    }

    /// Discards the requests in flight, and a request that the socket has not taken.
    fn discard_requests(&mut self) {
        self.in_flight = 0;
        self.unsent_bytes = 0;
        self.missing_bytes = self.exchange.responses.size() as usize;
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
    fn new_requests_are_sent_after_a_timeout() {
        let (near, far) = pair();
        near.set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let (stop, counters) = (Stop::new(), Counters::default());
        let bounds = Bounds {
            work_left: Budget(10),
            stop: &stop,
            counters: counters.writer(),
        };
        let peer = std::thread::spawn(move || {
            let mut buffer = [0; 16];
            for datagram in 0.. {
                let Ok(length) = far.recv(&mut buffer) else {
                    return;
                };
                // All of the first window is lost, and later one more datagram.
                if datagram > 4 && datagram != 8 {
                    far.send(&buffer[..length]).unwrap();
                }
            }
        });
        let (mut requests, mut responses) = (ring(), ring());
        let mut exchange = Exchange {
            requests: &mut requests,
            responses: &mut responses,
            can_retry: true,
        };
        let mut times = Histogram::default();
        let end = run_requester(
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

    /// If the peer does not read, the receive timeout of this end ends the test, as if the peer had
    /// read the requests but not responded.
    #[test]
    fn a_peer_that_stops_reading_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let (stop, counters) = (Stop::new(), Counters::default());
        // A deadline, so that the test fails instead of hanging.
        let _registration = stop.register_thread();
        let _deadline =
            crate::deadline_thread().set_at(Instant::now() + Duration::from_secs(20), &stop);
        let bounds = Bounds {
            work_left: Budget(u64::MAX),
            stop: &stop,
            counters: counters.writer(),
        };
        let (mut requests, mut responses) = (ring_of(1 << 16), ring());
        let mut exchange = Exchange {
            requests: &mut requests,
            responses: &mut responses,
            can_retry: false,
        };
        let window = 1 << 20;
        let connected = Plain(near.as_fd());
        let end = run_requester(&connected, &mut exchange, window, bounds, None, &mut ());
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
