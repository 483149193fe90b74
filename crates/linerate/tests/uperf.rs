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

use testkit::{Finished, Profile, Trial, within};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = runs::trials();
    trials.extend(figures::trials());
    trials.extend(failures::trials());
    for (part, more) in [
        ("processes", processes::trials()),
        ("shipped", shipped::trials()),
        ("tls", tls::trials()),
        ("transports", transports::trials()),
    ] {
        trials.extend(within(part, more));
    }
    trials
}

/// Bytes and operations of both ends are the same.
#[track_caller]
fn agree(ended: &Finished) {
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
