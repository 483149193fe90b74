//! Acceptance of datagram flows that arrive at one socket from different source addresses.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{FirstDatagram, SocketError, Stop, open_datagram_branch, open_datagram_listener};
use model::{SocketOptions, Transport};
use sys::call::{self, Error};
use sys::{Address, Socket};

use crate::ThirdParties;

/// The maximum numbers of datagrams, and of their bytes, that wait for a session. Further datagrams
/// are dropped.
const MAX_WAITING: usize = 1024;
const MAX_WAITING_BYTES: usize = 4 << 20;

/// The interval at which a session checks whether another session received datagrams for it.
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
    /// Whether a flow begins with its second datagram.
    waits_for_second: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Addresses whose flows any session accepts, unless another session expects their host.
    third_parties: ThirdParties,
    /// The hosts expected by sessions, each with the session's identifier; `None` means any host.
    expected: Vec<(u64, Option<Address>)>,
    waiting: DatagramQueue,
    /// The first datagrams of sources that must send a second one.
    singles: DatagramQueue,
    known_sources: Vec<(Address, Instant)>,
    /// Sources with their own socket whose datagrams may still arrive at the server's socket.
    in_transit_sources: Vec<Address>,
    last_id: u64,
}

/// Datagrams in the order of their arrival, with their sources.
#[derive(Debug, Default)]
struct DatagramQueue {
    datagrams: VecDeque<(Address, FirstDatagram)>,
    bytes: usize,
}

/// The registration of a session that expects flows. Dropping it allows the next session for the
/// same host.
#[derive(Debug)]
#[must_use]
pub struct ExpectedFlows<'a> {
    acceptor: &'a DatagramAcceptor,
    host: Option<Address>,
    id: u64,
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
            waits_for_second: false,
            state: Mutex::default(),
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

    /// Accepts a flow only when its second datagram has arrived, so that a forged datagram costs no
    /// socket and no thread. The oldest waiting datagrams make room for new ones.
    #[must_use]
    pub fn with_second_datagram(self) -> Self {
        Self {
            waits_for_second: true,
            ..self
        }
    }

    /// Lets each session also accept flows from these addresses, unless another session expects
    /// their host.
    #[must_use]
    pub fn with_third_parties(self, third_parties: ThirdParties) -> Self {
        self.state().third_parties = third_parties;
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

    /// Expects flows of a host, or of any host. Waits while another session expects flows of the
    /// same host, because their first datagrams do not identify the session. Drops earlier
    /// datagrams from that host.
    ///
    /// Call it before the peer receives the request to start.
    pub fn expect_flows(
        &self,
        host: Option<&Address>,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<ExpectedFlows<'_>, Error> {
        let conflicts = |other: &Option<Address>| match (host, other) {
            (Some(host), Some(other)) => host.shares_host_with(other),
            _ => true,
        };
        loop {
            let mut state = self.state();
            if !state.expected.iter().any(|(_, other)| conflicts(other)) {
                if let Some(host) = host {
                    // No session expects these datagrams.
                    state.collect(self);
                    // A client may use the port of its last test again.
                    state
                        .known_sources
                        .retain(|(known, _)| !host.shares_host_with(known));
                }
                state.last_id += 1;
                let id = state.last_id;
                state.expected.push((id, host.cloned()));
                return Ok(ExpectedFlows {
                    acceptor: self,
                    host: host.cloned(),
                    id,
                });
            }
            drop(state);
            wait_before_retry(deadline, stop)?;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_before_retry(deadline: Instant, stop: &Stop) -> Result<(), Error> {
    if stop.is_set() {
        return Err(Error::CANCELED);
    }
    if Instant::now() >= deadline {
        return Err(Error::TIMEDOUT);
    }
    std::thread::sleep(POLL_INTERVAL);
    Ok(())
}

impl ExpectedFlows<'_> {
    /// Accepts the next flow on a new socket with these options. Returns [`Error::TIMEDOUT`] if
    /// none arrives before `deadline`. `keeps_sending` is whether the peer sends without waiting
    /// for an answer. Some of its datagrams may then still arrive at the server's own socket;
    /// [`Self::collect_in_transit`] collects them.
    pub fn accept(
        &self,
        options: &SocketOptions,
        keeps_sending: bool,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<DatagramPeer, Error> {
        let listener = &self.acceptor.listener;
        loop {
            let mut state = self.acceptor.state();
            state.collect(self.acceptor);
            if let Some(from) = state.next_source(self.host.as_ref()) {
                // Opening the flow's socket changes the options of the listening socket, so other
                // sessions must wait.
                let bound = (listener, &self.acceptor.bound);
                let socket = open_datagram_branch(bound, Transport::Udp, &from, options);
                let socket = socket.map_err(|error| errno(&error))?;
                state.collect(self.acceptor);
                let first_datagrams = state.waiting.remove(&from);
                state
                    .known_sources
                    .push((from.clone(), Instant::now() + KNOWN_SOURCE_TIME));
                if keeps_sending {
                    state.in_transit_sources.push(from.clone());
                }
                return Ok(DatagramPeer {
                    socket,
                    from,
                    first_datagrams,
                });
            }
            drop(state);
            if Instant::now() >= deadline {
                return Err(Error::TIMEDOUT);
            }
            // Another session may receive this session's datagrams, so the wait is short.
            stop.wait_readable(
                listener.as_fd(),
                deadline.min(Instant::now() + POLL_INTERVAL),
            )?;
        }
    }

    /// Collects datagrams that are still in transit to the server's own socket. Runs on the flow's
    /// own thread, so that other flows can be accepted meanwhile.
    pub fn collect_in_transit(&self, peer: &mut DatagramPeer) {
        // Datagrams at the new socket were sent after all those at the server's socket.
        let _ = call::wait_readable(peer.socket.as_fd(), MAX_TRANSIT_TIME);
        let mut state = self.acceptor.state();
        state.collect(self.acceptor);
        state
            .in_transit_sources
            .retain(|source| *source != peer.from);
        peer.first_datagrams
            .append(&mut state.waiting.remove(&peer.from));
    }
}

impl Drop for ExpectedFlows<'_> {
    fn drop(&mut self) {
        let mut state = self.acceptor.state();
        state.expected.retain(|(id, _)| *id != self.id);
        state.drop_unexpected();
    }
}

fn errno(error: &SocketError) -> Error {
    Error::from_raw_os_error(error.errno())
}

impl State {
    /// Receives all pending datagrams for the sessions that expect them.
    fn collect(&mut self, acceptor: &DatagramAcceptor) {
        let mut buffer = vec![0; 1 << 16];
        let now = Instant::now();
        self.known_sources.retain(|(_, expiry)| *expiry > now);
        while self.singles.first_age() > Some(SECOND_DATAGRAM_TIME) {
            self.singles.pop_first();
        }
        loop {
            let (length, from) =
                match call::receive_from_without_waiting(acceptor.listener.as_fd(), &mut buffer) {
                    Ok((length, Some(from))) => (length, from),
                    Ok((_, None)) | Err(Error::INTR) => continue,
                    Err(_) => return,
                };
            let is_in_transit = self.in_transit_sources.contains(&from);
            let is_known = self.known_sources.iter().any(|(known, _)| *known == from);
            let is_full = self.waiting.lacks_room_for(length);
            let has_earlier = || self.waiting.contains(&from) || self.singles.contains(&from);
            let can_start_flow = || (acceptor.can_start_flow)(&buffer[..length]) || has_earlier();
            if is_in_transit || (!is_known && !is_full && self.expects(&from) && can_start_flow()) {
                let datagram = FirstDatagram::received_now(&buffer[..length]);
                self.keep(from, datagram, acceptor.waits_for_second && !is_in_transit);
            }
        }
    }

    /// Keeps a datagram for a session; with `waits_for_second`, only when another one of its source
    /// has arrived. The oldest single datagrams make room for new ones.
    fn keep(&mut self, from: Address, datagram: FirstDatagram, waits_for_second: bool) {
        if waits_for_second && !self.waiting.contains(&from) {
            let Some(first) = self.singles.remove(&from).pop() else {
                while self.singles.lacks_room_for(datagram.data.len()) {
                    self.singles.pop_first();
                }
                self.singles.push(from, datagram);
                return;
            };
            self.waiting.push(from.clone(), first);
        }
        self.waiting.push(from, datagram);
    }

    fn expects(&self, from: &Address) -> bool {
        let mut hosts = self.expected.iter().map(|(_, host)| host.as_ref());
        hosts.any(|host| self.is_for(host, from))
    }

    /// Returns whether a session that expects `host` accepts flows of `from`.
    fn is_for(&self, host: Option<&Address>, from: &Address) -> bool {
        let is_expected = || {
            let mut hosts = self.expected.iter().filter_map(|(_, host)| host.as_ref());
            hosts.any(|host| host.shares_host_with(from))
        };
        host.is_none_or(|host| {
            host.shares_host_with(from) || (self.third_parties.contain(from) && !is_expected())
        })
    }

    fn next_source(&self, host: Option<&Address>) -> Option<Address> {
        let mut sources = self.waiting.datagrams.iter().map(|(from, _)| from);
        let is_new =
            |from: &&Address| !self.in_transit_sources.contains(from) && self.is_for(host, from);
        sources.find(is_new).cloned()
    }

    fn drop_unexpected(&mut self) {
        let [mut waiting, mut singles] = [&mut self.waiting, &mut self.singles].map(std::mem::take);
        for queue in [&mut waiting, &mut singles] {
            queue.retain(|from| self.expects(from));
        }
        (self.waiting, self.singles) = (waiting, singles);
    }
}

impl DatagramQueue {
    fn push(&mut self, from: Address, datagram: FirstDatagram) {
        self.bytes += datagram.data.len();
        self.datagrams.push_back((from, datagram));
    }

    fn pop_first(&mut self) {
        let first = self.datagrams.pop_front();
        self.bytes -= first.map_or(0, |(_, first)| first.data.len());
    }

    /// Returns the time since the arrival of the first datagram.
    fn first_age(&self) -> Option<Duration> {
        self.datagrams.front().map(|(_, first)| first.age())
    }

    fn contains(&self, source: &Address) -> bool {
        self.datagrams.iter().any(|(from, _)| from == source)
    }

    fn lacks_room_for(&self, length: usize) -> bool {
        !self.datagrams.is_empty()
            && (self.datagrams.len() >= MAX_WAITING || self.bytes + length > MAX_WAITING_BYTES)
    }

    /// Removes and returns the datagrams of a source.
    fn remove(&mut self, source: &Address) -> Vec<FirstDatagram> {
        if !self.contains(source) {
            return Vec::new();
        }
        let datagrams = std::mem::take(&mut self.datagrams);
        let mut removed = Vec::new();
        for (from, datagram) in datagrams {
            if from == *source {
                self.bytes -= datagram.data.len();
                removed.push(datagram);
            } else {
                self.datagrams.push_back((from, datagram));
            }
        }
        removed
    }

    fn retain(&mut self, mut is_kept: impl FnMut(&Address) -> bool) {
        self.datagrams.retain(|(from, _)| is_kept(from));
        let lengths = self
            .datagrams
            .iter()
            .map(|(_, datagram)| datagram.data.len());
        self.bytes = lengths.sum();
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

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
    fn each_source_has_its_own_socket() {
        for acceptor in [
            open_acceptor("127.0.0.1:0"),
            open_acceptor("[::]:0"),
            open_inherited_acceptor("[::]:0"),
        ] {
            let [client_1, client_2] = [(); 2].map(|()| client(&acceptor, "127.0.0.1"));
            let (stop, options) = (Stop::new(), SocketOptions::default());
            let flows = acceptor.expect_flows(None, deadline(), &stop).unwrap();
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
    fn sessions_get_the_flows_of_their_hosts() {
        let acceptor = open_acceptor("0.0.0.0:0");
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let hosts = ["127.0.0.2", "127.0.0.3"];
        let address = |host: &str| Address::Inet(format!("{host}:1").parse().unwrap());
        let clients = hosts.map(|host| client(&acceptor, host));
        clients[0].send(b"too early").unwrap();
        let [first_flows, second_flows] =
            hosts.map(|host| acceptor.expect_flows(Some(&address(host)), deadline(), &stop));
        let (first_flows, second_flows) = (first_flows.unwrap(), second_flows.unwrap());
        // A second session for a host waits for the first to end.
        let second_session = acceptor.expect_flows(Some(&address(hosts[0])), Instant::now(), &stop);
        assert_eq!(second_session.err(), Some(Error::TIMEDOUT));
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
        let third_session = acceptor.expect_flows(Some(&address(hosts[0])), deadline(), &stop);
        let third_session = third_session.unwrap();
        // The socket of the first flow is closed, so its source may start another flow.
        clients[0].send(b"three").unwrap();
        let flow = third_session.accept(&options, false, deadline(), &stop);
        assert_eq!(data(&flow.unwrap()), [b"three"]);
    }

    #[test]
    fn a_flow_may_have_to_send_a_second_datagram() {
        let acceptor = open_acceptor("127.0.0.1:0").with_second_datagram();
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let flows = acceptor.expect_flows(None, deadline(), &stop).unwrap();
        let other = client(&acceptor, "127.0.0.1");
        let client = client(&acceptor, "127.0.0.1");
        other.send(b"forged").unwrap();
        client.send(b"1").unwrap();
        let none = flows.accept(&options, true, Instant::now(), &stop);
        assert_eq!(none.err(), Some(Error::TIMEDOUT));
        client.send(b"2").unwrap();
        let flow = flows.accept(&options, true, deadline(), &stop).unwrap();
        assert_eq!(data(&flow), [b"1", b"2"]);
        // Single datagrams make room for new sources.
        let forged = |port: u16| Address::Inet(([192, 0, 2, 1], port).into());
        let mut state = acceptor.state();
        for port in 1..MAX_WAITING as u16 {
            let datagram = FirstDatagram::received_now(b"x");
            state.singles.push(forged(port), datagram);
        }
        drop(state);
        let client = super::tests::client(&acceptor, "127.0.0.1");
        client.send(b"1").unwrap();
        client.send(b"2").unwrap();
        let flow = flows.accept(&options, true, deadline(), &stop).unwrap();
        assert_eq!(data(&flow), [b"1", b"2"]);
    }

    #[test]
    fn a_session_accepts_allowed_third_parties() {
        let mut allowed = ThirdParties::default();
        allowed.allow("127.0.0.3,127.0.0.4").unwrap();
        let acceptor = open_acceptor("0.0.0.0:0").with_third_parties(allowed);
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let hosts = ["127.0.0.2", "127.0.0.3"];
        let [first, second] = hosts.map(|host| {
            let host = Address::Inet(format!("{host}:1").parse().unwrap());
            acceptor
                .expect_flows(Some(&host), deadline(), &stop)
                .unwrap()
        });
        for (host, datagram) in [
            ("127.0.0.5", b"5"),
            ("127.0.0.3", b"3"),
            ("127.0.0.4", b"4"),
        ] {
            client(&acceptor, host).send(datagram).unwrap();
        }
        // The first session does not get the flow that the second one expects.
        for (session, expected) in [(&first, b"4"), (&second, b"3")] {
            let flow = session.accept(&options, false, deadline(), &stop).unwrap();
            assert_eq!(data(&flow), [expected]);
        }
    }

    #[test]
    fn waiting_datagrams_are_bounded() {
        let acceptor = open_acceptor("127.0.0.1:0");
        let (stop, client) = (Stop::new(), client(&acceptor, "127.0.0.1"));
        let flows = acceptor.expect_flows(None, deadline(), &stop).unwrap();
        for _ in 0..4 * MAX_WAITING {
            client.send(b"x").unwrap();
            acceptor.state().collect(&acceptor);
        }
        assert_eq!(acceptor.state().waiting.datagrams.len(), MAX_WAITING);
        drop(flows);
        let state = acceptor.state();
        assert_eq!((state.waiting.datagrams.len(), state.waiting.bytes), (0, 0));
    }
}
