//! `-X`: the time of each pass of each flowop.

use std::fmt::{self, Display};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One pass; displayed it is a line of the file, with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The process.
    pub process: u32,
    /// Its thread, 0 in a strand that is a process.
    pub thread: u64,
    /// When it ended, by the wall clock.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
}

impl Display for Response {
    /// The third column, the kind of the time, is 0 (spec section 6.5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = self.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        writeln!(
            f,
            "{:6} {:6} {:2} {:15} {:15}",
            self.process,
            self.thread,
            0,
            ended.as_nanos(),
            self.took.as_nanos()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_stock_has_it() {
        for (process, thread, ended, took, text) in [
            (
                17_424,
                139_972_942_354_112,
                1_795_210_069_424_847_274,
                283_703,
                " 17424 139972942354112  0 1795210069424847274          283703\n",
            ),
            (
                19_920,
                0,
                1_795_210_453_389_152_118,
                486_175,
                " 19920      0  0 1795210453389152118          486175\n",
            ),
        ] {
            let response = Response {
                process,
                thread,
                ended: UNIX_EPOCH + Duration::from_nanos(ended),
                took: Duration::from_nanos(took),
            };
            assert_eq!(response.to_string(), text);
        }
    }
}
