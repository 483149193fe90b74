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
        every_source_has_module_doc,
        named_files_exist,
        client_and_output_are_separate,
        every_test_uses_this_runner,
        engine_has_no_import_cycles,
    ]
}

/// Compares ARCHITECTURE.md's table of crates with the manifests: names and dependencies.
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
        .expect("crates is readable")
        .flatten()
        .map(|entry| file_name(&entry.path()))
        .collect();
    let mut manifests = BTreeMap::new();
    for name in &names {
        let manifest = read(&crates.join(name).join("Cargo.toml"));
        let (_, dependencies) = manifest
            .split_once("\n[dependencies]\n")
            .unwrap_or_default();
        let (dependencies, _) = dependencies.split_once("\n[").unwrap_or((dependencies, ""));
        let mut dependencies: Vec<&str> = dependencies
            .lines()
            .filter_map(|line| line.split(['.', ' ']).next())
            .filter(|dependency| names.iter().any(|name| name == dependency))
            .collect();
        dependencies.sort_unstable();
        manifests.insert(name.clone(), dependencies.join(", "));
    }
    for (name, dependencies) in &manifests {
        let row = listed.get(name).map(String::as_str);
        let expected = match dependencies.as_str() {
            _ if name == "linerate" => "all",
            "" => "–",
            dependencies => dependencies,
        };
        assert_eq!(
            row,
            Some(expected),
            "dependencies of {name}: in ARCHITECTURE.md (left) and in its manifest (right)"
        );
    }
}

fn every_source_has_module_doc() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let undocumented: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|path| path.iter().nth(1).is_some_and(|part| part == "src"))
        .filter(|path| !read(&crates.join(path)).starts_with("//! "))
        .collect();
    assert_eq!(
        undocumented,
        [""; 0].map(PathBuf::from),
        "sources without a module doc in the first line"
    );
}

fn named_files_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directories = project_directories(&root);
    let below = directories
        .iter()
        .flat_map(|directory| files_below(&root.join(directory)));
    let in_root = fs::read_dir(&root)
        .expect("the checkout is readable")
        .flatten();
    let paths = below.chain(in_root.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect();
    let known: BTreeSet<PathBuf> = paths
        .iter()
        .filter_map(|path| path.strip_prefix(&root).ok())
        .flat_map(|path| path.ancestors().map(without_src))
        .collect();
    let mut missing = Vec::new();
    for path in &paths {
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => comments(&read(path)),
            Some("md") if !path.ends_with("CHANGELOG.md") => prose(&read(path)),
            _ => continue,
        };
        let names = named_paths(&text, &directories).filter(|name| {
            let name = without_src(Path::new(name));
            let is_from_root = directories.iter().any(|first| name.starts_with(first));
            !(known.contains(&name)
                || !is_from_root && known.iter().any(|known| known.ends_with(&name)))
        });
        missing.extend(names.map(|name| format!("{}: {name}", path.display())));
    }
    assert_eq!(
        missing, [""; 0],
        "documents and comments name missing files"
    );
}

/// Returns the directories of the checkout that are neither hidden nor in .gitignore.
fn project_directories(root: &Path) -> Vec<String> {
    let ignored = read(&root.join(".gitignore"));
    let entries = fs::read_dir(root)
        .expect("the checkout is readable")
        .flatten();
    let names = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| file_name(&entry.path()));
    names
        .filter(|name| !name.starts_with('.'))
        .filter(|name| !ignored.lines().any(|line| line.trim_matches('/') == name))
        .collect()
}

/// Returns the words of a text that are the path of a source or document, or a path below one of
/// `directories`.
fn named_paths<'t>(text: &'t str, directories: &[String]) -> impl Iterator<Item = &'t str> {
    let is_path_char = |char: char| char.is_ascii_alphanumeric() || "_./-$".contains(char);
    let words = text.split(move |char| !is_path_char(char));
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

/// Checks every crate that has such a module and a module `output`.
fn client_and_output_are_separate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut imports, mut pairs) = (Vec::new(), 0);
    for entry in fs::read_dir(&crates).expect("crates is readable").flatten() {
        let source = entry.path().join("src");
        for client in CLIENTS {
            for (module, forbidden) in [(client, "output"), ("output", client)] {
                let files = module_files(&source, module);
                if files.is_empty() || module_files(&source, forbidden).is_empty() {
                    continue;
                }
                pairs += 1;
                imports.extend(
                    files
                        .into_iter()
                        .filter(|file| imports_module(&read(file), forbidden)),
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
        assert!(imports_module(text, "output"), "{text}");
    }
    assert!(!imports_module(
        "// crate::output\nuse crate::outputs;",
        "output"
    ));
}

/// Returns the files of a module: the file and the files in the directory with its name.
fn module_files(source: &Path, module: &str) -> Vec<PathBuf> {
    let directory = source.join(module);
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
fn imports_module(source: &str, module: &str) -> bool {
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
            let is_module = |name: &str| {
                let mut parts = name.split(|c: char| !c.is_alphanumeric() && c != '_');
                parts.next() == Some(module)
            };
            match list {
                Some(_) => names.any(is_module),
                None => is_module(path),
            }
        })
    })
}

/// No test has the attribute of the compiler's test runner. A program with its own `main` does not
/// run such tests.
fn every_test_uses_this_runner() {
    let attribute = concat!("#[", "test]");
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let ignored: Vec<PathBuf> = files_below(&suites)
        .into_iter()
        .filter(|path| is_rust(path) && read(path).contains(attribute))
        .collect();
    assert_eq!(
        ignored,
        [""; 0].map(PathBuf::from),
        "files with tests that this program does not run"
    );
}

/// Checks that imports have no cycles, so that a reader can read the files in order.
///
/// The `mod.rs` of a directory is a file like any other. Tests may import anything.
fn engine_has_no_import_cycles() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut imports: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    let files = files_below(&source).into_iter();
    let files = files.filter(|path| !path.ends_with("tests.rs"));
    let files: Vec<(Vec<String>, PathBuf)> = files
        .map(|path| {
            (
                module_path(
                    path.strip_prefix(&source)
                        .expect("the path is below the source"),
                ),
                path,
            )
        })
        .collect();
    let is_file = |path: &[String]| files.iter().any(|(module, _)| module == path);
    for (module, path) in &files {
        let text = fs::read_to_string(path).expect("the source is readable");
        let imported = imported_paths(&text, module).into_iter().map(|mut path| {
            while !is_file(&path) {
                path.pop();
            }
            path
        });
        let imported = imported.filter(|path| path != module).collect();
        imports.insert(module.clone(), imported);
    }
    // Remove files without imports, until no file or only cycles are left.
    while let Some(next) = imports.iter().find(|(_, imported)| imported.is_empty()) {
        let next = next.0.clone();
        imports.remove(&next);
        for imported in imports.values_mut() {
            imported.remove(&next);
        }
    }
    assert_eq!(imports, BTreeMap::new(), "files that import each other");
}

/// Returns the path of a file's module, from the root of its crate.
fn module_path(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    parts
        .filter(|part| !matches!(part.as_str(), "lib" | "main" | "mod"))
        .collect()
}

/// Returns the paths that a file imports from its own crate.
fn imported_paths(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let (code, _) = text
        .split_once("#[cfg(test)]\nmod tests {")
        .unwrap_or((text, ""));
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect();
    let is_word_char = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut imports = Vec::new();
    for (separator, _) in code.match_indices("::") {
        let before = &code[..separator];
        let root = &before[before.trim_end_matches(is_word_char).len()..];
        let base = match root {
            "crate" => Vec::new(),
            "super" => module[..module.len() - 1].to_vec(),
            // In `mod.rs`, a path may begin with a child module.
            child => [module, &[child.to_owned()]].concat(),
        };
        let after = &code[separator + 2..];
        let paths = match after.strip_prefix('{') {
            Some(list) => list.split_once('}').map_or(list, |(list, _)| list),
            None => after
                .split(|letter| !is_word_char(letter) && letter != ':')
                .next()
                .unwrap_or(""),
        };
        for path in paths.split(',') {
            let path = path.trim().split("::").map(str::to_owned);
            imports.push(base.iter().cloned().chain(path).collect());
        }
    }
    imports
}

/// Returns every Rust file, with its path below `crates`.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let from_crates = |path: PathBuf| {
        path.strip_prefix(&crates)
            .expect("the path is below crates")
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
        for entry in fs::read_dir(directory).expect("the directory is readable") {
            let path = entry.expect("the entry is readable").path();
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

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn architecture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    fs::read_to_string(path).expect("ARCHITECTURE.md is readable")
}
