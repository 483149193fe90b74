//! Interim results, printed while a test runs (`-D`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Counts;

use super::figures::effective_unit;
use crate::options::{OutputForm, Settings, Test, ThroughputUnit};

/// Formats the interim results of all iterations of one run of the program.
#[derive(Debug)]
pub(crate) struct InterimFormatter {
    form: OutputForm,
    unit: ThroughputUnit,
    /// The number of formatted results.
    result_count: u32,
}

impl InterimFormatter {
    pub(crate) fn new(settings: &Settings) -> Self {
        // TCP_CC transfers no data, so it has no rate in bits. The stock tool counts each
        // connection as one byte.
        let unit = match settings.test {
            Test::TcpCc => ThroughputUnit::TRANSACTIONS,
            _ => effective_unit(settings),
        };
        Self {
            form: settings.print.form.clone(),
            unit,
            result_count: 0,
        }
    }

    /// Returns the work that the unit counts: transactions, or bytes in both directions.
    pub(crate) fn count_work(&self, counts: &Counts) -> u64 {
        if self.unit == ThroughputUnit::TRANSACTIONS {
            counts.transactions
        } else {
            (counts.sent + counts.received).0
        }
    }

    /// Formats the next result, with its line ends: `work` in `elapsed`, which ended at `ended`.
    pub(crate) fn format_next(
        &mut self,
        work: u64,
        elapsed: Duration,
        ended: SystemTime,
    ) -> String {
        let seconds = elapsed.as_secs_f64();
        let rate = self.unit.scale(work as f64 / seconds);
        let unit = self.unit.name();
        let ended = ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ended = format!("{}.{:03}", ended.as_secs(), ended.subsec_millis());
        let index = self.result_count;
        self.result_count += 1;
        match self.form {
            OutputForm::Table | OutputForm::Total | OutputForm::Human(_) => format!(
                "Interim result: {rate:7.2} {unit}/s over {seconds:.3} seconds ending at {ended}\n"
            ),
            OutputForm::Csv(_) => format!("{rate:7.2},{unit}/s,{seconds:.3},{ended}\n"),
            OutputForm::KeyVal(_) => format!(
                "NETPERF_INTERIM_RESULT[{index}]={rate:.2}\nNETPERF_UNITS[{index}]={unit}/s\n\
                 NETPERF_INTERVAL[{index}]={seconds:.3}\nNETPERF_ENDING[{index}]={ended}\n"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    fn formatter_for(line: &str) -> InterimFormatter {
        let words = line.split_whitespace().map(Into::into);
        InterimFormatter::new(&crate::options::parse_netperf("netperf", words).unwrap())
    }

    /// Formats the result of an interval of `ms` milliseconds. `work` is its bytes sent or its
    /// transactions.
    fn format_interval(
        formatter: &mut InterimFormatter,
        work: u64,
        ms: u64,
        ended: Duration,
    ) -> String {
        let counts = Counts {
            sent: Bytes(work),
            transactions: work,
            ..Counts::default()
        };
        let work = formatter.count_work(&counts);
        formatter.format_next(work, Duration::from_millis(ms), UNIX_EPOCH + ended)
    }

    #[rustfmt::skip]
    #[test]
    fn layouts_match_the_stock_tool() {
        // Times and rates are those of a recorded run.
        let ended = Duration::from_micros(1_795_253_781_542_999);
        for (line, work, ms, text) in [
            (
                "",
                855_437_430,
                382,
                "Interim result: 17914.92 10^6bits/s over 0.382 seconds ending at 1795253781.542\n",
            ),
            (
                "-t TCP_RR -f m",
                42_375,
                300,
                "Interim result:    1.13 10^6bits/s over 0.300 seconds ending at 1795253781.542\n",
            ),
            (
                "-- -O THROUGHPUT",
                125_000,
                1_000,
                "Interim result:    1.00 10^6bits/s over 1.000 seconds ending at 1795253781.542\n",
            ),
            ("-- -o THROUGHPUT", 611_604_000, 336, "14562.00,10^6bits/s,0.336,1795253781.542\n"),
        ] {
            assert_eq!(format_interval(&mut formatter_for(line), work, ms, ended), text, "{line}");
        }
        // Connections are counted, not converted to bits.
        assert_eq!(
            format_interval(&mut formatter_for("-t TCP_CC"), 500, 1_000, Duration::ZERO),
            "Interim result:  500.00 Trans/s over 1.000 seconds ending at 0.000\n"
        );
    }

    #[test]
    fn keys_are_numbered_from_0() {
        let mut interim = formatter_for("-t TCP_RR -- -k THROUGHPUT");
        let ended = Duration::from_millis(1_795_253_785_005);
        format_interval(&mut interim, 1, 1000, ended);
        assert_eq!(
            format_interval(&mut interim, 21_356, 300, ended),
            "NETPERF_INTERIM_RESULT[1]=71186.67\nNETPERF_UNITS[1]=Trans/s\n\
             NETPERF_INTERVAL[1]=0.300\nNETPERF_ENDING[1]=1795253785.005\n"
        );
    }

    #[test]
    fn each_form_has_its_number_of_lines() {
        use rand::Rng;

        let forms = [
            ("", 1),
            ("-t TCP_RR -D 1 -f u", 1),
            ("-- -o THROUGHPUT", 1),
            ("-N -- -k THROUGHPUT -P ,9", 4),
        ];
        testkit::fuzz::run_inputs("interim results", 95..=100, |rng| {
            let (line, line_count) = forms[rng.random_range(0..forms.len())];
            let mut interim = formatter_for(line);
            let elapsed = Duration::from_nanos(rng.random::<u64>() >> rng.random_range(0..64));
            let offset = Duration::from_nanos(rng.random());
            let ended = if rng.random() {
                UNIX_EPOCH + offset
            } else {
                UNIX_EPOCH - offset
            };
            let text = interim.format_next(
                rng.random::<u64>() >> rng.random_range(0..64),
                elapsed,
                ended,
            );
            assert!(
                text.ends_with('\n') && text.lines().count() == line_count,
                "{text:?}"
            );
            !elapsed.is_zero()
        });
    }
}
