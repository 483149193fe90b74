//! Timeout that ends a receiver after the sender's last datagram was lost.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::{Counters, Stop, StopReason};

/// A sender has ended if nothing arrives from it for this time.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// A sender may end early by this fraction (1/N) of its time, plus one [`SILENCE_TIMEOUT`].
///
/// The second part is at most a quarter of its time.
const EARLY_END_DIVISOR: u32 = 10;

/// Sets `stop` if the sender of a flow of this duration sent until about its end and nothing after.
///
/// Returns whether it set `stop` before the sender side of `ended` was dropped.
///
/// The server sends the datagram that ends a reverse flow only once. Only silence shows its loss.
pub(super) fn stop_if_silent(
    ended: &Receiver<()>,
    counters: &Counters,
    time: Duration,
    stop: &Stop,
) -> bool {
    let started = Instant::now();
    let datagrams_at = |time: Duration| {
        let left = (started + time).saturating_duration_since(Instant::now());
        let is_running = ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout);
        is_running.then(|| counters.counts().receive_calls)
    };
    let earliest_end =
        time.saturating_sub(time / EARLY_END_DIVISOR + SILENCE_TIMEOUT.min(time / 4));
    let is_silent = || {
        let early = datagrams_at(earliest_end)?;
        let at_end = datagrams_at(time + SILENCE_TIMEOUT / 2)?;
        let later = datagrams_at(time + SILENCE_TIMEOUT / 2 + SILENCE_TIMEOUT)?;
        Some(early < at_end && at_end == later)
    };
    let is_silent = is_silent() == Some(true);
    if is_silent {
        stop.set(StopReason::Deadline);
    }
    is_silent
}
