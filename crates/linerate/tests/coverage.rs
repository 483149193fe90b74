//! docs/netperf-manual-coverage.md is complete, and its proofs are where it says.

#![cfg(feature = "netperf")]

use std::fs;
use std::path::{Path, PathBuf};

use netperf::options::Test;
use netperf::options::manual;
use netperf::selector::Selector;

#[test]
fn every_option_test_and_selector_has_its_line() {
    let text = coverage();
    let chapters = manual::client().into_iter().chain(manual::server());
    for option in chapters.flat_map(|chapter| chapter.options) {
        let synopsis = option.synopsis.replace('|', "\\|");
        assert!(
            text.contains(&format!("| `{synopsis}` |")),
            "option {synopsis}"
        );
    }
    for (_, name) in Test::ALL {
        assert!(text.contains(&format!("| {name} |")), "test {name}");
    }
    for selector in Selector::listed() {
        let name = selector.name();
        let is_percentile = matches!(selector, Selector::Percentile(_));
        assert!(
            is_percentile || text.contains(&format!("| {name} |")),
            "selector {name}"
        );
    }
}

#[test]
fn every_proof_is_where_the_line_says() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut wrong = Vec::new();
    for line in coverage().lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let Some(proof) = cells.last().filter(|proof| **proof != "proof") else {
            continue;
        };
        for place in proof.split("; ") {
            let (file, words) = place.split_once(' ').unwrap_or((place, ""));
            let found = fs::read_to_string(tests.join(file)).is_ok_and(|text| text.contains(words));
            if !found {
                wrong.push(format!("{place}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn coverage() -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/netperf-manual-coverage.md");
    fs::read_to_string(path).expect("the document stands in docs")
}
