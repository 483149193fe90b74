//! docs/netperf-manual-coverage.md, docs/iperf-coverage.md, docs/iperf3-coverage.md and docs/udpmon-coverage.md are
//! complete, and the tests that they name as proofs have run.
//!
//! A proof is one place or several, between semicolons. A place is the name of a test, or what several
//! names begin with, and words where the name does not say enough: they stand, as whole words, in a line
//! of the suite that does something, in no comment and no import.
//!
//! `LINERATE_RAN` names a file with what the runners of all tests have printed. Without it, or if some
//! were skipped in sight, the program's own tests are looked for among those that there are, and the others are not
//! looked for.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use netperf::options::{Test, manual, parse_netperf};
use netperf::selector::Selector;
use testkit::{TestCase, test_case_unless};

/// `own` are the names of this program's tests.
pub(crate) fn test_cases(own: Vec<String>) -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        every_option_has_its_line_among_those_of_its_command_or_family,
        every_test_has_its_line,
        every_selector_has_its_line,
        words_are_whole_and_in_lines_that_do_something,
        lines_of_tests_that_have_passed,
    ];
    test_cases.push(test_case_unless(None, "every_proof_has_run", move || {
        every_proof_has_run(&own);
        Ok(())
    }));
    test_cases
}

/// What of each tool is here.
const DOCUMENTS: [&str; 4] = [
    "netperf-manual-coverage.md",
    "iperf-coverage.md",
    "iperf3-coverage.md",
    "udpmon-coverage.md",
];

/// A table of a document.
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

fn every_option_has_its_line_among_those_of_its_command_or_family() {
    let netperf = manual::client().into_iter().chain(manual::server());
    let udpmon = udpmon::options::manual::chapters().into_iter();
    for (document, chapters) in [
        (DOCUMENTS[0], netperf.collect()),
        (DOCUMENTS[1], iperf::options::manual::chapters()),
        (DOCUMENTS[2], iperf3::options::manual::chapters()),
        (DOCUMENTS[3], udpmon.map(|(_, chapter)| chapter).collect()),
    ] {
        let mut tables = tables(document);
        tables.retain(|table| table.head[0] == "option");
        assert_eq!(tables.len(), chapters.len(), "{document}");
        for (table, chapter) in tables.iter().zip(chapters) {
            let options = chapter.options.iter();
            let typed: BTreeSet<String> = options
                .map(|option| format!("`{}`", option.synopsis.replace('|', "\\|")))
                .collect();
            let found = table.subjects();
            let missing: Vec<_> = typed.difference(&found).collect();
            let foreign: Vec<_> = found.difference(&typed).collect();
            assert!(
                missing.is_empty() && foreign.is_empty(),
                "{document}, {}: no lines of {missing:#?}; no options {foreign:#?}",
                chapter.title
            );
        }
    }
}

/// Besides, the table has tests that are refused.
fn every_test_has_its_line() {
    let mut named = subjects_of("test");
    for (_, name) in Test::ALL.iter().copied() {
        assert!(named.remove(name), "test {name}");
    }
    for name in named {
        let words = ["-t", &name].map(Into::into);
        let exit = parse_netperf("netperf", words).expect_err("it is no test of ours");
        assert!(exit.stderr.contains("cannot run"), "{name}: {exit:?}");
    }
}

fn every_selector_has_its_line() {
    let listed: BTreeSet<String> = Selector::list()
        .filter(|selector| !matches!(selector, Selector::Percentile(_)))
        .map(|selector| selector.name().to_string())
        .chain(["P*n*_LATENCY".to_owned()])
        .collect();
    assert_eq!(subjects_of("selector"), listed);
}

/// `own` are the names of this program's tests that can run here.
fn every_proof_has_run(own: &[String]) {
    let log = env::var_os("LINERATE_RAN").map(|path| {
        let path = PathBuf::from(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    let log = log.filter(|log| !log.lines().any(|line| line.starts_with("SKIPPED ")));
    let ran: BTreeSet<&str> = match &log {
        Some(log) => log.lines().filter_map(passed).collect(),
        None => own.iter().map(String::as_str).collect(),
    };
    let mut wrong = Vec::new();
    for table in DOCUMENTS.into_iter().flat_map(tables) {
        assert_eq!(table.head.last().map(String::as_str), Some("proof"));
        for row in &table.rows {
            assert_eq!(row.len(), table.head.len(), "{row:?}");
            for place in row[row.len() - 1].split("; ") {
                let (name, words) = place.split_once(' ').unwrap_or((place, ""));
                if let Err(why) = holds(name, words, &ran, log.is_some()) {
                    wrong.push(format!("{place} {why}: {}", row[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The name of a test that has passed, of a line of cargo's test runner, of ours or of lab/vm-suite.
fn passed(line: &str) -> Option<&str> {
    let of_runner = || {
        line.strip_prefix("test ")?
            .split_once(" ... ok")
            .map(|(name, _)| name)
    };
    of_runner().or_else(|| line.strip_prefix("ok "))
}

fn holds(name: &str, words: &str, ran: &BTreeSet<&str>, all: bool) -> Result<(), &'static str> {
    // What is no test is a document.
    if name == "ARCHITECTURE.md" {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        let found = stand_in(&path, words);
        return found.then_some(()).ok_or("stands not there");
    }
    let suite = suite_of(name);
    let is_own = matches!(&suite, Some(path) if path.starts_with(tests()));
    if (all || is_own) && !ran.iter().any(|test| is_of(test, name)) {
        return Err("has not run");
    }
    if words.is_empty() {
        return Ok(());
    }
    let suite = suite.ok_or("is of no suite that has words")?;
    let found = files_of(&suite).iter().any(|path| stand_in(path, words));
    found.then_some(()).ok_or("has other words")
}

/// Whether a test has this name, or one that begins with it.
pub(crate) fn is_of(test: &str, name: &str) -> bool {
    let rest = test.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('.'))
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The suite that a test belongs to, without the extension of its file; `None` of another crate's.
fn suite_of(name: &str) -> Option<PathBuf> {
    let (suite, rest) = name.split_at(name.find([':', '.'])?);
    // A suite of the virtual machine may have the name of one of ours.
    let (place, extension) = if rest.starts_with('.') {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/suite");
        (lab.join(suite), "sh")
    } else {
        (tests().join(suite), "rs")
    };
    Some(place).filter(|place| place.is_dir() || place.with_extension(extension).exists())
}

/// The file of a suite, and those below its directory.
fn files_of(suite: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = ["rs", "sh"]
        .map(|extension| suite.with_extension(extension))
        .into();
    for entry in fs::read_dir(suite).into_iter().flatten().flatten() {
        match entry.path() {
            directory if directory.is_dir() => files.extend(files_of(&directory)),
            file => files.push(file),
        }
    }
    files
}

/// Whether the words stand in a line of the file that does something.
fn stand_in(path: &Path, words: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
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
        let of_row = |row: &Vec<String>| -> Vec<String> {
            // An option may have two names with a comma between them.
            let several = row[0]
                .strip_prefix('`')
                .and_then(|row| row.strip_suffix('`'));
            match several {
                Some(row) => row.split("`, `").map(|one| format!("`{one}`")).collect(),
                None => row[0].split(", ").map(str::to_owned).collect(),
            }
        };
        let all: Vec<String> = self.rows.iter().flat_map(of_row).collect();
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

/// netperf's tables whose first column has this head, in order.
fn tables_of(what: &str) -> Vec<Table> {
    let mut tables = tables(DOCUMENTS[0]);
    tables.retain(|table| table.head[0] == what);
    tables
}

/// The tables of a document in docs.
pub(crate) fn tables(document: &str) -> Vec<Table> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(docs.join(document)).expect("the document stands in docs");
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
    let here = tests().join("coverage.rs");
    assert!(stand_in(
        &here,
        "fn words_are_whole_and_in_lines_that_do_something"
    ));
    assert!(!stand_in(
        &here,
        concat!("A proof", " is one place or several")
    ));
}

fn lines_of_tests_that_have_passed() {
    for (line, name) in [
        ("test tests::a ... ok", Some("tests::a")),
        (
            "test interop::a::-l_1 ... ok, 0.3 s",
            Some("interop::a::-l_1"),
        ),
        ("test tests::a ... FAILED", None),
        ("test tests::a ... ignored, 0.0 s", None),
        ("ok families.unix", Some("families.unix")),
        ("SKIPPED families.unix: no root", None),
        ("running 3 tests", None),
    ] {
        assert_eq!(passed(line), name, "{line}");
    }
    let ran = BTreeSet::from([
        "interop::matrix::tcp_rr::ipv4",
        "cli::help",
        "families.unix",
    ]);
    for (place, words, all, expected) in [
        ("cli::help", "", false, true),
        ("cli::help", "fn help", false, true),
        ("cli::help", "no such words", false, false),
        ("cli::hel", "", false, false),
        ("interop::matrix::tcp_rr", "", true, true),
        ("families.unix", "", true, true),
        // Of another program, whose tests are only known if there is a log.
        ("families.sctp", "", false, true),
        ("families.sctp", "", true, false),
        ("tests::b", "", false, true),
        ("tests::b", "", true, false),
    ] {
        let found = holds(place, words, &ran, all);
        assert_eq!(found.is_ok(), expected, "{place} {words}: {found:?}");
    }
}
