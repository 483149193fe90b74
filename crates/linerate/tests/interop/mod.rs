//! Ours and Debian's netperf 2.7.0 against each other, in every combination of client and server.
//!
//! The original's output is the reference: whatever it prints for a command line, ours prints with
//! other figures, except where `docs/differences.md` says otherwise. What a case lacks is said on
//! stdout. With `LINERATE_REQUIRE_PEERS=1` in the environment a case that lacks something fails.
//!
//! Most cases compare texts and counts, which no load changes. Those that compare rates or CPU time run
//! alone, at the end.

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

/// What a case does: an error says what is wrong.
type Outcome = Result<(), String>;

/// One case, and what it cannot do without.
struct Case {
    name: String,
    /// Debian's netperf.
    stock: bool,
    /// A network namespace of its own.
    namespace: bool,
    load: Concurrency,
    /// What else is not here, if that is so.
    lacks: Option<String>,
    run: Box<dyn FnOnce() -> Outcome + Send>,
}

pub(crate) fn test_cases() -> Vec<TestCase> {
    let no_stock = exchange::peers().missing_reason();
    let no_namespace = Namespace::missing_reason();
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
            .or(case.lacks.as_ref())
            .or(no_stock.as_ref().filter(|_| case.stock))
            .or(no_namespace.as_ref().filter(|_| case.namespace))
            .cloned();
        test_case_unless(missing, case.name, case.run).with_concurrency(case.load)
    };
    cases.into_iter().flatten().map(test_case).collect()
}

impl Case {
    /// A case that needs the original.
    fn against_stock(
        name: impl Into<String>,
        run: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            stock: true,
            namespace: false,
            load: Concurrency::Busy,
            lacks: None,
            run: Box::new(run),
        }
    }

    /// The same, in a network namespace if `namespace`.
    fn inside(mut self, namespace: bool) -> Self {
        self.namespace = namespace;
        self
    }

    /// The same, with no other case beside it.
    fn quiet(mut self) -> Self {
        self.load = Concurrency::Alone;
        self
    }

    /// The same, which mostly waits.
    fn waiting(mut self) -> Self {
        self.load = Concurrency::Waiting;
        self
    }

    /// The same, which something is missing for, if there is a reason.
    fn lacking(mut self, reason: Option<String>) -> Self {
        self.lacks = reason;
        self
    }

    /// The same, which can do without the original.
    fn alone(mut self) -> Self {
        self.stock = false;
        self
    }
}
