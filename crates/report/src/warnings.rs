//! The warnings of all tests, with equal warnings merged.

use model::{End, Warning};

use crate::TestReport;
use crate::number::{format_significant, format_thousands};

/// Returns one line per distinct warning, with the affected tests and the range of its figure.
pub(crate) fn lines(tests: &[TestReport]) -> Vec<String> {
    let mut merged: Vec<MergedWarning> = Vec::new();
    for test in tests {
        for run in &test.runs {
            for warning in without_duplicate_cpu_warnings(&run.warnings) {
                merge(&mut merged, &test.plan.name, warning);
            }
        }
        for warning in test.warnings_about_runs() {
            merge(&mut merged, &test.plan.name, &warning);
        }
    }
    let measured_tests = tests.iter().filter(|test| !test.runs.is_empty()).count();
    merged
        .iter()
        .map(|warning| warning.line(measured_tests))
        .collect()
}

/// One warning, with all tests that have it.
struct MergedWarning {
    summary: String,
    unit: &'static str,
    /// The smallest and the largest figure, if the warning has one.
    range: Option<(f64, f64)>,
    tests: Vec<String>,
}

impl MergedWarning {
    fn line(&self, measured_tests: usize) -> String {
        let tests = if measured_tests > 1 && self.tests.len() == measured_tests {
            "every test".to_owned()
        } else {
            self.tests.join(", ")
        };
        let unit = self.unit;
        match self.range {
            Some((low, high)) => {
                // Integers keep all digits. Both ends of the range have the same format.
                let format = if low.fract() == 0.0 && high.fract() == 0.0 {
                    format_thousands
                } else {
                    format_significant
                };
                let (low, high) = (format(low), format(high));
                let range = if low == high {
                    low
                } else {
                    format!("{low}–{high}")
                };
                format!("{} ({range}{unit}: {tests})", self.summary)
            }
            None if self.tests.len() == measured_tests => self.summary.clone(),
            None => format!("{} ({tests})", self.summary),
        }
    }
}

fn merge(merged: &mut Vec<MergedWarning>, test_name: &str, warning: &Warning) {
    let (text, figure) = (warning.summary(), warning.figure());
    let range = figure.map(|(value, _)| (value, value));
    let Some(merged_warning) = merged
        .iter_mut()
        .find(|candidate| candidate.summary == text)
    else {
        let unit = figure.map_or("", |(_, unit)| unit);
        merged.push(MergedWarning {
            summary: text,
            unit,
            range,
            tests: vec![test_name.to_owned()],
        });
        return;
    };
    if let (Some((low, high)), Some((value, _))) = (&mut merged_warning.range, figure) {
        *low = low.min(value);
        *high = high.max(value);
    }
    if merged_warning
        .tests
        .last()
        .is_none_or(|last| last != test_name)
    {
        merged_warning.tests.push(test_name.to_owned());
    }
}

/// Drops the warnings about CPUs of the peer if both ends run on the same host.
fn without_duplicate_cpu_warnings(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    let same_host = warnings.contains(&Warning::SameHost);
    warnings.iter().filter(move |warning| {
        let is_about_peer_cpu = matches!(
            warning,
            Warning::CpuSaturated {
                end: End::Remote,
                ..
            } | Warning::StealTime {
                end: End::Remote,
                ..
            }
        );
        !(same_host && is_about_peer_cpu)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_warnings_are_merged_with_their_range_and_tests() {
        let busy = |end, busy_percent| Warning::CpuSaturated { end, busy_percent };
        let mut merged = Vec::new();
        for (test, warnings) in [
            (
                "TCP_STREAM",
                vec![
                    Warning::SameHost,
                    busy(End::Local, 99.0),
                    busy(End::Remote, 99.0),
                ],
            ),
            ("TCP_RR", vec![Warning::SameHost, busy(End::Local, 96.0)]),
            (
                "UDP_RR",
                vec![Warning::SameHost, Warning::LateDatagrams { datagrams: 3 }],
            ),
        ] {
            without_duplicate_cpu_warnings(&warnings)
                .for_each(|warning| merge(&mut merged, test, warning));
        }
        let lines: Vec<String> = merged.iter().map(|warning| warning.line(3)).collect();
        assert_eq!(
            lines,
            [
                "both ends run on one machine: each CPU figure contains both",
                "a CPU of this host was almost never idle; it may have limited the result \
                 (96–99 % busy: TCP_STREAM, TCP_RR)",
                "datagrams arrived after the test's time; the throughput does not include them (3: UDP_RR)",
            ]
        );
    }
}
