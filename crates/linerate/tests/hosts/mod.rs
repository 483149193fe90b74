//! Tests of uperf masters and slaves on separate hosts (network namespaces): loss of a process or a
//! link, and the limits of a slave.
//!
//! Most test cases wait most of the time, so they run concurrently.

mod addresses;
mod bounds;
mod fields;
mod limits;
mod lost;
pub(crate) mod network;
mod nonsense;
mod peer_text;
mod relay;
mod scripted;
mod stopped;
mod strangers;
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
        peer_text::test_cases(),
        workloads::test_cases(),
    ]
    .into_iter()
    .flatten()
    .map(TestCase::allow_many_at_once)
    .collect()
}
