//! Timeout that ends a receiver after the sender's last datagram was lost.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::{Counters, Stop, StopReason};

/// A sender has ended if nothing arrives from it for this time.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// A sender may end early: by its test time divided by this number, plus [`SILENCE_TIMEOUT`] or a
/// quarter of its test time, whichever is shorter.
const EARLY_END_DIVISOR: u32 = 10;

/// Sets `stop` if datagrams arrived until about the end of `time`, but none afterwards.
///
/// Returns whether it set `stop`. Returns at once when the other half of `flow_end` is dropped.
///
/// The server sends the datagram that ends a reverse flow only once. Only silence shows its loss.
pub(super) fn stop_if_silent(
    flow_end: &Receiver<()>,
    counters: &Counters,
    time: Duration,
    stop: &Stop,
) -> bool {
    let started = Instant::now();
    let datagrams_at = |time: Duration| {
        let remaining = (started + time).saturating_duration_since(Instant::now());
        let is_running = flow_end.recv_timeout(remaining) == Err(RecvTimeoutError::Timeout);
        is_running.then(|| counters.counts().receive_calls)
    };
    let earliest_end =
        time.saturating_sub(time / EARLY_END_DIVISOR + SILENCE_TIMEOUT.min(time / 4));
    let check_silence = || {
        let before_end = datagrams_at(earliest_end)?;
        let at_end = datagrams_at(time + SILENCE_TIMEOUT / 2)?;
        let after_silence = datagrams_at(time + SILENCE_TIMEOUT / 2 + SILENCE_TIMEOUT)?;
        Some(before_end < at_end && at_end == after_silence)
    };
    let is_silent = check_silence() == Some(true);
    if is_silent {
        stop.set(StopReason::Deadline);
    }
    is_silent
}
