//! An Outcome's histograms as lines of a histogram log.

use std::time::{Duration, SystemTime};

use stats::Histogram;
use stats::log::Interval;

use crate::Outcome;

impl Outcome {
    /// What was timed, as lines of a histogram log: the transactions, or the single calls of both ends.
    pub fn timed(&self) -> Vec<Interval> {
        let name = &self.plan.name;
        let (here, there) = (&self.here, self.there.as_ref());
        let times: [(&str, Option<&Histogram>); 5] = [
            ("", here.latency.as_ref()),
            (".send", here.send_times.as_ref()),
            (".recv", here.receive_times.as_ref()),
            (
                ".remote_send",
                there.and_then(|there| there.send_times.as_ref()),
            ),
            (
                ".remote_recv",
                there.and_then(|there| there.receive_times.as_ref()),
            ),
        ];
        let started = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        times
            .into_iter()
            .filter_map(|(what, times)| {
                Some(Interval {
                    tag: Some(format!("{name}{what}")),
                    started,
                    length: here.elapsed.unwrap_or(Duration::ZERO),
                    times: times?.clone(),
                })
            })
            .collect()
    }
}
