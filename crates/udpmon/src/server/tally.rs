//! A responder's counts per packet in addition to the engine's: stock's histograms.

use engine::{Order, PacketArrival, PacketWatch, PassedOver, ReceivedPacket};

use crate::wire::{Binning, Command, Histogram, LostRecord, PacketRecord};

/// The five histograms of a test.
#[derive(Debug)]
pub(crate) struct Tally {
    histograms: Vec<Histogram>,
    /// Whether the time stamps of the kernel and of the network interface also have histograms.
    keeps_stamps: bool,
    kernel_ns: u64,
    nic_ns: u64,
    /// Packets without a number of this test.
    pub(crate) strange: u64,
    /// Whether each datagram counts as a packet, regardless of its first bytes.
    takes_all: bool,
}

impl Tally {
    /// Returns a tally of packets with the data command, or of all datagrams.
    pub(crate) fn new(binning: Binning, keeps_stamps: bool, takes_all: bool) -> Self {
        Self {
            histograms: Histogram::of_responder(binning),
            keeps_stamps,
            kernel_ns: 0,
            nic_ns: 0,
            strange: 0,
            takes_all,
        }
    }

    /// The histograms in the order of their numbers.
    pub(crate) fn histograms(&self) -> &[Histogram] {
        &self.histograms
    }
}

impl PacketWatch for Tally {
    #[inline]
    fn is_of_flow(&self, datagram: &[u8]) -> bool {
        const DATA: [u8; 4] = (Command::Data as u32).to_le_bytes();
        self.takes_all || datagram.starts_with(&DATA)
    }

    #[inline]
    fn see(&mut self, arrival: &PacketArrival) {
        if let Some(gap_ns) = arrival.gap_ns {
            self.histograms[0].record((gap_ns / 100) as i64);
        }
        match arrival.order {
            Order::InTurn => {}
            Order::Ahead { passed_over } => self.histograms[1].record(passed_over as i64),
            Order::Alien => self.strange += 1,
            Order::Late | Order::Repeated | Order::TooLate => {
                self.histograms[2].record(-arrival.step);
            }
        }
        if self.keeps_stamps {
            let stamps = arrival.times.stamps;
            for (id, now, last) in [
                (3, stamps.kernel_ns, &mut self.kernel_ns),
                (4, stamps.nic_ns, &mut self.nic_ns),
            ] {
                if now != 0 && *last != 0 {
                    self.histograms[id].record(now.wrapping_sub(*last) as i64);
                }
                *last = now;
            }
        }
    }
}

/// Returns the record of a packet. Times are relative to `zero_ns` of the monotonic clock. The arrival time is in units
/// of `unit_ns` nanoseconds.
pub(crate) fn packet_record(
    packet: &ReceivedPacket,
    zero_ns: u64,
    unit_ns: i64,
    with_stamps: bool,
) -> PacketRecord {
    if packet.is_missing() {
        return PacketRecord::default();
    }
    let stamps = packet.times.stamps;
    PacketRecord {
        came: packet.times.came_ns.wrapping_sub(zero_ns) as i64 / unit_ns,
        sent: packet.sent_ns / 100,
        kernel_ns: if with_stamps { stamps.kernel_ns } else { 0 },
        hardware_ns: if with_stamps { stamps.nic_ns } else { 0 },
    }
}

/// Returns the record of a skipped number, with times relative to `zero_ns`.
pub(crate) fn lost_record(lost: &PassedOver, zero_ns: u64) -> LostRecord {
    LostRecord {
        came: lost.came_ns.wrapping_sub(zero_ns) as i64 / 100,
        sent: lost.sent_ns / 100,
        number: lost.number as i64,
    }
}
