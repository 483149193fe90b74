//! The stock tool's usage texts, from the tables that drive the parser.

use super::grammar::{Flag, Section};
use super::{families, global, server, test};

/// `netperf -h`.
pub(super) fn netperf() -> String {
    format!(
        "{}Global options:\n{}\n{PAIRS}\n{FIRST_ONLY}{}",
        synopsis("netperf [global options] -- [test options]"),
        stock(&global::SECTION),
        own(&global::SECTION)
    )
}

/// `netperf -- -h`.
pub(super) fn omni() -> String {
    test_options("OMNI and Migrated BSD Sockets Test Options:", &test::OMNI)
}

/// `netperf -t TCP_SENDFILE -- -h` and its kin.
pub(super) fn classic() -> String {
    test_options("TCP/UDP BSD Sockets Test Options:", &test::CLASSIC)
}

/// `netperf -t STREAM_STREAM -- -h` and its kin.
pub(super) fn unix() -> String {
    test_options("Unix Domain Sockets Test Options:", &families::UNIX)
}

/// `netperf -t SCTP_STREAM -- -h` and its kin.
pub(super) fn sctp() -> String {
    test_options("SCTP Sockets Test Options:", &families::SCTP)
}

/// `netperf -t DLCO_STREAM -- -h` and its kin.
pub(super) fn dlpi() -> String {
    test_options(
        "DLPI Test Options, on Linux over LLC Sockets:",
        &families::DLPI,
    )
}

/// `netserver -h`: the stock text and, below it, what it has not got.
pub(super) fn netserver() -> String {
    format!(
        "{}Options:\n{}\n{}",
        synopsis("netserver [options]"),
        stock(&server::SECTION),
        own(&server::SECTION)
    )
}

fn stock<L: 'static>(section: &Section<L>) -> String {
    lines(section.flags.iter().filter(|flag| !flag.name.is_long()))
}

/// What the stock tool has not got, which stands below its text.
fn own<L: 'static>(section: &Section<L>) -> String {
    let own = lines(section.flags.iter().filter(|flag| flag.name.is_long()));
    format!("\nlinerate's own options:\n{own}")
}

fn test_options(title: &str, section: &Section<test::TestOptions>) -> String {
    format!(
        "{}{title}\n{}\n{PAIRS}",
        synopsis("netperf [global options] -- [test options]"),
        lines(section.flags)
    )
}

fn synopsis(text: &str) -> String {
    format!("\nUsage: {text} \n\n")
}

fn lines<L: 'static>(flags: impl IntoIterator<Item = &'static Flag<L>>) -> String {
    let mut text = String::new();
    for line in flags.into_iter().flat_map(|flag| flag.help) {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

const PAIRS: &str = "\
For those options taking two parms, at least one must be specified;
specifying one value without a comma will set both parms to that
value, specifying a value with a leading comma will set just the second
parm, a value with a trailing comma will set just the first. To set
each parm to unique values, specify both and separate them with a
comma.
";

const FIRST_ONLY: &str = "\
* For these options taking two parms, specifying one value with no comma
will only set the first parms and will leave the second at the default
value. To set the second value it must be preceded with a comma or be a
comma-separated pair. This is to retain previous netperf behaviour.
";
