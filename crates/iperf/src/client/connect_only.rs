//! Connections without data (`--connect-only`).

use std::time::{Duration, Instant};

use model::{Limit, Transport};
use sys::Address;

use super::ClientRun;
use crate::connection;
use crate::event::TestEvent;
use crate::options::ConnectOnly;

/// Connects and closes repeatedly, with one thread per flow.
pub(super) fn run(run: &ClientRun<'_>, settings: ConnectOnly) {
    run.report_connecting(None);
    std::thread::scope(|scope| {
        for flow in 0..run.client.plan.flows() {
            run.spawn(scope, move || connect_repeatedly(run, settings, flow));
        }
    });
    run.report_connect_times();
}

/// Connects one flow repeatedly, until the limit, the stop, or a failure.
fn connect_repeatedly(run: &ClientRun<'_>, settings: ConnectOnly, flow: u32) {
    let number = run.flow_numbers.next();
    let started = Instant::now();
    let interval = run.settings.output.interval;
    let test_time = match run.client.plan.flow().map(|flow| flow.limit) {
        Some(Limit::Time(time)) => time,
        _ => Duration::MAX,
    };
    // With `-i`, the test time is the limit. Without it, the number of connections is the limit.
    let max_connections = match interval {
        Some(_) => u32::MAX,
        None => settings.count.unwrap_or(u32::MAX),
    };
    for index in 0..max_connections {
        if let Some(interval) = interval {
            let due_offset = interval * index;
            if due_offset >= test_time || !run.sleep_until(started + due_offset) {
                return;
            }
        }
        if run.stop.is_set() {
            return;
        }
        let connected = run.connect(flow, number);
        run.record_connect_time(connected.as_ref().map(|(_, time)| *time));
        let Some((data, connect_time)) = connected else {
            return;
        };
        let peer = Address::peer(&data.socket).unwrap_or_else(|_| run.server_address.clone());
        let mut connection =
            connection::from_socket(run.flow_id(number, false), &data, peer, Transport::Tcp);
        connection.connect_time = Some(connect_time);
        run.observer.observe(&TestEvent::Connected(&connection));
    }
}
