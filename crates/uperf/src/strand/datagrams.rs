//! UDP "connections" of one strand, which all come to one port and each begin with a handshake.
//!
//! The socket that listens has no peer for as long as its strand lives, so that the next handshake may come while
//! the last connection is still open. Each peer whose handshake is accepted gets a connected socket at the same
//! address and port: the loops have a plain socket, replies leave from the address that the peer sent to, and the
//! kernel keeps everybody else's datagrams away from it. What the peer sent before that socket was connected is in
//! the listening socket's queue, and is received first. A peer may have closed its socket before this end closes the
//! connected one, and its next socket may have the same port: what is in the queue then is looked through.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use engine::script::{Connection, Early};
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

/// The longest single wait for one; a stop interrupts it.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Handshakes that may wait to be accepted.
const MOST_CANDIDATES: usize = 64;

/// Datagrams that are taken from the queue for one accept: more than the queue holds with the system's own size.
const MOST_DATAGRAMS: usize = 4096;

/// What a datagram that waits is counted with beside its bytes.
const OVERHEAD: usize = 64;

/// A socket that accepts UDP "connections".
#[derive(Debug)]
pub(super) struct DatagramListener {
    socket: Socket,
    address: Address,
    /// Those whose handshake has come, in this order.
    candidates: Vec<Candidate>,
    /// The connected sockets that were not taken back.
    branches: Vec<RawFd>,
    /// Bytes that may wait: as many as in the kernel's queue.
    room: usize,
    buffer: Vec<u8>,
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
        let room = socket.recv_buffer_size().unwrap_or_default();
        Ok(Self {
            address: Address::of(&socket)?,
            socket,
            candidates: Vec::new(),
            branches: Vec::new(),
            room: room.max(LONGEST),
            buffer: vec![0; longest.clamp(HANDSHAKE.len() + 1, LONGEST)],
            takes_strangers: None,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Waits for a handshake, and connects its sender. Drops datagrams that belong to no handshake.
    pub(super) fn accept(&mut self, call: &Call<'_>) -> Result<Handshake, Error> {
        let until = call.until();
        let at = loop {
            let decision = match self.next(call) {
                Next::Candidate(at) => break at,
                Next::Later(decision) => decision,
                Next::Refused(from) => return Ok(Handshake::Refused(from)),
            };
            if self.receive(call)? {
                continue;
            }
            let look = until.into_iter().chain(decision).min();
            let look = look.unwrap_or_else(|| Instant::now() + LONGEST_WAIT);
            if !call.stop.wait_readable(self.socket.as_fd(), look)? && Some(look) == until {
                return Err(Error::TIMEDOUT);
            }
        };
        let is_stranger = call.is_stranger(&self.candidates[at]);
        let from = self.candidates[at].from.clone();
        let listener = (&self.socket, &self.address);
        let connected = datagram_branch(listener, Transport::Udp, &from, call.options);
        // What has come until now is in this queue, and what comes from now on is in its own.
        if connected.is_ok() {
            for _ in 0..MOST_DATAGRAMS {
                if !self.receive(call)? {
                    break;
                }
            }
        }
        let at = self.position(&from);
        let mut early = Early::default();
        if let Some(at) = at {
            let candidate = self.candidates.remove(at);
            early = candidate.early;
            early.keep(candidate.share);
        }
        let socket = connected.map_err(|error| Error::from_raw_os_error(error.errno()))?;
        self.branches.push(socket.as_raw_fd());
        self.takes_strangers.get_or_insert(is_stranger);
        let connection = if early.is_empty() {
            Connection::Socket(socket.into())
        } else {
            Connection::Early(socket.into(), RefCell::new(early))
        };
        Ok(Handshake::Accepted(connection, is_stranger.then_some(from)))
    }

    /// Takes from a socket that is about to be closed what belongs to its peer's next connection.
    pub(super) fn take_back(&mut self, socket: BorrowedFd<'_>, account: Option<&Account>) {
        let mut branches = self.branches.iter();
        let Some(at) = branches.position(|branch| *branch == socket.as_raw_fd()) else {
            return;
        };
        self.branches.swap_remove(at);
        // Connected to itself it receives no more, and all comes to the listener. Without any peer it would receive
        // what is the listener's.
        let own = self.address.to_kernel();
        let parked = own.and_then(|own| SockRef::from(&socket).connect(&own));
        if parked.is_err() {
            return;
        }
        for _ in 0..MOST_DATAGRAMS {
            let received = call::receive_from_without_waiting(socket, &mut self.buffer);
            let has_room = |this: &mut Self| this.candidates.len() < MOST_CANDIDATES;
            if !matches!(self.keep(received, account, has_room), Ok(true)) {
                return;
            }
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
    fn receive(&mut self, call: &Call<'_>) -> Result<bool, Error> {
        let received = call::receive_from_without_waiting(self.socket.as_fd(), &mut self.buffer);
        let has_room = |this: &mut Self| this.has_room_for_candidate(call);
        self.keep(received, call.account, has_room)
    }

    /// Keeps what was received into the buffer, if it belongs to a handshake; false if nothing was.
    fn keep(
        &mut self,
        received: Result<(usize, Option<Address>), Error>,
        account: Option<&Account>,
        has_room: impl FnOnce(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let (length, from) = match received {
            Ok((length, Some(from))) => (length, from),
            Ok((_, None)) | Err(Error::INTR) => return Ok(true),
            Err(Error::AGAIN) => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_handshake = &self.buffer[..length] == HANDSHAKE;
        if let Some(at) = self.position(&from) {
            self.take_early(at, length, is_handshake, account);
        } else if is_handshake && has_room(self) {
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

    fn position(&self, from: &Address) -> Option<usize> {
        let mut candidates = self.candidates.iter();
        candidates.position(|candidate| candidate.from == *from)
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

    fn take_early(
        &mut self,
        at: usize,
        length: usize,
        is_handshake: bool,
        account: Option<&Account>,
    ) {
        let waiting = self.candidates.iter().map(|other| other.early_bytes);
        let waiting: usize = waiting.sum();
        let candidate = &mut self.candidates[at];
        // A handshake may be sent more than once.
        let is_repeated = is_handshake && candidate.early.is_empty();
        let bytes = length + OVERHEAD;
        if is_repeated || waiting + bytes > self.room {
            return;
        }
        let is_paid = account.is_none_or(|account| match &mut candidate.share {
            Some(share) => share.grow(bytes as u64).is_ok(),
            none => {
                *none = account.lend_memory(bytes as u64).ok();
                none.is_some()
            }
        });
        // Datagrams may be lost.
        if !is_paid {
            return;
        }
        candidate.early.push(&self.buffer[..length]);
        candidate.early_bytes += bytes;
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
    use std::net::{SocketAddr, UdpSocket};

    use engine::datagram_listener;
    use server::Policy;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// The control connection's other end, on another host.
    const ELSEWHERE: &str = "192.0.2.1:1";

    fn listener() -> (DatagramListener, SocketAddr) {
        let anywhere = Address::Inet("127.0.0.1:0".parse().unwrap());
        let options = SocketOptions::default();
        let socket = datagram_listener(Transport::Udp, &anywhere, &options).unwrap();
        let listener = DatagramListener::new(socket, 100).unwrap();
        let port = listener.address.port() as u16;
        (listener, ([127, 0, 0, 1], port).into())
    }

    /// Sends these datagrams from a socket at this address.
    fn caller_from(source: SocketAddr, at: SocketAddr, words: &[&[u8]]) -> UdpSocket {
        let caller = UdpSocket::bind(source).unwrap();
        caller.connect(at).unwrap();
        caller.set_read_timeout(Some(SOON)).unwrap();
        for word in words {
            caller.send(word).unwrap();
        }
        caller
    }

    fn caller(at: SocketAddr, words: &[&[u8]]) -> UdpSocket {
        caller_from(([127, 0, 0, 1], 0).into(), at, words)
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

    fn accept(listener: &mut DatagramListener, control: &str, takes_strangers: bool) -> Handshake {
        with_call(control, takes_strangers, |call| {
            listener.accept(call).unwrap()
        })
    }

    /// From an expected address.
    fn accepted(listener: &mut DatagramListener) -> Connection {
        let Handshake::Accepted(connection, None) = accept(listener, "127.0.0.1:1", false) else {
            panic!("it is a stranger's");
        };
        connection
    }

    fn answer(connection: &Connection, word: &[u8], caller: &UdpSocket) {
        call::send(connection.socket(), word).unwrap();
        let mut heard = [0; 9];
        let length = caller.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], word);
    }

    #[test]
    fn the_next_handshake_may_come_early() {
        let (mut listener, at) = listener();
        let words = [b"a", b"b", b"c"];
        let callers = words.map(|word| caller(at, &[HANDSHAKE, word]));
        let mut connections = Vec::new();
        for (caller, word) in callers.iter().zip(words) {
            let connection = accepted(&mut listener);
            let Connection::Early(_, early) = &connection else {
                panic!("{connection:?}");
            };
            assert!(!early.borrow().is_empty());
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
        callers[0].send(b"late").unwrap();
        let late = caller(at, &[HANDSHAKE]);
        let connection = accepted(&mut listener);
        assert!(
            matches!(connection, Connection::Socket(_)),
            "{connection:?}"
        );
        answer(&connection, b"d", &late);
    }

    /// The peer's next socket has the port of its last one, which this end has not closed yet.
    #[test]
    fn the_next_handshake_may_come_to_the_last_connection() {
        let (mut listener, at) = listener();
        let first = caller(at, &[HANDSHAKE]);
        let source = first.local_addr().unwrap();
        let connection = accepted(&mut listener);
        drop(first);
        let second = caller_from(source, at, &[HANDSHAKE, b"early"]);
        listener.take_back(connection.socket(), None);
        second.send(b"late").unwrap();
        drop(connection);
        let connection = accepted(&mut listener);
        let Connection::Early(..) = &connection else {
            panic!("{connection:?}");
        };
        answer(&connection, b"a", &second);
        assert!(listener.candidates.is_empty());
    }

    #[test]
    fn what_is_no_handshake_is_nobodys() {
        let (mut listener, at) = listener();
        caller(at, &[b"no handshake"]);
        let own = caller(at, &[HANDSHAKE]);
        answer(&accepted(&mut listener), b"a", &own);
    }

    #[test]
    fn strangers_do_not_keep_others_out() {
        let (mut listener, at) = listener();
        let strangers: Vec<_> = (0..MOST_CANDIDATES + 2)
            .map(|_| {
                let stranger = caller(at, &[HANDSHAKE]);
                with_call(ELSEWHERE, false, |call| listener.receive(call)).unwrap();
                stranger
            })
            .collect();
        assert_eq!(listener.candidates.len(), MOST_CANDIDATES);
        // The first one counts from when it came.
        let first = Address::from(strangers[0].local_addr().unwrap());
        assert_eq!(listener.candidates[0].from, first);
        let last = Address::from(strangers[MOST_CANDIDATES + 1].local_addr().unwrap());
        assert_eq!(listener.candidates[MOST_CANDIDATES - 1].from, last);
    }

    #[test]
    fn only_the_control_peer_is_sent_to() {
        let (mut listener, at) = listener();
        let stranger = caller(at, &[HANDSHAKE]);
        let Handshake::Refused(from) = accept(&mut listener, ELSEWHERE, false) else {
            panic!("it is accepted");
        };
        assert_eq!(from, Address::from(stranger.local_addr().unwrap()));
    }

    #[test]
    fn a_stranger_is_accepted_second() {
        let (mut listener, at) = listener();
        let _stranger = caller(at, &[HANDSHAKE]);
        let is_a_strangers = |listener: &mut DatagramListener| {
            let handshake = accept(listener, ELSEWHERE, true);
            matches!(handshake, Handshake::Accepted(_, Some(_)))
        };
        let begun = Instant::now();
        assert!(is_a_strangers(&mut listener));
        assert!(begun.elapsed() >= PREFERENCE);
        // Others may come from there, too.
        let _stranger = caller(at, &[HANDSHAKE]);
        let begun = Instant::now();
        assert!(is_a_strangers(&mut listener));
        assert!(begun.elapsed() < PREFERENCE);
    }
}
