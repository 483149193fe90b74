//! Whether this end can have the connections that a group opens, found out before anything starts.

use super::{ends, reach};
use crate::workorder::{Flowop, Group, Kind, Protocol};

/// Why the group cannot run at this end, if so: each kind of socket is opened once, with all its options.
pub(crate) fn refusal(group: &Group) -> Option<String> {
    let mut tried: Vec<&Flowop> = Vec::new();
    for flowop in group.openings() {
        let is_like = |other: &&Flowop| {
            (other.kind, other.flags) == (flowop.kind, flowop.flags)
                && other.endpoint == flowop.endpoint
        };
        if tried.iter().rev().take(MOST).any(is_like) {
            continue;
        }
        if let Some(why) = refusal_of(flowop) {
            return Some(why);
        }
        tried.push(flowop);
    }
    None
}

/// As many are looked through for one that is the same; a profile may have thousands.
const MOST: usize = 16;

fn refusal_of(flowop: &Flowop) -> Option<String> {
    let endpoint = &flowop.endpoint;
    let protocol = endpoint.protocol?;
    let port = endpoint.encapsulation_port;
    let is_tcp = matches!(protocol, Protocol::Tcp | Protocol::Ssl | Protocol::Mptcp);
    if port != 0 && is_tcp && flowop.kind == Kind::Connect {
        return Some(format!(
            "{protocol}: Enabling UDP encapsulation to port {port} not supported: Linux has it for SCTP"
        ));
    }
    let socket = ends::unconnected(flowop, &reach::anywhere(protocol, 0));
    let error = socket.err()?;
    Some(format!("protocol={protocol}: {}", sys::describe(&error)))
}

/// Whether this kernel has sockets of this protocol.
pub(crate) fn has(protocol: Protocol) -> bool {
    refusal_of(&Flowop::opening(Kind::Connect, protocol)).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(protocol: Protocol, change: fn(&mut Flowop)) -> Option<String> {
        let mut connect = Flowop::opening(Kind::Connect, protocol);
        change(&mut connect);
        refusal(&Group::of([connect.clone(), connect]))
    }

    /// Whether it is refused with these words.
    fn is_refused(why: Option<String>, words: &str) -> bool {
        why.is_some_and(|why| why.starts_with(words))
    }

    #[test]
    fn what_this_end_cannot_have_is_said() {
        assert_eq!(tried(Protocol::Tcp, |_| ()), None);
        assert_eq!(tried(Protocol::Unix, |_| ()), None);
        let refused = tried(Protocol::Tcp, |flowop| {
            "no-such-one".clone_into(&mut flowop.endpoint.congestion_control);
        });
        assert!(is_refused(refused, "protocol=tcp: cc=no-such-one: "));
        let refused = tried(Protocol::Tcp, |flowop| {
            flowop.endpoint.encapsulation_port = 9;
        });
        let expected = "tcp: Enabling UDP encapsulation to port 9 not supported: ";
        assert!(is_refused(refused, expected));
        assert!(has(Protocol::Udp) && !has(Protocol::Rds));
    }

    /// With SCTP, an option that has no such value is named; without, what the kernel lacks is.
    #[test]
    fn sctp_is_tried_with_its_options() {
        let sound = tried(Protocol::Sctp, |flowop| {
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
        let odd = tried(Protocol::Sctp, |flowop| {
            flowop.endpoint.sctp.sack_delay_ms = 501;
        });
        match sound {
            None => assert!(is_refused(odd, "protocol=sctp: sctp_sack_delay=501, ")),
            why => assert!(is_refused(why, "protocol=sctp: this kernel has no SCTP: ")),
        }
    }
}
