use super::int;
use crate::output::figures::Figures;
use crate::selector::Own;

/// The text of a selector of our own; `None` where the run has no value for it.
pub(super) fn value(selector: Own, f: &Figures<'_>) -> Option<String> {
    match selector {
        Own::LatencySamples => int(f.summary.map_or(-1, |times| times.count as i64)),
    }
}
