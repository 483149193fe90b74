//! UDP client.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{DataSocket, Stop, StopReason};
use model::{BufferPlan, EndCause, Transport};
use sys::call;

use super::server::{DatagramReceiver, ReverseFlowDeadline};
use super::{MAX_PAYLOAD_BYTES, MAX_REFUSALS, OneWay};
use crate::client::{ClientRun, REVERSE_CONNECT_TIMEOUT};
use crate::connection;
use crate::options::Direction;
use crate::report_group::{ReportGroup, ReportGroups};
use crate::wire::flags::{self, upper};
use crate::wire::{DatagramHeader, HelloTransport, WallTime, proof};

/// The maximum number of requests for data, and the interval between them.
const MAX_REQUESTS: u32 = 100;
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);

/// The size of the shortest datagram that can carry a header with trip times.
pub(super) const MIN_HELLO_DATAGRAM_BYTES: usize = 128;

/// Runs the client's flows, and receives the server's flows for `-d` and `-r`.
pub(crate) fn run(run: &ClientRun<'_>) {
    // The two directions of -r have no common sum.
    let reverse_reports = (run.client.direction == Direction::Dual).then(|| run.reverse_reports());
    let held = reverse_reports.as_ref().map(ReportGroup::hold);
    let report_groups = ReportGroups::new(run.observer, run.settings).with_shared(reverse_reports);
    let receiver = DatagramReceiver::for_client(run, &report_groups);
    let has_connection_back = run.client.direction.has_connection_back();
    let acceptor = if has_connection_back {
        match receiver.listen_for_reverse_flows(run) {
            Ok(acceptor) => Some(acceptor),
            Err(reason) => return run.fail(reason),
        }
    } else {
        None
    };
    let forward_done = Stop::new();
    std::thread::scope(|scope| {
        let forward_flows: Vec<_> = (0..run.client.plan.flows())
            .filter_map(|flow| {
                run.spawn(scope, move || {
                    run_flow(run, flow).map_err(|reason| run.fail(reason))
                })
            })
            .collect();
        let reverse_flows = acceptor.and_then(|acceptor| {
            let (forward_done, receiver) = (&forward_done, &receiver);
            let flows = run.client.plan.flows();
            run.spawn(scope, move || {
                receiver.receive_reverse_flows(
                    &acceptor,
                    flows,
                    &ReverseFlowDeadline {
                        forward_done,
                        timeout: REVERSE_CONNECT_TIMEOUT,
                    },
                )
            })
        });
        let mut has_success = false;
        for flow in forward_flows {
            has_success |= matches!(run.join(flow), Some(Ok(())));
        }
        forward_done.set(if has_success {
            StopReason::Deadline
        } else {
            StopReason::Cancelled
        });
        if run.client.direction == Direction::TradeOff {
            run.reports.print_server_reports();
        }
        if let Some(Ok(missing @ 1..)) = reverse_flows.map(std::thread::ScopedJoinHandle::join) {
            run.fail(format!(
                "ERROR: expected reverse connect did not occur: {missing} of the server's flows"
            ));
        }
    });
    drop(held);
    run.reports.print_server_reports();
}

fn run_flow(run: &ClientRun<'_>, flow: u32) -> Result<(), String> {
    let number = run.flow_numbers.next();
    let data = run.open_socket(flow)?;
    run.report_connecting(Some(&data));
    let server_address = run.destination(flow)?;
    engine::connect(&data.socket, &server_address, run.stop)
        .map_err(|error| format!("udp connect failed: {error}"))?;
    let direction = run.client.direction;
    let hello = run.hello(number);
    let no_fin = hello.has_any_flag(upper::NO_FIN);
    let is_group = server_address.ip().is_some_and(|ip| ip.is_multicast());
    let mut connection = connection::from_socket(
        run.flow_id(number, false),
        &data,
        server_address.clone(),
        Transport::Udp,
    );
    connection.is_reverse = direction == Direction::Reverse;
    connection.is_full_duplex = direction == Direction::FullDuplex;
    run.add_requested_features(&mut connection);
    connection.no_udp_fin = no_fin;
    run.report_connected(&connection);
    run.wait_for_start_time(number);
    let mut pattern = connection::pattern(run.settings.length, &[]);
    let is_small = run.client.trip_times && pattern.len() < MIN_HELLO_DATAGRAM_BYTES;
    if is_small
        && let Some(word) = pattern.get_mut(DatagramHeader::WIDE_LEN..DatagramHeader::WIDE_LEN + 4)
    {
        word.copy_from_slice(&flags::SMALL_TRIP_TIMES.to_be_bytes());
    } else if !run.settings.compatible {
        let hello = hello.encode(HelloTransport::Datagram);
        let length = pattern
            .len()
            .saturating_sub(DatagramHeader::WIDE_LEN)
            .min(hello.len());
        if length > 0 {
            pattern[DatagramHeader::WIDE_LEN..][..length].copy_from_slice(&hello[..length]);
        }
    }
    let requested = Instant::now();
    let rate = run.settings.rate.filter(|rate| *rate > 0.0);
    let seconds = rate.map_or(0.0, |rate| f64::from(run.settings.length) * 8.0 / rate);
    let pause = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if direction == Direction::Reverse {
        let mut request = pattern.clone();
        let header_len = DatagramHeader::WIDE_LEN + hello.encode(HelloTransport::Datagram).len();
        proof::write_nonce(&mut request, header_len, proof::AddressNonce::default());
        request_data(&data, &mut request, run.stop)?;
    }
    let plans = run.connection_plans();
    std::thread::scope(|scope| {
        for plan in &plans {
            let (data, pattern, connection) = (&data, &pattern, &connection);
            run.spawn(scope, move || {
                let inbound = !plan.workload.sends();
                let mut plan = plan.clone();
                plan.local.receive = BufferPlan::message(MAX_PAYLOAD_BYTES);
                let one_way = OneWay {
                    flow: &plan,
                    data,
                    pattern,
                    send_mode: &run.client.send_mode,
                    early_datagrams: &[],
                    stop: run.stop,
                    expects_report: !no_fin && !is_group,
                    max_refusals: MAX_REFUSALS,
                    has_wide_numbers: true,
                    requested: Some((requested, pause)),
                };
                let measured = connection::measured_flow(
                    run.flow_id(number, inbound),
                    &plan,
                    data,
                    connection,
                );
                let result =
                    measured
                        .map_err(|error| sys::describe(&error))
                        .and_then(|mut measured| {
                            measured.timings = run.new_timings(inbound);
                            run.run_flow(&measured, || one_way.run(&measured, &run.reports))
                        });
                match result {
                    Ok(result) => {
                        // A failure has already been reported.
                        let has_failed = matches!(result.ended, EndCause::Failed(_));
                        if inbound && result.side.counts.received.0 == 0 && !has_failed {
                            run.fail("recvn failed: the server sent nothing");
                        }
                        run.record_result(&plan, result);
                    }
                    Err(reason) => run.fail(reason),
                }
            });
        }
    });
    Ok(())
}

/// Sends requests for data until the server's data arrives.
fn request_data(data: &DataSocket, request: &mut [u8], stop: &Stop) -> Result<(), String> {
    for _ in 0..MAX_REQUESTS {
        let (number, sent) = (1, WallTime::now());
        DatagramHeader { number, sent }.write(request, true);
        call::send_without_waiting(data.socket.as_fd(), request).map_err(|error| {
            let reason = sys::describe(&std::io::Error::from(error));
            format!("recvn failed: {reason}")
        })?;
        if stop
            .wait_readable(data.socket.as_fd(), Instant::now() + REQUEST_INTERVAL)
            .unwrap_or(true)
        {
            // A refusal also makes the socket readable.
            if let Some(error) = data.socket.take_error().ok().flatten() {
                return Err(format!("recvn failed: {}", sys::describe(&error)));
            }
            let mut received = [0; 64];
            let length = call::peek(data.socket.as_fd(), &mut received).unwrap_or(0);
            let Some(nonce) = proof::challenge_nonce(&received[..length]) else {
                return Ok(());
            };
            let _ = call::receive_without_waiting(data.socket.as_fd(), &mut received);
            proof::write_nonce(request, 0, nonce);
        }
    }
    Err("recvn failed: the server sent nothing".to_owned())
}
