//! What a slave lets itself be asked for by one master.

use std::time::Duration;

use model::with_defaults;

with_defaults! {
    /// Upper bounds of one workorder that comes over the network: what a slave's own limits, which are
    /// for all its masters together, have left.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WorkLimits {
        /// Strands.
        pub strands: u32 = 10_000,
        /// Transactions of the group.
        pub transactions: u32 = 1024,
        /// Flowops of all transactions together.
        pub flowops: u32 = 10_000,
        /// Bytes of all that the run takes.
        pub memory: u64 = 1 << 30,
        /// The longest run, and the longest transaction, think and timeout.
        pub duration: Duration = Duration::from_secs(7 * 86_400),
    }
}

impl WorkLimits {
    /// Returns the duration of an option if the slave lets it be so long, and else what to say of it.
    pub(crate) fn bound(&self, option: &str, duration: Duration) -> Result<Duration, String> {
        let limit = self.duration;
        if duration <= limit {
            return Ok(duration);
        }
        Err(format!(
            "a {option} of {duration:?}: this slave takes {limit:?}"
        ))
    }
}
