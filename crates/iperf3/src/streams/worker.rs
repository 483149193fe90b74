//! The thread of a stream: moves its data until the transfer or the stream ends.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::AcqRel;
use std::time::{Duration, Instant};

use engine::{
    Buffers, FlowLoop, FlowSockets, GroupMember, LoopResult, MeasuredPhase, PhaseSettings,
    receive_late,
};
use model::{EndCause, Limit, Side};
use sys::call::{self, Error};

use super::{SharedState, Stream, TransferEnd};

/// A timeout longer than any test.
const MAX_TEST_TIME: Duration = Duration::from_secs(1 << 20);

/// The maximum time for which a server reads data after the client's end message.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The time without data after which a server ends the reading earlier.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// The timeout for sending the rest of a block.
const BLOCK_COMPLETION_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn run_stream(
    stream: &Stream,
    member: GroupMember<'_>,
    shared: &SharedState<'_>,
) -> Option<Side> {
    let (plan, transfer) = (&stream.plan, &shared.transfer);
    let file = stream.file.as_ref().and_then(|file| file.try_clone().ok());
    let metadata = file.as_ref().and_then(|file| file.metadata().ok());
    let (send_file, receive_file) = if stream.sends {
        (file, None)
    } else {
        (None, file)
    };
    let facts = &stream.data.facts;
    let (endpoint, workload) = (&plan.local, &plan.workload);
    let buffers = Buffers::new(
        endpoint,
        workload,
        plan.transport,
        facts,
        send_file,
        transfer.payload,
        transfer.memory,
    );
    let Ok(mut buffers) = buffers else {
        shared.fail("begin", Error::NOMEM.raw_os_error());
        return None;
    };
    buffers.save_file = receive_file;
    let settings = PhaseSettings {
        counters: &stream.counters,
        cancel: &shared.data_stop,
        control: None,
        duration: transfer.time.map(|time| transfer.omit + time),
        idle_timeout: Some(buffers.idle_timeout(transfer.idle_timeout, endpoint)),
        group: Some(member.start()?),
    };
    let limit = match metadata.filter(|_| stream.sends) {
        Some(file) => Limit::Bytes(file.len()),
        None => transfer.time.map_or(Limit::Unlimited, Limit::Time),
    };
    let mut phase = MeasuredPhase::start(endpoint, settings);
    let socket = &stream.data.socket;
    let sockets = FlowSockets::Connected(socket.as_fd());
    let flow_loop = FlowLoop {
        warm_up: transfer.omit,
        shared_limit: shared.limit.as_ref().filter(|_| stream.sends),
        ..FlowLoop::for_flow(plan, &mut buffers)
    };
    let loop_result = phase.run(limit, flow_loop, sockets);
    report_end(&loop_result, shared, stream.sends);
    if stream.sends && transfer.is_server {
        if stream.file.is_none() && transfer.bytes.is_some() {
            complete_block(stream, shared);
        }
        // Wait until the client ends the test, even if the file ended earlier.
        let until = Instant::now() + MAX_TEST_TIME;
        let _ = shared.data_stop.wait_readable(socket.as_fd(), until);
        if plan.transport.has_connections() {
            let _ = call::shutdown_write(socket.as_fd());
        }
    } else if stream.sends {
        if stream.file.is_none() {
            complete_block(stream, shared);
        }
    } else if transfer.is_server {
        drain(stream, shared);
    } else {
        receive_late(
            socket.as_fd(),
            &mut buffers,
            &shared.drain_stop,
            &stream.counters,
        );
    }
    let facts = stream.data.current_facts(socket);
    Some(phase.side(loop_result, &stream.data, &buffers, facts))
}

/// Discards the data that a client sent before its end message, until it pauses.
///
/// If a socket is closed with unread data, the kernel resets the connection.
fn drain(stream: &Stream, shared: &SharedState<'_>) {
    let socket = stream.data.socket.as_fd();
    let until = Instant::now() + DRAIN_TIMEOUT;
    let mut discarded = [0; 16 * 1024];
    let has_data = || {
        let pause = until.min(Instant::now() + DRAIN_PAUSE);
        shared.drain_stop.wait_readable(socket, pause) == Ok(true)
    };
    while Instant::now() < until && has_data() {
        match call::receive_without_waiting(socket, &mut discarded) {
            Ok(1..) | Err(Error::AGAIN | Error::INTR) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// The interval at which a sender without room checks whether the test has ended.
const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Sends the rest of a block that the end of the transfer interrupted.
///
/// A stock receiver blocks until it has the complete block. If the test has a number of bytes,
/// the rest is part of it; else it is sent after the test's time.
fn complete_block(stream: &Stream, shared: &SharedState<'_>) {
    let (payload, counts_rest) = (shared.transfer.payload, shared.transfer.bytes.is_some());
    let block = u64::from(shared.transfer.block_bytes);
    let sent_in_block = stream.counters.counts().sent.0 % block;
    if !stream.plan.transport.is_byte_stream() || sent_in_block == 0 {
        return;
    }
    let mut remaining = block - sent_in_block;
    let socket = stream.data.socket.as_fd();
    let until = Instant::now() + BLOCK_COMPLETION_TIMEOUT;
    // A client that has ended the test does not read any more.
    let is_read = || !shared.transfer.is_server || !shared.data_stop.is_set();
    while remaining > 0 && Instant::now() < until && is_read() {
        let piece = &payload[..payload.len().min(remaining as usize)];
        match call::send_without_waiting(socket, piece) {
            Ok(count) => {
                remaining -= count as u64;
                if counts_rest {
                    stream.counters.count_sent(count, 0);
                }
            }
            Err(Error::AGAIN) => {
                let _ = call::wait_writable(socket, ROOM_CHECK_INTERVAL);
            }
            Err(Error::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Reports to the coordinator that a stream ended by itself.
fn report_end(loop_result: &LoopResult, shared: &SharedState<'_>, sends: bool) {
    let end = match (&loop_result.ended, loop_result.failure) {
        // The client ends the test, even if the server's file ended earlier.
        (EndCause::Count, _) if shared.transfer.is_server => return,
        // The other senders have shares of the limit.
        (EndCause::Count, _)
            if shared.limit.is_some() && shared.running_senders.fetch_sub(1, AcqRel) > 1 =>
        {
            return;
        }
        (EndCause::Count, _) => TransferEnd::Regular,
        // The coordinator handles these ends.
        (EndCause::Deadline | EndCause::Cancelled, _) => return,
        (EndCause::PeerClosed, _) if !sends => return,
        (_, Some((_, errno))) if errno == Error::TIMEDOUT.raw_os_error() => TransferEnd::Idle,
        (_, Some((_, errno))) if is_file_error(errno) => TransferEnd::Failed("write", errno),
        (_, Some((action, errno))) => TransferEnd::Failed(action, errno),
        _ => TransferEnd::Failed(if sends { "send" } else { "receive" }, 0),
    };
    shared.record_end(end);
}

/// Returns whether an errno comes from a file and not from a socket.
fn is_file_error(errno: i32) -> bool {
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
