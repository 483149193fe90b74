//! The receiver of `udpmon_recv`. It counts the datagrams that arrive at a port, and takes
//! snapshots of the counts.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use engine::{
    BufferMemory, Counters, PacketArrival, PacketObserver, PacketReceiver, PacketReceiverSettings,
    ReceiveEvent, Recording, Stop,
};
use sys::Address;

use crate::endpoint;
use crate::host::HostMeter;
use crate::options::{DATAGRAM_FORMAT, RecordKind, RecordRequest, RecvSettings};
use crate::result::{EndpointInfo, IntervalCounts, RecordRows, Records, Snapshot, StockCounts};
use crate::server::arrivals::{ArrivalObserver, lost_record, packet_record};
use crate::wire::{ArrivalRecord, LostRecord};

/// The events of a receiver.
#[derive(Debug)]
pub enum ReceiverEvent {
    /// The socket is open.
    Opened(EndpointInfo),
    /// A snapshot of the counts. The last one includes histograms and records.
    Snapshot(Box<Snapshot>),
}

/// The maximum number of datagrams per receive call.
const BATCH_SIZE: u32 = 64;

/// The maximum number of bytes read per datagram.
const MAX_READ_BYTES: u32 = 2048;

/// The maximum memory of a receiver's records, in bytes.
const MAX_MEMORY_BYTES: u64 = 8 << 30;

/// Receives until the end of `-t` or until a stop. Takes a snapshot at each interval of `-T`. The
/// calling thread takes the snapshots; another thread receives the datagrams.
pub fn run(
    settings: &RecvSettings,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiverEvent),
) -> io::Result<()> {
    let [v6, v4] = Address::wildcards(settings.common.port);
    let bind = if settings.common.is_v6 { v6 } else { v4 };
    let (socket, mut info) = endpoint::open(&settings.common, &bind, None)?;
    endpoint::enlarge_receive_buffer(&socket, &settings.common);
    info.set_buffers.receive = socket.recv_buffer_size()? as u32 / 2;
    let (counters, times) = (Counters::default(), ArrivalTimes::default());
    let receive_stop = Stop::new();
    let (ready_sender, ready_receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let (settings, socket) = (settings, socket.as_fd());
        let (counters, times, receive_stop) = (&counters, &times, &receive_stop);
        let thread = scope.spawn(move || {
            let receiver = new_receiver(socket, settings, counters)?;
            let _ = ready_sender.send(());
            receive(receiver, settings, times, receive_stop)
        });
        // Report the open socket only now: datagrams may arrive from here on. `join` returns an
        // error of the thread.
        let _ = ready_receiver.recv();
        on_event(ReceiverEvent::Opened(info));
        let mut snapshots = SnapshotTaker::new(counters, times, settings);
        let end = settings.time.map(|time| Instant::now() + time);
        let mut next_snapshot = Instant::now();
        if settings.printing_cpus.is_some() {
            endpoint::bind_to_cpus(settings.printing_cpus)?;
        }
        loop {
            next_snapshot += settings
                .interval
                .or(settings.time)
                .unwrap_or(Duration::MAX / 4)
                .min(MAX_INTERVAL);
            let has_ended = wait_until(next_snapshot, stop)
                || end.is_some_and(|end| Instant::now() >= end)
                || thread.is_finished();
            if has_ended {
                break;
            }
            if settings.interval.is_some() {
                on_event(ReceiverEvent::Snapshot(Box::new(snapshots.take_snapshot())));
            }
        }
        let mut last_snapshot = snapshots.take_snapshot();
        receive_stop.set(engine::StopReason::Deadline);
        let (observer, records) = thread.join().map_err(|_| {
            io::Error::other("internal error: the receiving thread ended unexpectedly")
        })??;
        last_snapshot.histograms = observer.histograms().to_vec();
        last_snapshot.records = records;
        on_event(ReceiverEvent::Snapshot(Box::new(last_snapshot)));
        Ok(())
    })
}

/// The maximum interval, also without `-T` and `-t`. It is longer than any run of a receiver.
const MAX_INTERVAL: Duration = Duration::from_secs(1 << 30);

/// Waits until the deadline or a stop. Returns whether the stop is set.
fn wait_until(deadline: Instant, stop: &Stop) -> bool {
    const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
    while !stop.is_set() && Instant::now() < deadline {
        std::thread::sleep(
            STOP_CHECK_INTERVAL.min(deadline.saturating_duration_since(Instant::now())),
        );
    }
    stop.is_set()
}

/// Arrival times that the receiving thread shares, in ns of the monotonic clock; 0 means no
/// arrival.
#[derive(Debug, Default)]
struct ArrivalTimes {
    /// The first arrival since the last snapshot.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

/// An observer that also shares the arrival times with the thread that takes snapshots.
struct PublishingObserver<'a> {
    observer: ArrivalObserver,
    times: &'a ArrivalTimes,
    is_tracing: bool,
}

impl PacketObserver for PublishingObserver<'_> {
    fn is_of_flow(&self, _: &[u8]) -> bool {
        true
    }

    #[inline]
    fn observe(&mut self, arrival: &PacketArrival) {
        if self.times.first_ns.load(Relaxed) == 0 {
            self.times.first_ns.store(arrival.times.arrival_ns, Relaxed);
        }
        self.times.last_ns.store(arrival.times.arrival_ns, Relaxed);
        self.observer.observe(arrival);
        if self.is_tracing {
            let (number, bytes) = (arrival.number, arrival.bytes);
            sys::write_error_line(format_args!(
                "packet {number}: {bytes} bytes, sent {} ns",
                arrival.sent_ns
            ));
        }
    }
}

fn new_receiver<'a>(
    socket: BorrowedFd<'a>,
    settings: &RecvSettings,
    counters: &'a Counters,
) -> io::Result<PacketReceiver<'a>> {
    let receiver_settings = PacketReceiverSettings {
        format: DATAGRAM_FORMAT,
        max_bytes: MAX_READ_BYTES,
        batch_size: BATCH_SIZE,
        enables_stamps: settings.arrival_by_kernel || settings.records_kernel_and_nic_stamps,
        recording: settings.records.map_or(Recording::None, recording_for),
        timeout: Duration::from_secs(1),
    };
    let memory = BufferMemory::new(MAX_MEMORY_BYTES, MAX_MEMORY_BYTES);
    PacketReceiver::new(socket, &receiver_settings, counters, &memory)
}

fn receive(
    mut receiver: PacketReceiver<'_>,
    settings: &RecvSettings,
    times: &ArrivalTimes,
    stop: &Stop,
) -> io::Result<(ArrivalObserver, Option<Records>)> {
    let mut observer = PublishingObserver {
        observer: ArrivalObserver::new(settings.bins, settings.records_kernel_and_nic_stamps, true),
        times,
        is_tracing: settings.common.verbose,
    };
    while !matches!(
        receiver.receive(stop, &mut observer)?,
        ReceiveEvent::Stopped(_)
    ) {}
    let to_records =
        |request| collect_records(&receiver, &request, settings.records_kernel_and_nic_stamps);
    Ok((observer.observer, settings.records.map(to_records)))
}

fn recording_for(request: RecordRequest) -> Recording {
    let (skip, limit) = (request.skip.into(), request.count.into());
    match request.kind {
        RecordKind::All => Recording::All { skip, limit },
        RecordKind::Lost => Recording::Lost { skip, limit },
    }
}

/// Returns the records. Arrival times are relative to the first packet.
fn collect_records(
    receiver: &PacketReceiver<'_>,
    request: &RecordRequest,
    with_stamps: bool,
) -> Records {
    let zero_ns = receiver
        .first_and_last_ns()
        .map_or(0, |(first_ns, _)| first_ns);
    let (recorded, count) = (receiver.records(), request.count as usize);
    let rows = match request.kind {
        RecordKind::All => {
            let packets = recorded.packets().iter();
            let mut rows: Vec<_> = packets
                .map(|packet| packet_record(packet, zero_ns, 100, with_stamps))
                .collect();
            rows.resize(count, ArrivalRecord::default());
            RecordRows::All(rows)
        }
        RecordKind::Lost => {
            let mut rows: Vec<_> = recorded
                .lost()
                .iter()
                .map(|lost| lost_record(lost, zero_ns))
                .collect();
            rows.resize(count, LostRecord::default());
            RecordRows::Lost(rows)
        }
    };
    Records {
        skip: request.skip,
        rows,
        clock: None,
    }
}

/// Takes snapshots of the counts of the receiving thread.
struct SnapshotTaker<'a> {
    counters: &'a Counters,
    times: &'a ArrivalTimes,
    settings: &'a RecvSettings,
    /// The host's activity since the start, and since the last snapshot.
    meters: [HostMeter; 2],
    previous: IntervalCounts,
    /// The arrival time of the first packet, in ns of the monotonic clock.
    first_ns: Option<u64>,
}

impl<'a> SnapshotTaker<'a> {
    fn new(counters: &'a Counters, times: &'a ArrivalTimes, settings: &'a RecvSettings) -> Self {
        let meter = || HostMeter::start(settings.interface.as_deref(), settings.common.is_v6);
        Self {
            counters,
            times,
            settings,
            meters: [meter(), meter()],
            previous: IntervalCounts::default(),
            first_ns: None,
        }
    }

    fn take_snapshot(&mut self) -> Snapshot {
        let (last_ns, first_ns) = (
            self.times.last_ns.load(Relaxed),
            self.times.first_ns.swap(0, Relaxed),
        );
        let (traffic, counts) = (
            self.counters.counts(),
            self.counters.datagrams().unwrap_or_default(),
        );
        if first_ns != 0 {
            self.first_ns = self.first_ns.or(Some(first_ns));
        }
        let since = |first_ns: u64| Duration::from_nanos(last_ns.saturating_sub(first_ns));
        let total = IntervalCounts {
            received: StockCounts {
                received: traffic.receive_calls,
                lost: counts.highest_number_counts.skipped,
                bad_order: counts.highest_number_counts.out_of_order,
                elapsed: self.first_ns.map_or(Duration::ZERO, since),
            },
            bytes: traffic.received.0,
            counts,
            host: self.meters[0].since_start(traffic.receive_calls > 0),
        };
        let (current, previous) = (&total.received, &self.previous.received);
        let has_received = current.received > previous.received;
        let delta = IntervalCounts {
            received: StockCounts {
                received: current.received - previous.received,
                lost: current.lost - previous.lost,
                bad_order: current.bad_order - previous.bad_order,
                elapsed: if first_ns == 0 {
                    Duration::ZERO
                } else {
                    since(first_ns)
                },
            },
            bytes: total.bytes - self.previous.bytes,
            counts: total.counts.since(&self.previous.counts),
            host: self.meters[1].since_start(has_received),
        };
        self.meters[1] = HostMeter::start(
            self.settings.interface.as_deref(),
            self.settings.common.is_v6,
        );
        self.previous = total.clone();
        Snapshot {
            taken_at: SystemTime::now(),
            delta,
            total,
            histograms: Vec::new(),
            records: None,
        }
    }
}
