//! The responder: a listening socket for new requesters, and one session per requester.

pub(crate) mod arrivals;
mod session;
mod test;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use engine::{
    BudgetHolder, ResourceBudget, SharedBudget, Stop, StopReason, open_datagram_branch,
    open_datagram_listener,
};
use model::Transport;
use server::{ClientSlot, Refusal, Service};
use sys::call::{self, Error};
use sys::clock::monotonic_ns;
use sys::{Address, Socket};

use self::session::Session;
use crate::endpoint;
use crate::options::{CommonSettings, RespSettings};
use crate::result::EndpointInfo;
use crate::wire::{Command, EndReason, LinerateExtension, MessageBlock};

/// The interval at which the listener checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum wait of a new requester for the end of the session that it replaces.
const HANDOVER_TIMEOUT: Duration = Duration::from_millis(100);

/// The maximum number of sessions that wait for the next test of their requester.
const MAX_WAITING_SESSIONS: usize = 32;

/// The time without datagrams after which an unproven session yields to another requester. A stock
/// requester repeats a request after 3 s.
const SILENCE_TIME: Duration = Duration::from_secs(4);

/// The stack size of a session's thread. Except for histograms, its buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// The memory of a session without records, in bytes: its stack, its receive batch, and the numbers
/// that detect repeated packets.
const SESSION_BYTES: u64 = 232 * 1024;

/// The minimum length of ZEROSTATS. A 32-bit requester sends 204 bytes, without the padding at the
/// end.
const MIN_ZERO_STATS_BYTES: usize = 204;

/// Opens the responder's sockets, and binds this thread and its future child threads to the CPUs of
/// the options.
pub fn listen(common: &CommonSettings) -> io::Result<(Vec<Socket>, EndpointInfo)> {
    let [v6, v4] = Address::wildcards(common.port);
    let bind = if common.is_v6 { v6 } else { v4 };
    let socket = open_datagram_listener(Transport::Udp, &bind, &common.socket_options())
        .map_err(|error| io::Error::other(format!("UDP port {}: {error}", common.port)))?;
    endpoint::enlarge_receive_buffer(&socket, common);
    let info = endpoint::prepare(common, &socket, None)?;
    Ok((vec![socket], info))
}

/// Serves requesters until the service's stop, and then waits until the running sessions end.
/// `warn` writes a line about a refused requester.
pub fn serve(
    listeners: Vec<Socket>,
    settings: &RespSettings,
    service: &Service,
    warn: &(dyn Fn(fmt::Arguments<'_>) + Sync),
) {
    let server = Server {
        settings,
        service,
        warn,
        memory: SharedBudget::within(
            &ResourceBudget::process().memory,
            settings.limits.memory_bytes,
        ),
        sessions: Mutex::default(),
        nonce_secret: RandomState::new(),
    };
    std::thread::scope(|scope| {
        for listener in listeners {
            let server = &server;
            // The listener closes when its thread ends. Sessions that still run have sockets of
            // their own.
            scope.spawn(move || server.accept_requesters(&listener, scope));
        }
    });
}

/// The state that the sessions share.
struct Server<'a> {
    settings: &'a RespSettings,
    service: &'a Service,
    warn: &'a (dyn Fn(fmt::Arguments<'_>) + Sync),
    /// The memory for all records.
    memory: SharedBudget,
    sessions: Mutex<Vec<Arc<SessionEntry>>>,
    /// The secret that the nonces depend on.
    nonce_secret: RandomState,
}

/// The state of a session that other sessions and the listener use.
#[derive(Debug)]
struct SessionEntry {
    peer: Address,
    /// Ends the session.
    stop: Stop,
    /// Whether the session has received a datagram after the request that started the test.
    is_confirmed: AtomicBool,
    /// Whether the session holds a client slot for a test.
    is_testing: AtomicBool,
    /// Whether the requester has proved its address with the nonce.
    is_proven: AtomicBool,
    /// Whether no datagram has arrived for [`SILENCE_TIME`].
    is_silent: AtomicBool,
}

impl SessionEntry {
    /// Returns whether this session ends for a request of `peer`. A request of the same host means
    /// that the host has abandoned the session, but the source of an unproven request may be forged.
    fn yields_to(&self, peer: &Address, is_proven: bool, is_single: bool) -> bool {
        let is_abandoned =
            self.peer.shares_host_with(peer) && (is_single || !self.is_confirmed.load(Relaxed));
        if self.is_proven.load(Relaxed) {
            return is_proven && is_abandoned;
        }
        is_proven || is_abandoned || self.is_silent.load(Relaxed)
    }
}

impl Server<'_> {
    /// Accepts new requesters until the stop.
    fn accept_requesters<'scope>(
        &'scope self,
        listener: &Socket,
        scope: &'scope Scope<'scope, '_>,
    ) {
        let mut buffer = vec![0; 2048];
        let stop = self.service.stop();
        while !stop.is_set() {
            // Ignore errors: they mean a stop, or the receive call reports them again.
            let _ = stop.wait_readable(listener.as_fd(), Instant::now() + STOP_CHECK_INTERVAL);
            match call::receive_from_without_waiting(listener.as_fd(), &mut buffer) {
                Ok((length, Some(from))) => {
                    self.handle_datagram(listener, &from, &mut buffer[..length], scope);
                }
                Ok((_, None)) | Err(Error::INTR | Error::AGAIN) => {}
                Err(error) => {
                    (self.warn)(format_args!("udpmon: {}", sys::describe(&error)));
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Handles a datagram from a source without a session. Only a request that starts a test
    /// creates state. The answer is no longer than the datagram.
    fn handle_datagram<'scope>(
        &'scope self,
        listener: &Socket,
        from: &Address,
        datagram: &mut [u8],
        scope: &'scope Scope<'scope, '_>,
    ) {
        let Some(block) = MessageBlock::read(datagram) else {
            return;
        };
        let answer = match block.command() {
            // A linerate requester repeats the request with the nonce of the answer. A session before
            // that could be ended by a request with a forged source.
            Some(Command::ZeroStats) if self.lacks_nonce(from, datagram) => Command::InUse,
            Some(Command::ZeroStats) if datagram.len() >= MIN_ZERO_STATS_BYTES => {
                match self.start_session(listener, from, datagram, scope) {
                    Ok(()) => return,
                    Err(reason) => {
                        (self.warn)(format_args!("udpmon: {from}: refused a test: {reason}"));
                        Command::InUse
                    }
                }
            }
            Some(Command::TestEnd) => Command::Ok,
            // The request belongs to an ended session of a linerate requester.
            Some(command) if command != Command::Ended => match LinerateExtension::find(datagram) {
                Some(extension) if extension.nonce != 0 => Command::Ended,
                _ => return,
            },
            _ => return,
        };
        answer_in_place(datagram, answer);
        if answer == Command::InUse {
            write_nonce(datagram, self.nonce_for(from));
        }
        if let Ok(destination) = call::KernelAddress::try_from(from) {
            let _ = call::send_to_without_waiting(listener.as_fd(), datagram, &destination);
        }
    }

    /// Returns whether a linerate requester has not yet proved its address.
    fn lacks_nonce(&self, from: &Address, request: &[u8]) -> bool {
        LinerateExtension::find(request)
            .is_some_and(|extension| extension.nonce != self.nonce_for(from))
    }

    /// Starts a session. Does nothing if the requester already has one: then its request arrived
    /// again before the session's socket was open.
    fn start_session<'scope>(
        &'scope self,
        listener: &Socket,
        from: &Address,
        request: &[u8],
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(), String> {
        let arrival_ns = monotonic_ns();
        if self.sessions().iter().any(|entry| entry.peer == *from) {
            return Ok(());
        }
        // The caller has checked the nonce of a linerate requester.
        let is_proven = LinerateExtension::find(request).is_some();
        let slot = self
            .claim_slot(from, is_proven, None)
            .map_err(|refusal| refusal.to_string())?;
        let memory = self
            .memory
            .reserve(BudgetHolder::for_address(from), SESSION_BYTES)
            .map_err(|exceeded| format!("bytes of memory: {exceeded} (--max-memory)"))?;
        let bound = Address::local(listener).map_err(|error| sys::describe(&error))?;
        let options = self.settings.common.socket_options();
        let socket = open_datagram_branch((listener, &bound), Transport::Udp, from, &options);
        let socket = socket.map_err(|error| error.to_string())?;
        endpoint::enlarge_receive_buffer(&socket, &self.settings.common);
        let entry = Arc::new(SessionEntry {
            peer: from.clone(),
            stop: self.service.cancel_stop().child(),
            is_confirmed: AtomicBool::new(false),
            is_testing: AtomicBool::new(true),
            is_proven: AtomicBool::new(is_proven),
            is_silent: AtomicBool::new(false),
        });
        self.sessions().push(Arc::clone(&entry));
        let (registration, request) = (
            SessionRegistration(self, Arc::clone(&entry)),
            request.to_vec(),
        );
        let session = move || {
            let _registration = (registration, memory);
            Session::new(self, socket.as_fd(), &entry).run(request, arrival_ns, slot);
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, session);
        thread.map(drop).map_err(|error| sys::describe(&error))
    }

    /// Returns a slot for a test. If all slots are taken, ends the session that the requester may
    /// replace, if any: see [`SessionEntry::yields_to`].
    fn claim_slot(
        &self,
        peer: &Address,
        is_proven: bool,
        current: Option<&SessionEntry>,
    ) -> Result<ClientSlot, Refusal> {
        let admit = || {
            if is_proven {
                self.service.admit(peer)
            } else {
                // In a shared service, the rest of the slots is for continuous flows of iperf 2.
                let is_shared = self.service.config().is_shared;
                self.service.admit_unproven(peer, !is_shared)
            }
        };
        let refusal = match admit() {
            Err(
                refusal @ (Refusal::Full(_)
                | Refusal::AddressFull(_)
                | Refusal::UnprovenFull
                | Refusal::UnprovenNetworkFull),
            ) => refusal,
            other => return other,
        };
        let is_single = self.settings.limits.server.max_clients == 1;
        let victim = {
            let sessions = self.sessions();
            let mut candidates = sessions.iter().filter(|entry| {
                let is_current =
                    current.is_some_and(|current| std::ptr::eq(current, Arc::as_ptr(entry)));
                // Another address's slot is of no use to an address that has its share.
                let is_of_use = matches!(refusal, Refusal::Full(_) | Refusal::UnprovenFull)
                    || entry.peer.shares_host_with(peer);
                !is_current
                    && is_of_use
                    && entry.is_testing.load(Relaxed)
                    && entry.yields_to(peer, is_proven, is_single)
            });
            candidates.next().cloned()
        };
        let Some(victim) = victim else {
            return Err(refusal);
        };
        victim.stop.set(StopReason::PeerClosed);
        let deadline = Instant::now() + HANDOVER_TIMEOUT;
        loop {
            match admit() {
                Err(refusal) if Instant::now() >= deadline => return Err(refusal),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
                admitted => return admitted,
            }
        }
    }

    /// Returns the nonce that proves a requester's address. Only a host that receives the answers to
    /// this address knows it.
    fn nonce_for(&self, peer: &Address) -> u128 {
        let half = |part: u8| u128::from(self.nonce_secret.hash_one((part, peer.to_string())));
        half(0) << 64 | half(1)
    }

    /// Returns whether a session may wait for the next test of its requester.
    fn has_room_for_waiting_session(&self) -> bool {
        let waiting = |entry: &&Arc<SessionEntry>| !entry.is_testing.load(Relaxed);
        self.sessions().iter().filter(waiting).count() <= MAX_WAITING_SESSIONS
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Arc<SessionEntry>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of a session in the list of sessions. Dropping it removes the session.
struct SessionRegistration<'a>(&'a Server<'a>, Arc<SessionEntry>);

impl Drop for SessionRegistration<'_> {
    fn drop(&mut self) {
        self.0
            .sessions()
            .retain(|entry| !Arc::ptr_eq(entry, &self.1));
    }
}

/// Writes the responder's nonce into the answer to a linerate requester.
fn write_nonce(answer: &mut [u8], nonce: u128) {
    if let (Some(extension), Some(block)) =
        (LinerateExtension::find(answer), answer.first_chunk_mut())
    {
        LinerateExtension { nonce, ..extension }.write_into(block);
    }
}

/// Converts a request in place to its answer: the same block with another command and the
/// protocol's version.
fn answer_in_place(datagram: &mut [u8], answer: Command) {
    let extension = LinerateExtension::find(datagram);
    let Some(mut block) = MessageBlock::read(datagram) else {
        return;
    };
    (block.command, block.version) = (answer as u32, crate::wire::VERSION);
    if answer == Command::Ended {
        block.length = EndReason::Unknown as u32;
    }
    block.write(datagram);
    if let (Some(extension), Some(bytes)) = (extension, datagram.first_chunk_mut()) {
        extension.write_into(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proven_session_yields_to_its_own_proven_host_only() {
        let address = |text: &str| Address::Inet(text.parse().unwrap());
        let (same_host, other_host) = (address("192.0.2.1:2"), address("192.0.2.2:2"));
        let yields = |[is_session_proven, is_silent]: [bool; 2], is_request_proven| {
            let entry = SessionEntry {
                peer: address("192.0.2.1:1"),
                stop: Stop::new(),
                is_confirmed: AtomicBool::new(true),
                is_testing: AtomicBool::new(true),
                is_proven: AtomicBool::new(is_session_proven),
                is_silent: AtomicBool::new(is_silent),
            };
            [&same_host, &other_host].map(|peer| entry.yields_to(peer, is_request_proven, true))
        };
        for is_silent in [false, true] {
            assert_eq!(yields([true, is_silent], false), [false, false]);
            assert_eq!(yields([true, is_silent], true), [true, false]);
            assert_eq!(yields([false, is_silent], true), [true, true]);
            assert_eq!(yields([false, is_silent], false), [true, is_silent]);
        }
    }
}
