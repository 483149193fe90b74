//! The usage text: an exact copy of stock's, and below it the options that stock lacks.

use getopt::usage::{UsageLayout, linerate_lines};

use super::table::SECTION;
use crate::version::Version;

/// Stock's text for a command line without a role.
pub(super) const SHORT: &str = "Usage: iperf [-s|-c host] [options]\n\
    Try `iperf --help' for more information.\n";

const LINERATE_LAYOUT: UsageLayout = UsageLayout {
    indent: "      ",
    width: 23,
    format_argument: |name| format!("<{name}>"),
};

/// Returns the output of `iperf -h`.
pub(super) fn text(version: Version) -> String {
    let linerate_options = linerate_lines(&SECTION, &LINERATE_LAYOUT);
    let stock = version.layout().usage;
    format!("{stock}\nlinerate's own options:\n{linerate_options}")
}
