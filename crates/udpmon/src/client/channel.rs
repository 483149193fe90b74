//! The control exchange with a responder. The channel repeats each request until its reply arrives.
//! It discards late and unrelated datagrams.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use engine::{Role, Stop, StopReason, open_data_socket};
use model::{SocketOptions, Transport};
use stats::clock::ClockExchange;
use sys::call::{self, Error};
use sys::clock::monotonic_ns;
use sys::{Address, Socket};

use crate::wire::{
    Command, EndReason, LinerateExtension, MAX_IMAGE_BYTES_PER_REQUEST, MessageBlock, PartHeader,
    ResultObject, VERSION,
};

/// The time to wait for a reply before a request is repeated.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of attempts per request.
const MAX_TRIES: u32 = 30;

/// The same limits for the last request of a failed or interrupted test.
const LAST_REPLY_TIMEOUT: Duration = Duration::from_millis(300);
const MAX_LAST_TRIES: u32 = 3;

/// The maximum wait while another requester uses the responder. A stock responder becomes free
/// after 60 s without a test.
const IN_USE_TIMEOUT: Duration = Duration::from_secs(65);

/// The interval between requests during this wait.
const IN_USE_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The number of exchanges for one fit of the clocks.
const CLOCK_EXCHANGES: u32 = 200;

/// The maximum number of lost exchanges per fit. The next lost one ends the exchanges.
const MAX_LOST_EXCHANGES: u32 = 10;

/// The length of a clock request and of its response.
const EXCHANGE_BYTES: usize = 64;

/// The maximum number of parts of an object that are requested at a time.
const WINDOW_PARTS: usize = 16;

/// The payload of one part.
const PART_BYTES: usize = MAX_IMAGE_BYTES_PER_REQUEST as usize - PartHeader::LEN;

/// A socket connected to a responder.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    peer: Address,
    options: SocketOptions,
    /// The nonce of a linerate responder; `None` for a stock responder.
    nonce: Option<u128>,
    /// The number of the last request.
    last_request: u64,
    /// The number of timed-out attempts.
    pub(crate) timeouts: u32,
    buffer: Vec<u8>,
    is_tracing: bool,
}

/// The rules for repeating a request that got no reply.
#[derive(Clone, Copy)]
struct RetryPolicy {
    timeout: Duration,
    tries: u32,
    /// Whether a repeated request uses a new local port. Replies of a stock responder carry no
    /// request number, so a late reply could be mistaken for the next reply. A new port
    /// does not receive it.
    uses_new_port: bool,
}

impl RetryPolicy {
    const DEFAULT: Self = Self {
        timeout: REPLY_TIMEOUT,
        tries: MAX_TRIES,
        uses_new_port: false,
    };

    /// The last request of a failed or interrupted test.
    const LAST: Self = Self {
        timeout: LAST_REPLY_TIMEOUT,
        tries: MAX_LAST_TRIES,
        uses_new_port: false,
    };
}

/// An object that arrives in parts.
#[derive(Default)]
struct Assembly {
    bytes: Vec<u8>,
    /// Whether each part has arrived; empty until the first part arrives with the length.
    arrived: Vec<bool>,
    /// The number of the first missing part.
    first_missing: usize,
}

impl Assembly {
    /// Returns the numbers of the next missing parts; empty if the object is complete.
    fn missing_parts(&self) -> Vec<usize> {
        if self.arrived.is_empty() {
            return vec![0];
        }
        let parts = self.first_missing..self.arrived.len();
        parts
            .filter(|part| !self.arrived[*part])
            .take(WINDOW_PARTS)
            .collect()
    }

    /// Stores a part if its offset and length are valid. Returns whether it was missing.
    fn store(&mut self, header: &PartHeader, bytes: &[u8]) -> bool {
        if self.arrived.is_empty() {
            self.bytes = vec![0; header.total as usize];
            self.arrived = vec![false; self.bytes.len().div_ceil(PART_BYTES).max(1)];
        }
        let offset = header.offset as usize;
        let is_valid = self.bytes.len() == header.total as usize
            && offset.is_multiple_of(PART_BYTES)
            && offset / PART_BYTES < self.arrived.len()
            && bytes.len() == PART_BYTES.min(self.bytes.len() - offset);
        if !is_valid || std::mem::replace(&mut self.arrived[offset / PART_BYTES], true) {
            return false;
        }
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        while self.arrived.get(self.first_missing) == Some(&true) {
            self.first_missing += 1;
        }
        true
    }
}

/// The responder's reply to [`Command::ZeroStats`].
enum Admission {
    Granted,
    InUse,
}

impl Channel {
    pub(crate) fn new(
        socket: Socket,
        peer: Address,
        options: SocketOptions,
        is_tracing: bool,
    ) -> Self {
        Self {
            socket,
            peer,
            options,
            nonce: None,
            last_request: 0,
            timeouts: 0,
            buffer: vec![0; 1 << 16],
            is_tracing,
        }
    }

    /// Returns the socket, which also sends the data.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the responder's address.
    pub(crate) fn peer(&self) -> &Address {
        &self.peer
    }

    /// Returns whether the responder is a linerate.
    pub(crate) fn is_linerate(&self) -> bool {
        self.nonce.is_some()
    }

    /// Begins a test. Waits up to 65 s while another requester uses the responder.
    ///
    /// A linerate responder answers the first request with a nonce, and admits the second one, which
    /// contains it. If another requester of this host ends the test before it has begun, it begins
    /// again.
    pub(crate) fn begin(&mut self, settings: &MessageBlock, stop: &Stop) -> io::Result<()> {
        let deadline = Instant::now() + IN_USE_TIMEOUT;
        self.nonce = None;
        loop {
            let (timeouts, is_proof) = (self.timeouts, self.is_linerate());
            let admission = match self.zero_stats(settings, stop) {
                Err(error)
                    if is_proof
                        && error.kind() == ErrorKind::ConnectionAborted
                        && Instant::now() < deadline =>
                {
                    continue;
                }
                admission => admission?,
            };
            match admission {
                // The next request has the nonce.
                _ if self.is_linerate() && !is_proof => {}
                Admission::Granted => return Ok(()),
                Admission::InUse if Instant::now() >= deadline => {
                    let reason = format!(
                        "{}: the responder refuses a test: another one is running, or it lacks resources",
                        self.peer
                    );
                    return Err(io::Error::new(ErrorKind::ResourceBusy, reason));
                }
                // A reply was lost. If it was OK, the responder already serves this requester, and
                // a stock responder refuses even that requester.
                Admission::InUse if self.timeouts > timeouts => self.end(stop)?,
                Admission::InUse => self.pause(IN_USE_RETRY_INTERVAL, stop)?,
            }
        }
    }

    fn zero_stats(&mut self, settings: &MessageBlock, stop: &Stop) -> io::Result<Admission> {
        // A responder sets its version in the reply. A service that echoes the request returns
        // version 0.
        let request = MessageBlock {
            command: Command::ZeroStats as u32,
            version: 0,
            ..*settings
        };
        let number = self.next_request();
        let request = self.encode(&request);
        let reply = self.send_and_wait(&request, RetryPolicy::DEFAULT, stop, |reply| {
            let block = MessageBlock::read(reply).filter(|_| reply.len() >= 8)?;
            let extension = LinerateExtension::find(reply);
            let is_stale = extension.is_some_and(|extension| extension.request != number);
            (!is_stale).then_some((block, extension))
        })?;
        let (block, extension) = reply;
        if block.version != VERSION {
            return Err(io::Error::other(format!(
                "{} uses version {} of UDPmon's protocol, not {VERSION}",
                self.peer, block.version
            )));
        }
        self.nonce = extension.map(|extension| extension.nonce);
        match block.command() {
            Some(Command::Ok) => Ok(Admission::Granted),
            Some(Command::InUse) => Ok(Admission::InUse),
            _ => Err(self.unexpected_reply_error("ZEROSTATS")),
        }
    }

    /// Sends START, which clears the responder's counts.
    pub(crate) fn start(&mut self, settings: &MessageBlock, stop: &Stop) -> io::Result<()> {
        self.request_ok(settings, Command::Start, RetryPolicy::DEFAULT, stop)
    }

    /// Sends TESTEND, even after a stop.
    pub(crate) fn end(&mut self, stop: &Stop) -> io::Result<()> {
        let policy = if stop.is_set() {
            RetryPolicy::LAST
        } else {
            RetryPolicy::DEFAULT
        };
        self.request_ok(
            &MessageBlock::default(),
            Command::TestEnd,
            policy,
            &Stop::new(),
        )
    }

    /// Sends a command that the responder confirms with OK.
    fn request_ok(
        &mut self,
        fields: &MessageBlock,
        command: Command,
        policy: RetryPolicy,
        stop: &Stop,
    ) -> io::Result<()> {
        let number = self.next_request();
        let request = self.encode(&MessageBlock {
            command: command as u32,
            version: VERSION,
            ..*fields
        });
        let is_linerate = self.is_linerate();
        self.send_and_wait(&request, policy, stop, |reply| {
            let block = MessageBlock::read(reply).filter(|_| reply.len() >= 8)?;
            let is_reply = !is_linerate
                || LinerateExtension::find(reply)
                    .is_some_and(|extension| extension.request == number);
            (block.command() == Some(Command::Ok) && is_reply).then_some(())
        })
    }

    /// Fetches the counts, which include late and repeated datagrams as stock counts them.
    pub(crate) fn fetch_statistics(&mut self, stop: &Stop) -> io::Result<MessageBlock> {
        let number = self.next_request();
        let request = self.encode(&MessageBlock::with_command(Command::GetStats));
        let is_linerate = self.is_linerate();
        let policy = RetryPolicy {
            uses_new_port: !is_linerate,
            ..RetryPolicy::DEFAULT
        };
        self.send_and_wait(&request, policy, stop, |reply| {
            let block = MessageBlock::read(reply).filter(|_| reply.len() == MessageBlock::LEN)?;
            // Stock's statistics reply may carry any command. Discard only a late OK.
            let is_reply = if is_linerate {
                LinerateExtension::find(reply).is_some_and(|extension| extension.request == number)
            } else {
                block.command() != Some(Command::Ok) || block.version != VERSION
            };
            is_reply.then_some(block)
        })
    }

    /// Fetches an object in parts. `bytes` is its length; for a linerate responder, the maximum.
    pub(crate) fn fetch_object(
        &mut self,
        object: ResultObject,
        bytes: u32,
        stop: &Stop,
    ) -> io::Result<Vec<u8>> {
        if self.is_linerate() {
            return self.fetch_numbered_parts(object, bytes, stop);
        }
        let command = match object {
            ResultObject::Histogram(_) => Command::GetHistogram,
            ResultObject::Counters => Command::GetCounters,
            ResultObject::Nic => Command::GetNic,
            ResultObject::CpuLoad => Command::GetCpuLoad,
            ResultObject::ExactRecords | ResultObject::LostRecords => Command::GetRecords,
            ResultObject::Details => return Ok(Vec::new()),
        };
        let policy = RetryPolicy {
            uses_new_port: true,
            // Stock repeats only parts of records correctly. For other objects, it sends later
            // parts from a buffer that each request overwrites, so a lost part restarts the object.
            tries: if command == Command::GetRecords {
                MAX_TRIES
            } else {
                1
            },
            ..RetryPolicy::DEFAULT
        };
        let mut image = Vec::with_capacity(bytes as usize);
        let mut restarts = 0;
        while (image.len() as u32) < bytes {
            let offset = image.len() as u32;
            let length = MAX_IMAGE_BYTES_PER_REQUEST.min(bytes - offset);
            let request = self.encode(&MessageBlock {
                length,
                low: if command == Command::GetHistogram {
                    object.number()
                } else {
                    0
                },
                offset: if command == Command::GetRecords {
                    offset / 8
                } else {
                    offset
                },
                ..MessageBlock::with_command(command)
            });
            let part = self.send_and_wait(&request, policy, stop, |reply| {
                (reply.len() == length as usize).then(|| reply.to_vec())
            });
            match part {
                Ok(part) => image.extend(part),
                Err(error) if error.kind() == ErrorKind::TimedOut && restarts < MAX_TRIES => {
                    restarts += 1;
                    image.clear();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(image)
    }

    /// Fetches an object from a linerate responder. Requests several parts at a time; each reply
    /// carries its offset.
    fn fetch_numbered_parts(
        &mut self,
        object: ResultObject,
        max_bytes: u32,
        stop: &Stop,
    ) -> io::Result<Vec<u8>> {
        let first_request = self.last_request + 1;
        let mut assembly = Assembly::default();
        let mut failed_rounds = 0;
        while failed_rounds < MAX_TRIES {
            let mut missing = assembly.missing_parts();
            if missing.is_empty() {
                return Ok(assembly.bytes);
            }
            for part in &missing {
                self.next_request();
                let request = self.encode(&MessageBlock {
                    low: object.number(),
                    offset: (part * PART_BYTES) as u32,
                    length: MAX_IMAGE_BYTES_PER_REQUEST,
                    ..MessageBlock::with_command(Command::Fetch)
                });
                self.send(&request)?;
            }
            let deadline = Instant::now() + REPLY_TIMEOUT;
            while !missing.is_empty()
                && let Some(reply) = self.receive(deadline, stop)?
            {
                let Some((header, bytes)) = PartHeader::decode(reply) else {
                    continue;
                };
                let is_reply =
                    header.request >= first_request && header.object == object.number() as u32;
                if is_reply && header.total <= max_bytes && assembly.store(&header, bytes) {
                    missing.retain(|part| part * PART_BYTES != header.offset as usize);
                    failed_rounds = 0;
                }
            }
            if !missing.is_empty() {
                self.timeouts += 1;
                failed_rounds += 1;
            }
        }
        Err(self.no_reply_error(Command::Fetch, RetryPolicy::DEFAULT))
    }

    /// Runs the exchanges for a fit of the clocks. Times are relative to `zero_ns` of the monotonic
    /// clock. Returns fewer exchanges if some are lost.
    pub(crate) fn exchange_clocks(
        &mut self,
        zero_ns: u64,
        stop: &Stop,
    ) -> io::Result<Vec<ClockExchange>> {
        let mut exchanges = Vec::with_capacity(CLOCK_EXCHANGES as usize);
        let mut lost = 0;
        for number in 1..=i64::from(CLOCK_EXCHANGES) {
            match self.request_response(
                (number, EXCHANGE_BYTES, EXCHANGE_BYTES as u32),
                zero_ns,
                stop,
            ) {
                Ok((exchange, _)) => exchanges.push(exchange),
                Err(error) if error.kind() == ErrorKind::TimedOut && lost < MAX_LOST_EXCHANGES => {
                    lost += 1;
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => return Err(error),
            }
        }
        Ok(exchanges)
    }

    /// Sends one request and waits for its response. Returns the times, and the length of the
    /// response in bytes.
    pub(crate) fn request_response(
        &mut self,
        (number, request_bytes, response_bytes): (i64, usize, u32),
        zero_ns: u64,
        stop: &Stop,
    ) -> io::Result<(ClockExchange, usize)> {
        let mut request = vec![0; request_bytes];
        let sent_ns = monotonic_ns() - zero_ns;
        let block = MessageBlock {
            number,
            sent: (sent_ns / 1_000) as i64,
            length: response_bytes,
            ..MessageBlock::with_command(Command::Request)
        };
        block.write(&mut request);
        let is_linerate = self.is_linerate();
        let departure_ns = monotonic_ns();
        let policy = RetryPolicy {
            tries: 1,
            ..RetryPolicy::DEFAULT
        };
        self.send_and_wait(&request, policy, stop, |reply| {
            let received_ns = monotonic_ns();
            let answer = MessageBlock::read(reply)?;
            let is_reply = answer.command() == Some(Command::Response)
                && (answer.number, answer.sent) == (number, block.sent);
            // In `low`, a linerate responder reports the nanoseconds of its time.
            let fraction_ns = if is_linerate {
                answer.low.clamp(0, 999)
            } else {
                0
            };
            let exchange = ClockExchange {
                sent_ns: (departure_ns - zero_ns) as i64,
                responded_ns: answer
                    .responded
                    .saturating_mul(1_000)
                    .saturating_add(fraction_ns.into()),
                received_ns: (received_ns - zero_ns) as i64,
            };
            is_reply.then_some((exchange, reply.len()))
        })
    }

    /// Sends a request until `accept` accepts a reply, or until the attempts are used up.
    fn send_and_wait<T>(
        &mut self,
        request: &[u8],
        policy: RetryPolicy,
        stop: &Stop,
        mut accept: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.drain()?;
        for _ in 0..policy.tries {
            self.send(request)?;
            let deadline = Instant::now() + policy.timeout;
            while let Some(reply) = self.receive(deadline, stop)? {
                if let Some(reply) = accept(reply) {
                    return Ok(reply);
                }
            }
            self.timeouts += 1;
            if policy.uses_new_port {
                self.open_new_port()?;
            }
        }
        let command = MessageBlock::read(request).and_then(|block| block.command());
        Err(self.no_reply_error(command.unwrap_or(Command::Data), policy))
    }

    fn send(&self, request: &[u8]) -> io::Result<()> {
        if self.is_tracing {
            let command = MessageBlock::read(request).and_then(|block| block.command());
            let name = command
                .map(|command| command.to_string())
                .unwrap_or_default();
            sys::write_error_line(format_args!("-> {} bytes {name}", request.len()));
        }
        loop {
            match call::send(self.socket.as_fd(), request) {
                Ok(_) => return Ok(()),
                Err(Error::INTR) => {}
                // The error belongs to an earlier datagram. If the port is still closed, this
                // datagram causes the same error again.
                Err(Error::CONNREFUSED) if call::send(self.socket.as_fd(), request).is_ok() => {
                    return Ok(());
                }
                Err(error) => return Err(self.unreachable_error(error)),
            }
        }
    }

    /// Returns the next datagram from the responder; `None` at the deadline.
    fn receive(&mut self, deadline: Instant, stop: &Stop) -> io::Result<Option<&[u8]>> {
        loop {
            match stop.wait_readable(self.socket.as_fd(), deadline) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            match call::receive_without_waiting(self.socket.as_fd(), &mut self.buffer) {
                Ok(length) => {
                    self.check_not_ended(&self.buffer[..length])?;
                    if self.is_tracing {
                        sys::write_error_line(format_args!("<- {length} bytes"));
                    }
                    return Ok(Some(&self.buffer[..length]));
                }
                // A queued ICMP error makes the socket ready, although no datagram has arrived.
                // The queue may also contain departure stamps.
                Err(Error::INTR | Error::AGAIN) if Instant::now() < deadline => {}
                Err(Error::INTR | Error::AGAIN) => return Ok(None),
                Err(error) => return Err(self.unreachable_error(error)),
            }
        }
    }

    /// Discards late datagrams.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            match call::receive_without_waiting(self.socket.as_fd(), &mut self.buffer) {
                Ok(length) => self.check_not_ended(&self.buffer[..length])?,
                // The error belongs to an earlier datagram. A queued datagram may report the
                // reason.
                Err(Error::INTR | Error::CONNREFUSED) => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// Fails if a datagram reports that the responder has ended the test.
    fn check_not_ended(&self, datagram: &[u8]) -> io::Result<()> {
        match (
            MessageBlock::read(datagram),
            LinerateExtension::find(datagram),
        ) {
            (Some(block), Some(extension))
                if block.command() == Some(Command::Ended)
                    && self.nonce == Some(extension.nonce) =>
            {
                let reason = format!("{}: {}", self.peer, EndReason::from_number(block.length));
                Err(io::Error::new(ErrorKind::ConnectionAborted, reason))
            }
            _ => Ok(()),
        }
    }

    /// Runs a closure while a thread watches the socket. Stops the closure if the responder ends
    /// the test or is unreachable.
    pub(crate) fn run_watched<T>(
        &self,
        stop: &Stop,
        run: impl FnOnce(&Stop) -> T,
    ) -> io::Result<T> {
        let (run_stop, watch_stop) = (stop.child(), Stop::new());
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let end = self.wait_for_end(&watch_stop);
                run_stop.set(StopReason::PeerClosed);
                end
            });
            let result = run(&run_stop);
            watch_stop.set(StopReason::Deadline);
            let end = watcher.join().unwrap_or_else(|_| {
                Err(io::Error::other(
                    "internal error: the watching thread ended unexpectedly",
                ))
            });
            end.map(|()| result)
        })
    }

    fn wait_for_end(&self, watch_stop: &Stop) -> io::Result<()> {
        let mut buffer = [0; 2048];
        while watch_stop
            .wait_readable(self.socket.as_fd(), Instant::now() + IN_USE_TIMEOUT)
            .is_ok()
        {
            match call::receive_without_waiting(self.socket.as_fd(), &mut buffer) {
                Ok(length) => self.check_not_ended(&buffer[..length])?,
                Err(Error::INTR | Error::AGAIN) => {}
                Err(error) => return Err(self.unreachable_error(error)),
            }
        }
        Ok(())
    }

    /// Replaces the socket by one with another port. Late replies do not reach the new port.
    fn open_new_port(&mut self) -> io::Result<()> {
        let bind = self.peer.with_any_host().with_any_port();
        let socket = open_data_socket(Transport::Udp, &bind, &self.options, Role::Initiator)
            .map_err(|error| io::Error::other(error.to_string()))?;
        socket.connect(&self.peer.to_kernel()?)?;
        self.socket = socket;
        Ok(())
    }

    fn encode(&self, block: &MessageBlock) -> [u8; MessageBlock::LEN] {
        let mut bytes = block.encode();
        let extension = LinerateExtension {
            nonce: self.nonce.unwrap_or(0),
            request: self.last_request,
        };
        extension.write_into(&mut bytes);
        bytes
    }

    fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    /// Sleeps for some time. Fails at a stop, or if the responder ends the test.
    pub(crate) fn pause(&mut self, time: Duration, stop: &Stop) -> io::Result<()> {
        let deadline = Instant::now() + time;
        while self.receive(deadline, stop)?.is_some() {}
        Ok(())
    }

    fn no_reply_error(&self, command: Command, policy: RetryPolicy) -> io::Error {
        let (peer, seconds) = (&self.peer, (policy.timeout * policy.tries).as_secs_f64());
        let message = format!(
            "{peer}: no reply to {command} within {seconds} s; is udpmon_resp running there?"
        );
        io::Error::new(ErrorKind::TimedOut, message)
    }

    fn unexpected_reply_error(&self, request: &str) -> io::Error {
        io::Error::other(format!("{}: unexpected reply to {request}", self.peer))
    }

    fn unreachable_error(&self, error: Error) -> io::Error {
        let message = format!(
            "{}: {}; is udpmon_resp running there?",
            self.peer,
            sys::describe(&error)
        );
        io::Error::new(io::Error::from(error).kind(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A responder that repeats a part must not keep its requester waiting.
    #[test]
    fn a_repeated_part_is_no_progress() {
        let mut assembly = Assembly::default();
        let part = |offset: usize| PartHeader {
            offset: offset as u32,
            total: 2 * PART_BYTES as u32,
            ..PartHeader::default()
        };
        let bytes = [1; PART_BYTES];
        assert!(assembly.store(&part(0), &bytes));
        assert!(!assembly.store(&part(0), &bytes));
        assert!(!assembly.store(&part(1), &bytes));
        assert_eq!(assembly.missing_parts(), [1]);
        assert!(assembly.store(&part(PART_BYTES), &bytes));
        assert!(assembly.missing_parts().is_empty());
    }
}
