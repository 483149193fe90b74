//! The thread of a stream: moves its data to the end of the test, or to an end of its own.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{Buffers, Flow, GroupMember, Loop, MeasuredPhase, PhaseSettings, Ran, receive_late};
use model::{Ended, Limit, Side, SizeRule};
use sys::call::{self, Error};

use super::{End, Shared, Stream};

/// More than any test takes.
const LONG: Duration = Duration::from_secs(1 << 20);

/// How long the rest of a block may take.
const REST: Duration = Duration::from_secs(5);

pub(super) fn run_stream(
    stream: &Stream,
    member: GroupMember<'_>,
    shared: &Shared<'_>,
) -> Option<Side> {
    let (plan, course) = (&stream.plan, &shared.course);
    let file = stream.file.as_ref().and_then(|file| file.try_clone().ok());
    let length = file.as_ref().and_then(|file| file.metadata().ok());
    let fills_once = stream.sends && length.is_some();
    let (sent, save) = if stream.sends {
        (file, None)
    } else {
        (None, file)
    };
    let facts = &stream.data.facts;
    let (half, workload) = (&plan.here, &plan.workload);
    let buffers = Buffers::new(
        half,
        workload,
        plan.transport,
        facts,
        sent,
        course.payload,
        course.memory,
    );
    let Ok(mut buffers) = buffers else {
        shared.fail("begin", Error::NOMEM.raw_os_error());
        return None;
    };
    buffers.save = save;
    let settings = PhaseSettings {
        counters: &stream.counters,
        cancel: &shared.over,
        control: None,
        time: course.time.map(|time| course.omit + time),
        idle: Some(buffers.patience(course.idle, half)),
        group: Some(member.start()?),
    };
    let limit = match plan.limit {
        Limit::Bytes(bytes) if course.bytes.is_some() && !shared.sum_ends => {
            Limit::Bytes(length.map_or(bytes, |file| file.len().min(bytes)))
        }
        _ if fills_once => length.map_or(Limit::Unlimited, |file| Limit::Bytes(file.len())),
        _ => course.time.map_or(Limit::Unlimited, Limit::Time),
    };
    let mut phase = MeasuredPhase::start(half, settings);
    let socket = &stream.data.socket;
    let path = Flow::Connected(socket.as_fd());
    let body = Loop {
        warm_up: course.omit,
        ..Loop::of(plan, &mut buffers)
    };
    let ran = phase.run(limit, body, path);
    note(&ran, shared, stream.sends);
    if stream.sends {
        if stream.file.is_none() {
            complete_block(stream, course.payload);
        }
        if course.hangs_up && plan.transport.has_connections() {
            // The client decides when the test ends, also after the end of a file.
            let _ = shared
                .over
                .wait_readable(socket.as_fd(), Instant::now() + LONG);
            let _ = call::shutdown_write(socket.as_fd());
        }
    } else {
        receive_late(
            socket.as_fd(),
            &mut buffers,
            &shared.drained,
            &stream.counters,
        );
    }
    let facts = stream.data.facts_at_end(socket);
    Some(phase.side(ran, &stream.data, &buffers, facts))
}

/// Sends what is missing of a block that the end has cut: a stock receiver waits for all of it, and for nothing else
/// meanwhile. The test's time is over, so it is not counted.
fn complete_block(stream: &Stream, payload: &[u8]) {
    let SizeRule::Bytes(block) = stream.plan.here.send.size else {
        return;
    };
    let sent = stream.counters.counts().sent.0 % u64::from(block);
    if !stream.plan.transport.has_bytes() || sent == 0 {
        return;
    }
    let mut rest = u64::from(block) - sent;
    let socket = stream.data.socket.as_fd();
    let until = Instant::now() + REST;
    while rest > 0 && Instant::now() < until {
        let piece = &payload[..payload.len().min(rest as usize)];
        match call::send_without_waiting(socket, piece) {
            Ok(count) => rest -= count as u64,
            Err(Error::AGAIN) => {
                let _ =
                    call::wait_writable(socket, until.saturating_duration_since(Instant::now()));
            }
            Err(Error::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Tells the leader of a stream that has ended by itself.
fn note(ran: &Ran, shared: &Shared<'_>, sends: bool) {
    let end = match (&ran.ended, ran.failure) {
        // The client ends the test, also after the server's file.
        (Ended::Count, _) if shared.course.hangs_up => return,
        (Ended::Count, _) => End::Regular,
        // A sender's time has come, or the peer's message says why.
        (Ended::Deadline | Ended::Cancelled, _) => return,
        (Ended::PeerClosed, _) if !sends => return,
        (_, Some((_, errno))) if errno == Error::TIMEDOUT.raw_os_error() => End::Idle,
        (_, Some((_, errno))) if is_of_disk(errno) => End::Failed("write", errno),
        (_, Some((what, errno))) => End::Failed(what, errno),
        _ => End::Failed(if sends { "send" } else { "receive" }, 0),
    };
    shared.end(end);
}

/// Whether an error is one of a file, and none of a socket.
fn is_of_disk(errno: i32) -> bool {
    [
        Error::NOSPC,
        Error::DQUOT,
        Error::FBIG,
        Error::IO,
        Error::ROFS,
    ]
    .map(Error::raw_os_error)
    .contains(&errno)
}
