//! Bottleneck of a path, estimated from packets that were sent faster than the bottleneck forwards
//! them.

use serde::{Deserialize, Serialize};

use super::{Arrival, Distribution, Packet};
use crate::clock::least_squares;

/// Estimate of the bottleneck link from a queue that fills. Rates and sizes count the payload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// Time per arrival while the queue was not empty.
    pub spacing_ns: f64,
    /// Mean payload of the arrivals, in bytes.
    pub packet_bytes: f64,
    /// Payload rate of the link.
    pub rate_bps: f64,
    /// Arrivals used for the spacing, which is the slope of their times.
    pub arrivals: u64,
    /// Payload in the full queue, from the first lost number k: k packets minus those that left the
    /// queue in the meantime. `None` if no packet was lost to a full queue, or if the records do
    /// not start at number 0.
    pub queue_bytes: Option<f64>,
    /// Delay of a full queue above the minimum delay: the median of the packets right before
    /// losses. Without losses it is the longest delay.
    pub queue_delay_ns: i64,
    /// Payload that the link forwards during `queue_delay_ns`.
    pub queue_bytes_by_delay: f64,
}

/// Number of windows into which the arrivals are divided.
const WINDOWS: usize = 32;

/// Minimum arrivals per window; smaller windows show the timer of a shaper instead of its rate.
const MIN_WINDOW_ARRIVALS: usize = 8;

/// The flat part is the longest run of windows with nearly the same spacing. It has at least
/// 1/4 of all windows; a smaller part may be chance.
const MIN_SHARE_DIVISOR: usize = 4;

/// Minimum ratio of arrival spacing to send spacing of packets that waited in a queue.
const MIN_SPACING_RATIO: f64 = 1.02;

/// Maximum relative difference between a spacing in the flat part and the most common spacing.
const MAX_FLAT_DEVIATION: f64 = 0.1;

/// Consecutive arrivals with their mean spacings.
struct Window {
    first: usize,
    arrival_spacing_ns: f64,
    send_spacing_ns: f64,
}

impl Bottleneck {
    /// Estimates the bottleneck from the first arrival of each number, ordered by time. Returns
    /// `None` if the arrivals are as far apart as the departures, or if departure times are
    /// missing.
    pub(super) fn from_arrivals(arrivals: &[Arrival], by_number: &[Packet]) -> Option<Self> {
        let delays = by_number.iter().filter_map(Packet::relative_delay_ns);
        let (min_delay_ns, max_delay_ns) = (delays.clone().min()?, delays.max()?);
        let window_arrivals = (arrivals.len() / WINDOWS).max(MIN_WINDOW_ARRIVALS);
        let window_count = arrivals.len().saturating_sub(1) / window_arrivals;
        let windows: Vec<Option<Window>> = (0..window_count)
            .map(|at| {
                queued_window(
                    &arrivals[at * window_arrivals..=(at + 1) * window_arrivals],
                    at * window_arrivals,
                    min_delay_ns,
                )
            })
            .collect();
        let spacings = windows
            .iter()
            .flatten()
            .map(|window| window.arrival_spacing_ns);
        let common_spacing_ns = half_sample_mode(spacings.collect())?;
        let is_flat = |window: &Option<Window>| {
            let window = window.as_ref();
            window.is_some_and(|window| {
                (window.arrival_spacing_ns / common_spacing_ns - 1.0).abs() <= MAX_FLAT_DEVIATION
            })
        };
        let flat = windows.chunk_by(|a, b| is_flat(a) && is_flat(b));
        let flat = flat.max_by_key(|run| (run.len(), is_flat(&run[0])))?;
        let (begin, end) = (flat[0].as_ref()?, flat[flat.len() - 1].as_ref()?);
        if flat.len() * MIN_SHARE_DIVISOR < window_count {
            return None;
        }
        let flat_arrivals = &arrivals[begin.first..=end.first + window_arrivals];
        let start_ns = flat_arrivals[0].at_ns;
        let time_ns = |arrival: &Arrival| arrival.at_ns.saturating_sub(start_ns) as f64;
        let points: Vec<(f64, f64)> = (flat_arrivals.iter().enumerate())
            .map(|(at, arrival)| (at as f64, time_ns(arrival)))
            .collect();
        let (spacing_ns, _) = least_squares(&points)?;
        let bytes: f64 = flat_arrivals
            .iter()
            .map(|arrival| f64::from(arrival.packet.bytes))
            .sum();
        let packet_bytes = bytes / flat_arrivals.len() as f64;
        let rate_bps = packet_bytes * 8e9 / spacing_ns;
        let send_spacing_ns = flat
            .iter()
            .flatten()
            .map(|window| window.send_spacing_ns)
            .sum::<f64>()
            / flat.len() as f64;
        let full_queue_delays =
            delays_before_losses(by_number).map(|delay| delay.saturating_sub(min_delay_ns));
        let queue_delay_ns = match Distribution::from_values(full_queue_delays) {
            Some(delays) => delays.p50,
            None => max_delay_ns.saturating_sub(min_delay_ns),
        };
        let half_full_delay_ns = min_delay_ns.saturating_add(queue_delay_ns / 2);
        Some(Self {
            spacing_ns,
            packet_bytes,
            rate_bps,
            arrivals: flat_arrivals.len() as u64,
            queue_bytes: first_queue_drop(by_number, half_full_delay_ns)
                .map(|number| number as f64 * packet_bytes * (1.0 - send_spacing_ns / spacing_ns)),
            queue_delay_ns,
            queue_bytes_by_delay: queue_delay_ns as f64 * rate_bps / 8e9,
        })
    }
}

/// Returns the mean spacings of consecutive arrivals; `None` if the packets arrived as fast as they
/// were sent, or if the queue was empty at some time.
fn queued_window(arrivals: &[Arrival], first: usize, min_delay_ns: i64) -> Option<Window> {
    let (begin, end) = (arrivals.first()?, arrivals.last()?);
    let numbers = end.packet.number.checked_sub(begin.packet.number)?;
    let sent = end.packet.sent_ns?.saturating_sub(begin.packet.sent_ns?);
    let arrived = end.at_ns.saturating_sub(begin.at_ns) as f64;
    let window = Window {
        first,
        arrival_spacing_ns: arrived / (arrivals.len() - 1) as f64,
        send_spacing_ns: sent as f64 / numbers as f64,
    };
    let delays = arrivals
        .iter()
        .map(|arrival| arrival.packet.relative_delay_ns());
    let waited = delays.flatten().min()?.saturating_sub(min_delay_ns) as f64;
    let is_slower = window.arrival_spacing_ns > window.send_spacing_ns * MIN_SPACING_RATIO;
    (is_slower && waited >= window.arrival_spacing_ns).then_some(window)
}

/// Returns the mode of continuous values. It repeatedly keeps the densest half and returns the
/// middle of the last one.
fn half_sample_mode(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let mut part = &values[..];
    while part.len() > 2 {
        let half = part.len().div_ceil(2);
        part = (part.windows(half))
            .min_by(|a, b| (a[half - 1] - a[0]).total_cmp(&(b[half - 1] - b[0])))?;
    }
    Some(f64::midpoint(*part.first()?, *part.last()?))
}

/// Returns the delay of each packet right before a missing number.
fn delays_before_losses(by_number: &[Packet]) -> impl Iterator<Item = i64> {
    let pairs = by_number.windows(2);
    let lossy = pairs.filter(|pair| pair[1].number - pair[0].number > 1);
    lossy.filter_map(|pair| pair[0].relative_delay_ns())
}

/// Returns the first missing number, if the delay before it is at least `threshold_ns`, which shows
/// that a queue was filling.
fn first_queue_drop(by_number: &[Packet], threshold_ns: i64) -> Option<u64> {
    let in_order = by_number.iter().zip(0_u64..);
    let in_order = in_order.take_while(|(packet, number)| packet.number == *number);
    let (last, number) = in_order.last()?;
    let is_last = number + 1 >= by_number.len() as u64;
    let is_dropped = !is_last && last.relative_delay_ns()? >= threshold_ns;
    is_dropped.then_some(number + 1)
}

#[cfg(test)]
mod tests {
    use crate::packets::{Packet, PacketFigures};

    /// A link with a queue of limited length that takes `spacing_ns` per packet; a token bucket
    /// passes the first packets.
    struct Link {
        spacing_ns: i64,
        queue: usize,
        tokens: usize,
        /// Period of a timer, which releases all packets due by then.
        timer_ns: i64,
    }

    const LINK: Link = Link {
        spacing_ns: 120_000,
        queue: 100,
        tokens: 0,
        timer_ns: 1,
    };

    impl Link {
        /// Returns the arrivals of packets sent `send_gap_ns` apart; the receiver's clock is 7 s
        /// ahead.
        fn forward(&self, count: u64, send_gap_ns: i64) -> Vec<Packet> {
            let mut departures: Vec<i64> = Vec::new();
            let mut free_at = 0;
            let mut packet = |number: u64| {
                let sent = number as i64 * send_gap_ns;
                let waiting = departures.iter().rev().take_while(|at| **at > sent).count();
                let is_lost = waiting > self.queue;
                if !is_lost {
                    let service = if departures.len() < self.tokens {
                        0
                    } else {
                        self.spacing_ns
                    };
                    free_at = sent.max(free_at) + service;
                    departures.push(free_at);
                }
                let released = (free_at + self.timer_ns - 1) / self.timer_ns * self.timer_ns;
                Packet {
                    number,
                    bytes: 1472,
                    sent_ns: Some(sent),
                    received_ns: (!is_lost).then_some(released + 7_000_000_000),
                    delay_ns: None,
                }
            };
            (0..count).map(&mut packet).collect()
        }
    }

    #[test]
    fn a_burst_shows_the_rate_and_the_queue() {
        let mut packets = LINK.forward(2000, 20_000);
        let figures = PacketFigures::from_packets(&packets).unwrap();
        let found = figures.bottleneck.unwrap();
        assert!((found.spacing_ns - 120_000.0).abs() < 1e-6, "{found:?}");
        assert!((found.rate_bps - 1472.0 * 8e9 / 120_000.0).abs() < 1.0);
        // A sender that stalls between the stamp and the send call.
        packets[1000].received_ns = packets[1000].received_ns.map(|at| at + 50_000_000);
        let stalled = PacketFigures::from_packets(&packets)
            .unwrap()
            .bottleneck
            .unwrap();
        assert_eq!(stalled.queue_delay_ns, found.queue_delay_ns);
        // A full queue of 100 packets, and the packet on the link.
        let peak_ns = figures.peak_relative_delay_ns.unwrap();
        assert!((peak_ns - 100 * 120_000).abs() <= 20_000, "{peak_ns}");
        for queue in [found.queue_bytes.unwrap(), found.queue_bytes_by_delay] {
            let packets = queue / 1472.0;
            assert!((packets - 100.0).abs() < 1.5, "{packets} packets");
        }
    }

    /// Random losses before the queue is full, or records that start later, do not make the queue
    /// look smaller.
    #[test]
    fn queue_bytes_need_a_loss_at_a_full_queue() {
        let mut early_loss = LINK.forward(2000, 20_000);
        early_loss[7].received_ns = None;
        let late_start = LINK.forward(2000, 20_000).split_off(5);
        for packets in [early_loss, late_start] {
            let found = PacketFigures::from_packets(&packets)
                .unwrap()
                .bottleneck
                .unwrap();
            assert_eq!(found.queue_bytes, None);
            assert!((found.queue_bytes_by_delay / 1472.0 - 100.0).abs() < 6.0);
        }
    }

    #[test]
    fn initial_tokens_and_a_coarse_timer_do_not_affect_the_spacing() {
        for (tokens, timer_ns, queue) in
            [(0, 500_000, 100), (300, 1, 100), (300, 70_000, 1_000_000)]
        {
            let link = Link {
                queue,
                tokens,
                timer_ns,
                ..LINK
            };
            let figures = PacketFigures::from_packets(&link.forward(2000, 50_000)).unwrap();
            let found = figures.bottleneck.unwrap();
            let error = found.spacing_ns / 120_000.0 - 1.0;
            assert!(error.abs() < 0.005, "{error}: {found:?}");
            assert_eq!(found.queue_bytes.is_some(), queue == 100);
        }
    }

    #[test]
    fn packets_that_did_not_queue_show_no_bottleneck() {
        for (count, gap_ns) in [(2000, 130_000), (2000, 120_000), (5, 20_000), (1, 1)] {
            let figures = PacketFigures::from_packets(&LINK.forward(count, gap_ns)).unwrap();
            assert_eq!(
                figures.bottleneck, None,
                "{count} packets {gap_ns} ns apart"
            );
        }
        // Random losses of packets that did not wait.
        let mut packets = LINK.forward(2000, 130_000);
        for packet in packets.iter_mut().step_by(9) {
            packet.received_ns = None;
        }
        let figures = PacketFigures::from_packets(&packets).unwrap();
        assert_eq!((figures.bottleneck, figures.lost), (None, 223));
        let mut packets = LINK.forward(2000, 20_000);
        for packet in &mut packets {
            packet.sent_ns = None;
        }
        let figures = PacketFigures::from_packets(&packets).unwrap();
        assert_eq!((figures.bottleneck, figures.pdv_ns), (None, None));
    }
}
