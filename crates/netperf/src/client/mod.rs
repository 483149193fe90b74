//! The client: who says what when, and what became of it.

mod control;
mod endpoints;
mod error;
mod measure;
mod request;
mod told;

use std::io::Write;
use std::sync::Arc;

use engine::{Cell, Stop};
use model::{Ended, Outcome};

pub use control::Established;
pub use endpoints::Endpoints;
pub use error::ClientError;
pub use told::Told;

use crate::options::{Exit, Form, Selection, Settings, Test};
use crate::output;
use crate::wire::{CalibrateResponse, Request};

/// One finished test, for the output room.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// What both ends measured, as far as it is known.
    pub outcome: Outcome,
    /// What the peer said, word by word.
    pub told: Told,
    /// The data connection.
    pub endpoints: Endpoints,
}

/// Runs `netperf` to its end. What the stock tool prints before the test goes to `out` at its time;
/// the rest is in the exit.
pub fn run(settings: &Settings, cancel: &Stop, out: &mut impl Write) -> Exit {
    for notice in &settings.notices {
        // A reader that has gone away is no failure of the measurement.
        let _ = writeln!(out, "{notice}");
    }
    for warning in &settings.warnings {
        eprintln!("{warning}");
    }
    if let Form::Human(Selection::List)
    | Form::Csv(Selection::List)
    | Form::KeyVal(Selection::List) = &settings.print.form
    {
        return Exit {
            stdout: output::selector_list(&settings.print.form),
            code: 1,
            ..Exit::default()
        };
    }
    match print_test(settings, cancel, out) {
        Ok(exit) => exit,
        Err(error) => error.exit(settings),
    }
}

fn print_test(
    settings: &Settings,
    cancel: &Stop,
    out: &mut impl Write,
) -> Result<Exit, ClientError> {
    let mut control = Established::connect(&settings.control, cancel)?;
    let stdout = match settings.test {
        Test::Uuid => output::uuid(settings),
        Test::LocCpu => output::local_cpu(settings, TICKS_A_SECOND, sys::cpu::online()),
        Test::RemCpu => {
            control.send(&Request::CpuCalibrate.encode(None))?;
            let told = CalibrateResponse::decode(&control.receive()?)?;
            output::remote_cpu(settings, told.rate, told.cpus.max(0) as u32)
        }
        _ => {
            let endpoints = Endpoints::of(settings, &control)?;
            if let Some(banner) = output::banner(settings, &endpoints) {
                let _ = out.write_all(banner.as_bytes()).and_then(|()| out.flush());
            }
            let run = measure(settings, &mut control, cancel, &Arc::default())?;
            if let Ended::Failed(why) = &run.outcome.ended {
                return Err(ClientError::Ended(why.clone()));
            }
            if run.outcome.ended == Ended::Cancelled {
                // The server may be at it for as long as its own clock says; nobody waits for that.
                return Ok(Exit {
                    stdout: output::result(settings, &run),
                    ..Exit::default()
                });
            }
            output::result(settings, &run)
        }
    };
    control.close();
    Ok(Exit {
        stdout,
        ..Exit::default()
    })
}

/// What a calibration gives where the kernel counts ticks: spec of the stock tool on Linux.
const TICKS_A_SECOND: f32 = 100.0;

/// Runs the settings' test over a control connection. The counts can be read from `cell` meanwhile.
pub fn measure(
    settings: &Settings,
    control: &mut Established,
    cancel: &Stop,
    cell: &Arc<Cell>,
) -> Result<TestRun, ClientError> {
    let endpoints = Endpoints::of(settings, control)?;
    measure::test(settings, control, endpoints, cancel, cell)
}
