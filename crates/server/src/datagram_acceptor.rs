//! Acceptance of datagram flows that arrive at one socket from different source addresses.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{FirstDatagram, SocketError, Stop, open_datagram_branch, open_datagram_listener};
use model::{SocketOptions, Transport};
use sys::call::{self, Error};
use sys::{Address, Socket};

use crate::ThirdParties;
use crate::flow_sessions::FlowSessions;
use crate::waiting_datagrams::{DatagramQueue, MAX_WAITING, WaitingSource};

/// The maximum number of datagrams received at a time. In a flood, the socket is never empty.
const MAX_RECEIVED: usize = MAX_WAITING;

/// The receive buffer of [`DatagramAcceptor::with_large_buffer`]. Linux doubles it, and counts 768
/// bytes or more per datagram.
const LARGE_BUFFER_BYTES: u32 = 1 << 20;

/// The number of times that a session receives [`MAX_RECEIVED`] datagrams before its peer begins.
/// They empty a large buffer. Linux frees the room of received datagrams in quarters of the buffer.
const MAX_INITIAL_RECEIVES: usize = 4;

/// The size of the largest datagram.
const MAX_DATAGRAM_BYTES: usize = 1 << 16;

/// The interval at which a session checks whether another session received datagrams for it, or
/// whether its turn has begun.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The maximum time that a datagram takes through this host. Later datagrams arrive at the flow's
/// own socket.
const MAX_TRANSIT_TIME: Duration = Duration::from_millis(2);

/// The maximum time from the first datagram of a flow to its second. Slow clients send one in some
/// seconds.
const SECOND_DATAGRAM_TIME: Duration = Duration::from_secs(60);

/// The time for which a source that has its own socket does not count as new.
const KNOWN_SOURCE_TIME: Duration = Duration::from_secs(1);

/// The datagram socket of a server. Each source of datagrams gets a connected socket at the same
/// address and port.
#[derive(Debug)]
pub struct DatagramAcceptor {
    listener: Socket,
    bound: Address,
    /// Whether a flow may begin with this datagram.
    can_start_flow: fn(&[u8]) -> bool,
    /// The part of a first datagram that identifies its session; empty if it has none.
    token_of: fn(&[u8]) -> &[u8],
    /// Whether a flow begins with its second datagram.
    waits_for_second: bool,
    state: Mutex<State>,
    /// Wakes the sessions that wait for their turn.
    turn_ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sessions: FlowSessions,
    waiting: DatagramQueue,
    /// Sources that begin a flow with their next datagram.
    unconfirmed: DatagramQueue,
    /// Sources that have had their own socket, and until when they do not count as new.
    known_sources: HashMap<Address, Instant>,
    /// Sources with their own socket whose datagrams may still arrive at the server's socket.
    in_transit_sources: HashSet<Address>,
    buffer: Vec<u8>,
}

/// The registration of a session that expects flows. Dropping it ends the session's turn.
#[derive(Debug)]
#[must_use]
pub struct ExpectedFlows<'a> {
    acceptor: &'a DatagramAcceptor,
    host: Option<Address>,
    id: u64,
}

/// A source of datagrams that has no socket yet.
#[derive(Debug)]
pub struct NewSource {
    /// Its address.
    pub address: Address,
    /// Whether it has sent for longer than a burst of datagrams, which may be forged.
    pub is_continuous: bool,
}

/// A flow of datagrams.
#[derive(Debug)]
pub struct DatagramPeer {
    /// The socket, connected to the source, at the server's address and port.
    pub socket: Socket,
    /// The address of the source.
    pub from: Address,
    /// Datagrams received before the socket existed, in order; at least one.
    pub first_datagrams: Vec<FirstDatagram>,
    /// The number of sessions that the flow could belong to.
    pub candidates: usize,
}

impl DatagramAcceptor {
    /// Opens the socket.
    pub fn open(bind: &Address, options: &SocketOptions) -> Result<Self, SocketError> {
        let listener = open_datagram_listener(Transport::Udp, bind, options)?;
        Self::from_listener(listener).map_err(|error| SocketError::Refused {
            action: "bind the socket",
            error,
        })
    }

    /// Wraps a socket of [`open_datagram_listener`].
    pub fn from_listener(listener: Socket) -> io::Result<Self> {
        Ok(Self {
            bound: Address::local(&listener)?,
            listener,
            can_start_flow: |_| true,
            token_of: |_| &[],
            waits_for_second: false,
            state: Mutex::default(),
            turn_ended: Condvar::new(),
        })
    }

    /// Restricts new flows to those whose first datagram passes this check. Datagrams of other new
    /// sources are dropped.
    #[must_use]
    pub fn with_first_datagram_check(self, can_start_flow: fn(&[u8]) -> bool) -> Self {
        Self {
            can_start_flow,
            ..self
        }
    }

    /// Sets the function that returns the token in a first datagram, or an empty slice. A flow with a
    /// token belongs to the session that expects this token.
    #[must_use]
    pub fn with_tokens(self, token_of: fn(&[u8]) -> &[u8]) -> Self {
        Self { token_of, ..self }
    }

    /// Accepts a flow only when its second datagram has arrived, so that a forged datagram costs no
    /// socket and no thread. The oldest of these first datagrams make room for new ones.
    #[must_use]
    pub fn with_second_datagram(self) -> Self {
        Self {
            waits_for_second: true,
            ..self
        }
    }

    /// Enlarges the receive buffer, so that a flood leaves room for the first datagram of a flow until
    /// its session reads.
    #[must_use]
    pub fn with_large_buffer(self) -> Self {
        sys::option::enlarge_receive_buffer(self.listener.as_fd(), LARGE_BUFFER_BYTES);
        self
    }

    /// Lets the last session also accept flows from these addresses, unless a session expects their
    /// host.
    #[must_use]
    pub fn with_third_parties(self, third_parties: ThirdParties) -> Self {
        self.state().sessions.third_parties = third_parties;
        self
    }

    /// Returns the address and port where flows arrive.
    pub fn address(&self) -> &Address {
        &self.bound
    }

    /// Returns the granted size of the socket's receive buffer, in bytes.
    pub fn receive_buffer_bytes(&self) -> u32 {
        self.listener.recv_buffer_size().unwrap_or(0) as u32
    }

    /// Expects flows of any host.
    pub fn expect_all_flows(&self) -> ExpectedFlows<'_> {
        let mut state = self.state();
        let id = state.sessions.next_id();
        state.sessions.expect(id, None, &[]);
        self.registration(id, None)
    }

    /// Expects flows of a host with this token, or without a token if it is empty.
    ///
    /// Flows without a token do not identify their session, so the sessions of a host that expect
    /// them take turns. Wait for the turn with [`ExpectedFlows::await_turn`] before the peer receives
    /// the request to start.
    pub fn expect_flows(&self, host: &Address, token: &[u8]) -> ExpectedFlows<'_> {
        let mut state = self.state();
        let id = state.sessions.next_id();
        if token.is_empty() {
            state.sessions.queue(id, host);
        } else {
            state.begin(self, id, host, token);
        }
        self.registration(id, Some(host))
    }

    fn registration(&self, id: u64, host: Option<&Address>) -> ExpectedFlows<'_> {
        ExpectedFlows {
            acceptor: self,
            host: host.cloned(),
            id,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExpectedFlows<'_> {
    /// Waits for the session's turn. Returns [`Error::TIMEDOUT`] if it has not begun before
    /// `deadline`; then call it again.
    ///
    /// A turn ends with the session, or early after a time without a flow. A session whose turn
    /// ended early gets later flows only if no other session expects them.
    pub fn await_turn(&self, deadline: Instant, stop: &Stop) -> Result<(), Error> {
        let mut state = self.acceptor.state();
        loop {
            if state.begin_turn(self) {
                return Ok(());
            }
            if stop.is_set() {
                return Err(Error::CANCELED);
            }
            let time = deadline.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Err(Error::TIMEDOUT);
            }
            // A turn also ends without a signal, by time.
            let time = time.min(POLL_INTERVAL);
            let woken = self.acceptor.turn_ended.wait_timeout(state, time);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Accepts the next flow on a new socket: [`Self::await_source`] and [`Self::open`].
    pub fn accept(
        &self,
        options: &SocketOptions,
        keeps_sending: bool,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<DatagramPeer, Error> {
        let source = self.await_source(deadline, stop)?;
        self.open(&source, options, keeps_sending)
    }

    /// Waits for the source of the next flow, which stays the next one until [`Self::open`],
    /// [`Self::postpone`] or [`Self::refuse`]. Returns [`Error::TIMEDOUT`] if none sends before
    /// `deadline`.
    pub fn await_source(&self, deadline: Instant, stop: &Stop) -> Result<NewSource, Error> {
        loop {
            let mut state = self.acceptor.state();
            if state.next_source(self.id).is_none() {
                state.collect(self.acceptor);
            }
            if let Some((address, source)) = state.next_source(self.id) {
                return Ok(NewSource {
                    address: address.clone(),
                    is_continuous: source.is_continuous(),
                });
            }
            drop(state);
            if Instant::now() >= deadline {
                return Err(Error::TIMEDOUT);
            }
            // Another session may receive this session's datagrams, so the wait is short.
            stop.wait_readable(
                self.acceptor.listener.as_fd(),
                deadline.min(Instant::now() + POLL_INTERVAL),
            )?;
        }
    }

    /// Opens a socket with these options for a flow. Fails if that is impossible. For lack of
    /// descriptors or memory, the source then stays the next one.
    ///
    /// `keeps_sending` is whether the peer sends without waiting for an answer. Some of its datagrams
    /// may then still arrive at the server's own socket; [`Self::collect_in_transit`] collects them.
    pub fn open(
        &self,
        source: &NewSource,
        options: &SocketOptions,
        keeps_sending: bool,
    ) -> Result<DatagramPeer, Error> {
        let from = &source.address;
        let bound = (&self.acceptor.listener, &self.acceptor.bound);
        // Opening the flow's socket changes the options of the listening socket, so other sessions
        // must wait.
        let mut state = self.acceptor.state();
        let socket = open_datagram_branch(bound, Transport::Udp, from, options);
        let socket = socket.map_err(|error| errno(&error)).inspect_err(|error| {
            // A source without a route must not block the next ones.
            if !is_exhaustion(*error) {
                state.waiting.remove(from);
            }
        })?;
        state.collect(self.acceptor);
        let waiting = state.waiting.remove(from).ok_or(Error::AGAIN)?;
        let now = Instant::now();
        state.known_sources.retain(|_, expiry| *expiry > now);
        state
            .known_sources
            .insert(from.clone(), now + KNOWN_SOURCE_TIME);
        state.sessions.extend_turn(self.id, now);
        if keeps_sending {
            state.in_transit_sources.insert(from.clone());
        }
        Ok(DatagramPeer {
            socket,
            from: from.clone(),
            first_datagrams: waiting.datagrams,
            candidates: waiting.owner.candidates,
        })
    }

    /// Lets a source wait for its next datagram.
    pub fn postpone(&self, source: &NewSource) {
        let mut state = self.acceptor.state();
        if let Some(waiting) = state.waiting.remove(&source.address) {
            let from = source.address.clone();
            state.unconfirmed.insert_unconfirmed(from, waiting);
        }
    }

    /// Collects datagrams that are still in transit to the server's own socket. Runs on the flow's
    /// own thread, so that other flows can be accepted meanwhile.
    pub fn collect_in_transit(&self, peer: &mut DatagramPeer) {
        // Datagrams at the new socket were sent after all those at the server's socket.
        let _ = call::wait_readable(peer.socket.as_fd(), MAX_TRANSIT_TIME);
        let mut state = self.acceptor.state();
        state.collect(self.acceptor);
        state.in_transit_sources.remove(&peer.from);
        if let Some(mut late) = state.waiting.remove(&peer.from) {
            peer.first_datagrams.append(&mut late.datagrams);
        }
    }

    /// Forgets a source that has no socket. Its further datagrams may begin a flow again.
    pub fn refuse(&self, from: &Address) {
        let mut state = self.acceptor.state();
        state.collect(self.acceptor);
        state.in_transit_sources.remove(from);
        state.known_sources.remove(from);
        state.waiting.remove(from);
    }
}

impl Drop for ExpectedFlows<'_> {
    fn drop(&mut self) {
        let mut state = self.acceptor.state();
        state.sessions.remove(self.id);
        state.reassign_datagrams(self.acceptor, self.id);
        drop(state);
        self.acceptor.turn_ended.notify_all();
    }
}

/// Returns whether the error ends when other clients leave.
pub fn is_exhaustion(error: Error) -> bool {
    matches!(
        error,
        Error::MFILE | Error::NFILE | Error::NOBUFS | Error::NOMEM
    )
}

fn errno(error: &SocketError) -> Error {
    Error::from_raw_os_error(error.errno())
}

impl State {
    /// Lets a session expect flows of `host`.
    fn begin(&mut self, acceptor: &DatagramAcceptor, id: u64, host: &Address, token: &[u8]) {
        // Datagrams received until now belong to other sessions.
        for _ in 0..MAX_INITIAL_RECEIVES {
            if self.collect(acceptor) {
                break;
            }
        }
        // A client may use the port of its last test again.
        self.known_sources
            .retain(|known, _| !host.shares_host_with(known));
        self.sessions.expect(id, Some(host), token);
    }

    /// Begins the turn of a queued session, if it is the next one and the turn before has ended.
    /// Returns whether the session expects flows.
    fn begin_turn(&mut self, session: &ExpectedFlows<'_>) -> bool {
        let ExpectedFlows { acceptor, host, id } = session;
        let Some(host) = host.as_ref().filter(|_| self.sessions.is_queued(*id)) else {
            return true;
        };
        let may_begin = self.sessions.take_turn(*id, host);
        if may_begin {
            self.begin(acceptor, *id, host, &[]);
        }
        may_begin
    }

    /// Receives pending datagrams for the sessions that expect them, at most [`MAX_RECEIVED`].
    /// Returns whether these were all.
    fn collect(&mut self, acceptor: &DatagramAcceptor) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(MAX_DATAGRAM_BYTES, 0);
        self.unconfirmed.remove_older(SECOND_DATAGRAM_TIME);
        let mut is_empty = false;
        for _ in 0..MAX_RECEIVED {
            match call::receive_from_without_waiting(acceptor.listener.as_fd(), &mut buffer) {
                Ok((length, Some(from))) => self.sort_in(acceptor, &from, &buffer[..length]),
                Ok((_, None)) | Err(Error::INTR) => {}
                Err(_) => {
                    is_empty = true;
                    break;
                }
            }
        }
        self.buffer = buffer;
        is_empty
    }

    /// Keeps a datagram if it belongs to a flow or may begin one.
    fn sort_in(&mut self, acceptor: &DatagramAcceptor, from: &Address, datagram: &[u8]) {
        let Some(owner) = self.sessions.owner(from, (acceptor.token_of)(datagram)) else {
            return;
        };
        let received_now = || FirstDatagram::received_now(datagram);
        if self.in_transit_sources.contains(from) {
            return self.waiting.push(from, owner, received_now());
        }
        let is_known =
            (self.known_sources.get(from)).is_some_and(|expiry| *expiry > Instant::now());
        if is_known || self.waiting.lacks_room_for(datagram.len()) {
            return;
        }
        if self.waiting.get(from).is_some() {
            self.waiting.push(from, owner, received_now());
        } else if let Some(mut source) = self.unconfirmed.remove(from) {
            source.datagrams.push(received_now());
            self.waiting.insert(from.clone(), source);
        } else if (acceptor.can_start_flow)(datagram) {
            let source = WaitingSource::new(owner, received_now());
            if acceptor.waits_for_second {
                self.unconfirmed.insert_unconfirmed(from.clone(), source);
            } else {
                self.waiting.insert(from.clone(), source);
            }
        }
    }

    /// Returns the next source of a flow for this session.
    fn next_source(&self, id: u64) -> Option<(&Address, &WaitingSource)> {
        let mut sources = self.waiting.iter();
        sources.find(|(from, source)| {
            source.owner.id == id && !self.in_transit_sources.contains(*from)
        })
    }

    /// Passes the datagrams of a session that has ended to the session that expects them now.
    fn reassign_datagrams(&mut self, acceptor: &DatagramAcceptor, id: u64) {
        let [mut waiting, mut unconfirmed] =
            [&mut self.waiting, &mut self.unconfirmed].map(std::mem::take);
        for queue in [&mut waiting, &mut unconfirmed] {
            queue.set_owners(|from, source| {
                if source.owner.id != id {
                    return Some(source.owner);
                }
                let first = source.datagrams.first()?;
                let token = (acceptor.token_of)(&first.data);
                self.sessions.owner(from, token)
            });
        }
        (self.waiting, self.unconfirmed) = (waiting, unconfirmed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::waiting_datagrams::{MAX_UNCONFIRMED, MAX_UNCONFIRMED_DATAGRAMS};

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn deadline() -> Instant {
        Instant::now() + TIMEOUT
    }

    fn open_acceptor(bind: &str) -> DatagramAcceptor {
        let bind = Address::Inet(bind.parse().unwrap());
        DatagramAcceptor::open(&bind, &SocketOptions::default()).unwrap()
    }

    /// Creates an acceptor with a socket like those that systemd passes to a service.
    fn open_inherited_acceptor(bind: &str) -> DatagramAcceptor {
        let address: std::net::SocketAddr = bind.parse().unwrap();
        let socket = Socket::new(
            socket2::Domain::for_address(address),
            sys::Type::DGRAM,
            None,
        )
        .unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&address.into()).unwrap();
        sys::option::set_default_receiver(socket.as_fd()).unwrap();
        DatagramAcceptor::from_listener(socket).unwrap()
    }

    fn client(acceptor: &DatagramAcceptor, host: &str) -> UdpSocket {
        let client = UdpSocket::bind((host, 0)).unwrap();
        let port = acceptor.address().port() as u16;
        client.connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client
    }

    fn data(peer: &DatagramPeer) -> Vec<&[u8]> {
        peer.first_datagrams
            .iter()
            .map(|first| &*first.data)
            .collect()
    }

    #[test]
    fn a_flood_leaves_room_for_the_first_datagram() {
        let acceptor = open_acceptor("127.0.0.1:0").with_large_buffer();
        let flood = client(&acceptor, "127.0.0.2");
        // Each takes 512 bytes of the buffer or more. A full buffer drops the last ones.
        for _ in 0..2 * LARGE_BUFFER_BYTES / 512 {
            flood.send(b"forged").unwrap();
        }
        let host = Address::Inet("127.0.0.1:1".parse().unwrap());
        let flows = acceptor.expect_flows(&host, &[]);
        let stop = Stop::new();
        flows.await_turn(deadline(), &stop).unwrap();
        let has_queue = call::wait_readable(acceptor.listener.as_fd(), Duration::ZERO);
        assert_eq!(has_queue, Ok(false));
        client(&acceptor, "127.0.0.1").send(b"hello").unwrap();
        let options = SocketOptions::default();
        let flow = flows.accept(&options, false, deadline(), &stop).unwrap();
        assert_eq!(data(&flow), [b"hello"]);
    }

    #[test]
    fn each_source_has_its_own_socket() {
        for acceptor in [
            open_acceptor("127.0.0.1:0"),
            open_acceptor("[::]:0"),
            open_inherited_acceptor("[::]:0"),
        ] {
            let [client_1, client_2] = [(); 2].map(|()| client(&acceptor, "127.0.0.1"));
            let (stop, options) = (Stop::new(), SocketOptions::default());
            let flows = acceptor.expect_all_flows();
            for datagrams in [[b"1a", b"2a"], [b"1b", b"2b"]] {
                client_1.send(datagrams[0]).unwrap();
                client_2.send(datagrams[1]).unwrap();
            }
            let mut first = flows.accept(&options, true, deadline(), &stop).unwrap();
            flows.collect_in_transit(&mut first);
            assert_eq!(data(&first), [b"1a", b"1b"]);
            client_1.send(b"1c").unwrap();
            client_2.send(b"2c").unwrap();
            let second = flows.accept(&options, true, deadline(), &stop).unwrap();
            assert_eq!(data(&second), [b"2a", b"2b", b"2c"]);
            client_2.send(b"2d").unwrap();
            let flows = [(&first, &client_1, b"1c"), (&second, &client_2, b"2d")];
            for (flow, client, expected) in flows {
                let mut buffer = [0; 8];
                let length = call::receive(flow.socket.as_fd(), &mut buffer).unwrap();
                assert_eq!(&buffer[..length], expected);
                // The answer comes from the destination address of the datagrams.
                call::send(flow.socket.as_fd(), b"answer").unwrap();
                assert_eq!(client.recv(&mut [0; 8]).unwrap(), 6);
            }
        }
    }

    #[test]
    fn a_refused_flow_may_begin_again() {
        let acceptor = open_acceptor("127.0.0.1:0").with_second_datagram();
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let flows = acceptor.expect_all_flows();
        let client = client(&acceptor, "127.0.0.1");
        for datagrams in [[b"1", b"2"], [b"3", b"4"]] {
            for datagram in datagrams {
                client.send(datagram).unwrap();
            }
            let flow = flows.accept(&options, true, deadline(), &stop).unwrap();
            assert_eq!(data(&flow), datagrams);
            let from = flow.from.clone();
            drop(flow);
            flows.refuse(&from);
        }
        let state = acceptor.state();
        assert!(state.in_transit_sources.is_empty() && state.known_sources.is_empty());
        assert!(state.waiting.iter().next().is_none());
    }

    #[test]
    fn sessions_get_the_flows_of_their_hosts() {
        let acceptor = open_acceptor("0.0.0.0:0");
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let hosts = ["127.0.0.2", "127.0.0.3"];
        let address = |host: &str| Address::Inet(format!("{host}:1").parse().unwrap());
        let clients = hosts.map(|host| client(&acceptor, host));
        clients[0].send(b"too early").unwrap();
        let begin_turn = |host: &str| {
            let flows = acceptor.expect_flows(&address(host), &[]);
            flows.await_turn(deadline(), &stop).map(|()| flows).unwrap()
        };
        let [first_flows, second_flows] = hosts.map(begin_turn);
        client(&acceptor, "127.0.0.4").send(b"nobody's").unwrap();
        for (client, datagram) in clients.iter().zip([b"one", b"two"]) {
            client.send(datagram).unwrap();
        }
        for (flows, expected) in [(&second_flows, b"two"), (&first_flows, b"one")] {
            let flow = flows.accept(&options, false, deadline(), &stop).unwrap();
            assert_eq!(data(&flow), [expected]);
        }
        let none = first_flows.accept(&options, false, Instant::now(), &stop);
        assert_eq!(none.err(), Some(Error::TIMEDOUT));
        drop(first_flows);
        let third_session = begin_turn(hosts[0]);
        // The socket of the first flow is closed, so its source may start another flow.
        clients[0].send(b"three").unwrap();
        let flow = third_session.accept(&options, false, deadline(), &stop);
        assert_eq!(data(&flow.unwrap()), [b"three"]);
    }

    #[test]
    fn a_flow_may_have_to_send_a_second_datagram() {
        let acceptor = open_acceptor("127.0.0.1:0").with_second_datagram();
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let flows = acceptor.expect_all_flows();
        let other = client(&acceptor, "127.0.0.1");
        let client = client(&acceptor, "127.0.0.1");
        other.send(b"forged").unwrap();
        client.send(b"1").unwrap();
        let none = flows.accept(&options, true, Instant::now(), &stop);
        assert_eq!(none.err(), Some(Error::TIMEDOUT));
        client.send(b"2").unwrap();
        let flow = flows.accept(&options, true, deadline(), &stop).unwrap();
        assert_eq!(data(&flow), [b"1", b"2"]);
    }

    #[test]
    fn a_flood_of_sources_keeps_those_that_send_on() {
        let acceptor = open_acceptor("127.0.0.1:0").with_second_datagram();
        let flows = acceptor.expect_all_flows();
        let forge = |number: u32| {
            let from = Address::Inet((number.to_be_bytes(), 1).into());
            acceptor.state().sort_in(&acceptor, &from, b"forged");
        };
        let (client, stop) = (client(&acceptor, "127.0.0.1"), Stop::new());
        client.send(b"1").unwrap();
        let none = flows.await_source(Instant::now(), &stop);
        assert_eq!(none.err(), Some(Error::TIMEDOUT));
        // A source that waits for its next datagram counts as the newest one.
        for datagram in 2..20 {
            (0..1000).for_each(|number| forge(datagram * 1000 + number));
            client.send(b"x").unwrap();
            let source = flows.await_source(deadline(), &stop).unwrap();
            assert_eq!(
                source.address.port(),
                u32::from(client.local_addr().unwrap().port())
            );
            flows.postpone(&source);
        }
        // The sources that have been silent for longest make room.
        assert_eq!(acceptor.state().unconfirmed.iter().count(), MAX_UNCONFIRMED);
        client.send(b"x").unwrap();
        let source = flows.await_source(deadline(), &stop).unwrap();
        let flow = flows
            .open(&source, &SocketOptions::default(), true)
            .unwrap();
        assert_eq!(data(&flow)[0], b"1");
    }

    #[test]
    fn a_source_becomes_continuous() {
        let acceptor = open_acceptor("127.0.0.1:0").with_second_datagram();
        let flows = acceptor.expect_all_flows();
        let (client, stop) = (client(&acceptor, "127.0.0.1"), Stop::new());
        client.send(b"1").unwrap();
        client.send(b"2").unwrap();
        let mut source = flows.await_source(deadline(), &stop).unwrap();
        while !source.is_continuous {
            flows.postpone(&source);
            client.send(b"x").unwrap();
            source = flows.await_source(deadline(), &stop).unwrap();
        }
        let mut state = acceptor.state();
        let waiting = state.waiting.remove(&source.address).unwrap();
        assert_eq!(&*waiting.datagrams[0].data, b"1");
        assert!(waiting.datagrams.len() <= MAX_UNCONFIRMED_DATAGRAMS + 1);
    }

    #[test]
    fn a_session_accepts_allowed_third_parties() {
        let mut allowed = ThirdParties::default();
        allowed.allow("127.0.0.3,127.0.0.4").unwrap();
        let acceptor = open_acceptor("0.0.0.0:0").with_third_parties(allowed);
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let hosts = ["127.0.0.2", "127.0.0.3"];
        let [first, second] = hosts.map(|host| {
            let flows =
                acceptor.expect_flows(&Address::Inet(format!("{host}:1").parse().unwrap()), &[]);
            flows.await_turn(deadline(), &stop).map(|()| flows).unwrap()
        });
        for (host, datagram) in [
            ("127.0.0.5", b"5"),
            ("127.0.0.3", b"3"),
            ("127.0.0.4", b"4"),
        ] {
            client(&acceptor, host).send(datagram).unwrap();
        }
        // The last session gets the flow that no session expects.
        for (expected, candidates) in [(b"3", 1), (b"4", 2)] {
            let flow = second.accept(&options, false, deadline(), &stop).unwrap();
            assert_eq!(
                (data(&flow), flow.candidates),
                (vec![&expected[..]], candidates)
            );
        }
        let none = first.accept(&options, false, Instant::now(), &stop);
        assert_eq!(none.err(), Some(Error::TIMEDOUT));
    }

    #[test]
    fn a_silent_session_holds_its_turn_for_a_bounded_time() {
        let acceptor = open_acceptor("127.0.0.1:0");
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let host = Address::Inet("127.0.0.1:1".parse().unwrap());
        let [silent, second, third] = [(); 3].map(|()| acceptor.expect_flows(&host, &[]));
        silent.await_turn(Instant::now(), &stop).unwrap();
        let early = second.await_turn(Instant::now(), &stop);
        assert_eq!(early, Err(Error::TIMEDOUT));
        // The newest of the waiting sessions follows the oldest one.
        third.await_turn(deadline(), &stop).unwrap();
        let [client_1, client_2] = [(); 2].map(|()| client(&acceptor, "127.0.0.1"));
        client_1.send(b"1").unwrap();
        client_2.send(b"2").unwrap();
        let flow = third.accept(&options, false, deadline(), &stop).unwrap();
        assert_eq!((data(&flow), flow.candidates), (vec![&b"1"[..]], 2));
        drop(third);
        second.await_turn(Instant::now(), &stop).unwrap();
        let flow = silent.accept(&options, false, deadline(), &stop).unwrap();
        assert_eq!((data(&flow), flow.candidates), (vec![&b"2"[..]], 1));
    }

    #[test]
    fn a_token_identifies_the_session_without_a_turn() {
        let acceptor = open_acceptor("0.0.0.0:0").with_tokens(|datagram| &datagram[1..]);
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let host = Address::Inet("127.0.0.1:1".parse().unwrap());
        let silent = acceptor.expect_flows(&host, &[]);
        silent.await_turn(Instant::now(), &stop).unwrap();
        let [red, blue] = [b"red", b"blu"].map(|token| acceptor.expect_flows(&host, token));
        red.await_turn(Instant::now(), &stop).unwrap();
        let datagrams = [
            ("127.0.0.2", &b"1red"[..]),
            ("127.0.0.1", b"2re"),
            ("127.0.0.1", b"3green"),
            ("127.0.0.1", b"4blu"),
            ("127.0.0.1", b"5"),
            ("127.0.0.1", b"6red"),
        ];
        let _clients = datagrams.map(|(from, datagram)| {
            let client = client(&acceptor, from);
            client.send(datagram).unwrap();
            client
        });
        for (session, expected) in [(&red, &b"6red"[..]), (&blue, b"4blu"), (&silent, b"5")] {
            let flow = session.accept(&options, false, deadline(), &stop).unwrap();
            assert_eq!((data(&flow), flow.candidates), (vec![expected], 1));
            let none = session.accept(&options, false, Instant::now(), &stop);
            assert_eq!(none.err(), Some(Error::TIMEDOUT));
        }
    }

    #[test]
    fn waiting_datagrams_are_bounded() {
        let acceptor = open_acceptor("127.0.0.1:0");
        let client = client(&acceptor, "127.0.0.1");
        let flows = acceptor.expect_all_flows();
        for _ in 0..4 * MAX_WAITING {
            client.send(b"x").unwrap();
            acceptor.state().collect(&acceptor);
        }
        let counts = || {
            let state = acceptor.state();
            (state.waiting.iter().count(), state.waiting.datagrams)
        };
        assert_eq!(counts(), (1, MAX_WAITING));
        drop(flows);
        assert_eq!(counts(), (0, 0));
    }
}
