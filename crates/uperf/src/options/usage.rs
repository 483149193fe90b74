//! Usage text, made from the option table, and version text.

use getopt::usage::{UsageLayout, linerate_lines, stock_lines};

use super::table::SECTION;
use crate::DataProtocol;

/// Returns the text of `uperf -h`: the stock text, then the options that stock lacks.
pub(super) fn text(program: &str) -> String {
    format!(
        "Uperf Version {VERSION}\n\
         Usage:   {program} [-m profile] [-hvV] [-ngtTfkpaeE:X:i:P:RS:]\n\
         \t {program} [-s] [-hvV]\n\n{}\n\
         More information at http://www.uperf.org\n\n\
         linerate's own options:\n\n{}",
        stock_lines(&SECTION, "\t"),
        linerate_lines(&SECTION, &LINERATE_LAYOUT)
    )
}

/// Returns the text of `uperf -V`.
pub(super) fn version() -> String {
    let is_supported = |protocol: &DataProtocol| match protocol {
        DataProtocol::Ssl => cfg!(feature = "tls"),
        protocol => *protocol != DataProtocol::Rds,
    };
    let protocols = DataProtocol::ALL.into_iter().filter(is_supported);
    let protocols: Vec<_> = protocols
        .map(|protocol| protocol.name().to_ascii_uppercase())
        .collect();
    format!(
        "Uperf Version {VERSION}, linerate {}\n\
         Copyright (c) the linerate authors\n\
         License: MIT or Apache-2.0, as you choose. There is no warranty.\n\
         Supported protocols: {}\n\
         Built for {} {}\n\n\
         Report bugs to the linerate authors.\n",
        env!("CARGO_PKG_VERSION"),
        protocols.join(", "),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

/// Version of the stock uperf that linerate replaces.
const VERSION: &str = "1.0.8";

/// Layout of linerate's own options in the usage text.
const LINERATE_LAYOUT: UsageLayout = UsageLayout {
    indent: "        ",
    width: 23,
    format_argument: |name| match name {
        // A literal argument.
        "stdout" => name.to_owned(),
        _ => format!("<{name}>"),
    },
};
