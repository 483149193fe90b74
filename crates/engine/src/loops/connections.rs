//! Connection tests: one connection per transaction.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::SocketOptions;
use sys::Address;
use sys::call::{self, Error, KernelAddress};

use super::exchange::{Exchange, receive_all, send_all};
use crate::connector::Connector;
use crate::counters::{CounterWriter, PassKind};
use crate::end::{Bounds, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Plain;
use crate::socket::set_accepted_priority;
use crate::stop::Stop;
use crate::timer::Timer;

/// Accepts a listener's connections from one host.
#[derive(Debug)]
pub struct Acceptor {
    listener: OwnedFd,
    /// The expected host; `None` in an address family without addresses.
    host: Option<KernelAddress>,
    /// A connection that has already been accepted.
    first: Option<OwnedFd>,
    /// How long a connection from another host is held back, in case the expected host connects.
    /// `None`: it is refused immediately.
    preference_timeout: Option<Duration>,
    /// The other host whose connections are also accepted, after the expected host did not connect.
    other_host: Option<KernelAddress>,
    /// The time for which the first connection of `other_host` was held back.
    waited: Duration,
    refused_count: u64,
}

impl Acceptor {
    /// Accepts connections from the host of the address `host`. `first` has already been accepted.
    ///
    /// Connections from other hosts are refused. With a `preference_timeout`, one from another
    /// host is accepted if none arrives from `host` within this time: if a client's local port is
    /// in use, its kernel may choose another port and another of its addresses.
    pub fn new(
        listener: OwnedFd,
        host: Option<KernelAddress>,
        first: Option<OwnedFd>,
        preference_timeout: Option<Duration>,
    ) -> Self {
        Self {
            listener,
            host,
            first,
            preference_timeout,
            other_host: None,
            waited: Duration::ZERO,
            refused_count: 0,
        }
    }

    /// Returns the listening socket.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns the number of refused connections from other hosts.
    pub fn refused_count(&self) -> u64 {
        self.refused_count
    }

    /// Returns the time for which a connection from another host waited for the expected host.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the other host whose connections were accepted.
    pub fn other_host(&self) -> Option<Address> {
        self.other_host.as_ref()?.address()
    }

    /// Accepts the next connection; `None` if it was refused.
    #[inline]
    fn accept_next(&mut self, stop: &Stop) -> Result<Option<OwnedFd>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let (socket, from) = call::accept_from(self.listener())?;
        match from {
            Some(from) if !self.is_expected(&from) => self.prefer_expected_host(socket, from, stop),
            _ => Ok(Some(socket)),
        }
    }

    fn is_expected(&self, from: &KernelAddress) -> bool {
        let Some(host) = &self.host else {
            return true;
        };
        let mut hosts = std::iter::once(host).chain(&self.other_host);
        hosts.any(|host| from.shares_host_with(host))
    }

    /// Accepts a connection from the expected host if one arrives in time, else `other_connection`
    /// if there is a preference timeout.
    #[cold]
    fn prefer_expected_host(
        &mut self,
        other_connection: OwnedFd,
        from: KernelAddress,
        stop: &Stop,
    ) -> Result<Option<OwnedFd>, Error> {
        let deadline = Instant::now() + self.preference_timeout.unwrap_or_default();
        while self.preference_timeout.is_some() && !stop.is_set() {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_ready = match call::wait_readable(self.listener(), left) {
                Ok(is_readable) => is_readable && !left.is_zero(),
                Err(Error::INTR) => continue,
                Err(error) => return Err(error),
            };
            if !is_ready {
                self.other_host = Some(from);
                self.waited = self.preference_timeout.unwrap_or_default();
                return Ok(Some(other_connection));
            }
            let (socket, from) = call::accept_from(self.listener())?;
            self.refused_count += 1;
            if from.is_none_or(|from| self.is_expected(&from)) {
                return Ok(Some(socket));
            }
        }
        self.refused_count += 1;
        Ok(None)
    }
}

/// Repeatedly connects, exchanges a request and a response, and waits for the peer's close. If this
/// end `closes_first`, it shuts down its own stream before this wait.
pub(crate) fn connect(
    connector: &mut Connector,
    mut exchange: Option<Exchange<'_>>,
    closes_first: bool,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    set_exchange_sizes(exchange.as_ref(), counters, true);
    timer.start();
    while !stop.is_set() {
        if hooks.wait_if_early(stop) {
            timer.start();
            continue;
        }
        hooks.record_paced_pass();
        // With TCP fast open, `open` sends part of the request, usually all of it.
        let request: &[u8] = match &mut exchange {
            Some(exchange) => {
                let request = exchange.requests.advance();
                hooks.before_send(request);
                request
            }
            None => &[],
        };
        let opened = match connector.open(request, stop) {
            Ok(opened) => opened,
            Err(end) => return end,
        };
        let io = Plain(opened.socket.as_fd());
        let request_len = request.len();
        let unsent = &request[opened.sent..];
        let request_result = if unsent.is_empty() {
            Ok(())
        } else {
            send_all(&io, unsent, stop, counters)
        };
        let result = request_result.and_then(|()| match &mut exchange {
            Some(exchange) => {
                let response = exchange.responses.advance();
                let received = receive_all(&io, response, stop, counters);
                // The peer may count a request that it has not answered.
                received.inspect_err(|_| counters.count_sent(request_len, 1))?;
                hooks.after_receive(response);
                Ok(())
            }
            None => Ok(()),
        });
        if let Err(end) = result {
            return end;
        }
        if closes_first {
            // An error, such as a reset by the peer, also fails the next call.
            let _ = call::shutdown_write(io.0);
        }
        if let Err(end) = await_close(io.0, stop) {
            return end;
        }
        hooks.before_close(io.0);
        connector.close(opened);
        timer.lap();
        counters.count_pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// Repeatedly accepts, responds and closes. A connection that is open at the stop is served to its
/// end, or until `drain_stop` is set.
pub(crate) fn accept(
    acceptor: &mut Acceptor,
    mut exchange: Option<Exchange<'_>>,
    bounds: Bounds<'_>,
    drain_stop: &Stop,
    options: &SocketOptions,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    set_exchange_sizes(exchange.as_ref(), counters, false);
    while !stop.is_set() {
        if hooks.wait_if_early(stop) {
            continue;
        }
        let socket = match acceptor.accept_next(stop) {
            Ok(Some(socket)) => socket,
            // accept(2): these errors concern only the connection that is being accepted.
            Ok(None) | Err(Error::INTR | Error::CONNABORTED | Error::PROTO) => continue,
            Err(error) => return LoopEnd::from_call("accept", error),
        };
        hooks.record_paced_pass();
        set_accepted_priority(socket.as_fd(), options);
        if let Some(exchange) = &mut exchange {
            let io = Plain(socket.as_fd());
            let request = exchange.requests.advance();
            let result = receive_all(&io, request, drain_stop, counters).and_then(|()| {
                hooks.after_receive(request);
                let response = exchange.responses.advance();
                hooks.before_send(response);
                send_all(&io, response, drain_stop, counters)
                    .inspect_err(|_| counters.count_received(request.len(), 1))
            });
            match result {
                Ok(()) => {}
                Err(LoopEnd::Stopped) => return LoopEnd::Stopped,
                // The peer stopped between its connect and its request, or was killed. This is no
                // transaction; more connections may follow.
                Err(_) => continue,
            }
        }
        drop(socket);
        counters.count_pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// Sets the bytes per pass in the counters. `is_requester` is the end that sends the requests.
fn set_exchange_sizes(
    exchange: Option<&Exchange<'_>>,
    counters: CounterWriter<'_>,
    is_requester: bool,
) {
    let (requests, responses) = match exchange {
        Some(exchange) => (exchange.requests.size(), exchange.responses.size()),
        None => (0, 0),
    };
    if is_requester {
        counters.set_pass_sizes(requests, responses, PassKind::Transaction);
    } else {
        counters.set_pass_sizes(responses, requests, PassKind::Transaction);
    }
}

/// Waits for the peer's end of stream and discards data before it.
fn await_close(socket: BorrowedFd<'_>, stop: &Stop) -> Result<(), LoopEnd> {
    let mut discarded = [0; 4096];
    loop {
        match call::receive(socket, &mut discarded) {
            // A peer that closes with unread data sends a reset, which is also a close.
            Ok(0) | Err(Error::CONNRESET) => return Ok(()),
            // The peer may continue to send indefinitely.
            Ok(_) | Err(Error::INTR) if stop.is_set() => return Err(LoopEnd::Stopped),
            Ok(_) | Err(Error::INTR) => {}
            Err(error) => return Err(LoopEnd::from_call("receive", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    use model::Transport;
    use sys::buffer::BufferRing;
    use units::Bytes;

    use super::*;
    use crate::connector::PortRange;
    use crate::counters::Counters;
    use crate::end::Budget;
    use crate::stop::StopReason;

    /// A server that drains the connection counts the request.
    #[test]
    fn a_request_without_an_answer_counts_as_sent() {
        const REQUEST_LEN: u32 = 1000;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let mut connector = Connector::new(
            Transport::Tcp,
            to.into(),
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
            PortRange {
                first: 20_000,
                end: 60_000,
            },
            to.port(),
            SocketOptions::default(),
            true,
        )
        .unwrap();
        let ring = |len| BufferRing::new(1, len, 8, 0).unwrap();
        let (mut requests, mut responses) = (ring(REQUEST_LEN), ring(1));
        let exchange = Exchange {
            requests: &mut requests,
            responses: &mut responses,
            can_retry: false,
        };
        let (stop, counters) = (Stop::new(), Counters::default());
        let bounds = Bounds {
            work_left: Budget(1),
            stop: &stop,
            counters: counters.writer(),
        };
        let end = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut peer, _) = listener.accept().unwrap();
                peer.read_exact(&mut [0; REQUEST_LEN as usize]).unwrap();
            });
            connect(
                &mut connector,
                Some(exchange),
                false,
                bounds,
                &mut (),
                &mut (),
            )
        });
        assert_eq!(end, LoopEnd::PeerClosed);
        let counts = counters.counts();
        assert_eq!((counts.sent, counts.transactions), (Bytes(1000), 0));
    }

    #[test]
    fn a_peer_that_keeps_sending_does_not_delay_a_stop() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        let sender = std::thread::spawn(move || while far.write_all(&[b'x'; 4096]).is_ok() {});
        let stop = Stop::new();
        stop.set(StopReason::Deadline);
        assert_eq!(await_close(near.as_fd(), &stop), Err(LoopEnd::Stopped));
        drop(near);
        sender.join().unwrap();
    }
}
