//! Random command lines: none panics, and every refusal says something.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

use std::sync::LazyLock;

use iperf::options::{iperf, manual};
use testkit::fuzz::{Words, each};

#[test]
fn no_command_line_panics() {
    each("command lines", 1..=70, |rng| {
        let args = WORDS.command_line_of(rng, &ROLES);
        // Of the environment one variable has any value.
        let value = WORDS.value(rng);
        let variable = |name: &str| (name == "IPERF_LEN").then(|| value.clone());
        match iperf("iperf", args.clone(), variable) {
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

/// One of these begins a command line; without a role nothing is taken.
const ROLES: [&str; 8] = ["-c h", "-c h", "-c h", "-c h", "-c h", "-s", "-s", ""];

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let chapters = manual::chapters().into_iter();
    let options = chapters.flat_map(|chapter| chapter.options);
    let suffixes = &["", "", "k", "M", "g", "T", "pps", "kpps", "u", "m", "X"];
    Words::new(options.map(|option| option.synopsis), &VALUES, suffixes)
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
