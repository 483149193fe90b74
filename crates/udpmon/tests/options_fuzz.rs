//! Random command lines: none panics, and every refusal prints a message and fails.
//!
//! `testkit::fuzz` documents the number of inputs and how to repeat a failure.

use std::ffi::OsString;

use testkit::fuzz::{ArgumentGenerator, run_inputs};
use udpmon::options::{self, Exit, manual};

#[test]
fn no_command_line_panics() {
    type Parse = fn(Vec<OsString>) -> Option<Exit>;
    let programs: [Parse; 5] = [
        |arguments| options::bw_mon("udpmon_bw_mon", arguments).err(),
        |arguments| options::req("udpmon_req", arguments).err(),
        |arguments| options::resp("udpmon_resp", arguments).err(),
        |arguments| options::send("udpmon_send", arguments).err(),
        |arguments| options::recv("udpmon_recv", arguments).err(),
    ];
    for ((name, chapter), parse) in manual::chapters().into_iter().zip(programs) {
        let synopses = chapter.options.into_iter().map(|option| option.synopsis);
        let generator =
            ArgumentGenerator::new(synopses, &VALUES, &["", "", "k", "M", "%", ":5", ",7", "X"]);
        let required_options = if name.ends_with('v') || name.ends_with("resp") {
            ""
        } else {
            "-d h"
        };
        run_inputs(name, 1..=90, |rng| {
            let arguments = generator.command_line_with_role(rng, &[required_options]);
            let Some(exit) = parse(arguments.clone()) else {
                return true;
            };
            let is_success = exit.code == 0;
            assert_eq!(
                is_success,
                exit.stderr.is_empty(),
                "{arguments:?}: {exit:?}"
            );
            assert_eq!(
                is_success,
                !exit.stdout.is_empty(),
                "{arguments:?}: {exit:?}"
            );
            false
        });
    }
}

const VALUES: [&str; 20] = [
    "",
    "0",
    "-1",
    "1e308",
    "inf",
    "nan",
    "100",
    "1.5",
    "64",
    "1400:1472:8",
    "0:40:0.001",
    "2:10",
    "3:1",
    "ff",
    "0x3",
    "spin",
    "kernel",
    "10.0.0.0/8",
    "x.svg",
    "4294967295",
];
