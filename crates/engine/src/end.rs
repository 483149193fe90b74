//! Limits and results of a loop.

use std::io;

use model::{EndCause, PacingResult};
use stats::Histogram;
use sys::call::Error;

use crate::counters::CounterWriter;
use crate::shared_limit::SharedLimit;
use crate::stop::{Stop, StopReason};

/// Result of a loop, besides its counters.
#[derive(Debug)]
pub struct LoopResult {
    /// Times of whole passes.
    pub latency: Option<Histogram>,
    /// Times of send calls.
    pub send_times: Option<Histogram>,
    /// Times of receive calls.
    pub receive_times: Option<Histogram>,
    /// Results of the schedule, if there was one.
    pub pacing_result: Option<PacingResult>,
    /// Times between the starts of consecutive intervals.
    pub send_gaps: Option<Histogram>,
    /// Segments that the connections of a connection test have retransmitted, if counted.
    pub retransmits: Option<u32>,
    /// Why the loop ended.
    pub ended: EndCause,
    /// The failed call and its error number, if the loop ended with [`EndCause::Failed`] or by a
    /// reset of the peer.
    pub failure: Option<(&'static str, i32)>,
    /// Index of the failed step of a list, and the reason.
    pub failed_step: Option<(usize, StepFailure)>,
}

/// Why an execution of a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFailure {
    /// The attempted action, in the dialect's words or as the call's name.
    pub action: String,
    /// The error number; 0 for none.
    pub errno: i32,
}

impl From<EndCause> for LoopResult {
    /// Creates a result without times and without a failure.
    fn from(ended: EndCause) -> Self {
        Self {
            latency: None,
            send_times: None,
            receive_times: None,
            pacing_result: None,
            send_gaps: None,
            retransmits: None,
            ended,
            failure: None,
            failed_step: None,
        }
    }
}

impl From<StopReason> for LoopResult {
    /// Creates the result of a stopped loop, without times.
    fn from(reason: StopReason) -> Self {
        let timed_out = ("receive", Error::TIMEDOUT.raw_os_error());
        Self {
            failure: (reason == StopReason::IdleTimeout).then_some(timed_out),
            ..EndCause::from(reason).into()
        }
    }
}

impl StepFailure {
    /// Creates the failure of a system call.
    pub fn from_call(call: &str, error: Error) -> Self {
        Self {
            action: call.to_owned(),
            errno: error.raw_os_error(),
        }
    }

    /// Creates a failure without a system call.
    pub fn from_text(action: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            errno: 0,
        }
    }

    /// Returns whether the peer has reset the connection.
    pub fn is_reset(&self) -> bool {
        [Error::CONNRESET, Error::PIPE]
            .map(Error::raw_os_error)
            .contains(&self.errno)
    }

    /// Returns whether the destination port of datagrams is closed.
    pub fn is_refused(&self) -> bool {
        self.errno == Error::CONNREFUSED.raw_os_error()
    }

    pub(crate) fn is_interruption(&self) -> bool {
        self.errno == Error::INTR.raw_os_error()
    }
}

/// Limits of a loop, and its counters.
///
/// Each loop first moves the fields into local variables. With a parameter `mut bounds` the budget
/// stays in memory, which costs 6 instructions per transaction of TCP_RR and 3 per send of
/// TCP_STREAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) work_left: Budget,
    pub(crate) stop: &'a Stop,
    pub(crate) counters: CounterWriter<'a>,
}

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopEnd {
    /// The budget is spent.
    Count,
    /// The stop was set.
    Stopped,
    /// The peer ended the stream.
    PeerClosed,
    /// The timeout of the socket passed (SO_RCVTIMEO, SO_SNDTIMEO).
    TimedOut,
    /// The interface's queue was full, and this host dropped a datagram.
    Dropped,
    /// A call failed.
    Failed { call: &'static str, errno: i32 },
}

impl LoopEnd {
    pub(crate) fn from_call(call: &'static str, error: Error) -> Self {
        if error == Error::AGAIN {
            return Self::TimedOut;
        }
        Self::Failed {
            call,
            errno: error.raw_os_error(),
        }
    }

    pub(crate) fn from_io(call: &'static str, error: &io::Error) -> Self {
        Self::Failed {
            call,
            errno: error.raw_os_error().unwrap_or(Error::INVAL.raw_os_error()),
        }
    }

    /// Converts the end into a result for the caller.
    pub(crate) fn into_result(self, stop: &Stop) -> LoopResult {
        match self {
            Self::Count => EndCause::Count.into(),
            Self::Stopped => stop.reason().unwrap_or(StopReason::Deadline).into(),
            Self::PeerClosed => EndCause::PeerClosed.into(),
            Self::TimedOut => StopReason::IdleTimeout.into(),
            Self::Dropped => EndCause::Failed("send failed: the queue is full".to_owned()).into(),
            Self::Failed { call, errno } => {
                let closed_errors = [Error::PIPE, Error::CONNRESET].map(Error::raw_os_error);
                let ended = if closed_errors.contains(&errno) {
                    EndCause::PeerClosed
                } else {
                    let text = sys::describe(&io::Error::from_raw_os_error(errno));
                    EndCause::Failed(format!("{call} failed: {text}"))
                };
                LoopResult {
                    failure: Some((call, errno)),
                    ..ended.into()
                }
            }
        }
    }
}

/// Remaining bytes or transactions of a count limit. Without a count limit, the budget starts with
/// more than can be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(pub(crate) u64);

impl Budget {
    /// Takes a share of the limit, or the whole budget without a limit. Returns `None` if nothing is
    /// left.
    pub(crate) fn take_share(&mut self, limit: Option<&SharedLimit>) -> Option<Self> {
        let share = limit.map_or(self.0, |limit| limit.take(self.0));
        self.0 -= share;
        (share > 0).then_some(Self(share))
    }

    /// Subtracts `amount`, and returns whether nothing is left.
    #[inline]
    pub(crate) fn spend(&mut self, amount: u64) -> bool {
        self.0 = self.0.saturating_sub(amount);
        self.0 == 0
    }

    /// Returns the number of messages of this size that are left, including a partial last one.
    #[inline]
    pub(crate) fn messages(self, size: u32) -> u64 {
        self.0.div_ceil(size.max(1).into())
    }

    /// Returns whether more than `amount` is left.
    pub(crate) fn exceeds(self, amount: usize) -> bool {
        self.0 > amount as u64
    }
}
