//! ARCHITECTURE.md's list of files has each of them, and the document names none that is gone. No test
//! of the program's is left out of the list of its suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use testkit::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    testkit::trials![
        every_file_has_its_place_in_the_list,
        what_is_named_is_there,
        no_test_is_for_another_runner,
    ]
}

/// The entries of each directory of sources, by its name.
type Map = BTreeMap<String, BTreeSet<String>>;

/// These say themselves what is in their directory.
const ROOTS: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

fn every_file_has_its_place_in_the_list() {
    let (listed, there) = (listed(), there());
    for (directory, entries) in &there {
        let in_list = listed.get(directory);
        assert_eq!(in_list, Some(entries), "{directory}: listed, and there");
    }
    assert_eq!(listed.len(), there.len(), "directories listed, and there");
}

fn what_is_named_is_there() {
    let all: Vec<PathBuf> = sources().iter().map(|path| without_src(path)).collect();
    let text = architecture();
    let named = in_code_type(&text).filter(|word| is_rust(Path::new(word)));
    let gone: Vec<&str> = named
        .filter(|word| {
            let path = without_src(Path::new(word.trim_start_matches("crates/")));
            !all.iter().any(|known| known.ends_with(&path))
        })
        .collect();
    assert_eq!(gone, [""; 0]);
}

/// The compiler drops functions with this attribute from a test program that has its own `main`.
fn no_test_is_for_another_runner() {
    let attribute = concat!("#[", "test]");
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let lost: Vec<PathBuf> = files_below(&suites)
        .into_iter()
        .filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(attribute)))
        .collect();
    assert_eq!(lost, [""; 0].map(PathBuf::from));
}

/// What there is, from `crates/*/src` on.
fn there() -> Map {
    let mut map = Map::new();
    for path in sources() {
        let of_program = path.iter().nth(1).is_some_and(|part| part == "src");
        let is_root = ROOTS.iter().any(|root| path.ends_with(root));
        let mut path = without_src(&path);
        let mut entry = name(&path);
        while of_program && path.pop() && path != Path::new("") {
            let directory = map.entry(path.to_string_lossy().into_owned());
            let entries: &mut BTreeSet<String> = directory.or_default();
            if !(is_root && is_rust(Path::new(&entry))) {
                entries.insert(entry);
            }
            entry = format!("{}/", name(&path));
        }
    }
    map
}

/// What the list has: the words in code type that are files or directories, behind that of their own
/// directory.
fn listed() -> Map {
    let text = architecture();
    let (_, list) = text.split_once("\n### Files\n").expect("a list of files");
    let (list, _) = list.split_once("\n## ").expect("an end of the list");
    let of_directory = |item| {
        let mut words = in_code_type(item);
        let directory = words.next().expect("a directory").to_owned();
        let is_entry = |word: &&str| is_rust(Path::new(word)) || word.ends_with('/');
        (
            directory,
            words.filter(is_entry).map(str::to_owned).collect(),
        )
    };
    list.split("\n- ").skip(1).map(of_directory).collect()
}

/// Every file of Rust, its path from `crates` on.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let from_crates = |path: PathBuf| path.strip_prefix(&crates).expect("it is below").to_owned();
    files_below(&crates).into_iter().map(from_crates).collect()
}

/// Every file of Rust below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (mut directories, mut files) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("sources are there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                directories.push(path);
            } else if is_rust(&path) {
                files.push(path);
            }
        }
    }
    files
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

fn without_src(path: &Path) -> PathBuf {
    path.iter().filter(|part| *part != "src").collect()
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn architecture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    fs::read_to_string(path).expect("it is there")
}

/// Words and phrases between backticks.
fn in_code_type(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
