//! Doubts beyond those that the dialect has of any peer: what a stock peer gives rise to, and what the
//! samples within the run show.

use model::{End, Outcome, Warning};
use report::Figures;
use sys::Address;

/// Adds them.
pub(super) fn add(outcome: &mut Outcome, remote: &Address) {
    // A stock peer cannot say who it is.
    if remote.ip().is_some_and(sys::facts::is_own) && !outcome.warnings.contains(&Warning::SameHost)
    {
        outcome.warnings.insert(0, Warning::SameHost);
    }
    disbelieve_cpu(outcome);
    let levels = Figures::of(outcome).levels;
    outcome
        .warnings
        .extend(levels.map(|levels| Warning::TwoLevels {
            low_percent: 100.0 * levels.low_share,
        }));
}

/// Takes back what a pace gives to doubt that is a limit and no wish.
pub(super) fn without_pace(outcome: &mut Outcome) {
    let is_of_pace = |warning: &Warning| {
        matches!(
            warning,
            Warning::PacingNotHeld { .. } | Warning::PacingUneven { .. }
        )
    };
    outcome.warnings.retain(|warning| !is_of_pace(warning));
}

/// A stock server's CPU time in connection tests has the seconds in it that it waits after them, over
/// the time of the test alone: 300 % in two seconds, less in longer tests. What is over 100 % is
/// taken for untold, and nothing is made of it.
fn disbelieve_cpu(outcome: &mut Outcome) {
    let Some(there) = &mut outcome.there else {
        return;
    };
    if let Some(cpu) = there.cpu.take_if(|cpu| cpu.busy_percent > MOST_PERCENT) {
        let figure = format!(
            "its CPU time: {:.0} % is more than there is",
            cpu.busy_percent
        );
        outcome.warnings.retain(|warning| {
            !matches!(
                warning,
                Warning::CpuSaturated {
                    end: End::There,
                    ..
                }
            )
        });
        outcome.warnings.push(Warning::PeerCannotTell { figure });
    }
}

/// All there is, and the ticks by which two looks at /proc/stat may miss it.
const MOST_PERCENT: f64 = 101.0;
