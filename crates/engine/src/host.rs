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

/// Whether two ends run on one host; `None` when one of them did not say who it is.
pub fn same_host(here: &HostFacts, there: &HostFacts) -> Option<bool> {
    Some(here.boot_id.as_ref()? == there.boot_id.as_ref()?)
}
