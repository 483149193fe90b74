//! The usage text, from the table that drives the parser, and the version.

use getopt::usage::{Layout, own, stock};

use super::table::SECTION;
use crate::Protocol;

/// `uperf -h`: the stock text and, below it, the options that stock lacks.
pub(super) fn text(program: &str) -> String {
    format!(
        "Uperf Version {VERSION}\n\
         Usage:   {program} [-m profile] [-hvV] [-ngtTfkpaeE:X:i:P:RS:]\n\
         \t {program} [-s] [-hvV]\n\n{}\n\
         More information at http://www.uperf.org\n\n\
         linerate's own options:\n\n{}",
        stock(&SECTION, "\t"),
        own(&SECTION, &OWN)
    )
}

/// `uperf -V`.
pub(super) fn version() -> String {
    let is_here = |protocol: &Protocol| match protocol {
        Protocol::Ssl => cfg!(feature = "tls"),
        other => *other != Protocol::Rds,
    };
    let protocols = Protocol::ALL.into_iter().filter(is_here);
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

/// The uperf that this one stands in for.
const VERSION: &str = "1.0.8";

const OWN: Layout = Layout {
    indent: "        ",
    width: 23,
    argument: |name| match name {
        // A word that is typed as it is.
        "stdout" => name.to_owned(),
        _ => format!("<{name}>"),
    },
};
