//! A session with one requester: consecutive tests on a separate socket.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use model::Ended;
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};
use server::{Place, Test as Registered};
use sys::call::{self, Error};
use sys::clock::monotonic_ns;

use super::test::{Test, TestEnd};
use super::{Entry, Server, answer_in_place};
use crate::wire::{Block, Capability, Command, EndReason};

/// The time a session waits for the requester's next test, or answers a repeated TESTEND. It is longer than stock's 3
/// s.
const LINGER: Duration = Duration::from_secs(4);

/// The limit for an unproven address: this many times the bytes that it sent (RFC 9000, section 8.1).
const MOST_AMPLIFICATION: u64 = 3;

pub(super) struct Session<'a> {
    pub(super) server: &'a Server<'a>,
    /// Connected to the requester.
    pub(super) socket: BorrowedFd<'a>,
    pub(super) entry: &'a Entry,
    /// The nonce that proves the requester's address to the responder, and the responder to the requester.
    nonce: u128,
    /// Whether the requester is a linerate.
    pub(super) is_ours: bool,
    is_proven: bool,
    may_amplify: bool,
    /// Bytes from the requester: requests and test packets.
    received: u64,
    pub(super) data: u64,
    /// Bytes to the requester.
    sent: u64,
}

impl<'a> Session<'a> {
    pub(super) fn new(server: &'a Server<'a>, socket: BorrowedFd<'a>, entry: &'a Entry) -> Self {
        Self {
            server,
            socket,
            entry,
            nonce: OsRng.unwrap_err().random(),
            is_ours: false,
            is_proven: false,
            may_amplify: server.service.may_amplify(&entry.peer),
            received: 0,
            data: 0,
            sent: 0,
        }
    }

    /// Serves tests until the requester starts no more. The first request arrived at this time of the monotonic clock.
    pub(super) fn run(mut self, request: Vec<u8>, came_ns: u64, place: Place) {
        let mut next = Some((request, came_ns, place));
        while let Some((request, came_ns, place)) = next {
            self.count_received(&request);
            let end = self.test(request, came_ns);
            self.entry.is_testing.store(false, Relaxed);
            drop(place);
            next = match end {
                Some(TestEnd::Next(request, came_ns)) => self.admit(request, came_ns),
                Some(TestEnd::Asked { mut request, .. }) => {
                    self.answer(&mut request, Command::Ok);
                    self.wait_for_next()
                }
                _ => None,
            };
        }
    }

    /// Runs one test; `None` if it must not start.
    fn test(&mut self, mut request: Vec<u8>, came_ns: u64) -> Option<TestEnd> {
        let entry = self.entry;
        let registered = Registered {
            name: "throughput".to_owned(),
            length: None,
        };
        let running = self
            .server
            .service
            .begin("udpmon", &entry.peer, registered, &entry.stop);
        let running = match running {
            Ok(running) => running,
            Err(why) => {
                let peer = &entry.peer;
                (self.server.warn)(format_args!("udpmon: {peer}: refused a test: {why}"));
                self.answer(&mut request, Command::InUse);
                return None;
            }
        };
        let end = Test::new(self, &request, came_ns, &running).run(request);
        let early = |why: &str| running.ended(&Ended::Failed(why.to_owned()));
        match &end {
            TestEnd::Asked {
                is_complete: true, ..
            } => running.complete(),
            TestEnd::Next(..) => early("the requester began another test"),
            TestEnd::Asked { .. } => early("the requester ended it before it asked for the counts"),
            TestEnd::Failed(reason, why) => {
                early(why);
                self.tell_end(*reason);
            }
        }
        Some(end)
    }

    /// Passes the place to the next test of the same requester.
    fn admit(&mut self, mut request: Vec<u8>, came_ns: u64) -> Option<(Vec<u8>, u64, Place)> {
        let Ok(place) = self.server.place(&self.entry.peer, Some(self.entry)) else {
            self.answer(&mut request, Command::InUse);
            return None;
        };
        self.entry.is_testing.store(true, Relaxed);
        Some((request, came_ns, place))
    }

    fn wait_for_next(&mut self) -> Option<(Vec<u8>, u64, Place)> {
        if !self.server.may_wait() {
            return None;
        }
        let until = Instant::now() + LINGER;
        let mut buffer = vec![0; 2048];
        while let Ok(true) = self.entry.stop.wait_readable(self.socket, until) {
            let length = match call::receive_without_waiting(self.socket, &mut buffer) {
                Ok(length) => length,
                Err(Error::INTR | Error::AGAIN) => continue,
                Err(_) => return None,
            };
            let request = &mut buffer[..length];
            match Block::read(request).and_then(|block| block.command()) {
                Some(Command::ZeroStats) => return self.admit(request.to_vec(), monotonic_ns()),
                Some(Command::TestEnd) => {
                    self.count_received(request);
                    self.answer(request, Command::Ok);
                }
                _ => {}
            }
        }
        None
    }

    /// Counts bytes from the requester, and identifies a linerate.
    pub(super) fn count_received(&mut self, request: &[u8]) {
        self.received += request.len() as u64;
        if let Some(ours) = Capability::find(request) {
            self.is_ours = true;
            self.is_proven |= ours.nonce == self.nonce;
        }
    }

    /// Answers a request with its own block under another command.
    pub(super) fn answer(&mut self, request: &mut [u8], answer: Command) {
        answer_in_place(request, answer);
        self.sign(request);
        self.reply(request);
    }

    /// Adds the responder's nonce to the answer to a linerate.
    pub(super) fn sign(&self, answer: &mut [u8]) {
        if let (Some(ours), Some(block)) = (Capability::find(answer), answer.first_chunk_mut()) {
            let signed = Capability {
                nonce: self.nonce,
                ..ours
            };
            signed.put(block);
        }
    }

    /// Sends a reply, unless it would exceed the limit for an unproven address.
    pub(super) fn reply(&mut self, reply: &[u8]) {
        let sent = self.sent + reply.len() as u64;
        let is_bounded = !self.may_amplify && !self.is_proven;
        if is_bounded && sent > MOST_AMPLIFICATION * (self.received + self.data) {
            return;
        }
        if call::send_without_waiting(self.socket, reply).is_ok() {
            self.sent = sent;
        }
    }

    /// Reports the early end of a test to a linerate.
    fn tell_end(&mut self, reason: EndReason) {
        if !self.is_ours {
            return;
        }
        let block = Block {
            length: reason as u32,
            ..Block::request(Command::Ended)
        };
        let mut bytes = block.encode();
        let ours = Capability {
            nonce: self.nonce,
            request: 0,
        };
        ours.put(&mut bytes);
        self.reply(&bytes);
    }
}
