//! What is printed while a test runs: `-D`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Counts;

use super::figures::unit_in_force;
use crate::options::{Form, Settings, Test, Unit};

/// The lines of one run of the program, all its iterations together.
#[derive(Debug)]
pub(crate) struct Interim {
    layout: Layout,
    unit: Unit,
    /// How many results there were.
    results: u32,
}

#[derive(Debug)]
enum Layout {
    Sentence,
    Csv,
    KeyVal,
}

impl Interim {
    pub(crate) fn new(settings: &Settings) -> Self {
        let layout = match settings.print.form {
            Form::Table | Form::Total | Form::Human(_) => Layout::Sentence,
            Form::Csv(_) => Layout::Csv,
            Form::KeyVal(_) => Layout::KeyVal,
        };
        // Its connections carry nothing that would have a rate in bits; the stock tool makes a byte of
        // each.
        let unit = match settings.test {
            Test::TcpCc => Unit::TRANSACTIONS,
            _ => unit_in_force(settings),
        };
        Self {
            layout,
            unit,
            results: 0,
        }
    }

    /// What is counted in this unit: transactions, or bytes in both directions.
    pub(crate) fn work(&self, counts: &Counts) -> u64 {
        if self.unit == Unit::TRANSACTIONS {
            counts.transactions
        } else {
            (counts.sent + counts.received).0
        }
    }

    /// The next result, with its line ends: so much work in so much time, which ended then.
    pub(crate) fn result(&mut self, work: u64, elapsed: Duration, ended: SystemTime) -> String {
        let seconds = elapsed.as_secs_f64();
        let rate = self.unit.of(work as f64 / seconds);
        let unit = self.unit.name();
        let ended = ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ended = format!("{}.{:03}", ended.as_secs(), ended.subsec_millis());
        let n = self.results;
        self.results += 1;
        match self.layout {
            Layout::Sentence => format!(
                "Interim result: {rate:7.2} {unit}/s over {seconds:.3} seconds ending at {ended}\n"
            ),
            Layout::Csv => format!("{rate:7.2},{unit}/s,{seconds:.3},{ended}\n"),
            Layout::KeyVal => format!(
                "NETPERF_INTERIM_RESULT[{n}]={rate:.2}\nNETPERF_UNITS[{n}]={unit}/s\n\
                 NETPERF_INTERVAL[{n}]={seconds:.3}\nNETPERF_ENDING[{n}]={ended}\n"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    fn of(line: &str) -> Interim {
        let words = line.split_whitespace().map(Into::into);
        Interim::new(&crate::options::netperf("netperf", words).unwrap())
    }

    #[rustfmt::skip]
    #[test]
    fn layouts_are_stocks() {
        // The times and rates of a recorded run.
        let ended = UNIX_EPOCH + Duration::from_micros(1_795_253_781_542_999);
        for (line, bytes, ms, text) in [
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
            let mut interim = of(line);
            let counts = Counts {
                sent: Bytes(bytes),
                transactions: 5,
                ..Counts::default()
            };
            let work = interim.work(&counts);
            assert_eq!(
                interim.result(work, Duration::from_millis(ms), ended),
                text,
                "{line}"
            );
        }
    }

    #[test]
    fn keys_are_numbered_from_0() {
        let mut interim = of("-t TCP_RR -- -k THROUGHPUT");
        let ended = UNIX_EPOCH + Duration::from_millis(1_795_253_785_005);
        interim.result(1, Duration::from_secs(1), ended);
        assert_eq!(
            interim.result(21_356, Duration::from_millis(300), ended),
            "NETPERF_INTERIM_RESULT[1]=71186.67\nNETPERF_UNITS[1]=Trans/s\n\
             NETPERF_INTERVAL[1]=0.300\nNETPERF_ENDING[1]=1795253785.005\n"
        );
    }

    #[test]
    fn connections_are_counted_and_not_weighed() {
        let mut interim = of("-t TCP_CC");
        let counts = Counts {
            transactions: 500,
            ..Counts::default()
        };
        let work = interim.work(&counts);
        let line = interim.result(work, Duration::from_secs(1), UNIX_EPOCH);
        assert_eq!(
            line,
            "Interim result:  500.00 Trans/s over 1.000 seconds ending at 0.000\n"
        );
    }

    #[test]
    fn every_result_has_its_lines() {
        use rand::Rng;

        let forms = [
            ("", 1),
            ("-t TCP_RR -D 1 -f u", 1),
            ("-- -o THROUGHPUT", 1),
            ("-N -- -k THROUGHPUT -P ,9", 4),
        ];
        testkit::fuzz::each("interim results", 95..=100, |rng| {
            let (line, lines) = forms[rng.random_range(0..forms.len())];
            let mut interim = of(line);
            let elapsed = Duration::from_nanos(rng.random::<u64>() >> rng.random_range(0..64));
            let since = Duration::from_nanos(rng.random());
            let ended = if rng.random() {
                UNIX_EPOCH + since
            } else {
                UNIX_EPOCH - since
            };
            let text = interim.result(
                rng.random::<u64>() >> rng.random_range(0..64),
                elapsed,
                ended,
            );
            assert!(
                text.ends_with('\n') && text.lines().count() == lines,
                "{text:?}"
            );
            !elapsed.is_zero()
        });
    }
}
