//! The Linux security module that confines programs, and its mode.

use crate::kernel_file::read_line;

/// Mandatory access control as reported by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityFacts {
    /// "selinux", "apparmor", "smack" or "tomoyo"; `None` if none of them is active.
    pub module: Option<&'static str>,
    /// Whether the module enforces its policy; false if it only logs. `None` if unknown.
    pub is_enforcing: Option<bool>,
    /// The policy's name (SELinux), or the profile or label of this process (other modules).
    pub policy: Option<String>,
}

/// Returns the first active module that confines programs; `None` if the kernel reports no modules.
pub fn security() -> Option<SecurityFacts> {
    detect(&|path| read_line(path))
}

/// Modules with a system-wide policy. Other modules restrict single operations.
const MODULES: [&str; 4] = ["selinux", "apparmor", "smack", "tomoyo"];

fn detect(read: &dyn Fn(&str) -> Option<String>) -> Option<SecurityFacts> {
    let enforce = read("/sys/fs/selinux/enforce").and_then(|word| mode(&word, "1", "0"));
    let apparmor = read("/sys/module/apparmor/parameters/enabled");
    // Each kernel has the module `capability`. Without it, the file is masked.
    let active = read("/sys/kernel/security/lsm")
        .filter(|active| active.split(',').any(|name| name == "capability"));
    let module = if let Some(active) = active {
        // The kernel calls the modules in this order.
        active
            .split(',')
            .find_map(|name| MODULES.into_iter().find(|module| *module == name))
    } else if enforce.is_some() {
        // Without securityfs, as in a container, the modules' own files remain.
        Some("selinux")
    } else if apparmor.as_deref() == Some("Y") {
        Some("apparmor")
    } else {
        return None;
    };
    let profile = || read("/proc/self/attr/current");
    let (is_enforcing, policy) = match module {
        Some("selinux") => (
            enforce,
            read("/etc/selinux/config").and_then(|text| {
                let kind = |line: &str| line.trim().strip_prefix("SELINUXTYPE=").map(str::to_owned);
                text.lines().find_map(kind)
            }),
        ),
        Some("apparmor") => (
            read("/sys/module/apparmor/parameters/mode").and_then(|word| {
                mode(&word, "enforce", "complain").or_else(|| mode(&word, "kill", "unconfined"))
            }),
            read("/proc/self/attr/apparmor/current").or_else(profile),
        ),
        Some(_) => (None, profile()),
        None => (None, None),
    };
    Some(SecurityFacts {
        module,
        is_enforcing,
        policy,
    })
}

/// Returns whether a module enforces its policy, from the words for both modes.
fn mode(word: &str, enforcing: &str, permissive: &str) -> Option<bool> {
    match word {
        word if word == enforcing => Some(true),
        word if word == permissive => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_module_and_mode_are_detected() {
        const LSM: &str = "/sys/kernel/security/lsm";
        type Files = &'static [(&'static str, &'static str)];
        let cases: [(Files, Option<SecurityFacts>); 10] = [
            (
                &[
                    (LSM, "lockdown,capability,landlock,yama,apparmor"),
                    ("/sys/module/apparmor/parameters/enabled", "Y"),
                    ("/sys/module/apparmor/parameters/mode", "enforce"),
                    ("/proc/self/attr/apparmor/current", "unconfined"),
                ],
                Some(module_facts("apparmor", Some(true), Some("unconfined"))),
            ),
            (
                &[
                    ("/sys/module/apparmor/parameters/enabled", "Y"),
                    ("/sys/module/apparmor/parameters/mode", "complain"),
                    ("/proc/self/attr/current", "netperf (complain)"),
                ],
                Some(module_facts(
                    "apparmor",
                    Some(false),
                    Some("netperf (complain)"),
                )),
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
                Some(module_facts("selinux", Some(false), Some("targeted"))),
            ),
            (
                &[("/sys/fs/selinux/enforce", "1")],
                Some(module_facts("selinux", Some(true), None)),
            ),
            (
                &[(LSM, "capability,smack"), ("/proc/self/attr/current", "_")],
                Some(module_facts("smack", None, Some("_"))),
            ),
            (
                &[(LSM, "capability,landlock,yama,bpf")],
                Some(SecurityFacts::default()),
            ),
            (&[("/sys/module/apparmor/parameters/enabled", "N")], None),
            // Masked files.
            (&[(LSM, "0")], None),
            (&[(LSM, ""), ("/sys/fs/selinux/enforce", "x")], None),
            (
                &[
                    (LSM, "capability,apparmor"),
                    ("/sys/module/apparmor/parameters/mode", "0"),
                ],
                Some(module_facts("apparmor", None, None)),
            ),
        ];
        for (files, expected) in cases {
            let read = |path: &str| {
                let file = files.iter().find(|(name, _)| *name == path);
                file.map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(detect(&read), expected, "{files:?}");
        }
    }

    fn module_facts(
        module: &'static str,
        is_enforcing: Option<bool>,
        policy: Option<&str>,
    ) -> SecurityFacts {
        SecurityFacts {
            module: Some(module),
            is_enforcing,
            policy: policy.map(str::to_owned),
        }
    }
}
