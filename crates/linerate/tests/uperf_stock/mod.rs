//! Interoperation of linerate's and stock uperf's masters and slaves.
//!
//! Each case first runs stock with stock, as the reference. Then it runs linerate's master with
//! stock's slave, stock's master with linerate's slave, and linerate with itself. The exit code and
//! the text must match the reference, except for figures and the differences that
//! `docs/differences.md` lists. The counts of both ends must agree within 1 %. If stock fails with
//! itself, the case gives the reason and linerate must succeed.
//!
//! No distribution packages stock uperf. Without it the cases are skipped, even with
//! `LINERATE_REQUIRE_PEERS=1`. See [`StockUperf`] for the searched directories. Cases mostly wait,
//! so many run concurrently.

mod case;
mod cases;
mod pair;
mod profiles;
mod text;

use std::panic::resume_unwind;
use std::thread;

use testkit::{Namespace, StockUperf, TestCase};

use case::Case;
use pair::{Pairing, Program};

/// Result of a case. The error describes the failure.
type Outcome = Result<(), String>;

/// Versions of stock uperf. The oldest version runs few cases, because its text is the same.
const VERSIONS: [StockUperf; 3] = [StockUperf::Head, StockUperf::V1_0_8, StockUperf::V1_0_7];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let no_namespace = Namespace::missing_reason();
    let mut test_cases = Vec::new();
    let mut all_pairings = Vec::new();
    for (number, version) in VERSIONS.into_iter().enumerate() {
        let missing_program = version.program().err();
        let missing = missing_program.or_else(|| no_namespace.clone());
        let cases = cases::cases().into_iter().chain(profiles::cases());
        for case in cases.filter(|case| version != StockUperf::V1_0_7 || case.is_for_all_versions) {
            if number == 0 {
                case.omissions()
                    .iter()
                    .for_each(|omission| println!("{omission}"));
            }
            let pairings = pairings(&case, version, number == 0);
            all_pairings.extend(pairings.clone());
            let name = format!("{version}: {}", case.name);
            let run = move || run_on_own_host(|| case.check(version, &pairings));
            test_cases
                .push(testkit::optional_test_case(missing.clone(), name, run).allow_many_at_once());
        }
    }
    print_counts(&all_pairings);
    test_cases
}

/// Runs a case on a separate host with small socket buffers. A stock slave does not count the data
/// that is in them at the deadline of a transaction.
fn run_on_own_host(case: impl FnOnce() -> Outcome + Send) -> Outcome {
    let run = || {
        let _host = Namespace::enter_new();
        for limits in ["tcp_rmem", "tcp_wmem"] {
            let path = format!("/proc/sys/net/ipv4/{limits}");
            std::fs::write(path, "4096 65536 131072").expect("root can write sysctls");
        }
        case()
    };
    let result = thread::scope(|scope| scope.spawn(run).join());
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns the pairings of a case, without its reference. `with_ours` includes linerate with itself.
fn pairings(case: &Case, version: StockUperf, with_ours: bool) -> Vec<Pairing> {
    let stock = Program::Stock(version);
    let all = [
        Pairing::new(Program::Ours, stock),
        Pairing::new(stock, Program::Ours),
        Pairing::new(Program::Ours, Program::Ours),
    ];
    let selected = all
        .into_iter()
        .filter(|pairing| with_ours || pairing.has_stock() || !case.has_slave);
    selected.filter(|pairing| case.runs_in(*pairing)).collect()
}

/// Prints the number of cases per pairing.
fn print_counts(pairings: &[Pairing]) {
    let mut distinct: Vec<Pairing> = Vec::new();
    for pairing in pairings {
        if !distinct.contains(pairing) {
            distinct.push(*pairing);
        }
    }
    for pairing in distinct {
        let count = pairings.iter().filter(|other| **other == pairing).count();
        println!("{pairing}: {count} cases");
    }
}
