//! `linerate run`: the main job. It measures, computes and prints, in that order and apart.

mod args;
mod choice;
mod doubts;
mod flows;
mod path;
mod progress;
mod settings;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use engine::Stop;
use model::Limit;
use netperf::client::{HistogramFile, Scope};
use netperf::options::{Limits, Settings};
use netperf::server::Embedded;
use report::{Peer, Report, Tested};

pub(crate) use args::Args;
use choice::Test;
use flows::Failure;
use progress::Phase;
use settings::{for_both_ways, settings};

/// A test failed.
const FAILED: u8 = 1;
/// The command line is wrong, as clap has it.
const USAGE: u8 = 2;
/// Something makes a result doubtful, with `--strict`.
const DOUBTFUL: u8 = 3;
/// SIGINT or SIGTERM came: what a shell shows of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Runs the tests and prints the report on stdout, and nothing else there.
pub(crate) fn run(args: &Args) -> ExitCode {
    let tests = match args.tests() {
        Ok(tests) => tests,
        Err(unknown) => {
            eprintln!("linerate run: {unknown}");
            return ExitCode::from(USAGE);
        }
    };
    let log = match args.histogram.as_deref().map(HistogramFile::create) {
        None => None,
        Some(Ok(log)) => Some(log),
        Some(Err(error)) => {
            eprintln!("linerate run: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let report = measure(args, &tests, &stop);
    let text = if args.json {
        report::json(&report)
    } else {
        report::text(&report)
    };
    let logged = log.map_or(Ok(()), |log| {
        let runs = report.tests.iter().flat_map(|test| &test.runs);
        log.write(&runs.collect::<Vec<_>>())
    });
    if let Err(error) = logged {
        eprintln!("linerate run: {error}");
        return ExitCode::from(FAILED);
    }
    match print(&text) {
        Err(error) => {
            eprintln!("linerate run: standard output: {}", sys::describe(&error));
            ExitCode::from(FAILED)
        }
        Ok(()) if report.interrupted => ExitCode::from(INTERRUPTED),
        Ok(()) if report.error().is_some() => ExitCode::from(FAILED),
        Ok(()) if args.strict && report.is_doubtful() => ExitCode::from(DOUBTFUL),
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn measure(args: &Args, tests: &[Test], stop: &Stop) -> Report {
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        started: SystemTime::now(),
        peer: Peer {
            host: args
                .host
                .clone()
                .unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string()),
            port: args.port.into(),
            embedded: args.host.is_none(),
        },
        tests: Vec::new(),
        not_run: Vec::new(),
        interrupted: false,
        failure: None,
    };
    report.failure = measure_tests(args, tests, stop, &mut report).err();
    report.interrupted = stop.is_set();
    report
}

/// Runs the tests one after the other; an error is one line, and keeps all of them from running.
fn measure_tests(
    args: &Args,
    tests: &[Test],
    stop: &Stop,
    report: &mut Report,
) -> Result<(), String> {
    // It ends when it is dropped, which is after the last test.
    let server = args
        .host
        .is_none()
        .then(|| Embedded::start(Limits::default()))
        .transpose();
    let server = server.map_err(|error| {
        format!(
            "could not start a server on the loopback interface: {}",
            sys::describe(&error)
        )
    })?;
    if let Some(server) = &server {
        report.peer.port = server.port().into();
    }
    let (mut peer_failed, mut failed_transports) = (false, Vec::new());
    for &test in tests {
        if stop.is_set() || peer_failed || failed_transports.contains(&test.transport) {
            report.not_run.push(test.name());
            continue;
        }
        let settings = settings(args, test, &report.peer)?;
        let (tested, failed) = measure_test(args, &settings, stop);
        // Where nothing has got through at all, nothing of another transport will, either.
        let has_measured = report.tests.iter().any(|test| !test.runs.is_empty());
        match failed {
            Some(Scope::Transport) if has_measured => failed_transports.push(test.transport),
            Some(Scope::Transport | Scope::Peer) => peer_failed = true,
            Some(Scope::Test) | None => {}
        }
        report.tests.push(tested);
    }
    Ok(())
}

/// One test: its warm-up, and each of its runs; if it failed, what else would fail.
fn measure_test(args: &Args, settings: &Settings, stop: &Stop) -> (Tested, Option<Scope>) {
    let mut failed = None;
    let (most, goal) = args.iterations();
    let mut tested = Tested {
        plan: settings.plan.clone(),
        goal,
        runs: Vec::new(),
        error: None,
        ended_early: None,
    };
    let warm_up = (args.warm_up > 0).then_some((0, args.warm_up));
    let runs = (1..=most).map(|number| (number, args.length));
    for (number, seconds) in warm_up.into_iter().chain(runs) {
        if stop.is_set() || !tested.wants_more() {
            break;
        }
        let length = Duration::from_secs(seconds.into());
        let mut settings = settings.clone();
        for_both_ways(&mut settings, |settings| {
            settings.plan.limit = Limit::Time(length);
        });
        let transactional = settings.plan.workload.is_transactional();
        let phase = Phase::new(title(&settings, number, most), length, transactional);
        let failure = match flows::run(&settings, stop, &phase) {
            Ok(outcome) => {
                let cut = Failure::of_cut(&outcome);
                // A part of a test is no sample among whole ones.
                if number > 0 && (cut.is_none() || tested.runs.is_empty()) {
                    tested.runs.push(outcome);
                }
                cut
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            tested.error = Some(failure.why);
            tested.ended_early = failure.ended_early;
            failed = Some(failure.scope);
            break;
        }
    }
    // What was open until the path was known is in the plan that was run.
    if let Some(run) = tested.runs.first() {
        tested.plan = run.plan.clone();
    }
    tested.plan.flows = args.parallel;
    tested.plan.phases.warm_up = Duration::from_secs(args.warm_up.into());
    (tested, failed)
}

fn title(settings: &Settings, number: u32, of: u32) -> String {
    let name = &settings.plan.name;
    match (number, of) {
        (0, _) => format!("{name} warm-up"),
        (_, 1) => name.clone(),
        _ => format!("{name} {number}/{of}"),
    }
}

/// A reader that has had enough is no failure.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
