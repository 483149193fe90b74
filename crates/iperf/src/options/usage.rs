//! The usage text: an exact copy of stock's, and below it the options that stock lacks.

use getopt::usage::{UsageLayout, linerate_lines};

use super::table::SECTION;

/// Stock's text for a command line without a role.
pub(super) const SHORT: &str = "Usage: iperf [-s|-c host] [options]\n\
    Try `iperf --help' for more information.\n";

/// The output of `iperf -v`.
pub(super) const VERSION: &str = "iperf version 2.1.8 (12 August 2022) pthreads\n";

/// Stock's usage text, recorded: it repeats some options and has no consistent order.
const STOCK: &str = include_str!("usage.txt");

const LINERATE_LAYOUT: UsageLayout = UsageLayout {
    indent: "      ",
    width: 23,
    format_argument: |name| format!("<{name}>"),
};

/// Returns the output of `iperf -h`.
pub(super) fn text() -> String {
    let linerate_options = linerate_lines(&SECTION, &LINERATE_LAYOUT);
    format!("{STOCK}\nlinerate's own options:\n{linerate_options}")
}
