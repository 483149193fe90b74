use std::fmt::Write as _;
use std::net::IpAddr;

use model::HostFacts;
use sys::facts as host;

/// This host; the MTU is that of the interface with `local`.
pub fn facts(local: Option<IpAddr>) -> HostFacts {
    let (kernel, machine) = host::kernel();
    HostFacts {
        kernel: Some(kernel),
        machine: Some(machine),
        cpus: Some(sys::cpu::online()),
        cpu_model: host::cpu_model(),
        mtu_bytes: local.and_then(host::mtu_of),
        congestion_control: host::congestion_control(),
        virtual_guest: host::virtual_guest(),
        boot_id: host::boot_id().map(|id| {
            id.iter().fold(String::with_capacity(32), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        }),
    }
}
