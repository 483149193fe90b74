//! Data connections that get no answer, as behind a firewall that lets the control connection through:
//! they are reported, or given up.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use engine::{Counters, Reason, Stop};

use super::ClientError;
use crate::options::Unanswered;

/// Without an answer for this long a test reports it, unless it is to be given up.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// Whether anything has come back on one flow's data connection.
#[derive(Debug)]
pub(super) struct Answer {
    counters: Arc<Counters>,
    /// The connection was established, or the peer has reported that it received something.
    came: AtomicBool,
    gave_up: AtomicBool,
    /// What is missing, from when on it is expected.
    missing: OnceLock<Missing>,
    watch: Arc<Watch>,
}

/// What gets no answer.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The peer's name, as it was typed.
    pub(super) host: String,
    /// Where the data goes.
    pub(super) port: u32,
    /// There is a control connection.
    pub(super) has_control: bool,
    /// Datagrams that only the peer can report.
    pub(super) is_one_way: bool,
    /// The source addresses of the datagrams and of the control connection, if they differ: a server may refuse
    /// such datagrams.
    pub(super) sources: Option<[IpAddr; 2]>,
    /// The option that sets the port.
    pub(super) option: &'static str,
}

impl fmt::Display for Missing {
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
            write!(f, "it reports none of the datagrams to its port {port}")?;
        } else {
            write!(
                f,
                "the data connection to {host} port {port} gets no answer"
            )?;
        }
        f.write_str("; does a firewall drop it")?;
        if let Some([data, control]) = sources {
            write!(
                f,
                ", or the server, because it comes from {data} and the control connection from {control}"
            )?;
        }
        write!(f, "? ({option} sets the port)")
    }
}

/// What the flows of one test share: the thread that looks at their answers when it is time.
#[derive(Debug)]
pub(super) struct Watch {
    rule: Unanswered,
    was_reported: AtomicBool,
    expected: Sender<Expected>,
}

/// An answer that is expected.
#[derive(Debug)]
struct Expected {
    /// Gone when the test has ended.
    answer: Weak<Answer>,
    until: Instant,
    /// Ends the flow.
    stop: Stop,
}

impl Watch {
    /// The answers of a test with these counters, one a flow.
    pub(super) fn over(counters: &[Arc<Counters>], rule: Unanswered) -> Vec<Arc<Answer>> {
        let (expected, answers) = mpsc::channel();
        let watch = Arc::new(Self {
            rule,
            was_reported: AtomicBool::new(false),
            expected,
        });
        // Without the thread nothing is reported before the test has ended.
        let _ = Builder::new().stack_size(64 * 1024).spawn(move || {
            // Only standard error is needed; the loop's descriptors stay the loop's alone.
            sys::process::own_descriptors(&[]);
            follow(&answers);
        });
        let answer = |counters: &Arc<Counters>| Answer {
            counters: Arc::clone(counters),
            came: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            missing: OnceLock::new(),
            watch: Arc::clone(&watch),
        };
        counters
            .iter()
            .map(|counters| Arc::new(answer(counters)))
            .collect()
    }

    fn report(&self, missing: &Missing) {
        if !self.was_reported.swap(true, Relaxed) {
            sys::write_error_line(format_args!("netperf: {missing}"));
        }
    }
}

/// Looks at each answer when it is due, until no flow can expect another one.
fn follow(answers: &Receiver<Expected>) {
    let mut expected: Vec<Expected> = Vec::new();
    loop {
        let next = expected.iter().map(|one| one.until).min();
        let received = match next {
            Some(until) => answers.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => answers.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(one) => expected.push(one),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = Instant::now();
                for one in expected.extract_if(.., |one| one.until <= now) {
                    one.is_due();
                }
            }
        }
    }
}

impl Expected {
    fn is_due(&self) {
        let Some(answer) = self.answer.upgrade() else {
            return;
        };
        let Some(missing) = answer.missing.get().filter(|_| !answer.is_there()) else {
            return;
        };
        // A test that somebody ends has no answer to wait for.
        if self.stop.is_set() {
            return;
        }
        match answer.watch.rule {
            Unanswered::Report => answer.watch.report(missing),
            Unanswered::GiveUp(_) => {
                answer.gave_up.store(true, Relaxed);
                self.stop.pull(Reason::Silence);
            }
        }
    }
}

impl Answer {
    /// From now on an answer is expected; `stop` ends the flow where it is given up.
    pub(super) fn expect(self: &Arc<Self>, missing: Missing, stop: &Stop) {
        let patience = match self.watch.rule {
            Unanswered::Report => REPORT_AFTER,
            Unanswered::GiveUp(patience) => patience,
        };
        let _ = self.missing.set(missing);
        // Without the thread there is nobody to tell.
        let _ = self.watch.expected.send(Expected {
            answer: Arc::downgrade(self),
            until: Instant::now() + patience,
            stop: stop.clone(),
        });
    }

    /// An answer came that the counters do not count.
    pub(super) fn came(&self) {
        self.came.store(true, Relaxed);
    }

    fn is_there(&self) -> bool {
        let counts = self.counters.counts();
        self.came.load(Relaxed) || counts.receive_calls > 0 || counts.transactions > 0
    }

    /// The test has ended with this result. One without an answer is a failure where that is to be
    /// given up, else it is reported.
    pub(super) fn conclude<T>(
        &self,
        ended: Result<T, ClientError>,
        stop: &Stop,
    ) -> Result<T, ClientError> {
        let Some(missing) = self.missing.get() else {
            return ended;
        };
        let is_unanswered = ended.is_ok() && !stop.is_set() && !self.is_there();
        if !is_unanswered && !self.gave_up.load(Relaxed) {
            return ended;
        }
        match self.watch.rule {
            Unanswered::GiveUp(_) => Err(ClientError::Unanswered(missing.clone())),
            Unanswered::Report => {
                self.watch.report(missing);
                ended
            }
        }
    }
}
