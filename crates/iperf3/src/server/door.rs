//! Where UDP streams come in: their first datagrams have no cookie, so that a source's address alone says whose they are.
//! Sessions with clients of one address take turns.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{Stop, datagram_branch, datagram_listener};
use model::{SocketOptions, Transport};
use sys::call::{self, Error};
use sys::{Address, Socket};

use crate::wire::reply_to;

/// How often a session that waits for its turn looks at its stop.
const LOOK: Duration = Duration::from_millis(50);

/// The longest wait for a first datagram.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The sessions that wait for UDP streams.
#[derive(Clone, Debug)]
pub(super) struct Door(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where to listen; the second one if a host lacks the first one's family.
    at: Vec<Address>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    listener: Option<Arc<Listener>>,
    waiting: HashMap<IpAddr, Sender<Hello>>,
}

#[derive(Debug)]
struct Listener {
    socket: Socket,
    bound: Address,
}

/// A first datagram.
#[derive(Debug)]
struct Hello {
    from: Address,
    bytes: [u8; 4],
}

/// A session's turn, as long as it is held.
#[derive(Debug)]
pub(super) struct Turn {
    door: Door,
    ip: IpAddr,
    listener: Arc<Listener>,
    hellos: Receiver<Hello>,
}

impl Door {
    pub(super) fn new(at: Vec<Address>) -> Self {
        Self(Arc::new(Inner {
            at,
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Waits for the turn of a client at this address.
    pub(super) fn enter(&self, peer: &Address, until: Instant, stop: &Stop) -> io::Result<Turn> {
        let ip = peer
            .ip()
            .ok_or(io::ErrorKind::AddrNotAvailable)?
            .to_canonical();
        let mut state = self.state();
        while state.waiting.contains_key(&ip) {
            if Instant::now() >= until || stop.is_set() {
                return Err(Error::TIMEDOUT.into());
            }
            let changed = self.0.changed.wait_timeout(state, LOOK);
            state = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
        let listener = match &state.listener {
            Some(listener) => Arc::clone(listener),
            None => self.listen(&mut state)?,
        };
        let (sender, hellos) = channel();
        state.waiting.insert(ip, sender);
        Ok(Turn {
            door: self.clone(),
            ip,
            listener,
            hellos,
        })
    }

    /// Opens the socket, and starts the thread that receives on it from then on: a socket that is closed and opened again
    /// would find the port taken by the streams.
    fn listen(&self, state: &mut State) -> io::Result<Arc<Listener>> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for at in &self.0.at {
            let opened = datagram_listener(Transport::Udp, at, &SocketOptions::default());
            match opened {
                Ok(socket) => {
                    let bound = at.clone();
                    let listener = Arc::new(Listener { socket, bound });
                    let (door, on) = (self.clone(), Arc::clone(&listener));
                    let receive = move || door.receive(&on);
                    std::thread::Builder::new()
                        .stack_size(64 * 1024)
                        .spawn(receive)?;
                    state.listener = Some(Arc::clone(&listener));
                    return Ok(listener);
                }
                Err(error) => last = io::Error::from_raw_os_error(error.errno()),
            }
        }
        Err(last)
    }

    fn receive(&self, listener: &Listener) {
        let mut bytes = [0; 4];
        let socket = listener.socket.as_fd();
        loop {
            let _ = call::wait_readable(socket, LONGEST_WAIT);
            let Ok((_, Some(from))) = call::receive_from_without_waiting(socket, &mut bytes) else {
                continue;
            };
            let state = self.state();
            let waiting = from
                .ip()
                .and_then(|ip| state.waiting.get(&ip.to_canonical()));
            if let Some(sender) = waiting {
                let _ = sender.send(Hello { from, bytes });
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Waits at most so long for the next stream, and answers it: from then on its datagrams come to its own socket.
    pub(super) fn next(
        &self,
        patience: Duration,
        options: &SocketOptions,
    ) -> io::Result<Option<Socket>> {
        let Ok(hello) = self.hellos.recv_timeout(patience) else {
            return Ok(None);
        };
        let listener = (&self.listener.socket, &self.listener.bound);
        let branch = datagram_branch(listener, Transport::Udp, &hello.from, options);
        let branch = branch.map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        call::send(branch.as_fd(), &reply_to(&hello.bytes))?;
        Ok(Some(branch))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.door.state().waiting.remove(&self.ip);
        self.door.0.changed.notify_all();
    }
}
