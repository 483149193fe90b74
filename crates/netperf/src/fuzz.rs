//! What the fuzz tests of the rooms share: words of peers that mean harm, or have left them as they
//! were.
//!
//! See `testkit::fuzz` for how many inputs each test gets, and how a failure is repeated.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
pub(crate) use testkit::fuzz::damaged;
use testkit::fuzz::{overwrite, word};

use crate::wire::{Frame, MESSAGE_LEN};

/// A message of one of these types that tells no error.
pub(crate) fn frame(rng: &mut SmallRng, kinds: &[i32]) -> Frame {
    let mut frame = [0; MESSAGE_LEN];
    for word in frame.chunks_exact_mut(4) {
        word.copy_from_slice(&self::word(rng));
    }
    overwrite(rng, &mut frame);
    if let Some(kind) = kinds.choose(rng) {
        frame[..4].copy_from_slice(&kind.to_be_bytes());
    }
    if rng.random_bool(0.95) {
        frame[4..8].fill(0);
    }
    frame
}

/// The message with a few changes beyond type and error, where the fields of every request are.
pub(crate) fn disturbed(rng: &mut SmallRng, mut frame: Frame) -> Frame {
    overwrite(rng, &mut frame[8..400]);
    frame
}
