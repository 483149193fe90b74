//! uperf's masters and slaves on hosts of their own, in network namespaces: what becomes of a run when one of
//! them, or the link between them, is lost; what a slave does for whom.
//!
//! Most of them wait most of the time, so they run side by side.

mod addresses;
mod bounds;
mod fields;
mod gate;
pub(crate) mod ground;
mod limits;
mod lost;
mod nonsense;
mod scripted;
mod stopped;
mod strangers;
mod words;
mod workloads;

use testkit::TestCase;

pub(crate) fn test_cases() -> Vec<TestCase> {
    [
        addresses::test_cases(),
        bounds::test_cases(),
        fields::test_cases(),
        lost::test_cases(),
        limits::test_cases(),
        nonsense::test_cases(),
        stopped::test_cases(),
        strangers::test_cases(),
        words::test_cases(),
        workloads::test_cases(),
    ]
    .into_iter()
    .flatten()
    .map(TestCase::allow_many)
    .collect()
}
