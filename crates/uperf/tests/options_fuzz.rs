//! Random command lines: none panics, and every refusal says something and fails.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

use std::ffi::OsString;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use server::Network;
use testkit::fuzz::each;
use uperf::options::{Exit, manual, uperf};

#[test]
fn no_command_line_panics() {
    each("command lines", 14..=25, |rng| {
        let args = command_line(rng);
        match uperf("uperf", args.clone()) {
            Ok(_) => true,
            Err(exit) => {
                assert!(is_honest(&exit), "{args:?}: {exit:?}");
                false
            }
        }
    });
}

/// What is a network has its own address in it, and is read back as it is written.
#[test]
fn no_network_panics() {
    each("networks", 30..=60, |rng| {
        let text = network(rng);
        let Ok(network) = Network::parse(&text) else {
            return false;
        };
        let address = text.split('/').next().unwrap_or_default();
        let address = address.parse().expect("it is a network's");
        assert!(network.contains(address), "{text:?}");
        assert_eq!(
            Network::parse(&network.to_string()),
            Ok(network),
            "{text:?}"
        );
        true
    });
}

/// It says something, and only what was asked for by `-h` and `-V` succeeds.
fn is_honest(exit: &Exit) -> bool {
    let says = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    says && (exit.code != 0 || exit.stdout.starts_with("Uperf Version"))
}

fn command_line(rng: &mut SmallRng) -> Vec<OsString> {
    // Without a role nothing is taken.
    let role: &[&str] = match rng.random_range(0..8) {
        0..=3 => &["-m", "p"],
        4..=5 => &["-s"],
        _ => &[],
    };
    let words = rng.random_range(0..5);
    let role = role.iter().map(OsString::from);
    role.chain((0..words).map(|_| word(rng).into())).collect()
}

fn word(rng: &mut SmallRng) -> String {
    let options: Vec<_> = manual::chapters()
        .into_iter()
        .flat_map(|chapter| chapter.options)
        .filter_map(|option| option.synopsis.split(' ').next().map(str::to_owned))
        .collect();
    let option = options.choose(rng).expect("there are some");
    match rng.random_range(0..8) {
        0..=2 => option.clone(),
        3 => format!("{option}{}", value(rng)),
        4 => format!("{option}={}", value(rng)),
        5 => format!("-{}", LETTERS.choose(rng).expect("there are some")),
        _ => value(rng),
    }
}

fn value(rng: &mut SmallRng) -> String {
    match rng.random_range(0..6) {
        0..=1 => (*VALUES.choose(rng).expect("there are some")).to_owned(),
        2 => format!(
            "{}{}",
            rng.random::<i64>() >> rng.random_range(0..63),
            suffix(rng)
        ),
        3 => format!(
            "{}.{}{}",
            rng.random::<u8>(),
            rng.random::<u8>(),
            suffix(rng)
        ),
        4 => network(rng),
        _ => (0..rng.random_range(0..12))
            .map(|_| rng.random::<char>())
            .filter(|c| *c != '\0')
            .collect(),
    }
}

fn suffix(rng: &mut SmallRng) -> &'static str {
    const ALL: [&str; 12] = ["", "", "b", "k", "M", "g", "z", "s", "ms", "us", "n", "µs"];
    ALL.choose(rng).expect("there are some")
}

fn network(rng: &mut SmallRng) -> String {
    let address = match rng.random_range(0..4) {
        0 => std::net::Ipv4Addr::from(rng.random::<u32>()).to_string(),
        1 => std::net::Ipv6Addr::from(rng.random::<u128>() >> rng.random_range(0..128)).to_string(),
        2 => format!("::ffff:{}", std::net::Ipv4Addr::from(rng.random::<u32>())),
        _ => (*VALUES.choose(rng).expect("there are some")).to_owned(),
    };
    match rng.random_range(0..4) {
        0 => address,
        _ => format!("{address}/{}", rng.random_range(-2..140)),
    }
}

const LETTERS: [char; 14] = [
    'q', 'Q', 'z', '-', '=', '?', ':', ';', '0', '9', 'é', ' ', '\n', '\u{1}',
];

const VALUES: [&str; 26] = [
    "",
    "0",
    "1",
    "-1",
    "20k",
    "1.5k",
    ".5",
    ".",
    "16e",
    "tcp",
    "udp",
    "SCTP",
    "vsock",
    "rds",
    "stdout",
    "cycles",
    "cs,faults",
    "cycles,",
    ",",
    "p.xml",
    "/",
    "10.0.0.0/8",
    "::/0",
    "::1",
    "--",
    "-",
];
