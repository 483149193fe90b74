//! Flows that arrive at one datagram socket and differ by their source address.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{FirstDatagram, SocketError, Stop, datagram_branch, datagram_listener};
use model::{SocketOptions, Transport};
use sys::call::{self, Error};
use sys::{Address, Socket};

/// The maximum number of datagrams that wait for a session, and of their bytes. Further datagrams are dropped.
const MOST_WAITING: usize = 1024;
const MOST_BYTES: usize = 4 << 20;

/// The interval at which a session checks for datagrams that another session received for it.
const LOOK: Duration = Duration::from_millis(20);

/// The maximum time a datagram takes through this host. A later one arrives at the flow's own socket.
const ON_ITS_WAY: Duration = Duration::from_millis(2);

/// The time for which a source with a socket of its own does not count as new.
const KNOWN: Duration = Duration::from_secs(1);

/// The datagram socket of a server. Each source of datagrams gets a connected socket at the same address and port.
#[derive(Debug)]
pub struct DatagramDoor {
    listener: Socket,
    bound: Address,
    /// Whether a flow may begin with this datagram.
    begins: fn(&[u8]) -> bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The hosts expected by sessions, each with the session's number; `None` means any host.
    expected: Vec<(u64, Option<Address>)>,
    waiting: VecDeque<(Address, FirstDatagram)>,
    bytes: usize,
    known: Vec<(Address, Instant)>,
    /// Sources whose datagrams may still arrive here after their socket was opened.
    settling: Vec<Address>,
    last_number: u64,
}

/// A session that expects flows. Dropping it admits the next session for the same host.
#[derive(Debug)]
#[must_use]
pub struct ExpectedFlows<'a> {
    door: &'a DatagramDoor,
    host: Option<Address>,
    number: u64,
}

/// A flow of datagrams.
#[derive(Debug)]
pub struct DatagramPeer {
    /// The socket, connected to the source, at the server's address and port.
    pub socket: Socket,
    /// The address of the source.
    pub from: Address,
    /// Datagrams received before the socket existed, in order; at least one.
    pub first: Vec<FirstDatagram>,
}

impl DatagramDoor {
    /// Opens the socket.
    pub fn open(bind: &Address, options: &SocketOptions) -> Result<Self, SocketError> {
        let listener = datagram_listener(Transport::Udp, bind, options)?;
        Self::of(listener).map_err(|error| SocketError::Refused {
            what: "bind it",
            error,
        })
    }

    /// Wraps a [`datagram_listener`].
    pub fn of(listener: Socket) -> io::Result<Self> {
        Ok(Self {
            bound: Address::of(&listener)?,
            listener,
            begins: |_| true,
            state: Mutex::default(),
        })
    }

    /// Restricts new flows to those whose first datagram passes this check. Datagrams of other new sources are dropped.
    #[must_use]
    pub fn beginning_with(self, begins: fn(&[u8]) -> bool) -> Self {
        Self { begins, ..self }
    }

    /// Returns the address and port where flows arrive.
    pub fn address(&self) -> &Address {
        &self.bound
    }

    /// Returns the granted size of the socket's receive buffer, in bytes.
    pub fn receive_buffer_bytes(&self) -> u32 {
        self.listener.recv_buffer_size().unwrap_or(0) as u32
    }

    /// Expects flows of a host, or of any host. Waits while another session expects flows of the same host, because
    /// their first datagrams do not identify the session. Drops earlier datagrams from that host.
    ///
    /// Call it before the peer receives the request to start.
    pub fn expect(
        &self,
        host: Option<&Address>,
        until: Instant,
        stop: &Stop,
    ) -> Result<ExpectedFlows<'_>, Error> {
        let is_same = |other: &Option<Address>| match (host, other) {
            (Some(host), Some(other)) => host.shares_host_with(other),
            _ => true,
        };
        loop {
            let mut state = self.state();
            if !state.expected.iter().any(|(_, other)| is_same(other)) {
                if host.is_some() {
                    // No session expects these datagrams.
                    state.collect(self);
                }
                state.last_number += 1;
                let number = state.last_number;
                state.expected.push((number, host.cloned()));
                return Ok(ExpectedFlows {
                    door: self,
                    host: host.cloned(),
                    number,
                });
            }
            drop(state);
            pause(until, stop)?;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(until: Instant, stop: &Stop) -> Result<(), Error> {
    if stop.is_set() {
        return Err(Error::CANCELED);
    }
    if Instant::now() >= until {
        return Err(Error::TIMEDOUT);
    }
    std::thread::sleep(LOOK);
    Ok(())
}

impl ExpectedFlows<'_> {
    /// Accepts the next flow on a socket with these options. Returns [`Error::TIMEDOUT`] if none arrives before
    /// `until`. A peer with `goes_on` does not wait for an answer, so some of its datagrams may still arrive at the
    /// server's own socket. [`Self::settle`] collects them.
    pub fn next(
        &self,
        options: &SocketOptions,
        goes_on: bool,
        until: Instant,
        stop: &Stop,
    ) -> Result<DatagramPeer, Error> {
        let listener = &self.door.listener;
        loop {
            let mut state = self.door.state();
            state.collect(self.door);
            if let Some(from) = state.next_source(self.host.as_ref()) {
                // Opening the branch changes the options of the listening socket, so other sessions must wait.
                let bound = (listener, &self.door.bound);
                let socket = datagram_branch(bound, Transport::Udp, &from, options);
                let socket = socket.map_err(|error| errno(&error))?;
                state.collect(self.door);
                let first = state.take(&from);
                state.known.push((from.clone(), Instant::now() + KNOWN));
                if goes_on {
                    state.settling.push(from.clone());
                }
                return Ok(DatagramPeer {
                    socket,
                    from,
                    first,
                });
            }
            drop(state);
            if Instant::now() >= until {
                return Err(Error::TIMEDOUT);
            }
            // Another session may receive the datagrams of this one.
            stop.wait_readable(listener.as_fd(), until.min(Instant::now() + LOOK))?;
        }
    }

    /// Collects datagrams that are still in transit to the server's own socket. Runs on the flow's own thread, so that
    /// other flows can be accepted meanwhile.
    pub fn settle(&self, peer: &mut DatagramPeer) {
        // Datagrams at the new socket were sent after all those at the server's socket.
        let _ = call::wait_readable(peer.socket.as_fd(), ON_ITS_WAY);
        let mut state = self.door.state();
        state.collect(self.door);
        state.settling.retain(|source| *source != peer.from);
        peer.first.append(&mut state.take(&peer.from));
    }
}

impl Drop for ExpectedFlows<'_> {
    fn drop(&mut self) {
        let mut state = self.door.state();
        state.expected.retain(|(number, _)| *number != self.number);
        state.drop_unexpected();
    }
}

fn errno(error: &SocketError) -> Error {
    Error::from_raw_os_error(error.errno())
}

impl State {
    /// Receives all pending datagrams for the sessions that expect them.
    fn collect(&mut self, door: &DatagramDoor) {
        let mut buffer = vec![0; 1 << 16];
        let now = Instant::now();
        self.known.retain(|(_, until)| *until > now);
        loop {
            let (length, from) =
                match call::receive_from_without_waiting(door.listener.as_fd(), &mut buffer) {
                    Ok((length, Some(from))) => (length, from),
                    Ok((_, None)) | Err(Error::INTR) => continue,
                    Err(_) => return,
                };
            let is_late = self.settling.contains(&from);
            let is_known = self.known.iter().any(|(known, _)| *known == from);
            let is_full = self.waiting.len() >= MOST_WAITING || self.bytes + length > MOST_BYTES;
            let waits = || self.waiting.iter().any(|(other, _)| *other == from);
            let begins = || (door.begins)(&buffer[..length]) || waits();
            if is_late || (!is_known && !is_full && self.expects(&from) && begins()) {
                self.bytes += length;
                let datagram = FirstDatagram::now(&buffer[..length]);
                self.waiting.push_back((from, datagram));
            }
        }
    }

    fn expects(&self, from: &Address) -> bool {
        let mut hosts = self.expected.iter().map(|(_, host)| host.as_ref());
        hosts.any(|host| host.is_none_or(|host| host.shares_host_with(from)))
    }

    fn next_source(&self, host: Option<&Address>) -> Option<Address> {
        let mut sources = self.waiting.iter().map(|(from, _)| from);
        let is_host = |from: &Address| host.is_none_or(|host| host.shares_host_with(from));
        let next = sources.find(|from| is_host(from) && !self.settling.contains(from));
        next.cloned()
    }

    /// Removes and returns the datagrams of a source.
    fn take(&mut self, source: &Address) -> Vec<FirstDatagram> {
        let waiting = std::mem::take(&mut self.waiting);
        let (taken, left): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(from, _)| from == source);
        self.keep(left.into());
        taken.into_iter().map(|(_, datagram)| datagram).collect()
    }

    fn drop_unexpected(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|(from, _)| self.expects(from));
        self.keep(waiting);
    }

    fn keep(&mut self, waiting: VecDeque<(Address, FirstDatagram)>) {
        self.bytes = waiting
            .iter()
            .map(|(_, datagram)| datagram.data.len())
            .sum();
        self.waiting = waiting;
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn soon() -> Instant {
        Instant::now() + PATIENCE
    }

    fn door(bind: &str) -> DatagramDoor {
        let bind = Address::Inet(bind.parse().unwrap());
        DatagramDoor::open(&bind, &SocketOptions::default()).unwrap()
    }

    /// Creates a socket like one passed by systemd.
    fn handed_over(bind: &str) -> DatagramDoor {
        let at: std::net::SocketAddr = bind.parse().unwrap();
        let socket = Socket::new(socket2::Domain::for_address(at), sys::Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&at.into()).unwrap();
        sys::option::set_first_of_address(socket.as_fd()).unwrap();
        DatagramDoor::of(socket).unwrap()
    }

    fn client(door: &DatagramDoor, host: &str) -> UdpSocket {
        let client = UdpSocket::bind((host, 0)).unwrap();
        let port = door.address().port() as u16;
        client.connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
    }

    fn data(peer: &DatagramPeer) -> Vec<&[u8]> {
        peer.first.iter().map(|first| &*first.data).collect()
    }

    #[test]
    fn each_source_has_a_socket_of_its_own() {
        for door in [door("127.0.0.1:0"), door("[::]:0"), handed_over("[::]:0")] {
            let [one, two] = [(); 2].map(|()| client(&door, "127.0.0.1"));
            let (stop, options) = (Stop::new(), SocketOptions::default());
            let flows = door.expect(None, soon(), &stop).unwrap();
            for (client, datagram) in [(&one, b"1a"), (&two, b"2a"), (&one, b"1b"), (&two, b"2b")] {
                client.send(datagram).unwrap();
            }
            let mut first = flows.next(&options, true, soon(), &stop).unwrap();
            flows.settle(&mut first);
            assert_eq!(data(&first), [b"1a", b"1b"]);
            one.send(b"1c").unwrap();
            two.send(b"2c").unwrap();
            let second = flows.next(&options, true, soon(), &stop).unwrap();
            assert_eq!(data(&second), [b"2a", b"2b", b"2c"]);
            two.send(b"2d").unwrap();
            for (flow, client, expected) in [(&first, &one, b"1c"), (&second, &two, b"2d")] {
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
        let door = door("0.0.0.0:0");
        let (stop, options) = (Stop::new(), SocketOptions::default());
        let hosts = ["127.0.0.2", "127.0.0.3"];
        let address = |host: &str| Address::Inet(format!("{host}:1").parse().unwrap());
        let clients = hosts.map(|host| client(&door, host));
        clients[0].send(b"too early").unwrap();
        let [one, two] = hosts.map(|host| door.expect(Some(&address(host)), soon(), &stop));
        let (one, two) = (one.unwrap(), two.unwrap());
        // A second session for a host waits for the first to end.
        let again = door.expect(Some(&address(hosts[0])), Instant::now(), &stop);
        assert_eq!(again.err(), Some(Error::TIMEDOUT));
        client(&door, "127.0.0.4").send(b"nobody's").unwrap();
        for (client, datagram) in clients.iter().zip([b"one", b"two"]) {
            client.send(datagram).unwrap();
        }
        for (flows, expected) in [(&two, b"two"), (&one, b"one")] {
            let flow = flows.next(&options, false, soon(), &stop).unwrap();
            assert_eq!(data(&flow), [expected]);
        }
        let none = one.next(&options, false, Instant::now(), &stop);
        assert_eq!(none.err(), Some(Error::TIMEDOUT));
        drop(one);
        assert!(door.expect(Some(&address(hosts[0])), soon(), &stop).is_ok());
    }

    #[test]
    fn what_waits_is_bounded() {
        let door = door("127.0.0.1:0");
        let (stop, client) = (Stop::new(), client(&door, "127.0.0.1"));
        let flows = door.expect(None, soon(), &stop).unwrap();
        for _ in 0..4 * MOST_WAITING {
            client.send(b"x").unwrap();
            door.state().collect(&door);
        }
        assert_eq!(door.state().waiting.len(), MOST_WAITING);
        drop(flows);
        let state = door.state();
        assert_eq!((state.waiting.len(), state.bytes), (0, 0));
    }
}
