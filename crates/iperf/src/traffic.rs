//! One direction of a TCP connection, from the start of its measured phase to its end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    BufferMemory, Buffers, Counters, DataSocket, FlowGroup, FlowLoop, FlowSockets, LoopResult,
    MeasuredPhase, PhaseSettings, Stop, deadline_thread,
};
use model::{EndCause, FlowPlan, Limit, Side, Warning};
use sys::{Address, call};

use crate::flow::{bits_per_second, receive_length, send_length};
use crate::options::SendMode;
use crate::peer_checks::{self, Request};
use crate::report_group::{MeasuredFlow, ReportGroup};
use crate::stream_loop::StreamLoop;
use crate::timing::TimingStats;
use crate::wire::WallTime;

/// The settings of one direction of a TCP connection.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own"
)]
pub(crate) struct StreamTransfer<'a> {
    /// The plan of the flow.
    pub(crate) flow: &'a FlowPlan,
    /// The connected socket.
    pub(crate) data: &'a DataSocket,
    /// The content of the send buffer.
    pub(crate) pattern: &'a [u8],
    /// The group of flows that start at the same time.
    pub(crate) group: Option<&'a FlowGroup>,
    /// The maximum wait for the end of the transfer after its planned duration. It is also a lower
    /// bound of the idle timeout.
    pub(crate) finish_timeout: Duration,
    /// Whether the other direction of the connection also runs.
    pub(crate) is_duplex: bool,
    /// Bytes transferred on the connection before the measured phase.
    pub(crate) bytes_before_start: usize,
    /// Whether to count receive calls by size.
    pub(crate) counts_reads: bool,
    /// The send mode.
    pub(crate) send_mode: &'a SendMode,
    /// For a receiver of bursts that each begin with a burst record; `None` for all other flows.
    pub(crate) received_bursts: Option<ReceivedBursts>,
    /// A time before the peer can have started. Only receivers with a limit use it.
    pub(crate) requested: Instant,
    /// The start of the test, for the burst records.
    pub(crate) started: WallTime,
    /// Whether a reset connection ends a sender even while it waits for its next send call.
    pub(crate) ends_on_reset: bool,
    /// Whether a sender ends with its last write (`--ignore-shutdown`).
    pub(crate) ignores_shutdown: bool,
    /// The memory of the buffers.
    pub(crate) memory: &'a BufferMemory,
    /// Ends the transfer.
    pub(crate) stop: &'a Stop,
}

/// The maximum memory of a flow's buffers in one direction.
pub(crate) const MAX_RING_BYTES: u64 = 64 << 20;

/// How a receiver reads a stream of bursts that each begin with a burst record on the wire.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedBursts {
    /// Whether a test header precedes the first burst.
    pub(crate) stream_has_test_header: bool,
}

impl StreamTransfer<'_> {
    /// Returns whether the engine lacks a loop for this direction.
    fn needs_dialect_loop(&self, sends: bool) -> bool {
        if sends {
            !self.send_mode.is_default()
        } else {
            self.received_bursts.is_some()
        }
    }

    /// Runs a direction for which the engine lacks a loop.
    fn run_dialect_loop(
        &self,
        flow: &FlowPlan,
        limit: Limit,
        measured: &MeasuredFlow,
        reports: &ReportGroup,
        stop: &Stop,
    ) -> LoopResult {
        let stream = StreamLoop {
            socket: self.data.socket.as_fd(),
            counters: &measured.counters,
            timings: measured.timings.as_deref(),
            stop,
        };
        let Some(bursts) = self.received_bursts.filter(|_| !measured.sends) else {
            let rate = bits_per_second(flow);
            return stream.send(self.send_mode, (self.pattern, rate), limit, self.started);
        };
        let report_burst = |stats: &TimingStats, size, duration| {
            if measured.reports_bursts() {
                reports.report_burst(measured, stats, size, duration);
            }
        };
        stream.receive(
            receive_length(flow),
            measured.has_trip_times,
            bursts.stream_has_test_header,
            &report_burst,
        )
    }
}

impl StreamTransfer<'_> {
    /// Runs the engine's loop.
    ///
    /// If a byte limit ends within a buffer, sends the last part separately.
    fn run_engine_loop(
        &self,
        phase: &mut MeasuredPhase<'_>,
        (flow, limit): (&FlowPlan, Limit),
        measured: &MeasuredFlow,
        buffers: &mut Buffers,
    ) -> LoopResult {
        let (full_buffers, last_bytes) = split_limit(limit, measured.sends, send_length(flow));
        let sockets = FlowSockets::Connected(self.data.socket.as_fd());
        let mut loop_result = match full_buffers {
            Limit::Bytes(0) => EndCause::Count.into(),
            limit => phase.run_part(limit, FlowLoop::for_flow(flow, buffers), sockets),
        };
        if last_bytes > 0 && loop_result.ended == EndCause::Count {
            let bytes = &self.pattern[..last_bytes];
            let send_last = |stop: &Stop| {
                send_partial_buffer(self.data, bytes, &measured.counters, stop).into()
            };
            loop_result.ended = phase.run_dialect_loop(true, send_last).ended;
        }
        phase.stop_clock();
        loop_result
    }
}

/// The result of a flow.
pub(crate) struct FlowResult {
    /// The start of the measured phase.
    pub(crate) started: Instant,
    pub(crate) side: Side,
    /// The figures of the peer.
    pub(crate) remote: Option<Side>,
    pub(crate) ended: EndCause,
    pub(crate) warning: Option<Warning>,
}

impl FlowResult {
    pub(crate) fn new(started: Instant, side: Side, remote: Option<Side>, ended: EndCause) -> Self {
        Self {
            started,
            side,
            remote,
            ended,
            warning: None,
        }
    }
}

/// Runs one direction of a TCP connection to its end, and reports its figures.
#[expect(clippy::too_many_lines, reason = "the phases of a flow, in order")]
pub(crate) fn run(
    transfer: &StreamTransfer<'_>,
    measured: &MeasuredFlow,
    reports: &Arc<ReportGroup>,
) -> FlowResult {
    let StreamTransfer { flow, data, .. } = transfer;
    let mut flow = FlowPlan::clone(flow);
    flow.local.count_receive_sizes =
        transfer.counts_reads && !measured.sends && flow.local.pacing.is_none();
    let period = transfer
        .send_mode
        .periodic_bursts
        .map_or(Duration::ZERO, |bursts| bursts.period);
    let failed = |reason: &dyn std::fmt::Display| {
        let ended = EndCause::Failed(reason.to_string());
        FlowResult::new(Instant::now(), Side::default(), None, ended)
    };
    // A loop of the dialect copies the pattern.
    let copied_bytes = if transfer.needs_dialect_loop(measured.sends) {
        transfer.pattern.len() as u64
    } else {
        0
    };
    let copy_share = match transfer.memory.reserve(copied_bytes) {
        Ok(share) => share,
        Err(error) => return failed(&error),
    };
    let allocated = Buffers::new(
        &flow.local,
        &flow.workload,
        flow.transport,
        &data.facts,
        None,
        transfer.pattern,
        transfer.memory,
    );
    let mut buffers = match allocated {
        Ok(buffers) => buffers,
        Err(error) => return failed(&error),
    };
    let duration = match flow.limit {
        Limit::Time(time) if measured.sends => Some(time),
        Limit::Time(time) => Some(time + transfer.finish_timeout),
        _ => None,
    };
    let settings = PhaseSettings {
        counters: &measured.counters,
        cancel: transfer.stop,
        control: None,
        duration,
        idle_timeout: Some(
            buffers.idle_timeout(transfer.finish_timeout.max(IDLE_TIMEOUT), &flow.local)
                + 2 * period,
        ),
        group: transfer.group,
    };
    let mut phase = MeasuredPhase::start(&flow.local, settings);
    let stop = phase.stop.clone();
    let ends_on_reset = transfer.ends_on_reset && measured.sends;
    let reset_watch =
        ends_on_reset.then(|| deadline_thread().set_on_reset(data.socket.as_fd(), &stop));
    let _registered = reports.begin(measured, phase.started());
    if measured.sends {
        measured.counters.count_sent(transfer.bytes_before_start, 1);
    } else {
        measured
            .counters
            .count_received(transfer.bytes_before_start, 0);
    }
    let limit = loop_limit(flow.limit, measured.sends, transfer.bytes_before_start);
    let dialect_loop =
        |stop: &Stop| transfer.run_dialect_loop(&flow, limit, measured, reports, stop);
    let loop_result = if transfer.needs_dialect_loop(measured.sends) {
        phase.run_dialect_loop(measured.sends, dialect_loop)
    } else {
        transfer.run_engine_loop(&mut phase, (&flow, limit), measured, &mut buffers)
    };
    drop((reset_watch, copy_share));
    let received = measured.counters.counts().received.0;
    let request = Request {
        age: transfer.requested.elapsed(),
        pause: 2 * period,
    };
    let mut completion = peer_checks::stream_end(&loop_result.ended, flow.limit, received, request);
    if measured.sends && transfer.ignores_shutdown {
        completion = Ok(());
    } else if measured.sends {
        let finished = if transfer.is_duplex {
            shut_down_and_wait(data, transfer.finish_timeout, transfer.stop)
        } else {
            phase.drain(&data.socket, transfer.finish_timeout)
        };
        completion =
            finished.map_err(|error| describe_finish_error(&error, transfer.finish_timeout));
    }
    let facts = data.current_facts(&data.socket);
    let direction = (measured.sends, transfer.is_duplex);
    let ended = end_cause(&loop_result, &completion, direction);
    let mut side = phase.side(loop_result, data, &buffers, facts);
    let latency = measured
        .timings
        .as_ref()
        .and_then(|timings| timings.histogram());
    side.latency = side.latency.or(latency);
    if let EndCause::Failed(reason) = &ended {
        reports.fail_stream(&measured.id, reason);
    }
    reports.end(measured, &side);
    // The peer of a stream sends no report. If the stream ended without an error, the peer
    // transferred the same number of bytes.
    let remote = completion.is_ok() && !matches!(ended, EndCause::Failed(_));
    let remote = remote.then(|| peer_side(&side));
    FlowResult::new(phase.started(), side, remote, ended)
}

/// Returns the limit of the loop. A sender's byte limit includes the bytes sent before the measured
/// phase. A receiver with a byte limit reads to the end of the stream.
fn loop_limit(limit: Limit, sends: bool, bytes_before_start: usize) -> Limit {
    match limit {
        Limit::Bytes(bytes) if sends => {
            Limit::Bytes(bytes.saturating_sub(bytes_before_start as u64))
        }
        Limit::Bytes(_) => Limit::Unlimited,
        other => other,
    }
}

/// Returns how the transfer ended. `completion` is the result of the steps after the loop.
fn end_cause(
    loop_result: &LoopResult,
    completion: &Result<(), String>,
    (sends, is_duplex): (bool, bool),
) -> EndCause {
    let reset = call::Error::CONNRESET.raw_os_error();
    match (&loop_result.ended, loop_result.failure) {
        // The sender of a full-duplex connection may close it before it has read all data.
        (EndCause::PeerClosed, Some((_, errno))) if !sends && !is_duplex && errno == reset => {
            let reason = sys::describe(&std::io::Error::from_raw_os_error(errno));
            EndCause::Failed(format!("recv failed: {reason}"))
        }
        // It is an error if the peer closes the connection before the sender ends.
        (EndCause::PeerClosed, failure) if sends => {
            let errno = failure.map_or(reset, |(_, errno)| errno);
            let reason = sys::describe(&std::io::Error::from_raw_os_error(errno));
            EndCause::Failed(format!("write failed: {reason}"))
        }
        (EndCause::Failed(_) | EndCause::Cancelled, _) => loop_result.ended.clone(),
        (ended, _) => match completion {
            Ok(()) => ended.clone(),
            Err(reason) => EndCause::Failed(reason.clone()),
        },
    }
}

/// Splits a sender's byte limit into full buffers of `length` bytes and the remaining bytes.
///
/// Returns other limits unchanged.
fn split_limit(limit: Limit, sends: bool, length: u32) -> (Limit, usize) {
    match limit {
        Limit::Bytes(bytes) if sends && length > 0 => {
            let rest = bytes % u64::from(length);
            (Limit::Bytes(bytes - rest), rest as usize)
        }
        _ => (limit, 0),
    }
}

/// Sends the last bytes of a byte limit, which fill only part of a buffer.
fn send_partial_buffer(
    data: &DataSocket,
    mut bytes: &[u8],
    counters: &Counters,
    stop: &Stop,
) -> EndCause {
    while !bytes.is_empty() {
        match call::send(data.socket.as_fd(), bytes) {
            Ok(sent) => {
                counters.count_sent(sent, 1);
                bytes = &bytes[sent..];
            }
            Err(call::Error::INTR) if stop.is_set() => return EndCause::Cancelled,
            Err(call::Error::INTR) => {}
            Err(error) => {
                let reason = sys::describe(&std::io::Error::from(error));
                return EndCause::Failed(format!("write failed: {reason}"));
            }
        }
    }
    EndCause::Count
}

/// Returns the figures of the peer: the same bytes in the other direction.
fn peer_side(side: &Side) -> Side {
    let counts = model::Counts {
        sent: side.counts.received,
        received: side.counts.sent,
        ..model::Counts::default()
    };
    Side {
        counts,
        ..Side::default()
    }
}

/// Shuts down this direction of a connection, and waits until the peer has acknowledged all data.
///
/// Another thread reads from the connection.
fn shut_down_and_wait(data: &DataSocket, timeout: Duration, stop: &Stop) -> std::io::Result<()> {
    let socket = data.socket.as_fd();
    sys::call::shutdown_write(socket)?;
    let deadline = Instant::now() + timeout;
    while sys::option::unacknowledged_bytes(socket)? > 0 && !stop.is_set() {
        // A reset connection has no peer address.
        Address::peer(&data.socket)?;
        if Instant::now() >= deadline {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the error message for a stream that did not finish.
pub(crate) fn describe_finish_error(error: &std::io::Error, timeout: Duration) -> String {
    if error.kind() == std::io::ErrorKind::TimedOut {
        let seconds = timeout.as_secs();
        return format!("write failed: the peer did not close the connection within {seconds} s");
    }
    format!("write failed: {}", sys::describe(error))
}

/// The maximum time without progress of a flow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a duplicate of the socket's descriptor.
pub(crate) fn duplicate(socket: &sys::Socket) -> std::io::Result<Arc<OwnedFd>> {
    socket.as_fd().try_clone_to_owned().map(Arc::new)
}
