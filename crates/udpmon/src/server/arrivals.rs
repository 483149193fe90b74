//! Stock's histograms and records of arrivals, built from the packets that the engine receives.

use engine::{ArrivalOrder, PacketArrival, PacketObserver, ReceivedPacket, SkippedNumber};

use crate::wire::{ArrivalRecord, Binning, Command, LinearHistogram, LostRecord};

/// The observer of each packet. It fills stock's five histograms of a test.
#[derive(Debug)]
pub(crate) struct ArrivalObserver {
    histograms: Vec<LinearHistogram>,
    /// Whether histograms 3 and 4 count the time stamps of the kernel and of the network interface.
    has_stamps: bool,
    /// The kernel time stamp of the previous packet.
    kernel_ns: u64,
    /// The time stamp of the network interface for the previous packet.
    nic_ns: u64,
    /// Packets without a valid number of this test.
    pub(crate) invalid: u64,
    /// Whether each datagram counts as a packet, regardless of its first bytes.
    accepts_all: bool,
}

impl ArrivalObserver {
    /// Creates an observer of packets with the data command; with `accepts_all`, of all datagrams.
    pub(crate) fn new(binning: Binning, has_stamps: bool, accepts_all: bool) -> Self {
        Self {
            histograms: LinearHistogram::all_for_responder(binning),
            has_stamps,
            kernel_ns: 0,
            nic_ns: 0,
            invalid: 0,
            accepts_all,
        }
    }

    /// Returns the histograms in the order of their IDs.
    pub(crate) fn histograms(&self) -> &[LinearHistogram] {
        &self.histograms
    }
}

impl PacketObserver for ArrivalObserver {
    #[inline]
    fn is_of_flow(&self, datagram: &[u8]) -> bool {
        const DATA: [u8; 4] = (Command::Data as u32).to_le_bytes();
        self.accepts_all || datagram.starts_with(&DATA)
    }

    #[inline]
    fn observe(&mut self, arrival: &PacketArrival) {
        if let Some(gap_ns) = arrival.gap_ns {
            self.histograms[0].record((gap_ns / 100) as i64);
        }
        match arrival.order {
            ArrivalOrder::InOrder => {}
            ArrivalOrder::Ahead { passed_over } => self.histograms[1].record(passed_over as i64),
            ArrivalOrder::Invalid => self.invalid += 1,
            ArrivalOrder::Late | ArrivalOrder::Repeated | ArrivalOrder::TooLate => {
                self.histograms[2].record(-arrival.step);
            }
        }
        if self.has_stamps {
            let stamps = arrival.times.stamps;
            for (id, stamp_ns, previous_ns) in [
                (3, stamps.kernel_ns, &mut self.kernel_ns),
                (4, stamps.nic_ns, &mut self.nic_ns),
            ] {
                if stamp_ns != 0 && *previous_ns != 0 {
                    self.histograms[id].record(stamp_ns.wrapping_sub(*previous_ns) as i64);
                }
                *previous_ns = stamp_ns;
            }
        }
    }
}

/// Returns the record of a packet. Times are relative to `zero_ns` of the monotonic clock. The
/// arrival time is in units of `unit_ns` nanoseconds.
pub(crate) fn packet_record(
    packet: &ReceivedPacket,
    zero_ns: u64,
    unit_ns: i64,
    with_stamps: bool,
) -> ArrivalRecord {
    if packet.is_missing() {
        return ArrivalRecord::default();
    }
    let stamps = packet.times.stamps;
    ArrivalRecord {
        arrival: packet.times.arrival_ns.wrapping_sub(zero_ns) as i64 / unit_ns,
        sent: packet.sent_ns / 100,
        kernel_ns: if with_stamps { stamps.kernel_ns } else { 0 },
        hardware_ns: if with_stamps { stamps.nic_ns } else { 0 },
    }
}

/// Returns the record of a skipped number, with times relative to `zero_ns`.
pub(crate) fn lost_record(lost: &SkippedNumber, zero_ns: u64) -> LostRecord {
    LostRecord {
        arrival: lost.previous_arrival_ns.wrapping_sub(zero_ns) as i64 / 100,
        sent: lost.previous_sent_ns / 100,
        number: lost.number as i64,
    }
}
