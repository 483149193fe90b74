//! The tests of `linerate run` per transport: their names, their selection, and the plan of a flow.

use model::{BufferPlan, FlowPlan, Transport, Workload};

/// A test over one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(super) transport: Transport,
    pub(super) kind: TestKind,
}

/// The kind of a test, which determines its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestKind {
    Stream,
    Maerts,
    Sendfile,
    RequestResponse,
    ConnectRequestResponse,
    ConnectClose,
}

use TestKind::{ConnectClose, ConnectRequestResponse, Maerts, RequestResponse, Sendfile, Stream};

/// Each transport with its name in `--transport` and its tests.
const TRANSPORTS: [(Transport, &str, &[TestKind]); 10] = [
    (
        Transport::Tcp,
        "tcp",
        &[
            Stream,
            Maerts,
            Sendfile,
            RequestResponse,
            ConnectRequestResponse,
            ConnectClose,
        ],
    ),
    (Transport::Udp, "udp", &[Stream, RequestResponse]),
    (Transport::Mptcp, "mptcp", CONNECTION_TESTS),
    (Transport::UdpLite, "udplite", &[Stream, RequestResponse]),
    (Transport::Sctp, "sctp", CONNECTION_TESTS),
    (Transport::SctpMany, "sctp-many", &[Stream, RequestResponse]),
    (Transport::Dccp, "dccp", CONNECTION_TESTS),
    (Transport::UnixStream, "unix", &[Stream, RequestResponse]),
    (
        Transport::UnixDatagram,
        "unix-datagram",
        &[Stream, RequestResponse],
    ),
    (Transport::Vsock, "vsock", CONNECTION_TESTS),
];

/// Tests over Multipath TCP, SCTP, DCCP and vsock.
const CONNECTION_TESTS: &[TestKind] = &[
    Stream,
    Maerts,
    RequestResponse,
    ConnectRequestResponse,
    ConnectClose,
];

/// Tests that run if neither tests nor a transport are given.
const DEFAULT_TESTS: [Test; 6] = [
    Test::new(Transport::Tcp, Stream),
    Test::new(Transport::Tcp, Maerts),
    Test::new(Transport::Udp, Stream),
    Test::new(Transport::Tcp, RequestResponse),
    Test::new(Transport::Udp, RequestResponse),
    Test::new(Transport::Tcp, ConnectRequestResponse),
];

impl Test {
    /// The test that measures a rate for pacing.
    pub(super) const TCP_STREAM: Self = Self::new(Transport::Tcp, Stream);

    const fn new(transport: Transport, kind: TestKind) -> Self {
        Self { transport, kind }
    }

    /// Returns whether `--udp-rate` applies to the test.
    pub(super) fn is_one_way_over_datagrams(self) -> bool {
        let is_udp = matches!(self.transport, Transport::Udp | Transport::UdpLite);
        is_udp && self.kind == Stream
    }

    /// Returns the name of the test: netperf's name if netperf has the test.
    pub(super) fn name(self) -> String {
        let kind = self.kind.name();
        match self.transport {
            Transport::SctpMany => format!("SCTP_{kind}_MANY"),
            Transport::UnixStream => format!("STREAM_{kind}"),
            Transport::UnixDatagram => format!("DG_{kind}"),
            transport => format!("{}_{kind}", transport.name().to_uppercase()),
        }
    }

    /// Returns the plan of one flow. The caller sets its length.
    pub(super) fn flow(self) -> FlowPlan {
        let workload = self.kind.workload();
        let is_request_response = workload.sends() && workload.receives();
        // netperf's request for TCP_CC contains message sizes, although the test moves no data.
        let is_tcp_cc = self.transport == Transport::Tcp && self.kind == ConnectClose;
        let buffers = if is_request_response || is_tcp_cc {
            BufferPlan::message(1)
        } else {
            BufferPlan::default()
        };
        let mut flow = FlowPlan::new(self.transport, workload).with_buffers(buffers);
        flow.local.send_from_file = self.kind == Sendfile;
        // On an unconnected socket, the kernel would look up the peer's file for each datagram.
        flow.local.socket.connect_datagrams = self.transport == Transport::UnixDatagram;
        flow
    }
}

impl TestKind {
    fn name(self) -> &'static str {
        match self {
            Stream => "STREAM",
            Maerts => "MAERTS",
            Sendfile => "SENDFILE",
            RequestResponse => "RR",
            ConnectRequestResponse => "CRR",
            ConnectClose => "CC",
        }
    }

    /// Returns the workload of the local end.
    fn workload(self) -> Workload {
        match self {
            Stream | Sendfile => Workload::send(),
            Maerts => Workload::receive(),
            RequestResponse => Workload::request(),
            ConnectRequestResponse => Workload::connect_and_request(),
            ConnectClose => Workload::connect_and_close(),
        }
    }
}

/// Parses the name of a transport in `--transport`.
pub(super) fn parse_transport(name: &str) -> Result<Transport, String> {
    if ["llc", "llc2"].contains(&name) {
        return Err("LLC needs interface names instead of addresses; use: \
             linerate netperf -t DLCO_STREAM -- -D LOCAL,REMOTE"
            .to_owned());
    }
    let known = TRANSPORTS
        .iter()
        .find(|(_, known_name, _)| *known_name == name);
    known.map(|(transport, ..)| *transport).ok_or_else(|| {
        let names: Vec<_> = TRANSPORTS.iter().map(|(_, name, _)| *name).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// Returns the name of a transport in `--transport` and in netperf's `-T`.
fn transport_name(transport: Transport) -> &'static str {
    let entry = TRANSPORTS.iter().find(|(known, ..)| *known == transport);
    entry.map_or("", |(_, name, _)| name)
}

/// Returns all tests over a transport.
fn tests_over(transport: Transport) -> impl Iterator<Item = Test> {
    let entries = TRANSPORTS
        .iter()
        .filter(move |(known, ..)| *known == transport);
    entries.flat_map(|(transport, _, kinds)| kinds.iter().map(|kind| Test::new(*transport, *kind)))
}

/// Returns the tests with these names, or the default tests if there are no names. If a transport
/// is given, the names may omit its prefix. The error is one line with the unknown name.
pub(super) fn select_tests(
    names: &[String],
    transport: Option<Transport>,
    bidirectional: bool,
) -> Result<Vec<Test>, String> {
    if names.is_empty() {
        let default_kinds = DEFAULT_TESTS.map(|test| test.kind);
        let tests = match transport {
            Some(transport) => tests_over(transport)
                .filter(|test| default_kinds.contains(&test.kind))
                .collect(),
            None => DEFAULT_TESTS.to_vec(),
        };
        let is_suitable = |test: &Test| !bidirectional || test.kind == Stream;
        return Ok(tests.into_iter().filter(is_suitable).collect());
    }
    names
        .iter()
        .map(|name| test_by_name(name, transport))
        .collect()
}

fn test_by_name(name: &str, transport: Option<Transport>) -> Result<Test, String> {
    let known: Vec<Test> = match transport {
        Some(transport) => tests_over(transport).collect(),
        None => (TRANSPORTS
            .iter()
            .flat_map(|(transport, ..)| tests_over(*transport)))
        .collect(),
    };
    // Over Multipath TCP, names of TCP tests are valid too, as in netperf's -t TCP_RR -- -T mptcp.
    let matches_kind = |test: &Test, name: &str| {
        let tcp_test = Test::new(Transport::Tcp, test.kind);
        test.kind.name().eq_ignore_ascii_case(name)
            || (test.transport.has_tcp_options() && tcp_test.name().eq_ignore_ascii_case(name))
    };
    let matches_name = |test: &Test| {
        test.name().eq_ignore_ascii_case(name) || (transport.is_some() && matches_kind(test, name))
    };
    known.iter().copied().find(matches_name).ok_or_else(|| {
        let over = transport.map_or(String::new(), |transport| {
            format!(" over {}", transport_name(transport))
        });
        let names: Vec<_> = known.iter().map(|test| test.name()).collect();
        format!(
            "unknown test '{name}' in -t; tests{over}: {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use model::Plan;

    use super::*;

    /// Each test has the same plan as the equivalent netperf command line.
    #[test]
    fn each_test_equals_what_netperf_parses_from_its_name() {
        for (transport, ..) in TRANSPORTS {
            for test in tests_over(transport) {
                let omni_options = omni_options(test);
                let (full_name, extra_options) = (
                    test.name(),
                    match transport {
                        // The context ID of the local machine.
                        Transport::Vsock => &["-H", "1"][..],
                        Transport::Udp if test.kind == Stream => &["-R", "1"],
                        _ => &[],
                    },
                );
                let name = if omni_options.is_empty() {
                    &full_name
                } else {
                    "OMNI"
                };
                let words = [
                    &["-t", name, "-l", "0", "--"],
                    &omni_options[..],
                    extra_options,
                ]
                .concat();
                let words = words.into_iter().map(Into::into);
                let parsed = netperf::options::parse_netperf("netperf", words)
                    .unwrap_or_else(|exit| panic!("{test:?}: {exit:?}"));
                assert_eq!(parsed.flow, test.flow(), "{test:?}");
                let plan = Plan::for_flow(test.name(), "host", test.flow());
                let from_plan =
                    netperf::options::settings_for_plan(&plan, &parsed.control).unwrap();
                assert_eq!(
                    (
                        from_plan.test,
                        from_plan.direction,
                        from_plan.family_settings
                    ),
                    (parsed.test, parsed.direction, parsed.family_settings),
                    "{test:?}"
                );
            }
        }
    }

    /// Returns the OMNI options of a test that has no name in netperf; empty for other tests.
    fn omni_options(test: Test) -> Vec<&'static str> {
        if !matches!(
            test.transport,
            Transport::Mptcp
                | Transport::UdpLite
                | Transport::Sctp
                | Transport::Dccp
                | Transport::Vsock
        ) {
            return Vec::new();
        }
        let direction: &[&str] = match test.kind {
            Stream | Sendfile => &["-d", "send"],
            Maerts => &["-d", "recv"],
            RequestResponse => &["-d", "rr"],
            ConnectRequestResponse => &["-c", "-d", "rr"],
            ConnectClose => &["-c", "-d", "0"],
        };
        [&["-T", transport_name(test.transport)], direction].concat()
    }

    #[test]
    fn names_select_tests() {
        let choose = |names: &str, transport: Option<&str>| {
            let names = names.split([' ', ',']).filter(|name| !name.is_empty());
            let names: Vec<String> = names.map(str::to_owned).collect();
            let transport = transport.map(transport_by_name);
            select_tests(&names, transport, false).map(|tests| {
                let names: Vec<String> = tests.into_iter().map(Test::name).collect();
                names.join(" ")
            })
        };
        for (names, transport, expected) in [
            (
                "",
                None,
                "TCP_STREAM TCP_MAERTS UDP_STREAM TCP_RR UDP_RR TCP_CRR",
            ),
            ("", Some("udp"), "UDP_STREAM UDP_RR"),
            ("", Some("sctp"), "SCTP_STREAM SCTP_MAERTS SCTP_RR SCTP_CRR"),
            ("", Some("sctp-many"), "SCTP_STREAM_MANY SCTP_RR_MANY"),
            ("", Some("unix"), "STREAM_STREAM STREAM_RR"),
            ("", Some("unix-datagram"), "DG_STREAM DG_RR"),
            ("rr Cc", Some("mptcp"), "MPTCP_RR MPTCP_CC"),
            ("TCP_RR,tcp_crr", Some("mptcp"), "MPTCP_RR MPTCP_CRR"),
            ("TCP_RR", Some("tcp"), "TCP_RR"),
            ("udplite_rr", Some("udplite"), "UDPLITE_RR"),
            (
                "dccp_stream VSOCK_RR tcp_sendfile",
                None,
                "DCCP_STREAM VSOCK_RR TCP_SENDFILE",
            ),
        ] {
            assert_eq!(
                choose(names, transport).as_deref(),
                Ok(expected),
                "{names} {transport:?}"
            );
        }
        for (names, transport, expected) in [
            (
                "TCP_WALK",
                None,
                "unknown test 'TCP_WALK' in -t; tests: TCP_STREAM,",
            ),
            ("RR", None, "unknown test 'RR' in -t; tests: TCP_STREAM,"),
            (
                "TCP_SENDFILE",
                Some("mptcp"),
                "unknown test 'TCP_SENDFILE' in -t; tests over mptcp: MPTCP_STREAM,",
            ),
            (
                "TCP_RR",
                Some("udp"),
                "unknown test 'TCP_RR' in -t; tests over udp: UDP_STREAM, UDP_RR",
            ),
            (
                "crr",
                Some("unix"),
                "unknown test 'crr' in -t; tests over unix: STREAM_STREAM, STREAM_RR",
            ),
        ] {
            let error = choose(names, transport).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn unknown_transports_are_refused_with_a_hint() {
        assert!(
            parse_transport("llc")
                .unwrap_err()
                .contains("-D LOCAL,REMOTE")
        );
        assert!(
            parse_transport("TCP")
                .unwrap_err()
                .starts_with("use one of tcp, ")
        );
    }

    fn transport_by_name(name: &str) -> Transport {
        parse_transport(name).unwrap()
    }
}
