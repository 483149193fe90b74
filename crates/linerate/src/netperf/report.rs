//! `netperf --json` and `--html`: the result as the report of every dialect.

use std::io;
use std::time::SystemTime;

use netperf::Finished;
use netperf::options::{Exit, Settings};
use report::{Peer, Report, Tested};

use crate::document::{self, Page};

/// Runs a client. The document has the place of its text; the page is written beside either.
pub(super) fn run(settings: &Settings) -> Exit {
    let page = match settings.html.as_deref().map(Page::begin).transpose() {
        Ok(page) => page,
        Err(why) => return Exit::stderr(format!("netperf: {why}\n"), 1),
    };
    let stop = engine::Stop::new();
    crate::signals::stop_on_signals_and_alarm(&stop);
    let started = SystemTime::now();
    let mut finished = if settings.json {
        netperf::run(settings, &stop, &mut io::sink())
    } else {
        netperf::run(settings, &stop, &mut io::stdout())
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
    if let Some(Err(why)) = page.map(|page| page.write(&report)) {
        exit.stderr.extend(["netperf: ", &why, "\n"]);
        exit.code = exit.code.max(1);
    }
    exit
}

fn report(
    settings: &Settings,
    started: SystemTime,
    finished: Finished,
    interrupted: bool,
) -> Report {
    let Finished { runs, error, .. } = finished;
    let plan = runs.first().map(|run| run.plan.clone());
    let port = settings.control.port.parse().ok();
    let peer = Peer {
        port: port.filter(|_| !settings.no_control),
        ..Peer::of(&settings.control.host, 0)
    };
    let started = runs.first().map_or(started, |run| run.started);
    let mut report = Report {
        command_line: report::typed(std::env::args_os()),
        interrupted,
        tests: vec![Tested {
            goal: settings.repeat.map(|repeat| repeat.goal),
            error,
            runs,
            ..Tested::of(plan.unwrap_or_else(|| settings.plan()))
        }],
        ..Report::of(peer, started)
    };
    let kind = document::kind_of_netserver(&report);
    report.peer.kind = kind.filter(|_| !settings.no_control);
    report
}
