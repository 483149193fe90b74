//! Permissions of a group on this host: kernel modules and privileged ports.

use server::Permissions;

use crate::strand::{any_address, transport};
use crate::{DataProtocol, FlowopKind, GroupSpec};

/// Whether the permissions allow sockets of a protocol.
pub(super) fn allows(permissions: Permissions, protocol: DataProtocol) -> bool {
    let wildcard = any_address(protocol, 0);
    transport(protocol).is_none_or(|transport| permissions.allows_transport(transport, &wildcard))
}

/// Returns the reason to refuse a group, if any.
pub(super) fn refusal_reason(permissions: Permissions, group: &GroupSpec) -> Option<String> {
    group.opening_flowops().find_map(|flowop| {
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
        let is_accept = flowop.kind == FlowopKind::Accept;
        if is_accept && !permissions.allows_port(&any_address(protocol, port)) {
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
    fn unpermitted_options_are_refused() {
        let none_allowed = Permissions::default();
        let all_allowed = Permissions {
            allows_modules: true,
            allows_privileged_ports: true,
        };
        for (kind, port, name, refused) in [
            (FlowopKind::Accept, 0, "", None),
            (FlowopKind::Accept, 443, "", Some("port=443")),
            (FlowopKind::Connect, 443, "", None),
            (FlowopKind::Accept, 50_000, "", None),
            (
                FlowopKind::Connect,
                0,
                "no-such-one",
                Some("cc=no-such-one"),
            ),
            (FlowopKind::Accept, 0, "no-such-one", Some("cc=no-such-one")),
        ] {
            let mut flowop = Flowop::with_protocol(kind, DataProtocol::Tcp);
            flowop.endpoint.port = port;
            name.clone_into(&mut flowop.endpoint.congestion_control);
            let group = GroupSpec::with_flowops([flowop]);
            let reason = refusal_reason(none_allowed, &group);
            let option = reason.as_ref().and_then(|reason| reason.split(": ").next());
            assert_eq!(option, refused);
            assert_eq!(refusal_reason(all_allowed, &group), None);
        }
    }
}
