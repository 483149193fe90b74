//! CPU counters with their perf(1) names.

use sys::counter::PerfEvent;

/// Event that is counted while a flowop is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCounter {
    event: PerfEvent,
    names: &'static [&'static str],
}

/// All counters, in the order of `perf list`.
const ALL: [CpuCounter; 11] = [
    counter(PerfEvent::CYCLES, &["cycles", "cpu-cycles"]),
    counter(PerfEvent::INSTRUCTIONS, &["instructions"]),
    counter(PerfEvent::CACHE_REFERENCES, &["cache-references"]),
    counter(PerfEvent::CACHE_MISSES, &["cache-misses"]),
    counter(PerfEvent::BRANCHES, &["branches", "branch-instructions"]),
    counter(PerfEvent::BRANCH_MISSES, &["branch-misses"]),
    counter(PerfEvent::REFERENCE_CYCLES, &["ref-cycles"]),
    counter(PerfEvent::TASK_CLOCK, &["task-clock"]),
    counter(PerfEvent::CONTEXT_SWITCHES, &["context-switches", "cs"]),
    counter(PerfEvent::MIGRATIONS, &["cpu-migrations", "migrations"]),
    counter(PerfEvent::PAGE_FAULTS, &["page-faults", "faults"]),
];

/// Names of the counters of `-e`.
const DEFAULTS: [&str; 4] = ["cycles", "instructions", "task-clock", "context-switches"];

const fn counter(event: PerfEvent, names: &'static [&'static str]) -> CpuCounter {
    CpuCounter { event, names }
}

impl CpuCounter {
    /// Returns the kernel's event.
    pub(crate) fn event(self) -> PerfEvent {
        self.event
    }

    /// Returns the name that the report prints.
    pub fn name(self) -> &'static str {
        self.names[0]
    }

    /// Returns the counters of these names, each once; the error is the first unknown name.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Vec<Self>, &'n str> {
        let mut counters = Vec::new();
        for name in names {
            let mut all = ALL.into_iter();
            let counter = all
                .find(|counter| counter.names.contains(&name))
                .ok_or(name)?;
            if !counters.contains(&counter) {
                counters.push(counter);
            }
        }
        Ok(counters)
    }

    /// Returns the counters of `-e`.
    pub fn defaults() -> Vec<Self> {
        Self::from_names(DEFAULTS).unwrap_or_default()
    }

    /// Returns the names of all counters, for an error text.
    pub(super) fn known_names() -> String {
        ALL.map(Self::name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_found_by_its_names() {
        for counter in ALL {
            for name in counter.names {
                assert_eq!(CpuCounter::from_names([*name]), Ok(vec![counter]), "{name}");
            }
        }
        assert_eq!(CpuCounter::from_names(["cs", "Cycles"]), Err("Cycles"));
        assert_eq!(CpuCounter::from_names([""]), Err(""));
        assert_eq!(CpuCounter::defaults().len(), DEFAULTS.len());
    }
}
