//! What a group may change on this host.

use server::Permissions;

use crate::strand::{anywhere, transport};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flowop;

    #[test]
    fn what_takes_a_permission_is_refused_without() {
        let nothing = Permissions::default();
        let all = Permissions {
            modules: true,
            privileged_ports: true,
        };
        for (kind, port, name, refused) in [
            (Kind::Accept, 0, "", None),
            (Kind::Accept, 443, "", Some("port=443")),
            (Kind::Connect, 443, "", None),
            (Kind::Accept, 50_000, "", None),
            (Kind::Connect, 0, "no-such-one", Some("cc=no-such-one")),
            (Kind::Accept, 0, "no-such-one", Some("cc=no-such-one")),
        ] {
            let mut flowop = Flowop::opening(kind, Protocol::Tcp);
            flowop.endpoint.port = port;
            name.clone_into(&mut flowop.endpoint.congestion_control);
            let group = Group::of([flowop]);
            let why = refusal(nothing, &group);
            let option = why.as_ref().and_then(|why| why.split(": ").next());
            assert_eq!(option, refused);
            assert_eq!(refusal(all, &group), None);
        }
    }
}
