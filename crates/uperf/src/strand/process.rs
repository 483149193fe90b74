//! A strand that is a process of its own (`nprocs=`).
//!
//! All of them are forked before the first strand that is a thread. In each there is a crew of the one
//! strand, which its parent leads by words over a pair of sockets; at this end a thread stands in the
//! strand's place at the barriers. What the strand does it counts in memory that both have.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::script::{Counts, Pass, Tallied, Tally};
use serde::{Deserialize, Serialize};
use stats::Histogram;
use sys::clock::monotonic_ns;
use sys::process::{Forked, fork, leave, settle_as_child, wait_for};

use super::crew::{Crew, Strand};
use super::log::Log;
use super::member::{Leaving, Member, seed};
use super::stages::Stages;
use super::{Listeners, Shared, StrandOutcome, TransactionOutcome};

/// What a strand's process tells its parent, a byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is at its next barrier.
    Arrived = 1,
    /// It has ended.
    Left = 2,
    /// The same, by a failure.
    Failed = 3,
    /// The other end has ended one of its connections.
    Cut = 4,
    /// It begins to choose its first connection.
    Choosing = 5,
    /// It has chosen.
    Chosen = 6,
}

impl Word {
    pub(super) fn say(self, mut to: &UnixStream) -> io::Result<()> {
        to.write_all(&[self as u8])
    }

    fn hear(mut from: &UnixStream) -> io::Result<Self> {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        match byte[0] {
            1 => Ok(Self::Arrived),
            2 => Ok(Self::Left),
            3 => Ok(Self::Failed),
            4 => Ok(Self::Cut),
            5 => Ok(Self::Choosing),
            6 => Ok(Self::Chosen),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// What its parent tells a strand's process: the kind, a barrier, a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The barrier was opened at that time, nanoseconds of the monotonic clock.
    Open(usize, u64),
    /// The transaction ends now.
    Interrupt(usize),
    /// All ends now.
    Abort,
    /// It may close its connections, and say what it did.
    Finish,
}

impl Order {
    const BYTES: usize = 24;

    fn say(self, mut to: &UnixStream) -> io::Result<()> {
        let words = match self {
            Self::Open(stage, at_ns) => [1, stage as u64, at_ns],
            Self::Interrupt(stage) => [2, stage as u64, 0],
            Self::Abort => [3, 0, 0],
            Self::Finish => [4, 0, 0],
        };
        to.write_all(&words.map(u64::to_ne_bytes).concat())
    }

    fn hear(mut from: &UnixStream) -> io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        from.read_exact(&mut bytes)?;
        let word = |at: usize| {
            let bytes = bytes[at * 8..at * 8 + 8].try_into();
            bytes.map_or(0, u64::from_ne_bytes)
        };
        match word(0) {
            1 => Ok(Self::Open(word(1) as usize, word(2))),
            2 => Ok(Self::Interrupt(word(1) as usize)),
            3 => Ok(Self::Abort),
            4 => Ok(Self::Finish),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// A strand's process, as its parent has it.
#[derive(Debug)]
pub(super) struct Process {
    number: u32,
    link: UnixStream,
    /// It has been waited for: the number may be another's.
    is_over: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that nobody leads any more ends.
        if !self.is_over {
            let _ = self.link.shutdown(Shutdown::Both);
            let _ = wait_for(self.number);
        }
    }
}

impl Process {
    /// Forks one for this strand.
    pub(super) fn fork(
        shared: &Arc<Shared>,
        tally: &Arc<Tally>,
        listeners: Listeners,
        (group, index): (usize, usize),
    ) -> io::Result<Self> {
        let (here, there) = UnixStream::pair()?;
        let parent = std::process::id();
        match fork()? {
            Forked::Parent(number) => Ok(Self {
                number,
                link: here,
                is_over: false,
            }),
            Forked::Child => {
                let lives = Life {
                    shared,
                    tally,
                    listeners,
                    group,
                    index,
                };
                // Whatever was inherited is not to be dropped: its descriptors are closed.
                leave(i32::from(lives.live(parent, &there).is_err()))
            }
        }
    }

    /// A second handle, for words that come at any time.
    pub(super) fn remote(&self) -> io::Result<Remote> {
        Ok(Remote {
            number: self.number,
            link: self.link.try_clone()?,
        })
    }

    /// Stands in the strand's place until it has ended.
    pub(super) fn accompany(mut self, group: usize, stages: &Stages) -> StrandOutcome {
        let told = self.follow(stages, Leaving::of(stages));
        let _ = self.link.shutdown(Shutdown::Both);
        let ended = wait_for(self.number);
        self.is_over = true;
        let mut outcome = StrandOutcome {
            group,
            transactions: Vec::new(),
            log: Log::default(),
            failed: true,
        };
        if let Ok(told) = told {
            told.put_into(&mut outcome);
        } else {
            let how = ended.map_or_else(|error| sys::describe(&error), |ended| ended.to_string());
            let words = format!("process {} of a strand is gone: {how}", self.number);
            outcome.log.say(words, 0);
        }
        outcome
    }

    fn follow(&self, stages: &Stages, leaving: Leaving<'_>) -> io::Result<Told> {
        let mut stage = 0;
        let failed = loop {
            let word = Word::hear(&self.link)?;
            match word {
                Word::Arrived => {}
                Word::Cut => {
                    stages.cut();
                    continue;
                }
                Word::Choosing | Word::Chosen => {
                    stages.choose(word == Word::Choosing);
                    continue;
                }
                Word::Left | Word::Failed => break word == Word::Failed,
            }
            match stages.arrive(stage) {
                Some(at) => {
                    let ago = at.elapsed().as_nanos() as u64;
                    Order::Open(stage, monotonic_ns() - ago).say(&self.link)?;
                }
                None => Order::Abort.say(&self.link)?,
            }
            stage += 1;
        };
        leaving.say(failed);
        if !failed {
            stages.await_dismissal();
        }
        Order::Finish.say(&self.link)?;
        Ok(serde_json::from_reader(BufReader::new(&self.link))?)
    }
}

/// Words to a strand's process that come at any time.
#[derive(Debug)]
pub(super) struct Remote {
    number: u32,
    link: UnixStream,
}

impl Remote {
    pub(super) fn interrupt(&self, stage: usize) {
        // One that is gone needs none.
        let _ = Order::Interrupt(stage).say(&self.link);
    }

    pub(super) fn abort(&self) {
        let _ = Order::Abort.say(&self.link);
    }

    /// Ends a process that does not listen. Only as long as it is waited for: the number may be another's then.
    pub(super) fn kill(&self) {
        let _ = sys::process::kill(self.number);
    }
}

/// A strand in its process.
struct Life<'a> {
    shared: &'a Arc<Shared>,
    tally: &'a Arc<Tally>,
    listeners: Listeners,
    group: usize,
    index: usize,
}

impl Life<'_> {
    fn live(self, parent: u32, mut link: &UnixStream) -> io::Result<()> {
        let mut keep = vec![link.as_fd()];
        keep.extend(self.listeners.descriptors());
        keep.extend(self.shared.descriptors());
        settle_as_child(parent, &keep)?;
        engine::forked();
        let stages = Stages::of_process(self.shared.group.transactions.len(), link.try_clone()?);
        let mut crew = Crew::of_one(stages, Arc::clone(self.shared));
        let member = Member {
            stages: Arc::clone(&crew.stages),
            shared: Arc::clone(self.shared),
            tally: Arc::clone(self.tally),
            index: self.index,
            group: 0,
            seed: seed(self.group, self.index),
            listeners: self.listeners,
            is_process: true,
        };
        crew.strands.push(Strand::thread(member)?);
        loop {
            match Order::hear(link)? {
                Order::Open(stage, at_ns) => {
                    let ago = Duration::from_nanos(monotonic_ns().saturating_sub(at_ns));
                    let now = Instant::now();
                    crew.release_at(stage, now.checked_sub(ago).unwrap_or(now));
                }
                Order::Interrupt(stage) => crew.interrupt(stage),
                Order::Abort => crew.abort(),
                Order::Finish => break,
            }
        }
        let responses = self.shared.watching.responses.as_ref();
        let Some(mut outcome) = crew.finish().pop() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if let Some(Err(error)) = responses.map(|file| file.finish()) {
            outcome.log.say(format!("-X: {}", sys::describe(&error)), 0);
        }
        let told = serde_json::to_vec(&Told::of(outcome))?;
        link.write_all(&told)?;
        link.shutdown(Shutdown::Write)?;
        // Words that are not read when it ends would take what it has told with them.
        io::copy(&mut link, &mut io::sink()).map(drop)
    }
}

/// What a strand's process did.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    failed: bool,
    log: Log,
    transactions: Vec<ToldTransaction>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ToldTransaction {
    /// Nanoseconds of the monotonic clock, which all processes have in common.
    began_ns: u64,
    elapsed: Duration,
    before: Tallied,
    tallied: Tallied,
    rounds: Pass,
    flowops: Vec<Pass>,
    counts: Option<Vec<Counts>>,
    histogram: Option<Histogram>,
}

impl Told {
    fn of(outcome: StrandOutcome) -> Self {
        let transactions = outcome.transactions.into_iter().map(|transaction| {
            let TransactionOutcome {
                began,
                elapsed,
                before,
                tallied,
                cut: _,
                rounds,
                flowops,
                counts,
                histogram,
            } = transaction;
            ToldTransaction {
                began_ns: monotonic_ns() - began.elapsed().as_nanos() as u64,
                elapsed,
                before,
                tallied,
                rounds,
                flowops,
                counts,
                histogram,
            }
        });
        Self {
            failed: outcome.failed,
            log: outcome.log,
            transactions: transactions.collect(),
        }
    }

    fn put_into(self, outcome: &mut StrandOutcome) {
        outcome.failed = self.failed;
        outcome.log = self.log;
        let now = Instant::now();
        let now_ns = monotonic_ns();
        let transactions = self.transactions.into_iter().map(|told| {
            let ago = Duration::from_nanos(now_ns.saturating_sub(told.began_ns));
            TransactionOutcome {
                began: now.checked_sub(ago).unwrap_or(now),
                elapsed: told.elapsed,
                before: told.before,
                tallied: told.tallied,
                cut: None,
                rounds: told.rounds,
                flowops: told.flowops,
                counts: told.counts,
                histogram: told.histogram,
            }
        });
        outcome.transactions = transactions.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_orders_arrive() {
        let (here, there) = UnixStream::pair().unwrap();
        for number in 1..=6 {
            (&here).write_all(&[number]).unwrap();
            let word = Word::hear(&there).unwrap();
            word.say(&here).unwrap();
            assert_eq!(Word::hear(&there).unwrap(), word);
        }
        let orders = [
            Order::Open(3, 1 << 60),
            Order::Interrupt(9),
            Order::Abort,
            Order::Finish,
        ];
        for order in orders {
            order.say(&there).unwrap();
            assert_eq!(Order::hear(&here).unwrap(), order);
        }
        drop(there);
        assert!(Word::hear(&here).is_err());
    }
}
