//! Resource budget of all masters together, so that one master cannot take another's share.

use engine::{BudgetExceeded, BudgetHolder, BudgetShare, ResourceBudget, SharedBudget};

use crate::GroupSpec;
use crate::options::SlaveLimits;
use crate::profile::MAX_PROCESSES;
use crate::run_budget::{RunBudget, RunLimit};
use crate::wire::WorkRefusal;

/// Memory of a session before its workorder, in bytes: used stack, and control connection.
const SESSION_BYTES: u64 = 32 << 10;

/// Limits of all sessions together, and the amounts in use.
#[derive(Debug)]
pub(super) struct SlaveBudget {
    strands: SharedBudget,
    processes: SharedBudget,
    threads: SharedBudget,
    memory: SharedBudget,
    descriptors: SharedBudget,
    max_connections: u64,
}

/// Threads of a strand's process besides its main thread: the worker and the deadline thread.
const EXTRA_THREADS_PER_PROCESS: u64 = 2;

/// Reserved strands, processes and threads of these, of one run. Dropping them releases them.
pub(super) type StrandShares = [BudgetShare; 3];

impl SlaveBudget {
    /// Returns the budget of these limits, as a part of the budget of this process.
    pub(super) fn new(limits: &SlaveLimits) -> Self {
        let process = ResourceBudget::process();
        Self {
            strands: SharedBudget::within(&process.threads, limits.work.strands.into()),
            processes: SharedBudget::within(&process.threads, MAX_PROCESSES),
            threads: process.threads.clone(),
            memory: SharedBudget::within(&process.memory, limits.work.memory),
            descriptors: process.descriptors.clone(),
            max_connections: limits.connections,
        }
    }

    /// Reserves the resources of a new session.
    pub(super) fn open_session(&self, holder: BudgetHolder) -> Result<RunBudget, RunLimit> {
        let max_connections = self.max_connections;
        let budget = RunBudget::new(&self.memory, &self.descriptors, holder, max_connections)?;
        budget.reserve_memory(SESSION_BYTES)?;
        Ok(budget)
    }

    /// Reserves the strands of a group and their memory.
    pub(super) fn reserve_strands(
        &self,
        group: &GroupSpec,
        strand_bytes: u64,
        holder: BudgetHolder,
        run_budget: &RunBudget,
    ) -> Result<StrandShares, WorkRefusal> {
        let count = u64::from(group.strands.count);
        let processes = if group.strands.processes { count } else { 0 };
        let refused = |resource: &str, exceeded: BudgetExceeded| {
            let message = match exceeded {
                BudgetExceeded::Total { requested, left } => {
                    format!("{requested} {resource} requested: other masters use all but {left}")
                }
                BudgetExceeded::Share {
                    requested,
                    max: limit,
                } => {
                    format!("{requested} {resource}: this slave allows {limit}")
                }
                BudgetExceeded::Holder { requested, left } => {
                    format!("{requested} {resource} requested: {left} left for one address")
                }
            };
            WorkRefusal::Workorder(message)
        };
        let strands = self.strands.reserve(holder, count);
        let strands = strands.map_err(|exceeded| refused("strands", exceeded))?;
        let processes = self.processes.reserve(holder, processes);
        let processes = processes.map_err(|exceeded| refused("processes", exceeded))?;
        let threads = EXTRA_THREADS_PER_PROCESS * processes.amount();
        let threads = self.threads.reserve(holder, threads);
        let threads = threads.map_err(|exceeded| refused("threads", exceeded))?;
        run_budget.reserve_memory(count.saturating_mul(strand_bytes))?;
        // Each process uses a socket pair; this process has one end of it.
        run_budget.reserve_descriptors(processes.amount())?;
        Ok([strands, processes, threads])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkLimits;

    const FIRST_HOST: BudgetHolder = BudgetHolder::Machine(1);
    const SECOND_HOST: BudgetHolder = BudgetHolder::Machine(2);

    fn budget(strands: u32) -> SlaveBudget {
        SlaveBudget::new(&SlaveLimits {
            work: WorkLimits {
                strands,
                memory: 1 << 20,
                ..WorkLimits::default()
            },
            connections: 100,
            ..SlaveLimits::default()
        })
    }

    fn group(count: u32) -> GroupSpec {
        let mut group = GroupSpec::default();
        group.strands.count = count;
        group
    }

    #[test]
    fn masters_share_the_budget() {
        let budget = budget(10);
        let first_session = budget.open_session(FIRST_HOST).expect("within the budget");
        let second_session = budget.open_session(SECOND_HOST).expect("within the budget");
        let first = budget
            .reserve_strands(&group(6), 10, FIRST_HOST, &first_session)
            .unwrap();
        let refused = budget
            .reserve_strands(&group(5), 1, SECOND_HOST, &second_session)
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "5 strands requested: other masters use all but 4"
        );
        let refused = budget
            .reserve_strands(&group(4), 1 << 19, SECOND_HOST, &second_session)
            .unwrap_err();
        let refused = refused.to_string();
        assert!(refused.starts_with("Out of Memory: "), "{refused}");
        let second = budget
            .reserve_strands(&group(4), 10, SECOND_HOST, &second_session)
            .unwrap();
        drop((first, second));
        assert!(
            budget
                .reserve_strands(&group(10), 10, FIRST_HOST, &first_session)
                .is_ok()
        );
    }

    #[test]
    fn one_address_cannot_take_everything() {
        let budget = budget(160);
        let sessions: Vec<_> =
            std::iter::from_fn(|| budget.open_session(FIRST_HOST).ok()).collect();
        let count = sessions.len();
        assert!((1..32).contains(&count), "{count}");
        let other_session = budget.open_session(SECOND_HOST).expect("within the budget");
        let refused = budget
            .reserve_strands(&group(151), 1, SECOND_HOST, &other_session)
            .unwrap_err();
        let words = "151 strands requested: 150 left for one address";
        assert_eq!(refused.to_string(), words);
    }

    #[test]
    fn processes_are_charged_for_their_threads() {
        let threads = SharedBudget::within(&ResourceBudget::process().threads, 32);
        let budget = SlaveBudget {
            threads,
            ..budget(100)
        };
        let session = budget.open_session(FIRST_HOST).expect("within the budget");
        let mut group = group(15);
        group.strands.processes = true;
        let reserve = |group| budget.reserve_strands(group, 1, FIRST_HOST, &session);
        let shares = reserve(&group).unwrap();
        let refused = reserve(&group).map(drop).unwrap_err();
        let words = "30 threads requested: other masters use all but 2";
        assert_eq!(refused.to_string(), words);
        drop(shares);
        assert!(reserve(&group).is_ok());
    }
}
