//! Converts a responder's records of single packets to results.

use std::time::Duration;

use model::PacketRecord as Packet;
use stats::ClockFit;
use stats::clock::Exchange;

use crate::options::{RecordKind, RecordsWanted};
use crate::result::{ByOrder, Fate, FateSource, RecordRows, Records};
use crate::wire::{LostRecord, PacketRecord, aligned};

/// The records of a responder.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) records: Option<Records>,
    pub(super) clock: Option<ClockFit>,
    /// Arrival and departure of each recorded number, in ns. An arrival of 0 means no arrival.
    times_ns: Vec<(i64, i64)>,
    /// The first recorded number.
    skip: u64,
}

impl Recorded {
    /// Reads the records. Arrival times of a linerate are in ns; stock truncates them and the exchanges.
    pub(super) fn new(
        wanted: &RecordsWanted,
        image: &[u8],
        is_ours: bool,
        exchanges: &[Exchange],
    ) -> Self {
        let clock = ClockFit::of(exchanges, if is_ours { 1 } else { 1_000 });
        let mut times_ns = Vec::new();
        let count = wanted.count as usize;
        let rows = match wanted.kind {
            RecordKind::Lost => {
                let mut rows = LostRecord::decode_all(image);
                rows.resize(count, LostRecord::default());
                RecordRows::Lost(rows)
            }
            RecordKind::All => {
                let mut rows = PacketRecord::decode_all(image);
                rows.resize(count, PacketRecord::default());
                times_ns = times(&rows, if is_ours { 1 } else { 100 });
                if is_ours {
                    for row in &mut rows {
                        row.came /= 100;
                    }
                }
                RecordRows::All(rows)
            }
        };
        Self {
            records: Some(Records {
                skip: wanted.skip,
                rows,
                clock,
            }),
            clock,
            times_ns,
            skip: wanted.skip.into(),
        }
    }

    /// Moves the records of a stock responder that counted late or repeated packets to their numbers.
    pub(super) fn align(&mut self, image: &[u8], sent: &[i64]) {
        if let Some(Records {
            rows: RecordRows::All(rows),
            ..
        }) = &mut self.records
        {
            let count = rows.len();
            *rows = aligned(image, sent);
            rows.resize(count, PacketRecord::default());
            self.times_ns = times(rows, 100);
        }
    }

    /// Returns a record of each arrival in order of arrival, and of each lost number.
    pub(super) fn packets(&self, bytes: u32, sent: u64) -> Vec<Packet> {
        let time = |ns: i64| Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
        let sent = sent
            .saturating_sub(self.skip)
            .min(self.times_ns.len() as u64);
        let numbered = (self.skip..).zip(&self.times_ns[..sent as usize]);
        let mut packets: Vec<Packet> = numbered
            .map(|(number, (came_ns, sent_ns))| Packet {
                number,
                bytes,
                sent: (*came_ns != 0).then(|| time(*sent_ns)),
                received: (*came_ns != 0).then(|| time(*came_ns)),
                one_way_delay_ns: match &self.clock {
                    Some(clock) if *came_ns != 0 => Some(clock.delay_ns(*sent_ns, *came_ns)),
                    _ => None,
                },
            })
            .collect();
        packets.sort_by_key(|packet| (packet.received.is_none(), packet.received, packet.number));
        packets
    }

    /// Returns the fate of the packets if each packet has a record.
    pub(super) fn fate(&self, received: &ByOrder, sent: u64) -> Option<Fate> {
        let is_whole = self.skip == 0 && self.times_ns.len() as u64 >= sent && sent > 0;
        let came = |(_, (came_ns, _)): &(usize, &(i64, i64))| *came_ns != 0;
        let mut with_record = self.times_ns.iter().enumerate().filter(came);
        let different = with_record.clone().count() as u64;
        let end = with_record
            .next_back()
            .map_or(0, |(number, _)| number as u64 + 1);
        // Stock counts each late and each repeated packet again in its order count.
        let repeated = received.received.checked_sub(different)?;
        let late = received.bad_order.checked_sub(repeated)?;
        is_whole.then(|| Fate {
            received: different,
            lost: end - different,
            lost_at_end: sent.saturating_sub(end),
            late,
            repeated,
            source: FateSource::Records,
        })
    }
}

/// Returns arrival and departure of each packet in ns. Arrival times in `rows` are in units of `unit_ns`.
fn times(rows: &[PacketRecord], unit_ns: i64) -> Vec<(i64, i64)> {
    let time = |row: &PacketRecord| {
        (
            row.came.saturating_mul(unit_ns),
            row.sent.saturating_mul(100),
        )
    };
    rows.iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: RecordsWanted = RecordsWanted {
        kind: RecordKind::All,
        skip: 0,
        count: 12,
    };

    /// 3 and 4 lost, 7 before 6, 8 twice.
    fn image() -> Vec<u8> {
        let mut image = vec![0; 12 * PacketRecord::LEN];
        for number in (0..12).filter(|number| ![3, 4].contains(number)) {
            let late = if number == 6 { 3 } else { 0 };
            let record = PacketRecord {
                came: 2 * (number + late) + 1,
                sent: 2 * number,
                ..PacketRecord::default()
            };
            record.write(&mut image[number as usize * PacketRecord::LEN..]);
        }
        image
    }

    #[test]
    fn counts_follow_from_the_records() {
        let exchange = Exchange {
            sent_ns: 0,
            answered_ns: 1_000_000,
            received_ns: 2_000,
        };
        let recorded = Recorded::new(&WANTED, &image(), false, &[exchange]);
        let received = ByOrder {
            received: 11,
            lost: 3,
            bad_order: 2,
            elapsed: Duration::ZERO,
        };
        let fate = recorded.fate(&received, 12).unwrap();
        assert_eq!(
            [
                fate.received,
                fate.lost,
                fate.lost_at_end,
                fate.late,
                fate.repeated
            ],
            [10, 2, 0, 1, 1]
        );
        // Two more were sent than have a record.
        assert_eq!(recorded.fate(&received, 14), None);
        let packets = recorded.packets(200, 20);
        let numbers: Vec<_> = packets.iter().map(|packet| packet.number).collect();
        assert_eq!(numbers, [0, 1, 2, 5, 7, 8, 6, 9, 10, 11, 3, 4]);
        assert_eq!(packets[1].received, Some(Duration::from_nanos(300)));
        assert_eq!(packets[1].one_way_delay_ns, Some(-999_400));
        assert_eq!(packets[11].received, None);
    }

    #[test]
    fn absurd_records_are_read() {
        let recorded = Recorded::new(&WANTED, &[0xff; 1000], false, &[]);
        assert_eq!(recorded.packets(64, u64::MAX).len(), 12);
        let none = Recorded::default();
        assert_eq!(none.fate(&ByOrder::default(), 0), None);
    }
}
