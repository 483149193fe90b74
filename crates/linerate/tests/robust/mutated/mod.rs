//! Mutated messages within valid conversations over real connections, with each dialect's servers.
//!
//! In two of three conversations, only the last message is mutated. In the third, any two messages
//! are. The first mutated message follows valid ones that the server has answered: three of four
//! mutated messages do. The server has overflow checks and aborts if it panics.
//!
//! `FUZZ_ITERATIONS` sets the number of conversations, `FUZZ_SECONDS` a time limit, and `FUZZ_SEED`
//! repeats one conversation (`testkit::fuzz`). `LINERATE_FUZZ_BINARY` is the server's program.

mod conversation;
mod counts;
mod iperf;
mod iperf3;
mod mutation;
mod netperf;
mod servers;
mod session;
mod target;
mod third_host;
mod udpmon;
mod uperf;

use testkit::Requirement::Namespaces;
use testkit::{TestCase, test_case_unless};

use servers::FUZZ_BINARY;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases: [(&str, fn()); 5] = [
        ("mutated::netserver", netperf::run),
        ("mutated::uperf_slave", uperf::run),
        ("mutated::iperf_servers", iperf::run),
        ("mutated::iperf3_servers", iperf3::run),
        ("mutated::udpmon_responder", udpmon::run),
    ];
    let has_overflow_checks = cfg!(debug_assertions) || std::env::var_os(FUZZ_BINARY).is_some();
    let no_overflow_checks =
        (!has_overflow_checks).then(|| "this build has no overflow checks".to_owned());
    let missing = no_overflow_checks.or_else(|| Namespaces.missing_reason());
    let test_cases = test_cases.into_iter().map(|(name, run)| {
        test_case_unless(missing.clone(), name, move || {
            run();
            Ok(())
        })
    });
    test_cases.collect()
}
