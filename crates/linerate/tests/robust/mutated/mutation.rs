//! Mutations of one message.

use std::ops::Range;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::third_host::THIRD_HOST;

/// Length of the first part of a message, which has the fields of both protocols. The rest of a
/// netperf message is zero. The rest of a uperf message contains 944-byte records.
const FIELDS_LEN: usize = 272;

/// Returns a changed message, never equal to the original. `inserted` is a message of the same
/// conversation.
pub(super) fn mutate(random: &mut SmallRng, message: &[u8], inserted: &[u8]) -> Vec<u8> {
    let mut mutated = message.to_vec();
    let is_json = message.get(4) == Some(&b'{');
    while mutated == message {
        let changes_json = is_json && random.random_bool(0.9);
        for _ in 0..random.random_range(1..4) {
            if changes_json {
                change_json(random, &mut mutated);
            } else {
                change(random, &mut mutated, inserted);
            }
        }
    }
    mutated
}

/// Replaces, repeats or removes a token of the JSON text after the length: a key, a value or a
/// punctuation mark.
fn change_json(random: &mut SmallRng, bytes: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(&bytes[4..]).into_owned();
    let tokens = json_tokens(&text);
    // Few tokens are punctuation marks, so most texts stay valid.
    let values: Vec<_> = tokens
        .iter()
        .filter(|token| !"{}[]:,".contains(&text[(*token).clone()]))
        .collect();
    let token = if values.is_empty() || random.random_bool(0.05) {
        tokens.choose(random)
    } else {
        values.choose(random).copied()
    };
    let Some(token) = token.cloned() else {
        return;
    };
    let new = match random.random_range(0..20) {
        0 => String::new(),
        1 => text[token.clone()].repeat(2),
        2..=3 => text[values
            .choose(random)
            .map_or(token.clone(), |value| (*value).clone())]
        .to_owned(),
        4..=11 => random_number(random),
        _ => random_value(random),
    };
    bytes.splice(4 + token.start..4 + token.end, new.into_bytes());
}

/// Returns the tokens of a compact JSON text.
fn json_tokens(text: &str) -> Vec<Range<usize>> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        let rest = &text[start..];
        let len = match first {
            '{' | '}' | '[' | ']' | ':' | ',' => 1,
            '"' => rest[1..].find('"').map_or(rest.len(), |quote| quote + 2),
            _ => rest[first.len_utf8()..]
                .find(['{', '}', '[', ']', ':', ',', '"'])
                .map_or(rest.len(), |end| end + first.len_utf8()),
        };
        tokens.push(start..start + len);
        start += len;
    }
    tokens
}

/// Returns a number of any sign and size, with and without a fraction or an exponent.
fn random_number(random: &mut SmallRng) -> String {
    let power = 1_i128 << random.random_range(0..67);
    let integer = *[
        0,
        1,
        -1,
        power,
        power - 1,
        power + 1,
        -power,
        random.random_range(0..1 << 20),
    ]
    .choose(random)
    .expect("the list is not empty");
    match random.random_range(0..10) {
        0 => format!("{integer}.5"),
        1 => format!("{integer}e{}", random.random_range(-320..320)),
        _ => integer.to_string(),
    }
}

/// Returns a value of any type.
fn random_value(random: &mut SmallRng) -> String {
    let len = 1 << random.random_range(0..14);
    match random.random_range(0..12) {
        0 => "true".to_owned(),
        1 => "false".to_owned(),
        2 => "null".to_owned(),
        3 => "{}".to_owned(),
        4 => "[]".to_owned(),
        5 => format!("{}{}", "[".repeat(len), "]".repeat(len)),
        6 => format!("{}1{}", "{\"a\":".repeat(len), "}".repeat(len)),
        7 => format!("\"{}\"", "x".repeat(len)),
        8 => "\"\\u0000\\ud800\\n\\u001b\"".to_owned(),
        9 => format!("\"{}\"", random.random::<char>()),
        10 => format!("\"{}\"", random_number(random)),
        _ => format!("[{}]", vec![random_number(random); len.min(600)].join(",")),
    }
}

fn change(random: &mut SmallRng, bytes: &mut Vec<u8>, inserted: &[u8]) {
    let len = bytes.len();
    if len < 8 {
        // A state, a greeting, or what is left of a message.
        match random.random_range(0..4) {
            0 => bytes.extend_from_slice(inserted),
            1 => bytes.extend_from_within(..),
            _ if len == 0 => bytes.push(random.random()),
            2 => bytes[random.random_range(0..len)] = random.random(),
            _ => bytes[random.random_range(0..len)] = random.random_range(0..18),
        }
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
