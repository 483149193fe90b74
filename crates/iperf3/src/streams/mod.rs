//! The data transfer of a test.
//!
//! Each stream has a thread. The calling thread takes samples, watches the control connection
//! and decides when the transfer ends.

mod coordinator;
mod stream;
mod worker;

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::thread::Builder;
use std::time::Duration;

use control::ControlConnection;
use engine::{BufferMemory, FlowGroup, SharedLimit, Stop, StopReason};
use model::{Series, Side};

use crate::options::CommonSettings;
use crate::wire::Parameters;
use crate::wire::error::{self, Fault};
use coordinator::Coordinator;
pub(crate) use coordinator::MAX_TICK;
pub(crate) use stream::{Stream, bind_cpu, log_socket_settings, open_file};
use worker::run_stream;

/// The maximum bytes of a stream's buffers.
pub(crate) const STREAM_MEMORY: u64 = 4 << 20;

/// The stack of a stream's thread, in bytes. The buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// The settings of a transfer: its end conditions, intervals, payload and memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferSettings<'a> {
    /// The omitted time.
    pub(crate) omit: Duration,
    /// The length of the transfer after the omitted time; `None` if something else ends it.
    pub(crate) time: Option<Duration>,
    /// The bytes of one direction's streams, after the omitted time, after which the transfer ends.
    ///
    /// A server does not end the transfer: its streams stop sending, and the client ends it.
    pub(crate) bytes: Option<u64>,
    /// The bytes of a block.
    pub(crate) block_bytes: u32,
    /// The length of a report interval; `None` without intervals.
    pub(crate) interval: Option<Duration>,
    /// The maximum time during which a stream moves no data.
    pub(crate) idle_timeout: Duration,
    /// Ends the transfer early.
    pub(crate) cancel: &'a Stop,
    /// Whether this end is the server.
    ///
    /// A server ends its streams at the client's end message, before the exchange of results. A
    /// stock client may read until then.
    pub(crate) is_server: bool,
    /// The pattern that fills sent blocks, repeated as needed.
    pub(crate) payload: &'a [u8],
    /// The memory budget of the buffers.
    pub(crate) memory: &'a BufferMemory,
}

impl<'a> TransferSettings<'a> {
    /// Creates the settings of a transfer that lasts until the peer or `cancel` ends it.
    pub(crate) fn from_settings(
        common: &CommonSettings,
        parameters: &Parameters,
        cancel: &'a Stop,
        payload: &'a [u8],
        memory: &'a BufferMemory,
    ) -> Self {
        Self {
            omit: Duration::from_secs(parameters.omit.into()),
            time: None,
            bytes: crate::total_bytes(parameters),
            block_bytes: parameters.block_size(),
            interval: common.interval,
            idle_timeout: common.receive_timeout,
            cancel,
            is_server: false,
            payload,
            memory,
        }
    }
}

/// The state of all streams at the end of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalEnd<'a> {
    /// The streams.
    pub(crate) streams: &'a [Stream],
    /// The samples of each stream; the last two enclose the interval.
    pub(crate) series: &'a [Series],
    /// The index of the sample at the end of the omitted time; `None` during that time.
    pub(crate) omit_end_index: Option<usize>,
}

/// The next step of a transfer, as its handler decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The transfer continues.
    Continue,
    /// The transfer ends now.
    End,
    /// The transfer ends after this total of received bytes, or after a timeout.
    EndAfter(u64),
}

/// Handles the events of a transfer, and can end it.
pub(crate) trait TransferHandler {
    /// The control connection is readable.
    fn on_control(&mut self) -> NextStep;

    /// An interval has ended.
    fn on_interval(&mut self, interval: IntervalEnd<'_>);

    /// Called regularly, with the time since the start and the bytes of all streams so far.
    fn on_tick(&mut self, _elapsed: Duration, _bytes: u64) -> NextStep {
        NextStep::Continue
    }

    /// The transfer has ended at this end. A client's receivers read on, without counting, until
    /// this method returns. Returns whether a server's receivers read on until the data pauses.
    fn on_end(&mut self, _end: &TransferEnd) -> bool {
        false
    }
}

/// The reason for the end of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransferEnd {
    /// The time, a number of bytes, or the peer's message.
    Regular,
    /// A signal.
    Cancelled,
    /// No data was received within the idle timeout.
    Idle,
    /// A failed system call: the action and its errno.
    Failed(&'static str, i32),
}

impl TransferEnd {
    /// Returns the error for this reason. `cancelled_code` is the code for a signal.
    pub(crate) fn fault(&self, cancelled_code: i32) -> Option<Fault> {
        let (code, errno) = match self {
            Self::Regular => return None,
            Self::Cancelled => (cancelled_code, 0),
            Self::Idle => (error::RECEIVE_TIMEOUT, 0),
            Self::Failed("receive", errno) => (error::STREAM_READ, *errno),
            Self::Failed("write", errno) => (error::FILE, *errno),
            Self::Failed("begin", errno) => (error::STREAM_CREATE, *errno),
            Self::Failed(_, errno) => (error::STREAM_WRITE, *errno),
        };
        Some(Fault {
            errno,
            ..Fault::from_code(code)
        })
    }
}

/// The measured data of one stream.
#[derive(Debug)]
pub(crate) struct StreamData {
    /// The figures. Counts, CPU load and round-trip times exclude the omitted time.
    pub(crate) side: Side,
    /// Samples at the ends of intervals.
    pub(crate) series: Series,
}

/// The result of a transfer.
#[derive(Debug)]
pub(crate) struct TransferData {
    /// The data of each stream.
    pub(crate) streams: Vec<StreamData>,
    /// The index of the sample at the end of the omitted time, in each series.
    pub(crate) omit_end_index: usize,
    /// The reason for the end.
    pub(crate) end: TransferEnd,
}

/// Runs the streams until the transfer ends.
pub(crate) fn run_transfer(
    streams: &[Stream],
    transfer: TransferSettings<'_>,
    control: &ControlConnection,
    handler: &mut dyn TransferHandler,
) -> TransferData {
    let endpoint = streams.first().map(|stream| stream.plan.local.clone());
    let group = FlowGroup::new(streams.len(), endpoint.unwrap_or_default());
    let senders = streams.iter().filter(|stream| stream.sends).count();
    let shared = SharedState {
        transfer,
        data_stop: transfer.cancel.child(),
        drain_stop: Stop::new(),
        coordinator_wake: transfer.cancel.child(),
        first_end: OnceLock::new(),
        limit: sent_limit(streams, senders, &transfer),
        running_senders: AtomicUsize::new(senders),
    };
    std::thread::scope(|scope| {
        let start = |stream| {
            let (member, shared) = (group.member(), &shared);
            let thread = Builder::new()
                .name("stream".to_owned())
                .stack_size(STACK_BYTES);
            let run = move || {
                let _ends_on_panic = EndOnPanic(shared);
                run_stream(stream, member, shared)
            };
            let started = thread.spawn_scoped(scope, run);
            // Without this stream, the others never start. So end the transfer.
            started.inspect_err(|error| shared.fail("begin", error.raw_os_error().unwrap_or(0)))
        };
        let threads: Vec<_> = streams.iter().map(start).collect();
        let mut coordinator = Coordinator::new(streams, &shared, &group);
        let end = coordinator.run_until_end(control, handler);
        shared.data_stop.set(StopReason::Deadline);
        let given_up_at = coordinator.data_end;
        coordinator.data_end = Some(coordinator.data_end_time());
        if !handler.on_end(&end) {
            shared.drain_stop.set(StopReason::Deadline);
        }
        let finished = threads
            .into_iter()
            .map(|thread| thread.ok()?.join().ok().flatten());
        let sides: Vec<_> = finished.map(Option::unwrap_or_default).collect();
        coordinator.end_last_interval(handler);
        let omit_end_index = coordinator.omit_end_index.unwrap_or(
            coordinator
                .series
                .first()
                .map_or(0, |series| series.samples.len() - 1),
        );
        let cpu = group.cpu();
        let stream_data = sides.into_iter().zip(coordinator.series);
        let with_round_trips =
            stream_data.zip(coordinator.round_trips.into_iter().zip(coordinator.omitted));
        let per_stream =
            with_round_trips.map(|((side, series), (round_trips, omitted))| StreamData {
                side: Side {
                    counts: side.counts.since(&omitted),
                    // Without the wait for lost datagrams.
                    elapsed: given_up_at.or(side.elapsed).min(side.elapsed),
                    // The thread's CPU time cannot be split at the end of the omitted time.
                    thread_cpu: side.thread_cpu.filter(|_| transfer.omit.is_zero()),
                    cpu: cpu.clone(),
                    smoothed_rtt: Some(round_trips).filter(|times| !times.is_empty()),
                    datagrams: series.samples.last().and_then(|last| last.datagrams),
                    ..side
                },
                series,
            });
        TransferData {
            streams: per_stream.collect(),
            omit_end_index,
            end,
        }
    })
}

/// Ends the transfer if the thread of a stream panics.
struct EndOnPanic<'a>(&'a SharedState<'a>);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("run", 0);
        }
    }
}

/// Returns the limit of bytes that the sending streams share, if there is one.
///
/// A server sends datagrams until the client ends the transfer, because they may be lost, and the
/// client must receive enough.
fn sent_limit(
    streams: &[Stream],
    senders: usize,
    transfer: &TransferSettings<'_>,
) -> Option<SharedLimit> {
    let is_datagrams = streams.iter().any(|stream| stream.plan.datagrams.is_some());
    let bytes = transfer
        .bytes
        .filter(|_| !(transfer.is_server && is_datagrams))?;
    let limit = SharedLimit::new(bytes, transfer.block_bytes, senders);
    if transfer.omit.is_zero() {
        limit.begin(0);
    }
    Some(limit)
}

/// The state that the threads of a transfer share.
struct SharedState<'a> {
    transfer: TransferSettings<'a>,
    /// Ends the streams' loops.
    data_stop: Stop,
    /// Ends the uncounted reading of receivers after the transfer.
    drain_stop: Stop,
    /// Wakes the coordinator when a stream ends by itself.
    coordinator_wake: Stop,
    /// The end of the first stream that ended by itself.
    first_end: OnceLock<TransferEnd>,
    /// The limit of the sent bytes. It begins at the end of the omitted time.
    limit: Option<SharedLimit>,
    /// The number of sending streams that have not ended at the limit.
    running_senders: AtomicUsize,
}

impl SharedState<'_> {
    /// Records that a stream ended by itself. Only the first such end is kept.
    fn record_end(&self, end: TransferEnd) {
        let _ = self.first_end.set(end);
        self.coordinator_wake.set(StopReason::Cancelled);
    }

    fn fail(&self, action: &'static str, errno: i32) {
        self.record_end(TransferEnd::Failed(action, errno));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_stream_ends_the_transfer() {
        let (cancel, memory) = (Stop::new(), BufferMemory::new(1 << 20, 1 << 20));
        let shared = SharedState {
            transfer: TransferSettings {
                omit: Duration::ZERO,
                time: None,
                bytes: None,
                block_bytes: 1,
                interval: None,
                idle_timeout: Duration::MAX,
                cancel: &cancel,
                is_server: true,
                payload: &[0],
                memory: &memory,
            },
            data_stop: cancel.child(),
            drain_stop: Stop::new(),
            coordinator_wake: cancel.child(),
            first_end: OnceLock::new(),
            limit: None,
            running_senders: AtomicUsize::new(1),
        };
        let stream = || {
            let _ends_on_panic = EndOnPanic(&shared);
            panic!("a defect of a stream");
        };
        let ended = std::thread::scope(|scope| scope.spawn(stream).join());
        assert!(ended.is_err());
        assert_eq!(shared.first_end.get(), Some(&TransferEnd::Failed("run", 0)));
        assert!(shared.coordinator_wake.is_set());
    }
}
