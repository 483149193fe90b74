//! uperf's masters and slaves, ours and stock's, against each other.
//!
//! Each case runs stock with stock first, as the control. Then it runs our master with stock's slave, stock's master
//! with our slave, and ours with ours. The exit code and the text must be the control's, but for the figures and for
//! what `docs/differences.md` lists; both ends must have counted the same, within one per cent. Where stock fails with
//! itself the case says why, and ours must succeed.
//!
//! No package has stock uperf: without it the cases are skipped, even with `LINERATE_REQUIRE_PEERS=1`. See
//! [`testkit::Uperf`] for where it is looked for. Most of a case is waiting, so many run side by side.

mod case;
mod cases;
mod pair;
mod profiles;
mod text;

use std::panic::resume_unwind;
use std::thread;

use testkit::{Namespace, StockUperf, TestCase};

use case::Case;
use pair::{Make, Pairing};

/// What a case does: an error says what is wrong.
type Outcome = Result<(), String>;

/// Those of the oldest version are few: its text is that of the others.
const VERSIONS: [StockUperf; 3] = [StockUperf::Head, StockUperf::V1_0_8, StockUperf::V1_0_7];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let no_namespace = Namespace::missing_reason();
    let mut test_cases = Vec::new();
    let mut counts = Vec::new();
    for (number, version) in VERSIONS.into_iter().enumerate() {
        let missing = version.program().err();
        let missing = missing.or_else(|| no_namespace.clone());
        let cases = cases::cases().into_iter().chain(profiles::cases());
        for case in cases.filter(|case| version != StockUperf::V1_0_7 || case.is_for_all) {
            if number == 0 {
                case.gaps().iter().for_each(|gap| println!("{gap}"));
            }
            let pairings = pairings(&case, version, number == 0);
            counts.extend(pairings.clone());
            let name = format!("{version}: {}", case.name);
            let run = move || on_own_host(|| case.check(version, &pairings));
            test_cases.push(testkit::optional_test_case(missing.clone(), name, run).allow_many());
        }
    }
    print_counts(&counts);
    test_cases
}

/// Runs a case on a host whose sockets have small buffers: what is in them when a transaction's time is up, a stock
/// slave does not count.
fn on_own_host(case: impl FnOnce() -> Outcome + Send) -> Outcome {
    let run = || {
        let _host = Namespace::enter_new();
        for limits in ["tcp_rmem", "tcp_wmem"] {
            let path = format!("/proc/sys/net/ipv4/{limits}");
            std::fs::write(path, "4096 65536 131072").expect("the host is ours");
        }
        case()
    };
    let ended = thread::scope(|scope| scope.spawn(run).join());
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// What a case runs beside its control: ours with ours once.
fn pairings(case: &Case, version: StockUperf, with_ours: bool) -> Vec<Pairing> {
    let stock = Make::Stock(version);
    let all = [
        Pairing::new(Make::Ours, stock),
        Pairing::new(stock, Make::Ours),
        Pairing::new(Make::Ours, Make::Ours),
    ];
    let wanted = all
        .into_iter()
        .filter(|pairing| with_ours || pairing.has_stock() || !case.has_slave);
    wanted.filter(|pairing| case.runs_with(*pairing)).collect()
}

/// How many cases each pairing has.
fn print_counts(pairings: &[Pairing]) {
    let mut kinds: Vec<Pairing> = Vec::new();
    for pairing in pairings {
        if !kinds.contains(pairing) {
            kinds.push(*pairing);
        }
    }
    for kind in kinds {
        let count = pairings.iter().filter(|other| **other == kind).count();
        println!("{kind}: {count} cases");
    }
}
