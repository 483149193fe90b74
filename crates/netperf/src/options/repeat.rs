//! `-i`, `-I` and `-r`: how often a test is run.

use getopt::{Exit, Quit, refuse};
use stats::confidence::{Goal, Level};

use super::Repeat;
use super::value::{set, word};

/// Iterations, whatever is asked for.
const LIMITS: std::ops::RangeInclusive<i32> = 3..=30;

/// What was typed of them.
#[derive(Clone, Debug)]
pub(super) struct RepeatWords {
    /// `-i`, or what `-I` implies; 1 is neither.
    max: u32,
    min: u32,
    /// `-I`, or what `-i` implies.
    level: Level,
    /// The interval's full width.
    width_percent: f64,
    /// `-r`.
    pub(super) throughput_only: bool,
}

impl Default for RepeatWords {
    fn default() -> Self {
        Self {
            max: 1,
            min: 1,
            level: Level::P99,
            width_percent: 5.0,
            throughput_only: false,
        }
    }
}

impl RepeatWords {
    /// `-i max,min`, where a lone value is both.
    pub(super) fn iterations(&mut self, text: &str) -> Result<(), Quit> {
        let (mut max, mut min) = (self.max as i32, self.min as i32);
        set([&mut max, &mut min], text, word)?;
        let within = |count: i32| count.clamp(*LIMITS.start(), *LIMITS.end()) as u32;
        self.min = within(min);
        self.max = within(max).max(self.min);
        Ok(())
    }

    /// `-I level,width`, where a lone value is both: `-I 99` asks for a width of 99 %.
    pub(super) fn confidence(&mut self, text: &str) -> Result<(), Quit> {
        let (level, width) = text.split_once(',').unwrap_or((text, text));
        if !level.is_empty() {
            self.level = units::netperf_size(level)
                .and_then(|level| Level::try_from(u8::try_from(level).ok()?).ok())
                .ok_or_else(unsupported)?;
        }
        if !width.is_empty() {
            self.width_percent = match width.parse::<f64>() {
                Ok(percent) if percent.is_finite() && percent >= 0.0 => percent,
                _ => return refuse(format!("'{width}' is not a width in percent")),
            };
        }
        if self.max == 1 {
            (self.max, self.min) = (10, 3);
        }
        Ok(())
    }

    /// What they come to; `None` where one iteration is all.
    pub(super) fn settled(&self) -> Option<Repeat> {
        (self.max > 1).then(|| Repeat {
            goal: Goal {
                level: self.level,
                width: self.width_percent / 100.0,
                min: self.min,
                max: self.max,
            },
            throughput_only: self.throughput_only,
        })
    }
}

/// The stock tool's words.
fn unsupported() -> Quit {
    let why = "Only 95% and 99% confidence level is supported\n";
    Quit::Exit(Exit::stdout(why, 255))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::netperf;

    #[test]
    fn what_is_typed_and_what_it_implies() {
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
            ("-I 95,", Some((95, 5.0, 3, 10))),
            ("-I ,2", Some((99, 2.0, 3, 10))),
            ("-i 20,5 -I 95,3", Some((95, 3.0, 5, 20))),
            ("-I 95,3 -i 20,5", Some((95, 3.0, 5, 20))),
            ("-I 95,3 -i 20,", Some((95, 3.0, 3, 20))),
            ("-I 95,3 -i ,5", Some((95, 3.0, 5, 10))),
        ] {
            let settings = netperf("netperf", words(line)).unwrap();
            let settled = settings.repeat.map(|Repeat { goal, .. }| {
                let percent = (goal.width * 1000.0).round() / 10.0;
                (goal.level.percent(), percent, goal.min, goal.max)
            });
            assert_eq!(settled, expected, "{line}");
        }
        let repeat = netperf("netperf", words("-r -i 3")).unwrap().repeat;
        assert!(repeat.unwrap().throughput_only);
    }

    #[test]
    fn what_is_refused() {
        for line in ["-I 98", "-I 98,5", "-I 0,5", "-I x", "-I 99.5,1"] {
            let exit = netperf("netperf", words(line)).unwrap_err();
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
            let exit = netperf("netperf", words(line)).unwrap_err();
            assert_eq!((exit.stdout.as_str(), exit.code), ("", 1), "{line}");
        }
    }

    fn words(line: &str) -> impl Iterator<Item = std::ffi::OsString> {
        line.split_whitespace().map(Into::into)
    }
}
