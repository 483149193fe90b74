//! The tests of the whole program. `testkit::run_suites` runs them.
//!
//! Each file or directory is a suite. A test without its requirements (root, a stock program) is
//! skipped and reported. It fails if `LINERATE_REQUIRE_PEERS=1` is in the environment.

mod aggregate;
mod book;
mod cli;
mod coverage;
mod dependencies;
mod documents;
mod effects;
mod flent;
mod hosts;
mod interop;
mod iperf;
mod iperf3;
mod iperfs;
mod map;
mod packaging;
mod requests;
mod robust;
mod run;
mod scripts;
mod security;
mod serve;
mod serving;
mod third_parties;
mod truth;
mod udpmon;
mod uperf;
mod uperf_stock;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = restart_with_default_hangup() {
        return code;
    }
    // Suites with long tests come first, so that no long test runs alone at the end.
    let mut suites = vec![
        ("book", book::test_cases()),
        ("hosts", hosts::test_cases()),
        ("robust", robust::test_cases()),
        ("run", run::test_cases()),
        ("uperf_stock", uperf_stock::test_cases()),
        ("effects", effects::test_cases()),
        ("aggregate", aggregate::test_cases()),
        ("udpmon", udpmon::test_cases()),
        ("uperf", uperf::test_cases()),
        ("cli", cli::test_cases()),
        ("documents", documents::test_cases()),
        ("interop", interop::test_cases()),
        ("iperf3", iperf3::test_cases()),
        ("iperf", iperf::test_cases()),
        ("iperfs", iperfs::test_cases()),
        ("serving", serving::test_cases()),
        ("third_parties", third_parties::test_cases()),
        ("flent", flent::test_cases()),
        ("packaging", packaging::test_cases()),
        ("map", map::test_cases()),
        ("scripts", scripts::test_cases()),
        ("dependencies", dependencies::test_cases()),
        ("serve", serve::test_cases()),
        ("truth", truth::test_cases()),
    ];
    let names = testkit::full_names(&suites);
    suites.push(("coverage", coverage::test_cases(names.clone())));
    suites.push(("security", security::test_cases(names.clone())));
    suites.push(("requests", requests::test_cases(names)));
    testkit::run_suites(suites)
}

/// Runs the tests in a process that SIGHUP ends, if this one ignores it, as after nohup(1): the
/// programs under test would inherit that.
fn restart_with_default_hangup() -> Option<ExitCode> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    if ignored & 1 == 0 {
        return None;
    }
    let mut command = std::process::Command::new("env");
    command
        .arg("--default-signal=HUP")
        .arg(std::env::current_exe().ok()?)
        .args(std::env::args_os().skip(1));
    let code = command.status().ok()?.code().unwrap_or(1);
    Some(ExitCode::from(code as u8))
}
