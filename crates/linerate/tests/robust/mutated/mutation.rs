//! Mutations of one message.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::THIRD;

/// Both protocols have their fields here or in 944-byte records; the rest of a netperf message is zeros.
const FIELDS: usize = 272;

/// Changes a message; `other` is a message of the same conversation. The result differs from the original.
pub(super) fn mutate(random: &mut SmallRng, message: &[u8], other: &[u8]) -> Vec<u8> {
    let mut mutated = message.to_vec();
    while mutated == message {
        for _ in 0..random.random_range(1..4) {
            change(random, &mut mutated, other);
        }
    }
    mutated
}

fn change(random: &mut SmallRng, bytes: &mut Vec<u8>, other: &[u8]) {
    let len = bytes.len();
    if len < 8 {
        bytes.extend_from_slice(other);
        return;
    }
    let place = place(random, len);
    match random.random_range(0..20) {
        0..=3 => bytes[place] ^= 1 << random.random_range(0..8),
        4..=11 => put(bytes, place / 4 * 4, &integer(random)),
        12..=13 => {
            let from = self::place(random, len) / 4 * 4;
            let word = bytes[from..(from + 4).min(len)].to_vec();
            put(bytes, place / 4 * 4, &word);
        }
        14..=15 => put(bytes, place / 4 * 4, &address(random)),
        16 => {
            let until = random.random_range(place..len);
            random.fill(&mut bytes[place..until]);
        }
        17 => bytes.truncate(place),
        18 => {
            let until = random.random_range(place..len);
            let again = bytes[place..until].to_vec();
            bytes.splice(place..place, again);
        }
        _ => bytes.extend_from_slice(other),
    }
}

fn place(random: &mut SmallRng, len: usize) -> usize {
    let end = if random.random_bool(0.7) {
        FIELDS.min(len)
    } else {
        len
    };
    random.random_range(0..end)
}

fn put(bytes: &mut [u8], at: usize, word: &[u8]) {
    for (byte, new) in bytes[at..].iter_mut().zip(word) {
        *byte = *new;
    }
}

/// A boundary of some range, as a word of four or eight bytes in either order.
fn integer(random: &mut SmallRng) -> Vec<u8> {
    let is_long = random.random_bool(0.2);
    let bits = if is_long { 64 } else { 32 };
    let power = 1_u64 << random.random_range(0..bits);
    let boundaries = [
        0,
        1,
        u64::MAX,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        power,
        power - 1,
        power.wrapping_add(1),
        power.wrapping_neg(),
        random.random_range(0..64),
    ];
    let number = *boundaries.choose(random).expect("there are some");
    let word = if is_long {
        number.to_be_bytes().to_vec()
    } else {
        (number as u32).to_be_bytes().to_vec()
    };
    if random.random() {
        return word.into_iter().rev().collect();
    }
    word
}

/// The third host, as the fields of either protocol can name it.
fn address(random: &mut SmallRng) -> Vec<u8> {
    let mut mapped = THIRD.to_ipv6_mapped().octets();
    match random.random_range(0..5) {
        0 => THIRD.octets().to_vec(),
        1 => THIRD.octets().into_iter().rev().collect(),
        2 => format!("{THIRD}\0").into_bytes(),
        3 => mapped.to_vec(),
        _ => {
            mapped.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            mapped.to_vec()
        }
    }
}
