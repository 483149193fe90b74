//! Rejects a responder's figures that cannot be.

use std::io;
use std::time::Duration;

use super::test::from_tenths;
use crate::result::StockCounts;
use crate::wire::{MessageBlock, ResponderDetails};

/// The maximum ratio of the responder's time to this host's. Stock calibrates its clock in a moment,
/// so it may be inaccurate.
const MAX_CLOCK_RATIO: u32 = 2;

/// Returns the counts of a test with `sent` datagrams, which `elapsed` ago had not begun.
pub(super) fn counts(
    statistics: &MessageBlock,
    sent: u64,
    elapsed: Duration,
) -> io::Result<StockCounts> {
    let counts = StockCounts {
        received: statistics.received.into(),
        lost: statistics.lost.into(),
        bad_order: statistics.bad_order.into(),
        elapsed: from_tenths(statistics.first_to_last),
    };
    let StockCounts {
        received,
        lost,
        bad_order,
        ..
    } = counts;
    // Each number up to the highest one is skipped, or raises the highest number when it arrives.
    let is_possible = bad_order <= received && received + lost <= sent + bad_order;
    check(is_possible, || {
        format!(
            "{received} received, {lost} skipped and {bad_order} late or repeated datagrams of {sent} sent"
        )
    })?;
    // A receive call takes longer than the unit of this time.
    let has_time = !counts.elapsed.is_zero() || received - bad_order <= 1;
    let is_within_test = counts.elapsed <= elapsed.saturating_mul(MAX_CLOCK_RATIO);
    check(
        statistics.first_to_last >= 0 && has_time && is_within_test,
        || {
            let us = statistics.first_to_last as f64 / 10.0;
            format!("{received} datagrams arrived within {us} us")
        },
    )?;
    Ok(counts)
}

/// Checks the exact figures of a linerate responder.
pub(super) fn check_details(details: &ResponderDetails, sent: u64) -> io::Result<()> {
    let ResponderDetails {
        received,
        lost,
        late,
        repeated,
        end,
        ..
    } = *details;
    let is_possible =
        end <= sent && received.checked_add(lost).is_some_and(|sum| sum <= end) && late <= received;
    check(is_possible, || {
        format!("{received} received, {lost} lost and {late} late datagrams of {sent} sent")
    })?;
    let datagrams = received
        .saturating_add(repeated)
        .saturating_add(details.invalid);
    let max_bytes = datagrams.saturating_mul(u16::MAX.into());
    check(details.bytes <= max_bytes, || {
        format!("{datagrams} datagrams had {} bytes", details.bytes)
    })?;
    check(details.gap_percentiles_ns.is_sorted(), || {
        format!(
            "percentiles of gaps are {:?} ns",
            details.gap_percentiles_ns
        )
    })
}

fn check(is_possible: bool, describe: impl FnOnce() -> String) -> io::Result<()> {
    if is_possible {
        return Ok(());
    }
    let figures = describe();
    Err(io::Error::other(format!(
        "the responder reported impossible figures: {figures}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let second = Duration::from_secs(1);
        for (received, lost, bad_order, first_to_last, is_possible) in [
            (10, 0, 0, 9000, true),
            (0, 0, 0, 0, true),
            (1, 0, 0, 0, true),
            // 3 and 4 dropped, 6 and 7 swapped, 8 repeated.
            (9, 3, 2, 9000, true),
            (13, 0, 3, 9000, true),
            (11, 0, 0, 9000, false),
            (10, 1, 0, 9000, false),
            (52_000, 0, 0, 9000, false),
            (1, 0, 2, 9000, false),
            (u32::MAX, u32::MAX, u32::MAX, 9000, false),
            (10, 0, 0, 0, false),
            (2, 0, 0, 0, false),
            (10, 0, 0, -1, false),
            (10, 0, 0, 10_000_000, true),
            (10, 0, 0, 30_000_000, false),
            (10, 0, 0, i64::MAX, false),
            (10, 0, 0, i64::MIN, false),
        ] {
            let statistics = MessageBlock {
                received,
                lost,
                bad_order,
                first_to_last,
                ..MessageBlock::default()
            };
            let result = counts(&statistics, 10, second);
            assert_eq!(result.is_ok(), is_possible, "{statistics:?}");
        }
    }

    #[test]
    fn exact_figures_that_cannot_be_are_refused() {
        let possible = ResponderDetails {
            received: 8,
            lost: 1,
            late: 1,
            repeated: 2,
            end: 9,
            bytes: 1000,
            ..ResponderDetails::default()
        };
        let check = |details: &ResponderDetails| check_details(details, 10).is_ok();
        assert!(check(&possible));
        let changes: [fn(&mut ResponderDetails); 7] = [
            |details| details.received = 9,
            |details| details.received = u64::MAX,
            |details| details.lost = u64::MAX,
            |details| details.late = 9,
            |details| details.end = 11,
            |details| details.bytes = 1_000_000,
            |details| details.gap_percentiles_ns = [3, 2, 1, 0, 0, 0, 0, 0],
        ];
        for change in changes {
            let mut details = possible;
            change(&mut details);
            assert!(!check(&details), "{details:?}");
        }
    }
}
