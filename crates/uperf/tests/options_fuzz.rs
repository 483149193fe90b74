//! Parses random command lines and networks. None may panic, and every refusal must print a message
//! and fail.
//!
//! See `testkit::fuzz` for the number of inputs and how to repeat a failure.

use std::sync::LazyLock;

use rand::Rng;
use rand::rngs::SmallRng;
use server::Network;
use testkit::fuzz::{ArgumentGenerator, choose, run_inputs};
use uperf::options::{Exit, manual, uperf};

#[test]
fn no_command_line_panics() {
    run_inputs("command lines", 14..=25, |rng| {
        let args = ARGUMENTS.command_line_with_role(rng, &ROLES);
        match uperf("uperf", args.clone()) {
            Ok(_) => true,
            Err(exit) => {
                assert!(is_valid_exit(&exit), "{args:?}: {exit:?}");
                false
            }
        }
    });
}

/// A parsed network contains its own address and survives a round trip through its text.
#[test]
fn networks_round_trip() {
    run_inputs("networks", 30..=60, |rng| {
        let text = random_network(rng);
        let Ok(network) = Network::parse(&text) else {
            return false;
        };
        let address = text.split('/').next().unwrap_or_default();
        let address = address.parse().expect("a network starts with an address");
        assert!(network.contains(address), "{text:?}");
        assert_eq!(
            Network::parse(&network.to_string()),
            Ok(network),
            "{text:?}"
        );
        true
    });
}

/// Returns whether the exit prints something and fails, unless it prints usage or version.
fn is_valid_exit(exit: &Exit) -> bool {
    let has_output = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    has_output && (exit.code != 0 || exit.stdout.starts_with("Uperf Version"))
}

/// Start of each command line. A command line without a role is refused.
const ROLES: [&str; 8] = ["-m p", "-m p", "-m p", "-m p", "-s", "-s", "", ""];

static ARGUMENTS: LazyLock<ArgumentGenerator> = LazyLock::new(|| {
    let chapters = manual::chapters().into_iter();
    let options = chapters.flat_map(|chapter| chapter.options);
    let suffixes = &["", "", "b", "k", "M", "g", "z", "s", "ms", "us", "n", "µs"];
    ArgumentGenerator::new(options.map(|option| option.synopsis), &VALUES, suffixes)
});

fn random_network(rng: &mut SmallRng) -> String {
    let address = match rng.random_range(0..4) {
        0 => std::net::Ipv4Addr::from(rng.random::<u32>()).to_string(),
        1 => std::net::Ipv6Addr::from(rng.random::<u128>() >> rng.random_range(0..128)).to_string(),
        2 => format!("::ffff:{}", std::net::Ipv4Addr::from(rng.random::<u32>())),
        _ => (*choose(rng, &VALUES)).to_owned(),
    };
    match rng.random_range(0..4) {
        0 => address,
        _ => format!("{address}/{}", rng.random_range(-2..140)),
    }
}

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
