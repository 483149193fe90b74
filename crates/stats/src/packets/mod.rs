//! Path metrics from records of numbered packets: loss, duplication, reordering, delay, delay
//! variation, bottleneck.

mod bottleneck;
mod reordering;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use bottleneck::Bottleneck;
pub use reordering::{MeanAndMax, Reordering};

/// One arrival or one lost packet. A duplicate is another arrival with the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Sequence number.
    pub number: u64,
    /// Payload, in bytes.
    pub bytes: u32,
    /// Departure, by the sender's clock.
    pub sent_ns: Option<i64>,
    /// Arrival, by the receiver's clock; `None` if the packet was lost.
    pub received_ns: Option<i64>,
    /// One-way delay, if the difference of the clocks is known.
    pub delay_ns: Option<i64>,
}

/// Metrics of a set of packets; `None` if the records do not show a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketFigures {
    /// Count of numbers from the lowest to the highest of all records.
    pub numbers: u64,
    /// Distinct numbers that arrived.
    pub arrived: u64,
    /// Numbers that did not arrive.
    pub lost: u64,
    /// Lost numbers above the highest that arrived.
    pub lost_at_end: u64,
    /// Lengths of runs of lost numbers (RFC 3357's loss periods), each with its count of runs.
    pub loss_runs: Vec<(u64, u64)>,
    /// Repeated arrivals: all arrivals of a number but its first.
    pub duplicates: u64,
    /// Numbers that arrived more than once.
    pub duplicated: u64,
    /// Duplicates per distinct arrival, in percent (RFC 5560's duplication fraction).
    pub duplicate_percent: Option<f64>,
    /// Numbers that arrived more than once, per distinct arrival, in percent (RFC 5560's replicated
    /// packet rate).
    pub duplicated_percent: Option<f64>,
    /// Reordering by RFC 4737, without duplicates.
    pub reordering: Reordering,
    /// One-way delays.
    pub delay_ns: Option<Distribution>,
    /// Delays above the minimum delay (RFC 5481's PDV). They need no common clock.
    pub pdv_ns: Option<Distribution>,
    /// Largest delay above the minimum delay.
    pub peak_relative_delay_ns: Option<i64>,
    /// Differences of delay between successive numbers (RFC 3393, RFC 5481's IPDV).
    pub ipdv_ns: Option<Distribution>,
    /// Times between departures of successive numbers.
    pub send_gaps_ns: Option<Distribution>,
    /// Times between successive arrivals.
    pub arrival_gaps_ns: Option<Distribution>,
    /// The bottleneck; `None` if the packets did not fill a queue.
    pub bottleneck: Option<Bottleneck>,
}

/// Distribution of values. Each percentile is one of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Count of values.
    pub count: u64,
    /// Minimum.
    pub min: i64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: i64,
    /// 95th percentile.
    pub p95: i64,
    /// 99th percentile.
    pub p99: i64,
    /// 99.9th percentile.
    pub p999: i64,
    /// Maximum.
    pub max: i64,
}

/// A packet that arrived, with its time and its index among all arrivals.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at_ns: i64,
    index: usize,
    packet: Packet,
}

impl Packet {
    /// Returns the one-way delay if known. Otherwise returns the arrival time minus the send time,
    /// each by its own clock. It includes the unknown offset of the clocks, so only its changes from
    /// packet to packet are meaningful.
    pub fn relative_delay_ns(&self) -> Option<i64> {
        let difference = || Some(self.received_ns?.saturating_sub(self.sent_ns?));
        self.delay_ns.or_else(difference)
    }
}

impl PacketFigures {
    /// Computes the metrics of records in any order. Arrivals at the same time keep the order of
    /// the records. A number between the lowest and the highest counts as lost even without a
    /// record. Returns `None` without records.
    pub fn from_packets(packets: &[Packet]) -> Option<Self> {
        let lowest = packets.iter().map(|packet| packet.number).min()?;
        let highest = packets.iter().map(|packet| packet.number).max()?;
        let arrivals = arrivals(packets);
        let (by_number, duplicated) = by_number(&arrivals);
        let mut first_copies = by_number.clone();
        first_copies.sort_unstable_by_key(|arrival| arrival.index);
        let by_number: Vec<Packet> = by_number.iter().map(|arrival| arrival.packet).collect();
        let (loss_runs, lost_at_end) = loss_runs(&by_number, lowest, highest);
        let arrived = by_number.len() as u64;
        let duplicate_count = arrivals.len() as u64 - arrived;
        let percent = |part: u64| (arrived > 0).then(|| part as f64 / arrived as f64 * 100.0);
        let relative: Vec<i64> = (by_number.iter())
            .filter_map(Packet::relative_delay_ns)
            .collect();
        let least_ns = relative.iter().copied().min().unwrap_or_default();
        let pdv_ns =
            Distribution::from_values(relative.iter().map(|delay| delay.saturating_sub(least_ns)));
        Some(Self {
            numbers: (highest - lowest).saturating_add(1),
            arrived,
            lost: (highest - lowest).saturating_add(1) - arrived,
            lost_at_end,
            loss_runs,
            duplicates: duplicate_count,
            duplicated,
            duplicate_percent: percent(duplicate_count),
            duplicated_percent: percent(duplicated),
            reordering: Reordering::from_arrivals(&first_copies),
            delay_ns: Distribution::from_values(
                by_number.iter().filter_map(|packet| packet.delay_ns),
            ),
            pdv_ns,
            peak_relative_delay_ns: pdv_ns.map(|pdv| pdv.max),
            ipdv_ns: Distribution::from_values(differences(&by_number, Packet::relative_delay_ns)),
            send_gaps_ns: Distribution::from_values(differences(&by_number, |packet| {
                packet.sent_ns
            })),
            arrival_gaps_ns: Distribution::from_values(
                (arrivals.windows(2)).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns)),
            ),
            bottleneck: Bottleneck::from_arrivals(&first_copies, &by_number),
        })
    }
}

impl Distribution {
    /// Computes the distribution of values; `None` without values.
    pub fn from_values(values: impl Iterator<Item = i64>) -> Option<Self> {
        let mut sorted: Vec<i64> = values.collect();
        sorted.sort_unstable();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let sum: i128 = sorted.iter().copied().map(i128::from).sum();
        let percentile = |per_mille: usize| sorted[(count * per_mille).div_ceil(1000).max(1) - 1];
        Some(Self {
            count: count as u64,
            min,
            mean: sum as f64 / count as f64,
            p50: percentile(500),
            p95: percentile(950),
            p99: percentile(990),
            p999: percentile(999),
            max,
        })
    }
}

/// Returns the packets that arrived, ordered by time.
fn arrivals(packets: &[Packet]) -> Vec<Arrival> {
    let arrival = |packet: &Packet| {
        let at_ns = packet.received_ns?;
        Some(Arrival {
            at_ns,
            index: 0,
            packet: *packet,
        })
    };
    let mut arrivals: Vec<Arrival> = packets.iter().filter_map(arrival).collect();
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    for (index, arrival) in arrivals.iter_mut().enumerate() {
        arrival.index = index;
    }
    arrivals
}

/// Returns the first arrival of each number, ordered by number, and the count of numbers that
/// arrived more than once.
fn by_number(arrivals: &[Arrival]) -> (Vec<Arrival>, u64) {
    let mut sorted = arrivals.to_vec();
    sorted.sort_by_key(|arrival| arrival.packet.number);
    let copies = sorted.chunk_by(|a, b| a.packet.number == b.packet.number);
    let duplicated = copies.filter(|copies| copies.len() > 1).count() as u64;
    sorted.dedup_by_key(|arrival| arrival.packet.number);
    (sorted, duplicated)
}

/// Returns the lengths of the runs of missing numbers with their counts, and the length of the run
/// at the end.
fn loss_runs(by_number: &[Packet], lowest: u64, highest: u64) -> (Vec<(u64, u64)>, u64) {
    let mut runs = BTreeMap::new();
    let mut expected = lowest;
    let mut add = |missing: u64| {
        if missing > 0 {
            *runs.entry(missing).or_insert(0) += 1;
        }
        missing
    };
    for packet in by_number {
        add(packet.number - expected);
        expected = packet.number.saturating_add(1);
    }
    let at_end = add(highest.saturating_add(1) - expected);
    (runs.into_iter().collect(), at_end)
}

/// Returns the differences of a value between successive numbers that both arrived.
fn differences(
    by_number: &[Packet],
    value: impl Fn(&Packet) -> Option<i64>,
) -> impl Iterator<Item = i64> {
    let pairs = by_number.windows(2);
    let successive = pairs.filter(|pair| pair[1].number - pair[0].number == 1);
    successive.filter_map(move |pair| Some(value(&pair[1])?.saturating_sub(value(&pair[0])?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a packet that left at 100 µs times its number.
    fn packet(number: u64, received_us: Option<i64>) -> Packet {
        Packet {
            number,
            bytes: 200,
            sent_ns: Some(number as i64 * 100_000),
            received_ns: received_us.map(|us| us * 1000),
            delay_ns: None,
        }
    }

    /// Returns packets with numbers 3 and 4 lost, 6 and 7 swapped, 8 duplicated, and the last two
    /// of 12 lost.
    fn impaired() -> Vec<Packet> {
        let order = [
            (0, 1_000),
            (1, 1_100),
            (2, 1_250),
            (5, 1_500),
            (7, 1_700),
            (6, 1_710),
            (8, 1_800),
            (8, 1_805),
            (9, 1_900),
        ];
        let mut packets: Vec<Packet> = (order.iter())
            .map(|(number, us)| packet(*number, Some(*us)))
            .collect();
        packets.push(packet(10, None));
        packets.push(packet(11, None));
        packets
    }

    #[test]
    fn an_impaired_path_has_known_counts() {
        let figures = PacketFigures::from_packets(&impaired()).unwrap();
        assert_eq!((figures.numbers, figures.arrived, figures.lost), (12, 8, 4));
        assert_eq!(
            (&figures.loss_runs[..], figures.lost_at_end),
            (&[(2, 2)][..], 2)
        );
        assert_eq!((figures.duplicates, figures.duplicated), (1, 1));
        assert_eq!(figures.duplicate_percent, Some(12.5));
        assert_eq!(figures.reordering.reordered, 1);
        assert_eq!(figures.bottleneck, None);
    }

    #[test]
    fn delays_are_compared_by_number_and_gaps_by_arrival() {
        let figures = PacketFigures::from_packets(&impaired()).unwrap();
        assert_eq!(figures.delay_ns, None);
        let pdv = figures.pdv_ns.unwrap();
        assert_eq!((pdv.count, pdv.min, pdv.p50, pdv.max), (8, 0, 0, 110_000));
        assert_eq!(figures.peak_relative_delay_ns, Some(110_000));
        // 0-1, 1-2, 5-6, 6-7, 7-8, 8-9.
        let ipdv = figures.ipdv_ns.unwrap();
        assert_eq!((ipdv.count, ipdv.min, ipdv.max), (6, -110_000, 110_000));
        let gaps = figures.arrival_gaps_ns.unwrap();
        assert_eq!((gaps.count, gaps.min, gaps.max), (8, 5_000, 250_000));
        assert_eq!(
            figures.send_gaps_ns.unwrap().mean.to_bits(),
            100_000_f64.to_bits()
        );
        let mut fitted = impaired();
        for packet in &mut fitted {
            packet.delay_ns = packet.relative_delay_ns().map(|delay| delay - 1_500_000);
        }
        let fitted = PacketFigures::from_packets(&fitted).unwrap();
        assert_eq!(fitted.delay_ns.unwrap().min, -500_000);
        assert_eq!(
            (fitted.pdv_ns, fitted.ipdv_ns),
            (figures.pdv_ns, figures.ipdv_ns)
        );
    }

    /// The order of the records matters only for arrivals at the same time.
    #[test]
    fn the_order_of_records_does_not_matter() {
        let mut packets = impaired();
        packets.reverse();
        assert_eq!(
            PacketFigures::from_packets(&packets),
            PacketFigures::from_packets(&impaired())
        );
    }

    #[test]
    fn missing_records_have_no_figures() {
        assert_eq!(PacketFigures::from_packets(&[]), None);
        let lost = PacketFigures::from_packets(&[packet(u64::MAX, None), packet(7, None)]).unwrap();
        assert_eq!((lost.arrived, lost.lost_at_end), (0, u64::MAX - 7));
        assert_eq!((lost.duplicate_percent, lost.pdv_ns), (None, None));
        assert_eq!(
            (lost.reordering.percent, lost.arrival_gaps_ns),
            (None, None)
        );
        let all = [
            packet(0, Some(i64::MAX / 1000)),
            packet(u64::MAX, Some(i64::MIN / 1000)),
        ];
        PacketFigures::from_packets(&all).unwrap();
    }
}
