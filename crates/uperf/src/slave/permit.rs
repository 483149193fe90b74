//! What a group may change on this host.

use server::Permissions;
use sys::Address;

use crate::strand::transport;
use crate::{Group, Kind, Protocol};

/// Whether sockets of a protocol may be opened.
pub(super) fn allows(permissions: Permissions, protocol: Protocol) -> bool {
    let anywhere = anywhere(protocol, 0);
    transport(protocol).is_none_or(|transport| permissions.allows_transport(transport, &anywhere))
}

/// The reason to refuse a group, if there is one.
pub(super) fn refusal(permissions: Permissions, group: &Group) -> Option<String> {
    group.openings().find_map(|flowop| {
        let endpoint = &flowop.endpoint;
        let protocol = endpoint.protocol?;
        let name = &endpoint.congestion_control;
        if !allows(permissions, protocol) {
            return Some(format!(
                "protocol={protocol}: its module is not loaded (--allow-modules)"
            ));
        }
        if !name.is_empty() && !permissions.allows_congestion_control(name) {
            return Some(format!("cc={name}: it is not loaded (--allow-modules)"));
        }
        let port = endpoint.port;
        let is_ours = flowop.kind == Kind::Accept;
        if is_ours && !permissions.allows_port_of(&anywhere(protocol, port)) {
            return Some(format!(
                "port={port}: it needs a privilege (--allow-privileged-ports)"
            ));
        }
        None
    })
}

fn anywhere(protocol: Protocol, port: u32) -> Address {
    match protocol {
        Protocol::Vsock => Address::Vsock {
            context: Address::ANY_CONTEXT,
            port,
        },
        Protocol::Unix => Address::Unix("".into()),
        _ => Address::Inet((std::net::Ipv4Addr::UNSPECIFIED, port as u16).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, Transaction};

    fn group(kind: Kind, change: fn(&mut Flowop)) -> Group {
        let mut flowop = Flowop::new(kind);
        flowop.endpoint.protocol = Some(Protocol::Tcp);
        change(&mut flowop);
        Group {
            transactions: vec![Transaction {
                flowops: vec![flowop],
                ..Transaction::default()
            }],
            ..Group::default()
        }
    }

    #[test]
    fn what_takes_a_permission_is_refused_without() {
        let nothing = Permissions::default();
        let all = Permissions {
            modules: true,
            privileged_ports: true,
        };
        for (kind, change, refused) in [
            (Kind::Accept, (|_| ()) as fn(&mut Flowop), None),
            (
                Kind::Accept,
                |flowop| flowop.endpoint.port = 443,
                Some("port=443: "),
            ),
            (Kind::Connect, |flowop| flowop.endpoint.port = 443, None),
            (Kind::Accept, |flowop| flowop.endpoint.port = 50_000, None),
            (
                Kind::Connect,
                |flowop| flowop.endpoint.congestion_control = "no-such-one".to_owned(),
                Some("cc=no-such-one: "),
            ),
            (
                Kind::Accept,
                |flowop| flowop.endpoint.congestion_control = "no-such-one".to_owned(),
                Some("cc=no-such-one: "),
            ),
        ] {
            let group = group(kind, change);
            let why = refusal(nothing, &group);
            let begins =
                refused.map(|refused| why.as_ref().is_some_and(|why| why.starts_with(refused)));
            assert!(begins.unwrap_or(why.is_none()), "{why:?}");
            assert_eq!(refusal(all, &group), None);
        }
    }
}
