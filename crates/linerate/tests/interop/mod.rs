//! Ours and Debian's netperf 2.7.0 against each other, in every combination of client and server.
//!
//! The original's output is the reference: whatever it prints for a command line, ours prints with
//! other figures, except where `docs/differences.md` says otherwise. What a case lacks is said on
//! stdout. With `LINERATE_REQUIRE_PEERS=1` in the environment a case that lacks something fails.
//!
//! Most cases compare texts and counts, which no load changes: they run in as many lanes as there
//! are processors, each a host of its own. Those that compare rates or CPU come after them, one at a
//! time.

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

use std::cell::OnceCell;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};
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
    /// That no other case runs beside it.
    quiet: bool,
    /// What else is not here, if that is so.
    lacks: Option<String>,
    run: Box<dyn FnOnce() -> Outcome + Send>,
}

/// The exit code of a test runner whose tests failed.
const TESTS_FAILED: u8 = 101;

/// More would share what the machine has one of: the memory of its sockets, the disk.
const MOST_LANES: usize = 4;

thread_local! {
    /// The lane's own host.
    static HOST: OnceCell<Namespace> = const { OnceCell::new() };
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let no_stock = exchange::peers().missing();
    let no_namespace = Namespace::missing();

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
    let (quiet, others): (Vec<Case>, Vec<Case>) =
        cases.into_iter().flatten().partition(|case| case.quiet);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let lanes = match no_namespace {
        None => processors.min(MOST_LANES),
        Some(_) => 1,
    };

    let failed = [(others, lanes), (quiet, 1)].map(|(cases, lanes)| {
        let trials = cases.into_iter().map(|case| {
            let missing = None
                .or(case.lacks.as_ref())
                .or(no_stock.as_ref().filter(|_| case.stock))
                .or(no_namespace.as_ref().filter(|_| case.namespace))
                .cloned();
            trial(case, missing, lanes)
        });
        let start = Instant::now();
        let mut arguments = arguments.clone();
        arguments.test_threads = Some(lanes);
        let conclusion = libtest_mimic::run(&arguments, trials.collect());
        let seconds = start.elapsed().as_secs_f64();
        println!("interop, {lanes} at a time: {seconds:.0} s");
        conclusion.has_failed()
    });
    ExitCode::from(u8::from(failed.contains(&true)) * TESTS_FAILED)
}

fn trial(case: Case, missing: Option<String>, lanes: usize) -> Trial {
    testkit::unless(missing, case.name, move || {
        if lanes > 1 {
            HOST.with(|host| {
                host.get_or_init(Namespace::of_this_thread);
            });
        }
        (case.run)()
    })
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
            quiet: false,
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
        self.quiet = true;
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
