//! Parses hostile and damaged profiles. None may panic, and an accepted profile is within the
//! limits.
//!
//! See `testkit::fuzz` for the number of inputs and how to repeat a failure.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use rand::Rng;
use rand::rngs::SmallRng;
use testkit::fuzz::{self, choose};
use uperf::profile::{
    MAX_MEMORY_BYTES, MAX_PROCESSES, MAX_THREADS, ParsedProfile, ProfileContext, ProfileSource,
    Severity, check, expected_memory, parse, summary,
};

#[test]
fn random_bytes() {
    // Random bytes are never a profile.
    fuzz_parser("random bytes", 0..=0, |rng| {
        let length = rng.random_range(0..200);
        (0..length).map(|_| rng.random()).collect()
    });
}

/// Parses random words, or the words of a profile with a few extra words.
#[test]
fn words_in_any_order() {
    const PROFILE: &str = "<profile name=\"x\" > <group nthreads=\"1\" > <transaction iterations=\"2\" > \
        <flowop type=\"nop\" /> <flowop type=\"nop\" options=\"size=1\" /> </transaction> </group> </profile>";
    fuzz_parser("words in any order", 5..=25, |rng| {
        let is_ordered = rng.random();
        let mut words: Vec<&str> = if is_ordered {
            PROFILE.split(' ').collect()
        } else {
            Vec::new()
        };
        let max_inserts = if is_ordered { 3 } else { 60 };
        for _ in 0..rng.random_range(0..max_inserts) {
            let word = choose(rng, &WORDS);
            words.insert(rng.random_range(0..=words.len()), word);
        }
        let mut text = String::new();
        for word in words {
            text += word;
            text += if is_ordered && rng.random_bool(0.98) {
                " "
            } else {
                *choose(rng, &["", " ", "\n", "\"", "="])
            };
        }
        text.into_bytes()
    });
}

#[test]
fn damaged_profiles() {
    let profiles = profiles();
    fuzz_parser("damaged profiles", 20..=30, |rng| {
        let profile = choose(rng, &profiles);
        fuzz::damage_with(rng, profile, &WORDS)
    });
}

/// Parses valid profiles with random options and values.
#[test]
fn odd_options() {
    fuzz_parser("odd options", 7..=15, |rng| {
        let mut options = String::new();
        for _ in 0..rng.random_range(0..4) {
            let key = choose(rng, &KEYS);
            options.extend([key, "=", &random_value(rng), " "]);
        }
        let kind = choose(rng, &KINDS);
        let mut usual_or_random = |usual: &str| match rng.random_range(0..8) {
            0 => random_value(rng),
            _ => usual.to_owned(),
        };
        let (count, duration) = (usual_or_random("2"), usual_or_random("1s"));
        format!(
            "<profile name=\"p\">\n<group nthreads=\"{count}\">\n<transaction duration=\"{duration}\">\n\
             <flowop type=\"{kind}\" options=\"{options}\"/>\n</transaction>\n</group>\n</profile>\n"
        )
        .into_bytes()
    });
}

/// Parses random inputs, and checks the percentage that the parser accepts.
fn fuzz_parser(
    name: &str,
    accepted_percent: RangeInclusive<u64>,
    random_input: impl Fn(&mut SmallRng) -> Vec<u8>,
) {
    fuzz::run_inputs(name, accepted_percent, |rng| {
        check_parser(&random_input(rng))
    });
}

/// Returns whether the parser accepts the profile. A refusal needs an error note, and an accepted
/// profile must be within the limits.
fn check_parser(bytes: &[u8]) -> bool {
    let environment = |name: &str| (name.len() < 3).then(|| "2".to_owned());
    let directory = |name: &str| match name.len() {
        0..4 => Ok(()),
        _ => Err("not found".to_owned()),
    };
    let source = ProfileSource { name: "p", bytes };
    let context = ProfileContext {
        environment: &environment,
        directory: &directory,
    };
    let ParsedProfile { workorder, notes } = parse(&source, &context);
    let has_error = notes.iter().any(|note| note.severity == Severity::Error);
    assert_eq!(workorder.is_none(), has_error);
    assert!(notes.len() <= 210, "{}", notes.len());
    for note in &notes {
        assert!(note.line > 0 && note.column > 0);
        assert!(!note.format_with_source("p").contains('\u{1b}'));
        assert!(!note.format_line("p").contains('\n'));
    }
    let Some(workorder) = workorder else {
        return false;
    };
    assert_eq!(check(&source, &context).plan, summary(&workorder));
    assert!(expected_memory(&workorder) <= MAX_MEMORY_BYTES);
    let strands = |processes| -> u64 {
        let groups = workorder.groups.iter();
        let matching = groups.filter(|group| group.strands.processes == processes);
        matching.map(|group| u64::from(group.strands.count)).sum()
    };
    assert!(strands(false) <= MAX_THREADS && strands(true) <= MAX_PROCESSES);
    true
}

fn random_value(rng: &mut SmallRng) -> String {
    let suffixes = ["", "", "k", "m", "g", "z", "s", "ms", "kb", "x", ")", "ä"];
    match rng.random_range(0..6) {
        0 => rng.random_range(0..20_u32).to_string(),
        1 => rng.random::<u64>().to_string(),
        2 => format!(
            "rand({},{})",
            rng.random_range(0..9),
            rng.random_range(0..9)
        ),
        3 => format!("{}.{}", rng.random_range(0..99), rng.random_range(0..99)),
        4 => (*choose(rng, &VALUES)).to_owned(),
        _ => {
            let suffix = choose(rng, &suffixes);
            format!("{}{suffix}", rng.random_range(-1..5000))
        }
    }
}

fn profiles() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    ["profiles", "consumers", "transcripts"]
        .iter()
        .flat_map(|directory| fs::read_dir(data.join(directory)).expect("the directory exists"))
        .map(|entry| entry.expect("the profile is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .map(|path| fs::read(path).expect("the profile is readable"))
        .collect()
}

const WORDS: [&str; 42] = [
    "<profile",
    "</profile>",
    "<group",
    "</group>",
    "<transaction",
    "</transaction>",
    "<flowop",
    "</flowop>",
    "/>",
    ">",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?xml",
    "?>",
    "<!DOCTYPE profile [",
    "<!ENTITY a \"&a;&a;\">",
    "&a;",
    "&#0;",
    "name=\"x\"",
    "name='x'",
    "iterations=\"2\"",
    "iterations=2",
    "type=\"nop\"",
    "type=write",
    "type=",
    "options=\"size=1\"",
    "options=\"remotehost=h protocol=tcp\"",
    "options='size=1'",
    "duration=\"1s\"",
    "duration=1",
    "nthreads=\"1\"",
    "nprocs=\"$n\"",
    "rate=\"5\"",
    "$",
    "\u{feff}",
    "\0",
    "\u{1b}[2J",
    "ä",
    "\r",
    "'",
];

const KINDS: [&str; 13] = [
    "read",
    "write",
    "connect",
    "disconnect",
    "accept",
    "nop",
    "think",
    "send",
    "recv",
    "sendfile",
    "sendfilev",
    "sendto",
    "$k",
];

const KEYS: [&str; 24] = [
    "size",
    "rsize",
    "count",
    "repeat",
    "batch_size",
    "conn",
    "timeout",
    "poll_timeout",
    "duration",
    "remotehost",
    "localhost",
    "protocol",
    "port",
    "wndsz",
    "nfiles",
    "dir",
    "cc",
    "encaps",
    "method",
    "sctp_in_streams",
    "sctp_stream_id",
    "sctp_pr_policy",
    "canfail",
    "rate",
];

const VALUES: [&str; 12] = [
    "",
    "tcp",
    "udp",
    "rds",
    "unix",
    "ttl",
    "$h",
    "$unset",
    "$",
    "\u{1f980}\u{1f980}\u{1f980}",
    "sf",
    "h",
];
