//! Profiles that mean harm or were damaged: none panics, and what is taken is within the limits.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

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
    // Nothing is a profile by chance.
    each("random bytes", 0..=0, |rng| {
        let length = rng.random_range(0..200);
        (0..length).map(|_| rng.random()).collect()
    });
}

/// Words in any order, or those of a profile with a few in other places.
#[test]
fn words_in_any_order() {
    const PROFILE: &str = "<profile name=\"x\" > <group nthreads=\"1\" > <transaction iterations=\"2\" > \
        <flowop type=\"nop\" /> <flowop type=\"nop\" options=\"size=1\" /> </transaction> </group> </profile>";
    each("words in any order", 5..=25, |rng| {
        let is_ordered = rng.random();
        let mut words: Vec<&str> = if is_ordered {
            PROFILE.split(' ').collect()
        } else {
            Vec::new()
        };
        let more = if is_ordered { 3 } else { 60 };
        for _ in 0..rng.random_range(0..more) {
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
    each("damaged profiles", 20..=30, |rng| {
        let profile = choose(rng, &profiles);
        fuzz::damage_with(rng, profile, &WORDS)
    });
}

/// Options of every kind with values of every kind, in a profile that is otherwise in order.
#[test]
fn odd_options() {
    each("odd options", 7..=15, |rng| {
        let mut options = String::new();
        for _ in 0..rng.random_range(0..4) {
            let key = choose(rng, &KEYS);
            options.extend([key, "=", &value(rng), " "]);
        }
        let kind = choose(rng, &KINDS);
        let mut mostly = |usual: &str| match rng.random_range(0..8) {
            0 => value(rng),
            _ => usual.to_owned(),
        };
        let (count, duration) = (mostly("2"), mostly("1s"));
        format!(
            "<profile name=\"p\">\n<group nthreads=\"{count}\">\n<transaction duration=\"{duration}\">\n\
             <flowop type=\"{kind}\" options=\"{options}\"/>\n</transaction>\n</group>\n</profile>\n"
        )
        .into_bytes()
    });
}

/// Gives inputs to the parser, which is to take as many percent of them.
fn each(what: &str, taken: RangeInclusive<u64>, input: impl Fn(&mut SmallRng) -> Vec<u8>) {
    fuzz::run_inputs(what, taken, |rng| is_honest(&input(rng)));
}

/// Whether it is taken. What is refused says why; what is taken is within the limits.
fn is_honest(bytes: &[u8]) -> bool {
    let environment = |name: &str| (name.len() < 3).then(|| "2".to_owned());
    let directory = |name: &str| match name.len() {
        0..4 => Ok(()),
        _ => Err("none".to_owned()),
    };
    let source = ProfileSource { name: "p", bytes };
    let context = ProfileContext {
        environment: &environment,
        directory: &directory,
    };
    let ParsedProfile { workorder, notes } = parse(&source, &context);
    let refused = notes.iter().any(|note| note.severity == Severity::Error);
    assert_eq!(workorder.is_none(), refused);
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
        let those = groups.filter(|group| group.strands.processes == processes);
        those.map(|group| u64::from(group.strands.count)).sum()
    };
    assert!(strands(false) <= MAX_THREADS && strands(true) <= MAX_PROCESSES);
    true
}

fn value(rng: &mut SmallRng) -> String {
    let suffix = ["", "", "k", "m", "g", "z", "s", "ms", "kb", "x", ")", "ä"];
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
            let suffix = choose(rng, &suffix);
            format!("{}{suffix}", rng.random_range(-1..5000))
        }
    }
}

fn profiles() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    ["profiles", "consumers", "transcripts"]
        .iter()
        .flat_map(|directory| fs::read_dir(data.join(directory)).expect("profiles"))
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .map(|path| fs::read(path).expect("readable"))
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
