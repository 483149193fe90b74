//! What a loop does beside moving data, or not: `()` is nothing, and costs nothing.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Half, Paced, Touch};
use stats::Histogram;
use sys::option;

use crate::pace::Pace;
use crate::stop::Stop;

/// Keeps a loop to its schedule, and uses the data as a program would.
///
/// A pass takes a turn of the schedule. A loop asks for it at the top of a pass, and says afterwards
/// that it was taken, so that an interrupted call costs none.
pub(crate) trait Hooks {
    /// Waits if the next turn is still to come. When it did, whoever asked looks at its stop again
    /// (which ends a wait) before it asks again.
    fn waited(&mut self, stop: &Stop) -> bool;
    /// Whether the next turn has come. Does not wait.
    fn is_my_turn(&mut self) -> bool;
    /// Waits until the next turn comes, or there is something to read from the socket; whether that
    /// is it.
    fn has_input_before_turn(&mut self, socket: BorrowedFd<'_>) -> bool;
    /// Turns that have come and are not taken.
    fn turns_left(&self) -> u64;
    /// The turn was taken.
    #[inline]
    fn took_turn(&mut self) {
        self.took_turns(1);
    }
    /// So many turns were taken.
    fn took_turns(&mut self, count: usize);
    /// This is sent next.
    fn before_send(&mut self, data: &mut [u8]);
    /// This was received.
    fn after_receive(&mut self, data: &mut [u8]);
    /// This connection, one of many, is closed next.
    fn before_close(&mut self, socket: BorrowedFd<'_>);
}

impl Hooks for () {
    #[inline]
    fn waited(&mut self, _: &Stop) -> bool {
        false
    }
    #[inline]
    fn is_my_turn(&mut self) -> bool {
        true
    }
    #[inline]
    fn has_input_before_turn(&mut self, _: BorrowedFd<'_>) -> bool {
        true
    }
    #[inline]
    fn turns_left(&self) -> u64 {
        u64::MAX
    }
    #[inline]
    fn took_turns(&mut self, _: usize) {}
    #[inline]
    fn before_send(&mut self, _: &mut [u8]) {}
    #[inline]
    fn after_receive(&mut self, _: &mut [u8]) {}
    #[inline]
    fn before_close(&mut self, _: BorrowedFd<'_>) {}
}

/// A schedule, use of the data, or both.
pub(crate) struct Extras {
    pace: Option<Pace>,
    /// Whether any of the following is more than 0.
    touches: bool,
    send_dirty: usize,
    receive_dirty: usize,
    receive_clean: usize,
    /// Segments that the connections have sent again; `None` when nobody wants to know, or one of them
    /// could not tell.
    retransmits: Option<u32>,
}

impl Extras {
    /// What a half asks for, of a loop that starts to work for so long, if it is known; `None` is
    /// nothing.
    pub(crate) fn of(half: &Half, length: Option<Duration>, warm_up: Duration) -> Option<Self> {
        let is_some = half.pacing.is_some() || half.touch.is_some() || half.count_retransmits;
        is_some.then(|| Self::new(half, length, warm_up))
    }

    /// The same, if need be with nothing to do. What became of the schedule leaves the warm-up out.
    pub(crate) fn new(half: &Half, length: Option<Duration>, warm_up: Duration) -> Self {
        let Touch {
            send_dirty_bytes,
            receive_dirty_bytes,
            receive_clean_bytes,
        } = half.touch;
        let bytes = |count: Option<u32>| count.unwrap_or(0) as usize;
        Self {
            pace: half
                .pacing
                .as_ref()
                .map(|pacing| Pace::start(pacing, length).warming_up(warm_up)),
            touches: half.touch.is_some(),
            send_dirty: bytes(send_dirty_bytes),
            receive_dirty: bytes(receive_dirty_bytes),
            receive_clean: bytes(receive_clean_bytes),
            retransmits: half.count_retransmits.then_some(0),
        }
    }

    /// What the connections of a connection test have sent again, if they were asked.
    pub(crate) fn retransmits(&self) -> Option<u32> {
        self.retransmits
    }

    /// What became of the schedule; the loop has ended.
    pub(crate) fn finish(self) -> Option<(Paced, Histogram)> {
        self.pace.map(Pace::finish)
    }
}

impl Hooks for Extras {
    #[inline]
    fn waited(&mut self, stop: &Stop) -> bool {
        self.pace.as_mut().is_some_and(|pace| pace.waited(stop))
    }

    #[inline]
    fn is_my_turn(&mut self) -> bool {
        self.pace.as_mut().is_none_or(Pace::is_my_turn)
    }

    fn has_input_before_turn(&mut self, socket: BorrowedFd<'_>) -> bool {
        self.pace
            .as_mut()
            .is_none_or(|pace| pace.has_input_before_turn(socket))
    }

    #[inline]
    fn turns_left(&self) -> u64 {
        self.pace.as_ref().map_or(u64::MAX, Pace::turns_left)
    }

    #[inline]
    fn took_turns(&mut self, count: usize) {
        if let Some(pace) = &mut self.pace {
            pace.took_turns(count as u64);
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

/// Every byte becomes another one. What a buffer was filled with still shows, so that it compresses
/// on its way as it would have.
#[inline]
fn modify(data: &mut [u8]) {
    for byte in data {
        *byte = byte.wrapping_add(1);
    }
}

/// Every byte is looked at.
#[inline]
fn read(data: &[u8]) {
    let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    // A sum that nobody wanted would not be computed.
    std::hint::black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_of_a_buffer_is_touched_as_was_asked_for_and_is_there() {
        for (dirty, clean, expected) in [
            (None, None, [7, 7, 7, 7]),
            (Some(0), Some(4), [7, 7, 7, 7]),
            (Some(1), None, [8, 7, 7, 7]),
            (Some(3), Some(9), [8, 8, 8, 7]),
            (Some(u32::MAX), Some(u32::MAX), [8; 4]),
        ] {
            let half = Half {
                touch: Touch {
                    send_dirty_bytes: dirty,
                    receive_dirty_bytes: dirty,
                    receive_clean_bytes: clean,
                },
                ..Half::default()
            };
            let (mut sent, mut received) = ([7; 4], [7; 4]);
            if let Some(mut extras) = Extras::of(&half, None, Duration::ZERO) {
                extras.before_send(&mut sent);
                extras.after_receive(&mut received);
                extras.after_receive(&mut []);
            }
            assert_eq!((sent, received), (expected, expected), "{dirty:?}");
        }
    }
}
