//! Runs one invocation of `netperf`: the client measures, and `output` prints.

mod iterations;

use std::io::Write;

use engine::{Looper, Stop};
use model::Outcome;

use crate::client::{ClientError, Flows, HistogramFile, Interim, ServerConnection, calibration};
use crate::options::{Exit, OutputForm, Selection, Settings, Test};
use crate::output;
use crate::result::InterimResult;

/// How an invocation ended.
#[derive(Debug, Default)]
pub struct RunResult {
    /// Remaining output and exit code.
    pub exit: Exit,
    /// Outcome of each iteration; empty unless a report was requested.
    pub runs: Vec<Outcome>,
    /// Error message of a failed test, in one line.
    pub error: Option<String>,
}

/// Runs `netperf`. Text that the stock tool prints before the test is written to `out` at that
/// time; the returned exit has the rest.
pub fn run(settings: &Settings, cancel: &Stop, out: &mut (impl Write + Send)) -> RunResult {
    for notice in &settings.notices {
        if settings.json {
            sys::write_error_line(format_args!("{notice}"));
            continue;
        }
        // A closed output does not make the measurement fail.
        let _ = writeln!(out, "{notice}");
    }
    for warning in &settings.warnings {
        sys::write_error_line(format_args!("{warning}"));
    }
    if settings.debug > 0 {
        sys::write_error_line(format_args!("netperf: {:#?}", settings.plan()));
    }
    if let OutputForm::Human(Selection::List)
    | OutputForm::Csv(Selection::List)
    | OutputForm::KeyVal(Selection::List) = &settings.print.form
    {
        return RunResult {
            exit: Exit::stdout(output::selector_list(&settings.print.form), 1),
            ..RunResult::default()
        };
    }
    let mut runs = Vec::new();
    let result = run_and_print(settings, cancel, out, &mut runs);
    let error = result.as_ref().err().map(ClientError::to_string);
    let exit = result.unwrap_or_else(|error| error.exit(settings));
    RunResult { exit, runs, error }
}

fn run_and_print(
    settings: &Settings,
    cancel: &Stop,
    out: &mut (impl Write + Send),
    runs: &mut Vec<Outcome>,
) -> Result<Exit, ClientError> {
    if settings.test.moves_data() {
        return run_data_test(settings, cancel, out, runs);
    }
    let mut control = if settings.no_control {
        None
    } else {
        Some(ServerConnection::connect(&settings.control, cancel)?)
    };
    let stdout = match (settings.test, &mut control) {
        (Test::LocCpu, _) => {
            let rate = calibration::measure_local_rate(settings)?;
            output::format_calibration(settings, "local", rate, sys::cpu::online_count())
        }
        (Test::RemCpu, Some(control)) => {
            let answer = calibration::request_peer_rate(settings, control)?;
            let cpus = answer.cpus.max(0) as u32;
            output::format_calibration(settings, "remote", answer.rate, cpus)
        }
        (_, _) => output::format_uuid(settings),
    };
    // Print before closing the control connection: the server may delay the close.
    let _ = out.write_all(stdout.as_bytes()).and_then(|()| out.flush());
    if let Some(control) = control {
        control.close();
    }
    Ok(Exit::default())
}

/// Runs a test that moves data, on one or several flows.
fn run_data_test(
    settings: &Settings,
    cancel: &Stop,
    out: &mut (impl Write + Send),
    runs: &mut Vec<Outcome>,
) -> Result<Exit, ClientError> {
    let histogram_file = settings
        .histogram
        .as_deref()
        .map(HistogramFile::create)
        .transpose()?;
    let mut settings = settings.clone();
    // Starts the looper's threads before this thread is bound to a CPU.
    let _looper = Looper::for_endpoint(&mut settings.flow.local)
        .map_err(|error| calibration::looper_error(&error))?;
    let settings = &settings;
    let mut flows = Flows::connect(settings, cancel)?;
    if let Some(banner) = output::format_banner(settings, flows.endpoints()) {
        let _ = out.write_all(banner.as_bytes()).and_then(|()| out.flush());
    }
    let mut formatter = output::InterimFormatter::new(settings);
    let print = |result: InterimResult| {
        let work = formatter.count_work(&result.interval.counts);
        if result.is_remainder && work == 0 {
            return Ok(());
        }
        let text = formatter.format_next(work, result.interval.elapsed, result.ended);
        out.write_all(text.as_bytes())?;
        out.flush()
    };
    let run = std::thread::scope(|scope| {
        let interim = Interim::start(scope, settings, cancel, print).map_err(|error| {
            ClientError::Failed(format!(
                "cannot start the thread for -D: {}",
                sys::describe(&error)
            ))
        })?;
        iterations::run(settings, &mut flows, cancel, interim.as_ref(), runs)
    })?;
    let exit_code = sys::report_warnings("netperf", run.warnings(), settings.strict);
    let stdout = output::format_result(settings, &run);
    // Print before closing the control connections: the server may delay the close.
    let _ = out.write_all(stdout.as_bytes()).and_then(|()| out.flush());
    let written = histogram_file.map_or(Ok(()), |file| file.write(&[&run.outcome]));
    if settings.has_report() {
        runs.push(run.outcome);
    }
    written?;
    flows.close();
    Ok(Exit {
        code: exit_code,
        ..Exit::default()
    })
}
