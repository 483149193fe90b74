//! The dependencies, as Cargo.lock has them for this machine. `cargo deny check` before a release
//! also covers the other targets, advisories and sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{TestCase, run};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        licences_are_allowed,
        evaluates_licences,
        duplicates_are_listed
    ]
}

/// Each crate that a build contains has a licence of deny.toml. Test code may use others.
fn licences_are_allowed() {
    let allowed = quoted_words(&deny_list("allow"));
    let tree = cargo_tree(&["-e", "normal,build", "--format", "{l}|{p}"]);
    let crates: BTreeSet<&str> = tree
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    assert!(crates.len() > 50, "{crates:?}");
    let is_refused =
        |line: &&str| !is_allowed(line.split('|').next().unwrap_or_default(), &allowed);
    let refused: Vec<&str> = crates.into_iter().filter(is_refused).collect();
    assert_eq!(refused, [""; 0], "licences that deny.toml does not allow");
}

/// Evaluates an SPDX expression. A slash is the older form of OR; AND binds more strongly.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let mut expression = expression.replace('/', " OR ");
    // An innermost pair of parentheses is replaced by a licence that is allowed or not.
    while let Some(end) = expression.find(')') {
        let start = expression[..end].rfind('(').expect("balanced parentheses");
        let inner = is_allowed(&expression[start + 1..end], allowed);
        expression.replace_range(start..=end, if inner { "MIT" } else { "none" });
    }
    expression.split(" OR ").any(|alternative| {
        let mut licences = alternative.split(" AND ");
        licences.all(|licence| allowed.contains(licence.trim()))
    })
}

fn evaluates_licences() {
    let allowed = quoted_words(r#""MIT", "ISC""#);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("", false),
        ("MIT/Apache-2.0", true),
        ("Apache-2.0 OR GPL-3.0-only", false),
        ("ISC AND MIT", true),
        ("ISC AND GPL-3.0-only", false),
        ("GPL-3.0-only AND ISC OR MIT", true),
        ("(GPL-3.0-only OR MIT) AND ISC", true),
        ("((GPL-3.0-only) OR MIT) AND (GPL-3.0-only OR Zlib)", false),
        ("Apache-2.0 WITH LLVM-exception", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

/// `cargo tree -d` prints no crate twice, apart from the versions in deny.toml's `skip`.
fn duplicates_are_listed() {
    let tree = cargo_tree(&["-d", "--depth", "0"]);
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in tree.lines().filter_map(|line| line.split_once(" v")) {
        let major = version.split([' ', '.']).next().unwrap_or_default();
        let minor = version.split([' ', '.']).nth(1).unwrap_or_default();
        // Versions below 1 are compatible if the second number is equal.
        let compatible = &version[..major.len() + if major == "0" { minor.len() + 1 } else { 0 }];
        versions.entry(name).or_default().insert(compatible);
    }
    let list = deny_list("skip");
    let mut unlisted = Vec::new();
    let mut listed = quoted_words(&list);
    listed.retain(|word| word.contains('@'));
    for (name, versions) in &versions {
        let remaining = versions
            .iter()
            .filter(|version| !listed.remove(&format!("{name}@{version}")));
        if remaining.count() > 1 {
            unlisted.push(format!("{name} {versions:?}"));
        }
    }
    assert_eq!(unlisted, [""; 0], "duplicates that deny.toml does not list");
    assert_eq!(
        listed,
        BTreeSet::new(),
        "deny.toml lists crates without a duplicate"
    );
    for entry in list.lines().filter(|line| line.contains("crate = ")) {
        assert!(entry.contains("reason = \""), "no reason: {entry}");
    }
}

/// Returns the text of a list in deny.toml, up to the bracket at its end.
fn deny_list(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml");
    let text = fs::read_to_string(path).expect("deny.toml is readable");
    let (_, list) = text
        .split_once(&format!("\n{name} = ["))
        .expect("the list is in deny.toml");
    list.split(']').next().unwrap_or_default().to_owned()
}

fn quoted_words(list: &str) -> BTreeSet<String> {
    let words = list.split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// Runs `cargo tree` for all crates of the workspace, with the target of this build.
fn cargo_tree(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "tree",
        "--workspace",
        "--prefix",
        "none",
        "--offline",
        "--locked",
    ]);
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = run(command, Duration::from_secs(120)).expect("cargo starts");
    assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
    output.stdout
}
