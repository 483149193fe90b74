//! Strands: the threads and processes that run a group's transactions, in a master or a slave.
//!
//! [`Workers`] are all strands of one run at this end. Their leader opens one barrier per
//! transaction and otherwise only watches. The leader is the loop of a master, or the session of a
//! slave, which follows the commands of its master.

mod addresses;
mod compile;
mod connection_budget;
mod connection_manager;
mod connections;
mod datagrams;
mod endpoints;
mod log;
mod process;
mod response_file;
mod sctp;
mod socket_probe;
mod stock_slave;
mod worker;
mod workers;

pub(crate) use addresses::{any_address, ipv6_mapped_text, unreachable_reason};
pub(crate) use compile::{has_datagrams, transport};
pub(crate) use endpoints::{Listeners, PeerHost, Peers};
pub(crate) use log::Log;
pub(crate) use response_file::ResponseFile;
pub(crate) use socket_probe::{supports_protocol, unsupported_reason};
pub(crate) use stock_slave::whole_ticks;
pub(crate) use worker::strand_bytes;
pub(crate) use workers::Workers;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Stop;
use engine::script::{StepFailure, StepReport};
use model::Counts;
use serde::{Deserialize, Serialize};
use server::PeerPolicy;
use sys::counter::PerfEvent;

use workers::EXIT_TOLERANCE;

use crate::run_budget::RunBudget;
use crate::tls::TlsContexts;
use crate::workorder::{GroupSpec, TransactionSpec};

/// How much earlier than at this end a transaction's time may end at the peer.
const EARLY_END_TOLERANCE: Duration = Duration::from_secs(1);

/// One group at this end, with all inputs of its strands.
#[derive(Debug)]
pub(crate) struct GroupSetup {
    pub(crate) group: GroupSpec,
    /// This end is a slave: the master's commands end transactions that only receive, after all
    /// data has arrived.
    pub(crate) is_slave: bool,
    /// A slave of the group is a stock uperf. It ends a transaction only when it next reads its
    /// clock.
    pub(crate) has_stock_slave: bool,
    /// The destinations of its connects.
    pub(crate) peers: Peers,
    /// The listeners of its accepts, one set per strand.
    pub(crate) listeners: Vec<Listeners>,
    /// The files that its flowops send.
    pub(crate) files: Arc<Files>,
    /// The TLS settings of its connections.
    pub(crate) tls: TlsContexts,
    /// Which peers it accepts data from.
    pub(crate) policy: PeerPolicy,
    /// The resource budget of its strands; `None` for no limit.
    pub(crate) run_budget: Option<RunBudget>,
}

/// Files to send, grouped by the directory that was searched for them.
pub(crate) type Files = Vec<(PathBuf, Vec<File>)>;

/// The measurements that strands make.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one option of the command line"
)]
pub(crate) struct MeasurementOptions {
    /// Times of each transaction.
    pub(crate) transactions: bool,
    /// Times of each flowop.
    pub(crate) flowops: bool,
    /// CPU times, in addition to the elapsed times.
    pub(crate) cpu: bool,
    /// A histogram of the execution times of a transaction, for percentiles.
    pub(crate) histogram: bool,
    /// File for the time of each pass of each flowop (`-X`).
    pub(crate) responses: Option<Arc<ResponseFile>>,
    /// Events to count in each flowop. The system permits all of them.
    pub(crate) counters: Vec<PerfEvent>,
}

/// State that the workers of a group share.
#[derive(Debug)]
struct WorkerGroup {
    setup: GroupSetup,
    /// Its transactions, compiled for the engine.
    compiled: Vec<model::Transaction>,
    /// Stops the transactions, one entry for each.
    stops: Vec<Stop>,
    measurements: MeasurementOptions,
}

/// The result of one strand.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StrandOutcome {
    /// Index of its group.
    pub(crate) group: usize,
    /// Results in order; fewer than the group's transactions if the strand ended early.
    pub(crate) transactions: Vec<StrandTransactionOutcome>,
    pub(crate) log: Log,
    pub(crate) failed: bool,
}

impl StrandOutcome {
    /// Returns the result of a strand that was lost.
    fn from_failure(group: usize, reason: &str, errno: i32) -> Self {
        let mut log = Log::default();
        log.error(reason, errno);
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
pub(crate) struct StrandTransactionOutcome {
    #[serde(with = "process::monotonic")]
    pub(crate) began: Instant,
    pub(crate) elapsed: Duration,
    /// The strand's counters before the transaction.
    before: Counts,
    pub(crate) counts: Counts,
    /// Elapsed time and counts at the end of the transaction's time, if the strand left late.
    cut: Option<(Duration, Counts)>,
    /// The measured times. The events are in the order of [`MeasurementOptions::counters`].
    pub(crate) times: StepReport,
}

impl StrandTransactionOutcome {
    /// Returns the strand's elapsed time and counts, both limited to the transaction's time.
    pub(crate) fn clipped_to_duration(&self) -> (Duration, Counts) {
        self.cut.unwrap_or((self.elapsed, self.counts))
    }

    /// Limits the result to the end of the transaction's time. A strand that left within
    /// [`EXIT_TOLERANCE`] keeps its own end, which includes its last call.
    fn clip_at(&mut self, end: Instant, counts_at_end: &Counts) {
        if end >= self.began && end + EXIT_TOLERANCE < self.began + self.elapsed {
            self.cut = Some((end - self.began, counts_at_end.since(&self.before)));
        }
    }
}

impl WorkerGroup {
    fn new(setup: GroupSetup, measurements: MeasurementOptions, cancel: &Stop) -> Self {
        let transactions = setup.group.transactions.iter();
        Self {
            stops: transactions.map(|_| cancel.child()).collect(),
            compiled: compile::compile_transactions(&setup.group),
            setup,
            measurements,
        }
    }

    fn transaction(&self, stage: usize) -> Option<&TransactionSpec> {
        self.setup.group.transactions.get(stage)
    }

    /// Returns the descriptors that all its workers share.
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = self.setup.files.iter().flat_map(|(_, files)| files);
        let responses = self.measurements.responses.iter();
        let responses = responses.map(|responses| responses.descriptor());
        files.map(AsFd::as_fd).chain(responses)
    }

    fn waits_for_interrupt(&self, transaction: &TransactionSpec) -> bool {
        // Datagrams that arrive after the end are late, so there is no reason to wait for them.
        let GroupSetup {
            is_slave, group, ..
        } = &self.setup;
        *is_slave && transaction.only_receives() && !compile::has_datagrams(group)
    }

    /// Whether a failed flowop only means that the other end has closed its connection.
    ///
    /// A reset means this if the transaction's time ended first at the other end, with unread data.
    /// Refused datagrams mean this at a slave. At a master, only stock slaves close this way, at
    /// the end of the last transaction.
    fn is_expected_close(
        &self,
        transaction: &TransactionSpec,
        step: usize,
        elapsed: Duration,
        failure: &StepFailure,
    ) -> bool {
        let is_nearly_over = |duration| elapsed + EARLY_END_TOLERANCE >= duration;
        let is_reset = failure.is_reset() && transaction.duration.is_some_and(is_nearly_over);
        let is_refused = failure.is_refused() && transaction.flowops[step].kind.transfers();
        let (is_slave, has_stock_slave) = (self.setup.is_slave, self.setup.has_stock_slave);
        (is_slave || has_stock_slave) && is_reset || is_slave && is_refused
    }
}
