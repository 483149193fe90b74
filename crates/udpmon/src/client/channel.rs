//! The control exchange with a responder. It repeats each request until its reply arrives, and discards late or foreign
//! datagrams.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use engine::{Reason, Role, Stop, data_socket};
use model::{SocketOptions, Transport};
use stats::clock::Exchange;
use sys::call::{self, Error};
use sys::clock::monotonic_ns;
use sys::{Address, Socket};

use crate::wire::{Block, Capability, Command, EndReason, Object, Part, SLICE, VERSION};

/// The timeout of a request, and the number of attempts.
const WAIT: Duration = Duration::from_secs(1);
const TRIES: u32 = 30;

/// The same for the last request of a failed or interrupted test.
const LAST_WAIT: Duration = Duration::from_millis(300);
const LAST_TRIES: u32 = 3;

/// The maximum wait while another requester uses the responder. A stock requester releases it after 60 s without a
/// test.
const IN_USE: Duration = Duration::from_secs(65);
const LOOK: Duration = Duration::from_secs(2);

/// The number of exchanges that fit the clocks, and how many of them may be lost.
const EXCHANGES: u32 = 200;
const LOST_EXCHANGES: u32 = 10;
const EXCHANGE_BYTES: usize = 64;

/// Numbered parts requested at a time, and their length in bytes.
const WINDOW: usize = 16;
const PART: usize = SLICE as usize - Part::LEN;

/// A socket connected to a responder.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    peer: Address,
    options: SocketOptions,
    /// The nonce of a linerate responder.
    nonce: Option<u128>,
    /// The number of the last request.
    request: u64,
    /// Requests repeated for lack of a reply.
    pub(crate) timeouts: u32,
    buffer: Vec<u8>,
    trace: bool,
}

/// The expected reply of a request, and the tolerated losses.
#[derive(Clone, Copy)]
struct Patience {
    wait: Duration,
    tries: u32,
    /// Replies carry no mark, so a late reply could be mistaken for the next one. A new local port cannot receive it.
    on_new_port: bool,
}

impl Patience {
    const MARKED: Self = Self {
        wait: WAIT,
        tries: TRIES,
        on_new_port: false,
    };

    /// The last request of a failed or interrupted test.
    const LAST: Self = Self {
        wait: LAST_WAIT,
        tries: LAST_TRIES,
        on_new_port: false,
    };
}

/// An object that arrives in parts.
#[derive(Default)]
struct Assembly {
    bytes: Vec<u8>,
    /// Whether each part has arrived. Before the first part, the length is unknown.
    came: Vec<bool>,
    /// All parts before this one have arrived.
    next: usize,
}

impl Assembly {
    /// Returns the numbers of the next missing parts; empty if none is missing.
    fn missing(&self) -> Vec<usize> {
        if self.came.is_empty() {
            return vec![0];
        }
        let parts = self.next..self.came.len();
        parts
            .filter(|part| !self.came[*part])
            .take(WINDOW)
            .collect()
    }

    /// Stores a part if it is complete.
    fn take(&mut self, head: &Part, bytes: &[u8]) -> bool {
        if self.came.is_empty() {
            self.bytes = vec![0; head.total as usize];
            self.came = vec![false; self.bytes.len().div_ceil(PART).max(1)];
        }
        let offset = head.offset as usize;
        let is_whole = self.bytes.len() == head.total as usize
            && offset.is_multiple_of(PART)
            && offset / PART < self.came.len()
            && bytes.len() == PART.min(self.bytes.len() - offset);
        if is_whole {
            self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
            self.came[offset / PART] = true;
            while self.came.get(self.next) == Some(&true) {
                self.next += 1;
            }
        }
        is_whole
    }
}

/// The responder's answer to [`Command::ZeroStats`].
enum Admission {
    Granted,
    InUse,
}

impl Channel {
    pub(crate) fn new(socket: Socket, peer: Address, options: SocketOptions, trace: bool) -> Self {
        Self {
            socket,
            peer,
            options,
            nonce: None,
            request: 0,
            timeouts: 0,
            buffer: vec![0; 1 << 16],
            trace,
        }
    }

    /// The socket, which also sends the data.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The responder.
    pub(crate) fn peer(&self) -> &Address {
        &self.peer
    }

    /// Whether the responder is a linerate.
    pub(crate) fn is_ours(&self) -> bool {
        self.nonce.is_some()
    }

    /// Begins a test.
    pub(crate) fn begin(&mut self, settings: &Block, stop: &Stop) -> io::Result<()> {
        let given_up = Instant::now() + IN_USE;
        self.nonce = None;
        loop {
            let timeouts = self.timeouts;
            match self.zero_stats(settings, stop)? {
                Admission::Granted => return Ok(()),
                // The lost reply may have been OK. A stock responder refuses requests of the requester that holds it.
                Admission::InUse if self.timeouts > timeouts => self.end(&Stop::new())?,
                Admission::InUse if Instant::now() >= given_up => {
                    let why = format!(
                        "{}: another host is running a test with this responder",
                        self.peer
                    );
                    return Err(io::Error::new(ErrorKind::ResourceBusy, why));
                }
                Admission::InUse => self.pause(LOOK, stop)?,
            }
        }
    }

    fn zero_stats(&mut self, settings: &Block, stop: &Stop) -> io::Result<Admission> {
        // Version 0 reveals a responder that echoes every request.
        let request = Block {
            command: Command::ZeroStats as u32,
            version: 0,
            ..*settings
        };
        let number = self.next_request();
        let request = self.encode(&request);
        let reply = self.ask(&request, Patience::MARKED, stop, |reply| {
            let block = Block::read(reply).filter(|_| reply.len() >= 8)?;
            let ours = Capability::find(reply);
            let is_other = ours.is_some_and(|ours| ours.request != number);
            (!is_other).then_some((block, ours))
        })?;
        let (block, ours) = reply;
        if block.version != VERSION {
            return Err(io::Error::other(format!(
                "{} speaks version {} of UDPmon's protocol, not {VERSION}",
                self.peer, block.version
            )));
        }
        self.nonce = ours.map(|ours| ours.nonce);
        match block.command() {
            Some(Command::Ok) => Ok(Admission::Granted),
            Some(Command::InUse) => Ok(Admission::InUse),
            _ => Err(self.strange("ZEROSTATS")),
        }
    }

    /// Clears the responder's counts.
    pub(crate) fn start(&mut self, settings: &Block, stop: &Stop) -> io::Result<()> {
        self.agree(settings, Command::Start, Patience::MARKED, stop)
    }

    /// Ends a test, even after a stop.
    pub(crate) fn end(&mut self, stop: &Stop) -> io::Result<()> {
        let patience = if stop.is_set() {
            Patience::LAST
        } else {
            Patience::MARKED
        };
        self.agree(&Block::default(), Command::TestEnd, patience, &Stop::new())
    }

    fn agree(
        &mut self,
        fields: &Block,
        command: Command,
        patience: Patience,
        stop: &Stop,
    ) -> io::Result<()> {
        let number = self.next_request();
        let request = self.encode(&Block {
            command: command as u32,
            version: VERSION,
            ..*fields
        });
        let is_ours = self.is_ours();
        self.ask(&request, patience, stop, |reply| {
            let block = Block::read(reply).filter(|_| reply.len() >= 8)?;
            let is_mine =
                !is_ours || Capability::find(reply).is_some_and(|ours| ours.request == number);
            (block.command() == Some(Command::Ok) && is_mine).then_some(())
        })
    }

    /// The counts by stock's rule.
    pub(crate) fn statistics(&mut self, stop: &Stop) -> io::Result<Block> {
        let number = self.next_request();
        let request = self.encode(&Block::request(Command::GetStats));
        let is_ours = self.is_ours();
        let patience = Patience {
            on_new_port: !is_ours,
            ..Patience::MARKED
        };
        self.ask(&request, patience, stop, |reply| {
            let block = Block::read(reply).filter(|_| reply.len() == Block::LEN)?;
            // Stock's reply may carry any command.
            let is_mine = if is_ours {
                Capability::find(reply).is_some_and(|ours| ours.request == number)
            } else {
                block.command() != Some(Command::Ok) || block.version != VERSION
            };
            is_mine.then_some(block)
        })
    }

    /// Fetches an object of this length in bytes, part after part.
    pub(crate) fn object(
        &mut self,
        object: Object,
        bytes: u32,
        stop: &Stop,
    ) -> io::Result<Vec<u8>> {
        if self.is_ours() {
            return self.numbered_parts(object, bytes, stop);
        }
        let command = match object {
            Object::Histogram(_) => Command::GetHistogram,
            Object::Counters => Command::GetCounters,
            Object::Nic => Command::GetNic,
            Object::CpuLoad => Command::GetCpuLoad,
            Object::ExactRecords | Object::LostRecords => Command::GetRecords,
            Object::Details => return Ok(Vec::new()),
        };
        let patience = Patience {
            on_new_port: true,
            // For other images, stock cuts later parts from a buffer that each request overwrites.
            tries: if command == Command::GetRecords {
                TRIES
            } else {
                1
            },
            ..Patience::MARKED
        };
        let mut image = Vec::with_capacity(bytes as usize);
        let mut tries = 0;
        while (image.len() as u32) < bytes {
            let at = image.len() as u32;
            let length = SLICE.min(bytes - at);
            let request = self.encode(&Block {
                length,
                low: if command == Command::GetHistogram {
                    object.number()
                } else {
                    0
                },
                offset: if command == Command::GetRecords {
                    at / 8
                } else {
                    at
                },
                ..Block::request(command)
            });
            let part = self.ask(&request, patience, stop, |reply| {
                (reply.len() == length as usize).then(|| reply.to_vec())
            });
            match part {
                Ok(part) => image.extend(part),
                Err(error) if error.kind() == ErrorKind::TimedOut && tries < TRIES => {
                    tries += 1;
                    image.clear();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(image)
    }

    /// Requests several parts at a time. Each reply carries its number.
    fn numbered_parts(&mut self, object: Object, most: u32, stop: &Stop) -> io::Result<Vec<u8>> {
        let first_request = self.request + 1;
        let mut image = Assembly::default();
        let mut fruitless = 0;
        while fruitless < TRIES {
            let mut wanted = image.missing();
            if wanted.is_empty() {
                return Ok(image.bytes);
            }
            for part in &wanted {
                self.next_request();
                let request = self.encode(&Block {
                    low: object.number(),
                    offset: (part * PART) as u32,
                    length: SLICE,
                    ..Block::request(Command::Fetch)
                });
                self.send(&request)?;
            }
            let until = Instant::now() + WAIT;
            while !wanted.is_empty()
                && let Some(reply) = self.receive(until, stop)?
            {
                let Some((head, bytes)) = Part::decode(reply) else {
                    continue;
                };
                let is_mine =
                    head.request >= first_request && head.object == object.number() as u32;
                if is_mine && head.total <= most && image.take(&head, bytes) {
                    wanted.retain(|part| part * PART != head.offset as usize);
                    fruitless = 0;
                }
            }
            if !wanted.is_empty() {
                self.timeouts += 1;
                fruitless += 1;
            }
        }
        Err(self.silent(Command::Fetch))
    }

    /// Runs the exchanges that fit the clocks. Times are relative to `zero_ns` of the monotonic clock. Returns fewer
    /// exchanges if several are lost.
    pub(crate) fn exchanges(&mut self, zero_ns: u64, stop: &Stop) -> io::Result<Vec<Exchange>> {
        let mut exchanges = Vec::with_capacity(EXCHANGES as usize);
        let mut lost = 0;
        for number in 1..=i64::from(EXCHANGES) {
            match self.response(
                (number, EXCHANGE_BYTES, EXCHANGE_BYTES as u32),
                zero_ns,
                stop,
            ) {
                Ok((exchange, _)) => exchanges.push(exchange),
                Err(error) if error.kind() == ErrorKind::TimedOut && lost < LOST_EXCHANGES => {
                    lost += 1;
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => return Err(error),
            }
        }
        Ok(exchanges)
    }

    /// Sends one request of one length for a response of another length. Returns the times, and the length of the
    /// response in bytes.
    pub(crate) fn response(
        &mut self,
        (number, request_bytes, response_bytes): (i64, usize, u32),
        zero_ns: u64,
        stop: &Stop,
    ) -> io::Result<(Exchange, usize)> {
        let mut request = vec![0; request_bytes];
        let sent_ns = monotonic_ns() - zero_ns;
        let block = Block {
            number,
            sent: (sent_ns / 1_000) as i64,
            length: response_bytes,
            ..Block::request(Command::Request)
        };
        block.write(&mut request);
        let is_ours = self.is_ours();
        let begun_ns = monotonic_ns();
        let patience = Patience {
            tries: 1,
            ..Patience::MARKED
        };
        self.ask(&request, patience, stop, |reply| {
            let received_ns = monotonic_ns();
            let answer = Block::read(reply)?;
            let is_mine = answer.command() == Some(Command::Response)
                && (answer.number, answer.sent) == (number, block.sent);
            // A linerate responder also reports the fraction of a microsecond.
            let rest_ns = if is_ours { answer.low.clamp(0, 999) } else { 0 };
            let exchange = Exchange {
                sent_ns: (begun_ns - zero_ns) as i64,
                answered_ns: answer
                    .responded
                    .saturating_mul(1_000)
                    .saturating_add(rest_ns.into()),
                received_ns: (received_ns - zero_ns) as i64,
            };
            is_mine.then_some((exchange, reply.len()))
        })
    }

    /// Sends a request repeatedly until `accept` accepts a reply.
    fn ask<T>(
        &mut self,
        request: &[u8],
        patience: Patience,
        stop: &Stop,
        mut accept: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.drain()?;
        for _ in 0..patience.tries {
            self.send(request)?;
            let until = Instant::now() + patience.wait;
            while let Some(reply) = self.receive(until, stop)? {
                if let Some(reply) = accept(reply) {
                    return Ok(reply);
                }
            }
            self.timeouts += 1;
            if patience.on_new_port {
                self.take_new_port()?;
            }
        }
        let command = Block::read(request).and_then(|block| block.command());
        Err(self.silent(command.unwrap_or(Command::Data)))
    }

    fn send(&self, request: &[u8]) -> io::Result<()> {
        if self.trace {
            let command = Block::read(request).and_then(|block| block.command());
            sys::write_error_line(format_args!("-> {} bytes {command:?}", request.len()));
        }
        loop {
            match call::send(self.socket.as_fd(), request) {
                Ok(_) => return Ok(()),
                Err(Error::INTR) => {}
                // The error belongs to an earlier datagram. If the port is closed, the reply to this datagram reports
                // it again.
                Err(Error::CONNREFUSED) if call::send(self.socket.as_fd(), request).is_ok() => {
                    return Ok(());
                }
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    /// Returns the next datagram of the responder; `None` at the deadline.
    fn receive(&mut self, until: Instant, stop: &Stop) -> io::Result<Option<&[u8]>> {
        loop {
            match stop.wait_readable(self.socket.as_fd(), until) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            match call::receive_without_waiting(self.socket.as_fd(), &mut self.buffer) {
                Ok(length) => {
                    self.has_ended(&self.buffer[..length])?;
                    if self.trace {
                        sys::write_error_line(format_args!("<- {length} bytes"));
                    }
                    return Ok(Some(&self.buffer[..length]));
                }
                Err(Error::INTR | Error::AGAIN) => {}
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    /// Discards late datagrams.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            match call::receive_without_waiting(self.socket.as_fd(), &mut self.buffer) {
                Ok(length) => self.has_ended(&self.buffer[..length])?,
                // The error belongs to an earlier datagram. Datagrams received before it are more informative.
                Err(Error::INTR | Error::CONNREFUSED) => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// Fails if a datagram reports that the responder has ended the test.
    fn has_ended(&self, datagram: &[u8]) -> io::Result<()> {
        match (Block::read(datagram), Capability::find(datagram)) {
            (Some(block), Some(ours))
                if block.command() == Some(Command::Ended) && self.nonce == Some(ours.nonce) =>
            {
                let why = format!("{}: {}", self.peer, EndReason::of_number(block.length));
                Err(io::Error::new(ErrorKind::ConnectionAborted, why))
            }
            _ => Ok(()),
        }
    }

    /// Runs a closure, and stops it when the responder reports the end of the test or is gone.
    pub(crate) fn watched<T>(&self, stop: &Stop, run: impl FnOnce(&Stop) -> T) -> io::Result<T> {
        let (running, done) = (stop.follower(), Stop::new());
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let end = self.wait_for_end(&done);
                running.pull(Reason::PeerClosed);
                end
            });
            let result = run(&running);
            done.pull(Reason::Deadline);
            let end = watch
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the watch panicked")));
            end.map(|()| result)
        })
    }

    fn wait_for_end(&self, done: &Stop) -> io::Result<()> {
        let mut buffer = [0; 2048];
        while done
            .wait_readable(self.socket.as_fd(), Instant::now() + IN_USE)
            .is_ok()
        {
            match call::receive_without_waiting(self.socket.as_fd(), &mut buffer) {
                Ok(length) => self.has_ended(&buffer[..length])?,
                Err(Error::INTR | Error::AGAIN) => {}
                Err(error) => return Err(self.unreachable(error)),
            }
        }
        Ok(())
    }

    /// Replaces the socket, so that late replies go nowhere.
    fn take_new_port(&mut self) -> io::Result<()> {
        let bind = self.peer.anywhere().with_any_port();
        let socket = data_socket(Transport::Udp, &bind, &self.options, Role::Initiator)
            .map_err(|error| io::Error::other(error.to_string()))?;
        socket.connect(&self.peer.to_kernel()?)?;
        self.socket = socket;
        Ok(())
    }

    fn encode(&self, block: &Block) -> [u8; Block::LEN] {
        let mut bytes = block.encode();
        let ours = Capability {
            nonce: self.nonce.unwrap_or(0),
            request: self.request,
        };
        ours.put(&mut bytes);
        bytes
    }

    fn next_request(&mut self) -> u64 {
        self.request += 1;
        self.request
    }

    /// Sleeps for some time, unless a stop interrupts it.
    pub(crate) fn pause(&mut self, time: Duration, stop: &Stop) -> io::Result<()> {
        let until = Instant::now() + time;
        while self.receive(until, stop)?.is_some() {}
        Ok(())
    }

    fn silent(&self, command: Command) -> io::Error {
        let (peer, seconds) = (&self.peer, WAIT.as_secs() * u64::from(TRIES));
        let why = format!(
            "{peer}: no reply to {command:?} in {seconds} s; is udpmon_resp running there?"
        );
        io::Error::new(ErrorKind::TimedOut, why)
    }

    fn strange(&self, what: &str) -> io::Error {
        io::Error::other(format!("{}: strange reply to {what}", self.peer))
    }

    fn unreachable(&self, error: Error) -> io::Error {
        let why = format!(
            "{}: {}; is udpmon_resp running there?",
            self.peer,
            sys::describe(&error)
        );
        io::Error::new(io::Error::from(error).kind(), why)
    }
}
