//! Optional work of a loop besides moving data: pacing, and use of the data. `()` does nothing and
//! costs nothing.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{EndpointPlan, PacingResult, Touch};
use stats::Histogram;
use sys::option;

use crate::pace::Pace;
use crate::stop::Stop;

/// Keeps a loop to its schedule, and uses the data as a program would.
///
/// The schedule sets the time at which each pass is due. A loop waits for that time at the start of
/// a pass, and records the pass afterwards. An interrupted call is therefore not recorded.
pub(crate) trait Hooks {
    /// Waits until the next pass is due. Returns whether it waited. A stop ends the wait, so the
    /// caller must check the stop before it calls this again.
    fn wait_if_early(&mut self, stop: &Stop) -> bool;
    /// Returns whether the next pass is due, without waiting.
    fn is_pass_due(&mut self) -> bool;
    /// Waits until the next pass is due or the socket is readable. Returns whether the socket is
    /// readable.
    fn wait_for_input_until_next_pass(&mut self, socket: BorrowedFd<'_>) -> bool;
    /// Returns the number of passes that are due and not recorded.
    fn passes_due(&self) -> u64;
    /// Records one pass.
    #[inline]
    fn record_paced_pass(&mut self) {
        self.record_paced_passes(1);
    }
    /// Records `count` passes.
    fn record_paced_passes(&mut self, count: usize);
    /// Handles the data that is sent next.
    fn before_send(&mut self, data: &mut [u8]);
    /// Handles received data.
    fn after_receive(&mut self, data: &mut [u8]);
    /// Handles a connection of a connection test that is closed next.
    fn before_close(&mut self, socket: BorrowedFd<'_>);
}

impl Hooks for () {
    #[inline]
    fn wait_if_early(&mut self, _: &Stop) -> bool {
        false
    }
    #[inline]
    fn is_pass_due(&mut self) -> bool {
        true
    }
    #[inline]
    fn wait_for_input_until_next_pass(&mut self, _: BorrowedFd<'_>) -> bool {
        true
    }
    #[inline]
    fn passes_due(&self) -> u64 {
        u64::MAX
    }
    #[inline]
    fn record_paced_passes(&mut self, _: usize) {}
    #[inline]
    fn before_send(&mut self, _: &mut [u8]) {}
    #[inline]
    fn after_receive(&mut self, _: &mut [u8]) {}
    #[inline]
    fn before_close(&mut self, _: BorrowedFd<'_>) {}
}

/// Hooks that an endpoint requests: a schedule, use of the data, a count of retransmissions.
pub(crate) struct OptionalHooks {
    pace: Option<Pace>,
    /// Whether any of the three sizes below is more than 0.
    touches: bool,
    send_dirty: usize,
    receive_dirty: usize,
    receive_clean: usize,
    /// Segments that the connections have retransmitted. `None` if they are not counted, or if the
    /// count of a connection is unavailable.
    retransmits: Option<u32>,
}

impl OptionalHooks {
    /// Returns the hooks that an endpoint requests; `None` if it requests none. `length` is the
    /// time after which the loop ends by itself, if known.
    pub(crate) fn for_endpoint(
        endpoint: &EndpointPlan,
        length: Option<Duration>,
        warm_up: Duration,
    ) -> Option<Self> {
        let is_requested = endpoint.pacing.is_some()
            || endpoint.touch.is_requested()
            || endpoint.count_retransmits;
        is_requested.then(|| Self::new(endpoint, length, warm_up))
    }

    /// Creates hooks even if the endpoint requests none. The results of the schedule exclude the
    /// warm-up.
    pub(crate) fn new(
        endpoint: &EndpointPlan,
        length: Option<Duration>,
        warm_up: Duration,
    ) -> Self {
        let Touch {
            send_dirty_bytes,
            receive_dirty_bytes,
            receive_clean_bytes,
        } = endpoint.touch;
        let bytes = |count: Option<u32>| count.unwrap_or(0) as usize;
        Self {
            pace: endpoint
                .pacing
                .as_ref()
                .map(|pacing| Pace::start(pacing, length).with_warm_up(warm_up)),
            touches: endpoint.touch.is_requested(),
            send_dirty: bytes(send_dirty_bytes),
            receive_dirty: bytes(receive_dirty_bytes),
            receive_clean: bytes(receive_clean_bytes),
            retransmits: endpoint.count_retransmits.then_some(0),
        }
    }

    /// Returns the segments that the connections of a connection test have retransmitted, if
    /// counted.
    pub(crate) fn retransmits(&self) -> Option<u32> {
        self.retransmits
    }

    /// Returns the results of the schedule after the loop has ended.
    pub(crate) fn finish(self) -> Option<(PacingResult, Histogram)> {
        self.pace.map(Pace::finish)
    }
}

impl Hooks for OptionalHooks {
    #[inline]
    fn wait_if_early(&mut self, stop: &Stop) -> bool {
        self.pace
            .as_mut()
            .is_some_and(|pace| pace.wait_if_early(stop))
    }

    #[inline]
    fn is_pass_due(&mut self) -> bool {
        self.pace.as_mut().is_none_or(Pace::is_pass_due)
    }

    fn wait_for_input_until_next_pass(&mut self, socket: BorrowedFd<'_>) -> bool {
        self.pace
            .as_mut()
            .is_none_or(|pace| pace.wait_for_input_until_next_pass(socket))
    }

    #[inline]
    fn passes_due(&self) -> u64 {
        self.pace.as_ref().map_or(u64::MAX, Pace::passes_due)
    }

    #[inline]
    fn record_paced_passes(&mut self, count: usize) {
        if let Some(pace) = &mut self.pace {
            pace.record_paced_passes(count as u64);
        }
    }

    #[inline]
    fn before_send(&mut self, data: &mut [u8]) {
        if !self.touches {
            return;
        }
        let dirty = self.send_dirty.min(data.len());
        modify(&mut data[..dirty]);
    }

    #[inline]
    fn after_receive(&mut self, data: &mut [u8]) {
        if !self.touches {
            return;
        }
        let dirty = self.receive_dirty.min(data.len());
        let clean = self.receive_clean.min(data.len() - dirty);
        modify(&mut data[..dirty]);
        read(&data[dirty..][..clean]);
    }

    fn before_close(&mut self, socket: BorrowedFd<'_>) {
        if let Some(before) = self.retransmits {
            let count = option::retransmits(socket).ok();
            self.retransmits = count.map(|count| before.saturating_add(count));
        }
    }
}

/// Increments every byte. The pattern remains, so the data is as compressible as before.
#[inline]
fn modify(data: &mut [u8]) {
    for byte in data {
        *byte = byte.wrapping_add(1);
    }
}

/// Reads every byte.
#[inline]
fn read(data: &[u8]) {
    let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    // Without a use of the sum, the compiler would remove the reads.
    std::hint::black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_touch_the_requested_bytes_of_a_buffer() {
        for (dirty, clean, expected) in [
            (None, None, [7, 7, 7, 7]),
            (Some(0), Some(4), [7, 7, 7, 7]),
            (Some(1), None, [8, 7, 7, 7]),
            (Some(3), Some(9), [8, 8, 8, 7]),
            (Some(u32::MAX), Some(u32::MAX), [8; 4]),
        ] {
            let endpoint = EndpointPlan {
                touch: Touch {
                    send_dirty_bytes: dirty,
                    receive_dirty_bytes: dirty,
                    receive_clean_bytes: clean,
                },
                ..EndpointPlan::default()
            };
            let (mut sent, mut received) = ([7; 4], [7; 4]);
            if let Some(mut hooks) = OptionalHooks::for_endpoint(&endpoint, None, Duration::ZERO) {
                hooks.before_send(&mut sent);
                hooks.after_receive(&mut received);
                hooks.after_receive(&mut []);
            }
            assert_eq!((sent, received), (expected, expected), "{dirty:?}");
        }
    }
}
