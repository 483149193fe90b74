//! The words and numbers of the selectors *_SECURITY_*. The stock tool's numbers are 0.

use model::HostFacts;

use super::{DEPRECATED, NONE_THERE, UNKNOWN};

/// What the selectors of one end print.
#[derive(Debug, PartialEq)]
pub(super) struct Words<'a> {
    /// 0 none or not reported, −1 unknown, else the module's number.
    pub(super) type_id: i32,
    pub(super) type_name: &'static str,
    /// 1 when it forbids, 0 when it only logs, when there is none, or when the peer does not tell; −1
    /// unknown.
    pub(super) enabled_number: i32,
    pub(super) enabled: &'static str,
    /// The policy, or what it makes of this process.
    pub(super) specific: &'a str,
}

/// What is known: of a stock peer nothing, of a host perhaps nothing either.
pub(super) fn of(host: Option<&HostFacts>) -> Words<'_> {
    let words = |type_id, type_name, enabled_number, enabled, specific| Words {
        type_id,
        type_name,
        enabled_number,
        enabled,
        specific,
    };
    let Some(host) = host else {
        return words(0, DEPRECATED, 0, DEPRECATED, DEPRECATED);
    };
    let Some(security) = &host.security else {
        return words(-1, UNKNOWN, -1, UNKNOWN, UNKNOWN);
    };
    let Some(module) = security.module else {
        return words(0, NONE_THERE, 0, "Disabled", NONE_THERE);
    };
    let (number, enabled) = match security.enforcing {
        Some(true) => (1, "Enforcing"),
        Some(false) => (0, "Permissive"),
        None => (-1, UNKNOWN),
    };
    let specific = security.policy.as_deref().unwrap_or(UNKNOWN);
    words(
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
    fn words_and_numbers() {
        let some = |module, enforcing, policy: Option<&str>| {
            Some(Security {
                module,
                enforcing,
                policy: policy.map(str::to_owned),
            })
        };
        for (security, expected) in [
            (None, (-1, "Unknown", -1, "Unknown", "Unknown")),
            (some(None, None, None), (0, "None", 0, "Disabled", "None")),
            (
                some(Some(SecurityModule::SeLinux), Some(true), Some("targeted")),
                (1, "SELinux", 1, "Enforcing", "targeted"),
            ),
            (
                some(
                    Some(SecurityModule::AppArmor),
                    Some(false),
                    Some("unconfined"),
                ),
                (2, "AppArmor", 0, "Permissive", "unconfined"),
            ),
            (
                some(Some(SecurityModule::Smack), None, Some("_")),
                (3, "Smack", -1, "Unknown", "_"),
            ),
        ] {
            let host = HostFacts {
                security,
                ..HostFacts::default()
            };
            assert_eq!(all(Some(&host)), expected);
        }
        let stock = (0, "Deprecated", 0, "Deprecated", "Deprecated");
        assert_eq!(all(None), stock);
    }

    fn all(host: Option<&HostFacts>) -> (i32, &str, i32, &str, &str) {
        let of = of(host);
        let (id, name) = (of.type_id, of.type_name);
        (id, name, of.enabled_number, of.enabled, of.specific)
    }
}
