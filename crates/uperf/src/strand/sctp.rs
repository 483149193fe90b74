//! What a flowop says of SCTP, and its sockets and messages with it.

use std::io;
use std::os::fd::BorrowedFd;

use model::{PartialReliability, ReliabilityPolicy, SendInfo};
use sys::sctp;

use super::ends::named;
use crate::workorder::{Flags, Flowop, Kind};

/// Sets on a socket, before it connects or listens, what the flowop says of its associations. An error
/// says of which option it is.
pub(super) fn prepare(socket: BorrowedFd<'_>, flowop: &Flowop) -> io::Result<()> {
    let asked = &flowop.endpoint.sctp;
    let (out, into) = (asked.out_streams, asked.in_streams);
    if out > 0 || into > 0 {
        let set = sctp::set_streams(socket, out, into);
        let what = || format!("sctp_out_streams={out}, sctp_in_streams={into}");
        named(set, what)?;
    }
    let (initial, most, least) = (asked.rto_initial_ms, asked.rto_max_ms, asked.rto_min_ms);
    if initial > 0 || most > 0 || least > 0 {
        let set = sctp::set_retransmission_times(socket, initial, most, least);
        named(set, || {
            format!("sctp_rto_initial={initial}, sctp_rto_max={most}, sctp_rto_min={least}")
        })?;
    }
    let (delay, frequency) = (asked.sack_delay_ms, asked.sack_frequency);
    if delay > 0 || frequency > 0 {
        let set = sctp::set_acknowledgements(socket, delay, frequency);
        let what = || format!("sctp_sack_delay={delay}, sctp_sack_frequency={frequency}");
        named(set, what)?;
    }
    let burst = asked.max_burst;
    if burst > 0 {
        let set = sctp::set_max_burst(socket, burst);
        named(set, || format!("sctp_max_burst_size={burst}"))?;
    }
    let fragment = asked.max_fragment_bytes;
    if fragment > 0 {
        let set = sctp::set_max_fragment(socket, fragment);
        named(set, || format!("sctp_max_fragment_size={fragment}"))?;
    }
    let (heartbeat, mtu) = (asked.heartbeat_ms, asked.path_mtu_bytes);
    if heartbeat > 0 || mtu > 0 {
        let set = sctp::set_paths(socket, heartbeat, mtu);
        let what = || format!("sctp_hb_interval={heartbeat}, sctp_path_mtu={mtu}");
        named(set, what)?;
    }
    if let Some(info) = own_send_info(flowop) {
        let set = sctp::set_default_send_info(socket, info);
        named(set, || "sctp_stream_id=, sctp_pr_policy=".to_owned())?;
    }
    encapsulate(socket, flowop)
}

/// What goes with each message of a transfer. What its flowop leaves out is what was said when the
/// connection was opened; `None` if it leaves out everything: then the socket sees to it.
pub(super) fn send_info(flowop: &Flowop, opening: Option<&Flowop>) -> Option<SendInfo> {
    let own = own_send_info(flowop)?;
    let default = opening.and_then(own_send_info).unwrap_or_default();
    Some(SendInfo {
        stream: match own.stream {
            0 => default.stream,
            stream => stream,
        },
        is_unordered: own.is_unordered || default.is_unordered,
        reliability: own.reliability.or(default.reliability),
    })
}

fn own_send_info(flowop: &Flowop) -> Option<SendInfo> {
    let sctp = &flowop.endpoint.sctp;
    let policy = match sctp.partial_reliability.as_str() {
        "ttl" => Some(ReliabilityPolicy::Lifetime),
        "rtx" => Some(ReliabilityPolicy::Retransmissions),
        // As FreeBSD calls it: when the buffer is full.
        "buf" => Some(ReliabilityPolicy::Priority),
        _ => None,
    };
    let info = SendInfo {
        stream: sctp.stream,
        is_unordered: flowop.flags.has(Flags::SCTP_UNORDERED),
        reliability: policy.map(|policy| PartialReliability {
            policy,
            value: sctp.partial_reliability_value,
        }),
    };
    (info != SendInfo::default()).then_some(info)
}

/// `encaps=`: SCTP within UDP. The port is that of whoever accepts, and this host's own is the kernel's
/// to know, for all sockets.
fn encapsulate(socket: BorrowedFd<'_>, flowop: &Flowop) -> io::Result<()> {
    let port = flowop.endpoint.encapsulation_port;
    if port == 0 {
        return Ok(());
    }
    let option = || format!("encaps={port}");
    let here = named(sctp::encapsulation_port(), option)?;
    let refused = |what: String| {
        let words = format!("encaps={port}: {what} (sysctl net.sctp.udp_port)");
        Err(io::Error::new(io::ErrorKind::Unsupported, words))
    };
    if flowop.kind == Kind::Accept {
        return match here {
            0 => refused("this host takes no SCTP within UDP".to_owned()),
            here if u32::from(here) != port => {
                refused(format!("this host takes SCTP within UDP at port {here}"))
            }
            _ => Ok(()),
        };
    }
    if here == 0 {
        return refused("this host sends no SCTP within UDP".to_owned());
    }
    named(sctp::set_encapsulation_port(socket, port as u16), option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saying(stream: u16, policy: &str) -> Flowop {
        let mut flowop = Flowop::new(Kind::Write);
        flowop.endpoint.sctp.stream = stream;
        policy.clone_into(&mut flowop.endpoint.sctp.partial_reliability);
        flowop.endpoint.sctp.partial_reliability_value = 9;
        flowop
    }

    #[test]
    fn what_a_transfer_leaves_out_its_connection_has() {
        let opening = saying(5, "rtx");
        assert_eq!(send_info(&saying(0, ""), Some(&opening)), None);
        let both = send_info(&saying(7, ""), Some(&opening)).unwrap();
        let policy = both.reliability.map(|reliability| reliability.policy);
        let theirs = Some(ReliabilityPolicy::Retransmissions);
        assert_eq!((both.stream, policy), (7, theirs));
        let both = send_info(&saying(0, "ttl"), Some(&opening)).unwrap();
        let reliability = PartialReliability {
            policy: ReliabilityPolicy::Lifetime,
            value: 9,
        };
        assert_eq!((both.stream, both.reliability), (5, Some(reliability)));
        let mut unordered = saying(0, "");
        unordered.flags = Flags::SCTP_UNORDERED;
        let alone = send_info(&unordered, None).unwrap();
        assert_eq!((alone.stream, alone.is_unordered), (0, true));
        let both = send_info(&saying(3, ""), Some(&unordered)).unwrap();
        assert_eq!((both.stream, both.is_unordered), (3, true));
    }

    #[test]
    fn a_policy_that_is_none_says_nothing() {
        assert_eq!(own_send_info(&saying(0, "all")), None);
        let policies = ["ttl", "rtx", "buf"].map(|name| {
            let info = own_send_info(&saying(0, name)).unwrap();
            info.reliability.unwrap().policy
        });
        let all = [
            ReliabilityPolicy::Lifetime,
            ReliabilityPolicy::Retransmissions,
            ReliabilityPolicy::Priority,
        ];
        assert_eq!(policies, all);
    }
}
