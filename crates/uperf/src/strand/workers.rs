//! The workers of one run at this end, as their leader controls them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::{
    BarrierStatus, CounterReading, Counters, DeadlineGuard, StartBarrier, Stop, StopReason,
    deadline_thread,
};
use model::{Counts, Plan};
use sys::shared_memory::SharedLines;

use super::process::{Process, ProcessCommand};
use super::worker::{Worker, random_seed};
use super::{GroupSetup, Listeners, MeasurementOptions, StrandOutcome, WorkerGroup, compile};
use crate::workorder::TransactionSpec;

/// Stack size of a worker's thread, bytes. The buffer is not on the stack.
const THREAD_STACK_BYTES: usize = 96 * 1024;

/// Stack size of a worker's thread with TLS, bytes. The handshake needs the most.
const TLS_THREAD_STACK_BYTES: usize = 512 * 1024;

/// How long processes may take to report their outcome before they are killed.
const PROCESS_END_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after the end of a transaction's time a strand may finish and still keep its own end
/// time.
pub(super) const EXIT_TOLERANCE: Duration = Duration::from_millis(10);

/// The number of threads that end at the same time. The end of a thread changes the address space,
/// under one lock of the kernel, and thousands of them would keep all other threads waiting.
const THREADS_ENDING: usize = 16;

/// The workers of one run at this end: one thread or process per strand.
#[derive(Debug)]
pub(crate) struct Workers {
    barrier: Arc<StartBarrier>,
    groups: Vec<Arc<WorkerGroup>>,
    handles: Vec<WorkerHandle>,
    deadlines: Vec<DeadlineGuard<'static>>,
    /// End of the time of a transaction, with the index of the group and of the transaction.
    transaction_ends: Vec<(Instant, usize, usize)>,
}

/// One worker, as its leader controls it.
#[derive(Debug)]
struct WorkerHandle {
    group: usize,
    counters: Arc<Counters>,
    thread: JoinHandle<StrandOutcome>,
    /// Dropped when the thread may end.
    turn: Option<Sender<()>>,
    /// `None` for a thread.
    process: Option<Arc<Process>>,
    /// Index of a transaction, and the counters at the end of its time, even if the worker finishes
    /// later.
    readings: Vec<(usize, CounterReading)>,
}

/// A worker that has not started yet.
enum PreparedWorker {
    Thread(Worker),
    Process(usize, Arc<Counters>, Process),
}

impl Workers {
    /// Starts the workers of all groups. They wait at the first barrier. `cancel` ends them at any
    /// time.
    pub(crate) fn start(
        setups: Vec<GroupSetup>,
        measurements: &MeasurementOptions,
        cancel: &Stop,
    ) -> io::Result<Self> {
        // Started before the first worker, because threads inherit the CPU affinity of their
        // creator.
        let _ = deadline_thread();
        let sizes = setups.iter().map(|GroupSetup { group, .. }| {
            let strands = group.strands.count as usize;
            (strands, group.transactions.len())
        });
        let mut workers = Self::new(StartBarrier::new(&sizes.collect::<Vec<_>>()));
        let mut ready = Vec::new();
        for mut setup in setups {
            let listeners = std::mem::take(&mut setup.listeners);
            let group = WorkerGroup::new(setup, measurements.clone(), cancel);
            workers.groups.push(Arc::new(group));
            // Processes are forked before the first thread starts.
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

    /// Starts the single worker of a forked process.
    pub(super) fn for_process(barrier: StartBarrier, worker: Worker) -> io::Result<Self> {
        let mut workers = Self::new(barrier);
        workers.groups.push(Arc::clone(&worker.group));
        workers.spawn(PreparedWorker::Thread(Worker {
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
            transaction_ends: Vec::new(),
        }
    }

    /// Prepares the workers of a group and forks those that are processes.
    fn prepare(
        &self,
        group_number: usize,
        listeners: Vec<Listeners>,
    ) -> io::Result<Vec<PreparedWorker>> {
        let group = &self.groups[group_number];
        let strands = group.setup.group.strands;
        let count = strands.count as usize;
        let lines = strands.processes.then(|| SharedLines::new(count));
        let lines = lines.transpose()?.map(Arc::new);
        let mut listeners = listeners.into_iter();
        let ready = (0..count).map(|index| {
            let counters = match &lines {
                Some(lines) => Counters::on_shared_line(lines, index),
                None => Counters::default(),
            };
            let counters = Arc::new(counters);
            let worker = Worker {
                barrier: Arc::clone(&self.barrier),
                group: Arc::clone(group),
                counters: Arc::clone(&counters),
                index,
                group_number,
                seed: random_seed(group_number, index),
                listeners: listeners.next().unwrap_or_default(),
            };
            if !strands.processes {
                return Ok(PreparedWorker::Thread(worker));
            }
            let process = Process::fork(worker)?;
            Ok(PreparedWorker::Process(group_number, counters, process))
        });
        ready.collect()
    }

    /// Starts the thread of a worker, or the thread that represents its process here.
    fn spawn(&mut self, ready: PreparedWorker) -> io::Result<()> {
        let thread = |stack| std::thread::Builder::new().stack_size(stack);
        let (turn, turn_receiver) = mpsc::channel();
        let (group, counters, process, thread) = match ready {
            PreparedWorker::Thread(worker) => {
                let has_tls = !worker.group.setup.tls.is_empty();
                let stack = if has_tls {
                    TLS_THREAD_STACK_BYTES
                } else {
                    THREAD_STACK_BYTES
                };
                let (group, counters) = (worker.group_number, Arc::clone(&worker.counters));
                let thread = thread(stack).spawn(move || worker.run(&turn_receiver))?;
                (group, counters, None, thread)
            }
            PreparedWorker::Process(group, counters, process) => {
                let (process, barrier) = (Arc::new(process), Arc::clone(&self.barrier));
                let process_of_thread = Arc::clone(&process);
                let thread = thread(THREAD_STACK_BYTES)
                    .spawn(move || process_of_thread.represent(group, &barrier))?;
                (group, counters, Some(process), thread)
            }
        };
        self.handles.push(WorkerHandle {
            group,
            counters,
            thread,
            turn: Some(turn),
            process,
            readings: Vec::new(),
        });
        Ok(())
    }

    /// Waits until all workers are at this barrier, one has failed, all have ended, or the deadline
    /// passes.
    pub(crate) fn wait_for_barrier(
        &self,
        stage: Option<usize>,
        deadline: Instant,
    ) -> BarrierStatus {
        self.barrier.wait_for_workers(stage, deadline)
    }

    /// Starts a transaction in every group that has it. Returns the start time.
    pub(crate) fn start_transaction(&mut self, stage: usize) -> Instant {
        let now = Instant::now();
        self.start_transaction_at(stage, now);
        now
    }

    /// Starts a transaction with this start time.
    pub(super) fn start_transaction_at(&mut self, stage: usize, start: Instant) {
        for (number, group) in self.groups.iter().enumerate() {
            let transaction = group.transaction(stage);
            let transaction =
                transaction.filter(|transaction| !group.waits_for_interrupt(transaction));
            if let Some(duration) = transaction.and_then(|transaction| transaction.duration) {
                let end = start + duration;
                let deadline = deadline_thread().set_at(end, &group.stops[stage]);
                self.deadlines.push(deadline);
                self.transaction_ends.push((end, number, stage));
            }
        }
        self.barrier.open(stage, start);
    }

    /// Whether a transaction continues after its time until it is interrupted, because data may
    /// still arrive.
    pub(crate) fn continues_until_interrupted(&self, stage: usize) -> bool {
        let mut groups = self.groups_with_transaction(stage);
        groups.any(|(group, transaction)| group.waits_for_interrupt(transaction))
    }

    /// Whether this transaction has a duration in every group that has it.
    pub(crate) fn is_timed(&self, stage: usize) -> bool {
        let mut groups = self.groups_with_transaction(stage);
        groups.all(|(_, transaction)| transaction.duration.is_some())
    }

    /// Returns the groups that have this transaction, with the transaction.
    fn groups_with_transaction(
        &self,
        stage: usize,
    ) -> impl Iterator<Item = (&WorkerGroup, &TransactionSpec)> {
        let groups = self.groups.iter();
        groups.filter_map(move |group| Some((&**group, group.transaction(stage)?)))
    }

    /// Returns the next end of a transaction's time.
    pub(crate) fn next_transaction_end(&self) -> Option<Instant> {
        self.transaction_ends.iter().map(|(end, ..)| *end).min()
    }

    /// Reads the counters of the groups whose transaction's time has ended.
    pub(crate) fn read_counters_at_end(&mut self) {
        let now = Instant::now();
        for (_, group, stage) in self
            .transaction_ends
            .extract_if(.., |(end, ..)| *end <= now)
        {
            let handles = self.handles.iter_mut();
            for handle in handles.filter(|handle| handle.group == group) {
                let (counts, at) = (handle.counters.counts(), Instant::now());
                handle.readings.push((stage, CounterReading { at, counts }));
            }
        }
    }

    /// Whether the time of a transaction has ended in all groups that have it, and their counters
    /// were read then.
    pub(crate) fn is_time_up(&self, stage: usize) -> bool {
        self.handles.iter().all(|handle| {
            self.groups[handle.group].transaction(stage).is_none()
                || handle.reading(stage).is_some()
        })
    }

    /// Returns the counters of all workers, and when they were read: at the end of a transaction's
    /// time if that is longer ago than [`EXIT_TOLERANCE`], otherwise now.
    pub(crate) fn counts_at_end(&self, stage: usize) -> CounterReading {
        let (mut sum, mut at) = (Counts::default(), None);
        for handle in &self.handles {
            let reading = handle.reading(stage);
            if let Some(reading) = reading.filter(|reading| reading.at.elapsed() > EXIT_TOLERANCE) {
                sum += reading.counts;
                at = at.max(Some(reading.at));
            } else {
                sum += handle.counters.counts();
                let has_transaction = self.groups[handle.group].transaction(stage).is_some();
                at = at.max(has_transaction.then(Instant::now));
            }
        }
        CounterReading {
            at: at.unwrap_or_else(Instant::now),
            counts: sum,
        }
    }

    /// Returns the counters of each worker.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Arc<Counters>> {
        self.handles.iter().map(|handle| &handle.counters)
    }

    /// Returns the current sum of all workers' counters.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for handle in &self.handles {
            sum += handle.counters.counts();
        }
        sum
    }

    /// Ends a transaction in all workers that still run it, after the peer has continued.
    pub(crate) fn interrupt(&self, stage: usize) {
        let stops = self.groups.iter().map(|group| group.stops.get(stage));
        for stop in stops.flatten() {
            stop.set(StopReason::Deadline);
        }
        self.send_command(ProcessCommand::Interrupt(stage));
    }

    /// Ends all workers.
    pub(crate) fn abort(&self) {
        self.barrier.abort();
        for stop in self.groups.iter().flat_map(|group| &group.stops) {
            stop.set(StopReason::Cancelled);
        }
        self.send_command(ProcessCommand::Abort);
    }

    fn send_command(&self, command: ProcessCommand) {
        let processes = self.handles.iter().map(|handle| &handle.process);
        processes
            .flatten()
            .for_each(|process| process.send_command(command));
    }

    /// Returns the number of transactions of the longest group.
    pub(crate) fn transactions_of_longest_group(&self) -> usize {
        let groups = self.groups.iter();
        let lengths = groups.map(|group| group.setup.group.transactions.len());
        lengths.max().unwrap_or(0)
    }

    /// Returns the plan of all groups, with the profile's name and the sampling interval.
    pub(crate) fn plan(&self, name: String, sampling: Duration) -> Plan {
        let groups = self.groups.iter();
        let groups =
            groups.map(|group| compile::group_plan(&group.setup.group, group.compiled.clone()));
        Plan {
            name,
            groups: groups.collect(),
            sampling: Some(sampling),
            ..Plan::default()
        }
    }

    /// Dismisses the workers, which then close their connections, and waits for them. Returns their
    /// outcomes in the order of the groups.
    pub(crate) fn finish(mut self) -> Vec<StrandOutcome> {
        self.barrier.dismiss();
        self.kill_late_processes();
        let turns = self.handles.iter_mut().map(|handle| handle.turn.take());
        let mut turns: VecDeque<_> = turns.collect();
        turns.drain(..THREADS_ENDING.min(turns.len()));
        let outcomes = self.handles.into_iter().map(|handle| {
            let outcome = handle.join();
            turns.pop_front();
            outcome
        });
        outcomes.collect()
    }

    /// Kills the processes that do not end in time.
    fn kill_late_processes(&self) {
        let deadline = Instant::now() + PROCESS_END_TIMEOUT;
        for handle in &self.handles {
            let Some(process) = &handle.process else {
                continue;
            };
            while !handle.thread.is_finished() {
                if Instant::now() >= deadline {
                    process.kill();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl WorkerHandle {
    fn reading(&self, stage: usize) -> Option<&CounterReading> {
        let mut readings = self.readings.iter();
        readings.find_map(|(its_stage, reading)| (*its_stage == stage).then_some(reading))
    }

    fn join(self) -> StrandOutcome {
        let joined = self.thread.join();
        let mut outcome = joined.unwrap_or_else(|_| {
            StrandOutcome::from_failure(
                self.group,
                "internal error: a strand ended unexpectedly",
                0,
            )
        });
        for (stage, reading) in self.readings {
            if let Some(transaction) = outcome.transactions.get_mut(stage) {
                transaction.clip_at(reading.at, &reading.counts);
            }
        }
        outcome
    }
}
