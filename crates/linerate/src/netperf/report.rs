//! `netperf --json` and `--html`: the result as a report in the common format of all dialects.

use std::io;
use std::time::SystemTime;

use netperf::RunResult;
use netperf::options::{Exit, Settings};
use report::{PeerInfo, Report, TestReport};

use crate::document::{self, Page};

/// Runs a client. A JSON document replaces its text output. The HTML page is additional.
pub(super) fn run(settings: &Settings) -> Exit {
    let page = match settings.html.as_deref().map(Page::open).transpose() {
        Ok(page) => page,
        Err(error) => return Exit::stderr(format!("netperf: {error}\n"), 1),
    };
    let stop = engine::Stop::new();
    crate::signals::stop_on_signals_and_alarm(&stop);
    let started = SystemTime::now();
    let mut finished = if settings.json {
        netperf::run(settings, &stop, &mut io::sink())
    } else {
        netperf::run(settings, &stop, &mut getopt::stdout())
    };
    let mut exit = std::mem::take(&mut finished.exit);
    if !settings.has_report() {
        return exit;
    }
    let report = report(settings, started, finished, stop.is_set());
    if settings.json {
        // Stock prints some of its errors on stdout.
        exit.stderr = exit.stdout + &exit.stderr;
        exit.stdout = report::json(&report);
    }
    if let Some(Err(error)) = page.map(|page| page.write(&report)) {
        exit.stderr.extend(["netperf: ", &error, "\n"]);
        exit.code = exit.code.max(1);
    }
    exit
}

fn report(
    settings: &Settings,
    started: SystemTime,
    finished: RunResult,
    interrupted: bool,
) -> Report {
    let RunResult { runs, error, .. } = finished;
    let plan = runs.first().map(|run| run.plan.clone());
    let port = settings.control.port.parse().ok();
    let peer = PeerInfo {
        port: port.filter(|_| !settings.no_control),
        ..PeerInfo::new(&settings.control.host, 0)
    };
    let started = runs.first().map_or(started, |run| run.started);
    let mut report = Report {
        command_line: report::quote_command_line(netperf::options::displayed_words(
            std::env::args_os(),
        )),
        interrupted,
        tests: vec![TestReport {
            goal: settings.repeat.map(|repeat| repeat.goal),
            error,
            runs,
            ..TestReport::new(plan.unwrap_or_else(|| settings.plan()))
        }],
        ..Report::new(peer, started)
    };
    let kind = document::netserver_kind(&report);
    report.peer.kind = kind.filter(|_| !settings.no_control);
    report
}
