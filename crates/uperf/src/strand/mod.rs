//! Strands: the threads and processes that run a group's transactions, at either end.
//!
//! [`Workers`] are all strands of one end's run. Their leader (a master's own loop, or a slave's session by its
//! master's commands) opens one barrier after the other, and only looks on in between.

mod allowance;
mod compile;
mod connection_manager;
mod connections;
mod datagrams;
mod ends;
mod journal;
mod log;
mod process;
mod reach;
mod sctp;
mod settle;
mod trial;
mod worker;
mod workers;

pub(crate) use compile::{has_datagrams, transport};
pub(crate) use ends::{Listeners, PeerHost, Peers};
pub(crate) use journal::ResponseFile;
pub(crate) use log::Log;
pub(crate) use reach::{anywhere, machine_text, obstacle};
pub(crate) use settle::whole_ticks;
pub(crate) use trial::{has, refusal};
pub(crate) use worker::strand_bytes;
pub(crate) use workers::Workers;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Stop;
use engine::script::{Failure, StepReport};
use model::Counts;
use serde::{Deserialize, Serialize};
use server::Policy;
use sys::counter::Event;

use workers::LATE;

use crate::account::Account;
use crate::tls::Contexts;
use crate::workorder::{Group, Transaction};

/// How much earlier a transaction's time may be up at the end that leads.
const LEEWAY: Duration = Duration::from_secs(1);

/// One group at this end, with everything that its strands need.
#[derive(Debug)]
pub(crate) struct GroupSetup {
    pub(crate) group: Group,
    /// The other end leads: its commands end transactions that only receive, when all data has come.
    pub(crate) follows: bool,
    /// A slave of the group is a stock uperf, which ends a transaction's time at its next look at the clock.
    pub(crate) has_stock_slave: bool,
    /// Where its connects go.
    pub(crate) peers: Peers,
    /// The listeners of its accepts, one set per strand.
    pub(crate) listeners: Vec<Listeners>,
    /// The files that its flowops send.
    pub(crate) files: Arc<Files>,
    /// The TLS settings of its connections.
    pub(crate) tls: Contexts,
    /// Which peers it accepts data from.
    pub(crate) policy: Policy,
    /// The budget of its strands; `None` for no limit of ours.
    pub(crate) account: Option<Account>,
}

/// Files to send, by the directory that they were found below.
pub(crate) type Files = Vec<(PathBuf, Vec<File>)>;

/// Which times are kept.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one option of the command line"
)]
pub(crate) struct Watching {
    /// Of each transaction.
    pub(crate) transactions: bool,
    /// Of each flowop.
    pub(crate) flowops: bool,
    /// CPU time as well.
    pub(crate) cpu: bool,
    /// Each execution of a transaction, for percentiles.
    pub(crate) histogram: bool,
    /// Where each pass of each flowop goes.
    pub(crate) responses: Option<Arc<ResponseFile>>,
    /// What is counted in each flowop; the system allows all of it.
    pub(crate) counters: Vec<Event>,
}

/// What the workers of a group share.
#[derive(Debug)]
struct WorkerGroup {
    setup: GroupSetup,
    /// What its transactions were compiled to.
    compiled: Vec<model::Transaction>,
    /// Ends each transaction.
    stops: Vec<Stop>,
    watching: Watching,
}

/// The result of one strand.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StrandOutcome {
    /// Whose it is.
    pub(crate) group: usize,
    /// In order; fewer than the group has, if it ended early.
    pub(crate) transactions: Vec<TransactionOutcome>,
    pub(crate) log: Log,
    pub(crate) failed: bool,
}

impl StrandOutcome {
    /// The result of a strand that was lost.
    fn of_failure(group: usize, why: &str, errno: i32) -> Self {
        let mut log = Log::default();
        log.say(why, errno);
        Self {
            group,
            transactions: Vec::new(),
            log,
            failed: true,
        }
    }
}

/// One strand's part of a transaction.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransactionOutcome {
    #[serde(with = "process::monotonic")]
    pub(crate) began: Instant,
    pub(crate) elapsed: Duration,
    /// What was in the strand's books before it.
    before: Counts,
    pub(crate) counts: Counts,
    /// The same up to the end of the transaction's time, if the strand left late.
    cut: Option<(Duration, Counts)>,
    /// The times that were kept; the events are in the order of [`Watching::counters`].
    pub(crate) times: StepReport,
}

impl TransactionOutcome {
    /// How long the strand was at it within the transaction's time, and what it did by then.
    pub(crate) fn in_time(&self) -> (Duration, Counts) {
        self.cut.unwrap_or((self.elapsed, self.counts))
    }

    /// The time was up then, with this in the strand's books. What leaves at once has its own end, with
    /// the call that was under way.
    fn end_at(&mut self, then: Instant, counts: &Counts) {
        if then >= self.began && then + LATE < self.began + self.elapsed {
            self.cut = Some((then - self.began, counts.since(&self.before)));
        }
    }
}

impl WorkerGroup {
    fn new(setup: GroupSetup, watching: Watching, cancel: &Stop) -> Self {
        let transactions = setup.group.transactions.iter();
        Self {
            stops: transactions.map(|_| cancel.follower()).collect(),
            compiled: compile::transactions(&setup.group),
            setup,
            watching,
        }
    }

    fn transaction(&self, stage: usize) -> Option<&Transaction> {
        self.setup.group.transactions.get(stage)
    }

    /// The descriptors that all its workers use.
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = self.setup.files.iter().flat_map(|(_, files)| files);
        let responses = self.watching.responses.iter();
        let responses = responses.map(|responses| responses.descriptor());
        files.map(AsFd::as_fd).chain(responses)
    }

    fn awaits_end_of(&self, transaction: &Transaction) -> bool {
        // Datagrams that come after the time are late.
        let GroupSetup { follows, group, .. } = &self.setup;
        *follows && transaction.only_receives() && !compile::has_datagrams(group)
    }

    /// Whether a failed flowop only shows that the other end has closed its connection: by a reset, if its time was
    /// up first and it had data unread; by a refusal of datagrams, if it leads. Of those who do not lead only stock
    /// slaves close so, at the end of the last transaction.
    fn is_end(
        &self,
        transaction: &Transaction,
        at: usize,
        elapsed: Duration,
        failure: &Failure,
    ) -> bool {
        let is_nearly_over = |duration| elapsed + LEEWAY >= duration;
        let is_reset = failure.is_reset() && transaction.duration.is_some_and(is_nearly_over);
        let is_refused = failure.is_refused() && transaction.flowops[at].kind.transfers();
        let (follows, has_stock_slave) = (self.setup.follows, self.setup.has_stock_slave);
        (follows || has_stock_slave) && is_reset || follows && is_refused
    }
}
