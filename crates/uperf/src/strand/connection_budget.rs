//! Limit of the connections of a strand.

use engine::script::StepFailure;

use crate::run_budget::RunBudget;
use crate::workorder::{DataProtocol, GroupSpec};

/// Memory of a connection without TLS, bytes.
const CONNECTION_BYTES: u64 = 512;

/// Memory of a TLS connection with its state and buffers, bytes.
const TLS_CONNECTION_BYTES: u64 = 16 << 10;

/// Maximum number of connections of a process. A process cannot reserve more after the fork.
const PROCESS_CONNECTIONS: u64 = 256;

/// Maximum number of TLS connections of a process.
const TLS_PROCESS_CONNECTIONS: u64 = 16;

/// The reserved connections of a strand: at least as many as it has had open at one time.
#[derive(Debug)]
pub(super) struct ConnectionBudget {
    /// `None` for no limit.
    run_budget: Option<RunBudget>,
    capacity: u64,
    bytes_each: u64,
    /// Threads reserve more when they need them; processes cannot.
    can_grow: bool,
}

impl ConnectionBudget {
    /// Returns the budget of a strand of this group. The memory of a process is reserved before the
    /// fork: [`process_connection_bytes`].
    pub(super) fn new(run_budget: Option<&RunBudget>, group: &GroupSpec) -> Self {
        let (bytes_each, process_connections) = connection_costs(group);
        let can_grow = !group.strands.processes;
        Self {
            run_budget: run_budget.cloned(),
            capacity: if can_grow { 0 } else { process_connections },
            bytes_each,
            can_grow,
        }
    }

    /// Reserves one more connection than `open_connections`.
    pub(super) fn reserve_one(&mut self, open_connections: usize) -> Result<(), StepFailure> {
        let Some(run_budget) = &self.run_budget else {
            return Ok(());
        };
        let (capacity, bytes_each) = (self.capacity, self.bytes_each);
        if (open_connections as u64) < capacity {
            return Ok(());
        }
        if !self.can_grow {
            let text = format!("a strand that is a process is limited to {capacity} connections");
            return Err(StepFailure::from_text(text));
        }
        // Double the capacity to make reservations rare. If that exceeds the budget, reserve one.
        let mut extra = capacity.max(1);
        if run_budget.reserve_connections(extra, bytes_each).is_err() {
            extra = 1;
            let single = run_budget.reserve_connections(extra, bytes_each);
            single.map_err(|error| StepFailure::from_text(error.to_string()))?;
        }
        self.capacity += extra;
        Ok(())
    }
}

/// Returns the memory of the connections of a process, bytes.
pub(super) fn process_connection_bytes(group: &GroupSpec) -> u64 {
    let (bytes_each, process_connections) = connection_costs(group);
    process_connections * bytes_each
}

/// Returns the memory of a connection, bytes, and the number of connections of a process.
fn connection_costs(group: &GroupSpec) -> (u64, u64) {
    if uses_tls(group) {
        (TLS_CONNECTION_BYTES, TLS_PROCESS_CONNECTIONS)
    } else {
        (CONNECTION_BYTES, PROCESS_CONNECTIONS)
    }
}

/// Whether a group opens TLS connections.
pub(super) fn uses_tls(group: &GroupSpec) -> bool {
    let mut openings = group.opening_flowops();
    openings.any(|flowop| flowop.endpoint.protocol == Some(DataProtocol::Ssl))
}

#[cfg(test)]
mod tests {
    use engine::{BudgetHolder, SharedBudget};

    use super::*;

    #[test]
    fn connections_are_reserved_when_needed() {
        let (memory, descriptors) = (SharedBudget::new(1 << 20), SharedBudget::new(1000));
        let run_budget = RunBudget::new(&memory, &descriptors, BudgetHolder::Local, 10).unwrap();
        let mut budget = ConnectionBudget::new(Some(&run_budget), &GroupSpec::default());
        for open_connections in 0..10 {
            budget.reserve_one(open_connections).unwrap();
        }
        assert_eq!(memory.used(), 10 * CONNECTION_BYTES);
        // A closed connection frees its reservation.
        budget.reserve_one(9).unwrap();
        let refused = budget.reserve_one(10).unwrap_err();
        assert!(refused.action.contains("--max-connections"), "{refused:?}");
        assert_eq!(descriptors.used(), 10);
        let mut group = GroupSpec::default();
        group.strands.processes = true;
        let mut forked = ConnectionBudget::new(Some(&run_budget), &group);
        forked.reserve_one(255).unwrap();
        assert!(forked.reserve_one(256).is_err());
    }
}
