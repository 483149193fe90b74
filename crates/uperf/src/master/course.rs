//! How a run went, moment by moment, for whoever plots it.

use std::time::Instant;

use model::{Counts, Sample, Series};

use crate::output::html::{Course, Moment};
use crate::output::transaction_name;

/// As many moments of a transaction are kept, at most: more than a plot can show.
const MOST: usize = 2000;

/// The transactions one after the other, as far as somebody has looked at them.
#[derive(Debug, Default)]
pub(super) struct Courses(Vec<(usize, Instant, Vec<Look>)>);

/// What a transaction had done at one moment.
type Look = (Instant, Counts);

impl Courses {
    /// The transaction of this number has begun.
    pub(super) fn begun(&mut self, number: usize, at: Instant) {
        self.0.push((number, at, Vec::new()));
    }

    /// So much it has done since.
    pub(super) fn moment(&mut self, at: Instant, done: &Counts) {
        let Some((_, _, looks)) = self.0.last_mut() else {
            return;
        };
        if looks.len() == MOST {
            thin(looks);
        }
        looks.push((at, *done));
    }

    /// All of it, by the time since then.
    pub(super) fn series(&self, run_begun: Instant) -> Vec<Series> {
        let sample = |begun: &Instant, (at, done): &Look| Sample {
            at: at.saturating_duration_since(*begun),
            sent: done.sent,
            received: done.received,
            operations: done.operations,
            ..Sample::default()
        };
        let series = self.0.iter().map(|(number, begun, looks)| Series {
            name: transaction_name(*number),
            begun: begun.saturating_duration_since(run_begun),
            samples: looks.iter().map(|look| sample(begun, look)).collect(),
        });
        series.collect()
    }

    /// All of it, by the time since then.
    pub(super) fn since(&self, run_begun: Instant) -> Vec<Course> {
        let since = |at: &Instant| at.saturating_duration_since(run_begun);
        let courses = self.0.iter().map(|(number, begun, looks)| Course {
            name: transaction_name(*number),
            begun: since(begun),
            moments: looks
                .iter()
                .map(|(at, done)| Moment {
                    at: since(at),
                    bytes: done.bytes(),
                    operations: done.operations,
                })
                .collect(),
        });
        courses.collect()
    }
}

/// Leaves out every second one. What is left is as true: each has all that came before it.
fn thin(looks: &mut Vec<Look>) {
    let mut is_kept = false;
    looks.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_long_run_has_its_beginning_and_its_end() {
        let run_begun = Instant::now();
        let mut courses = Courses::default();
        courses.begun(1, run_begun);
        for second in 0..3 * MOST as u64 {
            let done = Counts {
                operations: second,
                ..Counts::default()
            };
            courses.moment(run_begun + Duration::from_secs(second), &done);
        }
        let course = &courses.since(run_begun)[0];
        assert_eq!(course.name, "Txn1");
        let moments = &course.moments;
        assert!((MOST / 2..=MOST).contains(&moments.len()));
        assert_eq!(moments[0].at, Duration::ZERO);
        let (last, end) = (moments[moments.len() - 1], 3 * MOST as u64 - 1);
        assert_eq!((last.at.as_secs(), last.operations), (end, end));
        assert!(moments.is_sorted_by_key(|moment| moment.at));
    }
}
