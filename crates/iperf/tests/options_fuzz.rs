//! Parses random command lines. None may panic, and each rejected one must print a message.
//!
//! `testkit::fuzz` documents the number of inputs and how to repeat a failure.

use std::sync::LazyLock;

use iperf::options::{manual, parse_iperf};
use testkit::fuzz::{ArgumentGenerator, run_inputs};

#[test]
fn no_command_line_panics() {
    run_inputs("command lines", 1..=70, |rng| {
        let args = ARGUMENTS.command_line_with_role(rng, &ROLES);
        // One environment variable has a random value.
        let value = ARGUMENTS.value(rng);
        let variable = |name: &str| (name == "IPERF_LEN").then(|| value.clone());
        match parse_iperf("iperf", args.clone(), variable) {
            Ok(_) => true,
            Err(exit) => {
                assert!(
                    !exit.stdout.is_empty() || !exit.stderr.is_empty(),
                    "{args:?}"
                );
                false
            }
        }
    });
}

/// The possible starts of a command line. A command line without a role is rejected.
const ROLES: [&str; 8] = ["-c h", "-c h", "-c h", "-c h", "-c h", "-s", "-s", ""];

static ARGUMENTS: LazyLock<ArgumentGenerator> = LazyLock::new(|| {
    let chapters = manual::chapters().into_iter();
    let options = chapters.flat_map(|chapter| chapter.options);
    let suffixes = &["", "", "k", "M", "g", "T", "pps", "kpps", "u", "m", "X"];
    ArgumentGenerator::new(options.map(|option| option.synopsis), &VALUES, suffixes)
});

const VALUES: [&str; 22] = [
    "",
    "0",
    "-1",
    "1e308",
    "inf",
    "nan",
    "10m,1m",
    "100pps",
    "60:20m,0",
    "0:0,0",
    "1:1p,1",
    "1u,10,5,95",
    "down,3",
    "bidir",
    "af11",
    "0x1ff",
    "127.0.0.1%lo",
    "[::1]:5001",
    "239.1.1.1",
    "5001-5003",
    "CDMSV",
    "abcd",
];
