//! Random command lines: none panics, and every refusal says something and fails.
//!
//! `FUZZ_ITERATIONS` sets how many (20,000 by default); a failure prints its seed, which `FUZZ_SEED`
//! takes.

use std::ffi::OsString;

use netperf::options::{Exit, netperf, netserver};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

#[test]
fn no_command_line_panics() {
    for seed in seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        let args = command_line(&mut rng);
        let outcome = std::panic::catch_unwind(|| {
            (
                netperf("netperf", args.clone()).err(),
                netserver("netserver", args.clone()).err(),
            )
        });
        let Ok(exits) = outcome else {
            panic!("FUZZ_SEED={seed} panics: {args:?}");
        };
        for exit in [exits.0, exits.1].into_iter().flatten() {
            assert!(is_honest(&exit), "FUZZ_SEED={seed}: {args:?}: {exit:?}");
        }
    }
}

#[test]
fn no_number_panics() {
    for seed in seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        let text = value(&mut rng);
        let outcome =
            std::panic::catch_unwind(|| (units::netperf_size(&text), units::go_duration(&text)));
        assert!(outcome.is_ok(), "FUZZ_SEED={seed} panics: {text:?}");
    }
}

/// It says something, and only `-V` succeeds.
fn is_honest(exit: &Exit) -> bool {
    let says = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    says && (exit.code != 0 || exit.stdout.contains("Netperf version"))
}

fn command_line(rng: &mut SmallRng) -> Vec<OsString> {
    let words = rng.random_range(0..12);
    (0..words).map(|_| word(rng).into()).collect()
}

fn word(rng: &mut SmallRng) -> String {
    match rng.random_range(0..10) {
        0..=2 => format!("-{}", letter(rng)),
        3..=4 => format!("-{}{}", letter(rng), value(rng)),
        5 => (0..rng.random_range(0..4)).fold("-".to_owned(), |word, _| word + &letter(rng)),
        6 => "--".to_owned(),
        7 => (*LONG.choose(rng).unwrap()).to_owned(),
        _ => value(rng),
    }
}

fn letter(rng: &mut SmallRng) -> String {
    char::from(*LETTERS.choose(rng).unwrap()).to_string()
}

fn value(rng: &mut SmallRng) -> String {
    match rng.random_range(0..8) {
        0..=1 => (*VALUES.choose(rng).unwrap()).to_owned(),
        2 => number(rng),
        3 => format!("{},{}", number(rng), number(rng)),
        4 => format!(
            "{},{}",
            VALUES.choose(rng).unwrap(),
            VALUES.choose(rng).unwrap()
        ),
        5 => format!("{}{}", number(rng), letter(rng)),
        6 => (0..rng.random_range(0..200))
            .map(|_| char::from(rng.random_range(1..127u8)))
            .collect(),
        _ => (0..rng.random_range(0..12))
            .map(|_| rng.random::<char>())
            .filter(|c| *c != '\0')
            .collect(),
    }
}

fn number(rng: &mut SmallRng) -> String {
    let number = match rng.random_range(0..4) {
        0 => rng.random_range(-2..20),
        1 => i64::from(rng.random::<i32>()),
        2 => *[
            i64::MIN,
            i64::MAX,
            1 << 31,
            -(1 << 31),
            (1 << 32) - 1,
            65535,
            65536,
        ]
        .choose(rng)
        .unwrap(),
        _ => rng.random(),
    };
    let suffix = [
        "", "", "", "K", "M", "G", "k", "m", "g", "s", "ms", "h", "µs",
    ]
    .choose(rng)
    .unwrap();
    format!("{number}{suffix}")
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    match number("FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FUZZ_ITERATIONS").unwrap_or(20_000),
    }
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-?=,;/";

const LONG: [&str; 11] = [
    "--allow-fill-dir",
    "--allow-fill-dir=/a",
    "--allow-looper",
    "--allow-third-party",
    "--allow-third-party=x",
    "--control-idle",
    "--data-wait=5",
    "--data-idle=",
    "--max-clients",
    "--max-buffer=1G",
    "--max-length=9h",
];

const VALUES: [&str; 53] = [
    "",
    "0",
    "1",
    "-1",
    ",",
    ",,",
    "?",
    "all",
    "TCP_STREAM",
    "tcp_rr",
    "TCP_CRR",
    "TCP_CC",
    "TCP_SENDFILE",
    "UDP_STREAM",
    "UDP_RR",
    "OMNI",
    "UUID",
    "LOC_CPU",
    "REM_CPU",
    "TCP_MSS",
    "STREAM_STREAM",
    "DG_RR",
    "SCTP_STREAM_MANY",
    "SCTP_RR",
    "DLCO_STREAM",
    "DLCL_RR",
    "/dev/eth,lo",
    "tcp",
    "udp",
    "sctp",
    "dccp",
    "udplite",
    "mptcp",
    "vsock",
    "2,vsock",
    "XTI_TCP_RR",
    "dgram",
    "stream",
    "rr",
    "crr",
    "send|recv",
    "THROUGHPUT",
    "THROUGHPUT;UUID",
    "P50_LATENCY,UUID",
    "::1,6",
    "127.0.0.1/8,4",
    "fe80::1%lo",
    "cs7",
    "0x20",
    "10s",
    "1m0s",
    "0.5",
    "/nonexistent",
];
