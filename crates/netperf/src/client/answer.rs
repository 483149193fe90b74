//! Detects data connections without an answer, for example behind a firewall that passes only the
//! control connection. A test reports them or gives up.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use engine::{Counters, Stop, StopReason};

use super::ClientError;
use crate::options::UnansweredPolicy;

/// Time without an answer after which a test reports it, unless the user set a time to give up.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// Whether the peer has answered on one flow's data connection.
#[derive(Debug)]
pub(super) struct AnswerStatus {
    counters: Arc<Counters>,
    /// Whether the connection was established, or the peer has reported received data.
    is_recorded: AtomicBool,
    has_given_up: AtomicBool,
    /// The awaited answer, set when its timeout starts.
    awaited: OnceLock<AwaitedAnswer>,
    monitor: Arc<AnswerMonitor>,
}

/// Description of an answer that a flow awaits, for messages.
#[derive(Clone, Debug)]
pub struct AwaitedAnswer {
    /// The peer's name, as typed.
    pub(super) host: String,
    /// The port of the data.
    pub(super) port: u32,
    /// Whether there is a control connection.
    pub(super) has_control: bool,
    /// Whether the data is one-way datagrams, whose arrival only the peer can report.
    pub(super) is_one_way: bool,
    /// The source addresses of the datagrams and of the control connection, if they differ: a
    /// server may refuse such datagrams.
    pub(super) sources: Option<[IpAddr; 2]>,
    /// The option that sets the port.
    pub(super) option: &'static str,
}

impl fmt::Display for AwaitedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            port,
            sources,
            option,
            ..
        } = self;
        if self.has_control {
            write!(f, "the control connection to {host} is up, but ")?;
        }
        if self.is_one_way {
            write!(f, "{host} reports no datagrams received on port {port}")?;
        } else {
            write!(
                f,
                "the data connection to {host} port {port} gets no answer"
            )?;
        }
        write!(
            f,
            "; does a firewall drop the data? ({option} sets the port)"
        )?;
        if let Some([data, control]) = sources {
            write!(
                f,
                "; the server may also refuse the data, because it comes from {data} and the control \
                 connection from {control}"
            )?;
        }
        Ok(())
    }
}

/// The thread that checks the answers of all flows of a test at their deadlines.
#[derive(Debug)]
pub(super) struct AnswerMonitor {
    policy: UnansweredPolicy,
    was_reported: AtomicBool,
    deadlines: Sender<AnswerDeadline>,
}

/// The deadline of an awaited answer.
#[derive(Debug)]
struct AnswerDeadline {
    /// Dangling after the end of the test.
    status: Weak<AnswerStatus>,
    expires_at: Instant,
    /// Ends the flow.
    stop: Stop,
}

impl AnswerMonitor {
    /// Starts the thread. Returns one status per flow, for these counters.
    pub(super) fn start(
        counters: &[Arc<Counters>],
        policy: UnansweredPolicy,
    ) -> Vec<Arc<AnswerStatus>> {
        let (deadlines, receiver) = mpsc::channel();
        let monitor = Arc::new(Self {
            policy,
            was_reported: AtomicBool::new(false),
            deadlines,
        });
        // Without the thread, the test reports a missing answer only at its end.
        let _ = Builder::new().stack_size(64 * 1024).spawn(move || {
            // The thread needs only standard error. A private descriptor table keeps the hot loop's
            // table unshared.
            sys::process::use_private_descriptors(&[]);
            watch_deadlines(&receiver);
        });
        let status = |counters: &Arc<Counters>| AnswerStatus {
            counters: Arc::clone(counters),
            is_recorded: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
            awaited: OnceLock::new(),
            monitor: Arc::clone(&monitor),
        };
        counters
            .iter()
            .map(|counters| Arc::new(status(counters)))
            .collect()
    }

    fn report(&self, awaited: &AwaitedAnswer) {
        if !self.was_reported.swap(true, Relaxed) {
            sys::write_error_line(format_args!("netperf: {awaited}"));
        }
    }
}

/// Checks each answer at its deadline, until all flows have ended.
fn watch_deadlines(receiver: &Receiver<AnswerDeadline>) {
    let mut pending: Vec<AnswerDeadline> = Vec::new();
    loop {
        let next_expiry = pending.iter().map(|deadline| deadline.expires_at).min();
        let result = match next_expiry {
            Some(expiry) => receiver.recv_timeout(expiry.saturating_duration_since(Instant::now())),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match result {
            Ok(deadline) => pending.push(deadline),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = Instant::now();
                for deadline in pending.extract_if(.., |deadline| deadline.expires_at <= now) {
                    deadline.handle_expiry();
                }
            }
        }
    }
}

impl AnswerDeadline {
    fn handle_expiry(&self) {
        let Some(status) = self.status.upgrade() else {
            return;
        };
        let Some(awaited) = status.awaited.get().filter(|_| !status.has_answer()) else {
            return;
        };
        // A stopped test awaits no answer.
        if self.stop.is_set() {
            return;
        }
        match status.monitor.policy {
            UnansweredPolicy::Report => status.monitor.report(awaited),
            UnansweredPolicy::FailAfter(_) => {
                status.has_given_up.store(true, Relaxed);
                self.stop.set(StopReason::IdleTimeout);
            }
        }
    }
}

impl AnswerStatus {
    /// Starts the timeout of an answer. `stop` ends the flow if the policy is to give up.
    pub(super) fn start_timeout(self: &Arc<Self>, awaited: AwaitedAnswer, stop: &Stop) {
        let timeout = match self.monitor.policy {
            UnansweredPolicy::Report => REPORT_AFTER,
            UnansweredPolicy::FailAfter(timeout) => timeout,
        };
        let _ = self.awaited.set(awaited);
        // Fails only if the thread could not start.
        let _ = self.monitor.deadlines.send(AnswerDeadline {
            status: Arc::downgrade(self),
            expires_at: Instant::now() + timeout,
            stop: stop.clone(),
        });
    }

    /// Records an answer that the counters do not count.
    pub(super) fn record_answer(&self) {
        self.is_recorded.store(true, Relaxed);
    }

    fn has_answer(&self) -> bool {
        let counts = self.counters.counts();
        self.is_recorded.load(Relaxed) || counts.receive_calls > 0 || counts.transactions > 0
    }

    /// Checks the result of an ended test. If the answer is missing, this returns an error or
    /// reports it, depending on the policy.
    pub(super) fn check_result<T>(
        &self,
        result: Result<T, ClientError>,
        stop: &Stop,
    ) -> Result<T, ClientError> {
        let Some(awaited) = self.awaited.get() else {
            return result;
        };
        let is_unanswered = result.is_ok() && !stop.is_set() && !self.has_answer();
        if !is_unanswered && !self.has_given_up.load(Relaxed) {
            return result;
        }
        match self.monitor.policy {
            UnansweredPolicy::FailAfter(_) => Err(ClientError::Unanswered(awaited.clone())),
            UnansweredPolicy::Report => {
                self.monitor.report(awaited);
                result
            }
        }
    }
}
