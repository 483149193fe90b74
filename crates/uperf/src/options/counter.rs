//! CPU counters, by the names of perf(1).

use sys::counter::Event;

/// What is counted while a flowop is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    event: Event,
    names: &'static [&'static str],
}

/// In the order of perf list.
const ALL: [Counter; 11] = [
    counter(Event::CYCLES, &["cycles", "cpu-cycles"]),
    counter(Event::INSTRUCTIONS, &["instructions"]),
    counter(Event::CACHE_REFERENCES, &["cache-references"]),
    counter(Event::CACHE_MISSES, &["cache-misses"]),
    counter(Event::BRANCHES, &["branches", "branch-instructions"]),
    counter(Event::BRANCH_MISSES, &["branch-misses"]),
    counter(Event::REFERENCE_CYCLES, &["ref-cycles"]),
    counter(Event::TASK_CLOCK, &["task-clock"]),
    counter(Event::CONTEXT_SWITCHES, &["context-switches", "cs"]),
    counter(Event::MIGRATIONS, &["cpu-migrations", "migrations"]),
    counter(Event::PAGE_FAULTS, &["page-faults", "faults"]),
];

/// Those of `-e`.
const DEFAULTS: [&str; 4] = ["cycles", "instructions", "task-clock", "context-switches"];

const fn counter(event: Event, names: &'static [&'static str]) -> Counter {
    Counter { event, names }
}

impl Counter {
    /// What the system calls it.
    pub(crate) fn event(self) -> Event {
        self.event
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        self.names[0]
    }

    /// Those of these names, each once; the error is a name that none has.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Vec<Self>, &'n str> {
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

    /// Those of `-e`.
    pub fn defaults() -> Vec<Self> {
        Self::named(DEFAULTS).unwrap_or_default()
    }

    /// The names of all, as they are printed.
    pub(super) fn known() -> String {
        ALL.map(Self::name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answers_to_its_names() {
        for counter in ALL {
            for name in counter.names {
                assert_eq!(Counter::named([*name]), Ok(vec![counter]), "{name}");
            }
        }
        assert_eq!(Counter::named(["cs", "Cycles"]), Err("Cycles"));
        assert_eq!(Counter::named([""]), Err(""));
        assert_eq!(Counter::defaults().len(), DEFAULTS.len());
    }
}
