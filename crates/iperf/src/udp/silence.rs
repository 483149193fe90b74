//! The end of a receiver whose sender's last datagram was lost.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::{Counters, Reason, Stop};

/// How long nothing arrives from a sender that has ended.
const SILENCE: Duration = Duration::from_secs(1);

/// A sender may end before its time by this part of it, or by one [`SILENCE`] more, but not by half of its time.
const EARLY: u32 = 10;

/// Pulls `stop` if the sender of a flow of this time has sent until about its end, and has been silent since then.
/// Returns whether it did so before `ended` hung up.
///
/// The server sends the datagram that ends a reverse flow once. Only silence shows that it was lost.
pub(super) fn ends(ended: &Receiver<()>, counters: &Counters, time: Duration, stop: &Stop) -> bool {
    let started = Instant::now();
    let datagrams_at = |time: Duration| {
        let left = (started + time).saturating_duration_since(Instant::now());
        let is_running = ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout);
        is_running.then(|| counters.counts().receive_calls)
    };
    let early = time.saturating_sub(time / EARLY + SILENCE.min(time / 4));
    let is_silent = || {
        let early = datagrams_at(early)?;
        let at_end = datagrams_at(time + SILENCE / 2)?;
        let later = datagrams_at(time + SILENCE / 2 + SILENCE)?;
        Some(early < at_end && at_end == later)
    };
    let is_silent = is_silent() == Some(true);
    if is_silent {
        stop.pull(Reason::Deadline);
    }
    is_silent
}
