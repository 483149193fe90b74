//! linerate's uperf master and slave over loopback.

mod failures;
mod figures;
mod processes;
mod runs;
mod shipped;
mod tls;
mod transports;

#[path = "../../uperf/tests/output/harness_parsers.rs"]
mod harness_parsers;

use testkit::{ProcessOutput, Profile, TestCase, with_prefix};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = runs::test_cases();
    test_cases.extend(figures::test_cases());
    test_cases.extend(failures::test_cases());
    for (prefix, prefixed_cases) in [
        ("processes", processes::test_cases()),
        ("shipped", shipped::test_cases()),
        ("tls", tls::test_cases()),
        ("transports", transports::test_cases()),
    ] {
        test_cases.extend(with_prefix(prefix, prefixed_cases));
    }
    test_cases
}

/// Checks that the run succeeds without messages, and that both ends count the same bytes and
/// operations.
#[track_caller]
fn assert_ends_agree(output: &ProcessOutput) {
    assert_eq!(output.code, Some(0), "{output:?}");
    let slave = output.statistics("127.0.0.1");
    let master = output.statistics("master");
    assert_eq!(slave[2], master[2], "bytes: {output:?}");
    assert_eq!(slave[4], master[4], "operations: {output:?}");
    assert!(!output.stdout.contains("** "), "{output:?}");
    assert_eq!(output.stderr, "", "{output:?}");
}

/// A profile with two strands that connect, exchange data and disconnect.
fn request_profile() -> String {
    Profile::requests().text()
}
