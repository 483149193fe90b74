//! Lines that are printed while a profile runs.

use std::time::Duration;

use super::line::{self, SampleLine, Width, printable_line};
use crate::{StrandCount, Workorder};

/// Returns the first line, before the strands start; [`started`] completes it.
pub fn starting(profile: &Workorder) -> String {
    let count = |predicate: fn(&StrandCount) -> bool| -> u64 {
        let groups = profile.groups.iter().map(|group| group.strands);
        let matching = groups.filter(predicate);
        matching.map(|strands| u64::from(strands.count)).sum()
    };
    let (threads, processes) = (count(|s| s.threads), count(|s| s.processes));
    let strands = match (threads, processes) {
        (threads, 0) => format!("{threads} threads"),
        (0, processes) => format!("{processes} processes"),
        (threads, processes) => format!("{threads} threads, {processes} processes"),
    };
    let name = printable_line(&profile.name);
    format!("Starting {strands} running profile:{name} ... ")
}

/// Returns the end of the first line: the time until all strands have started.
pub fn started(elapsed: Duration) -> String {
    format!(" {:5.2} seconds\n", elapsed.as_secs_f64())
}

/// Returns a progress line. Without `-R`, it overwrites the previous line and has no line end.
pub fn progress(is_raw: bool, width: Width, sample: &SampleLine<'_>) -> String {
    if is_raw {
        line::raw(sample)
    } else {
        width.clear_line() + &line::summary(sample)
    }
}

/// Text after the last progress line of a transaction, with and without `-R`.
pub const PROGRESS_END: &str = "\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupSpec;

    #[test]
    fn the_first_line_counts_threads_and_processes() {
        let group = |count, threads, processes| GroupSpec {
            strands: StrandCount {
                count,
                threads,
                processes,
            },
            ..GroupSpec::default()
        };
        for (groups, strands) in [
            (vec![group(1, true, false)], "1 threads"),
            (vec![group(2, false, true)], "2 processes"),
            (
                vec![group(2, true, false), group(1, false, true)],
                "2 threads, 1 processes",
            ),
            // Both attributes in one group.
            (vec![group(3, true, true)], "3 threads, 3 processes"),
            (vec![], "0 threads"),
            (
                vec![group(u32::MAX, true, false), group(1, true, false)],
                "4294967296 threads",
            ),
        ] {
            let name = "ping\npong".to_owned();
            let line = starting(&Workorder { name, groups });
            let expected = format!("Starting {strands} running profile:ping pong ... ");
            assert_eq!(line, expected);
        }
        assert_eq!(started(Duration::from_millis(4)), "  0.00 seconds\n");
        assert_eq!(started(Duration::from_millis(123_456)), " 123.46 seconds\n");
    }
}
