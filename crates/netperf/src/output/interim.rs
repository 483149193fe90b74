//! What is printed while a test runs: `-D`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Counts;

use super::figures::unit_in_force;
use crate::options::{Form, Settings, Test, Unit};

/// The lines of one run of the program, all its iterations together.
#[derive(Debug)]
pub(crate) struct Interim {
    form: Form,
    unit: Unit,
    /// How many results there were.
    results: u32,
}

impl Interim {
    pub(crate) fn new(settings: &Settings) -> Self {
        // Its connections carry nothing that would have a rate in bits; the stock tool makes a byte of
        // each.
        let unit = match settings.test {
            Test::TcpCc => Unit::TRANSACTIONS,
            _ => unit_in_force(settings),
        };
        Self {
            form: settings.print.form.clone(),
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
        match self.form {
            Form::Table | Form::Total | Form::Human(_) => format!(
                "Interim result: {rate:7.2} {unit}/s over {seconds:.3} seconds ending at {ended}\n"
            ),
            Form::Csv(_) => format!("{rate:7.2},{unit}/s,{seconds:.3},{ended}\n"),
            Form::KeyVal(_) => format!(
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

    /// The result of an interval: its length in milliseconds, and the bytes sent or transactions made in it.
    fn result(interim: &mut Interim, work: u64, ms: u64, ended: Duration) -> String {
        let counts = Counts {
            sent: Bytes(work),
            transactions: work,
            ..Counts::default()
        };
        let work = interim.work(&counts);
        interim.result(work, Duration::from_millis(ms), UNIX_EPOCH + ended)
    }

    #[rustfmt::skip]
    #[test]
    fn layouts_are_stocks() {
        // The times and rates of a recorded run.
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
            assert_eq!(result(&mut of(line), work, ms, ended), text, "{line}");
        }
        // Connections are counted and not weighed.
        assert_eq!(
            result(&mut of("-t TCP_CC"), 500, 1_000, Duration::ZERO),
            "Interim result:  500.00 Trans/s over 1.000 seconds ending at 0.000\n"
        );
    }

    #[test]
    fn keys_are_numbered_from_0() {
        let mut interim = of("-t TCP_RR -- -k THROUGHPUT");
        let ended = Duration::from_millis(1_795_253_785_005);
        result(&mut interim, 1, 1000, ended);
        assert_eq!(
            result(&mut interim, 21_356, 300, ended),
            "NETPERF_INTERIM_RESULT[1]=71186.67\nNETPERF_UNITS[1]=Trans/s\n\
             NETPERF_INTERVAL[1]=0.300\nNETPERF_ENDING[1]=1795253785.005\n"
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
