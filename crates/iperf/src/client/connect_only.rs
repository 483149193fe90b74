//! Connections without data (`--connect-only`).

use std::time::{Duration, Instant};

use model::{Limit, Transport};
use sys::Address;

use super::Run;
use crate::connection;
use crate::event::Event;
use crate::options::ConnectOnly;

/// Connects and closes, in as many threads as there are flows.
pub(super) fn run(run: &Run<'_>, only: ConnectOnly) {
    run.announce(None);
    std::thread::scope(|scope| {
        for flow in 0..run.client.plan.flows() {
            scope.spawn(move || one_after_the_other(run, only, flow));
        }
    });
    run.report_connect_times();
}

fn one_after_the_other(run: &Run<'_>, only: ConnectOnly, flow: u32) {
    let number = run.numbers.next();
    let began = Instant::now();
    let interval = run.settings.print.interval;
    let time = match run.client.plan.flow().map(|flow| flow.limit) {
        Some(Limit::Time(time)) => time,
        _ => Duration::MAX,
    };
    // With an interval the time limits the test, and without one the count of connections.
    let most = match interval {
        Some(_) => u32::MAX,
        None => only.count.unwrap_or(u32::MAX),
    };
    for done in 0..most {
        if let Some(interval) = interval {
            let due = interval * done;
            if due >= time || !run.sleep_until(began + due) {
                return;
            }
        }
        if run.stop.is_set() {
            return;
        }
        let connected = run.connect(flow);
        run.keep_connect_time(connected.as_ref().map(|(_, time)| *time));
        let Some((data, connect_time)) = connected else {
            return;
        };
        let to = Address::of_peer(&data.socket).unwrap_or_else(|_| run.to.clone());
        let mut line = connection::of_socket(run.id(number, false), &data, to, Transport::Tcp);
        line.connect_time = Some(connect_time);
        run.observer.see(&Event::Connected(&line));
    }
}
