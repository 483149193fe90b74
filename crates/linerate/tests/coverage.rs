//! Checks docs/netperf-manual-coverage.md, docs/iperf-coverage.md, docs/iperf3-coverage.md and
//! docs/udpmon-coverage.md: they are complete, and the tests that they name as proofs have run.
//!
//! A proof is a list of references, separated by semicolons. A reference is the name of a test or
//! of a group of tests. Words may follow the name: a code line of the suite must contain them as
//! whole words. Comments and imports are not code lines.
//!
//! `LINERATE_RAN` names a file with the output of all test runners. Without it, or if it reports
//! skipped tests, the proofs of this program need only exist, and other proofs are not checked.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use netperf::options::{Test, manual, parse_netperf};
use netperf::selector::Selector;
use testkit::{TestCase, test_case_unless};

/// `own_tests` are the names of this program's tests.
pub(crate) fn test_cases(own_tests: Vec<String>) -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        every_option_has_its_row,
        every_test_has_its_row,
        every_selector_has_its_row,
        finds_whole_words_in_code_lines,
        recognizes_passed_tests,
    ];
    test_cases.push(test_case_unless(None, "every_proof_has_run", move || {
        every_proof_has_run(&own_tests);
        Ok(())
    }));
    test_cases
}

/// The coverage document of each tool.
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

fn every_option_has_its_row() {
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
            let expected: BTreeSet<String> = options
                .map(|option| format!("`{}`", option.synopsis.replace('|', "\\|")))
                .collect();
            let found = table.subjects();
            let missing: Vec<_> = expected.difference(&found).collect();
            let unknown: Vec<_> = found.difference(&expected).collect();
            assert!(
                missing.is_empty() && unknown.is_empty(),
                "{document}, {}: missing rows {missing:#?}; rows of unknown options {unknown:#?}",
                chapter.title
            );
        }
    }
}

/// The table's other rows are tests that linerate refuses.
fn every_test_has_its_row() {
    let mut subjects = subjects_of("test");
    for (_, name) in Test::ALL.iter().copied() {
        assert!(subjects.remove(name), "test {name}");
    }
    for name in subjects {
        let arguments = ["-t", &name].map(Into::into);
        let exit = parse_netperf("netperf", arguments).expect_err("linerate refuses the test");
        assert!(exit.stderr.contains("cannot run"), "{name}: {exit:?}");
    }
}

fn every_selector_has_its_row() {
    let expected: BTreeSet<String> = Selector::list()
        .filter(|selector| !matches!(selector, Selector::Percentile(_)))
        .map(|selector| selector.name().to_string())
        .chain(["P*n*_LATENCY".to_owned()])
        .collect();
    assert_eq!(subjects_of("selector"), expected);
}

/// `own_tests` are the names of this program's tests that can run here.
fn every_proof_has_run(own_tests: &[String]) {
    let log = env::var_os("LINERATE_RAN").map(|path| {
        let path = PathBuf::from(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    let log = log.filter(|log| !log.lines().any(|line| line.starts_with("SKIPPED ")));
    let ran: BTreeSet<&str> = match &log {
        Some(log) => log.lines().filter_map(passed_test).collect(),
        None => own_tests.iter().map(String::as_str).collect(),
    };
    let mut failures = Vec::new();
    for table in DOCUMENTS.into_iter().flat_map(tables) {
        assert_eq!(table.head.last().map(String::as_str), Some("proof"));
        for row in &table.rows {
            assert_eq!(row.len(), table.head.len(), "{row:?}");
            for reference in row[row.len() - 1].split("; ") {
                let (name, words) = reference.split_once(' ').unwrap_or((reference, ""));
                if let Err(reason) = check_reference(name, words, &ran, log.is_some()) {
                    failures.push(format!("{reference} {reason}: {}", row[0]));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the name of a passed test from an output line of cargo's test runner, of this runner, or
/// of lab/vm-suite.
fn passed_test(line: &str) -> Option<&str> {
    let from_runner = || {
        line.strip_prefix("test ")?
            .split_once(" ... ok")
            .map(|(name, _)| name)
    };
    let from_machine = || line.strip_prefix("ok ")?.split(", ").next();
    from_runner().or_else(from_machine)
}

/// Checks a reference against the tests in `ran`. If `is_complete`, `ran` has the tests of all
/// programs.
fn check_reference(
    name: &str,
    words: &str,
    ran: &BTreeSet<&str>,
    is_complete: bool,
) -> Result<(), &'static str> {
    // A reference may name a document.
    if name == "ARCHITECTURE.md" {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        let is_found = has_code_line(&path, words);
        return is_found.then_some(()).ok_or("is missing there");
    }
    let suite = suite_of(name);
    let is_own = matches!(&suite, Some(path) if path.starts_with(tests_directory()));
    if (is_complete || is_own) && !ran.iter().any(|test| has_name_or_group(test, name)) {
        return Err("has not run");
    }
    if words.is_empty() {
        return Ok(());
    }
    let suite = suite.ok_or("belongs to a suite without files")?;
    let is_found = files_of(&suite)
        .iter()
        .any(|path| has_code_line(path, words));
    is_found.then_some(()).ok_or("lacks these words")
}

/// Whether a test has this name or belongs to the group of this name.
pub(crate) fn has_name_or_group(test: &str, name: &str) -> bool {
    let suffix = test.strip_prefix(name);
    suffix.is_some_and(|suffix| {
        suffix.is_empty() || suffix.starts_with("::") || suffix.starts_with('.')
    })
}

fn tests_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Returns the path of a test's suite without the extension, or `None` for other crates.
fn suite_of(name: &str) -> Option<PathBuf> {
    let (suite, suffix) = name.split_at(name.find([':', '.'])?);
    // A suite of the virtual machine may have the same name as a suite here.
    let (path, extension) = if suffix.starts_with('.') {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/suite");
        (lab.join(suite), "sh")
    } else {
        (tests_directory().join(suite), "rs")
    };
    Some(path).filter(|path| path.is_dir() || path.with_extension(extension).exists())
}

/// Returns the file of a suite, and the files below its directory.
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

/// Whether a code line of the file contains the words.
fn has_code_line(path: &Path, words: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let skipped_prefixes: &[&str] = match path.extension().and_then(|extension| extension.to_str())
    {
        Some("rs") => &["//", "use ", "mod "],
        Some("sh") => &["#"],
        _ => &[],
    };
    text.lines().map(str::trim_start).any(|line| {
        !skipped_prefixes
            .iter()
            .any(|prefix| line.starts_with(prefix))
            && has_words(line, words)
    })
}

/// Whether the line contains the words, not as parts of longer words.
fn has_words(line: &str, words: &str) -> bool {
    let is_word_char = |char: char| char.is_alphanumeric() || char == '_';
    !words.is_empty()
        && line.match_indices(words).any(|(start, _)| {
            !line[..start].ends_with(is_word_char)
                && !line[start + words.len()..].starts_with(is_word_char)
        })
}

impl Table {
    /// Returns the subjects of the rows. A row may have several.
    fn subjects(&self) -> BTreeSet<String> {
        let of_row = |row: &Vec<String>| -> Vec<String> {
            // A comma separates options. One option may have two names with a comma between them.
            let options = row[0]
                .strip_prefix('`')
                .and_then(|row| row.strip_suffix('`'));
            match options {
                Some(row) => row
                    .split("`, `")
                    .map(|option| format!("`{option}`"))
                    .collect(),
                None => row[0].split(", ").map(str::to_owned).collect(),
            }
        };
        let all: Vec<String> = self.rows.iter().flat_map(of_row).collect();
        let subjects: BTreeSet<String> = all.iter().cloned().collect();
        assert_eq!(all.len(), subjects.len(), "duplicate rows: {all:?}");
        subjects
    }
}

fn subjects_of(head: &str) -> BTreeSet<String> {
    let tables = tables_of(head);
    assert_eq!(tables.len(), 1, "tables with the head {head}");
    tables[0].subjects()
}

/// Returns netperf's tables whose first column has this head, in order.
fn tables_of(head: &str) -> Vec<Table> {
    let mut tables = tables(DOCUMENTS[0]);
    tables.retain(|table| table.head[0] == head);
    tables
}

/// Returns the tables of a document in docs.
pub(crate) fn tables(document: &str) -> Vec<Table> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(docs.join(document)).expect("the document is in docs");
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let mut tables: Vec<Table> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match tables.last_mut() {
            Some(table) if is_inside && line.starts_with("| ") => table.rows.push(cells(line)),
            _ if line.starts_with("| ") => tables.push(Table {
                head: cells(line),
                rows: Vec::new(),
            }),
            _ => {}
        }
        is_inside = line.starts_with('|');
    }
    tables
}

fn finds_whole_words_in_code_lines() {
    for (line, words, is_found) in [
        ("(\"-l -2M -- -d 2\"),", "-- -d", true),
        ("(\"-l -2M -- -d 2\"),", "-- -d 2", true),
        ("(\"-l -2M -- -d 20\"),", "-- -d 2", false),
        ("fn veth() -> Outcome {", "eth", false),
        ("", "", false),
    ] {
        assert_eq!(has_words(line, words), is_found, "{line}: {words}");
    }
    let source = tests_directory().join("coverage.rs");
    assert!(has_code_line(&source, "fn finds_whole_words_in_code_lines"));
    assert!(!has_code_line(
        &source,
        concat!("A proof", " is a list of references")
    ));
}

fn recognizes_passed_tests() {
    for (line, name) in [
        ("test tests::a ... ok", Some("tests::a")),
        (
            "test interop::a::-l_1 ... ok, 0.3 s",
            Some("interop::a::-l_1"),
        ),
        ("test tests::a ... FAILED", None),
        ("test tests::a ... ignored, 0.0 s", None),
        ("ok families.unix", Some("families.unix")),
        ("ok families.unix, 1.2 s", Some("families.unix")),
        ("SKIPPED families.unix: no root", None),
        ("running 3 tests", None),
    ] {
        assert_eq!(passed_test(line), name, "{line}");
    }
    let ran = BTreeSet::from([
        "interop::matrix::tcp_rr::ipv4",
        "cli::help",
        "families.unix",
    ]);
    for (name, words, is_complete, expected) in [
        ("cli::help", "", false, true),
        ("cli::help", "fn help", false, true),
        ("cli::help", "no such words", false, false),
        ("cli::hel", "", false, false),
        ("interop::matrix::tcp_rr", "", true, true),
        ("families.unix", "", true, true),
        // The tests of other programs are known only with a log.
        ("families.sctp", "", false, true),
        ("families.sctp", "", true, false),
        ("tests::b", "", false, true),
        ("tests::b", "", true, false),
    ] {
        let result = check_reference(name, words, &ran, is_complete);
        assert_eq!(result.is_ok(), expected, "{name} {words}: {result:?}");
    }
}
