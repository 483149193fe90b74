//! The client of a bounceback test: bursts of messages. The client waits for each reply before it
//! sends the next message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Buffers, Counters, FlowLoop, FlowSockets, MeasuredPhase, PhaseSettings};
use model::{
    BufferPlan, Counts, EndCause, FlowPlan, Limit, SizeRule, Timing, Transport, WidthRule, Workload,
};
use stats::Histogram;
use std::os::fd::AsFd;

use super::ClientRun;
use crate::connection;
use crate::event::{BouncebackInfo, FlowFigures, TestEvent};
use crate::traffic::{FlowResult, describe_finish_error};
use crate::wire::{BounceMessage, MIN_BOUNCE_BYTES, WallTime};

/// The maximum time until a reply, beyond the period and the hold time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum memory of the echoes that are checked, unless a single echo is larger.
const MAX_CHECKED_BYTES: u32 = 16 << 20;

/// The maximum time until the server closes the connection.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

#[expect(clippy::too_many_lines, reason = "a single loop with its reports")]
/// Runs one flow of the test.
pub(super) fn run(run: &ClientRun<'_>, flow_index: u32) {
    let Some(bounceback) = run.client.bounceback else {
        return;
    };
    let size = run.settings.length;
    if size.min(bounceback.reply_bytes) < MIN_BOUNCE_BYTES {
        return run.fail(format!(
            "iperf: -l, --bounceback-reply: messages of a bounceback test have at least {MIN_BOUNCE_BYTES} bytes"
        ));
    }
    let number = run.flow_numbers.next();
    let connected = run.connect(flow_index, number);
    run.record_connect_time(connected.as_ref().map(|(_, time)| *time));
    let Some((data, connect_time)) = connected else {
        return;
    };
    let _ = data.socket.set_tcp_nodelay(true);
    let id = run.flow_id(number, false);
    let mut connection = connection::from_socket(
        id.clone(),
        &data,
        run.server_address.clone(),
        Transport::Tcp,
    );
    connection.bounceback = Some(BouncebackInfo {
        request_bytes: size,
        reply_bytes: bounceback.reply_bytes,
        hold: bounceback.hold,
        has_quick_ack: bounceback.quick_ack,
    });
    connection.type_of_service = run.settings.socket.type_of_service;
    connection.connect_time = Some(connect_time);
    run.observer.observe(&TestEvent::Connected(&connection));
    run.wait_for_start_time(number);

    let mut flow =
        FlowPlan::new(Transport::Tcp, Workload::request()).with_buffers(BufferPlan::message(size));
    // The echoes of a burst are checked after it.
    let max_checked = (MAX_CHECKED_BYTES / bounceback.reply_bytes).max(1);
    flow.local.receive.size = SizeRule::Bytes(bounceback.reply_bytes);
    flow.local.receive.width = WidthRule::Buffers(bounceback.burst.clamp(1, max_checked));
    flow.local.measure_cpu = true;
    flow.timing = Timing {
        passes: true,
        calls: false,
    };
    let test_time = match run.client.plan.flow().map(|flow| flow.limit) {
        Some(Limit::Time(time)) => Some(time),
        _ => None,
    };
    let counters: Arc<Counters> = Arc::default();
    let settings = PhaseSettings {
        counters: &counters,
        cancel: run.stop,
        control: None,
        duration: test_time,
        idle_timeout: Some(REPLY_TIMEOUT + bounceback.period + bounceback.hold),
        group: None,
    };
    let mut phase = MeasuredPhase::start(&flow.local, settings);
    let started = Instant::now();
    let interval = run
        .settings
        .output
        .interval
        .unwrap_or(Duration::from_secs(1));
    let (mut total_latency, mut interval_latency) = (Histogram::default(), Histogram::default());
    let (mut intervals, mut burst_number) = (0_u32, 0_u32);
    let mut counts_before = Counts::default();
    let (mut message, socket_facts) = (vec![0; size as usize], &data.facts);
    let allocated = Buffers::new(
        &flow.local,
        &flow.workload,
        flow.transport,
        socket_facts,
        None,
        &message,
        &ClientRun::memory(),
    );
    let mut buffers = match allocated {
        Ok(buffers) => buffers,
        Err(error) => return run.fail(error.to_string()),
    };
    let measured = match connection::measured_flow(id.clone(), &flow, &data, &connection) {
        Ok(measured) => measured,
        Err(error) => return run.fail(sys::describe(&error)),
    };
    let mut last_retransmits = 0;
    let mut report = |start, end, counts: Counts, latency: &Histogram, is_final: bool| {
        let path = engine::path_sample(measured.socket.as_fd());
        let total = path.and_then(|path| path.retransmits).unwrap_or(0);
        let before = std::mem::replace(&mut last_retransmits, total);
        let figures = FlowFigures {
            start,
            end,
            sends: true,
            bytes: counts.bytes(),
            latency: Some(latency.clone()),
            transaction_bytes: [counts.sent.0, counts.received.0],
            path,
            segments: connection::segments(measured.socket.as_fd()),
            retransmits: if is_final {
                total
            } else {
                total.saturating_sub(before)
            },
            endpoints: measured.endpoints.clone(),
            ..FlowFigures::default()
        };
        let event = if is_final {
            TestEvent::Final(&id, &figures)
        } else {
            TestEvent::Interval(&id, &figures)
        };
        run.observer.observe(&event);
    };
    let mut last_result = None;
    while !phase.stop.is_set() {
        burst_number += 1;
        BounceMessage {
            size,
            number: burst_number,
            quick_ack: bounceback.quick_ack,
            synchronised: run.client.trip_times,
            type_of_service: run.settings.socket.type_of_service,
            stop: false,
            sent: WallTime::now(),
            served: None,
            hold: bounceback.hold,
            reply_bytes: Some(bounceback.reply_bytes).filter(|bytes| *bytes != size),
        }
        .write(&mut message);
        buffers.refill(&message);
        let loop_result = phase.run_part(
            Limit::Transactions(bounceback.burst.into()),
            FlowLoop::for_flow(&flow, &mut buffers),
            FlowSockets::Connected(data.socket.as_fd()),
        );
        if let Some(latency) = &loop_result.latency {
            interval_latency.merge(latency);
        }
        let mut loop_result = loop_result;
        if loop_result.ended == EndCause::Count
            && !buffers.all_received(|echo| BounceMessage::is_echo(&message, echo))
        {
            let reason = "read failed: the server's echo differs from the sent message";
            loop_result.ended = EndCause::Failed(reason.to_owned());
        }
        let has_ended = loop_result.ended != EndCause::Count;
        last_result = Some(loop_result);
        if has_ended {
            break;
        }
        // Wait for the next burst. Report each interval that ends before it. Stop at the end of
        // the test.
        let next_burst = if bounceback.period.is_zero() {
            started.elapsed()
        } else {
            bounceback.period * burst_number
        };
        loop {
            let interval_end = interval * (intervals + 1);
            let wake_at = next_burst.min(interval_end);
            let remaining = wake_at.saturating_sub(started.elapsed());
            if !remaining.is_zero() && !phase.stop.is_set() {
                // Waits on the socket, because a stop wakes a thread that waits on a socket.
                let _ = phase
                    .stop
                    .wait_readable(data.socket.as_fd(), Instant::now() + remaining);
            }
            if interval_end > next_burst || phase.stop.is_set() || started.elapsed() < interval_end
            {
                break;
            }
            let counts = counters.counts();
            report(
                interval * intervals,
                interval_end,
                counts.since(&counts_before),
                &interval_latency,
                false,
            );
            total_latency.merge(&std::mem::take(&mut interval_latency));
            (intervals, counts_before) = (intervals + 1, counts);
        }
    }
    phase.stop_clock();
    let counts = counters.counts();
    let last_counts = counts.since(&counts_before);
    if let Some(time) = test_time
        && phase.times.elapsed >= time
        && last_counts.bytes() > 0
        && interval * (intervals + 1) <= time
    {
        report(
            interval * intervals,
            time,
            last_counts,
            &interval_latency,
            false,
        );
    }
    total_latency.merge(&interval_latency);
    let finished = phase.finish(
        engine::FinishMethod::HalfClose,
        &FlowSockets::Connected(data.socket.as_fd()),
        FINISH_TIMEOUT,
    );
    phase.stop_clock();
    report(
        Duration::ZERO,
        phase.times.elapsed,
        counts,
        &total_latency,
        true,
    );
    if let Some(mut loop_result) = last_result {
        loop_result.latency = Some(total_latency);
        let ended = match (loop_result.ended.clone(), finished) {
            (EndCause::PeerClosed, _) => {
                EndCause::Failed("read failed: the peer closed the connection".to_owned())
            }
            // An interrupt between two bursts.
            (EndCause::Deadline | EndCause::Count, Err(_)) if run.stop.is_set() => {
                EndCause::Cancelled
            }
            (EndCause::Deadline | EndCause::Count, Err(error)) => {
                EndCause::Failed(describe_finish_error(&error, FINISH_TIMEOUT))
            }
            (ended, _) => ended,
        };
        if let EndCause::Failed(reason) = &ended {
            run.fail(reason.clone());
        }
        let facts = data.current_facts(&data.socket);
        let local = phase.side(loop_result, &data, &buffers, facts);
        run.record_result(&flow, FlowResult::new(phase.started(), local, None, ended));
    }
}
