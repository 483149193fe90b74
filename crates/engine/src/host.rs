//! Facts of this host.

use std::fmt::Write as _;
use std::net::IpAddr;

use model::{HostFacts, Security, SecurityModule};
use sys::facts as host;

/// Returns the facts of this host. The MTU is that of the interface with the address `local`.
pub fn host_facts(local: Option<IpAddr>) -> HostFacts {
    let uname = host::uname();
    HostFacts {
        kernel: Some(format!("{} {}", uname.sysname, uname.release)),
        kernel_version: Some(uname.version),
        machine: Some(uname.machine),
        cpus: Some(sys::cpu::online_count()),
        cpu_model: host::cpu_model(),
        cpu_mhz: host::cpu_mhz(),
        system_model: host::system_model(),
        security: host::security().map(|security| Security {
            module: security.module.and_then(security_module),
            enforcing: security.is_enforcing,
            policy: security.policy,
        }),
        mtu_bytes: local.and_then(host::mtu_bytes),
        congestion_control: host::congestion_control(),
        virtual_guest: host::is_virtual_guest(),
        boot_id: host::boot_id().map(|id| {
            id.iter().fold(String::with_capacity(32), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        }),
    }
}

fn security_module(name: &str) -> Option<SecurityModule> {
    Some(match name {
        "selinux" => SecurityModule::SeLinux,
        "apparmor" => SecurityModule::AppArmor,
        "smack" => SecurityModule::Smack,
        "tomoyo" => SecurityModule::Tomoyo,
        _ => return None,
    })
}
