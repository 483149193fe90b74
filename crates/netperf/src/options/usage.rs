//! The stock tools' usage texts and, below them, the options that stock lacks.

use getopt::Section;
use getopt::usage::{Layout, own, stock};

use super::{global, server, test};

/// `netperf -h`.
pub(super) fn netperf() -> String {
    format!(
        "{}\n{PAIRS}\n{FIRST_ONLY}\n{OWN}{}",
        head(
            "netperf [global options] -- [test options]",
            &global::SECTION
        ),
        own(&global::SECTION, &layout(21))
    )
}

/// `netperf -- -h`, `netperf -t TCP_SENDFILE -- -h` and so on.
pub(super) fn of_test(section: &Section<test::TestOptions>) -> String {
    let head = head("netperf [global options] -- [test options]", section);
    format!("{head}\n{PAIRS}")
}

/// `netserver -h`.
pub(super) fn netserver() -> String {
    format!(
        "{}\n\n{OWN}{}",
        head("netserver [options]", &server::SECTION),
        own(&server::SECTION, &layout(25))
    )
}

fn head<L>(synopsis: &str, section: &Section<L>) -> String {
    let lines = stock(section, INDENT);
    format!("\nUsage: {synopsis} \n\n{}\n{lines}", section.heading)
}

fn layout(width: usize) -> Layout {
    Layout {
        indent: INDENT,
        width,
        argument: str::to_ascii_uppercase,
    }
}

const INDENT: &str = "    ";

const OWN: &str = "linerate's own options:\n";

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
