//! `linerate run`: runs the tests, then computes the figures, then prints the report.

mod args;
mod flows;
mod path;
mod progress;
mod settings;
mod test_selection;
mod warnings;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use engine::Stop;
use model::{Limit, Workload};
use netperf::client::{FailureScope, HistogramFile};
use netperf::options::{ServerLimits, Settings};
use netperf::server::EmbeddedServer;
use report::{PaceLimit, PeerInfo, Report, TestFigures, TestReport};
use units::BitRate;

use crate::document::{self, Page};
pub(crate) use args::Args;
use args::UdpRate;
use flows::Failure;
use progress::Phase;
use settings::{for_both_directions, sends_datagrams, settings};
use test_selection::Test;

/// Exit code: a test failed.
const FAILED: u8 = 1;
/// Exit code: the command line is wrong. clap uses the same code.
const USAGE_ERROR: u8 = 2;
/// Exit code with `--strict`: there is a warning.
const HAS_WARNINGS: u8 = 3;
/// Exit code: SIGINT or SIGTERM ended the run. A shell reports 130 for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Runs the tests and prints the report. Standard output contains only the report.
pub(crate) fn run(args: &Args) -> ExitCode {
    let tests = match args.tests() {
        Ok(tests) => tests,
        Err(error) => {
            sys::write_error_line(format_args!("linerate run: {error}"));
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let log = match args.histogram.as_deref().map(HistogramFile::create) {
        None => None,
        Some(Ok(log)) => Some(log),
        Some(Err(error)) => {
            sys::write_error_line(format_args!("linerate run: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let page = match args.html.as_deref().map(Page::open).transpose() {
        Ok(page) => page,
        Err(error) => {
            sys::write_error_line(format_args!("linerate run: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let stop = Stop::new();
    crate::signals::stop_on_signals(&stop);
    let report = measure(args, &tests, &stop);
    let text = if args.json {
        report::json(&report)
    } else {
        report::text(&report, report_columns())
    };
    let log_result = log.map_or(Ok(()), |log| {
        let runs = report.tests.iter().flat_map(|test| &test.runs);
        log.write(&runs.collect::<Vec<_>>())
    });
    let log_result = log_result.map_err(|error| error.to_string());
    let page_result = page.map_or(Ok(()), |page| page.write(&report));
    if let Err(error) = log_result.and(page_result) {
        sys::write_error_line(format_args!("linerate run: {error}"));
        return ExitCode::from(FAILED);
    }
    // `main` reports an error.
    let _ = getopt::stdout().write_all(text.as_bytes());
    if report.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if report.error().is_some() {
        ExitCode::from(FAILED)
    } else if args.strict && report.has_warnings() {
        ExitCode::from(HAS_WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}

fn measure(args: &Args, tests: &[Test], stop: &Stop) -> Report {
    let host = args.host().map(str::to_owned);
    let peer = PeerInfo {
        embedded: host.is_none(),
        ..PeerInfo::new(
            host.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string()),
            args.port().into(),
        )
    };
    let mut report = Report {
        command_line: report::quote_command_line(std::env::args_os()),
        ..Report::new(peer, SystemTime::now())
    };
    report.failure = measure_tests(args, tests, stop, &mut report).err();
    report.interrupted = stop.is_set();
    report.peer.kind = document::netserver_kind(&report);
    report
}

/// Runs the tests one after the other. An error is one line; the remaining tests then do not run.
fn measure_tests(
    args: &Args,
    tests: &[Test],
    stop: &Stop,
    report: &mut Report,
) -> Result<(), String> {
    // The server ends when it is dropped, after the last test.
    let server = args
        .host()
        .is_none()
        .then(|| EmbeddedServer::start(ServerLimits::default()))
        .transpose();
    let server = server.map_err(|error| {
        format!(
            "cannot start a server on the loopback interface: {}",
            sys::describe(&error)
        )
    })?;
    if let Some(server) = &server {
        report.peer.port = Some(server.port().into());
    }
    let (mut peer_failed, mut failed_transports) = (false, Vec::new());
    for &test in tests {
        if stop.is_set() || peer_failed || failed_transports.contains(&test.transport) {
            report.not_run.push(test.name());
            continue;
        }
        let settings = settings(args, test, &report.peer)?;
        let pace = pace_limit(args, &settings, report, stop);
        let (test_report, failure_scope) = match pace {
            Ok(pace) => measure_test(args, &settings, pace, stop),
            Err(failure) => failed_test_report(&settings, failure),
        };
        // If no test has a result yet, the other transports would probably fail too.
        let has_measured = report.tests.iter().any(|test| !test.runs.is_empty());
        match failure_scope {
            Some(FailureScope::Transport) if has_measured => failed_transports.push(test.transport),
            Some(FailureScope::Transport | FailureScope::Peer) => peer_failed = true,
            Some(FailureScope::Test) | None => {}
        }
        report.tests.push(test_report);
    }
    Ok(())
}

/// Returns the rate limit for one-way datagrams: the requested rate, or the rate of a stream test,
/// so that the datagrams do not flood the path.
fn pace_limit(
    args: &Args,
    settings: &Settings,
    report: &Report,
    stop: &Stop,
) -> Result<Option<PaceLimit>, Failure> {
    if !sends_datagrams(settings) || args.udp_rate == Some(UdpRate::Unlimited) {
        return Ok(None);
    }
    if let Some(UdpRate::Paced(rate)) = args.udp_rate {
        return Ok(Some(PaceLimit {
            rate,
            reference_test: None,
        }));
    }
    let is_stream = |test: &&TestReport| {
        let flow = test.plan.flow();
        flow.is_some_and(|flow| {
            !flow.transport.has_datagrams() && flow.workload == Workload::send()
        })
    };
    let measured = report.tests.iter().rfind(is_stream);
    let measured = measured.and_then(|test| Some((test.plan.name.clone(), test.mean_rate()?)));
    let (name, rate) = match measured.filter(|(_, rate)| *rate > 0.0) {
        Some(measured) => measured,
        None => measure_stream_rate(args, &report.peer, stop)?,
    };
    let directions = if args.bidirectional { 2.0 } else { 1.0 };
    Ok(Some(PaceLimit {
        rate: BitRate(rate / directions),
        reference_test: Some(name),
    }))
}

/// Runs a stream test of 1 s, which the report omits, to measure a rate. Returns the test's name
/// and its rate in bit/s.
fn measure_stream_rate(
    args: &Args,
    peer: &PeerInfo,
    stop: &Stop,
) -> Result<(String, f64), Failure> {
    const LENGTH: Duration = Duration::from_secs(1);
    let mut args = args.clone();
    (args.length, args.histogram) = (LENGTH.as_secs() as u32, None);
    let settings = settings(&args, Test::TCP_STREAM, peer).map_err(Failure::for_test)?;
    let name = settings.name.clone();
    let phase = Phase::new(format!("{name} for pacing"), LENGTH, false);
    let run = flows::run(&settings, None, stop, &phase);
    let outcome = run.map_err(|failure| match failure.scope {
        FailureScope::Peer => failure,
        // Datagrams may work although the stream failed.
        _ => Failure::for_test(format!(
            "cannot measure a rate for pacing (--udp-rate sets one): {name}: {}",
            failure.reason
        )),
    })?;
    match TestFigures::from_outcome(&outcome).rate() {
        Some(rate) if rate > 0.0 => Ok((name, rate)),
        _ => Err(Failure::for_test(
            "the stream test for pacing measured no rate (--udp-rate sets one)".to_owned(),
        )),
    }
}

fn failed_test_report(settings: &Settings, failure: Failure) -> (TestReport, Option<FailureScope>) {
    let mut test_report = TestReport::new(settings.plan());
    test_report.error = Some(failure.reason);
    (test_report, Some(failure.scope))
}

/// Runs one test: its warm-up and its runs. If it fails, also returns the scope of the failure.
fn measure_test(
    args: &Args,
    settings: &Settings,
    pace: Option<PaceLimit>,
    stop: &Stop,
) -> (TestReport, Option<FailureScope>) {
    let mut failure_scope = None;
    let (max_runs, goal) = args.iterations();
    let rate = pace.as_ref().map(|pace| pace.rate);
    let mut test_report = TestReport {
        goal,
        pace_limit: pace,
        ..TestReport::new(settings.plan())
    };
    // The warm-up is run 0.
    let warm_up = (args.warm_up > 0).then_some((0, args.warm_up));
    let runs = (1..=max_runs).map(|run_number| (run_number, args.length));
    for (run_number, seconds) in warm_up.into_iter().chain(runs) {
        if stop.is_set() || !test_report.needs_more_runs() {
            break;
        }
        let length = Duration::from_secs(seconds.into());
        let mut settings = settings.clone();
        for_both_directions(&mut settings, |settings| {
            settings.flow.limit = Limit::Time(length);
        });
        let is_transactional = settings.flow.workload.is_transactional();
        let phase = Phase::new(
            phase_title(&settings, run_number, max_runs),
            length,
            is_transactional,
        );
        let failure = match flows::run(&settings, rate, stop, &phase) {
            Ok(mut outcome) => {
                if test_report
                    .pace_limit
                    .as_ref()
                    .is_some_and(|pace| pace.reference_test.is_some())
                {
                    warnings::remove_pacing_warnings(&mut outcome);
                }
                let early_end = Failure::for_early_end(&outcome);
                // A shortened run is recorded only if there are no complete runs.
                if run_number > 0 && (early_end.is_none() || test_report.runs.is_empty()) {
                    test_report.runs.push(outcome);
                }
                early_end
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            test_report.error = Some(failure.reason);
            test_report.ended_early = failure.ended_early;
            failure_scope = Some(failure.scope);
            break;
        }
    }
    // The plan of a run contains the settings that depend on the path.
    if let Some(run) = test_report.runs.first() {
        test_report.plan = run.plan.clone();
    }
    test_report.plan.phases.warm_up = Duration::from_secs(args.warm_up.into());
    (test_report, failure_scope)
}

fn phase_title(settings: &Settings, run_number: u32, max_runs: u32) -> String {
    let name = &settings.name;
    match (run_number, max_runs) {
        (0, _) => format!("{name} warm-up"),
        (_, 1) => name.clone(),
        _ => format!("{name} {run_number}/{max_runs}"),
    }
}

/// Returns the maximum width of the report in columns.
fn report_columns() -> usize {
    const DEFAULT_COLUMNS: usize = 80;
    let terminal = sys::process::terminal_columns(io::stdout());
    terminal.map_or(DEFAULT_COLUMNS, usize::from)
}
