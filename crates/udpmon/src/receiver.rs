//! The receiver of `udpmon_recv`. It counts the datagrams that arrive at a port, and reads the counts at intervals.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use engine::{
    Arrived, Counters, Memory, PacketArrival, PacketReceiver, PacketReceiverSettings, PacketWatch,
    Recording, Stop,
};
use sys::Address;

use crate::endpoint;
use crate::host::HostMeter;
use crate::options::{FORMAT, RecordKind, RecordsWanted, Recv};
use crate::result::{ByOrder, Interval, Opened, RecordRows, Records, Snapshot};
use crate::server::tally::{Tally, lost_record, packet_record};
use crate::wire::{LostRecord, PacketRecord};

/// The events of a receiver.
#[derive(Debug)]
pub enum Event {
    /// The socket is open.
    Opened(Opened),
    /// A snapshot of the counts. The last one includes histograms and records.
    Snapshot(Box<Snapshot>),
}

/// The number of datagrams per call, and the number of bytes read of each.
const WIDTH: u32 = 64;
const LONGEST: u32 = 2048;

/// The maximum record memory of a receiver, in bytes.
const MOST_MEMORY: u64 = 8 << 30;

/// Receives until the end of `-t` or the stop, with a snapshot every `-T`. This thread takes the snapshots; another
/// receives the datagrams.
pub fn run(settings: &Recv, stop: &Stop, on: &mut dyn FnMut(Event)) -> io::Result<()> {
    let [v6, v4] = Address::wildcards(settings.common.port);
    let bind = if settings.common.v6 { v6 } else { v4 };
    let (socket, mut opened) = endpoint::open(&settings.common, &bind, None)?;
    endpoint::widen(&socket, &settings.common);
    opened.set.receive = socket.recv_buffer_size()? as u32 / 2;
    let (counters, times) = (Counters::default(), Times::default());
    let receiving = Stop::new();
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|scope| {
        let (settings, socket) = (settings, socket.as_fd());
        let (counters, times, receiving) = (&counters, &times, &receiving);
        let receiver = scope.spawn(move || {
            let receiver = receiver(socket, settings, counters)?;
            let _ = ready.send(());
            receive(receiver, settings, times, receiving)
        });
        // Datagrams may follow at once. The code below detects a failed receiver.
        let _ = is_ready.recv();
        on(Event::Opened(opened));
        let mut looks = Looks::new(counters, times, settings);
        let end = settings.time.map(|time| Instant::now() + time);
        let mut tick = Instant::now();
        if settings.printing_cpus.is_some() {
            endpoint::bind_to_cpus(settings.printing_cpus)?;
        }
        loop {
            tick += settings
                .interval
                .or(settings.time)
                .unwrap_or(Duration::MAX / 4)
                .min(FOREVER);
            let is_over = wait(tick, stop)
                || end.is_some_and(|end| Instant::now() >= end)
                || receiver.is_finished();
            if is_over {
                break;
            }
            if settings.interval.is_some() {
                on(Event::Snapshot(Box::new(looks.look())));
            }
        }
        let mut last = looks.look();
        receiving.pull(engine::Reason::Deadline);
        let ended = receiver
            .join()
            .map_err(|_| io::Error::other("the receiving thread panicked"))??;
        last.histograms = ended.0.histograms().to_vec();
        last.records = ended.1;
        on(Event::Snapshot(Box::new(last)));
        Ok(())
    })
}

/// Longer than any run of a receiver.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Waits until a time. Returns whether the stop came first.
fn wait(until: Instant, stop: &Stop) -> bool {
    const LOOK: Duration = Duration::from_millis(20);
    while !stop.is_set() && Instant::now() < until {
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    stop.is_set()
}

/// Arrival times shared by the receiving thread, in ns of the monotonic clock; 0 means none.
#[derive(Debug, Default)]
struct Times {
    /// The first packet since the last snapshot.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

/// Handles each packet, and shares the times.
struct Watch<'a> {
    tally: Tally,
    times: &'a Times,
    trace: bool,
}

impl PacketWatch for Watch<'_> {
    fn is_of_flow(&self, _: &[u8]) -> bool {
        true
    }

    #[inline]
    fn see(&mut self, arrival: &PacketArrival) {
        if self.times.first_ns.load(Relaxed) == 0 {
            self.times.first_ns.store(arrival.times.came_ns, Relaxed);
        }
        self.times.last_ns.store(arrival.times.came_ns, Relaxed);
        self.tally.see(arrival);
        if self.trace {
            let (number, bytes) = (arrival.number, arrival.bytes);
            sys::write_error_line(format_args!(
                "packet {number}: {bytes} bytes, sent {} ns",
                arrival.sent_ns
            ));
        }
    }
}

fn receiver<'a>(
    socket: BorrowedFd<'a>,
    settings: &Recv,
    counters: &'a Counters,
) -> io::Result<PacketReceiver<'a>> {
    let receiver = PacketReceiverSettings {
        format: FORMAT,
        longest: LONGEST,
        width: WIDTH,
        stamps: settings.arrival_by_kernel || settings.kernel_stamps,
        recording: settings.records.map_or(Recording::None, recording),
        silence: Duration::from_secs(1),
    };
    let memory = Memory::new(MOST_MEMORY, MOST_MEMORY);
    PacketReceiver::new(socket, &receiver, counters, &memory)
}

fn receive(
    mut receiver: PacketReceiver<'_>,
    settings: &Recv,
    times: &Times,
    stop: &Stop,
) -> io::Result<(Tally, Option<Records>)> {
    let mut watch = Watch {
        tally: Tally::new(settings.bins, settings.kernel_stamps, true),
        times,
        trace: settings.common.verbose,
    };
    while !matches!(receiver.receive(stop, &mut watch)?, Arrived::Stopped(_)) {}
    let to_records = |wanted| records(&receiver, &wanted, settings.kernel_stamps);
    Ok((watch.tally, settings.records.map(to_records)))
}

fn recording(wanted: RecordsWanted) -> Recording {
    let (skip, limit) = (wanted.skip.into(), wanted.count.into());
    match wanted.kind {
        RecordKind::All => Recording::All { skip, limit },
        RecordKind::Lost => Recording::Lost { skip, limit },
    }
}

/// Returns the records, with arrival times relative to the first packet.
fn records(receiver: &PacketReceiver<'_>, wanted: &RecordsWanted, with_stamps: bool) -> Records {
    let zero_ns = receiver
        .first_and_last_ns()
        .map_or(0, |(first_ns, _)| first_ns);
    let (found, count) = (receiver.records(), wanted.count as usize);
    let rows = match wanted.kind {
        RecordKind::All => {
            let packets = found.packets().iter();
            let mut rows: Vec<_> = packets
                .map(|packet| packet_record(packet, zero_ns, 100, with_stamps))
                .collect();
            rows.resize(count, PacketRecord::default());
            RecordRows::All(rows)
        }
        RecordKind::Lost => {
            let mut rows: Vec<_> = found
                .lost()
                .iter()
                .map(|lost| lost_record(lost, zero_ns))
                .collect();
            rows.resize(count, LostRecord::default());
            RecordRows::Lost(rows)
        }
    };
    Records {
        skip: wanted.skip,
        rows,
        clock: None,
    }
}

/// Takes snapshots of the receiving thread's counts.
struct Looks<'a> {
    counters: &'a Counters,
    times: &'a Times,
    settings: &'a Recv,
    /// The counts since the start, and since the last snapshot.
    meters: [HostMeter; 2],
    before: Interval,
    /// The arrival time of the first packet of the run.
    first_ns: Option<u64>,
}

impl<'a> Looks<'a> {
    fn new(counters: &'a Counters, times: &'a Times, settings: &'a Recv) -> Self {
        let meter = || HostMeter::start(settings.interface.as_deref(), settings.common.v6);
        Self {
            counters,
            times,
            settings,
            meters: [meter(), meter()],
            before: Interval::default(),
            first_ns: None,
        }
    }

    fn look(&mut self) -> Snapshot {
        let (last_ns, first_ns) = (
            self.times.last_ns.load(Relaxed),
            self.times.first_ns.swap(0, Relaxed),
        );
        let (moved, counts) = (
            self.counters.counts(),
            self.counters.datagrams().unwrap_or_default(),
        );
        if first_ns != 0 {
            self.first_ns = self.first_ns.or(Some(first_ns));
        }
        let since = |first_ns: u64| Duration::from_nanos(last_ns.saturating_sub(first_ns));
        let total = Interval {
            received: ByOrder {
                received: moved.receive_calls,
                lost: counts.by_order.passed_over,
                bad_order: counts.by_order.out_of_order,
                elapsed: self.first_ns.map_or(Duration::ZERO, since),
            },
            bytes: moved.received.0,
            counts,
            host: self.meters[0].since_start(),
        };
        let (now, before) = (&total.received, &self.before.received);
        let delta = Interval {
            received: ByOrder {
                received: now.received - before.received,
                lost: now.lost - before.lost,
                bad_order: now.bad_order - before.bad_order,
                elapsed: if first_ns == 0 {
                    Duration::ZERO
                } else {
                    since(first_ns)
                },
            },
            bytes: total.bytes - self.before.bytes,
            counts: total.counts.since(&self.before.counts),
            host: self.meters[1].since_start(),
        };
        self.meters[1] =
            HostMeter::start(self.settings.interface.as_deref(), self.settings.common.v6);
        self.before = total.clone();
        Snapshot {
            at: SystemTime::now(),
            delta,
            total,
            histograms: Vec::new(),
            records: None,
        }
    }
}
