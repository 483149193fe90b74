//! Random and damaged messages for the fuzz tests.
//!
//! `testkit::fuzz` documents the number of inputs per test and how to repeat a failure.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
pub(crate) use testkit::fuzz::damage;
use testkit::fuzz::{overwrite_randomly, random_word};

use crate::wire::{Frame, MESSAGE_BYTES};

/// Returns a random message of one of these types, mostly without an error code.
pub(crate) fn random_frame(rng: &mut SmallRng, types: &[i32]) -> Frame {
    let mut frame = [0; MESSAGE_BYTES];
    for word in frame.chunks_exact_mut(4) {
        word.copy_from_slice(&random_word(rng));
    }
    overwrite_randomly(rng, &mut frame);
    if let Some(message_type) = types.choose(rng) {
        frame[..4].copy_from_slice(&message_type.to_be_bytes());
    }
    if rng.random_bool(0.95) {
        frame[4..8].fill(0);
    }
    frame
}

/// Overwrites a few bytes of a request after its type and CPU, where the fields are.
pub(crate) fn change_fields(rng: &mut SmallRng, mut frame: Frame) -> Frame {
    overwrite_randomly(rng, &mut frame[8..400]);
    frame
}
