//! One run of one test: its flows, side by side, and their sum.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier};
use std::thread;

use engine::{Cell, Stop};
use model::{Ended, Outcome};
use netperf::client::{ClientError, Established, measure};
use netperf::options::Settings;

use super::doubts;
use super::progress::Phase;
use super::settings::fit_datagrams;

/// Runs the settings' test on `count` control connections, all of which stand before any data moves.
/// An error is one line.
pub(super) fn run(
    settings: &Settings,
    count: u32,
    stop: &Stop,
    phase: &Phase,
) -> Result<Outcome, String> {
    let controls = (0..count)
        .map(|_| Established::connect(&settings.control, stop))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    let Some(remote) = controls.first().map(|control| control.remote) else {
        return Err("no flow was asked for".to_owned());
    };
    let mut settings = settings.clone();
    fit_datagrams(&mut settings, remote);
    let cells: Vec<Arc<Cell>> = controls.iter().map(|_| Arc::default()).collect();
    let barrier = Barrier::new(controls.len());
    let (running, ended) = mpsc::channel();

    let outcomes: Result<Vec<_>, _> = thread::scope(|scope| {
        let flows: Vec<_> = controls
            .into_iter()
            .zip(&cells)
            .enumerate()
            .map(|(number, (control, cell))| {
                let flow = Flow {
                    number,
                    control,
                    cell,
                    running: running.clone(),
                };
                scope.spawn(|| flow.run(settings.clone(), &barrier, stop))
            })
            .collect();
        drop(running);
        phase.follow(&cells, &ended);
        flows
            .into_iter()
            .map(|flow| {
                flow.join()
                    .unwrap_or_else(|_| Err("a flow's thread broke off".to_owned()))
            })
            .collect()
    });
    let mut sum = report::merge(outcomes?).ok_or_else(|| "no flow was run".to_owned())?;
    doubts::add(&mut sum, remote);
    Ok(sum)
}

struct Flow<'a> {
    number: usize,
    control: Established,
    cell: &'a Arc<Cell>,
    /// Dropped when the flow has ended, however it did.
    running: Sender<()>,
}

impl Flow<'_> {
    fn run(
        self,
        mut settings: Settings,
        barrier: &Barrier,
        stop: &Stop,
    ) -> Result<Outcome, String> {
        let Self {
            number,
            mut control,
            cell,
            running,
        } = self;
        // CPU time is the whole host's: one flow has it for all.
        settings.plan.here.measure_cpu &= number == 0;
        settings.plan.there.measure_cpu &= number == 0;
        barrier.wait();
        let run = measure(&settings, &mut control, stop, cell)
            .map_err(|error: ClientError| error.to_string())?;
        control.close();
        drop(running);
        match run.outcome.ended {
            Ended::Failed(why) => Err(why),
            _ => Ok(run.outcome),
        }
    }
}
