//! CPU counters, by the names of perf(1).

use sys::counter::Event;

/// Declares the counters, each by the system's event and all names that perf has for it.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $event:ident [$($name:literal),+],)+) => {
        /// What is counted while a flowop is executed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Counter {
            $($(#[$doc])* $counter,)+
        }

        impl Counter {
            /// In the order of perf list.
            pub const ALL: [Self; [$(stringify!($counter)),+].len()] = [$(Self::$counter),+];

            /// What the system calls it.
            pub(crate) fn event(self) -> Event {
                match self {
                    $(Self::$counter => Event::$event,)+
                }
            }

            /// All that perf calls it.
            fn names(self) -> &'static [&'static str] {
                match self {
                    $(Self::$counter => &[$($name),+],)+
                }
            }
        }
    };
}

counters! {
    /// Cycles of the CPU.
    Cycles = CYCLES ["cycles", "cpu-cycles"],
    /// Instructions that were completed.
    Instructions = INSTRUCTIONS ["instructions"],
    /// Accesses to the last cache.
    CacheReferences = CACHE_REFERENCES ["cache-references"],
    /// Those of them that went on to memory.
    CacheMisses = CACHE_MISSES ["cache-misses"],
    /// Branches.
    Branches = BRANCHES ["branches", "branch-instructions"],
    /// Those of them that were not foreseen.
    BranchMisses = BRANCH_MISSES ["branch-misses"],
    /// Cycles at a fixed rate, whatever the CPU's own is.
    ReferenceCycles = REFERENCE_CYCLES ["ref-cycles"],
    /// Nanoseconds on a CPU.
    TaskClock = TASK_CLOCK ["task-clock"],
    /// Changes from this strand to another.
    ContextSwitches = CONTEXT_SWITCHES ["context-switches", "cs"],
    /// Moves of the strand to another CPU.
    Migrations = MIGRATIONS ["cpu-migrations", "migrations"],
    /// Pages that were not there.
    PageFaults = PAGE_FAULTS ["page-faults", "faults"],
}

impl Counter {
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
