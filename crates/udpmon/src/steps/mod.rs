//! Which test comes after which: a sweep over sizes and gaps, and the search for the highest rate without loss. Pure: both
//! only see what a test showed.

mod evidence;
mod search;
mod sweep;

pub use evidence::Evidence;
pub use search::{Found, Searcher, Why};
pub use sweep::Walk;
