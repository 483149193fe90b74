//! What the fuzz tests of the rooms share: words of peers that mean harm, or have left them as they
//! were.
//!
//! See `testkit::fuzz` for how many inputs each test gets, and how a failure is repeated.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use crate::wire::{Frame, MESSAGE_LEN};

/// A message of one of these types that tells no error.
pub(crate) fn frame(rng: &mut SmallRng, kinds: &[i32]) -> Frame {
    let mut frame = [0; MESSAGE_LEN];
    for word in frame.chunks_exact_mut(4) {
        word.copy_from_slice(&self::word(rng));
    }
    // A text somewhere, which may not end.
    if rng.random_bool(0.3) {
        let start = rng.random_range(0..MESSAGE_LEN);
        let length = rng.random_range(0..MESSAGE_LEN - start);
        rng.fill(&mut frame[start..start + length]);
    }
    if let Some(kind) = kinds.choose(rng) {
        frame[..4].copy_from_slice(&kind.to_be_bytes());
    }
    if rng.random_bool(0.95) {
        frame[4..8].fill(0);
    }
    frame
}

/// The message with a few of its words, beyond type and error, like those of [`frame`].
pub(crate) fn disturbed(rng: &mut SmallRng, mut frame: Frame) -> Frame {
    for _ in 0..rng.random_range(0..6) {
        // The words of every request are among the first hundred.
        let at = 4 * rng.random_range(2..100);
        frame[at..at + 4].copy_from_slice(&word(rng));
    }
    frame
}

fn word(rng: &mut SmallRng) -> [u8; 4] {
    const ENDS: [i32; 8] = [
        -1,
        1,
        i32::MAX,
        i32::MIN,
        65_535,
        65_536,
        // Not a number, and more than any.
        0x7fc0_0000,
        0x7f80_0000,
    ];
    match rng.random_range(0..8) {
        0..=2 => [0; 4],
        3..=4 => rng.random_range(-2..64_i32).to_be_bytes(),
        5 => ENDS.choose(rng).map_or([0; 4], |word| word.to_be_bytes()),
        6 => rng.random_range(0.0..1000.0_f32).to_be_bytes(),
        _ => rng.random(),
    }
}

/// The bytes with some of them changed, doubled or gone.
pub(crate) fn damaged(rng: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.random_range(0..6) {
        let at = rng.random_range(0..bytes.len().max(1)).min(bytes.len());
        match rng.random_range(0..4) {
            0 if at < bytes.len() => bytes[at] = rng.random(),
            // Where there was a digit there is another one: still a document, with other figures.
            1 => {
                if let Some(digit) = bytes[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                    *digit = rng.random_range(b'0'..=b'9');
                }
            }
            2 => {
                let end = (at + rng.random_range(0..40)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let end = (at + rng.random_range(0..8)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}
