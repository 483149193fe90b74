//! Acceptance of a test's data connections, which any host can open: the order of preference, and
//! the proof by a nonce.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{BudgetHolder, BudgetShare, ResourceBudget, Stop, StopReason, deadline_thread};
use sys::call::{self, Error, KernelAddress};
use sys::{Address, Socket};

use crate::{DataPeer, Dialect, ServerContext};

/// The time for which a connection from an unexpected address waits for one from an expected
/// address.
pub const UNEXPECTED_PEER_WAIT: Duration = Duration::from_millis(100);

/// The maximum number of connections that wait at a time. Further ones are closed.
const MAX_WAITING: usize = 8;

/// The bytes at the start of a linerate client's data connection, which distinguish it from
/// connections of other hosts.
pub type Nonce = [u8; 16];

/// A data connection, and its peer.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The connection.
    pub socket: Socket,
    /// Its other end.
    pub from: Address,
    /// Whether it comes from an unexpected address. The caller logs that.
    pub is_unexpected: bool,
    /// How long it waited for a connection from an expected address. A client's clock may include
    /// this time.
    pub waited: Duration,
}

/// Accepts the data connections of a test that has many of them on one listener. The first one
/// decides whether the others may come from an unexpected address.
#[derive(Debug, Default)]
pub struct DataAcceptor {
    /// Whether the first connection came from an unexpected address.
    accepts_unexpected: Option<bool>,
    /// The control connection's peer and the source of the last connection from that peer. The next
    /// connection is compared with them first, which is fast.
    last_expected: Option<(Address, KernelAddress)>,
    /// The source of the first connection that was closed because of its address.
    first_refused: Option<Address>,
    /// Connections of other peers of the same test, which are accepted later.
    pending: Vec<AcceptedConnection>,
}

/// Whether another peer of the same test uses this address on the same listener.
pub type IsOtherPeer<'a> = &'a dyn Fn(&Address) -> bool;

/// A connection that may be the test's data connection.
struct Candidate {
    accepted: AcceptedConnection,
    /// The received part of its nonce.
    nonce: Nonce,
    nonce_bytes: usize,
    /// The test is charged for the descriptor of one candidate.
    _share: Option<BudgetShare>,
}

/// The result of the nonce check.
enum NonceCheck {
    Incomplete,
    Match,
    Mismatch,
}

impl DataAcceptor {
    /// Returns whether no connection has been accepted yet. The first one may have to wait for a
    /// connection from an expected address.
    pub fn is_first(&self) -> bool {
        self.accepts_unexpected.is_none()
    }

    /// Returns the source of the first connection that was closed because of its address.
    pub fn first_refused(&self) -> Option<&Address> {
        self.first_refused.as_ref()
    }

    /// Accepts the next connection of `peer` and returns its address if that is unexpected. The
    /// first connection follows the rule of [`accept_data`] and must arrive within `timeout`. Later
    /// ones are accepted until `stop`; if the first came from an expected address, connections from
    /// unexpected ones are closed. Connections of other peers of the test are kept until they are
    /// requested.
    pub fn accept(
        &mut self,
        listener: &Socket,
        peer: &DataPeer<'_>,
        is_other_peer: IsOtherPeer<'_>,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<(Socket, Option<Address>), Error> {
        let mut pending = self.pending.iter();
        if let Some(index) = pending.position(|connection| peer.expects(&connection.from)) {
            return Ok((self.pending.remove(index).socket, None));
        }
        let Some(accepts_unexpected) = self.accepts_unexpected else {
            let mut handle_unexpected = |connection: AcceptedConnection| {
                if peer.policy.is_strict || is_other_peer(&connection.from) {
                    self.keep_or_close(connection, is_other_peer);
                    return None;
                }
                self.first_refused
                    .get_or_insert_with(|| connection.from.clone());
                Some(connection)
            };
            let deadline = Instant::now() + timeout;
            let on_refused = |_: &Address| {};
            let accepted = accept_with_handler(
                listener,
                peer,
                None,
                deadline,
                stop,
                &on_refused,
                &mut handle_unexpected,
            )?;
            self.accepts_unexpected = Some(accepted.is_unexpected);
            if accepted.is_unexpected {
                self.first_refused = None;
            }
            let AcceptedConnection {
                socket,
                from,
                is_unexpected,
                ..
            } = accepted;
            return Ok((socket, is_unexpected.then_some(from)));
        };
        loop {
            if stop.is_set() {
                return Err(Error::CANCELED);
            }
            let (connection, from) = match call::accept_from(listener.as_fd()) {
                Ok((connection, Some(from))) => (connection, from),
                Ok((_, None)) | Err(Error::INTR | Error::AGAIN | Error::CONNABORTED) => continue,
                Err(error) => return Err(error),
            };
            let is_known = |last: &(Address, KernelAddress)| {
                last.1.shares_host_with(&from) && peer.control.shares_host_with(&last.0)
            };
            if self.last_expected.as_ref().is_some_and(is_known) {
                return Ok((connection.into(), None));
            }
            let Some(address) = from.address() else {
                continue;
            };
            let is_unexpected = !peer.expects(&address);
            if !is_unexpected {
                if peer.is_control_peer(&address) {
                    self.last_expected = Some((peer.control.clone(), from));
                }
                return Ok((connection.into(), None));
            }
            if accepts_unexpected && !is_other_peer(&address) {
                return Ok((connection.into(), Some(address)));
            }
            let rejected = AcceptedConnection {
                socket: connection.into(),
                from: address,
                is_unexpected,
                waited: Duration::ZERO,
            };
            self.keep_or_close(rejected, is_other_peer);
        }
    }

    /// Keeps a connection of another peer of the test; closes any other.
    fn keep_or_close(&mut self, accepted: AcceptedConnection, is_other_peer: IsOtherPeer<'_>) {
        if !is_other_peer(&accepted.from) {
            self.first_refused.get_or_insert(accepted.from);
        } else if self.pending.len() < MAX_WAITING {
            self.pending.push(AcceptedConnection {
                is_unexpected: false,
                ..accepted
            });
        }
    }
}

/// Accepts the data connection of a test. Returns [`Error::TIMEDOUT`] if none arrives before
/// `deadline`.
///
/// With a `nonce`, the data connection is the one that starts with that nonce, from any address.
/// Without one, it is the first from an expected address. If none arrives within
/// [`UNEXPECTED_PEER_WAIT`] of a connection from an unexpected address, that connection is accepted,
/// unless the operator forbids it. It is accepted even if the client has closed it, because it then
/// ends the test. `on_refused` is called for each connection closed because of its address.
pub fn accept_data(
    listener: &Socket,
    peer: &DataPeer<'_>,
    nonce: Option<&Nonce>,
    deadline: Instant,
    stop: &Stop,
    on_refused: &dyn Fn(&Address),
) -> Result<AcceptedConnection, Error> {
    let mut handle_unexpected = |connection: AcceptedConnection| {
        if peer.policy.is_strict {
            on_refused(&connection.from);
            return None;
        }
        Some(connection)
    };
    accept_with_handler(
        listener,
        peer,
        nonce,
        deadline,
        stop,
        on_refused,
        &mut handle_unexpected,
    )
}

impl ServerContext<'_> {
    /// Accepts the one data connection of a client on a listener, from the client's own host,
    /// within `timeout`; see [`control::is_timeout`]. If the client disconnects, the wait ends with
    /// [`io::ErrorKind::UnexpectedEof`]. [`Self::cancel_stop`] also ends it. Refused connections
    /// are logged.
    pub fn accept_data(
        &self,
        dialect: &impl Dialect,
        control: &ControlConnection,
        listener: &Socket,
        timeout: Duration,
    ) -> io::Result<Socket> {
        let stop = self.cancel_stop.child();
        let _watch = deadline_thread().set_on_hang_up(control.as_fd(), &stop);
        let mut peer = DataPeer::for_control_address(control.peer());
        peer.policy.is_strict = true;
        let deadline = Instant::now() + timeout;
        let on_refused = |from: &Address| {
            let peer = control.peer();
            dialect.warn(format_args!(
                "{peer}: refused a data connection from {from}"
            ));
        };
        match accept_data(listener, &peer, None, deadline, &stop, &on_refused) {
            Ok(accepted) => Ok(accepted.socket),
            Err(Error::TIMEDOUT) => Err(io::ErrorKind::TimedOut.into()),
            Err(_) if stop.reason() == Some(StopReason::PeerClosed) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Handler for a connection from an unexpected address. It returns the connection to keep it as a
/// candidate, or `None` if it has removed it.
type UnexpectedHandler<'a> = &'a mut dyn FnMut(AcceptedConnection) -> Option<AcceptedConnection>;

/// Accepts a connection like [`accept_data`], with another rule for unexpected addresses.
fn accept_with_handler(
    listener: &Socket,
    peer: &DataPeer<'_>,
    nonce: Option<&Nonce>,
    deadline: Instant,
    stop: &Stop,
    on_refused: &dyn Fn(&Address),
    handle_unexpected: UnexpectedHandler<'_>,
) -> Result<AcceptedConnection, Error> {
    let _registration = stop.register_thread();
    let _read_timeout = ListenerTimeout::new(listener);
    let mut waiting: Vec<Candidate> = Vec::new();
    let mut first_unexpected_at = None;
    let reserve = || {
        let descriptors = &ResourceBudget::process().descriptors;
        descriptors
            .reserve(BudgetHolder::for_address(peer.control), 1)
            .ok()
    };
    loop {
        let now = Instant::now();
        let wake_up_at = first_unexpected_at.map_or(deadline, |first_at: Instant| {
            deadline.min(first_at + UNEXPECTED_PEER_WAIT)
        });
        if stop.is_set() {
            return Err(Error::CANCELED);
        }
        if now >= wake_up_at {
            let is_open = |candidate: &Candidate| call::is_open(candidate.accepted.socket.as_fd());
            // Without a nonce, the waiting candidates are the only choice.
            if nonce.is_none() && !waiting.is_empty() {
                let index = waiting.iter().position(is_open).unwrap_or(0);
                let mut accepted = waiting.remove(index).accepted;
                accepted.waited = first_unexpected_at.map_or(Duration::ZERO, |at| now - at);
                return Ok(accepted);
            }
            waiting.retain(is_open);
            if now >= deadline {
                return Err(Error::TIMEDOUT);
            }
            first_unexpected_at = None;
        }
        if !wait_for_any(listener, &waiting, nonce.is_some(), wake_up_at)? {
            continue;
        }
        if let Some(nonce) = nonce
            && let Some(proven) = remove_proven(&mut waiting, nonce)
        {
            return Ok(proven);
        }
        let mut accepted = match accept_next(listener, peer) {
            Ok(Some(accepted)) => accepted,
            Ok(None) => continue,
            // No descriptor is free: drop a candidate to get one.
            Err(Error::MFILE | Error::NFILE) if !waiting.is_empty() => {
                waiting.remove(least_likely(&waiting));
                continue;
            }
            Err(error) => return Err(error),
        };
        if nonce.is_none() {
            if !accepted.is_unexpected {
                for candidate in &waiting {
                    on_refused(&candidate.accepted.from);
                }
                return Ok(accepted);
            }
            let Some(unexpected) = handle_unexpected(accepted) else {
                continue;
            };
            accepted = unexpected;
            first_unexpected_at = first_unexpected_at.or_else(|| Some(Instant::now()));
        }
        if waiting.len() == MAX_WAITING {
            if nonce.is_none() {
                // The first candidate is preferred anyway.
                continue;
            }
            waiting.remove(least_likely(&waiting));
        }
        let share = match &waiting[..] {
            [] => None,
            _ => reserve().or_else(|| {
                waiting.remove(least_likely(&waiting));
                reserve()
            }),
        };
        waiting.push(Candidate {
            accepted,
            nonce: Nonce::default(),
            nonce_bytes: 0,
            _share: share,
        });
    }
}

/// Sets a timeout for a listener's accept calls, because a connection may be aborted after the wait
/// for it. When dropped, removes the timeout.
struct ListenerTimeout<'a>(&'a Socket);

impl<'a> ListenerTimeout<'a> {
    fn new(listener: &'a Socket) -> Self {
        let _ = listener.set_read_timeout(Some(UNEXPECTED_PEER_WAIT));
        Self(listener)
    }
}

impl Drop for ListenerTimeout<'_> {
    fn drop(&mut self) {
        let _ = self.0.set_read_timeout(None);
    }
}

/// Returns the index of the candidate that is least likely to be the client's: the oldest from an
/// unexpected address, or else the oldest. A client sends its nonce immediately.
fn least_likely(waiting: &[Candidate]) -> usize {
    let unexpected = (waiting.iter()).position(|candidate| candidate.accepted.is_unexpected);
    unexpected.unwrap_or(0)
}

/// Waits for a connection to accept or for data from a candidate. Returns whether either arrived in
/// time.
fn wait_for_any(
    listener: &Socket,
    waiting: &[Candidate],
    reads_nonces: bool,
    deadline: Instant,
) -> Result<bool, Error> {
    let mut sockets = vec![listener.as_fd()];
    if reads_nonces {
        sockets.extend(
            waiting
                .iter()
                .map(|candidate| candidate.accepted.socket.as_fd()),
        );
    }
    match call::wait_any_readable(&sockets, deadline.saturating_duration_since(Instant::now())) {
        Ok(ready) => Ok(ready.is_some()),
        Err(Error::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Accepts the next connection; `None` if none is pending or it was aborted.
fn accept_next(
    listener: &Socket,
    peer: &DataPeer<'_>,
) -> Result<Option<AcceptedConnection>, Error> {
    let ready = call::wait_readable(listener.as_fd(), Duration::ZERO);
    if !matches!(ready, Ok(true)) {
        return Ok(None);
    }
    match call::accept_from(listener.as_fd()) {
        Ok((connection, from)) => {
            let socket = Socket::from(connection);
            // The socket inherits the listener's timeout, with which the kernel would set a timer
            // in each call that waits.
            let _ = socket.set_read_timeout(None);
            let Some(from) = from.and_then(|from| from.address()) else {
                return Ok(None);
            };
            let is_unexpected = !peer.expects(&from);
            Ok(Some(AcceptedConnection {
                socket,
                from,
                is_unexpected,
                waited: Duration::ZERO,
            }))
        }
        Err(Error::INTR | Error::AGAIN | Error::CONNABORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes and returns the candidate that has sent the nonce. Closes those that have sent other
/// bytes.
fn remove_proven(waiting: &mut Vec<Candidate>, nonce: &Nonce) -> Option<AcceptedConnection> {
    let mut index = 0;
    while index < waiting.len() {
        match waiting[index].check_nonce(nonce) {
            NonceCheck::Match => return Some(waiting.remove(index).accepted),
            NonceCheck::Mismatch => drop(waiting.remove(index)),
            NonceCheck::Incomplete => index += 1,
        }
    }
    None
}

impl Candidate {
    fn check_nonce(&mut self, nonce: &Nonce) -> NonceCheck {
        let unread = &mut self.nonce[self.nonce_bytes..];
        match call::receive_without_waiting(self.accepted.socket.as_fd(), unread) {
            Ok(0) => return NonceCheck::Mismatch,
            Ok(count) => self.nonce_bytes += count,
            Err(Error::AGAIN | Error::INTR) => return NonceCheck::Incomplete,
            Err(_) => return NonceCheck::Mismatch,
        }
        // Only a complete nonce is compared. Otherwise an attacker could find it byte by byte.
        if self.nonce_bytes < nonce.len() {
            NonceCheck::Incomplete
        } else if self.nonce == *nonce {
            NonceCheck::Match
        } else {
            NonceCheck::Mismatch
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use socket2::{Domain, Type};

    use super::*;

    const NONCE: Nonce = *b"sixteen bytes of";

    fn listener() -> (Socket, SocketAddr) {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener.into(), ([127, 0, 0, 1], port).into())
    }

    /// A connection from an address of the loopback network.
    fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        socket.into()
    }

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn deadline() -> Instant {
        Instant::now() + TIMEOUT
    }

    fn inet(text: &str) -> Address {
        Address::Inet(text.parse().unwrap())
    }

    #[test]
    fn an_expected_connection_is_preferred() {
        let (listening, at) = listener();
        let (control, requested) = (inet("192.0.2.1:1"), inet("127.0.0.3:1"));
        let peer = DataPeer {
            requested: Some(&requested),
            ..DataPeer::for_control_address(&control)
        };
        let mut unexpected = connect_from([127, 0, 0, 2], at);
        let _expected = connect_from([127, 0, 0, 3], at);
        let refused = Cell::new(0);
        let count = |_: &Address| refused.set(refused.get() + 1);
        let accepted =
            accept_data(&listening, &peer, None, deadline(), &Stop::new(), &count).unwrap();
        assert!(!accepted.is_unexpected);
        assert_eq!(accepted.from.ip(), requested.ip());
        assert_eq!(refused.into_inner(), 1);
        assert_eq!(unexpected.read(&mut [0; 1]).unwrap_or(0), 0, "it is closed");
    }

    #[test]
    fn an_unexpected_connection_is_accepted_after_a_wait_unless_strict() {
        let (listening, at) = listener();
        let control = inet("192.0.2.1:1");
        let mut peer = DataPeer::for_control_address(&control);
        drop(connect_from([127, 0, 0, 2], at));
        let _unexpected = connect_from([127, 0, 0, 3], at);
        let begun = Instant::now();
        let accepted =
            accept_data(&listening, &peer, None, deadline(), &Stop::new(), &|_| ()).unwrap();
        assert!(accepted.is_unexpected && begun.elapsed() >= UNEXPECTED_PEER_WAIT);
        assert_eq!(accepted.from.ip(), inet("127.0.0.3:1").ip());

        peer.policy.is_strict = true;
        let _second_unexpected = connect_from([127, 0, 0, 3], at);
        let deadline = Instant::now() + Duration::from_millis(100);
        let refused = Cell::new(false);
        let note = |_: &Address| refused.set(true);
        let ended = accept_data(&listening, &peer, None, deadline, &Stop::new(), &note);
        assert_eq!(ended.unwrap_err(), Error::TIMEDOUT);
        assert!(refused.get());
    }

    #[test]
    fn a_closed_connection_is_accepted_if_no_other_comes() {
        let (listening, at) = listener();
        let control = inet("192.0.2.1:1");
        let peer = DataPeer::for_control_address(&control);
        let accept =
            || accept_data(&listening, &peer, None, deadline(), &Stop::new(), &|_| ()).unwrap();
        drop(connect_from([127, 0, 0, 2], at));
        assert_eq!(accept().from.ip(), inet("127.0.0.2:1").ip());
        // A client that has sent all its data has half-closed its connection.
        let half_closed = connect_from([127, 0, 0, 2], at);
        half_closed.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(accept().waited >= UNEXPECTED_PEER_WAIT);
    }

    #[test]
    fn later_accepts_of_the_listener_have_no_timeout() {
        let (listening, at) = listener();
        let control = inet("127.0.0.1:1");
        let _expected = connect_from([127, 0, 0, 1], at);
        accept_data(
            &listening,
            &DataPeer::for_control_address(&control),
            None,
            deadline(),
            &Stop::new(),
            &|_| {},
        )
        .unwrap();
        assert_eq!(listening.read_timeout().unwrap(), None);
    }

    #[test]
    fn the_first_connection_decides_about_the_later_ones() {
        let (listening, at) = listener();
        let (control, requested) = (inet("192.0.2.1:1"), inet("127.0.0.3:1"));
        let peer = DataPeer {
            requested: Some(&requested),
            ..DataPeer::for_control_address(&control)
        };
        let mut acceptor = DataAcceptor::default();
        let accept = |acceptor: &mut DataAcceptor| {
            let accepted = acceptor.accept(&listening, &peer, &|_| false, TIMEOUT, &Stop::new());
            accepted.map(|(socket, unexpected)| {
                let from = Address::peer(&socket).unwrap();
                (from.ip(), unexpected.is_some())
            })
        };
        let _expected = connect_from([127, 0, 0, 3], at);
        assert_eq!(accept(&mut acceptor), Ok((requested.ip(), false)));
        let mut unexpected = connect_from([127, 0, 0, 2], at);
        let _second_expected = connect_from([127, 0, 0, 3], at);
        let begun = Instant::now();
        assert_eq!(accept(&mut acceptor), Ok((requested.ip(), false)));
        assert!(begun.elapsed() < UNEXPECTED_PEER_WAIT, "it does not wait");
        assert_eq!(unexpected.read(&mut [0; 1]).unwrap_or(0), 0, "it is closed");
        let refused = acceptor.first_refused().and_then(Address::ip);
        assert_eq!(refused, inet("127.0.0.2:1").ip());

        let mut acceptor = DataAcceptor::default();
        for source in [2, 4] {
            let _unexpected = connect_from([127, 0, 0, source], at);
            let from = inet(&format!("127.0.0.{source}:1")).ip();
            assert_eq!(accept(&mut acceptor), Ok((from, true)));
        }
    }

    #[test]
    fn connections_of_another_peer_of_the_test_wait_for_their_turn() {
        let (listening, at) = listener();
        let (first_peer, second_peer) = (inet("127.0.0.3:1"), inet("127.0.0.2:1"));
        // The control peer is on another host. Otherwise all addresses of this host would be
        // expected.
        let control = inet("192.0.2.1:1");
        let peer = |requested| DataPeer {
            requested: Some(requested),
            ..DataPeer::for_control_address(&control)
        };
        let mut acceptor = DataAcceptor::default();
        let mut other_client = connect_from([127, 0, 0, 2], at);
        let _expected = connect_from([127, 0, 0, 3], at);
        for (expected, other) in [(&first_peer, &second_peer), (&second_peer, &first_peer)] {
            let is_other_peer = |from: &Address| from.shares_host_with(other);
            let peer = peer(expected);
            let accepted =
                acceptor.accept(&listening, &peer, &is_other_peer, TIMEOUT, &Stop::new());
            let (socket, unexpected) = accepted.unwrap();
            let from = Address::peer(&socket).unwrap();
            assert_eq!((from.ip(), unexpected), (expected.ip(), None));
            if expected.shares_host_with(&second_peer) {
                TcpStream::from(socket).write_all(b"x").unwrap();
            }
        }
        other_client.read_exact(&mut [0; 1]).unwrap();
    }

    #[test]
    fn a_nonce_decides_regardless_of_order() {
        let (listening, at) = listener();
        let control = inet("127.0.0.1:1");
        let silent: Vec<_> = (0..MAX_WAITING + 4)
            .map(|_| connect_from([127, 0, 0, 1], at))
            .collect();
        connect_from([127, 0, 0, 1], at)
            .write_all(b"another sixteen!")
            .unwrap();
        let mut client = connect_from([127, 0, 0, 9], at);
        client.write_all(&NONCE).unwrap();
        client.write_all(b"data").unwrap();
        let peer = DataPeer::for_control_address(&control);
        let nonce = Some(&NONCE);
        let accepted =
            accept_data(&listening, &peer, nonce, deadline(), &Stop::new(), &|_| ()).unwrap();
        assert_eq!(accepted.from.ip(), inet("127.0.0.9:1").ip());
        let mut data = [0; 4];
        TcpStream::from(accepted.socket)
            .read_exact(&mut data)
            .unwrap();
        assert_eq!(&data, b"data", "the nonce is not part of the data");
        drop(silent);
    }

    /// An address that has no descriptor left keeps one waiting connection.
    #[test]
    fn waiting_connections_are_charged() {
        let (listening, at) = listener();
        let control = inet("198.51.100.9:1");
        let holder = BudgetHolder::for_address(&control);
        let descriptors = &ResourceBudget::process().descriptors;
        let _all = descriptors
            .reserve(holder, descriptors.maximum(holder))
            .unwrap();
        let client = std::thread::spawn(move || {
            let connect = || connect_from([127, 0, 0, 2], at);
            let (mut first, _second) = (connect(), connect());
            let closed = first.read(&mut [0; 1]);
            connect().write_all(&NONCE).unwrap();
            closed
        });
        let peer = DataPeer::for_control_address(&control);
        let nonce = Some(&NONCE);
        accept_data(&listening, &peer, nonce, deadline(), &Stop::new(), &|_| ()).unwrap();
        assert_eq!(client.join().unwrap().unwrap(), 0);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let (listening, _) = listener();
        let control = inet("127.0.0.1:1");
        let stop = Stop::new();
        let _deadline =
            engine::deadline_thread().set_at(Instant::now() + Duration::from_millis(20), &stop);
        let peer = DataPeer::for_control_address(&control);
        let ended = accept_data(&listening, &peer, None, deadline(), &stop, &|_| ());
        assert_eq!(ended.unwrap_err(), Error::CANCELED);
    }
}
