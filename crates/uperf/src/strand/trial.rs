//! Whether this end can have the connections that a group opens, found out before anything starts.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use sys::Address;

use super::ends;
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
    let anywhere = match protocol {
        Protocol::Vsock => Address::Vsock {
            context: Address::ANY_CONTEXT,
            port: 0,
        },
        Protocol::Unix => Address::Unix(PathBuf::new()),
        _ => Address::Inet((Ipv4Addr::UNSPECIFIED, 0).into()),
    };
    let socket = ends::unconnected(flowop, &anywhere);
    let error = socket.err()?;
    Some(format!("protocol={protocol}: {}", sys::describe(&error)))
}

/// Whether this kernel has sockets of this protocol.
pub(crate) fn has(protocol: Protocol) -> bool {
    let mut flowop = Flowop::new(Kind::Connect);
    flowop.endpoint.protocol = Some(protocol);
    refusal_of(&flowop).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workorder::Transaction;

    fn tried(protocol: Protocol, change: fn(&mut Flowop)) -> Option<String> {
        let mut connect = Flowop::new(Kind::Connect);
        connect.endpoint.protocol = Some(protocol);
        change(&mut connect);
        let transaction = Transaction {
            flowops: vec![connect.clone(), connect],
            ..Transaction::default()
        };
        refusal(&Group {
            transactions: vec![transaction],
            ..Group::default()
        })
    }

    #[test]
    fn what_this_end_cannot_have_is_said() {
        assert_eq!(tried(Protocol::Tcp, |_| ()), None);
        assert_eq!(tried(Protocol::Unix, |_| ()), None);
        let refused = tried(Protocol::Tcp, |flowop| {
            "no-such-one".clone_into(&mut flowop.endpoint.congestion_control);
        });
        let expected = "protocol=tcp: cc=no-such-one: ";
        assert!(refused.is_some_and(|why| why.starts_with(expected)));
        let refused = tried(Protocol::Tcp, |flowop| {
            flowop.endpoint.encapsulation_port = 9;
        });
        let expected = "tcp: Enabling UDP encapsulation to port 9 not supported: ";
        assert!(refused.is_some_and(|why| why.starts_with(expected)));
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
        let missing = "protocol=sctp: this kernel has no SCTP: ";
        match sound {
            None => {
                let expected = "protocol=sctp: sctp_sack_delay=501, ";
                assert!(odd.is_some_and(|why| why.starts_with(expected)));
            }
            Some(why) => assert!(why.starts_with(missing), "{why}"),
        }
    }
}
