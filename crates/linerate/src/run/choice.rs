//! The tests that there are, over each transport: their names, and what one flow of each does.

use model::{BufferPlan, FlowPlan, Transport, Workload};

/// A test whose result is a rate, over one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(super) transport: Transport,
    pub(super) kind: Kind,
}

/// What a test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    Maerts,
    Sendfile,
    RequestResponse,
    ConnectRequestResponse,
    ConnectClose,
}

use Kind::{ConnectClose, ConnectRequestResponse, Maerts, RequestResponse, Sendfile, Stream};

/// Each transport with its name in `--transport`, and the tests that have a sense over it.
const CARRIERS: [(Transport, &str, &[Kind]); 10] = [
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
    (Transport::Mptcp, "mptcp", OF_CONNECTIONS),
    (Transport::UdpLite, "udplite", &[Stream, RequestResponse]),
    (Transport::Sctp, "sctp", OF_CONNECTIONS),
    (Transport::SctpMany, "sctp-many", &[Stream, RequestResponse]),
    (Transport::Dccp, "dccp", OF_CONNECTIONS),
    (Transport::UnixStream, "unix", &[Stream, RequestResponse]),
    (
        Transport::UnixDatagram,
        "unix-datagram",
        &[Stream, RequestResponse],
    ),
    (Transport::Vsock, "vsock", OF_CONNECTIONS),
];

const OF_CONNECTIONS: &[Kind] = &[
    Stream,
    Maerts,
    RequestResponse,
    ConnectRequestResponse,
    ConnectClose,
];

/// What is run when nobody names a test or a transport.
const USUAL: [Test; 6] = [
    Test::of(Transport::Tcp, Stream),
    Test::of(Transport::Tcp, Maerts),
    Test::of(Transport::Udp, Stream),
    Test::of(Transport::Tcp, RequestResponse),
    Test::of(Transport::Udp, RequestResponse),
    Test::of(Transport::Tcp, ConnectRequestResponse),
];

impl Test {
    /// The one that tells what a path carries.
    pub(super) const TCP_STREAM: Self = Self::of(Transport::Tcp, Stream);

    const fn of(transport: Transport, kind: Kind) -> Self {
        Self { transport, kind }
    }

    /// Whether `--udp-rate` is of it.
    pub(super) fn is_one_way_over_datagrams(self) -> bool {
        let is_udp = matches!(self.transport, Transport::Udp | Transport::UdpLite);
        is_udp && self.kind == Stream
    }

    /// What people call it. Where netperf has a test of its own, that is its name.
    pub(super) fn name(self) -> String {
        let kind = self.kind.name();
        match self.transport {
            Transport::SctpMany => format!("SCTP_{kind}_MANY"),
            Transport::UnixStream => format!("STREAM_{kind}"),
            Transport::UnixDatagram => format!("DG_{kind}"),
            transport => format!("{}_{kind}", transport.name().to_uppercase()),
        }
    }

    /// What one flow of it does; for how long is the caller's to say.
    pub(super) fn flow(self) -> FlowPlan {
        let workload = self.kind.workload();
        let has_messages = workload.sends() && workload.receives();
        // netperf's TCP_CC carries sizes though it moves no data.
        let is_tcp_cc = self.transport == Transport::Tcp && self.kind == ConnectClose;
        let buffers = if has_messages || is_tcp_cc {
            BufferPlan::message(1)
        } else {
            BufferPlan::default()
        };
        let mut flow = FlowPlan::of(self.transport, workload).with_buffers(buffers);
        flow.here.send_from_file = self.kind == Sendfile;
        // Else each datagram would have its path looked up.
        flow.here.socket.connect_datagrams = self.transport == Transport::UnixDatagram;
        flow
    }
}

impl Kind {
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

    /// What this end does.
    fn workload(self) -> Workload {
        match self {
            Stream | Sendfile => Workload::send(),
            Maerts => Workload::receive(),
            RequestResponse => Workload::ask(),
            ConnectRequestResponse => Workload::connect_and_ask(),
            ConnectClose => Workload::connect_and_close(),
        }
    }
}

/// The transport of that name in `--transport`, or why it cannot be had.
pub(super) fn transport(word: &str) -> Result<Transport, String> {
    if ["llc", "llc2"].contains(&word) {
        return Err(
            "LLC has interfaces in place of addresses, for which there is no option here: \
             linerate netperf -t DLCO_STREAM -- -D HERE,THERE"
                .to_owned(),
        );
    }
    let known = CARRIERS.iter().find(|(_, name, _)| *name == word);
    known.map(|(transport, ..)| *transport).ok_or_else(|| {
        let names: Vec<_> = CARRIERS.iter().map(|(_, name, _)| *name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// The transport's name in `--transport`, and behind netperf's `-T`.
fn word(transport: Transport) -> &'static str {
    let carrier = CARRIERS.iter().find(|(known, ..)| *known == transport);
    carrier.map_or("", |(_, word, _)| word)
}

/// All tests over a transport.
fn over(transport: Transport) -> impl Iterator<Item = Test> {
    let of = CARRIERS
        .iter()
        .filter(move |(known, ..)| *known == transport);
    of.flat_map(|(transport, _, kinds)| kinds.iter().map(|kind| Test::of(*transport, *kind)))
}

/// The tests of these names, or if there is none what is usual; or one line that says which name is
/// none. With a transport its prefix may be left out.
pub(super) fn choose(
    names: &[String],
    transport: Option<Transport>,
    bidirectional: bool,
) -> Result<Vec<Test>, String> {
    if names.is_empty() {
        let usual = USUAL.map(|test| test.kind);
        let tests = match transport {
            Some(transport) => over(transport)
                .filter(|test| usual.contains(&test.kind))
                .collect(),
            None => USUAL.to_vec(),
        };
        let one_way = |test: &Test| !bidirectional || test.kind == Stream;
        return Ok(tests.into_iter().filter(one_way).collect());
    }
    names.iter().map(|name| by_name(name, transport)).collect()
}

fn by_name(name: &str, transport: Option<Transport>) -> Result<Test, String> {
    let known: Vec<Test> = match transport {
        Some(transport) => over(transport).collect(),
        None => (CARRIERS.iter().flat_map(|(transport, ..)| over(*transport))).collect(),
    };
    // Over Multipath TCP a test of TCP is what it is, as with netperf's -t TCP_RR -- -T mptcp.
    let is_kind = |test: &Test, name: &str| {
        let of_tcp = Test::of(Transport::Tcp, test.kind);
        test.kind.name().eq_ignore_ascii_case(name)
            || (test.transport.has_tcp_options() && of_tcp.name().eq_ignore_ascii_case(name))
    };
    let is_it = |test: &Test| {
        test.name().eq_ignore_ascii_case(name) || (transport.is_some() && is_kind(test, name))
    };
    known.iter().copied().find(is_it).ok_or_else(|| {
        let over = transport.map_or(String::new(), |transport| {
            format!("over {} ", word(transport))
        });
        let names: Vec<_> = known.iter().map(|test| test.name()).collect();
        format!(
            "unknown test '{name}' in -t; {over}there are {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use model::Plan;

    use super::*;

    /// A test is to the letter what netperf's command line makes of it.
    #[test]
    fn each_test_is_what_netperf_makes_of_its_name() {
        for (transport, ..) in CARRIERS {
            for test in over(transport) {
                let own = own_options(test);
                let (full, more) = (
                    test.name(),
                    match transport {
                        // A machine's own context.
                        Transport::Vsock => &["-H", "1"][..],
                        Transport::Udp if test.kind == Stream => &["-R", "1"],
                        _ => &[],
                    },
                );
                let name = if own.is_empty() { &full } else { "OMNI" };
                let words = [&["-t", name, "-l", "0", "--"], &own[..], more].concat();
                let words = words.into_iter().map(Into::into);
                let typed = netperf::options::netperf("netperf", words)
                    .unwrap_or_else(|exit| panic!("{test:?}: {exit:?}"));
                assert_eq!(typed.flow, test.flow(), "{test:?}");
                let plan = Plan::of_flow(test.name(), "host", test.flow());
                let made = netperf::options::of_plan(&plan, &typed.control).unwrap();
                assert_eq!(
                    (made.test, made.direction, made.special),
                    (typed.test, typed.direction, typed.special),
                    "{test:?}"
                );
            }
        }
    }

    /// OMNI's, of tests that netperf has no name for.
    fn own_options(test: Test) -> Vec<&'static str> {
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
        [&["-T", word(test.transport)], direction].concat()
    }

    #[test]
    fn names() {
        let choose = |names: &str, transport: Option<&str>| {
            let names = names.split([' ', ',']).filter(|name| !name.is_empty());
            let names: Vec<String> = names.map(str::to_owned).collect();
            let transport = transport.map(transport_of);
            choose(&names, transport, false).map(|tests| {
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
        for (names, transport, said) in [
            (
                "TCP_WALK",
                None,
                "unknown test 'TCP_WALK' in -t; there are TCP_STREAM,",
            ),
            ("RR", None, "unknown test 'RR' in -t; there are TCP_STREAM,"),
            (
                "TCP_SENDFILE",
                Some("mptcp"),
                "unknown test 'TCP_SENDFILE' in -t; over mptcp there are MPTCP_STREAM,",
            ),
            (
                "TCP_RR",
                Some("udp"),
                "unknown test 'TCP_RR' in -t; over udp there are UDP_STREAM, UDP_RR",
            ),
            (
                "crr",
                Some("unix"),
                "unknown test 'crr' in -t; over unix there are STREAM_STREAM, STREAM_RR",
            ),
        ] {
            let refused = choose(names, transport).unwrap_err();
            assert!(refused.starts_with(said), "{refused}");
        }
    }

    #[test]
    fn a_link_has_no_addresses() {
        assert!(transport("llc").unwrap_err().contains("-D HERE,THERE"));
        assert!(transport("TCP").unwrap_err().starts_with("there are tcp, "));
    }

    fn transport_of(word: &str) -> Transport {
        transport(word).unwrap()
    }
}
