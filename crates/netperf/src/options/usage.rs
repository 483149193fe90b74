//! The usage texts: the stock tools' texts and below them the options that stock lacks.

use getopt::Section;
use getopt::usage::{UsageLayout, linerate_lines, stock_lines};

use super::{global, server, test};

/// Returns the text of `netperf -h`.
pub(super) fn netperf() -> String {
    format!(
        "{}\n{PAIRS_NOTE}\n{FIRST_ONLY_NOTE}\n{LINERATE_HEADING}{}",
        stock_usage(
            "netperf [global options] -- [test options]",
            &global::SECTION
        ),
        linerate_lines(&global::SECTION, &layout(21))
    )
}

/// Returns the text of `netperf -- -h` for the test options in `section`.
pub(super) fn test_help(section: &Section<test::TestOptions>) -> String {
    let text = stock_usage("netperf [global options] -- [test options]", section);
    format!("{text}\n{PAIRS_NOTE}")
}

/// Returns the text of `netserver -h`.
pub(super) fn netserver() -> String {
    format!(
        "{}\n\n{LINERATE_HEADING}{}",
        stock_usage("netserver [options]", &server::SECTION),
        linerate_lines(&server::SECTION, &layout(25))
    )
}

fn stock_usage<L>(synopsis: &str, section: &Section<L>) -> String {
    let lines = stock_lines(section, INDENT);
    format!("\nUsage: {synopsis} \n\n{}\n{lines}", section.heading)
}

fn layout(width: usize) -> UsageLayout {
    UsageLayout {
        indent: INDENT,
        width,
        format_argument: str::to_ascii_uppercase,
    }
}

const INDENT: &str = "    ";

const LINERATE_HEADING: &str = "linerate's own options:\n";

const PAIRS_NOTE: &str = "\
For those options taking two parms, at least one must be specified;
specifying one value without a comma will set both parms to that
value, specifying a value with a leading comma will set just the second
parm, a value with a trailing comma will set just the first. To set
each parm to unique values, specify both and separate them with a
comma.
";

const FIRST_ONLY_NOTE: &str = "\
* For these options taking two parms, specifying one value with no comma
will only set the first parms and will leave the second at the default
value. To set the second value it must be preceded with a comma or be a
comma-separated pair. This is to retain previous netperf behaviour.
";
