//! Ours and Debian's netperf 2.7.0 against each other, in every combination of client and server.
//!
//! The original's output is the reference: whatever it prints for a command line, ours prints with
//! other figures, except where `docs/differences.md` says otherwise. Cases run one at a time, for
//! they measure; what they lack is said on stdout. With `LINERATE_REQUIRE_PEERS=1` in the
//! environment a case that lacks something fails.

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
mod variants;

use std::process::ExitCode;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use testkit::Namespace;

/// What a case does: an error says what is wrong.
type Outcome = Result<(), String>;

/// One case, and what it cannot do without.
struct Case {
    name: String,
    /// Debian's netperf.
    stock: bool,
    /// A network namespace of its own.
    namespace: bool,
    run: Box<dyn FnOnce() -> Outcome + Send>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);

    let no_stock = exchange::peers().missing();
    let no_namespace = Namespace::missing();
    for reason in no_stock.iter().chain(&no_namespace) {
        println!("SKIPPED what needs it: {reason}");
    }
    let required = std::env::var_os("LINERATE_REQUIRE_PEERS").is_some_and(|value| value == "1");

    let trials = [
        matrix::cases(),
        variants::cases(),
        confidence::cases(),
        looper::cases(),
        selections::cases(),
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
    let trials = trials.into_iter().flatten().map(|case| {
        let missing = None
            .or(no_stock.as_ref().filter(|_| case.stock))
            .or(no_namespace.as_ref().filter(|_| case.namespace));
        trial(case, missing, required)
    });

    let start = Instant::now();
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    println!("interop: {:.0} s", start.elapsed().as_secs_f64());
    conclusion.exit_code()
}

fn trial(case: Case, missing: Option<&String>, required: bool) -> Trial {
    let Some(reason) = missing else {
        return Trial::test(case.name, || (case.run)().map_err(Failed::from));
    };
    let reason = reason.clone();
    let kind = format!("SKIPPED: {reason}");
    if required {
        return Trial::test(case.name, || Err(Failed::from(reason)));
    }
    Trial::test(case.name, || Ok(()))
        .with_kind(kind)
        .with_ignored_flag(true)
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
            run: Box::new(run),
        }
    }

    /// The same, in a network namespace if `namespace`.
    fn inside(mut self, namespace: bool) -> Self {
        self.namespace = namespace;
        self
    }

    /// The same, which can do without the original.
    fn alone(mut self) -> Self {
        self.stock = false;
        self
    }
}
