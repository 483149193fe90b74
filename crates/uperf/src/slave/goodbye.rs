//! The last word of a slave.

use std::time::Duration;

use model::Counts;

use crate::output;
use crate::strand::Log;
use crate::wire::{Goodbye, Text};

/// The last word, its kind and text by uperf's rule.
pub(super) fn farewell(log: &Log, counts: &Counts, elapsed: Duration) -> Goodbye {
    let (kind, message) = if log.is_empty() {
        (Goodbye::INFO, Text::cut("Success"))
    } else {
        let text = output::goodbye(log.entries());
        (Goodbye::ERROR, Text::cut(&text))
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

/// The last word of a run that ends before its time.
pub(super) fn interruption(place: &str, counts: &Counts, elapsed: Duration) -> Goodbye {
    let mut log = Log::default();
    log.say(format!("{}{place}", Goodbye::INTERRUPTED), 0);
    farewell(&log, counts, elapsed)
}
