//! The client of a bounceback test: bursts of requests, each of which is answered before the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Buffers, Counters, Flow, Loop, MeasuredPhase, PhaseSettings};
use model::{BufferPlan, Ended, FlowPlan, Limit, Timing, Transport, Workload};
use stats::Histogram;
use std::os::fd::AsFd;

use super::Run;
use crate::connection;
use crate::event::{Event, Figures};
use crate::traffic::{Went, unfinished};
use crate::wire::{Bounce, SHORTEST_BOUNCE, WallTime};

/// How long an answer may take.
const IDLE: Duration = Duration::from_secs(10);

/// How long the server's end is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

#[expect(clippy::too_many_lines, reason = "one loop with its reports")]
pub(super) fn run(run: &Run<'_>, index: u32) {
    let Some(bounceback) = run.client.bounceback else {
        return;
    };
    let size = run.settings.length;
    if size < SHORTEST_BOUNCE {
        return run.fail(format!(
            "iperf: -l: messages of a bounceback test have at least {SHORTEST_BOUNCE} bytes"
        ));
    }
    let number = run.numbers.next();
    let connected = run.connect(index);
    run.keep_connect_time(connected.as_ref().map(|(_, time)| *time));
    let Some((data, connect_time)) = connected else {
        return;
    };
    let _ = data.socket.set_tcp_nodelay(true);
    let id = run.id(number, false);
    let mut connection = connection::of_socket(id.clone(), &data, run.to.clone(), Transport::Tcp);
    connection.bounce = Some((
        size,
        bounceback.hold.as_micros() as u32,
        bounceback.quick_ack,
    ));
    connection.connect_time = Some(connect_time);
    run.observer.see(&Event::Connected(&connection));
    run.wait_to_begin(number);

    let mut flow =
        FlowPlan::of(Transport::Tcp, Workload::ask()).with_buffers(BufferPlan::message(size));
    flow.here.measure_cpu = true;
    flow.timing = Timing {
        passes: true,
        calls: false,
    };
    let time = match run.client.plan.flow().map(|flow| flow.limit) {
        Some(Limit::Time(time)) => Some(time),
        _ => None,
    };
    let counters: Arc<Counters> = Arc::default();
    let settings = PhaseSettings {
        counters: &counters,
        cancel: run.stop,
        control: None,
        time,
        idle: Some(IDLE + bounceback.period + bounceback.hold),
        group: None,
    };
    let mut phase = MeasuredPhase::start(&flow.here, settings);
    let began = Instant::now();
    let interval = run
        .settings
        .print
        .interval
        .unwrap_or(Duration::from_secs(1));
    let (mut all, mut of_interval) = (Histogram::default(), Histogram::default());
    let (mut intervals, mut burst, mut bytes_before) = (0_u32, 0_u32, 0);
    let memory = engine::Memory::new(64 << 20, 64 << 20);
    let (mut message, facts) = (vec![0; size as usize], &data.facts);
    let made = Buffers::new(
        &flow.here,
        &flow.workload,
        flow.transport,
        facts,
        None,
        &message,
        &memory,
    );
    let mut buffers = match made {
        Ok(buffers) => buffers,
        Err(error) => return run.fail(error.to_string()),
    };
    let leg = match connection::leg(id.clone(), &flow, &data, &connection) {
        Ok(leg) => leg,
        Err(error) => return run.fail(sys::describe(&error)),
    };
    let report = |from: Duration, to: Duration, bytes: u64, latency: &Histogram, is_final: bool| {
        let figures = Figures {
            from,
            to,
            sends: true,
            bytes,
            latency: Some(latency.clone()),
            path: engine::path_sample(leg.socket.as_fd()),
            ends: leg.ends.clone(),
            ..Figures::default()
        };
        let event = if is_final {
            Event::Final(&id, &figures)
        } else {
            Event::Interval(&id, &figures)
        };
        run.observer.see(&event);
    };
    let mut last = None;
    while !phase.stop.is_set() {
        burst += 1;
        Bounce {
            size,
            number: burst,
            quick_ack: bounceback.quick_ack,
            synchronised: run.client.trip_times,
            type_of_service: run.settings.socket.type_of_service,
            stop: false,
            sent: WallTime::now(),
            served: None,
            hold: bounceback.hold,
        }
        .write(&mut message);
        buffers.refill(&message);
        let ran = phase.run_part(
            Limit::Transactions(bounceback.burst.into()),
            Loop::of(&flow, &mut buffers),
            Flow::Connected(data.socket.as_fd()),
        );
        if let Some(latency) = &ran.latency {
            of_interval.merge(latency);
        }
        let has_ended = ran.ended != Ended::Count;
        last = Some(ran);
        if has_ended {
            break;
        }
        // The next event: a burst, the end of an interval before it, or the end of the test.
        let next = if bounceback.period.is_zero() {
            began.elapsed()
        } else {
            bounceback.period * burst
        };
        loop {
            let due = interval * (intervals + 1);
            let until = next.min(due);
            let left = until.saturating_sub(began.elapsed());
            if !left.is_zero() && !phase.stop.is_set() {
                // A stop wakes a thread that waits for a socket.
                let _ = phase
                    .stop
                    .wait_readable(data.socket.as_fd(), Instant::now() + left);
            }
            if due > next || phase.stop.is_set() || began.elapsed() < due {
                break;
            }
            let bytes = counters.counts().bytes();
            report(
                interval * intervals,
                due,
                bytes - bytes_before,
                &of_interval,
                false,
            );
            all.merge(&std::mem::take(&mut of_interval));
            (intervals, bytes_before) = (intervals + 1, bytes);
        }
    }
    phase.stop_clock();
    let bytes = counters.counts().bytes();
    if let Some(time) = time
        && phase.passed.elapsed >= time
        && bytes > bytes_before
        && interval * (intervals + 1) <= time
    {
        report(
            interval * intervals,
            time,
            bytes - bytes_before,
            &of_interval,
            false,
        );
    }
    all.merge(&of_interval);
    let finished = phase.finish(
        engine::Finish::HalfClose,
        &Flow::Connected(data.socket.as_fd()),
        PATIENCE,
    );
    phase.stop_clock();
    report(Duration::ZERO, phase.passed.elapsed, bytes, &all, true);
    if let Some(mut ran) = last {
        ran.latency = Some(all);
        let ended = match (ran.ended.clone(), finished) {
            (Ended::PeerClosed, _) => {
                Ended::Failed("read failed: the peer closed the connection".to_owned())
            }
            (Ended::Deadline | Ended::Count, Err(error)) => {
                Ended::Failed(unfinished(&error, PATIENCE))
            }
            (ended, _) => ended,
        };
        if let Ended::Failed(why) = &ended {
            run.fail(why.clone());
        }
        let facts = data.facts_at_end(&data.socket);
        let here = phase.side(ran, &data, &buffers, facts);
        run.keep(&flow, Went::new(here, None, ended));
    }
}
