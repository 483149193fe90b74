//! The names under which linerate acts as another program. Each is a subcommand and a link name.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "netperf")]
use netperf::options;

/// A program of a dialect.
pub(crate) struct Program {
    /// Name of the subcommand and of the link.
    pub(crate) name: &'static str,
    /// One-line description for the help.
    pub(crate) about: &'static str,
    /// Runs the program. The first parameter is the name for its messages, the second its
    /// arguments.
    pub(crate) run: fn(&str, &mut dyn Iterator<Item = OsString>) -> ExitCode,
}

/// All programs in this build.
pub(crate) const PROGRAMS: &[Program] = &[
    #[cfg(feature = "iperf3")]
    Program {
        name: "iperf3",
        about: "iperf3 3.22, client and server, with its options and its output",
        run: |name, args| crate::iperf3::iperf3(name, args),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "netperf",
        about: "netperf 2.7.1's client, with its options and its output",
        run: |name, args| crate::netperf::client(name, args),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "netserver",
        about: "netperf 2.7.1's server, with its options",
        run: |name, args| crate::netperf::server(name, args),
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "super_netperf",
        about: "N netperf flows in parallel, and their sum: super_netperf N ARGS",
        run: |name, args| {
            crate::netperf::super_netperf(name, options::parse_super_netperf(name, args))
        },
    },
    #[cfg(feature = "netperf")]
    Program {
        name: "super-netperf",
        about: "the same in the form of k8s-netperf: super-netperf N PORT ARGS",
        run: |name, args| {
            crate::netperf::super_netperf(name, options::parse_super_netperf_on_ports(name, args))
        },
    },
    #[cfg(feature = "iperf")]
    Program {
        name: "iperf",
        about: "iperf 2.2.1, client and server, with its options and its output",
        run: |name, args| crate::iperf::iperf(name, args),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon",
        about: "UDPmon 1.5.2's programs by their short names: udpmon bw_mon ARGS",
        run: |name, args| crate::udpmon::udpmon(name, args),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_bw_mon",
        about: "UDPmon's requester for throughput, loss and delay",
        run: |name, args| crate::udpmon::bw_mon(name, args),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_req",
        about: "UDPmon's requester for round-trip times",
        run: |name, args| crate::udpmon::req(name, args),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_resp",
        about: "UDPmon's responder, which serves both requesters",
        run: |name, args| crate::udpmon::resp(name, args),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_recv",
        about: "UDPmon's receiver for udpmon_send",
        run: |name, args| crate::udpmon::recv(name, args),
    },
    #[cfg(feature = "udpmon")]
    Program {
        name: "udpmon_send",
        about: "UDPmon's sender without a control exchange",
        run: |name, args| crate::udpmon::send(name, args),
    },
    #[cfg(feature = "uperf")]
    Program {
        name: "uperf",
        about: "uperf 1.0.8, master and slave, with its profiles and its output",
        run: |name, args| crate::uperf::uperf(name, args),
    },
];

/// Returns the program of exactly this name.
pub(crate) fn by_name(name: &OsStr) -> Option<&'static Program> {
    PROGRAMS.iter().find(|known| known.name == name)
}

/// Returns the program whose name is the file name of this path.
pub(crate) fn by_path(path: &OsStr) -> Option<&'static Program> {
    Path::new(path).file_name().and_then(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "netperf")]
    fn the_file_name_selects_the_program() {
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
                by_path(OsStr::new(path)).map(|known| known.name),
                name,
                "{path}"
            );
        }
    }
}
