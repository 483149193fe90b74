//! What a responder counts of each packet beside the engine: stock's histograms.

use engine::{Order, PacketArrival, PacketWatch, PassedOver, ReceivedPacket};

use crate::wire::{Binning, Command, Histogram, LostRecord, PacketRecord};

/// The five histograms of a test.
#[derive(Debug)]
pub(crate) struct Tally {
    histograms: Vec<Histogram>,
    /// Whether stamps of the kernel and of the network interface have histograms, too.
    keeps_stamps: bool,
    kernel_ns: u64,
    nic_ns: u64,
    /// Packets without a number of the test's.
    pub(crate) strange: u64,
    /// Whether each datagram is a packet, whatever it begins with.
    takes_all: bool,
}

impl Tally {
    /// Of packets that say that they are data, or of all.
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

/// The record of a packet: times since `zero_ns` of the monotonic clock, that of the arrival in units of so many ns.
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

/// The record of a number that was passed over, with times since `zero_ns`.
pub(crate) fn lost_record(lost: &PassedOver, zero_ns: u64) -> LostRecord {
    LostRecord {
        came: lost.came_ns.wrapping_sub(zero_ns) as i64 / 100,
        sent: lost.sent_ns / 100,
        number: lost.number as i64,
    }
}
