//! One run of one test: its flows, side by side, and their sum.

use std::sync::mpsc;
use std::thread;
use sys::Address;

use engine::Stop;
use model::Outcome;
use netperf::client::Flows;
use netperf::options::Settings;

use super::doubts;
use super::progress::Phase;
use super::settings::fit_datagrams;

/// Runs the settings' test on all its flows, which begin together. An error is one line.
pub(super) fn run(settings: &Settings, stop: &Stop, phase: &Phase) -> Result<Outcome, String> {
    let mut flows = Flows::connect(settings, stop).map_err(|error| error.to_string())?;
    let Some(remote) = flows.remote().cloned() else {
        return Err("without a control connection nothing is known of the other end".to_owned());
    };
    if let Address::Inet(remote) = remote {
        for settings in flows.settings_mut() {
            fit_datagrams(settings, remote);
        }
    }
    let cells = flows.cells();
    let run = thread::scope(|scope| {
        // Dropped when the flows have ended, however they did.
        let (running, ended) = mpsc::channel();
        let (flows, cells) = (&mut flows, &cells);
        let test = scope.spawn(move || {
            let _running = running;
            flows.measure(stop, cells)
        });
        phase.follow(cells, &ended);
        test.join()
    });
    let mut sum = match run {
        Ok(run) => run.map_err(|error| error.to_string())?.outcome,
        Err(_) => return Err("a flow's thread broke off".to_owned()),
    };
    flows.close();
    doubts::add(&mut sum, &remote);
    Ok(sum)
}
