//! Reordering metrics of RFC 4737.

use serde::{Deserialize, Serialize};

use super::{Arrival, Distribution};

/// Reordering metrics. A packet is reordered if one with a higher number arrived before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reordering {
    /// Reordered packets.
    pub reordered: u64,
    /// Share of reordered packets among those that arrived, in percent.
    pub percent: Option<f64>,
    /// Distance in packets from the earliest arrival with a higher number to the reordered packet
    /// (section 4.2.1).
    pub extent: Option<MeanAndMax>,
    /// Time between these two arrivals (section 4.2.2).
    pub late_ns: Option<MeanAndMax>,
    /// Payload of higher numbers that arrived before the reordered packet, in bytes (section
    /// 4.2.3).
    pub late_bytes: Option<MeanAndMax>,
    /// Counts of `n`-reordered packets, starting with n = 1. At least `n` packets right before such
    /// a packet have higher numbers (section 5.4). TCP treats 3-reordered packets as lost.
    pub n_reordered: Vec<u64>,
}

/// Mean and maximum of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeanAndMax {
    /// Arithmetic mean.
    pub mean: f64,
    /// Maximum.
    pub max: i64,
}

/// Maximum number of entries in `n_reordered`.
const MAX_N: usize = 64;

impl Reordering {
    /// Computes the metrics of arrivals without duplicates, ordered by time.
    pub(super) fn from_arrivals(arrivals: &[Arrival]) -> Self {
        let numbers: Vec<u64> = arrivals
            .iter()
            .map(|arrival| arrival.packet.number)
            .collect();
        let highest: Vec<u64> = (numbers.iter())
            .scan(0, |highest, number| {
                *highest = *number.max(highest);
                Some(*highest)
            })
            .collect();
        let reordered: Vec<usize> = (0..numbers.len())
            .filter(|at| numbers[*at] < highest[*at])
            .collect();
        // Binary search: the running maximum first exceeds this number at the earliest arrival with
        // a higher number.
        let earliest_higher = |at: usize| highest.partition_point(|known| *known <= numbers[at]);
        let late_ns = |at: usize| {
            let earliest_ns = arrivals[earliest_higher(at)].at_ns;
            arrivals[at].at_ns.saturating_sub(earliest_ns)
        };
        let higher_bytes = higher_bytes(arrivals, &numbers);
        let count = reordered.len() as u64;
        Self {
            reordered: count,
            percent: (!numbers.is_empty()).then(|| count as f64 / numbers.len() as f64 * 100.0),
            extent: MeanAndMax::from_values(
                reordered
                    .iter()
                    .map(|at| (at - earliest_higher(*at)) as i64),
            ),
            late_ns: MeanAndMax::from_values(reordered.iter().map(|at| late_ns(*at))),
            late_bytes: MeanAndMax::from_values(reordered.iter().map(|at| higher_bytes[*at])),
            n_reordered: n_reordered(&numbers),
        }
    }
}

impl MeanAndMax {
    fn from_values(values: impl Iterator<Item = i64>) -> Option<Self> {
        let distribution = Distribution::from_values(values)?;
        Some(Self {
            mean: distribution.mean,
            max: distribution.max,
        })
    }
}

/// Returns for each arrival the payload of earlier arrivals with higher numbers, in bytes. It uses
/// a Fenwick tree of sums over the sorted numbers.
fn higher_bytes(arrivals: &[Arrival], numbers: &[u64]) -> Vec<i64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut tree = vec![0_i64; sorted.len() + 1];
    let mut earlier_bytes = 0;
    let mut bytes_of = |arrival: &Arrival| {
        let rank = sorted.partition_point(|number| *number < arrival.packet.number) + 1;
        let mut not_higher = 0;
        let mut at = rank;
        while at > 0 {
            not_higher += tree[at];
            at &= at - 1;
        }
        let higher = earlier_bytes - not_higher;
        let bytes = i64::from(arrival.packet.bytes);
        earlier_bytes += bytes;
        let mut at = rank;
        while at < tree.len() {
            tree[at] += bytes;
            at += at & at.wrapping_neg();
        }
        higher
    };
    arrivals.iter().map(&mut bytes_of).collect()
}

fn n_reordered(numbers: &[u64]) -> Vec<u64> {
    let mut counts: Vec<u64> = Vec::new();
    // Earlier arrivals with lower numbers than all arrivals after them, up to this one.
    let mut lower: Vec<usize> = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        while lower.last().is_some_and(|last| numbers[*last] > *number) {
            lower.pop();
        }
        let degree = lower.last().map_or(at, |last| at - last - 1).min(MAX_N);
        lower.push(at);
        counts.resize(counts.len().max(degree), 0);
        counts[..degree].iter_mut().for_each(|count| *count += 1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::Packet;

    fn reordering_of(numbers: &[u64]) -> Reordering {
        let arrival = |(at, number): (usize, &u64)| Arrival {
            at_ns: at as i64 * 10,
            index: at,
            packet: Packet {
                number: *number,
                bytes: 100 + *number as u32,
                ..Packet::default()
            },
        };
        Reordering::from_arrivals(&numbers.iter().enumerate().map(arrival).collect::<Vec<_>>())
    }

    #[test]
    fn packets_in_order_are_not_reordered() {
        let in_order = reordering_of(&[1, 2, 4, 9]);
        assert_eq!((in_order.reordered, in_order.percent), (0, Some(0.0)));
        assert_eq!((in_order.extent, in_order.n_reordered.len()), (None, 0));
        assert_eq!(reordering_of(&[]), Reordering::default());
    }

    /// The example of RFC 4737, section 7.1: packet 4 arrives after 5 to 8.
    #[test]
    fn a_late_packet_matches_the_rfcs_example() {
        let late = reordering_of(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
        assert_eq!((late.reordered, late.percent), (1, Some(10.0)));
        let only = |value| {
            Some(MeanAndMax {
                mean: value as f64,
                max: value,
            })
        };
        assert_eq!((late.extent, late.late_ns), (only(4), only(40)));
        assert_eq!(late.late_bytes, only(4 * 100 + 5 + 6 + 7 + 8));
        assert_eq!(late.n_reordered, [1, 1, 1, 1]);
    }

    /// Two late packets in a row. The packet right before the second has a lower number, so the
    /// second is not 1-reordered.
    #[test]
    fn a_late_group_and_a_reversed_order() {
        let group = reordering_of(&[1, 4, 5, 2, 3, 6]);
        assert_eq!(group.reordered, 2);
        assert_eq!(group.extent, Some(MeanAndMax { mean: 2.5, max: 3 }));
        assert_eq!(group.n_reordered, [1, 1]);
        let reversed = reordering_of(&[4, 3, 2, 1]);
        assert_eq!(
            (reversed.reordered, &reversed.n_reordered[..]),
            (3, &[3, 2, 1][..])
        );
        assert_eq!(reversed.late_bytes.unwrap().max, 300 + 4 + 3 + 2);
        assert_eq!(
            reordering_of(&(0..1000).rev().collect::<Vec<_>>())
                .n_reordered
                .len(),
            MAX_N
        );
    }
}
