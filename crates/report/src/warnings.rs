//! The warnings of all tests, each doubt once.

use model::{End, Warning};

use crate::Tested;
use crate::number::{significant, thousands};

/// A line a doubt, with the tests that it concerns and how large it was in them.
pub(crate) fn lines(tests: &[Tested]) -> Vec<String> {
    let mut doubts: Vec<Doubt> = Vec::new();
    for test in tests {
        for run in &test.runs {
            for warning in distinct(&run.warnings) {
                note(&mut doubts, &test.plan.name, warning);
            }
        }
        for warning in test.doubts() {
            note(&mut doubts, &test.plan.name, &warning);
        }
    }
    let measured = tests.iter().filter(|test| !test.runs.is_empty()).count();
    doubts.iter().map(|doubt| doubt.line(measured)).collect()
}

/// One doubt, in whatever tests it arose.
struct Doubt {
    text: String,
    unit: &'static str,
    /// The smallest and the largest figure, of a doubt that has one.
    range: Option<(f64, f64)>,
    tests: Vec<String>,
}

impl Doubt {
    fn line(&self, measured: usize) -> String {
        let tests = if measured > 1 && self.tests.len() == measured {
            "every test".to_owned()
        } else {
            self.tests.join(", ")
        };
        let unit = self.unit;
        match self.range {
            Some((low, high)) => {
                let (low, high) = (shown(low), shown(high));
                let range = if low == high {
                    low
                } else {
                    format!("{low}–{high}")
                };
                format!("{} ({range}{unit}: {tests})", self.text)
            }
            None if self.tests.len() == measured => self.text.clone(),
            None => format!("{} ({tests})", self.text),
        }
    }
}

/// Counts are whole.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 {
        thousands(value)
    } else {
        significant(value)
    }
}

fn note(doubts: &mut Vec<Doubt>, name: &str, warning: &Warning) {
    let (text, figure) = (warning.gist(), warning.figure());
    let range = figure.map(|(value, _)| (value, value));
    let Some(doubt) = doubts.iter_mut().find(|doubt| doubt.text == text) else {
        let unit = figure.map_or("", |(_, unit)| unit);
        doubts.push(Doubt {
            text,
            unit,
            range,
            tests: vec![name.to_owned()],
        });
        return;
    };
    if let (Some((low, high)), Some((value, _))) = (&mut doubt.range, figure) {
        *low = low.min(value);
        *high = high.max(value);
    }
    if doubt.tests.last().is_none_or(|last| last != name) {
        doubt.tests.push(name.to_owned());
    }
}

/// Where both ends are one host, what its CPUs did is said once.
fn distinct(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    let same_host = warnings.contains(&Warning::SameHost);
    warnings.iter().filter(move |warning| {
        let of_peer_cpu = matches!(
            warning,
            Warning::CpuSaturated {
                end: End::There,
                ..
            } | Warning::StealTime {
                end: End::There,
                ..
            }
        );
        !(same_host && of_peer_cpu)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_said_once_with_its_range_and_its_tests() {
        let busy = |end, busy_percent| Warning::CpuSaturated { end, busy_percent };
        let mut doubts = Vec::new();
        for (test, warnings) in [
            (
                "TCP_STREAM",
                vec![
                    Warning::SameHost,
                    busy(End::Here, 99.0),
                    busy(End::There, 99.0),
                ],
            ),
            ("TCP_RR", vec![Warning::SameHost, busy(End::Here, 96.0)]),
            (
                "UDP_RR",
                vec![Warning::SameHost, Warning::LateDatagrams { datagrams: 3 }],
            ),
        ] {
            distinct(&warnings).for_each(|warning| note(&mut doubts, test, warning));
        }
        let lines: Vec<String> = doubts.iter().map(|doubt| doubt.line(3)).collect();
        assert_eq!(
            lines,
            [
                "both ends run on one machine: each CPU figure contains both",
                "a CPU of this host had next to no idle time: it may be what was measured \
                 (96–99 % busy: TCP_STREAM, TCP_RR)",
                "datagrams came after the test's time and are not in the throughput (3: UDP_RR)",
            ]
        );
    }
}
