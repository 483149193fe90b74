//! The histogram at verbosity 2, which stock builds with histograms print. Each decade has ten
//! columns, or more with `--histogram-buckets`.

use stats::Histogram;

use crate::options::{OutputForm, Settings, Test};
use crate::result::FinishedTest;

/// The names of the eight decades, which begin at 1 µs. The first decade also has the times below
/// 1 µs, in its first tenth. That tenth is empty in the other decades.
const DECADES: [&str; 8] = [
    "UNIT_USEC",
    "TEN_USEC",
    "HUNDRED_USEC",
    "UNIT_MSEC",
    "TEN_MSEC",
    "HUNDRED_MSEC",
    "UNIT_SEC",
    "TEN_SEC",
];

/// Formats one block with a title for each kind of recorded times. As in the stock tool, titles
/// differ between tests in words, dots and empty lines.
pub(super) fn format_blocks(settings: &Settings, run: &FinishedTest) -> String {
    let (local, test) = (&run.outcome.local, settings.test);
    let transactions = match test {
        Test::UdpRr => "\nHistogram of request/reponse times.\n",
        _ => "\nHistogram of request/response times\n",
    };
    let sends = match test {
        Test::UdpStream => "\nHistogram of time spent in send() call\n",
        _ => "\n\nHistogram of time spent in send() call.\n",
    };
    let receives = "\n\nHistogram of time spent in recv() call.\n";
    let subject = match settings.direction {
        direction if !direction.connection => "request/response",
        direction if direction.transmit => "connect/request/response/close",
        _ => "connect/close",
    };
    [
        (&local.latency, transactions, subject),
        (&local.send_times, sends, "send"),
        (&local.receive_times, receives, "recv"),
    ]
    .into_iter()
    .filter_map(|(times, table_title, subject)| {
        let title = match settings.print.form {
            OutputForm::Table => table_title.to_owned(),
            _ => format!("\nHistogram of {subject} times\n"),
        };
        Some(title + &format_block(times.as_ref()?, settings.print.histogram_buckets))
    })
    .collect()
}

fn format_block(times: &Histogram, columns: u32) -> String {
    let mut decades = vec![vec![0_u64; columns as usize]; DECADES.len()];
    let mut over_100_s = 0;
    let (min, max) = times.extremes().unwrap_or_default();
    let (min, max) = (min.as_nanos() as u64, max.as_nanos() as u64);
    for (low, high, count) in times.buckets() {
        // The clamp keeps percentiles computed from the block within the measured range.
        let middle = (low + (high - low) / 2).clamp(min, max);
        match column_of(middle, columns) {
            Some((decade, column)) => decades[decade][column] += u64::from(count),
            None => over_100_s += u64::from(count),
        }
    }
    let mut lines: Vec<_> = DECADES
        .iter()
        .zip(decades)
        .map(|(name, counts)| {
            let counts: Vec<String> = counts.iter().map(|count| format!("{count:>4}")).collect();
            format!("{name:<14}: {}", counts.join(": "))
        })
        .collect();
    lines.push(format!(">100_SECS: {over_100_s}"));
    lines.push(format!("HIST_TOTAL:      {}\n", times.len()));
    lines.join("\n")
}

/// Returns the decade and the column of a time, with `columns` columns per decade. Returns `None`
/// from 100 s on.
fn column_of(time_ns: u64, columns: u32) -> Option<(usize, usize)> {
    let mut end = 10_000;
    for decade in 0..DECADES.len() {
        if time_ns < end {
            let column = u128::from(time_ns) * u128::from(columns) / u128::from(end);
            return Some((decade, column as usize));
        }
        end *= 10;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_first_decade_that_holds_them() {
        for (time_ns, ten_columns, thousand_columns) in [
            (0, Some((0, 0)), Some((0, 0))),
            (999, Some((0, 0)), Some((0, 99))),
            (9_999, Some((0, 9)), Some((0, 999))),
            (10_000, Some((1, 1)), Some((1, 100))),
            (12_345, Some((1, 1)), Some((1, 123))),
            (1_000_000, Some((3, 1)), Some((3, 100))),
            (99_999_999_999, Some((7, 9)), Some((7, 999))),
            (100_000_000_000, None, None),
            (u64::MAX, None, None),
        ] {
            assert_eq!(column_of(time_ns, 10), ten_columns, "{time_ns}");
            assert_eq!(column_of(time_ns, 1000), thousand_columns, "{time_ns}");
        }
    }

    #[test]
    fn the_block_has_the_stock_layout() {
        let mut times = Histogram::default();
        for micros in [45, 46, 47, 48, 55, 65, 75, 550, 850, 7500] {
            times.record(micros * 1000);
        }
        assert_eq!(
            format_block(&times, 10),
            "\
UNIT_USEC     :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
TEN_USEC      :    0:    0:    0:    0:    4:    1:    1:    1:    0:    0
HUNDRED_USEC  :    0:    0:    0:    0:    0:    1:    0:    0:    1:    0
UNIT_MSEC     :    0:    0:    0:    0:    0:    0:    0:    1:    0:    0
TEN_MSEC      :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
HUNDRED_MSEC  :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
UNIT_SEC      :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
TEN_SEC       :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
>100_SECS: 0
HIST_TOTAL:      10
"
        );
    }

    /// The columns of a finer block add up to those of a coarser block.
    #[test]
    fn finer_buckets_have_the_same_counts() {
        let mut times = Histogram::default();
        (0..5_000_u64).for_each(|n| times.record(n * n * 37));
        let rows = |columns: u32| -> Vec<Vec<u64>> {
            let block = format_block(&times, columns);
            let rows = block.lines().take(DECADES.len());
            rows.map(|row| {
                let fields = row.split(':').skip(1);
                fields.map(|field| field.trim().parse().unwrap()).collect()
            })
            .collect()
        };
        let (coarse, fine) = (rows(10), rows(1000));
        for (coarse, fine) in coarse.iter().zip(&fine) {
            assert_eq!((coarse.len(), fine.len()), (10, 1000));
            let sums: Vec<u64> = fine.chunks(100).map(|part| part.iter().sum()).collect();
            assert_eq!(*coarse, sums);
        }
    }
}
