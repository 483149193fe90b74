//! Random command lines: none panics, and every refusal says something and fails.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

use std::ffi::OsString;
use std::sync::LazyLock;

use netperf::options::{Exit, manual, netperf, netserver, super_netperf, super_netperf_on_ports};
use netperf::selector::Selector;
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use testkit::fuzz::{each, fewer};

#[test]
fn no_command_line_panics() {
    each("command lines", 20..=30, |rng| {
        let args = command_line(rng);
        let flows = [OsString::from(number(rng))];
        let ports = [flows[0].clone(), number(rng).into()];
        let exits = [
            netperf("netperf", args.clone()).err(),
            netserver("netserver", args.clone()).err(),
            super_netperf("super_netperf", flows.into_iter().chain(args.clone())).err(),
            super_netperf_on_ports("super-netperf", ports.into_iter().chain(args.clone())).err(),
        ];
        for exit in exits.iter().flatten() {
            assert!(is_honest(exit), "{args:?}: {exit:?}");
        }
        exits.iter().any(Option::is_none)
    });
}

/// A file of selectors: names, headers, and what is neither. Each is written and read, so that there are
/// fewer.
#[test]
fn no_selection_file_panics() {
    let names: Vec<_> = Selector::listed()
        .map(|selector| (selector.name().to_owned(), selector.one_line_header()))
        .collect();
    let path = std::env::temp_dir().join(format!("linerate-selection-{}", std::process::id()));
    fewer("files of selectors", 20, 20..=30, |rng| {
        let mut text = String::new();
        for _ in 0..rng.random_range(0..8) {
            let (name, header) = names.choose(rng).expect("there are some");
            let entry = match rng.random_range(0..8) {
                0..=2 => name.clone(),
                3..=4 => header.clone(),
                5 => format!("P{}_LATENCY", number(rng)),
                6 => value(rng),
                _ => String::new(),
            };
            text += &entry;
            text += [",", ", ", "\n", ";", ""]
                .choose(rng)
                .expect("there are some");
        }
        std::fs::write(&path, &text).expect("a file of our own");
        let form = ["-o", "-O", "-k"].choose(rng).expect("there are some");
        let words = ["--".into(), form.into(), path.clone().into_os_string()];
        let exit = netperf("netperf", words).err();
        assert!(exit.as_ref().is_none_or(is_honest), "{text:?}: {exit:?}");
        exit.is_none()
    });
    std::fs::remove_file(path).expect("it is still there");
}

#[test]
fn no_number_panics() {
    each("numbers", 13..=24, |rng| {
        let text = value(rng);
        let (size, duration) = (units::netperf_size(&text), units::go_duration(&text));
        size.is_some() || duration.is_some()
    });
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
        7 => long(rng),
        _ => value(rng),
    }
}

/// An option of more than a letter, of either program, with a value or without.
fn long(rng: &mut SmallRng) -> String {
    static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
        let chapters = manual::client().into_iter().chain(manual::server());
        let typed = chapters
            .flat_map(|chapter| chapter.options)
            .map(|option| option.synopsis);
        let long = typed.filter(|typed| typed.starts_with("--"));
        long.filter_map(|typed| typed.split(' ').next().map(str::to_owned))
            .collect()
    });
    let option = ALL.choose(rng).expect("there are some");
    match rng.random_range(0..3) {
        0 => format!("{option}={}", value(rng)),
        _ => option.clone(),
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

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-?=,;/";

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
