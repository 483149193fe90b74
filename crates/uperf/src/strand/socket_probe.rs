//! Checks before a run that this end supports the connections of a group.

use super::{addresses, endpoints};
use crate::workorder::{DataProtocol, Flowop, FlowopKind, GroupSpec};

/// Returns the reason if the group cannot run at this end. Opens one socket of each kind with all
/// its options.
pub(crate) fn unsupported_reason(group: &GroupSpec) -> Option<String> {
    let mut probed: Vec<&Flowop> = Vec::new();
    for flowop in group.opening_flowops() {
        let is_same = |other: &&Flowop| {
            (other.kind, other.flags) == (flowop.kind, flowop.flags)
                && other.endpoint == flowop.endpoint
        };
        if probed.iter().rev().take(MAX_COMPARED).any(is_same) {
            continue;
        }
        if let Some(reason) = probe_socket(flowop) {
            return Some(reason);
        }
        probed.push(flowop);
    }
    None
}

/// Maximum number of earlier sockets that are searched for an equal one; a profile may have
/// thousands.
const MAX_COMPARED: usize = 16;

fn probe_socket(flowop: &Flowop) -> Option<String> {
    let endpoint = &flowop.endpoint;
    let protocol = endpoint.protocol?;
    let port = endpoint.encapsulation_port;
    let is_tcp = matches!(
        protocol,
        DataProtocol::Tcp | DataProtocol::Ssl | DataProtocol::Mptcp
    );
    if port != 0 && is_tcp && flowop.kind == FlowopKind::Connect {
        return Some(format!(
            "{protocol}: Enabling UDP encapsulation to port {port} not supported: \
             Linux supports it for SCTP only"
        ));
    }
    let socket = endpoints::open_socket(flowop, &addresses::any_address(protocol, 0));
    let error = socket.err()?;
    Some(format!("protocol={protocol}: {}", sys::describe(&error)))
}

/// Whether this kernel has sockets of this protocol.
pub(crate) fn supports_protocol(protocol: DataProtocol) -> bool {
    probe_socket(&Flowop::with_protocol(FlowopKind::Connect, protocol)).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(protocol: DataProtocol, change: fn(&mut Flowop)) -> Option<String> {
        let mut connect = Flowop::with_protocol(FlowopKind::Connect, protocol);
        change(&mut connect);
        unsupported_reason(&GroupSpec::with_flowops([connect.clone(), connect]))
    }

    /// Whether the reason starts with this text.
    fn is_refused(reason: Option<String>, start: &str) -> bool {
        reason.is_some_and(|reason| reason.starts_with(start))
    }

    #[test]
    fn unsupported_options_are_refused() {
        assert_eq!(probe(DataProtocol::Tcp, |_| ()), None);
        assert_eq!(probe(DataProtocol::Unix, |_| ()), None);
        let refused = probe(DataProtocol::Tcp, |flowop| {
            "no-such-one".clone_into(&mut flowop.endpoint.congestion_control);
        });
        assert!(is_refused(refused, "protocol=tcp: cc=no-such-one: "));
        let refused = probe(DataProtocol::Tcp, |flowop| {
            flowop.endpoint.encapsulation_port = 9;
        });
        let expected = "tcp: Enabling UDP encapsulation to port 9 not supported: ";
        assert!(is_refused(refused, expected));
        assert!(supports_protocol(DataProtocol::Udp) && !supports_protocol(DataProtocol::Rds));
    }

    /// With SCTP in the kernel, the error names the option with the invalid value; without, it
    /// names SCTP.
    #[test]
    fn sctp_options_are_probed() {
        let valid = probe(DataProtocol::Sctp, |flowop| {
            let sctp = &mut flowop.endpoint.sctp;
            sctp.out_streams = 5;
            sctp.heartbeat_ms = 500;
            sctp.path_mtu_bytes = 1400;
            sctp.max_burst = 4;
            sctp.max_fragment_bytes = 1000;
            sctp.rto_min_ms = 100;
            sctp.sack_delay_ms = 100;
            sctp.stream = 3;
            "rtx".clone_into(&mut sctp.partial_reliability);
        });
        let invalid = probe(DataProtocol::Sctp, |flowop| {
            flowop.endpoint.sctp.sack_delay_ms = 501;
        });
        match valid {
            None => assert!(is_refused(invalid, "protocol=sctp: sctp_sack_delay=501, ")),
            text => assert!(is_refused(text, "protocol=sctp: this kernel has no SCTP: ")),
        }
    }
}
