//! One invocation of `netperf`: the client measures, the output room prints.

mod iterations;

use std::io::Write;

use engine::{Looper, Stop};
use model::Outcome;

use crate::client::{ClientError, Established, Flows, HistogramFile, Interim, calibration};
use crate::options::{Exit, Form, Selection, Settings, Test};
use crate::output;
use crate::result::InterimResult;

/// How an invocation ended.
#[derive(Debug, Default)]
pub struct Finished {
    /// What is left to print, and the exit code.
    pub exit: Exit,
    /// What was measured, each time that the test was run; empty unless a report is to be made.
    pub runs: Vec<Outcome>,
    /// Why the test failed, in one line.
    pub error: Option<String>,
}

/// Runs `netperf` to its end. What the stock tool prints before the test goes to `out` at its time;
/// the rest is in the exit.
pub fn run(settings: &Settings, cancel: &Stop, out: &mut (impl Write + Send)) -> Finished {
    for notice in &settings.notices {
        if settings.json {
            sys::write_error_line(format_args!("{notice}"));
            continue;
        }
        // A reader that has gone away is no failure of the measurement.
        let _ = writeln!(out, "{notice}");
    }
    for warning in &settings.warnings {
        sys::write_error_line(format_args!("{warning}"));
    }
    if settings.debug > 0 {
        sys::write_error_line(format_args!("netperf: {:#?}", settings.plan()));
    }
    if let Form::Human(Selection::List)
    | Form::Csv(Selection::List)
    | Form::KeyVal(Selection::List) = &settings.print.form
    {
        return Finished {
            exit: Exit::stdout(output::selector_list(&settings.print.form), 1),
            ..Finished::default()
        };
    }
    let mut runs = Vec::new();
    let result = print_test(settings, cancel, out, &mut runs);
    let error = result.as_ref().err().map(ClientError::to_string);
    let exit = result.unwrap_or_else(|error| error.exit(settings));
    Finished { exit, runs, error }
}

fn print_test(
    settings: &Settings,
    cancel: &Stop,
    out: &mut (impl Write + Send),
    runs: &mut Vec<Outcome>,
) -> Result<Exit, ClientError> {
    if settings.test.moves_data() {
        return print_measured(settings, cancel, out, runs);
    }
    let mut control = if settings.no_control {
        None
    } else {
        Some(Established::connect(&settings.control, cancel)?)
    };
    let stdout = match (settings.test, &mut control) {
        (Test::LocCpu, _) => {
            let rate = calibration::of_this_host(settings)?;
            output::calibration(settings, "local", rate, sys::cpu::online())
        }
        (Test::RemCpu, Some(control)) => {
            let answer = calibration::of_peer(settings, control)?;
            let cpus = answer.cpus.max(0) as u32;
            output::calibration(settings, "remote", answer.rate, cpus)
        }
        (_, _) => output::uuid(settings),
    };
    // Before the goodbye, which may take as long as the server likes.
    let _ = out.write_all(stdout.as_bytes()).and_then(|()| out.flush());
    if let Some(control) = control {
        control.close();
    }
    Ok(Exit::default())
}

/// A test in which data moves, on one flow or several.
fn print_measured(
    settings: &Settings,
    cancel: &Stop,
    out: &mut (impl Write + Send),
    runs: &mut Vec<Outcome>,
) -> Result<Exit, ClientError> {
    let log = settings
        .histogram
        .as_deref()
        .map(HistogramFile::create)
        .transpose()?;
    let mut settings = settings.clone();
    // Its threads are started before this one is bound to a CPU.
    let _looper =
        Looper::of(&mut settings.flow.here).map_err(|error| calibration::no_looper(&error))?;
    let settings = &settings;
    let mut flows = Flows::connect(settings, cancel)?;
    if let Some(banner) = output::banner(settings, flows.endpoints()) {
        let _ = out.write_all(banner.as_bytes()).and_then(|()| out.flush());
    }
    let mut lines = output::Interim::new(settings);
    let print = |result: InterimResult| {
        let work = lines.work(&result.interval.counts);
        if result.is_rest && work == 0 {
            return Ok(());
        }
        let text = lines.result(work, result.interval.elapsed, result.ended);
        out.write_all(text.as_bytes())?;
        out.flush()
    };
    let run = std::thread::scope(|scope| {
        let interim = Interim::start(scope, settings, cancel, print).map_err(|error| {
            ClientError::Ended(format!("no thread for -D: {}", sys::describe(&error)))
        })?;
        iterations::run(settings, &mut flows, cancel, interim.as_ref(), runs)
    })?;
    let code = sys::report_doubts("netperf", &run.outcome.warnings, settings.strict);
    let stdout = output::result(settings, &run);
    // Before the goodbye, which may take as long as the server likes.
    let _ = out.write_all(stdout.as_bytes()).and_then(|()| out.flush());
    if let Some(log) = log {
        log.write(&[&run.outcome])?;
    }
    flows.close();
    Ok(Exit {
        code,
        ..Exit::default()
    })
}
