//! What is known of this host, and of those of the slaves.

use model::{CombinedTotals, HostFacts, PeerOutcome};

use super::LINERATE;
use super::connect::Slave;
use crate::output::html::Host;

/// This host first, then each slave's once.
pub(super) fn hosts(here: &HostFacts, slaves: &[Slave]) -> Vec<Host> {
    let mut hosts = vec![Host {
        name: "master".to_owned(),
        facts: facts(here),
    }];
    for slave in slaves {
        if hosts.iter().all(|host| host.name != slave.host) {
            hosts.push(Host {
                name: slave.host.clone(),
                facts: told(slave),
            });
        }
    }
    hosts
}

/// Whether a slave runs on this machine.
pub(super) fn are_shared(slaves: &[Slave]) -> bool {
    slaves.iter().any(is_here)
}

/// The doubt about a result of a slave that runs on this machine.
pub const SHARED_HOST: &str = "both ends run on one machine and share its CPUs";

/// What a slave reported, and what it is.
pub(super) fn peer(
    slave: &Slave,
    said: Option<String>,
    totals: Option<CombinedTotals>,
) -> PeerOutcome {
    let form = || format!("flowops of {} bytes", slave.layout.record_len());
    PeerOutcome {
        host: slave.host.clone(),
        address: Some(slave.control.peer().to_string()),
        is_local: is_here(slave),
        program: Some(if slave.is_ours { LINERATE } else { "uperf" }),
        form: (!slave.is_ours).then(form),
        group: Some(slave.group),
        totals,
        side: None,
        message: said,
    }
}

fn facts(host: &HostFacts) -> Vec<(String, String)> {
    let cpus = host.cpus.map(|cpus| match &host.cpu_model {
        Some(model) => format!("{cpus} × {model}"),
        None => cpus.to_string(),
    });
    let guest = |is_guest: bool| if is_guest { "virtual" } else { "not virtual" };
    let all = [
        ("kernel", host.kernel.clone()),
        ("its build", host.kernel_version.clone()),
        ("machine", host.machine.clone()),
        ("model", host.system_model.clone()),
        ("CPUs", cpus),
        ("CPU's clock", host.cpu_mhz.map(|mhz| format!("{mhz} MHz"))),
        (
            "machine is",
            host.virtual_guest.map(|is| guest(is).to_owned()),
        ),
        (
            "MTU to the first slave",
            host.mtu_bytes.map(|bytes| format!("{bytes} bytes")),
        ),
        ("congestion control", host.congestion_control.clone()),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// uperf's protocol has no words for more.
fn told(slave: &Slave) -> Vec<(String, String)> {
    let program = if slave.is_ours {
        "linerate".to_owned()
    } else {
        let bytes = slave.layout.record_len();
        format!("a stock uperf, whose flowops have {bytes} bytes")
    };
    let others = if is_here(slave) {
        "this host is the master's, too"
    } else {
        "not told: uperf's protocol has no words for them"
    };
    [
        ("address", slave.control.peer().to_string()),
        ("program", program),
        ("kernel, CPUs and interfaces", others.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A host comes to its own addresses from themselves. Asking the kernel for all addresses could take long:
/// it waits for whoever makes or removes an interface.
fn is_here(slave: &Slave) -> bool {
    let Some(there) = slave.control.peer().ip() else {
        return false;
    };
    let here = slave.control.here().and_then(|here| here.ip());
    there.to_canonical().is_loopback() || here == Some(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_line() {
        let host = HostFacts {
            cpus: Some(2),
            cpu_model: Some("a make".to_owned()),
            virtual_guest: Some(true),
            ..HostFacts::default()
        };
        let facts = facts(&host);
        let lines: Vec<_> = facts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(lines, [("CPUs", "2 × a make"), ("machine is", "virtual")]);
    }
}
