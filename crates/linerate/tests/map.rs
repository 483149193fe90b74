//! Checks the structure of the checkout against its documents.
//!
//! - ARCHITECTURE.md has a row for each crate, with the crate's dependencies.
//! - The first line of each source describes the source.
//! - Documents and comments name only files that exist.
//! - Modules that must not import each other do not.
//! - The runner of this program runs every test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use testkit::TestCase;

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        every_crate_has_its_row,
        every_file_says_what_it_is,
        what_is_named_is_there,
        rooms_are_apart,
        no_test_is_for_another_runner,
        no_files_of_the_engine_import_each_other,
    ]
}

/// Compares the rows of ARCHITECTURE.md's table of crates with the manifests: name, and last column.
fn every_crate_has_its_row() {
    let text = architecture();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`').to_owned();
        Some((name, cells.nth(1)?.trim_end_matches(" |").to_owned()))
    });
    let listed: BTreeMap<String, String> = rows.collect();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names: Vec<String> = fs::read_dir(&crates)
        .expect("crates")
        .flatten()
        .map(|entry| name(&entry.path()))
        .collect();
    let mut there = BTreeMap::new();
    for of in &names {
        let manifest = read(&crates.join(of).join("Cargo.toml"));
        let (_, needs) = manifest
            .split_once("\n[dependencies]\n")
            .unwrap_or_default();
        let (needs, _) = needs.split_once("\n[").unwrap_or((needs, ""));
        let mut needs: Vec<&str> = needs
            .lines()
            .filter_map(|line| line.split(['.', ' ']).next())
            .filter(|need| names.iter().any(|name| name == need))
            .collect();
        needs.sort_unstable();
        there.insert(of.clone(), needs.join(", "));
    }
    let of_all = ["linerate".to_owned()];
    for (name, needs) in &there {
        let row = listed.get(name).map(String::as_str);
        let expected = match needs.as_str() {
            _ if of_all.contains(name) => "all",
            "" => "–",
            needs => needs,
        };
        assert_eq!(
            row,
            Some(expected),
            "dependencies of {name}: in ARCHITECTURE.md (left) and in its manifest (right)"
        );
    }
}

fn every_file_says_what_it_is() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let silent: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|path| path.iter().nth(1).is_some_and(|part| part == "src"))
        .filter(|path| !read(&crates.join(path)).starts_with("//! "))
        .collect();
    assert_eq!(
        silent,
        [""; 0].map(PathBuf::from),
        "sources without a module doc in the first line"
    );
}

fn what_is_named_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directories = directories_of(&root);
    let below = directories
        .iter()
        .flat_map(|directory| files_below(&root.join(directory)));
    let in_root = fs::read_dir(&root).expect("a checkout").flatten();
    let all = below.chain(in_root.map(|entry| entry.path()));
    let all: Vec<PathBuf> = all.collect();
    let known: BTreeSet<PathBuf> = all
        .iter()
        .filter_map(|path| path.strip_prefix(&root).ok())
        .flat_map(|path| path.ancestors().map(without_src))
        .collect();
    let mut gone = Vec::new();
    for path in &all {
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => comments(&read(path)),
            Some("md") if !path.ends_with("CHANGELOG.md") => prose(&read(path)),
            _ => continue,
        };
        let names = files_named(&text, &directories).filter(|name| {
            let name = without_src(Path::new(name));
            let from_root = directories.iter().any(|first| name.starts_with(first));
            !(known.contains(&name)
                || !from_root && known.iter().any(|known| known.ends_with(&name)))
        });
        gone.extend(names.map(|name| format!("{}: {name}", path.display())));
    }
    assert_eq!(gone, [""; 0], "documents and comments name missing files");
}

/// The directories of the checkout that are part of the project: neither hidden nor in .gitignore.
fn directories_of(root: &Path) -> Vec<String> {
    let ignored = read(&root.join(".gitignore"));
    let entries = fs::read_dir(root).expect("a checkout").flatten();
    let names = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| name(&entry.path()));
    names
        .filter(|name| !name.starts_with('.'))
        .filter(|name| !ignored.lines().any(|line| line.trim_matches('/') == name))
        .collect()
}

/// Returns the words of a text that are a path: of a source, of a document, or below one of `directories`.
fn files_named<'t>(text: &'t str, directories: &[String]) -> impl Iterator<Item = &'t str> {
    let is_of_path = |char: char| char.is_ascii_alphanumeric() || "_./-$".contains(char);
    let words = text.split(move |char| !is_of_path(char));
    let words = words.map(|word| word.trim_start_matches("../").trim_end_matches(['.', '/']));
    words.filter(move |word| {
        let path = Path::new(word);
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_file = matches!(extension, Some("rs" | "md" | "sh")) && !word.starts_with('/');
        is_file
            || path.parent() != Some(Path::new(""))
                && directories.iter().any(|first| path.starts_with(first))
    })
}

/// Returns the lines of a source that are comments.
fn comments(text: &str) -> String {
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a document without its examples, which name the reader's own files.
fn prose(text: &str) -> String {
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    let lines = outside.filter(|line| !line.trim_start().starts_with("$ "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules of a dialect that do not import its `output`, and that `output` does not import.
const CLIENTS: [&str; 2] = ["client", "master"];

/// In every crate that has a module `output`.
fn rooms_are_apart() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut imports, mut pairs) = (Vec::new(), 0);
    for entry in fs::read_dir(&crates).expect("crates").flatten() {
        let source = entry.path().join("src");
        for client in CLIENTS {
            for (room, other) in [(client, "output"), ("output", client)] {
                let (files, others) = (files_of(&source, room), files_of(&source, other));
                if files.is_empty() || others.is_empty() {
                    continue;
                }
                pairs += 1;
                imports.extend(
                    files
                        .into_iter()
                        .filter(|file| imports_room(&read(file), other)),
                );
            }
        }
    }
    assert!(pairs > 0, "no crate has a client and an output");
    assert_eq!(
        imports,
        [""; 0].map(PathBuf::from),
        "a client and its output must not import each other"
    );
    for text in [
        "use crate::output::Part;",
        "use crate::{client, output};",
        "let text = super::output::text();",
    ] {
        assert!(imports_room(text, "output"), "{text}");
    }
    assert!(!imports_room(
        "// crate::output\nuse crate::outputs;",
        "output"
    ));
}

/// Returns the files of a module: the one with its name, and those in the directory with its name.
fn files_of(source: &Path, room: &str) -> Vec<PathBuf> {
    let directory = source.join(room);
    let mut files = if directory.is_dir() {
        files_below(&directory)
    } else {
        Vec::new()
    };
    let file = directory.with_extension("rs");
    if file.exists() {
        files.push(file);
    }
    files
}

/// Whether a source imports this module of its crate, outside its comments and unit tests.
fn imports_room(source: &str, room: &str) -> bool {
    let code = source
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(str::split_whitespace).collect();
    ["crate::", "super::"].into_iter().any(|root| {
        code.split(root).skip(1).any(|path| {
            let list = path
                .strip_prefix('{')
                .and_then(|list| list.split(';').next());
            let mut names = list.unwrap_or(path).split(['{', '}', ',']);
            let is_room = |name: &str| {
                let mut words = name.split(|c: char| !c.is_alphanumeric() && c != '_');
                words.next() == Some(room)
            };
            match list {
                Some(_) => names.any(is_room),
                None => is_room(path),
            }
        })
    })
}

/// No test has the attribute of the compiler's own runner, which drops such tests from a program with a `main`.
fn no_test_is_for_another_runner() {
    let attribute = concat!("#[", "test]");
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let lost: Vec<PathBuf> = files_below(&suites)
        .into_iter()
        .filter(|path| is_rust(path) && read(path).contains(attribute))
        .collect();
    assert_eq!(
        lost,
        [""; 0].map(PathBuf::from),
        "files with tests that this program does not run"
    );
}

/// Checks that imports have no cycles, so that a reader can read the files in order.
///
/// The `mod.rs` of a directory is a file like any other. Tests may import anything.
fn no_files_of_the_engine_import_each_other() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut imports: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    let files = files_below(&source).into_iter();
    let files = files.filter(|path| !path.ends_with("tests.rs"));
    let files: Vec<(Vec<String>, PathBuf)> = files
        .map(|path| (module(path.strip_prefix(&source).expect("below")), path))
        .collect();
    let is_file = |path: &[String]| files.iter().any(|(module, _)| module == path);
    for (module, path) in &files {
        let text = fs::read_to_string(path).expect("readable");
        let all = imported(&text, module).into_iter().map(|mut path| {
            while !is_file(&path) {
                path.pop();
            }
            path
        });
        let others = all.filter(|path| path != module).collect();
        imports.insert(module.clone(), others);
    }
    // Remove files without imports, until no file or only cycles are left.
    while let Some(next) = imports.iter().find(|(_, of)| of.is_empty()) {
        let next = next.0.clone();
        imports.remove(&next);
        for of in imports.values_mut() {
            of.remove(&next);
        }
    }
    assert_eq!(imports, BTreeMap::new(), "files that import each other");
}

/// Returns the path of a file's module, from the root of its crate.
fn module(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    parts
        .filter(|part| !matches!(part.as_str(), "lib" | "main" | "mod"))
        .collect()
}

/// Returns the paths that a file imports from its own crate.
fn imported(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let (code, _) = text
        .split_once("#[cfg(test)]\nmod tests {")
        .unwrap_or((text, ""));
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut all = Vec::new();
    for (at, _) in code.match_indices("::") {
        let before = &code[..at];
        let word = &before[before.trim_end_matches(is_word).len()..];
        let base = match word {
            "crate" => Vec::new(),
            "super" => module[..module.len() - 1].to_vec(),
            // In `mod.rs`, a path may begin with a child module.
            child => [module, &[child.to_owned()]].concat(),
        };
        let rest = &code[at + 2..];
        let words = match rest.strip_prefix('{') {
            Some(list) => list.split_once('}').map_or(list, |(list, _)| list),
            None => rest
                .split(|letter| !is_word(letter) && letter != ':')
                .next()
                .unwrap_or(""),
        };
        for path in words.split(',') {
            let path = path.trim().split("::").map(str::to_owned);
            all.push(base.iter().cloned().chain(path).collect());
        }
    }
    all
}

/// Returns every Rust file, with its path below `crates`.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let from_crates = |path: PathBuf| {
        path.strip_prefix(&crates)
            .expect("a path below crates")
            .to_owned()
    };
    let files = files_below(&crates)
        .into_iter()
        .filter(|path| is_rust(path));
    files.map(from_crates).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns every file below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (mut directories, mut files) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                directories.push(path);
            } else {
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
    fs::read_to_string(path).expect("ARCHITECTURE.md")
}
