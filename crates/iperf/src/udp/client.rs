//! A client of datagrams.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{DataSocket, Reason, Stop};
use model::{BufferPlan, Ended, Transport};
use sys::call;

use super::server::{Receiver, Watch};
use super::{LARGEST, MOST_REFUSALS, OneWay};
use crate::client::{BACK, Run};
use crate::connection;
use crate::options::Direction;
use crate::report_group::ReportGroups;
use crate::wire::flags::{self, upper};
use crate::wire::{DatagramHeader, Over, WallTime, proof};

/// How often a client asks for data, and how long it waits in between.
const ASK_TRIES: u32 = 100;
const ASK: Duration = Duration::from_millis(20);

/// A shorter datagram has no room for a header with trip times.
pub(super) const SMALL: usize = 128;

/// Runs a client's flows, and those back to it.
pub(crate) fn run(run: &Run<'_>) {
    let report_groups = ReportGroups::new(run.observer, run.settings);
    let receiver = Receiver::of_client(run, &report_groups);
    let back = run.client.direction.has_connection_back();
    let door = if back {
        match receiver.listen_for(run) {
            Ok(door) => Some(door),
            Err(why) => return run.fail(why),
        }
    } else {
        None
    };
    let done = Stop::new();
    std::thread::scope(|scope| {
        let forwards: Vec<_> = (0..run.client.plan.flows())
            .map(|flow| scope.spawn(move || run_flow(run, flow).map_err(|why| run.fail(why))))
            .collect();
        let taking = door.map(|door| {
            let (done, receiver) = (&done, &receiver);
            let flows = run.client.plan.flows();
            scope.spawn(move || receiver.take_back(&door, flows, &Watch { done, after: BACK }))
        });
        let went = forwards
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join);
        let any = went.fold(false, |any, went| any | matches!(went, Ok(Ok(()))));
        done.pull(if any {
            Reason::Deadline
        } else {
            Reason::Cancelled
        });
        if run.client.direction == Direction::TradeOff {
            run.reports.show_reports();
        }
        if let Some(Ok(missing @ 1..)) = taking.map(std::thread::ScopedJoinHandle::join) {
            run.fail(format!(
                "ERROR: expected reverse connect did not occur: {missing} of the server's flows"
            ));
        }
    });
    run.reports.show_reports();
}

fn run_flow(run: &Run<'_>, flow: u32) -> Result<(), String> {
    let number = run.numbers.next();
    let data = run.open(flow)?;
    run.announce(Some(&data));
    let to = run.target(flow)?;
    engine::connect(&data.socket, &to, run.stop)
        .map_err(|error| format!("udp connect failed: {error}"))?;
    let direction = run.client.direction;
    let hello = run.hello();
    let no_fin = hello.has(upper::NO_FIN);
    let is_group = to.ip().is_some_and(|ip| ip.is_multicast());
    let mut connection =
        connection::of_socket(run.id(number, false), &data, to.clone(), Transport::Udp);
    connection.is_reverse = direction == Direction::Reverse;
    connection.is_full_duplex = direction == Direction::FullDuplex;
    run.note(&mut connection);
    connection.no_udp_fin = no_fin;
    run.see_connected(&connection);
    run.wait_to_begin(number);
    let mut pattern = connection::pattern(run.settings.length, &[]);
    let is_small = run.client.trip_times && pattern.len() < SMALL;
    if is_small && let Some(word) = pattern.get_mut(DatagramHeader::WIDE..DatagramHeader::WIDE + 4)
    {
        word.copy_from_slice(&flags::SMALL_TRIP_TIMES.to_be_bytes());
    } else if !run.settings.compatible {
        let hello = hello.encode(Over::Datagram);
        let room = pattern
            .len()
            .saturating_sub(DatagramHeader::WIDE)
            .min(hello.len());
        if room > 0 {
            pattern[DatagramHeader::WIDE..][..room].copy_from_slice(&hello[..room]);
        }
    }
    if direction == Direction::Reverse {
        let mut request = pattern.clone();
        let header = DatagramHeader::WIDE + hello.encode(Over::Datagram).len();
        proof::put(&mut request, header, proof::Nonce::default());
        ask(&data, &mut request, run.stop)?;
    }
    let plans = run.plans();
    std::thread::scope(|scope| {
        for plan in &plans {
            let (data, pattern, connection) = (&data, &pattern, &connection);
            scope.spawn(move || {
                let inbound = !plan.workload.sends();
                let mut plan = plan.clone();
                plan.here.receive = BufferPlan::message(LARGEST);
                let one_way = OneWay {
                    flow: &plan,
                    data,
                    pattern,
                    shape: &run.client.shape,
                    first: &[],
                    stop: run.stop,
                    wants_report: !no_fin && !is_group,
                    most_refusals: MOST_REFUSALS,
                    wide: true,
                };
                let leg = connection::leg(run.id(number, inbound), &plan, data, connection);
                let went = leg
                    .map_err(|error| sys::describe(&error))
                    .and_then(|mut leg| {
                        leg.tallies = run.tallies(inbound);
                        run.sampled(&leg, || one_way.run(&leg, &run.reports))
                    });
                match went {
                    Ok(went) => {
                        // A failure has had its line.
                        let has_failed = matches!(went.ended, Ended::Failed(_));
                        if inbound && went.side.counts.received.0 == 0 && !has_failed {
                            run.fail("recvn failed: the server sent nothing");
                        }
                        run.keep(&plan, went);
                    }
                    Err(why) => run.fail(why),
                }
            });
        }
    });
    Ok(())
}

/// Asks for data until some comes.
fn ask(data: &DataSocket, request: &mut [u8], stop: &Stop) -> Result<(), String> {
    for _ in 0..ASK_TRIES {
        let (number, sent) = (1, WallTime::now());
        DatagramHeader { number, sent }.write(request, true);
        call::send_without_waiting(data.socket.as_fd(), request).map_err(|error| {
            let why = sys::describe(&std::io::Error::from(error));
            format!("recvn failed: {why}")
        })?;
        if stop
            .wait_readable(data.socket.as_fd(), Instant::now() + ASK)
            .unwrap_or(true)
        {
            // A refusal makes it ready as well.
            if let Some(error) = data.socket.take_error().ok().flatten() {
                return Err(format!("recvn failed: {}", sys::describe(&error)));
            }
            let mut first = [0; 64];
            let length = call::peek(data.socket.as_fd(), &mut first).unwrap_or(0);
            let Some(nonce) = proof::of_challenge(&first[..length]) else {
                return Ok(());
            };
            let _ = call::receive_without_waiting(data.socket.as_fd(), &mut first);
            proof::put(request, 0, nonce);
        }
    }
    Err("recvn failed: the server sent nothing".to_owned())
}
