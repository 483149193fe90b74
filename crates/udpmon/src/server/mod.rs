//! The responder: a socket that waits for requesters, and one session per requester.

mod session;
pub(crate) mod tally;
mod test;

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use engine::{Budget, Reason, Stop, datagram_branch, datagram_listener};
use model::Transport;
use server::{Place, Refusal, Service};
use sys::call::{self, Error};
use sys::clock::monotonic_ns;
use sys::{Address, Socket};

use self::session::Session;
use crate::endpoint;
use crate::options::{Common, Resp};
use crate::result::Opened;
use crate::wire::{Block, Capability, Command, EndReason};

/// The interval at which the listener checks for a stop.
const LOOK: Duration = Duration::from_secs(1);

/// The maximum wait of a new requester for the end of a session that makes room.
const HANDOVER: Duration = Duration::from_millis(100);

/// The maximum number of sessions without a test: those that wait for the next test of their requester.
const MOST_WAITING: usize = 32;

/// The stack size of a session. Its buffers are on the heap, except for histograms.
const STACK: usize = 256 * 1024;

/// The length of the shortest ZEROSTATS: a 32-bit requester sends no padding.
const SHORTEST_BEGIN: usize = 204;

/// Opens the responder's sockets, and binds this thread and its future child threads to the CPUs of the options.
pub fn listen(common: &Common) -> io::Result<(Vec<Socket>, Opened)> {
    let [v6, v4] = Address::wildcards(common.port);
    let bind = if common.v6 { v6 } else { v4 };
    let socket = datagram_listener(Transport::Udp, &bind, &common.socket())
        .map_err(|error| io::Error::other(format!("UDP port {}: {error}", common.port)))?;
    endpoint::widen(&socket, common);
    let opened = endpoint::opened(common, &socket, None)?;
    Ok((vec![socket], opened))
}

/// Serves requesters until the service's stop, and then waits for the running sessions to end. `warn` writes a line
/// about a refused requester, which may be an attacker.
pub fn serve(
    listeners: Vec<Socket>,
    settings: &Resp,
    service: &Service,
    warn: &(dyn Fn(fmt::Arguments<'_>) + Sync),
) {
    let server = Server {
        settings,
        service,
        warn,
        memory: Budget::new(settings.limits.memory_bytes),
        sessions: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for listener in listeners {
            let server = &server;
            // Sessions borrow it only at their start, to get the addresses of their sockets.
            scope.spawn(move || server.open(&listener, scope));
        }
    });
}

/// The state that the sessions share.
struct Server<'a> {
    settings: &'a Resp,
    service: &'a Service,
    warn: &'a (dyn Fn(fmt::Arguments<'_>) + Sync),
    /// The memory for all records.
    memory: Budget,
    sessions: Mutex<Vec<Arc<Entry>>>,
}

/// A session, as visible to the other sessions.
#[derive(Debug)]
struct Entry {
    peer: Address,
    /// Ends the session.
    stop: Stop,
    /// The session received a datagram after the request that started the test.
    is_confirmed: AtomicBool,
    /// The session holds a place for a test.
    is_testing: AtomicBool,
}

impl Server<'_> {
    /// Accepts new requesters until the stop.
    fn open<'scope>(&'scope self, listener: &Socket, scope: &'scope Scope<'scope, '_>) {
        let mut buffer = vec![0; 2048];
        let stop = self.service.stop();
        while !stop.is_set() {
            // An error means a stop, or the receive call reports it again.
            let _ = stop.wait_readable(listener.as_fd(), Instant::now() + LOOK);
            match call::receive_from_without_waiting(listener.as_fd(), &mut buffer) {
                Ok((length, Some(from))) => {
                    self.attend(listener, &from, &mut buffer[..length], scope);
                }
                Ok((_, None)) | Err(Error::INTR | Error::AGAIN) => {}
                Err(error) => {
                    (self.warn)(format_args!("udpmon: {}", sys::describe(&error)));
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Handles a datagram from a source without a session. Stores no state, except for a request that starts a test.
    /// The answer is no longer than the datagram.
    fn attend<'scope>(
        &'scope self,
        listener: &Socket,
        from: &Address,
        datagram: &mut [u8],
        scope: &'scope Scope<'scope, '_>,
    ) {
        let Some(block) = Block::read(datagram) else {
            return;
        };
        let answer = match block.command() {
            Some(Command::ZeroStats) if datagram.len() >= SHORTEST_BEGIN => {
                match self.begin(listener, from, datagram, scope) {
                    Ok(()) => return,
                    Err(why) => {
                        (self.warn)(format_args!("udpmon: {from}: refused a test: {why}"));
                        Command::InUse
                    }
                }
            }
            Some(Command::TestEnd) => Command::Ok,
            // The session of this linerate has ended.
            Some(command) if command != Command::Ended => match Capability::find(datagram) {
                Some(ours) if ours.nonce != 0 => Command::Ended,
                _ => return,
            },
            _ => return,
        };
        answer_in_place(datagram, answer);
        if let Ok(to) = call::Peer::try_from(from) {
            let _ = call::send_to_without_waiting(listener.as_fd(), datagram, &to);
        }
    }

    /// Starts a session. Does nothing if the requester already has one: it repeated its request before the session
    /// opened its socket.
    fn begin<'scope>(
        &'scope self,
        listener: &Socket,
        from: &Address,
        request: &[u8],
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(), String> {
        let came_ns = monotonic_ns();
        if self.sessions().iter().any(|other| other.peer == *from) {
            return Ok(());
        }
        let place = self
            .place(from, None)
            .map_err(|refusal| refusal.to_string())?;
        let bound = Address::of(listener).map_err(|error| sys::describe(&error))?;
        let options = self.settings.common.socket();
        let socket = datagram_branch((listener, &bound), Transport::Udp, from, &options);
        let socket = socket.map_err(|error| error.to_string())?;
        endpoint::widen(&socket, &self.settings.common);
        let entry = Arc::new(Entry {
            peer: from.clone(),
            stop: self.service.cut().follower(),
            is_confirmed: AtomicBool::new(false),
            is_testing: AtomicBool::new(true),
        });
        self.sessions().push(Arc::clone(&entry));
        let (registered, request) = (Registered(self, Arc::clone(&entry)), request.to_vec());
        let session = move || {
            let _registered = registered;
            Session::new(self, socket.as_fd(), &entry).run(request, came_ns, place);
        };
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, session);
        thread.map(drop).map_err(|error| sys::describe(&error))
    }

    /// Returns a place for a test. If all places are taken, ends a session of the same host to make room: a session
    /// without a datagram so far or, if there is only one place, the session that holds it.
    fn place(&self, peer: &Address, own: Option<&Entry>) -> Result<Place, Refusal> {
        let refusal = match self.service.admit(peer) {
            Err(refusal @ (Refusal::Full(_) | Refusal::AddressFull(_))) => refusal,
            other => return other,
        };
        let is_single = self.settings.limits.server.clients == 1;
        let victim = {
            let sessions = self.sessions();
            let mut others = sessions.iter().filter(|other| {
                let is_own = own.is_some_and(|own| std::ptr::eq(own, Arc::as_ptr(other)));
                let may_end = is_single || !other.is_confirmed.load(Relaxed);
                !is_own
                    && may_end
                    && other.is_testing.load(Relaxed)
                    && other.peer.shares_host_with(peer)
            });
            others.next().cloned()
        };
        let Some(victim) = victim else {
            return Err(refusal);
        };
        // The requesting host has abandoned this session.
        victim.stop.pull(Reason::PeerClosed);
        let until = Instant::now() + HANDOVER;
        loop {
            match self.service.admit(peer) {
                Err(refusal) if Instant::now() >= until => return Err(refusal),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
                admitted => return admitted,
            }
        }
    }

    /// Whether a session may wait for its requester's next test.
    fn may_wait(&self) -> bool {
        let waiting = |entry: &&Arc<Entry>| !entry.is_testing.load(Relaxed);
        self.sessions().iter().filter(waiting).count() <= MOST_WAITING
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session in the list of sessions, for as long as this value lives.
struct Registered<'a>(&'a Server<'a>, Arc<Entry>);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0
            .sessions()
            .retain(|other| !Arc::ptr_eq(other, &self.1));
    }
}

/// Converts a request in place to its answer: the same block with another command.
fn answer_in_place(datagram: &mut [u8], answer: Command) {
    let ours = Capability::find(datagram);
    let Some(mut block) = Block::read(datagram) else {
        return;
    };
    (block.command, block.version) = (answer as u32, crate::wire::VERSION);
    if answer == Command::Ended {
        block.length = EndReason::Unknown as u32;
    }
    block.write(datagram);
    if let (Some(ours), Some(bytes)) = (ours, datagram.first_chunk_mut()) {
        ours.put(bytes);
    }
}
