//! Forwarding of packets between two TUN devices, each packet at its due time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::clock::monotonic_ns;

use crate::records::{ForwardRecord, PacketVerdict};
use crate::schedule::{Impairer, LinkDirection};

/// The maximum time from the expiry of a timer until the thread runs, on a busy machine. The
/// forwarder stops sleeping this long before a packet is due.
const MAX_WAKE_UP_LATENCY_NS: u64 = 100_000;

/// Records per message to the log writer. With large batches, the log writer runs rarely and
/// disturbs the forwarder less.
const RECORDS_PER_BATCH: usize = 4096;

/// The maximum number of packets to read before due packets are written.
const MAX_READS_PER_ROUND: usize = 16;

/// The maximum size of an IP packet, in bytes.
const MAX_PACKET_BYTES: usize = 65_536;

/// One direction of a forwarder.
pub struct Forwarder<'a> {
    /// The direction.
    pub direction: LinkDirection,
    /// The TUN device to read from, nonblocking.
    pub from: &'a OwnedFd,
    /// The TUN device to write to.
    pub to: &'a OwnedFd,
    /// A descriptor that becomes readable when forwarding must stop.
    pub stop: BorrowedFd<'a>,
    /// Decides what happens to each packet.
    pub impairer: Impairer,
    /// The maximum number of packets that wait.
    pub queue_limit: usize,
    /// Whether to poll without sleeping, for exact arrival times; this keeps one CPU busy.
    pub spin: bool,
    /// The number of completed rounds of the forwarding loop; starts at 0.
    pub rounds: u32,
}

impl Forwarder<'_> {
    /// Forwards packets until `stop` is readable. Sends a record for each packet.
    pub fn run(self, records: &Sender<Vec<ForwardRecord>>) -> io::Result<()> {
        // Without timer slack, sleeps end on time and not up to 50 µs later: prctl(2),
        // PR_SET_TIMERSLACK.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let mut queue = PacketQueue {
            packets: BinaryHeap::new(),
            free_buffers: Vec::new(),
            records: RecordSender {
                batch: Vec::with_capacity(RECORDS_PER_BATCH),
                sender: records,
            },
            last_queue_number: 0,
        };
        let result = self.forward(&mut queue);
        queue.record_unsent();
        result
    }

    fn forward(mut self, queue: &mut PacketQueue) -> io::Result<()> {
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        let mut number = 0;
        loop {
            for _ in 0..MAX_READS_PER_ROUND {
                let length = match rustix::io::read(self.from, &mut buffer) {
                    Ok(length) => length,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                    Err(error) => return Err(error.into()),
                };
                number += 1;
                self.enqueue(queue, number, &buffer[..length], monotonic_ns());
            }
            while let Some(packet) = queue.next_due(monotonic_ns()) {
                let departure_ns = monotonic_ns();
                let is_written = rustix::io::write(self.to, &packet.bytes).is_ok();
                queue.record_departure(packet, departure_ns, is_written);
            }
            if self.wait(queue.first_due_ns())? {
                return Ok(());
            }
        }
    }

    /// Applies the schedule to an arrived packet. Queues it until it is due, or drops it.
    fn enqueue(&mut self, queue: &mut PacketQueue, number: u64, bytes: &[u8], arrival_ns: u64) {
        let decision = self.impairer.decide(bytes, arrival_ns);
        let record = ForwardRecord {
            direction: self.direction,
            number,
            protocol: crate::schedule::ip_protocol(bytes).unwrap_or(0),
            length_bytes: bytes.len() as u32,
            arrival_ns,
            due_ns: decision.due_ns,
            departure_ns: 0,
            verdict: if decision.is_held {
                PacketVerdict::Held
            } else {
                PacketVerdict::Sent
            },
        };
        if decision.is_dropped {
            queue.records.push(ForwardRecord {
                verdict: PacketVerdict::Dropped,
                ..record
            });
            return;
        }
        if queue.packets.len() + usize::from(decision.is_duplicated) >= self.queue_limit {
            queue.records.push(ForwardRecord {
                verdict: PacketVerdict::Overflow,
                ..record
            });
            return;
        }
        queue.push(record, bytes);
        if decision.is_duplicated {
            let verdict = PacketVerdict::Copy;
            queue.push(ForwardRecord { verdict, ..record }, bytes);
        }
    }

    /// Sleeps until a packet arrives or is almost due. Returns whether forwarding must stop.
    fn wait(&mut self, due_ns: Option<u64>) -> io::Result<bool> {
        let now_ns = monotonic_ns();
        let sleep_ns = due_ns.map(|due_ns| due_ns.saturating_sub(now_ns + MAX_WAKE_UP_LATENCY_NS));
        // Without sleep, the loop reads the device directly, and polls the stop descriptor only
        // every 1024 rounds.
        let stays_awake = self.spin || sleep_ns == Some(0);
        self.rounds = self.rounds.wrapping_add(1);
        if stays_awake && !self.rounds.is_multiple_of(1024) {
            return Ok(false);
        }
        let timeout = if stays_awake { Some(0) } else { sleep_ns };
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

/// Waiting packets, earliest due time first.
struct PacketQueue<'a> {
    packets: BinaryHeap<Reverse<QueuedPacket>>,
    /// Buffers of departed packets, for reuse.
    free_buffers: Vec<Vec<u8>>,
    records: RecordSender<'a>,
    /// The queue number of the last queued packet. It orders packets with the same due time.
    last_queue_number: u64,
}

struct QueuedPacket {
    record: ForwardRecord,
    queue_number: u64,
    bytes: Vec<u8>,
}

impl PacketQueue<'_> {
    fn push(&mut self, record: ForwardRecord, bytes: &[u8]) {
        let mut buffer = self.free_buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.last_queue_number += 1;
        self.packets.push(Reverse(QueuedPacket {
            record,
            queue_number: self.last_queue_number,
            bytes: buffer,
        }));
    }

    fn first_due_ns(&self) -> Option<u64> {
        self.packets
            .peek()
            .map(|Reverse(first)| first.record.due_ns)
    }

    fn next_due(&mut self, now_ns: u64) -> Option<QueuedPacket> {
        if self.first_due_ns()? > now_ns {
            return None;
        }
        self.packets.pop().map(|Reverse(first)| first)
    }

    fn record_departure(&mut self, packet: QueuedPacket, departure_ns: u64, is_written: bool) {
        self.records.push(if is_written {
            ForwardRecord {
                departure_ns,
                ..packet.record
            }
        } else {
            ForwardRecord {
                verdict: PacketVerdict::Refused,
                ..packet.record
            }
        });
        self.free_buffers.push(packet.bytes);
    }

    /// Records the packets that still wait, and sends all remaining records.
    fn record_unsent(mut self) {
        for Reverse(packet) in self.packets.drain() {
            // A copy that has not departed is not recorded.
            if packet.record.verdict != PacketVerdict::Copy {
                self.records.push(ForwardRecord {
                    verdict: PacketVerdict::Unsent,
                    ..packet.record
                });
            }
        }
        self.records.flush();
    }
}

impl PartialEq for QueuedPacket {
    fn eq(&self, other: &Self) -> bool {
        self.queue_number == other.queue_number
    }
}

impl Eq for QueuedPacket {}

impl PartialOrd for QueuedPacket {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedPacket {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |packet: &Self| (packet.record.due_ns, packet.queue_number);
        key(self).cmp(&key(other))
    }
}

/// Sends records to the log writer in batches.
struct RecordSender<'a> {
    batch: Vec<ForwardRecord>,
    sender: &'a Sender<Vec<ForwardRecord>>,
}

impl RecordSender<'_> {
    fn push(&mut self, record: ForwardRecord) {
        self.batch.push(record);
        if self.batch.len() == RECORDS_PER_BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(RECORDS_PER_BATCH));
        // Sending fails only after an error of the log writer, which returns that error itself.
        let _ = self.sender.send(batch);
    }
}

/// A stop signal for forwarders: an eventfd(2), readable once triggered.
pub struct ForwarderStop(OwnedFd);

impl ForwarderStop {
    /// Creates an untriggered stop signal.
    pub fn new() -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    /// Stops the forwarders.
    pub fn trigger(&self) -> io::Result<()> {
        rustix::io::write(&self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

impl AsFd for ForwarderStop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
