//! The tests of the whole program, suite by suite. See `testkit::run_suites` for how they run.
//!
//! A file is a suite, or a directory is. Cases that lack something (root, a stock program) are skipped
//! and say so; with `LINERATE_REQUIRE_PEERS=1` in the environment they fail.

mod aggregate;
mod book;
mod cli;
mod coverage;
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
mod serve;
mod serving;
mod truth;
mod udpmon;
mod uperf;
mod uperf_stock;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Suites with long cases come first, so that none of them is left over at the end.
    let mut suites = vec![
        ("book", book::trials()),
        ("hosts", hosts::trials()),
        ("robust", robust::trials()),
        ("run", run::trials()),
        ("uperf_stock", uperf_stock::trials()),
        ("effects", effects::trials()),
        ("aggregate", aggregate::trials()),
        ("udpmon", udpmon::trials()),
        ("uperf", uperf::trials()),
        ("cli", cli::trials()),
        ("documents", documents::trials()),
        ("interop", interop::trials()),
        ("iperf3", iperf3::trials()),
        ("iperf", iperf::trials()),
        ("iperfs", iperfs::trials()),
        ("serving", serving::trials()),
        ("flent", flent::trials()),
        ("packaging", packaging::trials()),
        ("map", map::trials()),
        ("serve", serve::trials()),
        ("truth", truth::trials()),
    ];
    let names = testkit::names(&suites);
    suites.push(("coverage", coverage::trials(names.clone())));
    suites.push(("requests", requests::trials(names)));
    testkit::run_suites(suites)
}
