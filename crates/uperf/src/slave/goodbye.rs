//! Final report of a slave (goodbye).

use std::time::Duration;

use model::Counts;

use crate::output;
use crate::strand::Log;
use crate::wire::{Goodbye, Text};

/// Returns the goodbye of a run; uperf's rules determine its kind and text.
pub(super) fn goodbye_from_log(log: &Log, counts: &Counts, elapsed: Duration) -> Goodbye {
    let (kind, message) = if log.is_empty() {
        (Goodbye::INFO, Text::truncated("Success"))
    } else {
        let text = output::goodbye_text(log.entries());
        (Goodbye::ERROR, Text::truncated(&text))
    };
    Goodbye {
        kind,
        message,
        elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        errors: counts.failed_operations,
        bytes: counts.bytes(),
        operations: counts.operations,
    }
}

/// Returns the goodbye of an interrupted run. `stage` is the stage that the run had reached.
pub(super) fn interrupted_goodbye(stage: &str, counts: &Counts, elapsed: Duration) -> Goodbye {
    let mut log = Log::default();
    log.error(format!("{}{stage}", Goodbye::INTERRUPTED), 0);
    goodbye_from_log(&log, counts, elapsed)
}
