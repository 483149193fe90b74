//! uperf's masters and slaves, ours with ours, over loopback.

mod failures;
mod figures;
mod processes;
mod runs;
mod shipped;
mod tls;
mod transports;

#[path = "../../uperf/tests/output/rules.rs"]
mod rules;

use testkit::{ProcessOutput, Profile, TestCase, with_prefix};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = runs::test_cases();
    test_cases.extend(figures::test_cases());
    test_cases.extend(failures::test_cases());
    for (part, more) in [
        ("processes", processes::test_cases()),
        ("shipped", shipped::test_cases()),
        ("tls", tls::test_cases()),
        ("transports", transports::test_cases()),
    ] {
        test_cases.extend(with_prefix(part, more));
    }
    test_cases
}

/// Bytes and operations of both ends are the same.
#[track_caller]
fn agree(ended: &ProcessOutput) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let slave = ended.statistics("127.0.0.1");
    let master = ended.statistics("master");
    assert_eq!(slave[2], master[2], "bytes: {ended:?}");
    assert_eq!(slave[4], master[4], "operations: {ended:?}");
    assert!(!ended.stdout.contains("** "), "{ended:?}");
    assert_eq!(ended.stderr, "", "{ended:?}");
}

/// Two strands that connect, exchange something, and disconnect.
fn requests() -> String {
    Profile::requests().text()
}
