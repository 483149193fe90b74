//! UDP "connections" of one strand, which all come to one port and each begin with a handshake.
//!
//! The socket that listens has no peer for as long as its strand lives, so that the next handshake may come while
//! the last connection is still open. Each peer whose handshake is accepted gets a connected socket at the same
//! address and port: the loops have a plain socket, replies leave from the address that the peer sent to, and the
//! kernel keeps everybody else's datagrams away from it.
//!
//! The kernel looks up a datagram's socket first and queues it there a little later, so both moves of a peer from one
//! socket to the other have a datagram on its way. What the peer sends until it is connected comes to the listening
//! socket, even after connect(2) has returned: that queue is read too, until the first datagram is in the other one.
//! A peer may have closed its socket before this end closes the connected one, and its next socket may have the same
//! port: the connected socket is kept, out of use, until the next handshake has come, and its queue is read for it.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::script::{Connection, Early, Elsewhere};
use engine::{Share, Stop, datagram_branch};
use model::{SocketOptions, Transport};
use server::{DataPeer, Others, PREFERENCE};
use socket2::SockRef;
use sys::call::{self, Error};
use sys::{Address, Socket};

use crate::account::Account;

use super::ends::ACCEPT_PATIENCE;

/// The first datagram of a UDP "connection".
pub(super) const HANDSHAKE: &[u8] = b"uperf udp handshake";

/// As long as a datagram can be, bytes.
const LONGEST: usize = 65_536;

/// Handshakes that may wait to be accepted.
const MOST_CANDIDATES: usize = 64;

/// Datagrams that are taken from the queue for one accept: more than the queue holds with the system's own size.
const MOST_DATAGRAMS: usize = 4096;

/// What a datagram that waits is counted with beside its bytes.
const OVERHEAD: usize = 64;

/// A socket that accepts UDP "connections". They share its queue, all on the thread of one strand.
#[derive(Clone, Debug)]
pub(super) struct DatagramListener {
    socket: Arc<Socket>,
    address: Address,
    queue: Arc<Mutex<Queue>>,
}

/// What has come to the listening socket.
#[derive(Debug)]
struct Queue {
    socket: Arc<Socket>,
    address: Address,
    /// Those whose handshake has come, in this order.
    candidates: Vec<Candidate>,
    /// The connected sockets that were not taken back, each with its peer's datagrams that came here, as long as
    /// there may be any.
    branches: Vec<(RawFd, Option<Candidate>)>,
    /// The connected socket that was taken back last.
    parked: Option<OwnedFd>,
    /// Bytes that may wait: as many as in the kernel's queue.
    room: usize,
    buffer: Vec<u8>,
    account: Option<Account>,
    /// Whether the first that was accepted came from an unexpected address.
    takes_strangers: Option<bool>,
}

/// What an accept came to.
#[derive(Debug)]
pub(super) enum Handshake {
    /// A connection, and where it comes from if that is unexpected.
    Accepted(Connection, Option<Address>),
    /// No handshake but those from unexpected addresses, of which the first is this one: without an end to the wait,
    /// a peer whose datagrams leave from another of its addresses would be waited for.
    Refused(Address),
}

#[derive(Debug)]
struct Candidate {
    from: Address,
    since: Instant,
    early: Early,
    early_bytes: usize,
    /// Their memory, if it is on somebody's account.
    share: Option<Share>,
}

/// What a strand is to accept.
pub(super) struct Call<'a> {
    pub(super) options: &'a SocketOptions,
    pub(super) peer: &'a DataPeer<'a>,
    /// Who else sends handshakes here.
    pub(super) others: Others<'a>,
    /// A handshake from an unexpected address is accepted if no other comes in time.
    pub(super) takes_strangers: bool,
    pub(super) account: Option<&'a Account>,
    /// How long to wait for it; `None` is without end.
    pub(super) patience: Option<Duration>,
    pub(super) stop: &'a Stop,
}

/// Which handshake is accepted next.
enum Next {
    /// That of this candidate.
    Candidate(usize),
    /// A better one, until then; or the first, without end.
    Later(Option<Instant>),
    /// None: this one's is refused, and no other has come in time.
    Refused(Address),
}

impl DatagramListener {
    /// Accepts by a socket of [`engine::datagram_listener`]. No transfer moves more than `longest` bytes at once.
    pub(super) fn new(socket: Socket, longest: usize) -> io::Result<Self> {
        let (address, socket) = (Address::of(&socket)?, Arc::new(socket));
        let room = socket.recv_buffer_size().unwrap_or_default();
        Ok(Self {
            queue: Arc::new(Mutex::new(Queue {
                socket: Arc::clone(&socket),
                address: address.clone(),
                candidates: Vec::new(),
                branches: Vec::new(),
                parked: None,
                room: room.max(LONGEST),
                buffer: vec![0; longest.clamp(HANDSHAKE.len() + 1, LONGEST)],
                account: None,
                takes_strangers: None,
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

    /// Waits for a handshake, and connects its sender. Drops datagrams that belong to no handshake.
    pub(super) fn accept(&self, call: &Call<'_>) -> Result<Handshake, Error> {
        let mut queue = self.queue();
        let at = match queue.await_handshake(call)? {
            Ok(at) => at,
            Err(refused) => return Ok(Handshake::Refused(refused)),
        };
        let candidate = &queue.candidates[at];
        let is_stranger = call.is_stranger(candidate);
        let stranger = is_stranger.then(|| candidate.from.clone());
        let socket = queue.connect(at, call)?;
        queue.takes_strangers.get_or_insert(is_stranger);
        drop(queue);
        let early = Early::with_more(Box::new(Branch {
            listener: self.clone(),
            socket: socket.as_raw_fd(),
        }));
        let connection = Connection::Early(socket.into(), RefCell::new(early));
        Ok(Handshake::Accepted(connection, stranger))
    }

    /// Takes from a socket that is about to be closed what belongs to its peer's next connection.
    pub(super) fn take_back(&self, socket: BorrowedFd<'_>) {
        self.queue().take_back(socket);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of an accepted connection comes to the listening socket.
#[derive(Debug)]
struct Branch {
    listener: DatagramListener,
    socket: RawFd,
}

impl Elsewhere for Branch {
    fn socket(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }

    fn collect(&self, early: &mut Early) {
        let mut queue = self.listener.queue();
        queue.receive_all();
        if let Some(Some(late)) = queue.branch(self.socket) {
            late.early_bytes = 0;
            early.append(&mut late.early);
            early.keep(late.share.take());
        }
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        if let Some(late) = self.listener.queue().branch(self.socket) {
            *late = None;
        }
    }
}

impl Queue {
    /// Waits for a handshake that is accepted. Returns which candidate's it is, or whose was refused.
    fn await_handshake(&mut self, call: &Call<'_>) -> Result<Result<usize, Address>, Error> {
        if self.account.is_none() {
            self.account = call.account.cloned();
        }
        let until = call.until();
        loop {
            let decision = match self.next(call) {
                Next::Candidate(at) => return Ok(Ok(at)),
                Next::Later(decision) => decision,
                Next::Refused(from) => return Ok(Err(from)),
            };
            if self.receive(|queue| queue.has_room_for_candidate(call))? {
                continue;
            }
            let look = until.into_iter().chain(decision).min();
            let parked = self.parked.as_ref().map(AsFd::as_fd);
            let sockets = [self.socket.as_fd(), parked.unwrap_or(self.socket.as_fd())];
            let left = look.map_or(Duration::MAX, |look| {
                look.saturating_duration_since(Instant::now())
            });
            match call::wait_any_readable(&sockets, left) {
                Ok(Some(1)) => self.close_parked(),
                Ok(None) if look == until => return Err(Error::TIMEDOUT),
                Err(error) if error != Error::INTR || call.stop.is_set() => return Err(error),
                _ => {}
            }
        }
    }

    /// Receives what the socket out of use has.
    fn close_parked(&mut self) {
        if let Some(parked) = self.parked.take() {
            self.receive_all_from(parked.as_fd());
        }
    }

    /// Connects a socket to this candidate, which is no candidate any more.
    fn connect(&mut self, at: usize, call: &Call<'_>) -> Result<Socket, Error> {
        self.close_parked();
        let from = self.candidates[at].from.clone();
        let listener = (&*self.socket, &self.address);
        let connected = datagram_branch(listener, Transport::Udp, &from, call.options);
        let candidate = self.candidates.remove(at);
        let socket = connected.map_err(|error| Error::from_raw_os_error(error.errno()))?;
        self.add(socket.as_fd(), candidate);
        Ok(socket)
    }

    /// Adds a socket that is connected to this candidate.
    fn add(&mut self, socket: BorrowedFd<'_>, candidate: Candidate) {
        self.branches.push((socket.as_raw_fd(), Some(candidate)));
        // Beside another one it has what anybody sent between bind(2) and connect(2): Linux 6.13 and later, IPv4.
        if self.branches.len() > 1 {
            self.receive_all();
            self.receive_all_from(socket);
        }
    }

    fn take_back(&mut self, socket: BorrowedFd<'_>) {
        let mut branches = self.branches.iter();
        let Some(at) = branches.position(|(branch, _)| *branch == socket.as_raw_fd()) else {
            return;
        };
        self.branches.swap_remove(at);
        // Connected to itself it receives no more, and all comes to the listener. Without any peer it would receive
        // what is the listener's.
        let parked = self
            .address
            .to_kernel()
            .and_then(|own| SockRef::from(&socket).connect(&own));
        if parked.is_ok() {
            self.receive_all_from(socket);
            self.parked = socket.try_clone_to_owned().ok();
        }
    }

    fn next(&self, call: &Call<'_>) -> Next {
        let mut candidates = self.candidates.iter();
        if let Some(at) = candidates.position(|candidate| call.peer.may_send_to(&candidate.from)) {
            return Next::Candidate(at);
        }
        let mut candidates = self.candidates.iter();
        let Some(at) = candidates.position(|candidate| call.is_stranger(candidate)) else {
            return Next::Later(None);
        };
        let Candidate { from, since, .. } = &self.candidates[at];
        let patience = if call.takes_strangers {
            PREFERENCE
        } else {
            ACCEPT_PATIENCE
        };
        let decision = *since + patience;
        match self.takes_strangers {
            Some(true) if call.takes_strangers => Next::Candidate(at),
            // Later ones need not come in time, whoever else comes.
            Some(_) => Next::Later(None),
            None if Instant::now() < decision => Next::Later(Some(decision)),
            None if call.takes_strangers => Next::Candidate(at),
            None => Next::Refused(from.clone()),
        }
    }

    /// Takes a datagram from the queue; false if there is none.
    fn receive(&mut self, has_room: impl FnOnce(&mut Self) -> bool) -> Result<bool, Error> {
        let received = call::receive_from_without_waiting(self.socket.as_fd(), &mut self.buffer);
        self.keep(received, has_room)
    }

    /// Receives all that has come.
    fn receive_all(&mut self) {
        let socket = Arc::clone(&self.socket);
        self.receive_all_from(socket.as_fd());
    }

    fn receive_all_from(&mut self, socket: BorrowedFd<'_>) {
        for _ in 0..MOST_DATAGRAMS {
            let received = call::receive_from_without_waiting(socket, &mut self.buffer);
            let has_room = |this: &mut Self| this.candidates.len() < MOST_CANDIDATES;
            // An error is of what was sent, and there may be something behind it.
            if self.keep(received, has_room) == Ok(false) {
                return;
            }
        }
    }

    /// Keeps what was received into the buffer, if it belongs to a handshake; false if nothing was.
    fn keep(
        &mut self,
        received: Result<(usize, Option<Address>), Error>,
        has_room: impl FnOnce(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let (length, from) = match received {
            Ok((length, Some(from))) => (length, from),
            Ok((_, None)) | Err(Error::INTR) => return Ok(true),
            Err(Error::AGAIN) => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_handshake = &self.buffer[..length] == HANDSHAKE;
        if !self.take_early(&from, length, is_handshake) && is_handshake && has_room(self) {
            self.candidates.push(Candidate {
                from,
                since: Instant::now(),
                early: Early::default(),
                early_bytes: 0,
                share: None,
            });
        }
        Ok(true)
    }

    /// What of the peer of this connected socket has come here.
    fn branch(&mut self, socket: RawFd) -> Option<&mut Option<Candidate>> {
        let mut branches = self.branches.iter_mut();
        branches.find_map(|(branch, late)| (*branch == socket).then_some(late))
    }

    /// Strangers' handshakes make room, but for the first.
    fn has_room_for_candidate(&mut self, call: &Call<'_>) -> bool {
        if self.candidates.len() < MOST_CANDIDATES {
            return true;
        }
        let candidates = self.candidates.iter().enumerate();
        let mut strangers = candidates.filter(|(_, candidate)| call.is_stranger(candidate));
        strangers.next();
        let last = strangers.next_back().map(|(at, _)| at);
        last.map(|at| self.candidates.remove(at)).is_some()
    }

    /// Keeps a datagram in the buffer for its connection; false if its sender has none.
    fn take_early(&mut self, from: &Address, length: usize, is_handshake: bool) -> bool {
        let branches = self.branches.iter_mut();
        let branches = branches.filter_map(|(_, late)| late.as_mut().map(|late| (true, late)));
        let candidates = self
            .candidates
            .iter_mut()
            .map(|candidate| (false, candidate));
        let (mut waiting, mut found) = (0, None);
        for (is_connected, candidate) in branches.chain(candidates) {
            waiting += candidate.early_bytes;
            if candidate.from == *from {
                found = Some((is_connected, candidate));
            }
        }
        let Some((is_connected, candidate)) = found else {
            return false;
        };
        // A handshake may be sent more than once.
        let is_repeated = is_handshake && (is_connected || candidate.early.is_empty());
        let bytes = length + OVERHEAD;
        if is_repeated || waiting + bytes > self.room {
            return true;
        }
        let is_paid = (self.account.as_ref()).is_none_or(|account| match &mut candidate.share {
            Some(share) => share.grow(bytes as u64).is_ok(),
            none => {
                *none = account.lend_memory(bytes as u64).ok();
                none.is_some()
            }
        });
        // Datagrams may be lost.
        if is_paid {
            candidate.early.push(&self.buffer[..length]);
            candidate.early_bytes += bytes;
        }
        true
    }
}

impl Call<'_> {
    fn until(&self) -> Option<Instant> {
        Instant::now().checked_add(self.patience?)
    }

    fn is_stranger(&self, candidate: &Candidate) -> bool {
        !self.peer.may_send_to(&candidate.from) && !(self.others)(&candidate.from)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use engine::datagram_listener;
    use server::Policy;
    use sys::call::Peer;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// The control connection's other end, on another host.
    const ELSEWHERE: &str = "192.0.2.1:1";

    fn listener() -> (DatagramListener, Address) {
        let anywhere = Address::Inet("127.0.0.1:0".parse().unwrap());
        let options = SocketOptions::default();
        let socket = datagram_listener(Transport::Udp, &anywhere, &options).unwrap();
        let listener = DatagramListener::new(socket, 100).unwrap();
        let at = listener.queue().address.clone();
        (listener, at)
    }

    fn caller(at: &Address) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let Address::Inet(at) = at else {
            panic!("{at}");
        };
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket
    }

    fn caller_with_handshake(at: &Address) -> UdpSocket {
        let caller = caller(at);
        caller.send(HANDSHAKE).unwrap();
        caller
    }

    /// Calls `act` with what a strand is to accept whose control connection is with `control`.
    fn with_call<T>(control: &str, takes_strangers: bool, act: impl FnOnce(&Call<'_>) -> T) -> T {
        act(&Call {
            options: &SocketOptions::default(),
            peer: &DataPeer {
                control: &Address::Inet(control.parse().unwrap()),
                named: None,
                policy: Policy::default(),
            },
            others: &|_| false,
            takes_strangers,
            account: None,
            patience: Some(SOON),
            stop: &Stop::new(),
        })
    }

    fn accept(listener: &DatagramListener, control: &str, takes_strangers: bool) -> Handshake {
        with_call(control, takes_strangers, |call| {
            listener.accept(call).unwrap()
        })
    }

    /// From an expected address.
    fn accepted(listener: &DatagramListener) -> Connection {
        let Handshake::Accepted(connection, None) = accept(listener, "127.0.0.1:1", false) else {
            panic!("it is a stranger's");
        };
        connection
    }

    /// Whether datagrams of this connection's peer have come to the listener, and were not received.
    fn has_early(connection: &Connection) -> bool {
        let Connection::Early(_, early) = connection else {
            panic!("{connection:?}");
        };
        early.borrow_mut().collect();
        !early.borrow().is_empty()
    }

    /// Lets `act` send to the socket as if it were not connected to this caller yet.
    fn as_before_its_connect(
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

    fn answer(connection: &Connection, word: &[u8], caller: &UdpSocket) {
        call::send(connection.socket(), word).unwrap();
        let mut heard = [0; 9];
        let length = caller.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], word);
    }

    #[test]
    fn the_next_handshake_may_come_early() {
        let (listener, at) = listener();
        let callers = [(); 3].map(|()| caller(&at));
        for (caller, word) in callers.iter().zip([b"a", b"b", b"c"]) {
            caller.send(HANDSHAKE).unwrap();
            caller.send(word).unwrap();
        }
        let mut connections = Vec::new();
        for (caller, word) in callers.iter().zip([b"a", b"b", b"c"]) {
            let connection = accepted(&listener);
            let Connection::Early(_, early) = &connection else {
                panic!("{connection:?}");
            };
            assert!(!early.borrow().is_empty(), "{connection:?}");
            answer(&connection, word, caller);
            connections.push(connection);
        }
        // Each has its own from now on, and the port is still there for others.
        let mut heard = [0; 9];
        for (caller, connection) in callers.iter().zip(&connections) {
            caller.send(b"later").unwrap();
            assert_eq!(call::receive(connection.socket(), &mut heard), Ok(5));
        }
        drop(connections);
        let late = caller(&at);
        callers[0].send(b"late").unwrap();
        late.send(HANDSHAKE).unwrap();
        let connection = accepted(&listener);
        assert!(!has_early(&connection));
        answer(&connection, b"d", &late);
    }

    /// The kernel may have looked up a datagram's socket before the sender's own one was connected.
    #[test]
    fn a_datagram_may_come_late_to_the_listener() {
        let (listener, at) = listener();
        let callers = [(); 2].map(|()| caller_with_handshake(&at));
        let connection = accepted(&listener);
        assert!(!has_early(&connection));
        as_before_its_connect(connection.socket(), &at, &callers[0], || {
            callers[0].send(b"late").unwrap();
        });
        // Whoever takes it from the queue.
        let other = accepted(&listener);
        assert!(has_early(&connection));
        assert!(!has_early(&other));
    }

    /// The kernel may deliver another's handshake to a socket that is bound and not connected yet.
    #[test]
    fn a_handshake_may_come_to_another_connection() {
        let (listener, at) = listener();
        let callers = [(); 3].map(|()| caller(&at));
        callers[0].send(HANDSHAKE).unwrap();
        let _first = accepted(&listener);
        callers[1].send(HANDSHAKE).unwrap();
        let mut queue = listener.queue();
        queue.receive_all();
        let candidate = queue.candidates.remove(0);
        let options = SocketOptions::default();
        let branch = datagram_branch(
            (&listener.socket, &at),
            Transport::Udp,
            &candidate.from,
            &options,
        );
        let branch = branch.unwrap();
        let of = |caller: &UdpSocket| caller.local_addr().unwrap().into();
        branch.connect(&of(&callers[2])).unwrap();
        callers[2].send(HANDSHAKE).unwrap();
        branch.connect(&of(&callers[1])).unwrap();
        queue.add(branch.as_fd(), candidate);
        drop(queue);
        answer(&accepted(&listener), b"a", &callers[2]);
    }

    /// The peer's next socket has the port of its last one, which this end has not closed yet.
    #[test]
    fn the_next_handshake_may_come_to_the_last_connection() {
        let (listener, at) = listener();
        let first = caller_with_handshake(&at);
        let port = first.local_addr().unwrap();
        let connection = accepted(&listener);
        drop(first);
        let second = UdpSocket::bind(port).unwrap();
        let Address::Inet(to) = at else {
            panic!("{at}");
        };
        second.connect(to).unwrap();
        for word in [HANDSHAKE, b"early"] {
            second.send(word).unwrap();
        }
        listener.take_back(connection.socket());
        second.send(b"late").unwrap();
        drop(connection);
        let connection = accepted(&listener);
        let Connection::Early(..) = &connection else {
            panic!("{connection:?}");
        };
        answer(&connection, b"a", &second);
        assert!(listener.queue().candidates.is_empty());
    }

    /// The same, and the kernel has looked up its socket before that was taken back.
    #[test]
    fn the_next_handshake_may_come_late_to_the_last_connection() {
        let (listener, at) = listener();
        let first = caller_with_handshake(&at);
        let port = first.local_addr().unwrap();
        let connection = accepted(&listener);
        drop(first);
        let second = UdpSocket::bind(port).unwrap();
        let Address::Inet(to) = at else {
            panic!("{at}");
        };
        second.connect(to).unwrap();
        let socket = connection.socket().try_clone_to_owned().unwrap();
        listener.take_back(connection.socket());
        drop(connection);
        SockRef::from(&socket).connect(&port.into()).unwrap();
        second.send(HANDSHAKE).unwrap();
        SockRef::from(&socket).connect(&to.into()).unwrap();
        drop(socket);
        answer(&accepted(&listener), b"a", &second);
    }

    /// A peer that has gone is no error of the others.
    #[test]
    fn an_error_of_a_connection_is_not_the_listeners() {
        let (listener, at) = listener();
        let callers = [(); 2].map(|()| caller(&at));
        callers[0].send(HANDSHAKE).unwrap();
        let connection = accepted(&listener);
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr();
        let nobody = Peer::try_from(&Address::from(nobody.unwrap())).unwrap();
        // As if this connection had been closed before its peer's host refused what was sent.
        call::send_to(connection.socket(), b"lost", &nobody).unwrap();
        callers[1].send(HANDSHAKE).unwrap();
        answer(&accepted(&listener), b"a", &callers[1]);
    }

    #[test]
    fn what_is_no_handshake_is_nobodys() {
        let (listener, at) = listener();
        caller(&at).send(b"no handshake").unwrap();
        let own = caller_with_handshake(&at);
        answer(&accepted(&listener), b"a", &own);
    }

    #[test]
    fn strangers_do_not_keep_others_out() {
        let (listener, at) = listener();
        let strangers: Vec<_> = (0..MOST_CANDIDATES + 2)
            .map(|_| {
                let stranger = caller_with_handshake(&at);
                with_call(ELSEWHERE, false, |call| {
                    let mut queue = listener.queue();
                    queue.receive(|queue| queue.has_room_for_candidate(call))
                })
                .unwrap();
                stranger
            })
            .collect();
        assert_eq!(listener.queue().candidates.len(), MOST_CANDIDATES);
        // The first one counts from when it came.
        let first = Address::from(strangers[0].local_addr().unwrap());
        assert_eq!(listener.queue().candidates[0].from, first);
        let last = Address::from(strangers[MOST_CANDIDATES + 1].local_addr().unwrap());
        assert_eq!(listener.queue().candidates[MOST_CANDIDATES - 1].from, last);
    }

    #[test]
    fn only_the_control_peer_is_sent_to() {
        let (listener, at) = listener();
        let stranger = caller_with_handshake(&at);
        let Handshake::Refused(from) = accept(&listener, ELSEWHERE, false) else {
            panic!("it is accepted");
        };
        assert_eq!(from, Address::from(stranger.local_addr().unwrap()));
    }

    #[test]
    fn a_stranger_is_accepted_second() {
        let (listener, at) = listener();
        let _stranger = caller_with_handshake(&at);
        let is_a_strangers = |listener: &DatagramListener| {
            let handshake = accept(listener, ELSEWHERE, true);
            matches!(handshake, Handshake::Accepted(_, Some(_)))
        };
        let begun = Instant::now();
        assert!(is_a_strangers(&listener));
        assert!(begun.elapsed() >= PREFERENCE);
        // Others may come from there, too.
        let _stranger = caller_with_handshake(&at);
        let begun = Instant::now();
        assert!(is_a_strangers(&listener));
        assert!(begun.elapsed() < PREFERENCE);
    }
}
