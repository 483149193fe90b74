//! SCTP options of a flowop: for its socket and for its messages.

use std::io;
use std::os::fd::BorrowedFd;

use model::{PartialReliability, ReliabilityPolicy, SendInfo};
use sys::sctp;

use super::endpoints::with_option_name;
use crate::workorder::{Flowop, FlowopFlags, FlowopKind};

/// Sets the SCTP options of a flowop on a socket, before it connects or listens. An error names the
/// refused option.
pub(super) fn set_options(socket: BorrowedFd<'_>, flowop: &Flowop) -> io::Result<()> {
    let requested = &flowop.endpoint.sctp;
    let (outgoing, incoming) = (requested.out_streams, requested.in_streams);
    if outgoing > 0 || incoming > 0 {
        let set = sctp::set_streams(socket, outgoing, incoming);
        let option = || format!("sctp_out_streams={outgoing}, sctp_in_streams={incoming}");
        with_option_name(set, option)?;
    }
    let (initial, max, min) = (
        requested.rto_initial_ms,
        requested.rto_max_ms,
        requested.rto_min_ms,
    );
    if initial > 0 || max > 0 || min > 0 {
        let set = sctp::set_retransmission_times(socket, initial, max, min);
        with_option_name(set, || {
            format!("sctp_rto_initial={initial}, sctp_rto_max={max}, sctp_rto_min={min}")
        })?;
    }
    let (delay, frequency) = (requested.sack_delay_ms, requested.sack_frequency);
    if delay > 0 || frequency > 0 {
        let set = sctp::set_delayed_acknowledgements(socket, delay, frequency);
        let option = || format!("sctp_sack_delay={delay}, sctp_sack_frequency={frequency}");
        with_option_name(set, option)?;
    }
    let burst = requested.max_burst;
    if burst > 0 {
        let set = sctp::set_max_burst(socket, burst);
        with_option_name(set, || format!("sctp_max_burst_size={burst}"))?;
    }
    let fragment = requested.max_fragment_bytes;
    if fragment > 0 {
        let set = sctp::set_max_fragment(socket, fragment);
        with_option_name(set, || format!("sctp_max_fragment_size={fragment}"))?;
    }
    let (heartbeat, mtu) = (requested.heartbeat_ms, requested.path_mtu_bytes);
    if heartbeat > 0 || mtu > 0 {
        let set = sctp::set_path_parameters(socket, heartbeat, mtu);
        let option = || format!("sctp_hb_interval={heartbeat}, sctp_path_mtu={mtu}");
        with_option_name(set, option)?;
    }
    if let Some(info) = requested_send_info(flowop) {
        let set = sctp::set_default_send_info(socket, info);
        with_option_name(set, || "sctp_stream_id=, sctp_pr_policy=".to_owned())?;
    }
    set_encapsulation(socket, flowop)
}

/// Returns the send information of the messages of a transfer. Values that its flowop omits come
/// from the flowop that opened the connection. Returns `None` if the transfer sets none: then the
/// default of the socket applies.
pub(super) fn send_info(flowop: &Flowop, opening: Option<&Flowop>) -> Option<SendInfo> {
    let requested = requested_send_info(flowop)?;
    let default = opening.and_then(requested_send_info).unwrap_or_default();
    Some(SendInfo {
        stream: match requested.stream {
            0 => default.stream,
            stream => stream,
        },
        is_unordered: requested.is_unordered || default.is_unordered,
        reliability: requested.reliability.or(default.reliability),
    })
}

fn requested_send_info(flowop: &Flowop) -> Option<SendInfo> {
    let sctp = &flowop.endpoint.sctp;
    let policy = match sctp.partial_reliability.as_str() {
        "ttl" => Some(ReliabilityPolicy::Lifetime),
        "rtx" => Some(ReliabilityPolicy::Retransmissions),
        // FreeBSD's name: drop messages when the send buffer is full.
        "buf" => Some(ReliabilityPolicy::Priority),
        _ => None,
    };
    let info = SendInfo {
        stream: sctp.stream,
        is_unordered: flowop.flags.has(FlowopFlags::SCTP_UNORDERED),
        reliability: policy.map(|policy| PartialReliability {
            policy,
            value: sctp.partial_reliability_value,
        }),
    };
    (info != SendInfo::default()).then_some(info)
}

/// Sets `encaps=`: SCTP over UDP. `port` is the UDP port of the accepting host. The local port is a
/// kernel setting for all sockets.
fn set_encapsulation(socket: BorrowedFd<'_>, flowop: &Flowop) -> io::Result<()> {
    let port = flowop.endpoint.encapsulation_port;
    if port == 0 {
        return Ok(());
    }
    let option = || format!("encaps={port}");
    let local_port = with_option_name(sctp::encapsulation_port(), option)?;
    let refused = |reason: String| {
        let text = format!("encaps={port}: {reason} (sysctl net.sctp.udp_port)");
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    };
    if flowop.kind == FlowopKind::Accept {
        return match local_port {
            0 => refused("this host does not accept SCTP over UDP".to_owned()),
            other if u32::from(other) != port => {
                refused(format!("this host accepts SCTP over UDP on port {other}"))
            }
            _ => Ok(()),
        };
    }
    if local_port == 0 {
        return refused("this host does not send SCTP over UDP".to_owned());
    }
    with_option_name(sctp::set_encapsulation_port(socket, port as u16), option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowop_with(stream: u16, policy: &str) -> Flowop {
        let mut flowop = Flowop::new(FlowopKind::Write);
        flowop.endpoint.sctp.stream = stream;
        policy.clone_into(&mut flowop.endpoint.sctp.partial_reliability);
        flowop.endpoint.sctp.partial_reliability_value = 9;
        flowop
    }

    #[test]
    fn send_info_defaults_to_that_of_the_connection() {
        let opening = flowop_with(5, "rtx");
        assert_eq!(send_info(&flowop_with(0, ""), Some(&opening)), None);
        let merged = send_info(&flowop_with(7, ""), Some(&opening)).unwrap();
        let policy = merged.reliability.map(|reliability| reliability.policy);
        let expected = Some(ReliabilityPolicy::Retransmissions);
        assert_eq!((merged.stream, policy), (7, expected));
        let merged = send_info(&flowop_with(0, "ttl"), Some(&opening)).unwrap();
        let reliability = PartialReliability {
            policy: ReliabilityPolicy::Lifetime,
            value: 9,
        };
        assert_eq!((merged.stream, merged.reliability), (5, Some(reliability)));
        let mut unordered = flowop_with(0, "");
        unordered.flags = FlowopFlags::SCTP_UNORDERED;
        let unmerged = send_info(&unordered, None).unwrap();
        assert_eq!((unmerged.stream, unmerged.is_unordered), (0, true));
        let merged = send_info(&flowop_with(3, ""), Some(&unordered)).unwrap();
        assert_eq!((merged.stream, merged.is_unordered), (3, true));
    }

    #[test]
    fn an_unknown_policy_is_ignored() {
        assert_eq!(requested_send_info(&flowop_with(0, "all")), None);
        let policies = ["ttl", "rtx", "buf"].map(|name| {
            let info = requested_send_info(&flowop_with(0, name)).unwrap();
            info.reliability.unwrap().policy
        });
        let expected = [
            ReliabilityPolicy::Lifetime,
            ReliabilityPolicy::Retransmissions,
            ReliabilityPolicy::Priority,
        ];
        assert_eq!(policies, expected);
    }
}
