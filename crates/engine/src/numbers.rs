//! Numbers and stamps of datagrams: written before each send, counted after each receive.

use std::os::fd::BorrowedFd;

use model::{DatagramFormat, StampClock};
use stats::Histogram;

use crate::counters::{DatagramCounter, DatagramWriter};
use crate::hooks::{Hooks, OptionalHooks};
use crate::stop::Stop;

/// Number of highest numbers that a receiver remembers. Datagrams with lower numbers remain counted
/// as lost, because they may be repeats.
pub(crate) const WINDOW: i64 = 1 << 16;

/// A number that is further ahead than this does not belong to the flow.
const MAX_AHEAD: i64 = 1 << 32;

/// A datagram that arrived before its flow's loop started.
#[derive(Clone, Debug)]
pub struct FirstDatagram {
    /// The payload.
    pub data: Box<[u8]>,
    /// The arrival time, by the monotonic clock.
    arrival_ns: u64,
}

impl FirstDatagram {
    /// Creates a datagram that arrives now.
    pub fn received_now(data: &[u8]) -> Self {
        Self {
            data: data.into(),
            arrival_ns: sys::clock::monotonic_ns(),
        }
    }

    /// Returns the time since its arrival.
    pub fn age(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(sys::clock::monotonic_ns().saturating_sub(self.arrival_ns))
    }

    /// Returns its arrival time by the clock of the format's stamps.
    pub(crate) fn arrival_ns(&self, format: DatagramFormat) -> u64 {
        let offset_ns = match format.stamp.map(|stamp| stamp.clock) {
            Some(StampClock::Wall) => sys::clock::wall_clock_offset_ns(),
            _ => 0,
        };
        self.arrival_ns.wrapping_add_signed(offset_ns)
    }
}

/// Receives the datagrams of a flow.
pub trait DatagramObserver: std::fmt::Debug {
    /// Receives a datagram and its arrival time by the clock of the stamps. The time is 0 without
    /// stamps.
    fn observe(&self, datagram: &[u8], now_ns: u64);
}

/// The hooks of a sender of numbered datagrams.
///
/// A number is used only if the kernel takes the datagram: a refused or interrupted send uses none.
pub(crate) struct Numbering {
    format: DatagramFormat,
    pub(crate) hooks: OptionalHooks,
    next_number: i64,
    /// Datagrams prepared for the next call.
    prepared: i64,
    /// Limit of `prepared`.
    max_per_call: u64,
}

impl Numbering {
    /// Limits each call to `max_per_call` datagrams, because two datagrams in the same buffer would
    /// have the same number.
    pub(crate) fn new(format: DatagramFormat, hooks: OptionalHooks, max_per_call: u64) -> Self {
        Self {
            next_number: format.first_number.into(),
            format,
            hooks,
            prepared: 0,
            max_per_call,
        }
    }
}

impl Hooks for Numbering {
    #[inline]
    fn wait_if_early(&mut self, stop: &Stop) -> bool {
        self.prepared = 0;
        self.hooks.wait_if_early(stop)
    }

    fn is_pass_due(&mut self) -> bool {
        self.hooks.is_pass_due()
    }

    fn wait_for_input_until_next_pass(&mut self, socket: BorrowedFd<'_>) -> bool {
        self.hooks.wait_for_input_until_next_pass(socket)
    }

    #[inline]
    fn passes_due(&self) -> u64 {
        self.hooks.passes_due().min(self.max_per_call)
    }

    /// Called for a send that the kernel refused. The number remains unused.
    fn record_paced_pass(&mut self) {
        self.hooks.record_paced_passes(1);
    }

    #[inline]
    fn record_paced_passes(&mut self, count: usize) {
        self.next_number += count as i64;
        self.hooks.record_paced_passes(count);
    }

    #[inline]
    fn before_send(&mut self, data: &mut [u8]) {
        self.hooks.before_send(data);
        self.format
            .write_number(data, self.next_number + self.prepared);
        self.prepared += 1;
        if self.format.stamp.is_some() {
            self.format.write_stamp(data, now_ns(self.format));
        }
    }

    fn after_receive(&mut self, _: &mut [u8]) {}

    fn before_close(&mut self, _: BorrowedFd<'_>) {}
}

/// Returns the current time by the clock of a format's stamps; 0 without stamps.
#[inline]
pub(crate) fn now_ns(format: DatagramFormat) -> u64 {
    match format.stamp.map(|stamp| stamp.clock) {
        Some(StampClock::Monotonic) => sys::clock::monotonic_ns(),
        Some(StampClock::Wall) => sys::clock::wall_ns(),
        None => 0,
    }
}

/// A datagram's number relative to the earlier numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalOrder {
    /// The next number.
    InOrder,
    /// Above all earlier numbers, but not the next one.
    Ahead {
        /// How many numbers are in between. None of them has arrived.
        passed_over: u64,
    },
    /// Below the highest number, and the first with its number.
    Late,
    /// A repeat of an earlier number.
    Repeated,
    /// So far below the highest that it may be a repeat.
    TooLate,
    /// Not part of the flow: the number is missing or impossible.
    Invalid,
}

/// Classifies the datagrams of one flow by their numbers.
///
/// A position is a number relative to the flow's first number, whose position is 1.
#[derive(Debug)]
pub(crate) struct Classifier<'a> {
    format: DatagramFormat,
    counts: DatagramWriter<'a>,
    /// One bit for each of the highest positions: set if the position has arrived.
    seen: Box<[u64]>,
    pub(crate) highest: i64,
    jitter_ns: f64,
    last_delay_ns: Option<i64>,
    /// Non-negative delays, if they are recorded.
    pub(crate) delays: Option<Histogram>,
}

impl<'a> Classifier<'a> {
    pub(crate) fn new(
        format: DatagramFormat,
        counts: DatagramWriter<'a>,
        records_delays: bool,
    ) -> Self {
        Self {
            format,
            counts,
            seen: vec![0; WINDOW as usize / 64].into(),
            highest: 0,
            jitter_ns: 0.0,
            last_delay_ns: None,
            delays: records_delays.then(Histogram::default),
        }
    }

    /// Counts a datagram that arrived at `now_ns`, and returns whether it marks the end. Ignores a
    /// datagram that is too short for a number or has an impossible number.
    #[inline]
    pub(crate) fn classify(&mut self, datagram: &[u8], now_ns: u64) -> bool {
        let before_first = i64::from(self.format.first_number) - 1;
        let Some(number) = self
            .format
            .read_number(datagram, self.highest + before_first)
        else {
            return false;
        };
        let is_end = self.format.ends_negative && number < 0;
        let number = if is_end {
            number.wrapping_neg()
        } else {
            number
        };
        if self.count(number.wrapping_sub(before_first)) == ArrivalOrder::Invalid {
            return false;
        }
        if let Some(sent_ns) = self.format.read_send_time_ns(datagram) {
            self.record_delay(now_ns.wrapping_sub(sent_ns) as i64);
        }
        is_end
    }

    /// Classifies a datagram that arrived before the loop, as [`Self::classify`] does.
    pub(crate) fn classify_first(&mut self, first: &FirstDatagram) -> bool {
        self.classify(&first.data, first.arrival_ns(self.format))
    }

    /// Counts a position and returns its order.
    #[inline]
    pub(crate) fn count(&mut self, position: i64) -> ArrivalOrder {
        if position == self.highest + 1 {
            self.advance(position);
            ArrivalOrder::InOrder
        } else if (1..=self.highest + MAX_AHEAD).contains(&position) {
            self.count_out_of_order(position)
        } else {
            ArrivalOrder::Invalid
        }
    }

    /// Counts a new highest position.
    #[inline]
    fn advance(&mut self, position: i64) {
        let (word, bit) = window_bit(position);
        self.seen[word] |= bit;
        self.highest = position;
        self.counts.set(DatagramCounter::Highest, position as u64);
        self.counts.add(DatagramCounter::Received, 1);
    }

    #[cold]
    fn count_out_of_order(&mut self, position: i64) -> ArrivalOrder {
        if position > self.highest {
            let skipped = position - self.highest - 1;
            self.clear_seen(self.highest.max(position - WINDOW) + 1, position);
            for counter in [
                DatagramCounter::Lost,
                DatagramCounter::PassedOver,
                DatagramCounter::Missing,
            ] {
                self.counts.add(counter, skipped as u64);
            }
            self.advance(position);
            return ArrivalOrder::Ahead {
                passed_over: skipped as u64,
            };
        }
        self.counts.add(DatagramCounter::OutOfOrder, 1);
        self.counts.subtract_one(DatagramCounter::Missing);
        if position <= self.highest - WINDOW {
            return ArrivalOrder::TooLate;
        }
        let (word, bit) = window_bit(position);
        if self.seen[word] & bit != 0 {
            self.counts.add(DatagramCounter::Duplicated, 1);
            return ArrivalOrder::Repeated;
        }
        self.seen[word] |= bit;
        self.counts.add(DatagramCounter::Received, 1);
        self.counts.add(DatagramCounter::Reordered, 1);
        self.counts.subtract_one(DatagramCounter::Lost);
        ArrivalOrder::Late
    }

    /// Clears the positions from `position` up to, but not including, `end`. It clears words of 64
    /// positions where it can, because the peer controls the length of the range.
    fn clear_seen(&mut self, mut position: i64, end: i64) {
        while position < end {
            let (word, bit) = window_bit(position);
            if bit == 1 && end - position >= 64 {
                self.seen[word] = 0;
                position += 64;
            } else {
                self.seen[word] &= !bit;
                position += 1;
            }
        }
    }

    /// Records a delay, and updates the jitter from the second delay on (RFC 3550, section 6.4.1).
    /// The difference between the two clocks cancels out.
    #[inline]
    pub(crate) fn record_delay(&mut self, delay_ns: i64) {
        if let Some(last_ns) = self.last_delay_ns {
            let difference_ns = delay_ns.wrapping_sub(last_ns).unsigned_abs() as f64;
            self.jitter_ns += (difference_ns - self.jitter_ns) / 16.0;
            self.counts
                .set(DatagramCounter::Jitter, self.jitter_ns as u64);
        }
        self.last_delay_ns = Some(delay_ns);
        self.counts.add_delay(delay_ns);
        if let (Some(delays), Ok(delay_ns)) = (&mut self.delays, u64::try_from(delay_ns)) {
            delays.record(delay_ns);
        }
    }
}

/// Returns the word and the bit of a position in the window.
#[inline]
fn window_bit(position: i64) -> (usize, u64) {
    let index = (position % WINDOW) as usize;
    (index / 64, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{ByteOrder, DatagramCounts, HighestNumberCounts, Stamp, StampUnit};

    use super::*;
    use crate::Counters;

    const FORMAT: DatagramFormat = DatagramFormat {
        number_offset: 0,
        high_word_offset: Some(12),
        first_number: 1,
        stamp: Some(Stamp {
            offset: 4,
            clock: StampClock::Monotonic,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: true,
        byte_order: ByteOrder::BigEndian,
    };

    /// Counts datagrams with these numbers; returns the counts and whether the last one marks the
    /// end.
    fn count_datagrams(format: DatagramFormat, numbers: &[i64]) -> (DatagramCounts, bool) {
        let counters = Counters::default();
        let mut classifier = Classifier::new(format, counters.datagram_writer(), false);
        let mut is_end = false;
        for (index, number) in numbers.iter().enumerate() {
            let mut datagram = [0; 20];
            format.write_number(&mut datagram, *number);
            let time_ns = 1_000 * index as u64;
            format.write_stamp(&mut datagram, time_ns);
            is_end = classifier.classify(&datagram, time_ns);
        }
        (counters.datagrams().unwrap(), is_end)
    }

    #[rustfmt::skip]
    #[test]
    fn each_count_has_its_own_definition() {
        // Numbers; received, lost, reordered, duplicated; highest, passed over, out of order,
        // missing.
        for (numbers, by_number, highest_number_counts) in [
            (&[1, 2, 3][..], [3, 0, 0, 0], [3, 0, 0, 0]),
            (&[1, 4, 5], [3, 2, 0, 0], [5, 2, 0, 2]),
            (&[1, 3, 2, 4], [4, 0, 1, 0], [4, 1, 1, 0]),
            // A repeat does not compensate for a loss, except in the counts by highest number.
            (&[1, 3, 3, 4], [3, 1, 0, 1], [4, 1, 1, 0]),
            (&[1, 1, 3], [2, 1, 0, 1], [3, 1, 1, 1]),
            (&[2, 1, 1], [2, 0, 1, 1], [2, 1, 2, 0]),
            // An impossible number, and the end after a loss.
            (&[1, 0, 1 << 40, 2, -4], [3, 1, 0, 0], [4, 1, 0, 1]),
            (&[1, WINDOW + 2, 2, 3], [3, (WINDOW - 1) as u64, 1, 0],
             [(WINDOW + 2) as u64, WINDOW as u64, 2, (WINDOW - 2) as u64]),
        ] {
            let (counts, is_end) = count_datagrams(FORMAT, numbers);
            let actual = [counts.received, counts.lost, counts.reordered, counts.duplicated];
            assert_eq!(actual, by_number, "{numbers:?}");
            let [highest, passed_over, out_of_order, missing] = highest_number_counts;
            let expected = HighestNumberCounts { highest, skipped: passed_over, out_of_order, missing };
            assert_eq!(counts.highest_number_counts, expected, "{numbers:?}");
            assert_eq!(counts.received + counts.lost, highest, "{numbers:?}");
            assert_eq!(is_end, numbers.last().is_some_and(|last| *last < 0));
            assert_eq!(counts.jitter, Some(Duration::ZERO));
        }
    }

    #[test]
    fn a_flow_may_be_longer_than_the_window() {
        let mut numbers: Vec<i64> = (1..=3 * WINDOW + 7).collect();
        numbers.retain(|number| number % 1000 != 0);
        let lost = 3 * WINDOW / 1000;
        // The last missing number arrives twice, and an earlier one is repeated.
        numbers.extend([lost * 1000, lost * 1000, 3 * WINDOW]);
        let (counts, _) = count_datagrams(FORMAT, &numbers);
        assert_eq!(
            (counts.lost, counts.reordered, counts.duplicated),
            (lost as u64 - 1, 1, 2)
        );
    }

    /// Each jump clears exactly the positions that it skips.
    #[test]
    fn late_datagrams_after_a_jump_of_any_length_are_not_repeats() {
        for jump in [
            2,
            63,
            64,
            65,
            66,
            129,
            1_000,
            WINDOW,
            WINDOW + 1,
            3 * WINDOW,
        ] {
            for before in [1, 62, 63, 64, 65] {
                // In a full window, a position that was not cleared would count as a repeat.
                let mut sent: Vec<i64> = (1..=WINDOW).collect();
                sent.extend(WINDOW + 1..WINDOW + 1 + before);
                let next = WINDOW + before + jump;
                sent.push(next);
                let skipped = (next - jump + 1).max(next - WINDOW + 1)..next;
                sent.extend(skipped.clone());
                let (counts, _) = count_datagrams(FORMAT, &sent);
                assert_eq!(counts.duplicated, 0, "{jump} after {before}");
                assert_eq!(
                    counts.reordered,
                    skipped.count() as u64,
                    "{jump} after {before}"
                );
            }
        }
    }

    #[test]
    fn a_flow_may_begin_with_0_and_have_numbers_of_32_bits() {
        let from_0 = DatagramFormat {
            first_number: 0,
            ends_negative: false,
            high_word_offset: None,
            ..FORMAT
        };
        let (counts, _) = count_datagrams(from_0, &[0, 1, 3]);
        assert_eq!(
            (
                counts.received,
                counts.lost,
                counts.highest_number_counts.highest
            ),
            (3, 1, 4)
        );
    }

    #[test]
    fn jitter_follows_rfc_3550_and_begins_with_the_first_delay() {
        let counters = Counters::default();
        let mut classifier = Classifier::new(FORMAT, counters.datagram_writer(), true);
        // The sum of four such delays exceeds 64 bits.
        let decades_ns = 3_000_000_000_000_000_000;
        let mut datagram = [0; 16];
        for (number, delay_us) in [(1, 0), (2, 160), (3, 160), (4, 0)] {
            FORMAT.write_number(&mut datagram, number);
            FORMAT.write_stamp(&mut datagram, 5_000_000_000);
            classifier.classify(&datagram, 5_000_000_000 + decades_ns + delay_us * 1_000);
        }
        // 160/16 = 10; 10 - 10/16 = 9.375; 9.375 + (160 - 9.375)/16.
        let counts = counters.datagrams().unwrap();
        assert_eq!(counts.jitter, Some(Duration::from_nanos(18_789)));
        let (mean_ns, deviation_ns) = counts.delays.mean_and_deviation_ns().unwrap();
        let mean_error_ns = mean_ns - (decades_ns + 80_000) as f64;
        assert!(mean_error_ns.abs() < 1_000.0, "{mean_ns}");
        assert!((deviation_ns - 80_000.0).abs() < 0.1, "{deviation_ns}");
        assert_eq!(classifier.delays.unwrap().len(), 4);
        let extremes_ns = Some((decades_ns as i64, decades_ns as i64 + 160_000));
        assert_eq!(counts.delays.extremes_ns, extremes_ns);
    }

    /// Datagrams of any length and content, including those of the flow.
    #[test]
    fn counts_remain_consistent_for_arbitrary_datagrams() {
        use rand::Rng;
        use testkit::fuzz;

        fuzz::run_one_in("flows of datagrams", 20, 1..=99, |rng| {
            let counters = Counters::default();
            let format = DatagramFormat {
                high_word_offset: rng.random_bool(0.5).then_some(12),
                first_number: rng.random_range(0..2),
                ..FORMAT
            };
            let mut classifier = Classifier::new(format, counters.datagram_writer(), true);
            let mut ends = 0;
            for position in 1..20_i64 {
                let mut datagram = vec![0; rng.random_range(0..40)];
                if datagram.len() >= 20 {
                    let number = match rng.random_range(0..4) {
                        0 => rng.random(),
                        1 => -position,
                        _ => position + rng.random_range(-3..3),
                    };
                    format.write_number(&mut datagram, number);
                }
                fuzz::overwrite_randomly(rng, &mut datagram);
                ends += u64::from(classifier.classify(&datagram, rng.random()));
            }
            let counts = counters.datagrams().unwrap_or_default();
            let by_highest = counts.highest_number_counts;
            assert!(counts.received <= 19, "{counts:?}");
            assert!(
                counts.lost <= by_highest.highest && by_highest.missing <= by_highest.highest,
                "{counts:?}"
            );
            assert!(
                by_highest.out_of_order <= 19 && by_highest.skipped <= by_highest.highest,
                "{counts:?}"
            );
            ends > 0
        });
    }
}
