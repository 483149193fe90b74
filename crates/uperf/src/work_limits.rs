//! Limits of the work that a slave accepts from one master.

use std::time::Duration;

use model::with_defaults;

with_defaults! {
    /// Maximums for one workorder that arrives over the network.
    ///
    /// The slave's limits, which apply to all its masters together, reduce them further.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WorkLimits {
        /// Number of strands.
        pub strands: u32 = 10_000,
        /// Number of transactions in the group.
        pub transactions: u32 = 1024,
        /// Number of flowops in all transactions.
        pub flowops: u32 = 10_000,
        /// Memory of the run, in bytes.
        pub memory: u64 = 1 << 30,
        /// Duration of the run and of each transaction, think and timeout.
        pub duration: Duration = Duration::from_secs(7 * 86_400),
    }
}

impl WorkLimits {
    /// Returns the duration of an option, or an error if it exceeds the limit.
    pub(crate) fn check_duration(
        &self,
        option: &str,
        duration: Duration,
    ) -> Result<Duration, String> {
        let limit = self.duration;
        if duration <= limit {
            return Ok(duration);
        }
        Err(format!(
            "a {option} of {duration:?}: this slave accepts at most {limit:?}"
        ))
    }
}
