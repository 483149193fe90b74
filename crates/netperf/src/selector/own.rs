//! The selectors that the stock tool has not got. They print when they are named, never with `all`.

use super::selectors;

selectors! {
    /// Selectors of our own, in the order in which `?` lists them.
    pub enum Own {
        LatencySamples = "LATENCY_SAMPLES" ["Latency", "Samples"],
        LocalPacingTarget = "LOCAL_PACING_TARGET" ["Local", "Pacing", "Target", "per sec"],
        LocalPacingRate = "LOCAL_PACING_RATE" ["Local", "Pacing", "Rate", "per sec"],
        LocalLateIntervals = "LOCAL_LATE_INTERVALS" ["Local", "Late", "Intervals"],
        LocalMinGap = "LOCAL_MIN_GAP" ["Local", "Minimum", "Gap", "Microseconds"],
        LocalMeanGap = "LOCAL_MEAN_GAP" ["Local", "Mean", "Gap", "Microseconds"],
        LocalP50Gap = "LOCAL_P50_GAP" ["Local", "50th Percentile", "Gap", "Microseconds"],
        LocalP99Gap = "LOCAL_P99_GAP" ["Local", "99th Percentile", "Gap", "Microseconds"],
        LocalMaxGap = "LOCAL_MAX_GAP" ["Local", "Maximum", "Gap", "Microseconds"],
        RemotePacingTarget = "REMOTE_PACING_TARGET" ["Remote", "Pacing", "Target", "per sec"],
        RemotePacingRate = "REMOTE_PACING_RATE" ["Remote", "Pacing", "Rate", "per sec"],
        RemoteLateIntervals = "REMOTE_LATE_INTERVALS" ["Remote", "Late", "Intervals"],
        RemoteMinGap = "REMOTE_MIN_GAP" ["Remote", "Minimum", "Gap", "Microseconds"],
        RemoteMeanGap = "REMOTE_MEAN_GAP" ["Remote", "Mean", "Gap", "Microseconds"],
        RemoteP50Gap = "REMOTE_P50_GAP" ["Remote", "50th Percentile", "Gap", "Microseconds"],
        RemoteP99Gap = "REMOTE_P99_GAP" ["Remote", "99th Percentile", "Gap", "Microseconds"],
        RemoteMaxGap = "REMOTE_MAX_GAP" ["Remote", "Maximum", "Gap", "Microseconds"],
    }
}
