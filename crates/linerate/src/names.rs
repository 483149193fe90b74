//! The names that the binary answers to: as a link to it, and as its subcommand.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "netperf")]
use netperf::options;

/// A program of a dialect.
pub(crate) struct Program {
    /// What it is called by.
    pub(crate) name: &'static str,
    /// What it is, in one line.
    pub(crate) about: &'static str,
    /// Runs it, with the name as it was called, which its messages begin with, and the words after.
    pub(crate) run: fn(&str, &mut dyn Iterator<Item = OsString>) -> ExitCode,
}

/// All of them.
pub(crate) const PROGRAMS: &[Program] = &[
    #[cfg(feature = "iperf3")]
    Program {
        name: "iperf3",
        about: "iperf3 3.12, client and server, with its options and its output",
        run: |called, words| crate::iperf3::iperf3(called, words),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "netperf",
        about: "netperf 2.7.0's client, with its options and its output",
        run: |called, words| crate::netperf::client(called, words),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "netserver",
        about: "netperf 2.7.0's server, with its options",
        run: |called, words| crate::netperf::server(called, words),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "super_netperf",
        about: "many netperfs at once, and their sum: super_netperf N ARGS",
        run: |called, words| crate::netperf::many(called, options::super_netperf(called, words)),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "super-netperf",
        about: "the same as k8s-netperf has it: super-netperf N PORT ARGS",
        run: |called, words| {
            crate::netperf::many(called, options::super_netperf_on_ports(called, words))
        },
    },
    #[cfg(feature = "iperf")]
    Program {
        name: "iperf",
        about: "iperf 2.1.8, client and server, with its options and its output",
        run: |called, words| crate::iperf::iperf(called, words),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon",
        about: "UDPmon 1.5.2's programs by their short names: udpmon bw_mon ARGS",
        run: |called, words| crate::udpmon::udpmon(called, words),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_bw_mon",
        about: "UDPmon's requester for throughput, loss and delay",
        run: |called, words| crate::udpmon::bw_mon(called, words),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_req",
        about: "UDPmon's requester for round-trip times",
        run: |called, words| crate::udpmon::req(called, words),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_resp",
        about: "UDPmon's responder, which serves both requesters",
        run: |called, words| crate::udpmon::resp(called, words),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_recv",
        about: "UDPmon's receiver for udpmon_send",
        run: |called, words| crate::udpmon::recv(called, words),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_send",
        about: "UDPmon's sender without a control exchange",
        run: |called, words| crate::udpmon::send(called, words),
    },
    #[cfg(feature = "uperf")]
    Program {
        name: "uperf",
        about: "uperf 1.0.8, master and slave, with its profiles and its output",
        run: |called, words| crate::uperf::uperf(called, words),
    },
];

/// The program that a whole name stands for.
pub(crate) fn by_name(name: &OsStr) -> Option<&'static Program> {
    PROGRAMS.iter().find(|known| known.name == name)
}

/// The program that a path's file name stands for.
pub(crate) fn of_path(path: &OsStr) -> Option<&'static Program> {
    Path::new(path).file_name().and_then(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "netperf")]
    fn the_file_name_counts() {
        for (path, name) in [
            ("netperf", Some("netperf")),
            ("/usr/bin/netserver", Some("netserver")),
            ("./netperf", Some("netperf")),
            ("netperf/linerate", None),
            ("linerate", None),
            ("netperf2", None),
            ("/usr/local/bin/super_netperf", Some("super_netperf")),
            ("super-netperf", Some("super-netperf")),
            ("", None),
        ] {
            assert_eq!(
                of_path(OsStr::new(path)).map(|known| known.name),
                name,
                "{path}"
            );
        }
    }
}
