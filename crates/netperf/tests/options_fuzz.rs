//! Random command lines: none panics, and every refusal prints a message and fails.
//!
//! `testkit::fuzz` documents the number of inputs and how to repeat a failure.

use std::ffi::OsString;
use std::sync::LazyLock;

use netperf::options::{
    Exit, manual, parse_netperf, parse_netserver, parse_super_netperf, parse_super_netperf_on_ports,
};
use netperf::selector::Selector;
use rand::Rng;
use testkit::fuzz::{ArgumentGenerator, choose, run_inputs, run_one_in};

#[test]
fn no_command_line_panics() {
    run_inputs("command lines", 20..=30, |rng| {
        let args = ARGUMENTS
            .command_line(rng, 12)
            .into_iter()
            .map(OsString::from);
        let args: Vec<_> = args.collect();
        let flows = [OsString::from(ARGUMENTS.number(rng))];
        let ports = [flows[0].clone(), ARGUMENTS.number(rng).into()];
        let exits = [
            parse_netperf("netperf", args.clone()).err(),
            parse_netserver("netserver", args.clone()).err(),
            parse_super_netperf("super_netperf", flows.into_iter().chain(args.clone())).err(),
            parse_super_netperf_on_ports("super-netperf", ports.into_iter().chain(args.clone()))
                .err(),
        ];
        for exit in exits.iter().flatten() {
            assert!(is_valid(exit), "{args:?}: {exit:?}");
        }
        exits.iter().any(Option::is_none)
    });
}

/// Parses files with names and headers of selectors and with invalid entries. Writing the files
/// takes time, so there are fewer inputs.
#[test]
fn no_selection_file_panics() {
    let names: Vec<_> = Selector::list()
        .map(|selector| (selector.name().to_owned(), selector.one_line_header()))
        .collect();
    let path = std::env::temp_dir().join(format!("linerate-selection-{}", std::process::id()));
    run_one_in("files of selectors", 20, 20..=30, |rng| {
        let mut text = String::new();
        for _ in 0..rng.random_range(0..8) {
            let (name, header) = choose(rng, &names);
            let entry = match rng.random_range(0..8) {
                0..=2 => name.clone(),
                3..=4 => header.clone(),
                5 => format!("P{}_LATENCY", ARGUMENTS.number(rng)),
                6 => ARGUMENTS.value(rng),
                _ => String::new(),
            };
            text += &entry;
            let separators = [",", ", ", "\n", ";", ""];
            text += *choose(rng, &separators);
        }
        std::fs::write(&path, &text).expect("the temporary directory is writable");
        let form = choose(rng, &["-o", "-O", "-k"]);
        let arguments = ["--".into(), form.into(), path.clone().into_os_string()];
        let exit = parse_netperf("netperf", arguments).err();
        assert!(exit.as_ref().is_none_or(is_valid), "{text:?}: {exit:?}");
        exit.is_none()
    });
    std::fs::remove_file(path).expect("the file exists");
}

#[test]
fn no_number_panics() {
    run_inputs("numbers", 13..=24, |rng| {
        let text = ARGUMENTS.value(rng);
        let (size, duration) = (
            units::parse_netperf_size(&text),
            units::parse_go_duration(&text),
        );
        size.is_some() || duration.is_some()
    });
}

/// Whether there is a message, and only `-V` succeeds.
fn is_valid(exit: &Exit) -> bool {
    let has_message = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    has_message && (exit.code != 0 || exit.stdout.contains("Netperf version"))
}

/// All options of both programs, and values for any option.
static ARGUMENTS: LazyLock<ArgumentGenerator> = LazyLock::new(|| {
    let chapters = manual::client().into_iter().chain(manual::server());
    let options = chapters.flat_map(|chapter| chapter.options);
    let suffixes = &[
        "", "", "", "K", "M", "G", "k", "m", "g", "s", "ms", "h", "µs",
    ];
    ArgumentGenerator::new(options.map(|option| option.synopsis), &VALUES, suffixes)
});

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
