//! CPU counters, by the names of perf(1).

use sys::counter::Event;

/// What is counted while a flowop is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Cycles of the CPU.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Accesses to the last cache.
    CacheReferences,
    /// Those of them that went on to memory.
    CacheMisses,
    /// Branches.
    Branches,
    /// Those of them that were not foreseen.
    BranchMisses,
    /// Cycles at a fixed rate, whatever the CPU's own is.
    ReferenceCycles,
    /// Nanoseconds on a CPU.
    TaskClock,
    /// Changes from this strand to another.
    ContextSwitches,
    /// Moves of the strand to another CPU.
    Migrations,
    /// Pages that were not there.
    PageFaults,
}

impl Counter {
    /// In the order of perf list.
    pub const ALL: [Self; 11] = [
        Self::Cycles,
        Self::Instructions,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::Branches,
        Self::BranchMisses,
        Self::ReferenceCycles,
        Self::TaskClock,
        Self::ContextSwitches,
        Self::Migrations,
        Self::PageFaults,
    ];

    /// Those of `-e`.
    pub const DEFAULTS: [Self; 4] = [
        Self::Cycles,
        Self::Instructions,
        Self::TaskClock,
        Self::ContextSwitches,
    ];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        let known = |counter: &Self| counter.names().contains(&name);
        Self::ALL.into_iter().find(known)
    }

    /// What the system calls it.
    pub(crate) fn event(self) -> Event {
        match self {
            Self::Cycles => Event::CYCLES,
            Self::Instructions => Event::INSTRUCTIONS,
            Self::CacheReferences => Event::CACHE_REFERENCES,
            Self::CacheMisses => Event::CACHE_MISSES,
            Self::Branches => Event::BRANCHES,
            Self::BranchMisses => Event::BRANCH_MISSES,
            Self::ReferenceCycles => Event::REFERENCE_CYCLES,
            Self::TaskClock => Event::TASK_CLOCK,
            Self::ContextSwitches => Event::CONTEXT_SWITCHES,
            Self::Migrations => Event::MIGRATIONS,
            Self::PageFaults => Event::PAGE_FAULTS,
        }
    }

    /// All that perf calls it.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Cycles => &["cycles", "cpu-cycles"],
            Self::Instructions => &["instructions"],
            Self::CacheReferences => &["cache-references"],
            Self::CacheMisses => &["cache-misses"],
            Self::Branches => &["branches", "branch-instructions"],
            Self::BranchMisses => &["branch-misses"],
            Self::ReferenceCycles => &["ref-cycles"],
            Self::TaskClock => &["task-clock"],
            Self::ContextSwitches => &["context-switches", "cs"],
            Self::Migrations => &["cpu-migrations", "migrations"],
            Self::PageFaults => &["page-faults", "faults"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answers_to_its_names() {
        for counter in Counter::ALL {
            for name in counter.names() {
                assert_eq!(Counter::named(name), Some(counter), "{name}");
            }
        }
        assert_eq!(Counter::named("Cycles"), None);
        assert_eq!(Counter::named(""), None);
    }
}
