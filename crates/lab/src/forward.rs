//! Packets from one TUN device to another, each when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::clock::monotonic_ns;

use crate::journal::{Record, Verdict};
use crate::schedule::{Course, Direction};

/// How long before a packet is due the forwarder stops sleeping: what a timer and a wake-up may take
/// on a busy machine.
const SPIN_NS: u64 = 100_000;

/// Records that go to the journal at once: none goes while little happens, when it would disturb.
const CHUNK: usize = 4096;

/// Packets read before those that are due get their turn.
const BATCH: usize = 16;

/// The largest IP packet.
const LARGEST: usize = 65_536;

/// One direction of a forwarder.
pub struct Way<'a> {
    /// Which one.
    pub direction: Direction,
    /// Where packets come from; reads do not block.
    pub from: &'a OwnedFd,
    /// Where they go.
    pub to: &'a OwnedFd,
    /// Readable when it is over.
    pub stop: BorrowedFd<'a>,
    /// What happens to them.
    pub course: Course,
    /// How many may wait.
    pub limit: usize,
    /// Never to sleep: arrivals are seen at once, and a processor is busy with it.
    pub spin: bool,
    /// Rounds without sleep so far; starts at 0.
    pub turns: u32,
}

impl Way<'_> {
    /// Forwards until `stop`. Every packet gets a record.
    pub fn run(self, records: &Sender<Vec<Record>>) -> io::Result<()> {
        // A sleep ends when it is over, not up to 50 µs later. prctl(2), PR_SET_TIMERSLACK.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let mut queue = Queue {
            waiting: BinaryHeap::new(),
            spare: Vec::new(),
            notes: Notes {
                chunk: Vec::with_capacity(CHUNK),
                records,
            },
            order: 0,
        };
        let done = self.forward(&mut queue);
        queue.abandon();
        done
    }

    fn forward(mut self, queue: &mut Queue) -> io::Result<()> {
        let mut buffer = vec![0; LARGEST];
        let mut number = 0;
        loop {
            for _ in 0..BATCH {
                let length = match rustix::io::read(self.from, &mut buffer) {
                    Ok(length) => length,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                    Err(error) => return Err(error.into()),
                };
                number += 1;
                self.admit(queue, number, &buffer[..length], monotonic_ns());
            }
            while let Some(packet) = queue.next_due(monotonic_ns()) {
                let departure_ns = monotonic_ns();
                let taken = rustix::io::write(self.to, &packet.bytes).is_ok();
                queue.left(packet, departure_ns, taken);
            }
            if self.rest(queue.first_due_ns())? {
                return Ok(());
            }
        }
    }

    /// Decides on a packet, and keeps it until it is due.
    fn admit(&mut self, queue: &mut Queue, number: u64, bytes: &[u8], arrival_ns: u64) {
        let fate = self.course.fate(bytes, arrival_ns);
        let record = Record {
            direction: self.direction,
            number,
            protocol: crate::schedule::protocol(bytes).unwrap_or(0),
            length_bytes: bytes.len() as u32,
            arrival_ns,
            due_ns: fate.due_ns,
            departure_ns: 0,
            verdict: if fate.held {
                Verdict::Held
            } else {
                Verdict::Sent
            },
        };
        if fate.dropped {
            queue.notes.note(Record {
                verdict: Verdict::Dropped,
                ..record
            });
            return;
        }
        if queue.waiting.len() + usize::from(fate.doubled) >= self.limit {
            queue.notes.note(Record {
                verdict: Verdict::Overflow,
                ..record
            });
            return;
        }
        queue.keep(record, bytes);
        if fate.doubled {
            let verdict = Verdict::Copy;
            queue.keep(Record { verdict, ..record }, bytes);
        }
    }

    /// Sleeps until something may be to do; whether it is over.
    fn rest(&mut self, due_ns: Option<u64>) -> io::Result<bool> {
        let now = monotonic_ns();
        let time = due_ns.map(|due| due.saturating_sub(now + SPIN_NS));
        // Awake, what is looked at is the device itself, by reading, and the stop only now and then.
        let awake = self.spin || time == Some(0);
        self.turns = self.turns.wrapping_add(1);
        if awake && !self.turns.is_multiple_of(1024) {
            return Ok(false);
        }
        let timeout = if awake { Some(0) } else { time };
        let timeout = timeout.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut events = [
            PollFd::from_borrowed_fd(self.stop, PollFlags::IN),
            PollFd::new(self.from, PollFlags::IN),
        ];
        match poll(&mut events, timeout.as_ref()) {
            Ok(_) => Ok(!events[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// What waits, the earliest due first.
struct Queue<'a> {
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Memory of packets that have left.
    spare: Vec<Vec<u8>>,
    notes: Notes<'a>,
    /// Of those due at the same time, who came first.
    order: u64,
}

struct Waiting {
    record: Record,
    order: u64,
    bytes: Vec<u8>,
}

impl Queue<'_> {
    fn keep(&mut self, record: Record, bytes: &[u8]) {
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(bytes);
        self.order += 1;
        self.waiting.push(Reverse(Waiting {
            record,
            order: self.order,
            bytes: memory,
        }));
    }

    fn first_due_ns(&self) -> Option<u64> {
        self.waiting
            .peek()
            .map(|Reverse(first)| first.record.due_ns)
    }

    fn next_due(&mut self, now_ns: u64) -> Option<Waiting> {
        if self.first_due_ns()? > now_ns {
            return None;
        }
        self.waiting.pop().map(|Reverse(first)| first)
    }

    fn left(&mut self, packet: Waiting, departure_ns: u64, taken: bool) {
        self.notes.note(if taken {
            Record {
                departure_ns,
                ..packet.record
            }
        } else {
            Record {
                verdict: Verdict::Refused,
                ..packet.record
            }
        });
        self.spare.push(packet.bytes);
    }

    /// Notes what did not leave.
    fn abandon(mut self) {
        for Reverse(packet) in self.waiting.drain() {
            // The copy of a packet that has not left is nothing.
            if packet.record.verdict != Verdict::Copy {
                self.notes.note(Record {
                    verdict: Verdict::Unsent,
                    ..packet.record
                });
            }
        }
        self.notes.flush();
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |packet: &Self| (packet.record.due_ns, packet.order);
        key(self).cmp(&key(other))
    }
}

/// Records on their way to the journal.
struct Notes<'a> {
    chunk: Vec<Record>,
    records: &'a Sender<Vec<Record>>,
}

impl Notes<'_> {
    fn note(&mut self, record: Record) {
        self.chunk.push(record);
        if self.chunk.len() == CHUNK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        // Whoever keeps the journal stops only for an error of its own, which it tells.
        let _ = self.records.send(chunk);
    }
}

/// Something that becomes readable when it is over: eventfd(2).
pub struct Stop(OwnedFd);

impl Stop {
    /// Not yet.
    pub fn new() -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    /// Now.
    pub fn pull(&self) -> io::Result<()> {
        rustix::io::write(&self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
