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
mod process;
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
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::script::{
    Counts, Failure, Orders, Pass, Script, ScriptEnd, Step, StepTimes, Tallied, Tally,
};
use engine::{Promise, Reason, Stop, keeper};
use stats::Histogram;
use sys::counter::{Counters, Event};
use sys::message::{HEADER_BYTES, MOST};
use sys::process::thread_id;
use sys::shared::SharedLines;

use connections::Connections;
use journal::Journal;
use performer::{Desk, Worker};
use process::{Process, Remote};
use stages::Stages;

use crate::profile::memory::{PROCESS, STATISTICS, TLS};
use crate::tls::Contexts;
use crate::workorder::{Flowop, Group, Protocol, Strands, Transaction};

/// What a strand's thread has for its own calls; its buffer is not among it.
const STACK: usize = 96 * 1024;

/// The same with TLS, of which a handshake needs the most.
const STACK_WITH_TLS: usize = 512 * 1024;

/// How long processes may take to say what they did before they are killed.
const LAST_OF_PROCESSES: Duration = Duration::from_secs(10);

/// How long after a transaction's time a strand may leave and still have its own end.
const LATE: Duration = Duration::from_millis(10);

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

/// The strands of one end.
#[derive(Debug)]
pub(crate) struct Crew {
    stages: Arc<Stages>,
    groups: Vec<Arc<Shared>>,
    strands: Vec<Strand>,
    deadlines: Vec<Promise<'static>>,
    /// Whose counters are to be taken when: the group, and its transaction.
    due: Vec<(Instant, usize, usize)>,
    cuts: Vec<Cut>,
}

/// The counters of a group's strands when the time of a transaction was up: however long the strands then
/// take to see it, it is what they did in that time.
#[derive(Debug)]
struct Cut {
    group: usize,
    stage: usize,
    at: Instant,
    /// A strand each, in order.
    tallied: Vec<Tallied>,
}

/// What the strands of a group share.
#[derive(Debug)]
struct Shared {
    group: Group,
    /// The other end leads.
    follows: bool,
    peers: Peers,
    files: Arc<Files>,
    tls: Contexts,
    /// What each transaction is, compiled.
    lists: Vec<Vec<Step>>,
    /// What ends each transaction.
    stops: Vec<Stop>,
    watching: Watching,
}

#[derive(Debug)]
struct Strand {
    group: usize,
    tally: Arc<Tally>,
    thread: JoinHandle<StrandOutcome>,
    /// Its process, if it has one.
    remote: Option<Remote>,
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
    /// What was in the strand's books before it.
    before: Tallied,
    pub(crate) tallied: Tallied,
    /// The same up to the end of the transaction's time, if the strand left late.
    cut: Option<(Duration, Tallied)>,
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
            due: Vec::new(),
            cuts: Vec::new(),
        };
        let mut mustered = Vec::new();
        for (number, post) in posts.into_iter().enumerate() {
            let listeners = crew.add(post, watching.clone(), cancel);
            // Processes before the first strand that is a thread.
            mustered.push(crew.fork(number, listeners)?);
        }
        for (number, ready) in mustered.into_iter().enumerate() {
            if let Err(error) = crew.spawn(number, ready) {
                crew.abort();
                return Err(error);
            }
        }
        Ok(crew)
    }

    /// That of a process which is one strand of a group.
    fn of_one(stages: Stages, shared: Arc<Shared>) -> Self {
        Self {
            stages: Arc::new(stages),
            groups: vec![shared],
            strands: Vec::new(),
            deadlines: Vec::new(),
            due: Vec::new(),
            cuts: Vec::new(),
        }
    }

    /// What the strands of a group share; what they listen with.
    fn add(&mut self, post: Post, watching: Watching, cancel: &Stop) -> Vec<Listeners> {
        let Post {
            group,
            follows,
            peers,
            listeners,
            files,
            tls,
        } = post;
        let transactions = group.transactions.len();
        self.groups.push(Arc::new(Shared {
            stops: (0..transactions).map(|_| cancel.follower()).collect(),
            lists: compile::lists(&group),
            group,
            follows,
            peers,
            files,
            tls,
            watching,
        }));
        listeners
    }

    /// Forks the processes of a group, if its strands are such; what each strand begins with.
    fn fork(&self, number: usize, listeners: Vec<Listeners>) -> io::Result<Vec<Ready>> {
        let shared = &self.groups[number];
        let Strands {
            count, processes, ..
        } = shared.group.strands;
        let mut listeners = listeners.into_iter();
        let books = processes.then(|| SharedLines::new(count as usize));
        let books = books.transpose()?.map(Arc::new);
        let strands = (0..count as usize).map(|index| {
            let listeners = listeners.next().unwrap_or_default();
            let Some(books) = &books else {
                return Ok((Arc::new(Tally::default()), Body::Thread(listeners)));
            };
            let tally = Arc::new(Tally::shared(books, index));
            let process = Process::fork(shared, &tally, listeners, (number, index))?;
            Ok((tally, Body::Process(process)))
        });
        strands.collect()
    }

    /// Starts the threads of a group.
    fn spawn(&mut self, number: usize, strands: Vec<Ready>) -> io::Result<()> {
        for (index, (tally, body)) in strands.into_iter().enumerate() {
            let stages = Arc::clone(&self.stages);
            let strand = match body {
                Body::Thread(listeners) => Strand::thread(Member {
                    stages,
                    shared: Arc::clone(&self.groups[number]),
                    tally,
                    index,
                    group: number,
                    seed: seed(number, index),
                    listeners,
                })?,
                Body::Process(process) => Strand {
                    group: number,
                    tally,
                    remote: Some(process.remote()?),
                    thread: std::thread::Builder::new()
                        .stack_size(STACK)
                        .spawn(move || process.accompany(number, &stages))?,
                },
            };
            self.strands.push(strand);
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
        self.release_at(stage, now);
        now
    }

    /// The same, as of then.
    fn release_at(&mut self, stage: usize, now: Instant) {
        for (number, shared) in self.groups.iter().enumerate() {
            let Some(transaction) = shared.group.transactions.get(stage) else {
                continue;
            };
            if shared.awaits_end_of(transaction) {
                continue;
            }
            if let Some(duration) = transaction.duration {
                let deadline = keeper().at(now + duration, &shared.stops[stage]);
                self.deadlines.push(deadline);
                self.due.push((now + duration, number, stage));
            }
        }
        self.stages.open(stage, now);
    }

    /// Whether a transaction goes on after its time until it is interrupted: there may be data on its way.
    pub(crate) fn awaits_end(&self, stage: usize) -> bool {
        self.groups.iter().any(|shared| {
            let transaction = shared.group.transactions.get(stage);
            transaction.is_some_and(|transaction| shared.awaits_end_of(transaction))
        })
    }

    /// When the time of a transaction will be up next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.iter().map(|(when, ..)| *when).min()
    }

    /// Takes the counters of the groups whose time is up.
    pub(crate) fn cut(&mut self) {
        let now = Instant::now();
        for (_, group, stage) in self.due.extract_if(.., |due| due.0 <= now) {
            let strands = self.strands.iter().filter(|strand| strand.group == group);
            let tallied = strands.map(|strand| strand.tally.read()).collect();
            let at = Instant::now();
            self.cuts.push(Cut {
                group,
                stage,
                at,
                tallied,
            });
        }
    }

    /// Whether the time of a transaction is up in all groups that have it, and their counters are taken.
    pub(crate) fn is_cut(&self, stage: usize) -> bool {
        let mut groups = self.groups.iter().enumerate();
        groups.all(|(number, shared)| {
            shared.group.transactions.len() <= stage
                || (self.cuts.iter()).any(|cut| (cut.group, cut.stage) == (number, stage))
        })
    }

    /// What all strands have done by the end of a transaction, and when that was: when its time was up, if
    /// that is a while ago, or now.
    pub(crate) fn tallied_by(&self, stage: usize) -> (Tallied, Instant) {
        let mut sum = Tallied::default();
        let mut at = None;
        for number in 0..self.groups.len() {
            let cut = self
                .cuts
                .iter()
                .find(|cut| (cut.group, cut.stage) == (number, stage));
            if let Some(cut) = cut.filter(|cut| cut.at.elapsed() > LATE) {
                cut.tallied.iter().for_each(|tallied| sum += *tallied);
                at = at.max(Some(cut.at));
            } else {
                let strands = self.strands.iter().filter(|strand| strand.group == number);
                strands.for_each(|strand| sum += strand.tally.read());
                let goes_on = self.groups[number].group.transactions.len() > stage;
                at = at.max(goes_on.then(Instant::now));
            }
        }
        (sum, at.unwrap_or_else(Instant::now))
    }

    /// Ends a transaction wherever it still runs: its peer has gone on.
    pub(crate) fn interrupt(&self, stage: usize) {
        for shared in &self.groups {
            if let Some(stop) = shared.stops.get(stage) {
                stop.pull(Reason::Deadline);
            }
        }
        self.remotes().for_each(|remote| remote.interrupt(stage));
    }

    /// Ends all strands.
    pub(crate) fn abort(&self) {
        self.stages.abort();
        for stop in self.groups.iter().flat_map(|shared| &shared.stops) {
            stop.pull(Reason::Cancelled);
        }
        self.remotes().for_each(Remote::abort);
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.strands
            .iter()
            .filter_map(|strand| strand.remote.as_ref())
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
        self.end_what_hangs();
        let cuts = self.cuts;
        let mut numbers = vec![0; self.groups.len()];
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
        let cut = joined.map(|mut outcome: StrandOutcome| {
            let number = numbers[outcome.group];
            numbers[outcome.group] += 1;
            for cut in cuts.iter().filter(|cut| cut.group == outcome.group) {
                if let Some(transaction) = outcome.transactions.get_mut(cut.stage) {
                    transaction.end_at(cut.at, &cut.tallied[number]);
                }
            }
            outcome
        });
        cut.collect()
    }
}

impl Crew {
    /// Kills the processes that have not ended by themselves, after a while.
    fn end_what_hangs(&self) {
        let until = Instant::now() + LAST_OF_PROCESSES;
        for strand in &self.strands {
            let Some(remote) = &strand.remote else {
                continue;
            };
            while !strand.thread.is_finished() {
                if Instant::now() >= until {
                    remote.kill();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl TransactionOutcome {
    /// How long the strand was at it within the transaction's time, and what it did by then.
    pub(crate) fn in_time(&self) -> (Duration, Tallied) {
        self.cut.unwrap_or((self.elapsed, self.tallied))
    }

    /// The time was up then, with this in the strand's books. What leaves at once has its own end, with
    /// the call that was under way.
    fn end_at(&mut self, then: Instant, tallied: &Tallied) {
        if then >= self.began && then + LATE < self.began + self.elapsed {
            self.cut = Some((then - self.began, tallied.since(&self.before)));
        }
    }
}

impl Shared {
    /// Those that its strands use, beside their own.
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = self.files.iter().flat_map(|(_, files)| files);
        let responses = self.watching.responses.iter();
        let responses = responses.map(|responses| responses.descriptor());
        files.map(AsFd::as_fd).chain(responses)
    }

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

impl Strand {
    fn thread(member: Member) -> io::Result<Self> {
        let (group, tally) = (member.group, Arc::clone(&member.tally));
        let stack = if member.shared.tls.is_empty() {
            STACK
        } else {
            STACK_WITH_TLS
        };
        let thread = std::thread::Builder::new()
            .stack_size(stack)
            .spawn(move || member.run())?;
        Ok(Self {
            group,
            tally,
            thread,
            remote: None,
        })
    }
}

/// A strand that is about to begin: where it counts, and what it will be.
type Ready = (Arc<Tally>, Body);

enum Body {
    Thread(Listeners),
    Process(Process),
}

/// What the random sizes of a strand come from.
fn seed(group: usize, index: usize) -> u64 {
    (group as u64) << 32 | index as u64
}

/// What one strand's thread begins with.
struct Member {
    stages: Arc<Stages>,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
    index: usize,
    group: usize,
    seed: u64,
    listeners: Listeners,
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
            files: Arc::clone(&shared.files),
            next_file: self.index,
            log: Log::default(),
        };
        let mut buffer = vec![0; buffer_bytes(&shared.group)];
        let counters = shared.watching.counters(&mut desk.log);
        // However it ends, whoever waits for this strand hears of it.
        let leaving = Leaving::of(&self.stages);
        for (stage, transaction) in shared.group.transactions.iter().enumerate() {
            // Before the barrier: it is no part of the transaction's time.
            let mut script = Script::new(shared.lists[stage].clone(), self.seed);
            if self.stages.arrive(stage).is_none() {
                break;
            }
            let began = Instant::now();
            let before = self.tally.read();
            let part = Part {
                transaction,
                stop: &shared.stops[stage],
                tally: &self.tally,
                watching: &shared.watching,
                counters: counters.as_ref(),
            };
            let (end, times) = part.run(&mut script, &mut desk, &mut buffer);
            outcome.transactions.push(TransactionOutcome {
                began,
                elapsed: began.elapsed(),
                before,
                tallied: self.tally.read().since(&before),
                cut: None,
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
    transaction: &'a Transaction,
    stop: &'a Stop,
    tally: &'a Tally,
    watching: &'a Watching,
    counters: Option<&'a Rc<Counters>>,
}

impl Part<'_> {
    fn run(
        &self,
        script: &mut Script,
        desk: &mut Desk<'_>,
        buffer: &mut [u8],
    ) -> (ScriptEnd, Option<StepTimes>) {
        let transaction = self.transaction;
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

impl<'a> Leaving<'a> {
    fn of(stages: &'a Stages) -> Self {
        Self(stages)
    }

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

/// Bytes that a strand has: its buffer, a header for each message of a call, its list, what TLS keeps, and
/// what it has as a process.
pub(crate) fn strand_bytes(group: &Group) -> usize {
    let transfers = group.transactions.iter().flat_map(|txn| &txn.flowops);
    let transfers = transfers.filter(|flowop| flowop.kind.transfers() && flowop.batch_size > 1);
    let most = transfers.map(|flowop| flowop.batch_size).max();
    let headers = usize::try_from(most.unwrap_or(0)).map_or(MOST, |most| most.min(MOST));
    let flowops = || group.transactions.iter().flat_map(|txn| &txn.flowops);
    let is_encrypted =
        |flowop: &&Flowop| flowop.kind.opens() && flowop.endpoint.protocol == Some(Protocol::Ssl);
    let encrypted = flowops().filter(is_encrypted).count();
    let process = if group.strands.processes { PROCESS } else { 0 };
    let beside = process + TLS * encrypted as u64 + STATISTICS * flowops().count() as u64;
    buffer_bytes(group) + headers * HEADER_BYTES + beside as usize
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
        let with_list = 10_000 + 2 * 256;
        assert_eq!(bytes(1), with_list);
        assert_eq!(bytes(8), with_list + 8 * HEADER_BYTES);
        assert_eq!(bytes(u64::MAX), with_list + 1024 * HEADER_BYTES);
    }
}
