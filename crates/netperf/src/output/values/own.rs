use model::{Half, Paced, Side};
use stats::Summary;

use super::{fixed, int};
use crate::output::figures::{Figures, NONE};
use crate::selector::Own;

/// The text of a selector of our own; `None` where the run has no value for it.
pub(super) fn value(selector: Own, f: &Figures<'_>) -> Option<String> {
    let (here, there) = (Some(&f.run.outcome.here), f.run.outcome.there.as_ref());
    match selector {
        Own::LatencySamples => int(f.summary.map_or(-1, |times| times.count as i64)),
        Own::LocalPacingTarget => pacing_target(f.here()),
        Own::LocalPacingRate => pacing_rate(paced(here)),
        Own::LocalLateIntervals => late_intervals(paced(here)),
        Own::LocalMinGap => gap_us(paced(here), |gaps| gaps.min_ns as f64),
        Own::LocalMeanGap => gap_us(paced(here), |gaps| gaps.mean_ns),
        Own::LocalP50Gap => gap_us(paced(here), |gaps| gaps.p50_ns as f64),
        Own::LocalP99Gap => gap_us(paced(here), |gaps| gaps.p99_ns as f64),
        Own::LocalMaxGap => gap_us(paced(here), |gaps| gaps.max_ns as f64),
        Own::RemotePacingTarget => pacing_target(f.there()),
        Own::RemotePacingRate => pacing_rate(paced(there)),
        Own::RemoteLateIntervals => late_intervals(paced(there)),
        Own::RemoteMinGap => gap_us(paced(there), |gaps| gaps.min_ns as f64),
        Own::RemoteMeanGap => gap_us(paced(there), |gaps| gaps.mean_ns),
        Own::RemoteP50Gap => gap_us(paced(there), |gaps| gaps.p50_ns as f64),
        Own::RemoteP99Gap => gap_us(paced(there), |gaps| gaps.p99_ns as f64),
        Own::RemoteMaxGap => gap_us(paced(there), |gaps| gaps.max_ns as f64),
    }
}

fn paced(side: Option<&Side>) -> Option<&Paced> {
    side?.paced.as_ref()
}

/// Passes a second that were asked for.
fn pacing_target(half: &Half) -> Option<String> {
    fixed(3, half.pacing.map_or(NONE, |pacing| pacing.rate()))
}

/// Passes a second as they were.
fn pacing_rate(paced: Option<&Paced>) -> Option<String> {
    fixed(3, paced.and_then(Paced::rate).unwrap_or(NONE))
}

fn late_intervals(paced: Option<&Paced>) -> Option<String> {
    int(paced.map_or(-1, |paced| paced.late_intervals as i64))
}

/// Microseconds; −1.000 without any.
fn gap_us(paced: Option<&Paced>, figure: fn(&Summary) -> f64) -> Option<String> {
    let gaps = paced.and_then(|paced| paced.gaps.as_ref());
    fixed(3, gaps.map_or(NONE, |gaps| figure(gaps) / 1000.0))
}
