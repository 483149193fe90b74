//! `-i`, `-I` and `-r`: the number of iterations of a test.

use getopt::{EarlyExit, Exit, refuse};
use stats::confidence::{ConfidenceGoal, ConfidenceLevel};

use super::Repeat;
use super::value::{int32, set_both};

/// The range of iterations. Other numbers are clamped to it.
const ITERATION_LIMITS: std::ops::RangeInclusive<i32> = 3..=30;

/// The options `-i`, `-I` and `-r`, as typed.
#[derive(Clone, Debug)]
pub(super) struct RepeatOptions {
    /// The maximum of `-i`, or the one that `-I` implies; 1 if neither was typed.
    max: u32,
    min: u32,
    /// The confidence level of `-I`, or the one that `-i` implies.
    level: ConfidenceLevel,
    /// The full width of the confidence interval, in percent of the mean.
    width_percent: f64,
    /// `-r`.
    pub(super) throughput_only: bool,
}

impl Default for RepeatOptions {
    fn default() -> Self {
        Self {
            max: 1,
            min: 1,
            level: ConfidenceLevel::P99,
            width_percent: 5.0,
            throughput_only: false,
        }
    }
}

impl RepeatOptions {
    /// Parses `-i max,min`. A lone value sets both.
    pub(super) fn set_iterations(&mut self, text: &str) -> Result<(), EarlyExit> {
        let (mut max, mut min) = (self.max as i32, self.min as i32);
        set_both([&mut max, &mut min], text, int32)?;
        let clamp =
            |count: i32| count.clamp(*ITERATION_LIMITS.start(), *ITERATION_LIMITS.end()) as u32;
        self.min = clamp(min);
        self.max = clamp(max).max(self.min);
        Ok(())
    }

    /// Parses `-I level,width`. A lone value sets both: `-I 99` requests a width of 99 %.
    pub(super) fn set_confidence(&mut self, text: &str) -> Result<(), EarlyExit> {
        let (level, width) = text.split_once(',').unwrap_or((text, text));
        if !level.is_empty() {
            self.level = units::parse_netperf_size(level)
                .and_then(|level| ConfidenceLevel::try_from(u8::try_from(level).ok()?).ok())
                .ok_or_else(unsupported_level)?;
        }
        if !width.is_empty() {
            // As in the stock tool, a unit may follow.
            let is_unit = |c: char| !c.is_ascii_digit() && c != '.';
            self.width_percent = match width.trim_end_matches(is_unit).parse::<f64>() {
                Ok(percent) if percent.is_finite() && percent >= 0.0 => percent,
                _ => return refuse(format!("'{width}' is not a width in percent")),
            };
        }
        if self.max == 1 {
            (self.max, self.min) = (10, 3);
        }
        Ok(())
    }

    /// Returns the iterations; `None` for a single one.
    pub(super) fn to_repeat(&self) -> Option<Repeat> {
        (self.max > 1).then(|| Repeat {
            goal: ConfidenceGoal {
                level: self.level,
                max_relative_width: self.width_percent / 100.0,
                min_samples: self.min,
                max_samples: self.max,
            },
            throughput_only: self.throughput_only,
        })
    }
}

/// Returns the stock tool's error for an unsupported confidence level.
fn unsupported_level() -> EarlyExit {
    let message = "Only 95% and 99% confidence level is supported\n";
    EarlyExit::Exit(Exit::stdout(message, 255))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse_netperf;

    #[test]
    fn each_option_implies_defaults_of_the_others() {
        for (line, expected) in [
            ("", None),
            ("-r", None),
            ("-i 5", Some((99, 5.0, 5, 5))),
            ("-i 10,3", Some((99, 5.0, 3, 10))),
            ("-i 40,2", Some((99, 5.0, 3, 30))),
            ("-i 40,35", Some((99, 5.0, 30, 30))),
            ("-i 1", Some((99, 5.0, 3, 3))),
            ("-i -7", Some((99, 5.0, 3, 3))),
            ("-i 4,8", Some((99, 5.0, 8, 8))),
            ("-i 8,", Some((99, 5.0, 3, 8))),
            ("-i ,8", Some((99, 5.0, 8, 8))),
            ("-I 95,3", Some((95, 3.0, 3, 10))),
            ("-I 95,0.5", Some((95, 0.5, 3, 10))),
            ("-I 99", Some((99, 99.0, 3, 10))),
            ("-I 95", Some((95, 95.0, 3, 10))),
            ("-I 95%", Some((95, 95.0, 3, 10))),
            ("-I 95%,2.5%", Some((95, 2.5, 3, 10))),
            ("-I +95,+3x", Some((95, 3.0, 3, 10))),
            ("-i 5x", Some((99, 5.0, 5, 5))),
            ("-I 95,", Some((95, 5.0, 3, 10))),
            ("-I ,2", Some((99, 2.0, 3, 10))),
            ("-i 20,5 -I 95,3", Some((95, 3.0, 5, 20))),
            ("-I 95,3 -i 20,5", Some((95, 3.0, 5, 20))),
            ("-I 95,3 -i 20,", Some((95, 3.0, 3, 20))),
            ("-I 95,3 -i ,5", Some((95, 3.0, 5, 10))),
        ] {
            let settings = parse_netperf("netperf", words(line)).unwrap();
            let repeat = settings.repeat.map(|Repeat { goal, .. }| {
                let percent = (goal.max_relative_width * 1000.0).round() / 10.0;
                (
                    goal.level.percent(),
                    percent,
                    goal.min_samples,
                    goal.max_samples,
                )
            });
            assert_eq!(repeat, expected, "{line}");
        }
        let repeat = parse_netperf("netperf", words("-r -i 3")).unwrap().repeat;
        assert!(repeat.unwrap().throughput_only);
    }

    #[test]
    fn invalid_values_are_refused() {
        for line in ["-I 98", "-I 98,5", "-I 0,5", "-I x", "-I 99.5,1"] {
            let exit = parse_netperf("netperf", words(line)).unwrap_err();
            let text = "Only 95% and 99% confidence level is supported\n";
            assert_eq!((exit.stdout.as_str(), exit.code), (text, 255), "{line}");
        }
        for line in [
            "-I 99,x",
            "-I 99,-1",
            "-I 99,nan",
            "-I 99,inf",
            "-i x",
            "-i 3,x",
            "-i",
        ] {
            let exit = parse_netperf("netperf", words(line)).unwrap_err();
            assert_eq!((exit.stdout.as_str(), exit.code), ("", 1), "{line}");
        }
    }

    fn words(line: &str) -> impl Iterator<Item = std::ffi::OsString> {
        line.split_whitespace().map(Into::into)
    }
}
