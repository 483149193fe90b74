//! The scripts of the checkout, with stubs of the programs that they run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{TestCase, run};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![test_writes_times, documented_checks_are_run,]
}

/// Every suite takes ten minutes by the stub's clock. That exceeds the budget of some twice, and
/// does not fail the run.
fn test_writes_times() {
    let directory = tempfile::tempdir().expect("the directory for temporary files is writable");
    let root = directory.path();
    let script = fs::read_to_string(checkout().join("scripts/test")).expect("scripts/test");
    let cases = "case \"$*\" in *--not-alone*) for n in $(seq 30); do
        echo \"test robust::case $n ... ok, $n.5 s\"; done ;; esac";
    for (path, text) in [
        ("scripts/test", script.as_str()),
        ("lab/vm", "#!/bin/sh\n"),
        (
            "lab/vm-suite",
            "#!/bin/sh\necho 'ok families.unix, 100.5 s'\n",
        ),
        ("bin/cargo", &format!("#!/bin/sh\n{cases}\n")),
        (
            "bin/date",
            "#!/bin/sh\necho x >>clock\necho $(($(wc -l <clock) * 600))\n",
        ),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a new directory");
        fs::write(&path, text).expect("a new file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our file");
    }
    fs::write(root.join("Cargo.toml"), "rust-version = \"1.2\"\n").expect("a new file");
    let mut command = Command::new(root.join("scripts/test"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}/bin:{path}", root.display()));
    command.env_remove("CARGO_TARGET_DIR");
    let output = run(command, Duration::from_secs(60)).expect("the script starts");
    assert_eq!(output.code, Some(0), "{output:#?}");
    for (suite, is_slow) in [("fmt", true), ("clippy", true), ("build", false)] {
        let line = format!("=== {suite}: over twice its budget");
        assert_eq!(
            output.stdout.contains(&line),
            is_slow,
            "{line}: {output:#?}"
        );
    }
    let times = fs::read_to_string(root.join("target/test-times.txt")).expect("the times");
    let (suites, slowest) = times
        .split_once("\n\nseconds  slowest tests\n")
        .expect("two parts");
    assert_eq!(suites.lines().next(), Some("minutes  budget  suite"));
    assert!(suites.contains("\n   10.0       2  clippy\n"), "{suites}");
    assert!(suites.contains("\n   10.0       9  program\n"), "{suites}");
    let slowest: Vec<&str> = slowest.lines().collect();
    assert_eq!(slowest.len(), 20, "{slowest:?}");
    let first = ["  100.5  families.unix", "   30.5  robust::case 30"];
    assert_eq!(slowest[..2], first);
}

/// CONTRIBUTING.md names each command of `scripts/test`, and the two commands of `.ci/run`.
fn documented_checks_are_run() {
    let read = |name: &str| fs::read_to_string(checkout().join(name)).expect("a file");
    let (ci, script, guide) = (
        read(".ci/run"),
        read("scripts/test"),
        read("CONTRIBUTING.md"),
    );
    for (text, check) in [
        (&ci, "scripts/cross"),
        (&ci, "scripts/test --install-peers"),
        (&script, "--all --check"),
        (&script, "--workspace --all-targets -- -D warnings"),
        (&script, "RUSTDOCFLAGS='-D warnings' cargo doc"),
        (&script, "cargo test --workspace"),
        (&script, "lab/vm-suite"),
    ] {
        assert!(text.contains(check), "no script runs {check}");
        assert!(guide.contains(check), "CONTRIBUTING.md lacks {check}");
    }
    for check in [
        "cargo tree -d",
        "cargo +1.93 test",
        "dependencies::",
        "cargo deny check",
    ] {
        assert!(guide.contains(check), "CONTRIBUTING.md lacks {check}");
    }
}

fn checkout() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
