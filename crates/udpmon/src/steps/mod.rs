//! The order of tests: a sweep over sizes and gaps, and the search for the highest rate without loss. Both are pure:
//! their only input is the evidence of each test.

mod evidence;
mod search;
mod sweep;

pub use evidence::Evidence;
pub use search::{Found, Searcher, Why};
pub use sweep::Walk;
