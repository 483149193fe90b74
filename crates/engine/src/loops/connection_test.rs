//! A connection a transaction.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::SocketOptions;
use sys::Address;
use sys::call::{self, Error, Peer};

use super::exchange::{Exchange, receive_all, send_all};
use crate::connector::Connector;
use crate::counters::CounterWriter;
use crate::end::{Bounds, LoopEnd};
use crate::hooks::Hooks;
use crate::io::Plain;
use crate::socket::complete_accepted;
use crate::stop::Stop;
use crate::timer::Timer;

/// A listener's connections from one host.
#[derive(Debug)]
pub struct Accepting {
    listener: OwnedFd,
    /// The host; `None` in a family without addresses.
    host: Option<Peer>,
    /// A connection that is accepted already.
    first: Option<OwnedFd>,
    /// How long a connection from another host waits for one from the host; `None` if it is refused at once.
    preference: Option<Duration>,
    /// The other host whose connections are accepted, after one of them waited in vain for a better one.
    other: Option<Peer>,
    refused: u64,
}

impl Accepting {
    /// Accepts connections from the host of the address `host`; `first` is accepted already. A connection from another
    /// host is refused, or with a `preference` it is accepted if none comes from the host for so long: a client whose
    /// local port is taken may leave port and address to its kernel, which has several.
    pub fn new(
        listener: OwnedFd,
        host: Option<Peer>,
        first: Option<OwnedFd>,
        preference: Option<Duration>,
    ) -> Self {
        Self {
            listener,
            host,
            first,
            preference,
            other: None,
            refused: 0,
        }
    }

    /// The listening socket.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The number of connections from other hosts, which were closed.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The other host of which connections were accepted.
    pub fn other(&self) -> Option<Address> {
        self.other.as_ref()?.address()
    }

    /// Accepts the next connection; `None` if it comes from another host.
    #[inline]
    fn next(&mut self, stop: &Stop) -> Result<Option<OwnedFd>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let (socket, from) = call::accept_from(self.listener())?;
        match from {
            Some(from) if !self.expects(&from) => self.after_a_better_one(socket, from, stop),
            _ => Ok(Some(socket)),
        }
    }

    fn expects(&self, from: &Peer) -> bool {
        let Some(host) = &self.host else {
            return true;
        };
        let mut hosts = std::iter::once(host).chain(&self.other);
        hosts.any(|host| from.shares_host_with(host))
    }

    /// Accepts a connection of the host if one comes in time, and otherwise this `stranger`, where that is allowed.
    #[cold]
    fn after_a_better_one(
        &mut self,
        stranger: OwnedFd,
        from: Peer,
        stop: &Stop,
    ) -> Result<Option<OwnedFd>, Error> {
        let until = Instant::now() + self.preference.unwrap_or_default();
        while self.preference.is_some() && !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            let comes = match call::wait_readable(self.listener(), left) {
                Ok(comes) => comes && !left.is_zero(),
                Err(Error::INTR) => continue,
                Err(error) => return Err(error),
            };
            if !comes {
                self.other = Some(from);
                return Ok(Some(stranger));
            }
            let (socket, from) = call::accept_from(self.listener())?;
            self.refused += 1;
            if from.is_none_or(|from| self.expects(&from)) {
                return Ok(Some(socket));
            }
        }
        self.refused += 1;
        Ok(None)
    }
}

/// Connects, asks, and waits for the peer's close, over and over. Where this end `closes_first` it ends
/// its stream before.
pub(crate) fn connect(
    connector: &mut Connector,
    mut exchange: Option<Exchange<'_>>,
    closes_first: bool,
    bounds: Bounds<'_>,
    timer: &mut impl Timer,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    expect(exchange.as_ref(), counters, true);
    timer.start();
    while !stop.is_set() {
        if hooks.waited(stop) {
            timer.start();
            continue;
        }
        hooks.took_turn();
        // With fast open part of the request, usually all, leaves with the connection's opening.
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
        let rest = &request[opened.sent..];
        let asked = if rest.is_empty() {
            Ok(())
        } else {
            send_all(&io, rest, stop, counters)
        };
        let answered = asked.and_then(|()| match &mut exchange {
            Some(exchange) => {
                let response = exchange.responses.advance();
                receive_all(&io, response, stop, counters)?;
                hooks.after_receive(response);
                Ok(())
            }
            None => Ok(()),
        });
        if let Err(end) = answered {
            return end;
        }
        if closes_first {
            // It fails when the peer has reset, and then so does what follows.
            let _ = call::shutdown_write(io.0);
        }
        if let Err(end) = await_close(io.0, stop) {
            return end;
        }
        hooks.before_close(io.0);
        connector.close(opened);
        timer.lap();
        counters.pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// Accepts, answers and closes, over and over. A connection that is open when the stop is pulled is
/// served to its end, or until `cut`.
pub(crate) fn accept(
    accepting: &mut Accepting,
    mut exchange: Option<Exchange<'_>>,
    bounds: Bounds<'_>,
    cut: &Stop,
    options: &SocketOptions,
    hooks: &mut impl Hooks,
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    expect(exchange.as_ref(), counters, false);
    while !stop.is_set() {
        if hooks.waited(stop) {
            continue;
        }
        let socket = match accepting.next(stop) {
            Ok(Some(socket)) => socket,
            // accept(2): errors of the one connection that is being accepted.
            Ok(None) | Err(Error::INTR | Error::CONNABORTED | Error::PROTO) => continue,
            Err(error) => return LoopEnd::from_call("accept", error),
        };
        hooks.took_turn();
        complete_accepted(socket.as_fd(), options);
        if let Some(exchange) = &mut exchange {
            let io = Plain(socket.as_fd());
            let request = exchange.requests.advance();
            let answered = receive_all(&io, request, cut, counters).and_then(|()| {
                hooks.after_receive(request);
                let response = exchange.responses.advance();
                hooks.before_send(response);
                send_all(&io, response, cut, counters)
                    .inspect_err(|_| counters.received(request.len(), 1))
            });
            match answered {
                Ok(()) => {}
                Err(LoopEnd::Stopped) => return LoopEnd::Stopped,
                // The peer's time was up between its connect and its request, or it died with this
                // connection: no transaction, and the next one may come.
                Err(_) => continue,
            }
        }
        drop(socket);
        counters.pass();
        if budget.spend(1) {
            return LoopEnd::Count;
        }
    }
    LoopEnd::Stopped
}

/// What a pass moves; `asks` is the end that sends the requests.
fn expect(exchange: Option<&Exchange<'_>>, counters: CounterWriter<'_>, asks: bool) {
    let (requests, responses) = match exchange {
        Some(exchange) => (exchange.requests.size(), exchange.responses.size()),
        None => (0, 0),
    };
    if asks {
        counters.expect(requests, responses, true);
    } else {
        counters.expect(responses, requests, true);
    }
}

/// Waits for the peer's end of stream, throwing away what comes before it.
fn await_close(socket: BorrowedFd<'_>, stop: &Stop) -> Result<(), LoopEnd> {
    let mut scrap = [0; 4096];
    loop {
        match call::receive(socket, &mut scrap) {
            // A peer that closes with data unread resets; it has closed all the same.
            Ok(0) | Err(Error::CONNRESET) => return Ok(()),
            // It may go on sending for ever.
            Ok(_) | Err(Error::INTR) if stop.is_set() => return Err(LoopEnd::Stopped),
            Ok(_) | Err(Error::INTR) => {}
            Err(error) => return Err(LoopEnd::from_call("receive", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;
    use crate::stop::Reason;

    #[test]
    fn a_peer_that_goes_on_sending_does_not_hold_a_stop_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        let chargen = std::thread::spawn(move || while far.write_all(&[b'x'; 4096]).is_ok() {});
        let stop = Stop::new();
        stop.pull(Reason::Deadline);
        assert_eq!(await_close(near.as_fd(), &stop), Err(LoopEnd::Stopped));
        drop(near);
        chargen.join().unwrap();
    }
}
