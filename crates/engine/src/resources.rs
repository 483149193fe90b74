//! The resources of this process, which all its servers and clients share.

use std::fmt;
use std::io;
use std::sync::LazyLock;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use sys::facts::{self, ProcessLimits};

use crate::budget::{BudgetExceeded, BudgetHolder, BudgetShare, SharedBudget};

/// Memory mappings per thread: its stack and its heap, the guards of both, and two buffers.
const MAPS_PER_THREAD: u64 = 6;

/// Amounts reserved for the process itself: its own threads, listeners, logs and libraries. If a
/// limit is small, half of it.
const RESERVED_THREADS: u64 = 32;
const RESERVED_DESCRIPTORS: u64 = 64;
const RESERVED_MAPS: u64 = 1024;

/// The buffers get this part of the memory. The rest is for stacks, for the kernel's socket buffers
/// and for other processes.
const MEMORY_DIVISOR: u64 = 2;

/// Budgets in place of limits that the system does not state.
const DEFAULT_THREADS: u64 = 1024;
const DEFAULT_DESCRIPTORS: u64 = 1024;
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// Threads, streams, descriptors and memory of this process. Each is charged before it exists, to
/// the address that requested it, and one address gets at most 15/16 of each.
#[derive(Clone, Debug)]
pub struct ResourceBudget {
    /// Threads and child processes.
    pub threads: SharedBudget,
    /// Data connections and datagram flows. Each has at least one descriptor.
    pub streams: SharedBudget,
    /// Open descriptors.
    pub descriptors: SharedBudget,
    /// Memory of buffers and sessions, in bytes.
    pub memory: SharedBudget,
}

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Threads and child processes.
    Threads,
    /// Data connections and datagram flows.
    Streams,
    /// Open descriptors.
    Descriptors,
    /// Memory in bytes.
    Memory,
}

/// Amounts of several resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAmounts {
    /// Threads and child processes.
    pub threads: u64,
    /// Data connections and datagram flows.
    pub streams: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// Reserved amounts of several resources. Dropping them releases them.
#[derive(Debug)]
#[must_use]
pub struct ResourceShare {
    _shares: [BudgetShare; 4],
}

/// A resource whose budget leaves less than the requested amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough {resource}: {exceeded}")]
pub struct ResourceExceeded {
    /// The resource.
    pub resource: Resource,
    /// The budget.
    pub exceeded: BudgetExceeded,
}

impl ResourceBudget {
    /// Returns the budget of this process. The first call raises the process's limit of descriptors
    /// and derives the budget from the limits of the system and of the control groups.
    pub fn process() -> &'static Self {
        static PROCESS: LazyLock<ResourceBudget> = LazyLock::new(|| {
            sys::process::raise_descriptor_limit();
            ResourceBudget::from_limits(&facts::process_limits())
        });
        &PROCESS
    }

    fn from_limits(limits: &ProcessLimits) -> Self {
        let by_maps = limits
            .maps
            .map(|maps| maps.saturating_sub(RESERVED_MAPS) / MAPS_PER_THREAD);
        let threads = [limits.threads, by_maps].into_iter().flatten().min();
        let threads = threads.map_or(DEFAULT_THREADS, |threads| {
            threads - RESERVED_THREADS.min(threads / 2)
        });
        let descriptors = limits.descriptors.map_or(DEFAULT_DESCRIPTORS, |count| {
            count - RESERVED_DESCRIPTORS.min(count / 2)
        });
        let memory_bytes = limits
            .memory_bytes
            .map_or(DEFAULT_MEMORY_BYTES, |bytes| bytes / MEMORY_DIVISOR);
        Self {
            threads: SharedBudget::new(threads),
            streams: SharedBudget::new(descriptors),
            descriptors: SharedBudget::new(descriptors),
            memory: SharedBudget::new(memory_bytes),
        }
    }

    /// Reserves all these amounts, or none of them.
    pub fn reserve(
        &self,
        holder: BudgetHolder,
        amounts: ResourceAmounts,
    ) -> Result<ResourceShare, ResourceExceeded> {
        let reserve = |resource: Resource, budget: &SharedBudget, amount| {
            budget
                .reserve(holder, amount)
                .map_err(|exceeded| ResourceExceeded { resource, exceeded })
        };
        Ok(ResourceShare {
            _shares: [
                reserve(Resource::Threads, &self.threads, amounts.threads)?,
                reserve(Resource::Streams, &self.streams, amounts.streams)?,
                reserve(
                    Resource::Descriptors,
                    &self.descriptors,
                    amounts.descriptors,
                )?,
                reserve(Resource::Memory, &self.memory, amounts.memory_bytes)?,
            ],
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threads => "threads",
            Self::Streams => "streams",
            Self::Descriptors => "descriptors",
            Self::Memory => "memory",
        })
    }
}

impl fmt::Display for ResourceBudget {
    /// Formats the totals: `10750 threads, 19936 streams, 19936 descriptors, 12006 MiB of memory`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory_mib = self.memory.total() >> 20;
        write!(
            f,
            "{} threads, {} streams, {} descriptors, {memory_mib} MiB of memory",
            self.threads.total(),
            self.streams.total(),
            self.descriptors.total(),
        )
    }
}

/// Starts a thread that is charged to `holder` until it ends. Fails without a thread if the budget
/// is used up. A thread beyond the system's limits would abort the process.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    holder: BudgetHolder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let share = reserve_thread(holder)?;
    builder.spawn(move || run_with(share, run))
}

/// Starts a thread in a scope, charged like those of [`spawn`].
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    builder: Builder,
    scope: &'scope Scope<'scope, '_>,
    holder: BudgetHolder,
    run: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let share = reserve_thread(holder)?;
    builder.spawn_scoped(scope, move || run_with(share, run))
}

fn reserve_thread(holder: BudgetHolder) -> io::Result<ResourceShare> {
    let amounts = ResourceAmounts {
        threads: 1,
        ..ResourceAmounts::default()
    };
    (ResourceBudget::process().reserve(holder, amounts)).map_err(io::Error::other)
}

fn run_with<T>(share: ResourceShare, run: impl FnOnce() -> T) -> T {
    let result = run();
    drop(share);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_set_the_budgets() {
        let limits = ProcessLimits {
            descriptors: Some(20_000),
            maps: Some(65_530),
            threads: Some(32_768),
            memory_bytes: Some(8 << 30),
        };
        let budget = ResourceBudget::from_limits(&limits);
        assert_eq!(
            budget.to_string(),
            "10719 threads, 19936 streams, 19936 descriptors, 4096 MiB of memory"
        );
        let few_tasks = ProcessLimits {
            threads: Some(132),
            ..limits
        };
        assert_eq!(ResourceBudget::from_limits(&few_tasks).threads.total(), 100);
        let unknown = ResourceBudget::from_limits(&ProcessLimits::default());
        assert_eq!(unknown.threads.total(), DEFAULT_THREADS);
    }

    #[test]
    fn a_reservation_is_complete_or_absent() {
        let budget = ResourceBudget::from_limits(&ProcessLimits {
            descriptors: Some(2 * RESERVED_DESCRIPTORS),
            ..ProcessLimits::default()
        });
        let amounts = |threads, descriptors| ResourceAmounts {
            threads,
            descriptors,
            ..ResourceAmounts::default()
        };
        let first = budget.reserve(BudgetHolder::Machine(1), amounts(1, 60));
        let refused = budget.reserve(BudgetHolder::Machine(1), amounts(1, 1));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "not enough descriptors: 1 requested, 0 left for one address"
        );
        assert_eq!(budget.threads.used(), 1);
        assert!(
            budget
                .reserve(BudgetHolder::Machine(2), amounts(1, 4))
                .is_ok()
        );
        drop(first);
        assert_eq!((budget.threads.used(), budget.descriptors.used()), (0, 0));
    }

    #[test]
    fn a_thread_is_charged_until_it_ends() {
        let holder = BudgetHolder::Machine(7);
        let used = move || ResourceBudget::process().threads.used_by(holder);
        let thread = spawn(Builder::new(), holder, used).unwrap();
        assert_eq!(thread.join().unwrap(), 1);
        let charged = std::thread::scope(|scope| {
            let thread = spawn_scoped(Builder::new(), scope, holder, used).unwrap();
            thread.join().unwrap()
        });
        assert_eq!((charged, used()), (1, 0));
    }
}
