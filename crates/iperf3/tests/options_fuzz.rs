//! Random command lines: none panics, and every refusal says something and fails.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

use std::sync::LazyLock;

use iperf3::options::{iperf3, manual};
use testkit::fuzz::{Words, each};

#[test]
fn no_command_line_panics() {
    each("command lines", 1..=70, |rng| {
        let args = WORDS.command_line_of(rng, &ROLES);
        match iperf3("iperf3", args.clone()) {
            Ok(_) => true,
            Err(exit) => {
                // Help and the version are asked for.
                let says = !exit.stdout.is_empty() && (exit.code == 0 || !exit.stderr.is_empty());
                assert!(says || !exit.stderr.is_empty(), "{args:?}: {exit:?}");
                assert!(
                    exit.code != 0 || exit.stderr.is_empty(),
                    "{args:?}: {exit:?}"
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
    let suffixes = &["", "", "k", "M", "g", "T", "/5", "%", "X"];
    Words::new(options.map(|option| option.synopsis), &VALUES, suffixes)
});

const VALUES: [&str; 20] = [
    "",
    "0",
    "-1",
    "1e308",
    "inf",
    "nan",
    "10M/1000",
    "10M/5",
    "1,2",
    "20/5/3",
    "af11",
    "cs7",
    "0x1ff",
    "127.0.0.1%lo",
    "::1",
    "cubic",
    "%H:%M",
    "k",
    "86401",
    "1.5",
];
