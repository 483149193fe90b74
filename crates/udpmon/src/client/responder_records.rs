//! Conversion of a responder's per-packet records to results.

use std::time::Duration;

use model::PacketRecord as Packet;
use stats::ClockFit;
use stats::clock::ClockExchange;

use crate::options::{RecordKind, RecordRequest};
use crate::result::{DeliveryCounts, DeliverySource, RecordRows, Records, StockCounts};
use crate::wire::{ArrivalRecord, LostRecord, align_records};

/// The records of a responder.
#[derive(Default)]
pub(super) struct ResponderRecords {
    pub(super) records: Option<Records>,
    pub(super) clock: Option<ClockFit>,
    /// The arrival and send times of each recorded number, in ns. An arrival time of 0 means no
    /// arrival.
    times_ns: Vec<(i64, i64)>,
    /// The first recorded number.
    skip: u64,
}

impl ResponderRecords {
    /// Decodes the records. A linerate responder reports arrival times and clock exchanges in ns.
    /// Stock truncates arrival times to 0.1 µs and exchanges to 1 µs.
    pub(super) fn new(
        request: &RecordRequest,
        image: &[u8],
        is_linerate: bool,
        exchanges: &[ClockExchange],
    ) -> Self {
        let clock = ClockFit::from_exchanges(exchanges, if is_linerate { 1 } else { 1_000 });
        let mut times_ns = Vec::new();
        let count = request.count as usize;
        let rows = match request.kind {
            RecordKind::Lost => {
                let mut rows = LostRecord::decode_all(image);
                rows.resize(count, LostRecord::default());
                RecordRows::Lost(rows)
            }
            RecordKind::All => {
                let mut rows = ArrivalRecord::decode_all(image);
                rows.resize(count, ArrivalRecord::default());
                times_ns = times(&rows, if is_linerate { 1 } else { 100 });
                if is_linerate {
                    for row in &mut rows {
                        row.arrival /= 100;
                    }
                }
                RecordRows::All(rows)
            }
        };
        Self {
            records: Some(Records {
                skip: request.skip,
                rows,
                clock,
            }),
            clock,
            times_ns,
            skip: request.skip.into(),
        }
    }

    /// Assigns the records of a stock responder to their numbers. Late and repeated packets shift
    /// the records in its memory.
    pub(super) fn align(&mut self, image: &[u8], send_times: &[i64]) {
        if let Some(Records {
            rows: RecordRows::All(rows),
            ..
        }) = &mut self.records
        {
            let count = rows.len();
            *rows = align_records(image, send_times);
            rows.resize(count, ArrivalRecord::default());
            self.times_ns = times(rows, 100);
        }
    }

    /// Returns a record per arrival, in order of arrival, followed by a record per lost number.
    pub(super) fn packets(&self, bytes: u32, sent: u64) -> Vec<Packet> {
        let time = |ns: i64| Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
        let sent = sent
            .saturating_sub(self.skip)
            .min(self.times_ns.len() as u64);
        let numbered = (self.skip..).zip(&self.times_ns[..sent as usize]);
        let mut packets: Vec<Packet> = numbered
            .map(|(number, (arrival_ns, sent_ns))| Packet {
                number,
                bytes,
                sent: (*arrival_ns != 0).then(|| time(*sent_ns)),
                received: (*arrival_ns != 0).then(|| time(*arrival_ns)),
                one_way_delay_ns: match &self.clock {
                    Some(clock) if *arrival_ns != 0 => Some(clock.delay_ns(*sent_ns, *arrival_ns)),
                    _ => None,
                },
            })
            .collect();
        packets.sort_by_key(|packet| (packet.received.is_none(), packet.received, packet.number));
        packets
    }

    /// Returns the delivery counts; `None` if a sent packet has no record.
    pub(super) fn delivery_counts(
        &self,
        received: &StockCounts,
        sent: u64,
    ) -> Option<DeliveryCounts> {
        let is_complete = self.skip == 0 && self.times_ns.len() as u64 >= sent && sent > 0;
        let has_arrived = |(_, (arrival_ns, _)): &(usize, &(i64, i64))| *arrival_ns != 0;
        let mut arrived = self.times_ns.iter().enumerate().filter(has_arrived);
        let distinct = arrived.clone().count() as u64;
        let end = arrived
            .next_back()
            .map_or(0, |(number, _)| number as u64 + 1);
        // Stock's `bad_order` counts each late and each repeated packet once.
        let repeated = received.received.checked_sub(distinct)?;
        let late = received.bad_order.checked_sub(repeated)?;
        is_complete.then(|| DeliveryCounts {
            received: distinct,
            lost: end - distinct,
            lost_at_end: sent.saturating_sub(end),
            late,
            repeated,
            source: DeliverySource::Records,
        })
    }
}

/// Returns the arrival and send times of each packet in ns. Arrival times in `rows` are in units of
/// `unit_ns`.
fn times(rows: &[ArrivalRecord], unit_ns: i64) -> Vec<(i64, i64)> {
    let time = |row: &ArrivalRecord| {
        (
            row.arrival.saturating_mul(unit_ns),
            row.sent.saturating_mul(100),
        )
    };
    rows.iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: RecordRequest = RecordRequest {
        kind: RecordKind::All,
        skip: 0,
        count: 12,
    };

    /// Records of 12 packets: 3 and 4 lost, 7 before 6, 8 twice.
    fn image() -> Vec<u8> {
        let mut image = vec![0; 12 * ArrivalRecord::LEN];
        for number in (0..12).filter(|number| ![3, 4].contains(number)) {
            let delay = if number == 6 { 3 } else { 0 };
            let record = ArrivalRecord {
                arrival: 2 * (number + delay) + 1,
                sent: 2 * number,
                ..ArrivalRecord::default()
            };
            record.write(&mut image[number as usize * ArrivalRecord::LEN..]);
        }
        image
    }

    #[test]
    fn counts_follow_from_the_records() {
        let exchange = ClockExchange {
            sent_ns: 0,
            responded_ns: 1_000_000,
            received_ns: 2_000,
        };
        let records = ResponderRecords::new(&REQUEST, &image(), false, &[exchange]);
        let received = StockCounts {
            received: 11,
            lost: 3,
            bad_order: 2,
            elapsed: Duration::ZERO,
        };
        let delivery = records.delivery_counts(&received, 12).unwrap();
        assert_eq!(
            [
                delivery.received,
                delivery.lost,
                delivery.lost_at_end,
                delivery.late,
                delivery.repeated
            ],
            [10, 2, 0, 1, 1]
        );
        // Two of the 14 sent packets have no record.
        assert_eq!(records.delivery_counts(&received, 14), None);
        let packets = records.packets(200, 20);
        let numbers: Vec<_> = packets.iter().map(|packet| packet.number).collect();
        assert_eq!(numbers, [0, 1, 2, 5, 7, 8, 6, 9, 10, 11, 3, 4]);
        assert_eq!(packets[1].received, Some(Duration::from_nanos(300)));
        assert_eq!(packets[1].one_way_delay_ns, Some(-999_400));
        assert_eq!(packets[11].received, None);
    }

    #[test]
    fn invalid_records_are_decoded_without_panic() {
        let records = ResponderRecords::new(&REQUEST, &[0xff; 1000], false, &[]);
        assert_eq!(records.packets(64, u64::MAX).len(), 12);
        let no_records = ResponderRecords::default();
        assert_eq!(no_records.delivery_counts(&StockCounts::default(), 0), None);
    }
}
