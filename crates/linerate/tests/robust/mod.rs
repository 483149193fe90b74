//! netserver with many, dying and hostile clients, and clients of dying servers.
//!
//! Each test has a time limit and cleans up after itself, on failure too. The tests run one after
//! the other, because they count descriptors and measure deadlines. A test that needs root,
//! iproute2 or the stock netperf is skipped where it is missing. With `LINERATE_REQUIRE_PEERS=1`,
//! it fails there.

mod bounds;
mod clients;
mod content;
mod datagrams;
mod deadlines;
mod death;
mod doubts;
mod environment;
mod fields;
mod files;
mod hostile;
mod iterations;
mod late;
mod lifecycle;
mod masked;
mod mutated;
mod options;
mod peers;
mod privileges;
mod raw;
mod server_death;
mod stop;
mod unix;

pub(crate) use privileges::assert_runs_as_nobody;
use testkit::TestCase;

pub(crate) fn test_cases() -> Vec<TestCase> {
    [
        bounds::test_cases(),
        clients::test_cases(),
        content::test_cases(),
        datagrams::test_cases(),
        death::test_cases(),
        doubts::test_cases(),
        environment::test_cases(),
        fields::test_cases(),
        files::test_cases(),
        deadlines::test_cases(),
        server_death::test_cases(),
        stop::test_cases(),
        lifecycle::test_cases(),
        masked::test_cases(),
        options::test_cases(),
        peers::test_cases(),
        privileges::test_cases(),
        hostile::test_cases(),
        iterations::test_cases(),
        mutated::test_cases(),
        late::test_cases(),
        unix::test_cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
