//! All strands of one end's run, and how they are led.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::{BarrierStatus, Counters, Promise, Reason, StartBarrier, Stop, deadline_thread};
use model::Counts;
use sys::shared::SharedLines;

use super::member::{Member, seed};
use super::process::{Process, Remote};
use super::{Listeners, Post, Shared, StrandOutcome, Watching, compile};
use crate::workorder::Strands;

/// What a strand's thread has for its own calls; its buffer is not among it.
const STACK: usize = 96 * 1024;

/// The same with TLS, of which a handshake needs the most.
const STACK_WITH_TLS: usize = 512 * 1024;

/// How long processes may take to say what they did before they are killed.
const LAST_OF_PROCESSES: Duration = Duration::from_secs(10);

/// How long after a transaction's time a strand may leave and still have its own end.
pub(super) const LATE: Duration = Duration::from_millis(10);

/// The strands of one end.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(super) barrier: Arc<StartBarrier>,
    groups: Vec<Arc<Shared>>,
    pub(super) strands: Vec<Strand>,
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
    counts: Vec<Counts>,
}

/// One of them, as whoever leads it has it.
#[derive(Debug)]
pub(super) struct Strand {
    group: usize,
    counters: Arc<Counters>,
    thread: JoinHandle<StrandOutcome>,
    /// Its process, if it has one.
    remote: Option<Remote>,
}

impl Crew {
    /// Starts the strands of all groups; they go to the first barrier and wait. `cancel` ends them
    /// wherever they are.
    pub(crate) fn start(posts: Vec<Post>, watching: &Watching, cancel: &Stop) -> io::Result<Self> {
        // Before the first strand: threads inherit what they are bound to.
        let _ = deadline_thread();
        let sizes: Vec<(usize, usize)> = posts
            .iter()
            .map(|post| {
                let group = &post.group;
                (group.strands.count as usize, group.transactions.len())
            })
            .collect();
        let mut crew = Self {
            barrier: Arc::new(StartBarrier::new(&sizes)),
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
    pub(super) fn of_one(barrier: StartBarrier, shared: Arc<Shared>) -> Self {
        Self {
            barrier: Arc::new(barrier),
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
            has_stock_slave,
            peers,
            listeners,
            files,
            tls,
            policy,
            account,
        } = post;
        let transactions = group.transactions.len();
        self.groups.push(Arc::new(Shared {
            stops: (0..transactions).map(|_| cancel.follower()).collect(),
            lists: compile::lists(&group),
            group,
            follows,
            has_stock_slave,
            peers,
            files,
            tls,
            policy,
            account,
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
                return Ok((Arc::new(Counters::default()), Body::Thread(listeners)));
            };
            let counters = Arc::new(Counters::shared(books, index));
            let process = Process::fork(shared, &counters, listeners, (number, index))?;
            Ok((counters, Body::Process(process)))
        });
        strands.collect()
    }

    /// Starts the threads of a group.
    fn spawn(&mut self, number: usize, strands: Vec<Ready>) -> io::Result<()> {
        for (index, (counters, body)) in strands.into_iter().enumerate() {
            let barrier = Arc::clone(&self.barrier);
            let strand = match body {
                Body::Thread(listeners) => Strand::thread(Member {
                    barrier,
                    shared: Arc::clone(&self.groups[number]),
                    counters,
                    index,
                    group: number,
                    seed: seed(number, index),
                    listeners,
                    is_process: false,
                })?,
                Body::Process(process) => Strand {
                    group: number,
                    counters,
                    remote: Some(process.remote()?),
                    thread: std::thread::Builder::new()
                        .stack_size(STACK)
                        .spawn(move || process.accompany(number, &barrier))?,
                },
            };
            self.strands.push(strand);
        }
        Ok(())
    }

    /// Waits until all strands are at this barrier, one has failed or all have ended, or until then.
    pub(crate) fn wait(&self, stage: Option<usize>, until: Instant) -> BarrierStatus {
        self.barrier.wait(stage, until)
    }

    /// Lets a transaction begin, in every group that has it.
    pub(crate) fn release(&mut self, stage: usize) -> Instant {
        let now = Instant::now();
        self.release_at(stage, now);
        now
    }

    /// The same, as of then.
    pub(super) fn release_at(&mut self, stage: usize, now: Instant) {
        for (number, shared) in self.groups.iter().enumerate() {
            let Some(transaction) = shared.group.transactions.get(stage) else {
                continue;
            };
            if shared.awaits_end_of(transaction) {
                continue;
            }
            if let Some(duration) = transaction.duration {
                let deadline = deadline_thread().at(now + duration, &shared.stops[stage]);
                self.deadlines.push(deadline);
                self.due.push((now + duration, number, stage));
            }
        }
        self.barrier.open(stage, now);
    }

    /// Whether a transaction goes on after its time until it is interrupted: there may be data on its way.
    pub(crate) fn awaits_end(&self, stage: usize) -> bool {
        self.groups.iter().any(|shared| {
            let transaction = shared.group.transactions.get(stage);
            transaction.is_some_and(|transaction| shared.awaits_end_of(transaction))
        })
    }

    /// Whether this transaction lasts for a duration in every group that has it.
    pub(crate) fn is_timed(&self, stage: usize) -> bool {
        let groups = self.groups.iter();
        let mut transactions = groups.filter_map(|shared| shared.group.transactions.get(stage));
        transactions.all(|transaction| transaction.duration.is_some())
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
            let counts = strands.map(|strand| strand.counters.counts()).collect();
            let at = Instant::now();
            self.cuts.push(Cut {
                group,
                stage,
                at,
                counts,
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
    pub(crate) fn counts_by(&self, stage: usize) -> (Counts, Instant) {
        let mut sum = Counts::default();
        let mut at = None;
        for number in 0..self.groups.len() {
            let cut = self
                .cuts
                .iter()
                .find(|cut| (cut.group, cut.stage) == (number, stage));
            if let Some(cut) = cut.filter(|cut| cut.at.elapsed() > LATE) {
                cut.counts.iter().for_each(|counts| sum += *counts);
                at = at.max(Some(cut.at));
            } else {
                let strands = self.strands.iter().filter(|strand| strand.group == number);
                strands.for_each(|strand| sum += strand.counters.counts());
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
        self.barrier.abort();
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
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for strand in &self.strands {
            sum += strand.counters.counts();
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
        self.barrier.dismiss();
        self.end_what_hangs();
        let cuts = self.cuts;
        let mut numbers = vec![0; self.groups.len()];
        let joined = self.strands.into_iter().map(|strand| {
            let joined = strand.thread.join();
            joined.unwrap_or_else(|_| {
                StrandOutcome::of_failure(strand.group, "a strand has panicked")
            })
        });
        let cut = joined.map(|mut outcome: StrandOutcome| {
            let number = numbers[outcome.group];
            numbers[outcome.group] += 1;
            for cut in cuts.iter().filter(|cut| cut.group == outcome.group) {
                if let Some(transaction) = outcome.transactions.get_mut(cut.stage) {
                    transaction.end_at(cut.at, &cut.counts[number]);
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

impl Strand {
    pub(super) fn thread(member: Member) -> io::Result<Self> {
        let (group, counters) = (member.group, Arc::clone(&member.counters));
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
            counters,
            thread,
            remote: None,
        })
    }
}

/// A strand that is about to begin: where it counts, and what it will be.
type Ready = (Arc<Counters>, Body);

enum Body {
    Thread(Listeners),
    Process(Process),
}
