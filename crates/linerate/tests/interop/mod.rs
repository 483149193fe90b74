//! Ours and Debian's netperf against each other, in every combination of client and server.
//!
//! The original's output is the reference. For the same command line ours prints the same text with
//! other figures, except where `docs/differences.md` documents a difference.
//!
//! A case without its requirements is skipped and prints the reason. With
//! `LINERATE_REQUIRE_PEERS=1` in the environment it fails.
//!
//! Most cases compare texts and counts, which load does not change. Cases that compare rates or CPU
//! time run alone, at the end.

mod confidence;
mod consumers;
mod demo;
mod errors;
mod exchange;
mod facts;
mod families;
mod field;
mod flows;
mod looper;
mod matrix;
mod nocontrol;
mod selections;
mod transports;
mod values;
mod variants;

use testkit::{Concurrency, Namespace, TestCase, test_case_unless};

/// Result of a case. An error describes the failure.
type CaseResult = Result<(), String>;

/// A test case and its requirements.
struct Case {
    name: String,
    /// Whether the case needs Debian's netperf.
    needs_stock: bool,
    needs_namespace: bool,
    concurrency: Concurrency,
    /// Reason if another requirement is not met.
    missing: Option<String>,
    run: Box<dyn Fn() -> CaseResult + Send>,
}

pub(crate) fn test_cases() -> Vec<TestCase> {
    let missing_stock = exchange::programs().missing_reason();
    let missing_namespace = Namespace::missing_reason();
    let cases = [
        matrix::cases(),
        variants::cases(),
        confidence::cases(),
        looper::cases(),
        selections::cases(),
        values::cases(),
        errors::cases(),
        consumers::cases(),
        facts::cases(),
        field::cases(),
        flows::cases(),
        demo::cases(),
        transports::cases(),
        nocontrol::cases(),
        families::cases(),
    ];
    let test_case = |case: Case| {
        let missing = None
            .or(case.missing.as_ref())
            .or(missing_stock.as_ref().filter(|_| case.needs_stock))
            .or(missing_namespace.as_ref().filter(|_| case.needs_namespace))
            .cloned();
        test_case_unless(missing, case.name, case.run).with_concurrency(case.concurrency)
    };
    cases.into_iter().flatten().map(test_case).collect()
}

impl Case {
    /// Creates a case that needs the original netperf.
    fn new(name: impl Into<String>, run: impl Fn() -> CaseResult + Send + 'static) -> Self {
        Self {
            name: name.into(),
            needs_stock: true,
            needs_namespace: false,
            concurrency: Concurrency::Busy,
            missing: None,
            run: Box::new(run),
        }
    }

    /// Sets whether the case needs a network namespace.
    fn in_namespace(mut self, needs_namespace: bool) -> Self {
        self.needs_namespace = needs_namespace;
        self
    }

    /// Makes the case run alone.
    fn run_alone(mut self) -> Self {
        self.concurrency = Concurrency::Alone;
        self
    }

    /// Marks the case as mostly waiting.
    fn allow_many_at_once(mut self) -> Self {
        self.concurrency = Concurrency::Waiting;
        self
    }

    /// Skips the case if `missing` has a reason.
    fn unless(mut self, missing: Option<String>) -> Self {
        self.missing = missing;
        self
    }

    /// Removes the requirement of the original netperf.
    fn without_stock(mut self) -> Self {
        self.needs_stock = false;
        self
    }
}
