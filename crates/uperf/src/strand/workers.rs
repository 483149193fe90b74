//! The workers of one end's run, and what their leader does with them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::{
    BarrierStatus, Counters, Promise, Reading, Reason, StartBarrier, Stop, deadline_thread,
};
use model::{Counts, Plan};
use sys::shared::SharedLines;

use super::process::{Order, Process};
use super::worker::{Worker, seed};
use super::{GroupSetup, Listeners, StrandOutcome, Watching, WorkerGroup, compile};
use crate::workorder::Transaction;

/// Stack of a worker's thread, bytes; its buffer is not on it.
const STACK: usize = 96 * 1024;

/// The same with TLS, whose handshake needs the most.
const STACK_WITH_TLS: usize = 512 * 1024;

/// Time that processes have to report their outcome before they are killed.
const LAST_OF_PROCESSES: Duration = Duration::from_secs(10);

/// How long after a transaction's time a strand may leave and still have its own end.
pub(super) const LATE: Duration = Duration::from_millis(10);

/// The workers of one end: threads and processes, one for each strand.
#[derive(Debug)]
pub(crate) struct Workers {
    barrier: Arc<StartBarrier>,
    groups: Vec<Arc<WorkerGroup>>,
    handles: Vec<Handle>,
    deadlines: Vec<Promise<'static>>,
    /// When the time of a group's transaction will be up: the group, and the transaction.
    due: Vec<(Instant, usize, usize)>,
}

/// One worker, as its leader has it.
#[derive(Debug)]
struct Handle {
    group: usize,
    counters: Arc<Counters>,
    thread: JoinHandle<StrandOutcome>,
    /// `None` for a thread.
    process: Option<Arc<Process>>,
    /// Its counters when the time of this transaction was up, however long the worker then took to notice.
    readings: Vec<(usize, Reading)>,
}

/// A worker that is about to start.
enum Ready {
    Thread(Worker),
    Process(usize, Arc<Counters>, Process),
}

impl Workers {
    /// Starts the workers of all groups; they go to the first barrier and wait. `cancel` ends them wherever they are.
    pub(crate) fn start(
        setups: Vec<GroupSetup>,
        watching: &Watching,
        cancel: &Stop,
    ) -> io::Result<Self> {
        // Before the first worker: threads inherit what they are bound to.
        let _ = deadline_thread();
        let sizes = setups.iter().map(|GroupSetup { group, .. }| {
            let strands = group.strands.count as usize;
            (strands, group.transactions.len())
        });
        let mut workers = Self::new(StartBarrier::new(&sizes.collect::<Vec<_>>()));
        let mut ready = Vec::new();
        for mut setup in setups {
            let listeners = std::mem::take(&mut setup.listeners);
            let group = WorkerGroup::new(setup, watching.clone(), cancel);
            workers.groups.push(Arc::new(group));
            // Processes before the first worker that is a thread.
            ready.append(&mut workers.prepare(workers.groups.len() - 1, listeners)?);
        }
        for worker in ready {
            if let Err(error) = workers.spawn(worker) {
                workers.abort();
                return Err(error);
            }
        }
        Ok(workers)
    }

    /// The one worker of a forked process.
    pub(super) fn of_process(barrier: StartBarrier, worker: Worker) -> io::Result<Self> {
        let mut workers = Self::new(barrier);
        workers.groups.push(Arc::clone(&worker.group));
        workers.spawn(Ready::Thread(Worker {
            barrier: Arc::clone(&workers.barrier),
            group_number: 0,
            ..worker
        }))?;
        Ok(workers)
    }

    fn new(barrier: StartBarrier) -> Self {
        Self {
            barrier: Arc::new(barrier),
            groups: Vec::new(),
            handles: Vec::new(),
            deadlines: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Prepares the workers of a group, and forks those that are processes.
    fn prepare(&self, group_number: usize, listeners: Vec<Listeners>) -> io::Result<Vec<Ready>> {
        let group = &self.groups[group_number];
        let strands = group.setup.group.strands;
        let count = strands.count as usize;
        let lines = strands.processes.then(|| SharedLines::new(count));
        let lines = lines.transpose()?.map(Arc::new);
        let mut listeners = listeners.into_iter();
        let ready = (0..count).map(|index| {
            let counters = match &lines {
                Some(lines) => Counters::shared(lines, index),
                None => Counters::default(),
            };
            let counters = Arc::new(counters);
            let worker = Worker {
                barrier: Arc::clone(&self.barrier),
                group: Arc::clone(group),
                counters: Arc::clone(&counters),
                index,
                group_number,
                seed: seed(group_number, index),
                listeners: listeners.next().unwrap_or_default(),
            };
            if !strands.processes {
                return Ok(Ready::Thread(worker));
            }
            let process = Process::fork(worker)?;
            Ok(Ready::Process(group_number, counters, process))
        });
        ready.collect()
    }

    /// Starts the thread of a worker, or the one that takes the place of its process here.
    fn spawn(&mut self, ready: Ready) -> io::Result<()> {
        let thread = |stack| std::thread::Builder::new().stack_size(stack);
        let (group, counters, process, thread) = match ready {
            Ready::Thread(worker) => {
                let has_tls = !worker.group.setup.tls.is_empty();
                let stack = if has_tls { STACK_WITH_TLS } else { STACK };
                let (group, counters) = (worker.group_number, Arc::clone(&worker.counters));
                let thread = thread(stack).spawn(move || worker.run())?;
                (group, counters, None, thread)
            }
            Ready::Process(group, counters, process) => {
                let (process, barrier) = (Arc::new(process), Arc::clone(&self.barrier));
                let its = Arc::clone(&process);
                let thread = thread(STACK).spawn(move || its.accompany(group, &barrier))?;
                (group, counters, Some(process), thread)
            }
        };
        self.handles.push(Handle {
            group,
            counters,
            thread,
            process,
            readings: Vec::new(),
        });
        Ok(())
    }

    /// Waits until all workers are at this barrier, one has failed or all have ended, or until then.
    pub(crate) fn wait(&self, stage: Option<usize>, until: Instant) -> BarrierStatus {
        self.barrier.wait(stage, until)
    }

    /// Starts a transaction in every group that has it. Returns when.
    pub(crate) fn release(&mut self, stage: usize) -> Instant {
        let now = Instant::now();
        self.release_at(stage, now);
        now
    }

    /// The same, as of `now`.
    pub(super) fn release_at(&mut self, stage: usize, now: Instant) {
        for (number, group) in self.groups.iter().enumerate() {
            let transaction = group.transaction(stage);
            let transaction = transaction.filter(|transaction| !group.awaits_end_of(transaction));
            if let Some(duration) = transaction.and_then(|transaction| transaction.duration) {
                let end = now + duration;
                let deadline = deadline_thread().at(end, &group.stops[stage]);
                self.deadlines.push(deadline);
                self.due.push((end, number, stage));
            }
        }
        self.barrier.open(stage, now);
    }

    /// Whether a transaction goes on after its time until it is interrupted: there may be data on its way.
    pub(crate) fn awaits_end(&self, stage: usize) -> bool {
        let mut running = self.running(stage);
        running.any(|(group, transaction)| group.awaits_end_of(transaction))
    }

    /// Whether this transaction lasts for a duration in every group that has it.
    pub(crate) fn is_timed(&self, stage: usize) -> bool {
        let mut running = self.running(stage);
        running.all(|(_, transaction)| transaction.duration.is_some())
    }

    /// The groups that have this transaction.
    fn running(&self, stage: usize) -> impl Iterator<Item = (&WorkerGroup, &Transaction)> {
        let groups = self.groups.iter();
        groups.filter_map(move |group| Some((&**group, group.transaction(stage)?)))
    }

    /// When the time of a transaction will be up next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.iter().map(|(when, ..)| *when).min()
    }

    /// Reads the counters of the groups whose time is up.
    pub(crate) fn read_due(&mut self) {
        let now = Instant::now();
        for (_, group, stage) in self.due.extract_if(.., |due| due.0 <= now) {
            let handles = self.handles.iter_mut();
            for handle in handles.filter(|handle| handle.group == group) {
                let (counts, at) = (handle.counters.counts(), Instant::now());
                handle.readings.push((stage, Reading { at, counts }));
            }
        }
    }

    /// Whether the time of a transaction is up in all groups that have it, and their counters were read then.
    pub(crate) fn is_over(&self, stage: usize) -> bool {
        self.handles.iter().all(|handle| {
            self.groups[handle.group].transaction(stage).is_none()
                || handle.reading(stage).is_some()
        })
    }

    /// What all workers have done by the end of a transaction, and when that was: when its time was up, if
    /// that is a while ago, or now.
    pub(crate) fn counts_by(&self, stage: usize) -> Reading {
        let (mut sum, mut at) = (Counts::default(), None);
        for handle in &self.handles {
            let reading = handle.reading(stage);
            if let Some(reading) = reading.filter(|reading| reading.at.elapsed() > LATE) {
                sum += reading.counts;
                at = at.max(Some(reading.at));
            } else {
                sum += handle.counters.counts();
                let goes_on = self.groups[handle.group].transaction(stage).is_some();
                at = at.max(goes_on.then(Instant::now));
            }
        }
        Reading {
            at: at.unwrap_or_else(Instant::now),
            counts: sum,
        }
    }

    /// The counters of all workers.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Arc<Counters>> {
        self.handles.iter().map(|handle| &handle.counters)
    }

    /// What all workers have done so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for handle in &self.handles {
            sum += handle.counters.counts();
        }
        sum
    }

    /// Ends a transaction wherever it still runs: its peer has gone on.
    pub(crate) fn interrupt(&self, stage: usize) {
        let stops = self.groups.iter().map(|group| group.stops.get(stage));
        for stop in stops.flatten() {
            stop.pull(Reason::Deadline);
        }
        self.order(Order::Interrupt(stage));
    }

    /// Ends all workers.
    pub(crate) fn abort(&self) {
        self.barrier.abort();
        for stop in self.groups.iter().flat_map(|group| &group.stops) {
            stop.pull(Reason::Cancelled);
        }
        self.order(Order::Abort);
    }

    fn order(&self, order: Order) {
        let processes = self.handles.iter().map(|handle| &handle.process);
        processes.flatten().for_each(|process| process.order(order));
    }

    /// How many transactions the longest group has.
    pub(crate) fn stages(&self) -> usize {
        let groups = self.groups.iter();
        let lengths = groups.map(|group| group.setup.group.transactions.len());
        lengths.max().unwrap_or(0)
    }

    /// The plan of the workers of all groups, with the profile's name and the interval of the samples.
    pub(crate) fn plan(&self, name: String, sampling: Duration) -> Plan {
        let groups = self.groups.iter();
        let groups = groups.map(|of| compile::group(&of.setup.group, of.compiled.clone()));
        Plan {
            name,
            groups: groups.collect(),
            sampling: Some(sampling),
            ..Plan::default()
        }
    }

    /// Lets the workers close their connections and waits for them. Returns their outcomes in the order of the groups.
    pub(crate) fn finish(self) -> Vec<StrandOutcome> {
        self.barrier.dismiss();
        self.kill_late_processes();
        self.handles.into_iter().map(Handle::join).collect()
    }

    /// Kills the processes that do not end by themselves in time.
    fn kill_late_processes(&self) {
        let until = Instant::now() + LAST_OF_PROCESSES;
        for handle in &self.handles {
            let Some(process) = &handle.process else {
                continue;
            };
            while !handle.thread.is_finished() {
                if Instant::now() >= until {
                    process.kill();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Handle {
    fn reading(&self, stage: usize) -> Option<&Reading> {
        let mut readings = self.readings.iter();
        readings.find_map(|(of, reading)| (*of == stage).then_some(reading))
    }

    fn join(self) -> StrandOutcome {
        let joined = self.thread.join();
        let mut outcome = joined
            .unwrap_or_else(|_| StrandOutcome::of_failure(self.group, "a strand has panicked", 0));
        for (stage, reading) in self.readings {
            if let Some(transaction) = outcome.transactions.get_mut(stage) {
                transaction.end_at(reading.at, &reading.counts);
            }
        }
        outcome
    }
}
