//! The usage text: stock's, to the letter, and below it the options that stock lacks.

use getopt::usage::{Layout, own};

use super::table::SECTION;

/// Stock's text for a command line without a role.
pub(super) const SHORT: &str = "Usage: iperf [-s|-c host] [options]\n\
    Try `iperf --help' for more information.\n";

/// `iperf -v`.
pub(super) const VERSION: &str = "iperf version 2.1.8 (12 August 2022) pthreads\n";

/// Recorded, as it lists some options twice, and in an order of its own.
const STOCK: &str = include_str!("usage.txt");

const OWN: Layout = Layout {
    indent: "      ",
    width: 23,
    argument: |name| format!("<{name}>"),
};

/// `iperf -h`.
pub(super) fn text() -> String {
    let own = own(&SECTION, &OWN);
    format!("{STOCK}\nlinerate's own options:\n{own}")
}
