//! The values of the selectors *_SECURITY_*. In the stock tool, the numbers are 0.

use model::HostFacts;

use super::{ABSENT, DEPRECATED, UNKNOWN};

/// The values of the security selectors of one host.
#[derive(Debug, PartialEq)]
pub(super) struct SecurityValues<'a> {
    /// The number of the module; 0 is none or not reported, −1 is unknown.
    pub(super) type_id: i32,
    pub(super) type_name: &'static str,
    /// 1 if the module enforces its policy. 0 if it only logs, if there is none, or if the peer
    /// does not report it. −1 is unknown.
    pub(super) enabled_number: i32,
    pub(super) enabled: &'static str,
    /// The policy, or this process's label or profile in it.
    pub(super) specific: &'a str,
}

/// Returns the values for a host; `None` is a stock peer, which does not report its host.
pub(super) fn for_host(host: Option<&HostFacts>) -> SecurityValues<'_> {
    let values = |type_id, type_name, enabled_number, enabled, specific| SecurityValues {
        type_id,
        type_name,
        enabled_number,
        enabled,
        specific,
    };
    let Some(host) = host else {
        return values(0, DEPRECATED, 0, DEPRECATED, DEPRECATED);
    };
    let Some(security) = &host.security else {
        return values(-1, UNKNOWN, -1, UNKNOWN, UNKNOWN);
    };
    let Some(module) = security.module else {
        return values(0, ABSENT, 0, "Disabled", ABSENT);
    };
    let (number, enabled) = match security.enforcing {
        Some(true) => (1, "Enforcing"),
        Some(false) => (0, "Permissive"),
        None => (-1, UNKNOWN),
    };
    let specific = security.policy.as_deref().unwrap_or(UNKNOWN);
    values(
        module.number().into(),
        module.name(),
        number,
        enabled,
        specific,
    )
}

#[cfg(test)]
mod tests {
    use model::{Security, SecurityModule};

    use super::*;

    #[test]
    fn values_depend_on_module_and_mode() {
        let security_of = |module, enforcing, policy: Option<&str>| {
            Some(Security {
                module,
                enforcing,
                policy: policy.map(str::to_owned),
            })
        };
        for (security, expected) in [
            (None, (-1, "Unknown", -1, "Unknown", "Unknown")),
            (
                security_of(None, None, None),
                (0, "None", 0, "Disabled", "None"),
            ),
            (
                security_of(Some(SecurityModule::SeLinux), Some(true), Some("targeted")),
                (1, "SELinux", 1, "Enforcing", "targeted"),
            ),
            (
                security_of(
                    Some(SecurityModule::AppArmor),
                    Some(false),
                    Some("unconfined"),
                ),
                (2, "AppArmor", 0, "Permissive", "unconfined"),
            ),
            (
                security_of(Some(SecurityModule::Smack), None, Some("_")),
                (3, "Smack", -1, "Unknown", "_"),
            ),
        ] {
            let host = HostFacts {
                security,
                ..HostFacts::default()
            };
            assert_eq!(values_for(Some(&host)), expected);
        }
        let stock = (0, "Deprecated", 0, "Deprecated", "Deprecated");
        assert_eq!(values_for(None), stock);
    }

    fn values_for(host: Option<&HostFacts>) -> (i32, &str, i32, &str, &str) {
        let values = for_host(host);
        let (id, name) = (values.type_id, values.type_name);
        (
            id,
            name,
            values.enabled_number,
            values.enabled,
            values.specific,
        )
    }
}
