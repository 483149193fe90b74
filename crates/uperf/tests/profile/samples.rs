//! Every profile in `data`: what it checks to, and what is said about it, stands in the file beside it.
//!
//! `profiles` has the like of each that uperf is shipped with, `consumers` of those that harnesses
//! write, `transcripts` those of the recorded runs. With `UPDATE_PLANS` set the files are written: look at the
//! difference.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uperf::profile::summary;
use uperf::{Amount, FlowopFlags, FlowopKind, Workorder};

use super::{environment, lines, parse_with};

#[test]
fn every_profile_checks() {
    let mut wrong = Vec::new();
    for path in profiles() {
        let parsed = parse_with(&read(&path), &environment);
        let mut text = parsed.workorder.as_ref().map_or_else(String::new, summary);
        for line in lines(&parsed.notes) {
            // A string takes everything.
            let _ = writeln!(text, "{line}");
        }
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_PLANS").is_some() {
            fs::write(&expected, &text).expect("a file of ours");
        }
        if fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_but_two_of_the_shipped_ones_run() {
    let mut refused = Vec::new();
    for path in profiles() {
        if parse_with(&read(&path), &environment).workorder.is_none() {
            refused.push(path.file_stem().unwrap_or_default().to_owned());
        }
    }
    refused.sort();
    // The one needs reliable datagram sockets, the other flowops that uperf has no more.
    assert_eq!(refused, ["oraclerac", "rdstest"]);
}

/// The values that the recorded messages have.
#[test]
fn every_option_is_what_the_recording_has() {
    let workorder = recorded("every-option");
    let transactions = &workorder.groups[0].transactions;
    let seen: Vec<_> = transactions
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
    assert_eq!(seen, expected);

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
        panic!("six flowops");
    };
    assert_eq!(
        random.transfer.amount,
        Amount::Between {
            min: 1024,
            max: 2048
        }
    );
    // A recording has 0x40 as well, of the random size.
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

    let mixed = recorded("mixed-operations");
    let times: Vec<_> = mixed.groups[0].transactions[1].flowops[2..4]
        .iter()
        .map(|think| (think.duration.as_nanos(), think.flags))
        .collect();
    assert_eq!(
        times,
        [(5_000_000, FlowopFlags(16)), (1_500_000, FlowopFlags(32))]
    );
}

/// The template without `</transaction>` is read as if it had one, and that is said.
#[test]
fn a_missing_closer_changes_nothing() {
    let path = data().join("consumers/benchmark-operator.xml");
    let text = String::from_utf8(read(&path)).expect("text");
    let closed = text.replace(
        "size=64\"/>\n  <transaction",
        "size=64\"/>\n  </transaction>\n  <transaction",
    );
    assert_ne!(closed, text);
    let [missing, there] = [text, closed].map(|text| parse_with(text.as_bytes(), &environment));
    assert_eq!(missing.workorder, there.workorder);
    assert_eq!(missing.notes.len(), there.notes.len() + 1);
}

fn recorded(name: &str) -> Workorder {
    let path = data().join("transcripts").join(name).with_extension("xml");
    let parsed = parse_with(&read(&path), &environment);
    parsed.workorder.expect("it ran")
}

fn profiles() -> Vec<PathBuf> {
    let mut profiles: Vec<PathBuf> = ["profiles", "consumers", "transcripts"]
        .iter()
        .flat_map(|directory| fs::read_dir(data().join(directory)).expect("profiles"))
        .map(|entry| entry.expect("readable").path())
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
    fs::read(path).expect("readable")
}
