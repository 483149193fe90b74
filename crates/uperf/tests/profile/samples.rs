//! Compares the plan and the notes of every profile in `data` with the text file beside it.
//!
//! `profiles` has equivalents of the profiles that uperf ships, `consumers` of those that harnesses
//! write, and `transcripts` those of the recorded runs. If `UPDATE_PLANS` is set, the test writes
//! the text files. Review the difference.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uperf::profile::summary;
use uperf::{Amount, FlowopFlags, FlowopKind, Workorder};

use super::{environment, format_notes, parse_with};

#[test]
fn parses_every_profile_as_recorded() {
    let mut mismatches = Vec::new();
    for path in profiles() {
        let parsed = parse_with(&read(&path), &environment);
        let mut text = parsed.workorder.as_ref().map_or_else(String::new, summary);
        for line in format_notes(&parsed.notes) {
            let _ = writeln!(text, "{line}");
        }
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_PLANS").is_some() {
            fs::write(&expected, &text).expect("the file is writable");
        }
        if fs::read_to_string(&expected).unwrap_or_default() != text {
            mismatches.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

#[test]
fn refuses_only_two_shipped_profiles() {
    let mut refused = Vec::new();
    for path in profiles() {
        if parse_with(&read(&path), &environment).workorder.is_none() {
            refused.push(path.file_stem().unwrap_or_default().to_owned());
        }
    }
    refused.sort();
    // oraclerac needs flowops that uperf has removed; rdstest needs reliable datagram sockets.
    assert_eq!(refused, ["oraclerac", "rdstest"]);
}

/// Compares the parsed options with the values in the recorded messages.
#[test]
fn parses_options_as_in_recorded_messages() {
    let workorder = parse_recorded("every-option");
    let transactions = &workorder.groups[0].transactions;
    let parsed: Vec<_> = transactions
        .iter()
        .map(|transaction| {
            let duration = transaction
                .duration
                .map_or(0, |duration| duration.as_nanos());
            (
                transaction.iterations,
                duration,
                transaction.rate,
                transaction.rate_text.as_str(),
            )
        })
        .collect();
    let expected = [
        (1, 0, 0, ""),
        (4096, 0, 123, "123"),
        (1, 30_000_001_024, 2048, "2k"),
        (1, 2_000_000, 0, ""),
        (1, 1_500_000_000, 0, ""),
        (1, 3_599_999_959_040, 0, ""),
    ];
    assert_eq!(parsed, expected);

    let write = &transactions[1].flowops[0];
    assert_eq!(
        (write.transfer.amount, write.slave_size),
        (Amount::Exactly(1536), 3072)
    );
    let counts = (write.count, write.transfer.repeat, write.batch_size);
    assert_eq!(counts, (12, 5, 6));
    assert_eq!(write.transfer.timeout, Some(Duration::from_millis(250)));
    assert_eq!(write.flags, FlowopFlags(4));

    let [random, _, think, sendfile, sendfilev, nop] = &transactions[2].flowops[..] else {
        panic!("transaction 2 does not have six flowops");
    };
    assert_eq!(
        random.transfer.amount,
        Amount::Between {
            min: 1024,
            max: 2048
        }
    );
    // The recording also has 0x40, the flag of a random size.
    assert_eq!(random.flags, FlowopFlags(4));
    assert_eq!(
        (think.flags, think.duration),
        (FlowopFlags(0x30), Duration::from_millis(100))
    );
    assert_eq!((sendfile.files, sendfile.directory.as_str()), (7, "sf"));
    assert_eq!(sendfile.transfer.amount, Amount::Exactly(4096));
    assert_eq!(
        (sendfilev.files, sendfilev.kind),
        (8, FlowopKind::Sendfilev)
    );
    assert_eq!(nop.endpoint.encapsulation_port, 0);

    let mixed = parse_recorded("mixed-operations");
    let thinks: Vec<_> = mixed.groups[0].transactions[1].flowops[2..4]
        .iter()
        .map(|think| (think.duration.as_nanos(), think.flags))
        .collect();
    assert_eq!(
        thinks,
        [(5_000_000, FlowopFlags(16)), (1_500_000, FlowopFlags(32))]
    );
}

/// The profile of benchmark-operator lacks a `</transaction>`. The parser adds it, with a note.
#[test]
fn missing_end_tag_adds_only_a_note() {
    let path = data().join("consumers/benchmark-operator.xml");
    let text = String::from_utf8(read(&path)).expect("the profile is UTF-8");
    let closed = text.replace(
        "size=64\"/>\n  <transaction",
        "size=64\"/>\n  </transaction>\n  <transaction",
    );
    assert_ne!(closed, text);
    let [without_closer, with_closer] =
        [text, closed].map(|text| parse_with(text.as_bytes(), &environment));
    assert_eq!(without_closer.workorder, with_closer.workorder);
    assert_eq!(without_closer.notes.len(), with_closer.notes.len() + 1);
}

fn parse_recorded(name: &str) -> Workorder {
    let path = data().join("transcripts").join(name).with_extension("xml");
    let parsed = parse_with(&read(&path), &environment);
    parsed.workorder.expect("the recorded profile is valid")
}

fn profiles() -> Vec<PathBuf> {
    let mut profiles: Vec<PathBuf> = ["profiles", "consumers", "transcripts"]
        .iter()
        .flat_map(|directory| fs::read_dir(data().join(directory)).expect("the directory exists"))
        .map(|entry| entry.expect("the profile is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .collect();
    profiles.sort();
    assert!(profiles.len() > 40, "{}", profiles.len());
    profiles
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the profile is readable")
}
