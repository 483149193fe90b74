//! How a loop ends, and what it must not go beyond.

use std::io;

use model::{Ended, Paced};
use stats::Histogram;
use sys::call::Error;

use crate::counters::CounterWriter;
use crate::stop::{Reason, Stop};

/// What a loop leaves besides its counters.
#[derive(Debug)]
pub struct Ran {
    /// Times of whole passes.
    pub latency: Option<Histogram>,
    /// Times of send calls.
    pub send_times: Option<Histogram>,
    /// Times of receive calls.
    pub receive_times: Option<Histogram>,
    /// What became of the schedule, if there was one.
    pub paced: Option<Paced>,
    /// From one interval's beginning to the next one's.
    pub send_gaps: Option<Histogram>,
    /// Segments that the connections of a connection test have sent again, if they were asked.
    pub retransmits: Option<u32>,
    /// Why it ended.
    pub ended: Ended,
    /// The failed call and its error number, when it ended with [`Ended::Failed`] or because the
    /// peer reset.
    pub failure: Option<(&'static str, i32)>,
    /// The step of a list whose execution failed.
    pub failed_step: Option<(usize, Failure)>,
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was tried, in the dialect's words or as the call's name.
    pub what: String,
    /// The error number, 0 for none.
    pub errno: i32,
}

impl From<Ended> for Ran {
    /// Nothing was timed, nothing failed.
    fn from(ended: Ended) -> Self {
        Self {
            latency: None,
            send_times: None,
            receive_times: None,
            paced: None,
            send_gaps: None,
            retransmits: None,
            ended,
            failure: None,
            failed_step: None,
        }
    }
}

impl From<Reason> for Ran {
    /// A stop was pulled, and nothing was timed.
    fn from(reason: Reason) -> Self {
        let timed_out = ("receive", Error::TIMEDOUT.raw_os_error());
        Self {
            failure: (reason == Reason::Silence).then_some(timed_out),
            ..Ended::from(reason).into()
        }
    }
}

impl Failure {
    /// A failure of a call.
    pub fn of_call(what: &str, error: Error) -> Self {
        Self {
            what: what.to_owned(),
            errno: error.raw_os_error(),
        }
    }

    /// One that no call is to blame for.
    pub fn of_sense(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            errno: 0,
        }
    }

    /// Whether the peer has closed the connection with something unread.
    pub fn is_reset(&self) -> bool {
        [Error::CONNRESET, Error::PIPE]
            .map(Error::raw_os_error)
            .contains(&self.errno)
    }

    /// Whether nobody has the port any more that datagrams were sent to.
    pub fn is_refused(&self) -> bool {
        self.errno == Error::CONNREFUSED.raw_os_error()
    }

    pub(crate) fn is_interruption(&self) -> bool {
        self.errno == Error::INTR.raw_os_error()
    }
}

/// What bounds a loop, and where it counts.
///
/// Each loop takes it apart at its top: with a parameter `mut bounds` the budget stays in memory, which cost 6
/// instructions a transaction of TCP_RR and 3 a send of TCP_STREAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) budget: Budget,
    pub(crate) stop: &'a Stop,
    pub(crate) counters: CounterWriter<'a>,
}

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopEnd {
    /// The budget is spent.
    Count,
    /// The stop was pulled.
    Stopped,
    /// The peer ended the stream.
    PeerClosed,
    /// The socket's own timeout passed (SO_RCVTIMEO, SO_SNDTIMEO).
    TimedOut,
    /// The interface's queue was full, and a datagram was dropped here.
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

    /// In a caller's terms.
    pub(crate) fn ran(self, stop: &Stop) -> Ran {
        match self {
            Self::Count => Ended::Count.into(),
            Self::Stopped => stop.reason().unwrap_or(Reason::Deadline).into(),
            Self::PeerClosed => Ended::PeerClosed.into(),
            Self::TimedOut => Reason::Silence.into(),
            Self::Dropped => Ended::Failed("send failed: the queue is full".to_owned()).into(),
            Self::Failed { call, errno } => {
                let gone = [Error::PIPE, Error::CONNRESET].map(Error::raw_os_error);
                let ended = if gone.contains(&errno) {
                    Ended::PeerClosed
                } else {
                    let text = sys::describe(&io::Error::from_raw_os_error(errno));
                    Ended::Failed(format!("{call} failed: {text}"))
                };
                Ran {
                    failure: Some((call, errno)),
                    ..ended.into()
                }
            }
        }
    }
}

/// What is left of a count limit, in bytes or transactions. A time limit has no budget to spend: it counts down from
/// more than can be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(pub(crate) u64);

impl Budget {
    /// Spends some; whether nothing is left.
    #[inline]
    pub(crate) fn spend(&mut self, amount: u64) -> bool {
        self.0 = self.0.saturating_sub(amount);
        self.0 == 0
    }

    /// Messages of this size that are left, the last one perhaps only in part.
    #[inline]
    pub(crate) fn messages(self, size: u32) -> u64 {
        self.0.div_ceil(size.max(1).into())
    }

    /// Whether there is more than so many.
    pub(crate) fn exceeds(self, amount: usize) -> bool {
        self.0 > amount as u64
    }
}
