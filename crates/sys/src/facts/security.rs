//! Which security module confines programs here, and how.

use super::read_line;

/// What the kernel says of mandatory access control.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityFacts {
    /// "selinux", "apparmor", "smack" or "tomoyo"; `None` when none of them runs.
    pub module: Option<&'static str>,
    /// Whether it forbids, or only logs; `None` where it does not say.
    pub enforcing: Option<bool>,
    /// SELinux: the policy's name. Others: the profile or label of this process.
    pub policy: Option<String>,
}

/// The first module that confines programs; `None` when it cannot be told whether there is one.
pub fn security() -> Option<SecurityFacts> {
    facts(&|path| read_line(path))
}

/// The modules that have a policy on who may do what; the others restrict single things.
const MODULES: [&str; 4] = ["selinux", "apparmor", "smack", "tomoyo"];

fn facts(read: &dyn Fn(&str) -> Option<String>) -> Option<SecurityFacts> {
    let enforce = read("/sys/fs/selinux/enforce");
    let apparmor = read("/sys/module/apparmor/parameters/enabled");
    let module = if let Some(active) = read("/sys/kernel/security/lsm") {
        // In the order in which they are asked.
        active
            .split(',')
            .find_map(|name| MODULES.into_iter().find(|module| *module == name))
    } else if enforce.is_some() {
        // Without securityfs (in a container, say) the modules' own files remain.
        Some("selinux")
    } else if apparmor.as_deref() == Some("Y") {
        Some("apparmor")
    } else {
        return None;
    };
    let profile = || read("/proc/self/attr/current");
    let (enforcing, policy) = match module {
        Some("selinux") => (
            enforce.map(|word| word == "1"),
            read("/etc/selinux/config").and_then(|text| {
                let kind = |line: &str| line.trim().strip_prefix("SELINUXTYPE=").map(str::to_owned);
                text.lines().find_map(kind)
            }),
        ),
        Some("apparmor") => (
            read("/sys/module/apparmor/parameters/mode").map(|mode| mode != "complain"),
            read("/proc/self/attr/apparmor/current").or_else(profile),
        ),
        Some(_) => (None, profile()),
        None => (None, None),
    };
    Some(SecurityFacts {
        module,
        enforcing,
        policy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        const LSM: &str = "/sys/kernel/security/lsm";
        type Files = &'static [(&'static str, &'static str)];
        let cases: [(Files, Option<SecurityFacts>); 7] = [
            (
                &[
                    (LSM, "lockdown,capability,landlock,yama,apparmor"),
                    ("/sys/module/apparmor/parameters/enabled", "Y"),
                    ("/sys/module/apparmor/parameters/mode", "enforce"),
                    ("/proc/self/attr/apparmor/current", "unconfined"),
                ],
                Some(found("apparmor", Some(true), Some("unconfined"))),
            ),
            (
                &[
                    ("/sys/module/apparmor/parameters/enabled", "Y"),
                    ("/sys/module/apparmor/parameters/mode", "complain"),
                    ("/proc/self/attr/current", "netperf (complain)"),
                ],
                Some(found("apparmor", Some(false), Some("netperf (complain)"))),
            ),
            (
                &[
                    (LSM, "lockdown,capability,yama,selinux,bpf"),
                    ("/sys/fs/selinux/enforce", "0"),
                    (
                        "/etc/selinux/config",
                        "# a comment\nSELINUX=permissive\nSELINUXTYPE=targeted",
                    ),
                ],
                Some(found("selinux", Some(false), Some("targeted"))),
            ),
            (
                &[("/sys/fs/selinux/enforce", "1")],
                Some(found("selinux", Some(true), None)),
            ),
            (
                &[(LSM, "capability,smack"), ("/proc/self/attr/current", "_")],
                Some(found("smack", None, Some("_"))),
            ),
            (
                &[(LSM, "capability,landlock,yama,bpf")],
                Some(SecurityFacts::default()),
            ),
            (&[("/sys/module/apparmor/parameters/enabled", "N")], None),
        ];
        for (files, expected) in cases {
            let read = |path: &str| {
                let file = files.iter().find(|(name, _)| *name == path);
                file.map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(facts(&read), expected, "{files:?}");
        }
    }

    fn found(module: &'static str, enforcing: Option<bool>, policy: Option<&str>) -> SecurityFacts {
        SecurityFacts {
            module: Some(module),
            enforcing,
            policy: policy.map(str::to_owned),
        }
    }
}
