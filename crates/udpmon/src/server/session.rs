//! A session with one requester: its consecutive tests, on a socket connected to it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use engine::{Counters, ResourceAmounts};
use model::EndCause;
use server::{ClientSlot, ClientTest, MAX_AMPLIFICATION, UNPROVEN_ADDRESS};
use sys::call::{self, Error};
use sys::clock::monotonic_ns;

use super::test::{ServedTest, TestEnd};
use super::{Server, SessionEntry, answer_in_place};
use crate::wire::{Command, EndReason, LinerateExtension, MessageBlock};

/// The time to wait for the requester's next test, and to answer a repeated TESTEND. A stock
/// requester repeats requests after 3 s.
const NEXT_TEST_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct Session<'a> {
    pub(super) server: &'a Server<'a>,
    /// The socket, connected to the requester.
    pub(super) socket: BorrowedFd<'a>,
    pub(super) entry: &'a SessionEntry,
    /// The number of [`Server::nonce_for`]. A request with it proves the requester's address; a reply
    /// with it proves the responder.
    nonce: u128,
    /// Whether the requester is a linerate.
    pub(super) is_linerate: bool,
    /// Whether the address may receive replies without the amplification limit.
    may_amplify: bool,
    /// Whether the limit has prevented a reply.
    is_limited: bool,
    /// Bytes of the requester's requests.
    received_bytes: u64,
    /// Bytes of the requester's test packets.
    pub(super) data_bytes: u64,
    /// Bytes sent to the requester.
    sent_bytes: u64,
    /// Replies in the current test that are not its data.
    pub(super) reply_counters: Arc<Counters>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        server: &'a Server<'a>,
        socket: BorrowedFd<'a>,
        entry: &'a SessionEntry,
    ) -> Self {
        Self {
            server,
            socket,
            entry,
            nonce: server.nonce_for(&entry.peer),
            is_linerate: false,
            may_amplify: server.service.may_amplify(&entry.peer),
            is_limited: false,
            received_bytes: 0,
            data_bytes: 0,
            sent_bytes: 0,
            reply_counters: Arc::default(),
        }
    }

    /// Serves tests until the requester starts no more. `arrival_ns` is the arrival time of the
    /// first request, by the monotonic clock.
    pub(super) fn run(mut self, request: Vec<u8>, arrival_ns: u64, slot: ClientSlot) {
        let mut next = Some((request, arrival_ns, slot));
        while let Some((request, arrival_ns, slot)) = next {
            self.count_received(&request);
            let end = self.run_test(request, arrival_ns);
            self.entry.is_testing.store(false, Relaxed);
            drop(slot);
            next = match end {
                Some(TestEnd::NextTest(request, arrival_ns)) => {
                    self.admit_next_test(request, arrival_ns)
                }
                Some(TestEnd::RequestedByPeer { mut request, .. }) => {
                    self.answer(&mut request, Command::Ok);
                    self.wait_for_next()
                }
                _ => None,
            };
        }
    }

    /// Runs one test. Returns `None` if the service refuses it.
    fn run_test(&mut self, mut request: Vec<u8>, arrival_ns: u64) -> Option<TestEnd> {
        let entry = self.entry;
        let client_test = ClientTest {
            name: "throughput".to_owned(),
            resources: ResourceAmounts {
                streams: 1,
                ..ResourceAmounts::default()
            },
            ..ClientTest::default()
        };
        let running_test =
            self.server
                .service
                .begin("udpmon", &entry.peer, client_test, &entry.stop);
        let running_test = match running_test {
            Ok(running_test) => running_test,
            Err(refusal) => {
                let peer = &entry.peer;
                (self.server.warn)(format_args!("udpmon: {peer}: refused a test: {refusal}"));
                self.answer(&mut request, Command::InUse);
                return None;
            }
        };
        let end = ServedTest::new(self, &request, arrival_ns, &running_test).run(request);
        let record_early_end =
            |reason: &str| running_test.record_end(&EndCause::Failed(reason.to_owned()));
        match &end {
            TestEnd::RequestedByPeer {
                is_complete: true, ..
            } => running_test.complete(),
            TestEnd::NextTest(..) => record_early_end("the requester started another test"),
            TestEnd::RequestedByPeer { .. } => {
                record_early_end("the requester ended the test without requesting its counts");
            }
            TestEnd::Failed(reason, description) => {
                record_early_end(description);
                self.report_end(*reason);
            }
        }
        Some(end)
    }

    /// Claims a slot for the next test of the same requester.
    fn admit_next_test(
        &mut self,
        mut request: Vec<u8>,
        arrival_ns: u64,
    ) -> Option<(Vec<u8>, u64, ClientSlot)> {
        let Ok(slot) = (self.server).claim_slot(
            &self.entry.peer,
            self.entry.is_proven.load(Relaxed),
            Some(self.entry),
        ) else {
            self.answer(&mut request, Command::InUse);
            return None;
        };
        self.entry.is_testing.store(true, Relaxed);
        Some((request, arrival_ns, slot))
    }

    /// Waits for the request that starts the requester's next test.
    fn wait_for_next(&mut self) -> Option<(Vec<u8>, u64, ClientSlot)> {
        if !self.server.has_room_for_waiting_session() {
            return None;
        }
        let deadline = Instant::now() + NEXT_TEST_TIMEOUT;
        let mut buffer = vec![0; 2048];
        // With data in the queue, the wait does not end at its deadline.
        while let Ok(true) = self.entry.stop.wait_readable(self.socket, deadline)
            && Instant::now() < deadline
        {
            let length = match call::receive_without_waiting(self.socket, &mut buffer) {
                Ok(length) => length,
                Err(Error::INTR) => continue,
                Err(Error::AGAIN) => {
                    call::discard_errors(self.socket);
                    continue;
                }
                Err(_) => return None,
            };
            let request = &mut buffer[..length];
            match MessageBlock::read(request).and_then(|block| block.command()) {
                Some(Command::ZeroStats) => {
                    return self.admit_next_test(request.to_vec(), monotonic_ns());
                }
                Some(Command::TestEnd) => {
                    self.count_received(request);
                    self.answer(request, Command::Ok);
                }
                _ => {}
            }
        }
        None
    }

    /// Counts the bytes of a request. Detects a linerate requester and its proof of address.
    pub(super) fn count_received(&mut self, request: &[u8]) {
        self.received_bytes += request.len() as u64;
        if let Some(extension) = LinerateExtension::find(request) {
            self.is_linerate = true;
            if extension.nonce == self.nonce {
                self.entry.is_proven.store(true, Relaxed);
            }
        }
    }

    /// Answers a request with the same block and another command.
    pub(super) fn answer(&mut self, request: &mut [u8], answer: Command) {
        answer_in_place(request, answer);
        self.write_nonce(request);
        self.reply(request);
    }

    /// Writes the responder's nonce into the answer to a linerate requester.
    pub(super) fn write_nonce(&self, answer: &mut [u8]) {
        super::write_nonce(answer, self.nonce);
    }

    /// Sends a reply, unless it would exceed the limit for an unproven address.
    pub(super) fn reply(&mut self, reply: &[u8]) {
        let counters = Arc::clone(&self.reply_counters);
        self.send(reply, &counters);
    }

    /// Sends a reply like [`Self::reply`], and counts it here if it is sent.
    pub(super) fn send(&mut self, reply: &[u8], counters: &Counters) {
        let sent_bytes = self.sent_bytes + reply.len() as u64;
        let is_bounded = !self.may_amplify && !self.entry.is_proven.load(Relaxed);
        if is_bounded && sent_bytes > MAX_AMPLIFICATION * (self.received_bytes + self.data_bytes) {
            if !std::mem::replace(&mut self.is_limited, true) {
                let peer = &self.entry.peer;
                (self.server.warn)(format_args!(
                    "udpmon: {peer}: gets no long replies: {UNPROVEN_ADDRESS}"
                ));
            }
            return;
        }
        if call::send_without_waiting(self.socket, reply).is_ok() {
            self.sent_bytes = sent_bytes;
            counters.count_sent(reply.len(), 1);
        }
    }

    /// Reports the early end of a test to a linerate requester.
    fn report_end(&mut self, reason: EndReason) {
        if !self.is_linerate {
            return;
        }
        let block = MessageBlock {
            length: reason as u32,
            ..MessageBlock::with_command(Command::Ended)
        };
        let mut bytes = block.encode();
        let extension = LinerateExtension {
            nonce: self.nonce,
            request: 0,
        };
        extension.write_into(&mut bytes);
        self.reply(&bytes);
    }
}
