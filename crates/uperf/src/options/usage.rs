//! The usage text, from the table that drives the parser, and the version.

use getopt::{Flag, Name};

use super::Exit;
use super::table::{SECTION, Typed};
use crate::Protocol;

/// `uperf -h`: the stock text and, below it, the options that stock lacks.
pub(super) fn text(program: &str) -> String {
    let (own, stock): (Vec<_>, Vec<_>) = SECTION.flags.iter().partition(|flag| is_own(flag));
    format!(
        "Uperf Version {VERSION}\n\
         Usage:   {program} [-m profile] [-hvV] [-ngtTfkpaeE:X:i:P:RS:]\n\
         \t {program} [-s] [-hvV]\n\n{}\n\
         More information at http://www.uperf.org\n\n\
         linerate's own options:\n\n{}",
        stock
            .iter()
            .map(|flag| stock_line(flag))
            .collect::<String>(),
        lines(&own)
    )
}

/// `uperf -V`.
pub(super) fn version() -> String {
    let protocols: Vec<_> = PROTOCOLS
        .into_iter()
        .filter(|protocol| *protocol != Protocol::Ssl || cfg!(feature = "tls"))
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

const PROTOCOLS: [Protocol; 7] = [
    Protocol::Tcp,
    Protocol::Udp,
    Protocol::Ssl,
    Protocol::Sctp,
    Protocol::Vsock,
    Protocol::Unix,
    Protocol::Mptcp,
];

/// `-H` is of a fork that k8s-netperf has.
fn is_own(flag: &Flag<Typed, Exit>) -> bool {
    flag.name.is_long() || flag.name == Name::Letter('H')
}

/// With a tab before the option, and as many behind it as its text needs to begin in the fourth column.
fn stock_line(flag: &Flag<Typed, Exit>) -> String {
    let line = flag.help.first().copied().unwrap_or_default();
    let Some((option, text)) = line.split_once("  ") else {
        return String::new();
    };
    let tabs = if option.len() < TAB { "\t\t" } else { "\t" };
    format!("\t{option}{tabs} {}\n", text.trim_start())
}

/// Columns of a tab.
const TAB: usize = 8;

fn lines(flags: &[&Flag<Typed, Exit>]) -> String {
    let mut text = String::new();
    for line in flags.iter().flat_map(|flag| flag.help) {
        text.push_str("        ");
        text.push_str(line);
        text.push('\n');
    }
    text
}
