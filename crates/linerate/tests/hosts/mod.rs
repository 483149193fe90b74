//! uperf's masters and slaves on hosts of their own, in network namespaces: what becomes of a run when one of
//! them, or the link between them, is lost; what a slave does for whom.
//!
//! Most of them wait most of the time, so they run side by side.

mod addresses;
mod bounds;
mod gate;
mod ground;
mod limits;
mod lost;
mod nonsense;
mod scripted;
mod stopped;
mod strangers;
mod words;
mod workloads;

use libtest_mimic::Arguments;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(SIDE_BY_SIDE);
    let trials = [
        addresses::trials(),
        bounds::trials(),
        lost::trials(),
        limits::trials(),
        nonsense::trials(),
        stopped::trials(),
        strangers::trials(),
        words::trials(),
        workloads::trials(),
    ]
    .into_iter()
    .flatten()
    .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// How many at a time: those that lose a link all wait for the same half a minute.
const SIDE_BY_SIDE: usize = 24;
