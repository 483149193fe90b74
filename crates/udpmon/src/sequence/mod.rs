//! The sequence of tests: a sweep over sizes and gaps, or the search for the highest rate without
//! loss. Both decide only by the evidence of each test.

mod evidence;
mod search;
mod sweep;

pub use evidence::PathEvidence;
pub use search::{SearchEnd, SearchResult, Searcher};
pub use sweep::SweepPosition;
