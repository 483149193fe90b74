//! Random command lines: none panics, and every refusal prints a message and fails.
//!
//! `testkit::fuzz` documents the number of inputs and how to repeat a failure.

use std::sync::LazyLock;

use iperf3::options::{manual, parse_iperf3};
use testkit::fuzz::{ArgumentGenerator, run_inputs};

#[test]
fn no_command_line_panics() {
    run_inputs("command lines", 1..=70, |rng| {
        let args = ARGUMENTS.command_line_with_role(rng, &ROLES);
        match parse_iperf3("iperf3", args.clone(), None) {
            Ok(_) => true,
            Err(exit) => {
                // Requested help or version text.
                let has_output =
                    !exit.stdout.is_empty() && (exit.code == 0 || !exit.stderr.is_empty());
                assert!(has_output || !exit.stderr.is_empty(), "{args:?}: {exit:?}");
                assert!(
                    exit.code != 0 || exit.stderr.is_empty(),
                    "{args:?}: {exit:?}"
                );
                false
            }
        }
    });
}

/// The start of each command line. Without a role, every line is refused.
const ROLES: [&str; 8] = ["-c h", "-c h", "-c h", "-c h", "-c h", "-s", "-s", ""];

static ARGUMENTS: LazyLock<ArgumentGenerator> = LazyLock::new(|| {
    let chapters = manual::chapters().into_iter();
    let options = chapters.flat_map(|chapter| chapter.options);
    let suffixes = &["", "", "k", "M", "g", "T", "/5", "%", "X"];
    ArgumentGenerator::new(options.map(|option| option.synopsis), &VALUES, suffixes)
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
