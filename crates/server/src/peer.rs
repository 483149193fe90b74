//! The check that a test's data comes from its client.
//!
//! A control connection proves its peer's address. Any host can open a data connection, which proves only its own
//! address; the source of a datagram proves nothing. So a test takes its data from the peer of its control connection,
//! or from the address in its request. It sends datagrams only to the peer of its control connection, unless the
//! operator allows more.

use std::io;
use std::mem::discriminant;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{Reason, Stop, deadline_thread};
use sys::call::{self, Error, Peer};
use sys::{Address, Socket};

use crate::{Dialect, ServerContext};

/// The time for which a connection from another address waits for one from an expected address.
pub const PREFERENCE: Duration = Duration::from_secs(2);

/// The maximum number of connections that wait at a time. Further ones are closed.
const MOST_WAITING: usize = 8;

/// The permissions set by the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `--allow-third-party`: datagrams may go to any address in a client's request.
    pub third_party: bool,
    /// `--strict-peers`: no connection is accepted from an address that is not expected.
    pub strict: bool,
}

/// The expected source of a test's data.
#[derive(Clone, Copy, Debug)]
pub struct DataPeer<'a> {
    /// The other end of the control connection.
    pub control: &'a Address,
    /// The address in the request, if any.
    pub named: Option<&'a Address>,
    /// The permissions set by the operator.
    pub policy: Policy,
}

/// The bytes at the start of a linerate client's data connection, which distinguish it from connections of other hosts.
pub type Nonce = [u8; 16];

/// A data connection, and its peer.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub socket: Socket,
    /// Its other end.
    pub from: Address,
    /// Whether it comes from an unexpected address. The caller logs that.
    pub is_stranger: bool,
}

/// Accepts a test's data connections, of which there are many on one listener. The first one decides whether the others
/// may come from an unexpected address.
#[derive(Debug, Default)]
pub struct Door {
    /// Whether the first connection came from an unexpected address.
    takes_strangers: Option<bool>,
    /// The peer of the last expected connection, and its address. The next connection is compared with it first.
    last: Option<(Address, Peer)>,
    /// The source of the first connection that was closed because of its address.
    refused: Option<Address>,
    /// Connections of other peers of the same test, which are accepted later.
    kept: Vec<Accepted>,
}

/// Whether another peer of the same test uses this address on the same listener.
pub type Others<'a> = &'a dyn Fn(&Address) -> bool;

/// A connection that may become the test's.
struct Candidate {
    accepted: Accepted,
    /// The received part of its nonce.
    nonce: Nonce,
    filled: usize,
}

/// The result of the nonce check.
enum Proof {
    Missing,
    Right,
    Wrong,
}

impl<'a> DataPeer<'a> {
    /// A client whose data comes from its own address, under the default policy.
    pub fn of(control: &'a Address) -> Self {
        Self {
            control,
            named: None,
            policy: Policy::default(),
        }
    }

    /// Whether data from `source` is expected. Expected sources are the control connection's peer, the address in the
    /// request, and any address of this host if the control connection's peer is on it. An address of another family
    /// than the control connection's cannot be compared, so it is expected too.
    pub fn expects(&self, source: &Address) -> bool {
        let is_comparable = discriminant(source) == discriminant(self.control);
        !is_comparable
            || self.is_control(source)
            || self
                .named
                .is_some_and(|named| named.shares_host_with(source))
    }

    /// Whether datagrams may be sent to `target`. Only the control connection's peer is allowed, unless the operator
    /// allows more. An address in a request does not prove that its owner agrees.
    pub fn may_send_to(&self, target: &Address) -> bool {
        // A path, or a hardware address on the same link, cannot be used to attack a third party: the kernel reports
        // that the datagram came from there.
        let is_local = match target {
            Address::Unix(path) => !path.as_os_str().is_empty(),
            Address::Llc(_) => true,
            _ => false,
        };
        is_local || self.policy.third_party || self.is_control(target)
    }

    fn is_control(&self, address: &Address) -> bool {
        let is_own = |address: &Address| {
            let ip = address.ip().map(|ip| ip.to_canonical());
            ip.is_some_and(sys::facts::is_own)
        };
        address.shares_host_with(self.control) || (is_own(self.control) && is_own(address))
    }
}

impl Door {
    /// Whether no connection has been accepted yet. The first may have to wait for a better one.
    pub fn is_first(&self) -> bool {
        self.takes_strangers.is_none()
    }

    /// Returns the source of the first connection that was closed because of its address.
    pub fn refused(&self) -> Option<&Address> {
        self.refused.as_ref()
    }

    /// Accepts the next connection of `peer` and returns its address if that is unexpected. The first connection
    /// follows the rule of [`accept_data`] and must arrive within `patience`. Later ones are accepted until `stop`; if
    /// the first came from an expected address, connections from unexpected ones are closed. Connections of `others`
    /// are kept until they are requested.
    pub fn accept(
        &mut self,
        listener: &Socket,
        peer: &DataPeer<'_>,
        others: Others<'_>,
        patience: Duration,
        stop: &Stop,
    ) -> Result<(Socket, Option<Address>), Error> {
        let mut kept = self.kept.iter();
        if let Some(at) = kept.position(|kept| peer.expects(&kept.from)) {
            return Ok((self.kept.remove(at).socket, None));
        }
        let Some(takes_strangers) = self.takes_strangers else {
            let mut may_wait = |stranger: Accepted| {
                if peer.policy.strict || others(&stranger.from) {
                    self.reject(stranger, others);
                    return None;
                }
                self.refused.get_or_insert_with(|| stranger.from.clone());
                Some(stranger)
            };
            let until = Instant::now() + patience;
            let refused = |_: &Address| {};
            let accepted =
                accept_first(listener, peer, None, until, stop, &refused, &mut may_wait)?;
            self.takes_strangers = Some(accepted.is_stranger);
            if accepted.is_stranger {
                self.refused = None;
            }
            let Accepted {
                socket,
                from,
                is_stranger,
            } = accepted;
            return Ok((socket, is_stranger.then_some(from)));
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
            let is_known = |last: &(Address, Peer)| {
                last.1.shares_host_with(&from) && peer.control.shares_host_with(&last.0)
            };
            if self.last.as_ref().is_some_and(is_known) {
                return Ok((connection.into(), None));
            }
            let Some(address) = from.address() else {
                continue;
            };
            let is_stranger = !peer.expects(&address);
            if !is_stranger {
                if peer.is_control(&address) {
                    self.last = Some((peer.control.clone(), from));
                }
                return Ok((connection.into(), None));
            }
            if takes_strangers && !others(&address) {
                return Ok((connection.into(), Some(address)));
            }
            let rejected = Accepted {
                socket: connection.into(),
                from: address,
                is_stranger,
            };
            self.reject(rejected, others);
        }
    }

    /// Keeps a connection of another peer of the test; closes any other.
    fn reject(&mut self, accepted: Accepted, others: Others<'_>) {
        if !others(&accepted.from) {
            self.refused.get_or_insert(accepted.from);
        } else if self.kept.len() < MOST_WAITING {
            self.kept.push(Accepted {
                is_stranger: false,
                ..accepted
            });
        }
    }
}

/// Accepts the data connection of a test. Returns [`Error::TIMEDOUT`] if none arrives before `until`.
///
/// With a `nonce`, the data connection is the one that starts with it, from any address. Without one, it is the first
/// from an expected address. If none arrives within 2 s of a connection from an unexpected address, that connection is
/// accepted, unless the operator forbids it. `refused` is called for each connection closed because of its address.
pub fn accept_data(
    listener: &Socket,
    peer: &DataPeer<'_>,
    nonce: Option<&Nonce>,
    until: Instant,
    stop: &Stop,
    refused: &dyn Fn(&Address),
) -> Result<Accepted, Error> {
    let mut may_wait = |stranger: Accepted| {
        if peer.policy.strict {
            refused(&stranger.from);
            return None;
        }
        Some(stranger)
    };
    accept_first(listener, peer, nonce, until, stop, refused, &mut may_wait)
}

impl ServerContext<'_> {
    /// Accepts the one data connection of a client on a listener, from the client's own host, within `patience`; see
    /// [`control::is_late`]. If the client hangs up, the wait ends at once with [`io::ErrorKind::UnexpectedEof`].
    /// [`Self::cut`] also ends it. Refused connections are logged.
    pub fn accept_data(
        &self,
        dialect: &impl Dialect,
        control: &ControlConnection,
        listener: &Socket,
        patience: Duration,
    ) -> io::Result<Socket> {
        let stop = self.cut.follower();
        let _watch = deadline_thread().on_hang_up(control.as_fd(), &stop);
        let mut peer = DataPeer::of(control.peer());
        peer.policy.strict = true;
        let until = Instant::now() + patience;
        let refused = |from: &Address| {
            let peer = control.peer();
            dialect.warn(format_args!(
                "{peer}: refused a data connection from {from}"
            ));
        };
        match accept_data(listener, &peer, None, until, &stop, &refused) {
            Ok(accepted) => Ok(accepted.socket),
            Err(Error::TIMEDOUT) => Err(io::ErrorKind::TimedOut.into()),
            Err(_) if stop.reason() == Some(Reason::PeerClosed) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The treatment of a connection from an unexpected address: it waits for a better one, or it is removed.
type MayWait<'a> = &'a mut dyn FnMut(Accepted) -> Option<Accepted>;

/// Like [`accept_data`], with another rule for unexpected addresses.
fn accept_first(
    listener: &Socket,
    peer: &DataPeer<'_>,
    nonce: Option<&Nonce>,
    until: Instant,
    stop: &Stop,
    refused: &dyn Fn(&Address),
    may_wait: MayWait<'_>,
) -> Result<Accepted, Error> {
    let _attending = stop.attend();
    let _limited = Limited::new(listener);
    let mut waiting: Vec<Candidate> = Vec::new();
    let mut first_stranger = None;
    loop {
        let now = Instant::now();
        let decision = first_stranger.map_or(until, |since: Instant| until.min(since + PREFERENCE));
        if stop.is_set() {
            return Err(Error::CANCELED);
        }
        if now >= decision {
            waiting.retain(|candidate| call::is_open(candidate.accepted.socket.as_fd()));
            // Without a nonce, the waiting candidates are the only choice.
            if nonce.is_none() && !waiting.is_empty() {
                return Ok(waiting.remove(0).accepted);
            }
            if now >= until {
                return Err(Error::TIMEDOUT);
            }
            first_stranger = None;
        }
        if !wait_for_any(listener, &waiting, nonce.is_some(), decision)? {
            continue;
        }
        if let Some(nonce) = nonce
            && let Some(proved) = proved(&mut waiting, nonce)
        {
            return Ok(proved);
        }
        let mut accepted = match next(listener, peer) {
            Ok(Some(accepted)) => accepted,
            Ok(None) => continue,
            // No descriptor is free: drop a candidate to get one.
            Err(Error::MFILE | Error::NFILE) if !waiting.is_empty() => {
                waiting.remove(least(&waiting));
                continue;
            }
            Err(error) => return Err(error),
        };
        if nonce.is_none() {
            if !accepted.is_stranger {
                for other in &waiting {
                    refused(&other.accepted.from);
                }
                return Ok(accepted);
            }
            let Some(stranger) = may_wait(accepted) else {
                continue;
            };
            accepted = stranger;
            first_stranger = first_stranger.or_else(|| Some(Instant::now()));
        }
        if waiting.len() == MOST_WAITING {
            if nonce.is_none() {
                // The first candidate is preferred anyway.
                continue;
            }
            waiting.remove(least(&waiting));
        }
        waiting.push(Candidate {
            accepted,
            nonce: Nonce::default(),
            filled: 0,
        });
    }
}

/// A listener whose accept calls time out. A connection that is aborted after the wait for it leaves nothing to accept.
/// Later accept calls wait without limit.
struct Limited<'a>(&'a Socket);

impl<'a> Limited<'a> {
    fn new(listener: &'a Socket) -> Self {
        let _ = listener.set_read_timeout(Some(PREFERENCE));
        Self(listener)
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        let _ = self.0.set_read_timeout(None);
    }
}

/// Returns the candidate that is least likely to be the client's: the oldest from an unexpected address, or else the
/// oldest. A client sends its nonce at once.
fn least(waiting: &[Candidate]) -> usize {
    let stranger = waiting.iter().position(|one| one.accepted.is_stranger);
    stranger.unwrap_or(0)
}

/// Waits for a connection to accept or for data from a candidate. Returns whether either arrived in time.
fn wait_for_any(
    listener: &Socket,
    waiting: &[Candidate],
    by_nonce: bool,
    until: Instant,
) -> Result<bool, Error> {
    let mut sockets = vec![listener.as_fd()];
    if by_nonce {
        sockets.extend(
            waiting
                .iter()
                .map(|candidate| candidate.accepted.socket.as_fd()),
        );
    }
    match call::wait_any_readable(&sockets, until.saturating_duration_since(Instant::now())) {
        Ok(ready) => Ok(ready.is_some()),
        Err(Error::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Accepts the next connection; `None` if it was aborted meanwhile.
fn next(listener: &Socket, peer: &DataPeer<'_>) -> Result<Option<Accepted>, Error> {
    let ready = call::wait_readable(listener.as_fd(), Duration::ZERO);
    if !matches!(ready, Ok(true)) {
        return Ok(None);
    }
    match call::accept_from(listener.as_fd()) {
        Ok((connection, from)) => {
            let socket = Socket::from(connection);
            // The socket inherits the listener's timeout, with which the kernel would set a timer in each call that
            // waits.
            let _ = socket.set_read_timeout(None);
            let Some(from) = from.and_then(|from| from.address()) else {
                return Ok(None);
            };
            let is_stranger = !peer.expects(&from);
            Ok(Some(Accepted {
                socket,
                from,
                is_stranger,
            }))
        }
        Err(Error::INTR | Error::AGAIN | Error::CONNABORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the candidate that has sent the nonce. Closes those that have sent other bytes.
fn proved(waiting: &mut Vec<Candidate>, nonce: &Nonce) -> Option<Accepted> {
    let mut at = 0;
    while at < waiting.len() {
        match waiting[at].read(nonce) {
            Proof::Right => return Some(waiting.remove(at).accepted),
            Proof::Wrong => drop(waiting.remove(at)),
            Proof::Missing => at += 1,
        }
    }
    None
}

impl Candidate {
    fn read(&mut self, nonce: &Nonce) -> Proof {
        let rest = &mut self.nonce[self.filled..];
        match call::receive_without_waiting(self.accepted.socket.as_fd(), rest) {
            Ok(0) => return Proof::Wrong,
            Ok(count) => self.filled += count,
            Err(Error::AGAIN | Error::INTR) => return Proof::Missing,
            Err(_) => return Proof::Wrong,
        }
        // Only a complete nonce is compared. Otherwise an attacker could find it byte by byte.
        if self.filled < nonce.len() {
            Proof::Missing
        } else if self.nonce == *nonce {
            Proof::Right
        } else {
            Proof::Wrong
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

    const PATIENCE: Duration = Duration::from_secs(20);

    fn soon() -> Instant {
        Instant::now() + PATIENCE
    }

    fn inet(text: &str) -> Address {
        Address::Inet(text.parse().unwrap())
    }

    #[test]
    fn datagrams_go_to_the_control_peer_alone() {
        // The peer is on another host, so all addresses of this host are treated alike.
        let control = inet("192.0.2.1:7");
        let named = inet("192.0.2.2:7");
        let mut peer = DataPeer {
            named: Some(&named),
            ..DataPeer::of(&control)
        };
        assert!(peer.may_send_to(&inet("192.0.2.1:9")));
        assert!(peer.may_send_to(&inet("[::ffff:192.0.2.1]:9")));
        assert!(!peer.may_send_to(&named));
        assert!(!peer.may_send_to(&inet("127.0.0.1:9")));
        assert!(!peer.may_send_to(&Address::Unix("".into())));
        assert!(peer.expects(&named));
        assert!(!peer.expects(&inet("192.0.2.3:7")));
        // These cannot be compared with the control connection's address.
        for other in [
            Address::Unix("".into()),
            Address::Llc(sys::Llc::default()),
            Address::Vsock {
                context: 3,
                port: 1,
            },
        ] {
            assert!(peer.expects(&other), "{other}");
        }
        peer.policy.third_party = true;
        assert!(peer.may_send_to(&named));
        let here = inet("127.0.0.1:7");
        assert!(DataPeer::of(&here).may_send_to(&inet("127.0.0.2:9")));
    }

    #[test]
    fn an_expected_connection_is_preferred() {
        let (listening, at) = listener();
        let (control, named) = (inet("192.0.2.1:1"), inet("127.0.0.3:1"));
        let peer = DataPeer {
            named: Some(&named),
            ..DataPeer::of(&control)
        };
        let mut stranger = connect_from([127, 0, 0, 2], at);
        let _own = connect_from([127, 0, 0, 3], at);
        let turned_away = Cell::new(0);
        let count = |_: &Address| turned_away.set(turned_away.get() + 1);
        let accepted = accept_data(&listening, &peer, None, soon(), &Stop::new(), &count).unwrap();
        assert!(!accepted.is_stranger);
        assert_eq!(accepted.from.ip(), named.ip());
        assert_eq!(turned_away.into_inner(), 1);
        assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0, "it is closed");
    }

    #[test]
    fn a_stranger_is_accepted_if_nobody_else_comes_and_the_rule_is_not_strict() {
        let (listening, at) = listener();
        let control = inet("192.0.2.1:1");
        let mut peer = DataPeer::of(&control);
        drop(connect_from([127, 0, 0, 2], at));
        let _stranger = connect_from([127, 0, 0, 3], at);
        let begun = Instant::now();
        let accepted = accept_data(&listening, &peer, None, soon(), &Stop::new(), &|_| ()).unwrap();
        assert!(accepted.is_stranger && begun.elapsed() >= PREFERENCE);
        assert_eq!(accepted.from.ip(), inet("127.0.0.3:1").ip());

        peer.policy.strict = true;
        let _stranger = connect_from([127, 0, 0, 3], at);
        let until = Instant::now() + Duration::from_millis(100);
        let refused = Cell::new(false);
        let note = |_: &Address| refused.set(true);
        let ended = accept_data(&listening, &peer, None, until, &Stop::new(), &note);
        assert_eq!(ended.unwrap_err(), Error::TIMEDOUT);
        assert!(refused.get());
    }

    #[test]
    fn later_accepts_of_the_listener_have_no_timeout() {
        let (listening, at) = listener();
        let control = inet("127.0.0.1:1");
        let _own = connect_from([127, 0, 0, 1], at);
        accept_data(
            &listening,
            &DataPeer::of(&control),
            None,
            soon(),
            &Stop::new(),
            &|_| {},
        )
        .unwrap();
        assert_eq!(listening.read_timeout().unwrap(), None);
    }

    #[test]
    fn the_first_connection_decides_about_the_later_ones() {
        let (listening, at) = listener();
        let (control, named) = (inet("192.0.2.1:1"), inet("127.0.0.3:1"));
        let peer = DataPeer {
            named: Some(&named),
            ..DataPeer::of(&control)
        };
        let mut door = Door::default();
        let accept = |door: &mut Door| {
            let accepted = door.accept(&listening, &peer, &|_| false, PATIENCE, &Stop::new());
            accepted.map(|(socket, stranger)| {
                let from = Address::of_peer(&socket).unwrap();
                (from.ip(), stranger.is_some())
            })
        };
        let _own = connect_from([127, 0, 0, 3], at);
        assert_eq!(accept(&mut door), Ok((named.ip(), false)));
        let mut stranger = connect_from([127, 0, 0, 2], at);
        let _own = connect_from([127, 0, 0, 3], at);
        let begun = Instant::now();
        assert_eq!(accept(&mut door), Ok((named.ip(), false)));
        assert!(begun.elapsed() < PREFERENCE, "it is not waited for");
        assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0, "it is closed");
        let refused = door.refused().and_then(Address::ip);
        assert_eq!(refused, inet("127.0.0.2:1").ip());

        let mut door = Door::default();
        for source in [2, 4] {
            let _stranger = connect_from([127, 0, 0, source], at);
            let from = inet(&format!("127.0.0.{source}:1")).ip();
            assert_eq!(accept(&mut door), Ok((from, true)));
        }
    }

    #[test]
    fn connections_of_another_peer_of_the_test_wait_for_their_turn() {
        let (listening, at) = listener();
        let (here, there) = (inet("127.0.0.3:1"), inet("127.0.0.2:1"));
        // If one address of this host is expected, all are, so both are named.
        let control = inet("192.0.2.1:1");
        let peer = |named| DataPeer {
            named: Some(named),
            ..DataPeer::of(&control)
        };
        let mut door = Door::default();
        let mut early = connect_from([127, 0, 0, 2], at);
        let _own = connect_from([127, 0, 0, 3], at);
        for (expected, other) in [(&here, &there), (&there, &here)] {
            let others = |from: &Address| from.shares_host_with(other);
            let peer = peer(expected);
            let accepted = door.accept(&listening, &peer, &others, PATIENCE, &Stop::new());
            let (socket, stranger) = accepted.unwrap();
            let from = Address::of_peer(&socket).unwrap();
            assert_eq!((from.ip(), stranger), (expected.ip(), None));
            if expected.shares_host_with(&there) {
                TcpStream::from(socket).write_all(b"x").unwrap();
            }
        }
        early.read_exact(&mut [0; 1]).unwrap();
    }

    #[test]
    fn a_nonce_decides_whoever_is_first() {
        let (listening, at) = listener();
        let control = inet("127.0.0.1:1");
        let silent: Vec<_> = (0..MOST_WAITING + 4)
            .map(|_| connect_from([127, 0, 0, 1], at))
            .collect();
        connect_from([127, 0, 0, 1], at)
            .write_all(b"another sixteen!")
            .unwrap();
        let mut own = connect_from([127, 0, 0, 9], at);
        own.write_all(&NONCE).unwrap();
        own.write_all(b"data").unwrap();
        let peer = DataPeer::of(&control);
        let nonce = Some(&NONCE);
        let accepted =
            accept_data(&listening, &peer, nonce, soon(), &Stop::new(), &|_| ()).unwrap();
        assert_eq!(accepted.from.ip(), inet("127.0.0.9:1").ip());
        let mut data = [0; 4];
        TcpStream::from(accepted.socket)
            .read_exact(&mut data)
            .unwrap();
        assert_eq!(&data, b"data", "the nonce is no data");
        drop(silent);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let (listening, _) = listener();
        let control = inet("127.0.0.1:1");
        let stop = Stop::new();
        let _deadline =
            engine::deadline_thread().at(Instant::now() + Duration::from_millis(20), &stop);
        let peer = DataPeer::of(&control);
        let ended = accept_data(&listening, &peer, None, soon(), &stop, &|_| ());
        assert_eq!(ended.unwrap_err(), Error::CANCELED);
    }
}
