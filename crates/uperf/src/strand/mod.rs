//! Strands: the threads that run a group's transactions, at either end.
//!
//! A [`Crew`] is all strands of one end's run. Whoever leads it (a master by its own loop, a slave by its
//! master's commands) opens one barrier after the other; in between nothing is asked of it.

mod compile;
mod connections;
mod ends;
mod journal;
mod log;
mod performer;
mod reach;
mod sctp;
mod stages;
mod trial;

pub(crate) use ends::{Listeners, PeerHost, Peers, Ports};
pub(crate) use journal::ResponseFile;
pub(crate) use log::Log;
pub(crate) use reach::{bind_to_any_port, obstacle};
pub(crate) use stages::Standing;
pub(crate) use trial::{has, refusal};

use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::script::{Counts, Failure, Orders, Pass, Script, ScriptEnd, StepTimes, Tallied, Tally};
use engine::{Promise, Reason, Stop, keeper};
use stats::Histogram;
use sys::counter::{Counters, Event};
use sys::message::{HEADER_BYTES, MOST};
use sys::process::thread_id;

use connections::Connections;
use journal::Journal;
use performer::{Desk, Worker};
use stages::Stages;

use crate::tls::Contexts;
use crate::workorder::{Group, Transaction};

/// What a strand's thread has for its own calls; its buffer is not among it.
const STACK: usize = 96 * 1024;

/// The same with TLS, of which a handshake needs the most.
const STACK_WITH_TLS: usize = 512 * 1024;

/// How much earlier a transaction's time may be up at the end that leads.
const LEEWAY: Duration = Duration::from_secs(1);

/// Bytes that every strand has for what it sends and receives, at least; uperf's.
const LEAST_BUFFER: usize = 8192;

/// One group at this end, settled.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) group: Group,
    /// The other end leads: its word ends what is only received here, when it has all come.
    pub(crate) follows: bool,
    /// Where its connects go.
    pub(crate) peers: Peers,
    /// What its accepts listen with, a strand each.
    pub(crate) listeners: Vec<Listeners>,
    /// What its sendfiles send, by directory.
    pub(crate) files: Arc<Files>,
    /// What its TLS connections are made with.
    pub(crate) tls: Contexts,
}

/// Files to send, by the directory that they were found below.
pub(crate) type Files = Vec<(String, Vec<File>)>;

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

/// The strands of one end.
#[derive(Debug)]
pub(crate) struct Crew {
    stages: Arc<Stages>,
    groups: Vec<Arc<Shared>>,
    strands: Vec<Strand>,
    deadlines: Vec<Promise<'static>>,
}

/// What the strands of a group share.
#[derive(Debug)]
struct Shared {
    group: Group,
    /// The other end leads.
    follows: bool,
    peers: Peers,
    tls: Contexts,
    /// What ends each transaction.
    stops: Vec<Stop>,
    watching: Watching,
}

#[derive(Debug)]
struct Strand {
    group: usize,
    tally: Arc<Tally>,
    thread: JoinHandle<StrandOutcome>,
}

/// What one strand did.
#[derive(Debug)]
pub(crate) struct StrandOutcome {
    /// Whose it is.
    pub(crate) group: usize,
    /// In order; fewer than the group has, if it ended early.
    pub(crate) transactions: Vec<TransactionOutcome>,
    pub(crate) log: Log,
    pub(crate) failed: bool,
}

/// One strand's part of a transaction.
#[derive(Debug)]
pub(crate) struct TransactionOutcome {
    pub(crate) began: Instant,
    pub(crate) elapsed: Duration,
    pub(crate) tallied: Tallied,
    /// Times of executions, if they were kept.
    pub(crate) rounds: Pass,
    /// Times of each flowop, if they were kept.
    pub(crate) flowops: Vec<Pass>,
    /// What was counted in each flowop, in the order of [`Watching::counters`], if it was.
    pub(crate) counts: Option<Vec<Counts>>,
    pub(crate) histogram: Option<Histogram>,
}

impl Crew {
    /// Starts the strands of all groups; they go to the first barrier and wait. `cancel` ends them
    /// wherever they are.
    pub(crate) fn start(posts: Vec<Post>, watching: &Watching, cancel: &Stop) -> io::Result<Self> {
        // Before the first strand: threads inherit what they are bound to.
        let _ = keeper();
        let sizes: Vec<(usize, usize)> = posts
            .iter()
            .map(|post| {
                let group = &post.group;
                (group.strands.count as usize, group.transactions.len())
            })
            .collect();
        let mut crew = Self {
            stages: Arc::new(Stages::new(&sizes)),
            groups: Vec::new(),
            strands: Vec::new(),
            deadlines: Vec::new(),
        };
        for (number, post) in posts.into_iter().enumerate() {
            if let Err(error) = crew.add(number, post, watching.clone(), cancel) {
                crew.abort();
                return Err(error);
            }
        }
        Ok(crew)
    }

    fn add(
        &mut self,
        number: usize,
        post: Post,
        watching: Watching,
        cancel: &Stop,
    ) -> io::Result<()> {
        let Post {
            group,
            follows,
            peers,
            listeners,
            files,
            tls,
        } = post;
        let transactions = group.transactions.len();
        let shared = Arc::new(Shared {
            stops: (0..transactions).map(|_| cancel.follower()).collect(),
            group,
            follows,
            peers,
            tls,
            watching,
        });
        let stack = if shared.tls.is_empty() {
            STACK
        } else {
            STACK_WITH_TLS
        };
        self.groups.push(Arc::clone(&shared));
        let mut listeners = listeners.into_iter();
        for index in 0..shared.group.strands.count as usize {
            let tally = Arc::new(Tally::default());
            let member = Member {
                stages: Arc::clone(&self.stages),
                shared: Arc::clone(&shared),
                tally: Arc::clone(&tally),
                index,
                group: number,
                listeners: listeners.next().unwrap_or_default(),
                files: Arc::clone(&files),
            };
            let thread = std::thread::Builder::new()
                .stack_size(stack)
                .spawn(move || member.run())?;
            self.strands.push(Strand {
                group: number,
                tally,
                thread,
            });
        }
        Ok(())
    }

    /// Waits until all strands are at this barrier, one has failed or all have ended, or until then.
    pub(crate) fn wait(&self, stage: Option<usize>, until: Instant) -> Standing {
        self.stages.wait(stage, until)
    }

    /// Lets a transaction begin, in every group that has it.
    pub(crate) fn release(&mut self, stage: usize) -> Instant {
        let now = Instant::now();
        for shared in &self.groups {
            let Some(transaction) = shared.group.transactions.get(stage) else {
                continue;
            };
            if shared.awaits_end_of(transaction) {
                continue;
            }
            if let Some(duration) = transaction.duration {
                let deadline = keeper().at(now + duration, &shared.stops[stage]);
                self.deadlines.push(deadline);
            }
        }
        self.stages.open(stage);
        now
    }

    /// Whether a transaction goes on after its time until it is interrupted: there may be data on its way.
    pub(crate) fn awaits_end(&self, stage: usize) -> bool {
        self.groups.iter().any(|shared| {
            let transaction = shared.group.transactions.get(stage);
            transaction.is_some_and(|transaction| shared.awaits_end_of(transaction))
        })
    }

    /// Ends a transaction wherever it still runs: its peer has gone on.
    pub(crate) fn interrupt(&self, stage: usize) {
        for shared in &self.groups {
            if let Some(stop) = shared.stops.get(stage) {
                stop.pull(Reason::Deadline);
            }
        }
    }

    /// Ends all strands.
    pub(crate) fn abort(&self) {
        self.stages.abort();
        for stop in self.groups.iter().flat_map(|shared| &shared.stops) {
            stop.pull(Reason::Cancelled);
        }
    }

    /// What all strands have done so far.
    pub(crate) fn tallied(&self) -> Tallied {
        let mut sum = Tallied::default();
        for strand in &self.strands {
            sum += strand.tally.read();
        }
        sum
    }

    /// How many transactions the longest group has.
    pub(crate) fn stages(&self) -> usize {
        let lengths = self
            .groups
            .iter()
            .map(|shared| shared.group.transactions.len());
        lengths.max().unwrap_or(0)
    }

    /// Lets the strands close their connections, waits for them, and says what each did, in the order of
    /// the groups.
    pub(crate) fn finish(self) -> Vec<StrandOutcome> {
        self.stages.dismiss();
        let joined = self.strands.into_iter().map(|strand| {
            strand.thread.join().unwrap_or_else(|_| {
                let mut log = Log::default();
                log.say("a strand has panicked", 0);
                StrandOutcome {
                    group: strand.group,
                    transactions: Vec::new(),
                    log,
                    failed: true,
                }
            })
        });
        joined.collect()
    }
}

impl Shared {
    fn awaits_end_of(&self, transaction: &Transaction) -> bool {
        // Datagrams that come after the time are late.
        self.follows && transaction.only_receives() && !compile::has_datagrams(&self.group)
    }

    /// Whether a failure is only that the other end's time was up first: what it had not read by then, and
    /// closes, is a reset here.
    fn is_end(&self, transaction: &Transaction, elapsed: Duration, failure: &Failure) -> bool {
        let is_nearly_over = |duration| elapsed + LEEWAY >= duration;
        self.follows && failure.is_reset() && transaction.duration.is_some_and(is_nearly_over)
    }
}

/// What one strand's thread begins with.
struct Member {
    stages: Arc<Stages>,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
    index: usize,
    group: usize,
    listeners: Listeners,
    files: Arc<Files>,
}

impl Member {
    fn run(self) -> StrandOutcome {
        let shared = &*self.shared;
        let mut outcome = StrandOutcome {
            group: self.group,
            transactions: Vec::with_capacity(shared.group.transactions.len()),
            log: Log::default(),
            failed: false,
        };
        let mut desk = Desk {
            index: self.index,
            connections: Connections::new(),
            peers: &shared.peers,
            tls: &shared.tls,
            listeners: self.listeners,
            files: self.files,
            next_file: self.index,
            log: Log::default(),
        };
        let mut buffer = vec![0; buffer_bytes(&shared.group)];
        let counters = shared.watching.counters(&mut desk.log);
        // However it ends, whoever waits for this strand hears of it.
        let leaving = Leaving(&self.stages);
        for (stage, transaction) in shared.group.transactions.iter().enumerate() {
            if !self.stages.arrive(stage) {
                break;
            }
            let began = Instant::now();
            let before = self.tally.read();
            let part = Part {
                group: &shared.group,
                transaction,
                stop: &shared.stops[stage],
                tally: &self.tally,
                watching: &shared.watching,
                counters: counters.as_ref(),
                seed: (self.group as u64) << 32 | self.index as u64,
            };
            let (end, times) = part.run(&mut desk, &mut buffer);
            outcome.transactions.push(TransactionOutcome {
                began,
                elapsed: began.elapsed(),
                tallied: self.tally.read().since(&before),
                rounds: times
                    .as_ref()
                    .map_or(Pass::default(), |times| *times.rounds()),
                flowops: times
                    .as_ref()
                    .map_or_else(Vec::new, |times| times.steps().to_vec()),
                counts: times
                    .as_ref()
                    .and_then(|times| times.counts().map(<[_]>::to_vec)),
                histogram: times.and_then(|times| times.histogram().cloned()),
            });
            match end {
                ScriptEnd::Failed(_, failure)
                    if shared.is_end(transaction, began.elapsed(), &failure) => {}
                ScriptEnd::Failed(at, failure) => {
                    say(&mut desk.log, transaction, at, &failure);
                    outcome.failed = true;
                    break;
                }
                ScriptEnd::Stopped(Reason::Cancelled) => break,
                ScriptEnd::EndOfStream(_) => self.stages.cut(),
                ScriptEnd::Done | ScriptEnd::Stopped(_) => {}
            }
        }
        leaving.say(outcome.failed);
        if !outcome.failed {
            self.stages.await_dismissal();
        }
        outcome.log = desk.log;
        outcome
    }
}

/// One strand's run of one transaction.
struct Part<'a> {
    group: &'a Group,
    transaction: &'a Transaction,
    stop: &'a Stop,
    tally: &'a Tally,
    watching: &'a Watching,
    counters: Option<&'a Rc<Counters>>,
    seed: u64,
}

impl Part<'_> {
    fn run(&self, desk: &mut Desk<'_>, buffer: &mut [u8]) -> (ScriptEnd, Option<StepTimes>) {
        let transaction = self.transaction;
        let mut script = Script::new(compile::steps(self.group, transaction), self.seed);
        let mut worker = Worker { desk, transaction };
        let orders = Orders {
            rounds: compile::rounds(transaction),
            pacing: compile::pacing(transaction),
            stop: self.stop,
            tally: self.tally,
        };
        let watching = self.watching;
        if watching.is_nothing() {
            let end = script.run(&mut worker, &orders, buffer, &mut ());
            return (end, None);
        }
        let steps = transaction.flowops.len();
        let with_steps = watching.flowops || watching.responses.is_some();
        let mut times = StepTimes::new(steps, with_steps, watching.cpu);
        if let Some(file) = &watching.responses {
            times = times.with_journal(Box::new(Journal::new(file, thread_id())));
        }
        if let Some(counters) = self.counters {
            times = times.with_counters(Rc::clone(counters));
        }
        // What is executed once has no distribution.
        let is_repeated = transaction.duration.is_some() || transaction.iterations > 1;
        if watching.histogram && is_repeated {
            times = times.with_histogram();
        }
        let end = script.run(&mut worker, &orders, buffer, &mut times);
        (end, Some(times))
    }
}

impl Watching {
    fn is_nothing(&self) -> bool {
        !self.transactions && !self.flowops && !self.histogram && self.responses.is_none()
    }

    /// The calling thread's counters, if there is something to be counted.
    fn counters(&self, log: &mut Log) -> Option<Rc<Counters>> {
        if self.counters.is_empty() {
            return None;
        }
        match Counters::open(&self.counters) {
            Ok((counters, _)) if counters.len() == self.counters.len() => Some(Rc::new(counters)),
            Ok(_) => {
                log.warn("a strand has not all of the counters");
                None
            }
            Err(error) => {
                log.warn(format!("a strand has no counters: {error}"));
                None
            }
        }
    }
}

/// A strand's word that it has ended.
struct Leaving<'a>(&'a Stages);

impl Leaving<'_> {
    fn say(self, failed: bool) {
        self.0.leave(failed);
        std::mem::forget(self);
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // Only a panic comes here.
        self.0.leave(true);
    }
}

/// Bytes that a strand has for what it moves: its buffer, and a header for each message of a call.
pub(crate) fn strand_bytes(group: &Group) -> usize {
    let transfers = group.transactions.iter().flat_map(|txn| &txn.flowops);
    let transfers = transfers.filter(|flowop| flowop.kind.transfers() && flowop.batch_size > 1);
    let most = transfers.map(|flowop| flowop.batch_size).max();
    let headers = usize::try_from(most.unwrap_or(0)).map_or(MOST, |most| most.min(MOST));
    buffer_bytes(group) + headers * HEADER_BYTES
}

/// Bytes of a strand's buffer: the most that any flowop of the group moves at once.
fn buffer_bytes(group: &Group) -> usize {
    let flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
    let transfers = flowops.filter(|flowop| flowop.kind.transfers());
    let largest = transfers.map(|flowop| flowop.size.largest() as usize).max();
    largest.unwrap_or(0).max(LEAST_BUFFER)
}

/// As uperf says it: `Error for flowop write  Message too long`.
fn say(log: &mut Log, transaction: &Transaction, at: usize, failure: &Failure) {
    log.say(failure.what.clone(), failure.errno);
    let flowop = transaction.flowops[at].kind;
    log.say(format!("Error for flowop {flowop} "), failure.errno);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, Kind, Size};

    #[test]
    fn a_strand_has_a_buffer_and_headers() {
        let bytes = |batch_size| {
            let write = Flowop {
                size: Size::Fixed(10_000),
                batch_size,
                ..Flowop::new(Kind::Write)
            };
            strand_bytes(&Group {
                transactions: vec![Transaction {
                    flowops: vec![Flowop::new(Kind::Connect), write],
                    ..Transaction::default()
                }],
                ..Group::default()
            })
        };
        assert_eq!(bytes(1), 10_000);
        assert_eq!(bytes(8), 10_000 + 8 * HEADER_BYTES);
        assert_eq!(bytes(u64::MAX), 10_000 + 1024 * HEADER_BYTES);
    }
}
