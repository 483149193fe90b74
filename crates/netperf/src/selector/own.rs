//! The selectors that the stock tool has not got. They print when they are named, never with `all`.

use super::selectors;

selectors! {
    /// Selectors of our own, in the order in which `?` lists them.
    pub enum Own {
        LatencySamples = "LATENCY_SAMPLES" ["Latency", "Samples"],
    }
}
