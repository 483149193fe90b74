//! Mutations of one message.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::THIRD_HOST;

/// Length of the first part of a message, which has the fields of both protocols. The rest of a
/// netperf message is zero. The rest of a uperf message contains 944-byte records.
const FIELDS_LEN: usize = 272;

/// Returns a changed message, never equal to the original. `inserted` is a message of the same
/// conversation.
pub(super) fn mutate(random: &mut SmallRng, message: &[u8], inserted: &[u8]) -> Vec<u8> {
    let mut mutated = message.to_vec();
    while mutated == message {
        for _ in 0..random.random_range(1..4) {
            change(random, &mut mutated, inserted);
        }
    }
    mutated
}

fn change(random: &mut SmallRng, bytes: &mut Vec<u8>, inserted: &[u8]) {
    let len = bytes.len();
    if len < 8 {
        bytes.extend_from_slice(inserted);
        return;
    }
    let offset = choose_offset(random, len);
    match random.random_range(0..20) {
        0..=3 => bytes[offset] ^= 1 << random.random_range(0..8),
        4..=11 => overwrite(bytes, offset / 4 * 4, &boundary_integer(random)),
        12..=13 => {
            let from = choose_offset(random, len) / 4 * 4;
            let word = bytes[from..(from + 4).min(len)].to_vec();
            overwrite(bytes, offset / 4 * 4, &word);
        }
        14..=15 => overwrite(bytes, offset / 4 * 4, &third_host_address(random)),
        16 => {
            let end = random.random_range(offset..len);
            random.fill(&mut bytes[offset..end]);
        }
        17 => bytes.truncate(offset),
        18 => {
            let end = random.random_range(offset..len);
            let repeated = bytes[offset..end].to_vec();
            bytes.splice(offset..offset, repeated);
        }
        _ => bytes.extend_from_slice(inserted),
    }
}

fn choose_offset(random: &mut SmallRng, len: usize) -> usize {
    let end = if random.random_bool(0.7) {
        FIELDS_LEN.min(len)
    } else {
        len
    };
    random.random_range(0..end)
}

fn overwrite(bytes: &mut [u8], offset: usize, word: &[u8]) {
    for (byte, new) in bytes[offset..].iter_mut().zip(word) {
        *byte = *new;
    }
}

/// Returns a boundary of a range, as a word of four or eight bytes in either byte order.
fn boundary_integer(random: &mut SmallRng) -> Vec<u8> {
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
    let number = *boundaries.choose(random).expect("the list is not empty");
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

/// Returns the third host's address in one of the forms that either protocol has.
fn third_host_address(random: &mut SmallRng) -> Vec<u8> {
    let mut mapped = THIRD_HOST.to_ipv6_mapped().octets();
    match random.random_range(0..5) {
        0 => THIRD_HOST.octets().to_vec(),
        1 => THIRD_HOST.octets().into_iter().rev().collect(),
        2 => format!("{THIRD_HOST}\0").into_bytes(),
        3 => mapped.to_vec(),
        _ => {
            mapped.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            mapped.to_vec()
        }
    }
}
