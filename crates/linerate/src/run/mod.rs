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
use model::{Limit, Workload};
use netperf::client::{HistogramFile, Scope};
use netperf::options::{Limits, Settings};
use netperf::server::Embedded;
use report::{Figures, Pace, Peer, Report, Tested};
use units::BitRate;

use crate::document::{self, Page};
pub(crate) use args::Args;
use args::UdpRate;
use choice::Test;
use flows::Failure;
use progress::Phase;
use settings::{for_both_ways, sends_datagrams, settings};

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
            sys::write_error_line(format_args!("linerate run: {unknown}"));
            return ExitCode::from(USAGE);
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
    let page = match args.html.as_deref().map(Page::begin).transpose() {
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
        report::text(&report, columns())
    };
    let logged = log.map_or(Ok(()), |log| {
        let runs = report.tests.iter().flat_map(|test| &test.runs);
        log.write(&runs.collect::<Vec<_>>())
    });
    let logged = logged.map_err(|error| error.to_string());
    let written = page.map_or(Ok(()), |page| page.write(&report));
    if let Err(error) = logged.and(written) {
        sys::write_error_line(format_args!("linerate run: {error}"));
        return ExitCode::from(FAILED);
    }
    match print(&text) {
        Err(error) => {
            sys::write_error_line(format_args!(
                "linerate run: standard output: {}",
                sys::describe(&error)
            ));
            ExitCode::from(FAILED)
        }
        Ok(()) if report.interrupted => ExitCode::from(INTERRUPTED),
        Ok(()) if report.error().is_some() => ExitCode::from(FAILED),
        Ok(()) if args.strict && report.is_doubtful() => ExitCode::from(DOUBTFUL),
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn measure(args: &Args, tests: &[Test], stop: &Stop) -> Report {
    let host = args.host.clone();
    let peer = Peer {
        embedded: host.is_none(),
        ..Peer::of(
            host.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string()),
            args.port.into(),
        )
    };
    let mut report = Report {
        command_line: report::typed(std::env::args_os()),
        ..Report::of(peer, SystemTime::now())
    };
    report.failure = measure_tests(args, tests, stop, &mut report).err();
    report.interrupted = stop.is_set();
    report.peer.kind = document::kind_of_netserver(&report);
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
        report.peer.port = Some(server.port().into());
    }
    let (mut peer_failed, mut failed_transports) = (false, Vec::new());
    for &test in tests {
        if stop.is_set() || peer_failed || failed_transports.contains(&test.transport) {
            report.not_run.push(test.name());
            continue;
        }
        let settings = settings(args, test, &report.peer)?;
        let pace = pace(args, &settings, report, stop);
        let (tested, failed) = match pace {
            Ok(pace) => measure_test(args, &settings, pace, stop),
            Err(failure) => failed_test(&settings, failure),
        };
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

/// What one-way datagrams are paced to: what was asked for, or what a stream gets through, so that the
/// first look at a path is no flood.
fn pace(
    args: &Args,
    settings: &Settings,
    report: &Report,
    stop: &Stop,
) -> Result<Option<Pace>, Failure> {
    if !sends_datagrams(settings) || args.udp_rate == Some(UdpRate::Unlimited) {
        return Ok(None);
    }
    if let Some(UdpRate::Paced(rate)) = args.udp_rate {
        return Ok(Some(Pace { rate, of: None }));
    }
    let is_stream = |test: &&Tested| {
        let flow = test.plan.flow();
        flow.is_some_and(|flow| {
            !flow.transport.has_datagrams() && flow.workload == Workload::send()
        })
    };
    let known = report.tests.iter().rfind(is_stream);
    let known = known.and_then(|test| Some((test.plan.name.clone(), test.mean_rate()?)));
    let (name, rate) = match known.filter(|(_, rate)| *rate > 0.0) {
        Some(known) => known,
        None => probe(args, &report.peer, stop)?,
    };
    let directions = if args.bidirectional { 2.0 } else { 1.0 };
    Ok(Some(Pace {
        rate: BitRate(rate / directions),
        of: Some(name),
    }))
}

/// The rate of a short stream, of which no more is reported.
fn probe(args: &Args, peer: &Peer, stop: &Stop) -> Result<(String, f64), Failure> {
    const LENGTH: Duration = Duration::from_secs(1);
    let mut args = args.clone();
    (args.length, args.histogram) = (LENGTH.as_secs() as u32, None);
    let settings = settings(&args, Test::TCP_STREAM, peer).map_err(Failure::of_test)?;
    let name = settings.name.clone();
    let phase = Phase::new(format!("{name} to pace by"), LENGTH, false);
    let run = flows::run(&settings, None, stop, &phase);
    let outcome = run.map_err(|failure| match failure.scope {
        Scope::Peer => failure,
        // Datagrams may get through all the same.
        _ => Failure::of_test(format!(
            "there is no rate to pace by (--udp-rate sets one): {name}: {}",
            failure.why
        )),
    })?;
    match Figures::of(&outcome).rate() {
        Some(rate) if rate > 0.0 => Ok((name, rate)),
        _ => Err(Failure::of_test(
            "no rate of a stream is known to pace by (--udp-rate)".to_owned(),
        )),
    }
}

fn failed_test(settings: &Settings, failure: Failure) -> (Tested, Option<Scope>) {
    let mut tested = Tested::of(settings.plan());
    tested.error = Some(failure.why);
    (tested, Some(failure.scope))
}

/// One test: its warm-up, and each of its runs; if it failed, what else would fail.
fn measure_test(
    args: &Args,
    settings: &Settings,
    pace: Option<Pace>,
    stop: &Stop,
) -> (Tested, Option<Scope>) {
    let mut failed = None;
    let (most, goal) = args.iterations();
    let rate = pace.as_ref().map(|pace| pace.rate);
    let mut tested = Tested {
        goal,
        pace,
        ..Tested::of(settings.plan())
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
            settings.flow.limit = Limit::Time(length);
        });
        let transactional = settings.flow.workload.is_transactional();
        let phase = Phase::new(title(&settings, number, most), length, transactional);
        let failure = match flows::run(&settings, rate, stop, &phase) {
            Ok(mut outcome) => {
                if tested.pace.as_ref().is_some_and(|pace| pace.of.is_some()) {
                    doubts::without_pace(&mut outcome);
                }
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
    tested.plan.phases.warm_up = Duration::from_secs(args.warm_up.into());
    (tested, failed)
}

fn title(settings: &Settings, number: u32, of: u32) -> String {
    let name = &settings.name;
    match (number, of) {
        (0, _) => format!("{name} warm-up"),
        (_, 1) => name.clone(),
        _ => format!("{name} {number}/{of}"),
    }
}

/// How wide the report may be.
fn columns() -> usize {
    const WITHOUT_TERMINAL: usize = 80;
    let terminal = sys::process::terminal_columns(io::stdout());
    terminal.map_or(WITHOUT_TERMINAL, usize::from)
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
