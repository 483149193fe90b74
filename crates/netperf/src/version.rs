//! The versions of stock netperf whose options and texts linerate has.
//!
//! They differ in this module's tables only.

use getopt::EarlyExit;
use getopt::stock_version::StockVersion;

/// A version of stock netperf and netserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Debian 12's.
    V2_7_0,
    /// Debian 13's, and the newest one.
    #[default]
    V2_7_1,
}

impl StockVersion for Version {
    const PROGRAM: &'static str = "netperf";
    const ALL: &'static [Self] = &[Self::V2_7_0, Self::V2_7_1];
}

impl Version {
    /// Returns the name, for example `2.7.1`.
    pub fn name(self) -> &'static str {
        Self::name_at(self as usize)
    }

    /// Fails as for an unknown option if this version is older than `first`, the first one with the
    /// option `letter`.
    pub(crate) fn check_has_option(self, letter: char, first: Self) -> Result<(), EarlyExit> {
        if self >= first {
            return Ok(());
        }
        Err(EarlyExit::SyntaxError(format!(
            "invalid option -- '{letter}'"
        )))
    }

    /// Removes the lines about options that this version does not document from a test's help.
    pub(crate) fn edit_test_help(self, help: &str) -> String {
        let is_documented =
            |line: &&str| self >= Self::V2_7_1 || !LINES_SINCE_2_7_1.contains(&line.trim());
        help.split_inclusive('\n').filter(is_documented).collect()
    }
}

pub(crate) const DO_NOT_FRAGMENT_LINE: &str =
    "-f                Set IP_MTU_DISCOVER:IP_PMTU_DISC_DO where available";
pub(crate) const FAST_OPEN_LINE: &str =
    "-F                Use TCP Fast Open functionality where available";
pub(crate) const ASYNCHRONOUS_SEND_LINE: &str = "-a                Use aio_write(2)";
pub(crate) const ASYNCHRONOUS_RECEIVE_LINE: &str = "-A                Use aio_read(2)";

/// The lines of test helps that 2.7.0 lacks. It accepts `-F`, but does not document it.
const LINES_SINCE_2_7_1: [&str; 4] = [
    DO_NOT_FRAGMENT_LINE,
    FAST_OPEN_LINE,
    ASYNCHRONOUS_SEND_LINE,
    ASYNCHRONOUS_RECEIVE_LINE,
];
