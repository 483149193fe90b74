//! What is printed while a profile runs.

use std::time::Duration;

use super::line::{self, Sample, Width, printable};
use crate::{Strands, Workorder};

/// The first line, before the strands are there; [`started`] is its end.
pub fn starting(profile: &Workorder) -> String {
    let count = |is_meant: fn(&Strands) -> bool| -> u64 {
        let groups = profile.groups.iter().map(|group| group.strands);
        let meant = groups.filter(is_meant);
        meant.map(|strands| u64::from(strands.count)).sum()
    };
    let (threads, processes) = (count(|s| s.threads), count(|s| s.processes));
    let strands = match (threads, processes) {
        (threads, 0) => format!("{threads} threads"),
        (0, processes) => format!("{processes} processes"),
        (threads, processes) => format!("{threads} threads, {processes} processes"),
    };
    let name = printable(&profile.name);
    format!("Starting {strands} running profile:{name} ... ")
}

/// The end of the first line: all strands are there, after so long.
pub fn started(elapsed: Duration) -> String {
    format!(" {:5.2} seconds\n", elapsed.as_secs_f64())
}

/// How far a transaction is. For people it takes the place of the line before and has no end.
pub fn progress(is_raw: bool, width: Width, sample: &Sample<'_>) -> String {
    if is_raw {
        line::raw(sample)
    } else {
        width.wiped() + &line::summary(sample)
    }
}

/// What follows the last line of a transaction, in both forms.
pub const PROGRESS_END: &str = "\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Group;

    #[test]
    fn who_is_started() {
        let group = |count, threads, processes| Group {
            strands: Strands {
                count,
                threads,
                processes,
            },
            ..Group::default()
        };
        for (groups, strands) in [
            (vec![group(1, true, false)], "1 threads"),
            (vec![group(2, false, true)], "2 processes"),
            (
                vec![group(2, true, false), group(1, false, true)],
                "2 threads, 1 processes",
            ),
            // Both words in one group.
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
