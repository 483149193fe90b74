//! What all masters have taken together, so that one cannot take another's share.

use engine::{Budget, Exceeded, Holder, Share};

use crate::Group;
use crate::account::{Account, Scarce};
use crate::options::Limits;
use crate::profile::MOST_PROCESSES;
use crate::wire::Refusal;

/// Descriptors that are kept for this process's own use.
const OWN_DESCRIPTORS: u64 = 64;

/// What a session has before its workorder comes, bytes: what it uses of its stack, and its connection.
const SESSION: u64 = 32 << 10;

/// What there is, and what is in use.
#[derive(Debug)]
pub(super) struct ResourceBudget {
    strands: Budget,
    processes: Budget,
    memory: Budget,
    descriptors: Budget,
    most_connections: u64,
}

/// The strands of one run; dropped, others may have them.
pub(super) type Strands = [Share; 2];

impl ResourceBudget {
    /// As much as these limits say, and as many descriptors as the system gives.
    pub(super) fn new(limits: &Limits) -> Self {
        let descriptors = sys::process::descriptor_limit().saturating_sub(OWN_DESCRIPTORS);
        Self {
            strands: Budget::new(limits.work.strands.into()),
            processes: Budget::new(MOST_PROCESSES),
            memory: Budget::new(limits.work.memory),
            descriptors: Budget::new(descriptors),
            most_connections: limits.connections,
        }
    }

    /// Opens the account of a session.
    pub(super) fn admit(&self, holder: Holder) -> Result<Account, Scarce> {
        let most = self.most_connections;
        let account = Account::open(&self.memory, &self.descriptors, holder, most)?;
        account.take_descriptors(1)?;
        account.take_memory(SESSION)?;
        Ok(account)
    }

    /// Takes the strands of a group, and their memory.
    pub(super) fn take(
        &self,
        group: &Group,
        strand_bytes: u64,
        holder: Holder,
        account: &Account,
    ) -> Result<Strands, Refusal> {
        let count = u64::from(group.strands.count);
        let processes = if group.strands.processes { count } else { 0 };
        let refused = |what: &str, exceeded: Exceeded| {
            let words = match exceeded {
                Exceeded::Total { asked, left } => {
                    format!("{asked} {what}: other masters leave {left}")
                }
                Exceeded::Part { asked, most } => {
                    format!("{asked} {what}: this slave allows {most}")
                }
                Exceeded::Holder { asked, left } => {
                    format!("{asked} {what}: this slave leaves {left} to one address")
                }
            };
            Refusal::Workorder(words)
        };
        let strands = self.strands.take(holder, count);
        let strands = strands.map_err(|exceeded| refused("strands", exceeded))?;
        let processes = self.processes.take(holder, processes);
        let processes = processes.map_err(|exceeded| refused("processes", exceeded))?;
        account.take_memory(count.saturating_mul(strand_bytes))?;
        // This end of its socket pair.
        account.take_descriptors(processes.amount())?;
        Ok([strands, processes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkLimits;

    const HERE: Holder = Holder::Machine(1);
    const THERE: Holder = Holder::Machine(2);

    fn budget(strands: u32) -> ResourceBudget {
        ResourceBudget::new(&Limits {
            work: WorkLimits {
                strands,
                memory: 1 << 20,
                ..WorkLimits::default()
            },
            connections: 100,
            ..Limits::default()
        })
    }

    fn group(count: u32) -> Group {
        let mut group = Group::default();
        group.strands.count = count;
        group
    }

    #[test]
    fn what_one_has_another_has_not() {
        let budget = budget(10);
        let one = budget.admit(HERE).expect("there is room");
        let other = budget.admit(THERE).expect("there is room");
        let first = budget.take(&group(6), 10, HERE, &one).unwrap();
        let refused = budget.take(&group(5), 1, THERE, &other).unwrap_err();
        assert_eq!(refused.to_string(), "5 strands: other masters leave 4");
        let refused = budget.take(&group(4), 1 << 19, THERE, &other).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.starts_with("Out of Memory: "), "{refused}");
        let second = budget.take(&group(4), 10, THERE, &other).unwrap();
        drop((first, second));
        assert!(budget.take(&group(10), 10, HERE, &one).is_ok());
    }

    #[test]
    fn one_address_leaves_something_to_others() {
        let budget = budget(160);
        let sessions: Vec<_> = std::iter::from_fn(|| budget.admit(HERE).ok()).collect();
        let count = sessions.len();
        assert!((1..32).contains(&count), "{count}");
        let account = budget.admit(THERE).expect("there is room");
        let refused = budget.take(&group(151), 1, THERE, &account).unwrap_err();
        let words = "151 strands: this slave leaves 150 to one address";
        assert_eq!(refused.to_string(), words);
    }
}
