//! docs/netperf-manual-coverage.md is complete, and its proofs are where it says.
//!
//! A proof is one place or several, between semicolons; a place is a file and words. The words stand
//! there, as whole words, in a line that does something: in no comment and no import, and in a source
//! file among its tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use netperf::options::{Test, manual, netperf};
use netperf::selector::Selector;
use testkit::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    testkit::trials![
        every_option_has_its_line_among_those_of_its_command_or_family,
        every_test_has_its_line,
        every_selector_has_its_line,
        every_proof_is_where_its_line_says,
        words_are_whole_and_in_lines_that_do_something,
    ]
}

/// A table of the document.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn every_option_has_its_line_among_those_of_its_command_or_family() {
    let tables = tables_of("option");
    let chapters: Vec<_> = manual::client()
        .into_iter()
        .chain(manual::server())
        .collect();
    assert_eq!(tables.len(), chapters.len());
    for (table, chapter) in tables.iter().zip(chapters) {
        let typed: BTreeSet<String> = chapter
            .options
            .iter()
            .map(|option| format!("`{}`", option.synopsis.replace('|', "\\|")))
            .collect();
        assert_eq!(table.subjects(), typed, "{}", chapter.title);
    }
}

/// Besides, the table has tests that are refused.
fn every_test_has_its_line() {
    let mut named = subjects_of("test");
    for (_, name) in Test::ALL {
        assert!(named.remove(name), "test {name}");
    }
    for name in named {
        let words = ["-t", &name].map(Into::into);
        let exit = netperf("netperf", words).expect_err("it is no test of ours");
        assert!(exit.stderr.contains("cannot run"), "{name}: {exit:?}");
    }
}

fn every_selector_has_its_line() {
    let listed: BTreeSet<String> = Selector::listed()
        .filter(|selector| !matches!(selector, Selector::Percentile(_)))
        .map(|selector| selector.name().to_string())
        .chain(["P*n*_LATENCY".to_owned()])
        .collect();
    assert_eq!(subjects_of("selector"), listed);
}

fn every_proof_is_where_its_line_says() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut wrong = Vec::new();
    for table in coverage() {
        assert_eq!(table.head.last().map(String::as_str), Some("proof"));
        for row in &table.rows {
            assert_eq!(row.len(), table.head.len(), "{row:?}");
            for place in row[row.len() - 1].split("; ") {
                let (file, words) = place.split_once(' ').unwrap_or((place, ""));
                if !stand_in(&tests.join(file), words) {
                    wrong.push(format!("{place}: {}", row[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the words stand in a line of the file that does something.
fn stand_in(path: &Path, words: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let is_source = path.components().any(|part| part.as_os_str() == "src");
    let text = match text.split_once("#[cfg(test)]") {
        Some((_, tests)) if is_source => tests,
        _ if is_source => "",
        _ => &text,
    };
    let passed_over: &[&str] = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => &["//", "use ", "mod "],
        Some("sh") => &["#"],
        _ => &[],
    };
    text.lines().map(str::trim_start).any(|line| {
        !passed_over.iter().any(|start| line.starts_with(start)) && has_words(line, words)
    })
}

/// Whether the words stand in the line, and do not begin or end within a longer one.
fn has_words(line: &str, words: &str) -> bool {
    let in_word = |char: char| char.is_alphanumeric() || char == '_';
    !words.is_empty()
        && line.match_indices(words).any(|(at, _)| {
            !line[..at].ends_with(in_word) && !line[at + words.len()..].starts_with(in_word)
        })
}

impl Table {
    /// What the lines are about; a line may be about several.
    fn subjects(&self) -> BTreeSet<String> {
        let subjects = self.rows.iter().flat_map(|row| row[0].split(", "));
        let all: Vec<String> = subjects.map(str::to_owned).collect();
        let each: BTreeSet<String> = all.iter().cloned().collect();
        assert_eq!(all.len(), each.len(), "there is one line each: {all:?}");
        each
    }
}

fn subjects_of(what: &str) -> BTreeSet<String> {
    let tables = tables_of(what);
    assert_eq!(tables.len(), 1, "tables of a {what}");
    tables[0].subjects()
}

/// The tables whose first column has this head, in order.
fn tables_of(what: &str) -> Vec<Table> {
    let mut tables = coverage();
    tables.retain(|table| table.head[0] == what);
    tables
}

fn coverage() -> Vec<Table> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/netperf-manual-coverage.md");
    let text = fs::read_to_string(path).expect("the document stands in docs");
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match tables.last_mut() {
            Some(table) if inside && line.starts_with("| ") => table.rows.push(cells(line)),
            _ if line.starts_with("| ") => tables.push(Table {
                head: cells(line),
                rows: Vec::new(),
            }),
            _ => {}
        }
        inside = line.starts_with('|');
    }
    tables
}

fn words_are_whole_and_in_lines_that_do_something() {
    for (line, words, found) in [
        ("(\"-l -2M -- -d 2\"),", "-- -d", true),
        ("(\"-l -2M -- -d 2\"),", "-- -d 2", true),
        ("(\"-l -2M -- -d 20\"),", "-- -d 2", false),
        ("fn veth() -> Outcome {", "eth", false),
        ("", "", false),
    ] {
        assert_eq!(has_words(line, words), found, "{line}: {words}");
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coverage.rs");
    assert!(stand_in(
        &here,
        "fn words_are_whole_and_in_lines_that_do_something"
    ));
    assert!(!stand_in(
        &here,
        concat!("A proof", " is one place or several")
    ));
}
