//! The words and numbers of the selectors *_SECURITY_*. The stock tool's numbers are 0.

use model::{HostFacts, Security, SecurityModule};

use super::{DEPRECATED, NONE_THERE, UNKNOWN};

/// What is known: of a stock peer nothing, of a host perhaps nothing either.
enum Known<'a> {
    NotTold,
    Unknown,
    Facts(&'a Security),
}

fn known(host: Option<&HostFacts>) -> Known<'_> {
    match host {
        None => Known::NotTold,
        Some(host) => host.security.as_ref().map_or(Known::Unknown, Known::Facts),
    }
}

/// 0 none or not told, −1 unknown, else the module's number.
pub(super) fn type_id(host: Option<&HostFacts>) -> i32 {
    match known(host) {
        Known::NotTold => 0,
        Known::Unknown => -1,
        Known::Facts(security) => security.module.map_or(0, |module| module.number().into()),
    }
}

pub(super) fn type_name(host: Option<&HostFacts>) -> &'static str {
    match known(host) {
        Known::NotTold => DEPRECATED,
        Known::Unknown => UNKNOWN,
        Known::Facts(security) => security.module.map_or(NONE_THERE, SecurityModule::name),
    }
}

/// 1 when it forbids, 0 when it only logs, when there is none, or when the peer does not tell; −1
/// unknown.
pub(super) fn enabled_number(host: Option<&HostFacts>) -> i32 {
    match known(host) {
        Known::NotTold | Known::Facts(Security { module: None, .. }) => 0,
        Known::Unknown => -1,
        Known::Facts(security) => security.enforcing.map_or(-1, i32::from),
    }
}

pub(super) fn enabled(host: Option<&HostFacts>) -> &'static str {
    match known(host) {
        Known::NotTold => DEPRECATED,
        Known::Facts(Security { module: None, .. }) => "Disabled",
        Known::Facts(Security {
            enforcing: Some(true),
            ..
        }) => "Enforcing",
        Known::Facts(Security {
            enforcing: Some(false),
            ..
        }) => "Permissive",
        Known::Unknown | Known::Facts(_) => UNKNOWN,
    }
}

/// The policy, or what it makes of this process.
pub(super) fn specific(host: Option<&HostFacts>) -> &str {
    match known(host) {
        Known::NotTold => DEPRECATED,
        Known::Facts(Security { module: None, .. }) => NONE_THERE,
        Known::Unknown => UNKNOWN,
        Known::Facts(security) => security.policy.as_deref().unwrap_or(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
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
        (
            type_id(host),
            type_name(host),
            enabled_number(host),
            enabled(host),
            specific(host),
        )
    }
}
