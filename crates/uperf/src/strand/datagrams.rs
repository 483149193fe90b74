//! UDP "connections" of one strand. All arrive at one port, and each begins with a handshake.
//!
//! The listening socket stays unconnected while its strand runs, so the next handshake can arrive
//! while the last connection is still open. For each accepted handshake, a second socket at the
//! same address and port is connected to the sender: a branch. The I/O loops then use an ordinary
//! socket. Replies leave from the address that the peer sent to. The kernel delivers no datagrams
//! of other peers to the branch.
//!
//! The kernel first looks up the socket of a datagram and queues it there a little later. A
//! datagram can therefore arrive at the wrong socket if a branch opens or closes in between.
//!
//! - When a branch opens, earlier datagrams of the peer arrive at the listening socket, even after
//!   connect(2) has returned. That queue is read until the first datagram arrives at the branch.
//! - When a branch closes, the peer may have closed its socket before, and its next socket may have
//!   the same port. The branch is retired: it stays open, unused, until the next handshake arrives.
//!   Its queue is read for that handshake.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::script::{Connection, EarlyDatagrams, EarlySocket};
use engine::{BudgetShare, Stop, open_datagram_branch};
use model::{SocketOptions, Transport};
use server::{DataPeer, IsOtherPeer, UNEXPECTED_PEER_WAIT};
use socket2::SockRef;
use sys::call::{self, Error};
use sys::{Address, Socket};

use crate::run_budget::RunBudget;

use super::endpoints::ACCEPT_TIMEOUT;

/// Content of the first datagram of a UDP "connection".
pub(super) const HANDSHAKE: &[u8] = b"uperf udp handshake";

/// Maximum size of a datagram, bytes.
const MAX_DATAGRAM_BYTES: usize = 65_536;

/// Maximum number of handshakes that wait to be accepted.
const MAX_CANDIDATES: usize = 64;

/// Maximum number of datagrams that one read of the queue takes. It is more than a queue of default
/// size holds.
const MAX_DATAGRAMS_PER_READ: usize = 4096;

/// Maximum number of datagrams that are read between two choices of a handshake.
const MAX_DATAGRAMS_PER_CHOICE: usize = 64;

/// Memory that a waiting datagram uses in addition to its content, bytes.
const DATAGRAM_OVERHEAD_BYTES: usize = 64;

/// A socket that accepts UDP "connections". Its clones share one queue and run on the thread of one
/// strand.
#[derive(Clone, Debug)]
pub(super) struct DatagramListener {
    socket: Arc<Socket>,
    address: Address,
    queue: Arc<Mutex<HandshakeQueue>>,
}

/// Datagrams that arrived at the listening socket.
#[derive(Debug)]
struct HandshakeQueue {
    socket: Arc<Socket>,
    address: Address,
    /// Senders of waiting handshakes, in the order of their arrival.
    candidates: Vec<Candidate>,
    /// Sockets of accepted connections that are not retired, each with the datagrams of its peer
    /// that arrived here. `None` if no more can arrive.
    branches: Vec<(RawFd, Option<Candidate>)>,
    /// The branch that was retired last.
    retired: Option<OwnedFd>,
    /// Maximum total size of the waiting datagrams, as in the kernel's queue.
    capacity_bytes: usize,
    buffer: Vec<u8>,
    run_budget: Option<RunBudget>,
    /// Whether the first accepted handshake came from an unexpected address; `None` before it.
    first_was_stranger: Option<bool>,
}

/// Result of an accept.
#[derive(Debug)]
pub(super) enum Handshake {
    /// A connection, and its source address if that is unexpected.
    Accepted(Connection, Option<Address>),
    /// Only handshakes from unexpected addresses arrived; this is the first one. Without this
    /// result an accept would wait forever for a peer that sends from another of its addresses.
    Refused(Address),
}

#[derive(Debug)]
struct Candidate {
    from: Address,
    received_at: Instant,
    early: EarlyDatagrams,
    early_bytes: usize,
    /// Memory of the early datagrams, if a budget limits it.
    share: Option<BudgetShare>,
}

/// A request to accept one UDP "connection".
pub(super) struct HandshakeRequest<'a> {
    pub(super) options: &'a SocketOptions,
    pub(super) peer: &'a DataPeer<'a>,
    /// Tests if a handshake comes from another host of the group.
    pub(super) is_other_peer: IsOtherPeer<'a>,
    /// Accept a handshake from an unexpected address if no expected one arrives in time.
    pub(super) accepts_strangers: bool,
    pub(super) run_budget: Option<&'a RunBudget>,
    /// How long to wait for a handshake; `None` for no limit.
    pub(super) timeout: Option<Duration>,
    pub(super) stop: &'a Stop,
}

/// Choice of the next handshake to accept.
enum HandshakeChoice {
    /// The candidate of this index.
    Candidate(usize),
    /// Wait for an expected one until this time; `None` for no limit.
    Wait(Option<Instant>),
    /// None: the handshake from this address is refused, and no other arrived in time.
    Refused(Address),
}

impl DatagramListener {
    /// Creates a listener from a socket of [`engine::open_datagram_listener`]. No transfer moves
    /// more than `max_transfer_bytes` at once.
    pub(super) fn new(socket: Socket, max_transfer_bytes: usize) -> io::Result<Self> {
        let (address, socket) = (Address::local(&socket)?, Arc::new(socket));
        let capacity_bytes = socket.recv_buffer_size().unwrap_or_default();
        Ok(Self {
            queue: Arc::new(Mutex::new(HandshakeQueue {
                socket: Arc::clone(&socket),
                address: address.clone(),
                candidates: Vec::new(),
                branches: Vec::new(),
                retired: None,
                capacity_bytes: capacity_bytes.max(MAX_DATAGRAM_BYTES),
                buffer: vec![0; max_transfer_bytes.clamp(HANDSHAKE.len() + 1, MAX_DATAGRAM_BYTES)],
                run_budget: None,
                first_was_stranger: None,
            })),
            socket,
            address,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Waits for a handshake and connects a socket to its sender. Drops datagrams that belong to no
    /// handshake.
    pub(super) fn accept(&self, request: &HandshakeRequest<'_>) -> Result<Handshake, Error> {
        let mut queue = self.queue();
        let index = match queue.await_handshake(request)? {
            Ok(index) => index,
            Err(refused) => return Ok(Handshake::Refused(refused)),
        };
        let candidate = &queue.candidates[index];
        let is_stranger = request.is_stranger(candidate);
        let stranger = is_stranger.then(|| candidate.from.clone());
        let socket = queue.connect(index, request)?;
        queue.first_was_stranger.get_or_insert(is_stranger);
        drop(queue);
        let early = EarlyDatagrams::with_socket(Box::new(BranchReader {
            listener: self.clone(),
            socket: socket.as_raw_fd(),
        }));
        let connection = Connection::Early(socket.into(), RefCell::new(early));
        Ok(Handshake::Accepted(connection, stranger))
    }

    /// Keeps the datagrams in a socket that is about to be closed: they belong to the next
    /// connection of its peer.
    pub(super) fn return_datagrams_to_listener(&self, socket: BorrowedFd<'_>) {
        self.queue().return_datagrams_to_listener(socket);
    }

    fn queue(&self) -> MutexGuard<'_, HandshakeQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the datagrams of an accepted connection that arrive at the listening socket.
#[derive(Debug)]
struct BranchReader {
    listener: DatagramListener,
    socket: RawFd,
}

impl EarlySocket for BranchReader {
    fn socket(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }

    fn collect(&self, early: &mut EarlyDatagrams) {
        let mut queue = self.listener.queue();
        queue.receive_all();
        if let Some(Some(candidate)) = queue.branch(self.socket) {
            candidate.early_bytes = 0;
            early.append(&mut candidate.early);
            early.keep_share(candidate.share.take());
        }
    }
}

impl Drop for BranchReader {
    fn drop(&mut self) {
        if let Some(candidate) = self.listener.queue().branch(self.socket) {
            *candidate = None;
        }
    }
}

impl HandshakeQueue {
    /// Waits for a handshake. Returns the index of the accepted candidate, or the address of a
    /// refused one.
    fn await_handshake(
        &mut self,
        request: &HandshakeRequest<'_>,
    ) -> Result<Result<usize, Address>, Error> {
        if self.run_budget.is_none() {
            self.run_budget = request.run_budget.cloned();
        }
        let deadline = request.deadline();
        loop {
            let decide_at = match self.choose(request) {
                HandshakeChoice::Candidate(index) => return Ok(Ok(index)),
                HandshakeChoice::Wait(decide_at) => decide_at,
                HandshakeChoice::Refused(from) => return Ok(Err(from)),
            };
            if self.receive_some(request)? {
                // While datagrams arrive, no wait ends.
                if request.stop.is_set() {
                    return Err(Error::INTR);
                }
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(Error::TIMEDOUT);
                }
                continue;
            }
            let next_check = deadline.into_iter().chain(decide_at).min();
            let retired = self.retired.as_ref().map(AsFd::as_fd);
            let sockets = [self.socket.as_fd(), retired.unwrap_or(self.socket.as_fd())];
            let remaining = next_check.map_or(Duration::MAX, |next_check| {
                next_check.saturating_duration_since(Instant::now())
            });
            match call::wait_any_readable(&sockets, remaining) {
                Ok(Some(1)) => self.drain_retired(),
                Ok(None) if next_check == deadline => return Err(Error::TIMEDOUT),
                Err(error) if error != Error::INTR || request.stop.is_set() => return Err(error),
                _ => {}
            }
        }
    }

    /// Receives all datagrams of the retired socket and closes it.
    fn drain_retired(&mut self) {
        if let Some(retired) = self.retired.take() {
            self.receive_all_from(retired.as_fd());
        }
    }

    /// Connects a socket to this candidate and removes it from the candidates.
    fn connect(&mut self, index: usize, request: &HandshakeRequest<'_>) -> Result<Socket, Error> {
        self.drain_retired();
        let from = self.candidates[index].from.clone();
        let listener = (&*self.socket, &self.address);
        let connected = open_datagram_branch(listener, Transport::Udp, &from, request.options);
        let candidate = self.candidates.remove(index);
        let socket = connected.map_err(|error| Error::from_raw_os_error(error.errno()))?;
        self.add_branch(socket.as_fd(), candidate);
        Ok(socket)
    }

    /// Adds a branch: a socket that is connected to this candidate.
    fn add_branch(&mut self, socket: BorrowedFd<'_>, candidate: Candidate) {
        self.branches.push((socket.as_raw_fd(), Some(candidate)));
        // If there are other branches, the new one may hold datagrams of any sender from the time
        // between bind(2) and connect(2) (IPv4, Linux 6.13 and later).
        if self.branches.len() > 1 {
            self.receive_all();
            self.receive_all_from(socket);
        }
    }

    fn return_datagrams_to_listener(&mut self, socket: BorrowedFd<'_>) {
        let mut branches = self.branches.iter();
        let Some(index) = branches.position(|(branch, _)| *branch == socket.as_raw_fd()) else {
            return;
        };
        self.branches.swap_remove(index);
        // Connected to its own address, the socket receives no more, and all datagrams go to the
        // listener. Without a peer it would take datagrams from the listener.
        let reconnected = self
            .address
            .to_kernel()
            .and_then(|address| SockRef::from(&socket).connect(&address));
        if reconnected.is_ok() {
            self.receive_all_from(socket);
            self.retired = socket.try_clone_to_owned().ok();
        }
    }

    fn choose(&self, request: &HandshakeRequest<'_>) -> HandshakeChoice {
        let mut candidates = self.candidates.iter();
        if let Some(index) =
            candidates.position(|candidate| request.peer.may_send_to(&candidate.from))
        {
            return HandshakeChoice::Candidate(index);
        }
        let mut candidates = self.candidates.iter();
        let Some(index) = candidates.position(|candidate| request.is_stranger(candidate)) else {
            return HandshakeChoice::Wait(None);
        };
        let Candidate {
            from, received_at, ..
        } = &self.candidates[index];
        let timeout = if request.accepts_strangers {
            UNEXPECTED_PEER_WAIT
        } else {
            ACCEPT_TIMEOUT
        };
        let decide_at = *received_at + timeout;
        match self.first_was_stranger {
            Some(true) if request.accepts_strangers => HandshakeChoice::Candidate(index),
            // Only the first handshake has a time limit.
            Some(_) => HandshakeChoice::Wait(None),
            None if Instant::now() < decide_at => HandshakeChoice::Wait(Some(decide_at)),
            None if request.accepts_strangers => HandshakeChoice::Candidate(index),
            None => HandshakeChoice::Refused(from.clone()),
        }
    }

    /// Takes a few datagrams from the queue of the listening socket: the choice between the
    /// candidates costs much more. Returns false if the queue is empty.
    fn receive_some(&mut self, request: &HandshakeRequest<'_>) -> Result<bool, Error> {
        let mut count = 0;
        while count < MAX_DATAGRAMS_PER_CHOICE
            && self.receive(|queue| queue.make_room_for_candidate(request))?
        {
            count += 1;
        }
        Ok(count > 0)
    }

    /// Takes one datagram from the queue of the listening socket. Returns false if the queue is
    /// empty.
    fn receive(
        &mut self,
        can_add_candidate: impl FnOnce(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let received = call::receive_from_without_waiting(self.socket.as_fd(), &mut self.buffer);
        self.store(received, can_add_candidate)
    }

    /// Receives all waiting datagrams of the listening socket.
    fn receive_all(&mut self) {
        let socket = Arc::clone(&self.socket);
        self.receive_all_from(socket.as_fd());
    }

    fn receive_all_from(&mut self, socket: BorrowedFd<'_>) {
        for _ in 0..MAX_DATAGRAMS_PER_READ {
            let received = call::receive_from_without_waiting(socket, &mut self.buffer);
            let can_add_candidate = |this: &mut Self| this.candidates.len() < MAX_CANDIDATES;
            // An error belongs to an earlier send; more datagrams may follow.
            if self.store(received, can_add_candidate) == Ok(false) {
                return;
            }
        }
    }

    /// Keeps the datagram in the buffer if it belongs to a handshake. Returns false if none was
    /// received.
    fn store(
        &mut self,
        received: Result<(usize, Option<Address>), Error>,
        can_add_candidate: impl FnOnce(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let (length, from) = match received {
            Ok((length, Some(from))) => (length, from),
            Ok((_, None)) | Err(Error::INTR) => return Ok(true),
            Err(Error::AGAIN) => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_handshake = &self.buffer[..length] == HANDSHAKE;
        if !self.store_early(&from, length, is_handshake) && is_handshake && can_add_candidate(self)
        {
            self.candidates.push(Candidate {
                from,
                received_at: Instant::now(),
                early: EarlyDatagrams::default(),
                early_bytes: 0,
                share: None,
            });
        }
        Ok(true)
    }

    /// Returns the datagrams of the peer of this branch that arrived here.
    fn branch(&mut self, socket: RawFd) -> Option<&mut Option<Candidate>> {
        let mut branches = self.branches.iter_mut();
        branches.find_map(|(branch, candidate)| (*branch == socket).then_some(candidate))
    }

    /// Makes room for a candidate. If the list is full, removes the last stranger, but never the
    /// first one. Returns false if there is no room.
    fn make_room_for_candidate(&mut self, request: &HandshakeRequest<'_>) -> bool {
        if self.candidates.len() < MAX_CANDIDATES {
            return true;
        }
        let candidates = self.candidates.iter().enumerate();
        let mut strangers = candidates.filter(|(_, candidate)| request.is_stranger(candidate));
        strangers.next();
        let last = strangers.next_back().map(|(at, _)| at);
        last.map(|at| self.candidates.remove(at)).is_some()
    }

    /// Keeps the datagram in the buffer for its connection. Returns false if its sender has no
    /// connection.
    fn store_early(&mut self, from: &Address, length: usize, is_handshake: bool) -> bool {
        let branches = self.branches.iter_mut();
        let branches = branches.filter_map(|(_, candidate)| Some((true, candidate.as_mut()?)));
        let candidates = self
            .candidates
            .iter_mut()
            .map(|candidate| (false, candidate));
        let (mut waiting_bytes, mut recipient) = (0, None);
        for (is_connected, candidate) in branches.chain(candidates) {
            waiting_bytes += candidate.early_bytes;
            if candidate.from == *from {
                recipient = Some((is_connected, candidate));
            }
        }
        let Some((is_connected, candidate)) = recipient else {
            return false;
        };
        // A peer may send its handshake more than once.
        let is_repeated = is_handshake && (is_connected || candidate.early.is_empty());
        let bytes = length + DATAGRAM_OVERHEAD_BYTES;
        if is_repeated || waiting_bytes + bytes > self.capacity_bytes {
            return true;
        }
        let has_memory =
            (self.run_budget.as_ref()).is_none_or(|budget| match &mut candidate.share {
                Some(share) => share.grow(bytes as u64).is_ok(),
                share => {
                    *share = budget.reserve_memory_share(bytes as u64).ok();
                    share.is_some()
                }
            });
        // Without memory the datagram is dropped, as UDP permits.
        if has_memory {
            candidate.early.push(&self.buffer[..length]);
            candidate.early_bytes += bytes;
        }
        true
    }
}

impl HandshakeRequest<'_> {
    fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.timeout?)
    }

    fn is_stranger(&self, candidate: &Candidate) -> bool {
        !self.peer.may_send_to(&candidate.from) && !(self.is_other_peer)(&candidate.from)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use engine::open_datagram_listener;
    use sys::call::KernelAddress;

    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// Peer address of the control connection, on another host.
    const OTHER_HOST: &str = "192.0.2.1:1";

    fn listener() -> (DatagramListener, Address) {
        let address = Address::Inet("127.0.0.1:0".parse().unwrap());
        let options = SocketOptions::default();
        let socket = open_datagram_listener(Transport::Udp, &address, &options).unwrap();
        let listener = DatagramListener::new(socket, 100).unwrap();
        let address = listener.queue().address.clone();
        (listener, address)
    }

    fn caller(address: &Address) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let Address::Inet(at) = address else {
            panic!("{address}");
        };
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket
    }

    fn caller_with_handshake(address: &Address) -> UdpSocket {
        let caller = caller(address);
        caller.send(HANDSHAKE).unwrap();
        caller
    }

    /// Calls `act` with a request whose control connection is with `control`.
    fn with_request<T>(
        control: &str,
        accepts_strangers: bool,
        act: impl FnOnce(&HandshakeRequest<'_>) -> T,
    ) -> T {
        act(&HandshakeRequest {
            options: &SocketOptions::default(),
            peer: &DataPeer::for_control_address(&Address::Inet(control.parse().unwrap())),
            is_other_peer: &|_| false,
            accepts_strangers,
            run_budget: None,
            timeout: Some(TEST_TIMEOUT),
            stop: &Stop::new(),
        })
    }

    fn accept(listener: &DatagramListener, control: &str, accepts_strangers: bool) -> Handshake {
        with_request(control, accepts_strangers, |request| {
            listener.accept(request).unwrap()
        })
    }

    /// Accepts a connection from an expected address.
    fn accept_expected(listener: &DatagramListener) -> Connection {
        let Handshake::Accepted(connection, None) = accept(listener, "127.0.0.1:1", false) else {
            panic!("the address is unexpected");
        };
        connection
    }

    /// Whether datagrams of the peer of this connection arrived at the listener and were not
    /// received yet.
    fn has_early(connection: &Connection) -> bool {
        let Connection::Early(_, early) = connection else {
            panic!("{connection:?}");
        };
        early.borrow_mut().collect();
        !early.borrow().is_empty()
    }

    /// Runs `act` while the socket is not connected to this caller.
    fn while_not_connected(
        socket: BorrowedFd<'_>,
        listener: &Address,
        caller: &UdpSocket,
        act: impl FnOnce(),
    ) {
        let connect = |to: &Address| SockRef::from(&socket).connect(&to.to_kernel().unwrap());
        connect(listener).unwrap();
        act();
        connect(&Address::from(caller.local_addr().unwrap())).unwrap();
    }

    fn answer(connection: &Connection, data: &[u8], caller: &UdpSocket) {
        call::send(connection.socket(), data).unwrap();
        let mut heard = [0; 9];
        let length = caller.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], data);
    }

    #[test]
    fn the_next_handshake_may_come_early() {
        let (listener, address) = listener();
        let callers = [(); 3].map(|()| caller(&address));
        for (caller, word) in callers.iter().zip([b"a", b"b", b"c"]) {
            caller.send(HANDSHAKE).unwrap();
            caller.send(word).unwrap();
        }
        let mut connections = Vec::new();
        for (caller, word) in callers.iter().zip([b"a", b"b", b"c"]) {
            let connection = accept_expected(&listener);
            let Connection::Early(_, early) = &connection else {
                panic!("{connection:?}");
            };
            assert!(!early.borrow().is_empty(), "{connection:?}");
            answer(&connection, word, caller);
            connections.push(connection);
        }
        // Each caller has its own socket now, and the port still accepts others.
        let mut heard = [0; 9];
        for (caller, connection) in callers.iter().zip(&connections) {
            caller.send(b"later").unwrap();
            assert_eq!(call::receive(connection.socket(), &mut heard), Ok(5));
        }
        drop(connections);
        let late = caller(&address);
        callers[0].send(b"late").unwrap();
        late.send(HANDSHAKE).unwrap();
        let connection = accept_expected(&listener);
        assert!(!has_early(&connection));
        answer(&connection, b"d", &late);
    }

    /// The kernel may look up the socket of a datagram before the branch is connected.
    #[test]
    fn a_datagram_may_come_late_to_the_listener() {
        let (listener, address) = listener();
        let callers = [(); 2].map(|()| caller_with_handshake(&address));
        let connection = accept_expected(&listener);
        assert!(!has_early(&connection));
        while_not_connected(connection.socket(), &address, &callers[0], || {
            callers[0].send(b"late").unwrap();
        });
        // Another accept takes the datagram from the queue.
        let other = accept_expected(&listener);
        assert!(has_early(&connection));
        assert!(!has_early(&other));
    }

    /// The kernel may deliver another peer's handshake to a socket that is bound and not yet
    /// connected.
    #[test]
    fn a_handshake_may_come_to_another_connection() {
        let (listener, address) = listener();
        let callers = [(); 3].map(|()| caller(&address));
        callers[0].send(HANDSHAKE).unwrap();
        let _first = accept_expected(&listener);
        callers[1].send(HANDSHAKE).unwrap();
        let mut queue = listener.queue();
        queue.receive_all();
        let candidate = queue.candidates.remove(0);
        let options = SocketOptions::default();
        let branch = open_datagram_branch(
            (&listener.socket, &address),
            Transport::Udp,
            &candidate.from,
            &options,
        );
        let branch = branch.unwrap();
        let address_of = |caller: &UdpSocket| caller.local_addr().unwrap().into();
        branch.connect(&address_of(&callers[2])).unwrap();
        callers[2].send(HANDSHAKE).unwrap();
        branch.connect(&address_of(&callers[1])).unwrap();
        queue.add_branch(branch.as_fd(), candidate);
        drop(queue);
        answer(&accept_expected(&listener), b"a", &callers[2]);
    }

    /// The next socket of the peer has the port of its last one, which this end has not closed yet.
    #[test]
    fn the_next_handshake_may_come_to_the_last_connection() {
        let (listener, address) = listener();
        let first = caller_with_handshake(&address);
        let port = first.local_addr().unwrap();
        let connection = accept_expected(&listener);
        drop(first);
        let second = UdpSocket::bind(port).unwrap();
        let Address::Inet(to) = address else {
            panic!("{address}");
        };
        second.connect(to).unwrap();
        for word in [HANDSHAKE, b"early"] {
            second.send(word).unwrap();
        }
        listener.return_datagrams_to_listener(connection.socket());
        second.send(b"late").unwrap();
        drop(connection);
        let connection = accept_expected(&listener);
        let Connection::Early(..) = &connection else {
            panic!("{connection:?}");
        };
        answer(&connection, b"a", &second);
        assert!(listener.queue().candidates.is_empty());
    }

    /// Like the previous test, but the kernel looked up the socket before it was retired.
    #[test]
    fn the_next_handshake_may_come_late_to_the_last_connection() {
        let (listener, address) = listener();
        let first = caller_with_handshake(&address);
        let port = first.local_addr().unwrap();
        let connection = accept_expected(&listener);
        drop(first);
        let second = UdpSocket::bind(port).unwrap();
        let Address::Inet(to) = address else {
            panic!("{address}");
        };
        second.connect(to).unwrap();
        let socket = connection.socket().try_clone_to_owned().unwrap();
        listener.return_datagrams_to_listener(connection.socket());
        drop(connection);
        SockRef::from(&socket).connect(&port.into()).unwrap();
        second.send(HANDSHAKE).unwrap();
        SockRef::from(&socket).connect(&to.into()).unwrap();
        drop(socket);
        answer(&accept_expected(&listener), b"a", &second);
    }

    /// The error of a closed peer does not affect the other connections.
    #[test]
    fn an_error_of_a_connection_does_not_affect_the_listener() {
        let (listener, address) = listener();
        let callers = [(); 2].map(|()| caller(&address));
        callers[0].send(HANDSHAKE).unwrap();
        let connection = accept_expected(&listener);
        let closed_port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr();
        let closed_port = KernelAddress::try_from(&Address::from(closed_port.unwrap())).unwrap();
        // As if this connection had been closed before the host of its peer refused the datagram.
        call::send_to(connection.socket(), b"lost", &closed_port).unwrap();
        callers[1].send(HANDSHAKE).unwrap();
        answer(&accept_expected(&listener), b"a", &callers[1]);
    }

    #[test]
    fn other_datagrams_are_dropped() {
        let (listener, address) = listener();
        caller(&address).send(b"no handshake").unwrap();
        let peer = caller_with_handshake(&address);
        answer(&accept_expected(&listener), b"a", &peer);
    }

    #[test]
    fn a_new_handshake_replaces_the_last_stranger() {
        let (listener, address) = listener();
        let strangers: Vec<_> = (0..MAX_CANDIDATES + 2)
            .map(|_| {
                let stranger = caller_with_handshake(&address);
                with_request(OTHER_HOST, false, |request| {
                    let mut queue = listener.queue();
                    queue.receive(|queue| queue.make_room_for_candidate(request))
                })
                .unwrap();
                stranger
            })
            .collect();
        assert_eq!(listener.queue().candidates.len(), MAX_CANDIDATES);
        // The first one stays: its arrival time starts the timeout.
        let first = Address::from(strangers[0].local_addr().unwrap());
        assert_eq!(listener.queue().candidates[0].from, first);
        let last = Address::from(strangers[MAX_CANDIDATES + 1].local_addr().unwrap());
        assert_eq!(listener.queue().candidates[MAX_CANDIDATES - 1].from, last);
    }

    #[test]
    fn a_flood_does_not_delay_a_stop() {
        let (listener, address) = listener();
        // The choice between them costs more than the next datagram.
        let strangers = [(); MAX_CANDIDATES].map(|()| caller_with_handshake(&address));
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for stranger in &strangers[..2] {
                scope.spawn(|| {
                    while !has_ended.load(Relaxed) {
                        let _ = stranger.send(b"no handshake");
                    }
                });
            }
            for timeout in [None, Some(Duration::from_millis(20))] {
                with_request(OTHER_HOST, false, |request| {
                    let stop = request.stop.child();
                    let end = Instant::now() + Duration::from_millis(20);
                    let _stop =
                        (timeout.is_none()).then(|| engine::deadline_thread().set_at(end, &stop));
                    let request = HandshakeRequest {
                        timeout,
                        stop: &stop,
                        ..*request
                    };
                    let error = listener.accept(&request).unwrap_err();
                    let expected = timeout.map_or(Error::INTR, |_| Error::TIMEDOUT);
                    assert_eq!(error, expected);
                });
            }
            has_ended.store(true, Relaxed);
        });
    }

    #[test]
    fn a_stranger_is_refused() {
        let (listener, address) = listener();
        let stranger = caller_with_handshake(&address);
        let Handshake::Refused(from) = accept(&listener, OTHER_HOST, false) else {
            panic!("it is accepted");
        };
        assert_eq!(from, Address::from(stranger.local_addr().unwrap()));
    }

    #[test]
    fn a_stranger_is_accepted_after_a_wait() {
        let (listener, address) = listener();
        let _stranger = caller_with_handshake(&address);
        let accepts_stranger = |listener: &DatagramListener| {
            let handshake = accept(listener, OTHER_HOST, true);
            matches!(handshake, Handshake::Accepted(_, Some(_)))
        };
        let begun = Instant::now();
        assert!(accepts_stranger(&listener));
        assert!(begun.elapsed() >= UNEXPECTED_PEER_WAIT);
        // A second handshake from an unexpected address is accepted without the wait.
        let _stranger = caller_with_handshake(&address);
        let begun = Instant::now();
        assert!(accepts_stranger(&listener));
        assert!(begun.elapsed() < UNEXPECTED_PEER_WAIT);
    }
}
