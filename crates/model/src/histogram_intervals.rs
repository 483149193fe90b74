//! Conversion of an Outcome's histograms to lines of a histogram log.

use std::time::{Duration, SystemTime};

use stats::Histogram;
use stats::log::LogInterval;

use crate::Outcome;

impl Outcome {
    /// Returns the recorded times as lines of a histogram log: transactions, or single calls of
    /// both ends.
    pub fn histogram_intervals(&self) -> Vec<LogInterval> {
        let name = &self.plan.name;
        let (local, remote) = (&self.local, self.remote.as_ref());
        let times: [(&str, Option<&Histogram>); 5] = [
            ("", local.latency.as_ref()),
            (".send", local.send_times.as_ref()),
            (".recv", local.receive_times.as_ref()),
            (
                ".remote_send",
                remote.and_then(|remote| remote.send_times.as_ref()),
            ),
            (
                ".remote_recv",
                remote.and_then(|remote| remote.receive_times.as_ref()),
            ),
        ];
        let started = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        times
            .into_iter()
            .filter_map(|(suffix, times)| {
                Some(LogInterval {
                    tag: Some(format!("{name}{suffix}")),
                    started,
                    length: local.elapsed.unwrap_or(Duration::ZERO),
                    times: times?.clone(),
                })
            })
            .collect()
    }
}
