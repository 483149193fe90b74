//! uperf's masters and slaves on hosts of their own, in network namespaces: what becomes of a run when one of
//! them, or the link between them, is lost; what a slave does for whom.
//!
//! Most of them wait most of the time, so they run side by side.

mod addresses;
mod bounds;
mod fields;
mod gate;
pub(crate) mod ground;
mod limits;
mod lost;
mod nonsense;
mod scripted;
mod stopped;
mod strangers;
mod words;
mod workloads;

use testkit::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    [
        addresses::trials(),
        bounds::trials(),
        fields::trials(),
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
    .map(Trial::waiting)
    .collect()
}
