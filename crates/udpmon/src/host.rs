//! The activity of this host during a test: CPU time, interfaces, protocols, and one interface's
//! driver counters.

use std::time::Instant;

use codec::Text;
use sys::cpu::{self, CpuTicks};
use sys::interface::{self, Link, Traffic};
use sys::kernel_file::read_text;

use crate::result::HostActivity;
use crate::wire::{
    CpuLoad, HostCounters, InterfaceCounters, KernelTexts, MAX_INTERFACES, NicCounters, UNAVAILABLE,
};

/// A snapshot of the host's counters. The difference of two snapshots shows the host's activity.
#[derive(Debug)]
pub(crate) struct HostMeter {
    started: Instant,
    cpus: Vec<(u32, CpuTicks)>,
    interfaces: Vec<(String, Traffic)>,
    protocols: HostCounters,
    /// The name of the interface whose hardware counters are requested, and the interface.
    nic: Option<(String, Option<Link>)>,
    is_v6: bool,
}

impl HostMeter {
    /// Reads the counters, and the hardware counters of `interface`.
    pub(crate) fn start(interface: Option<&str>, is_v6: bool) -> Self {
        Self {
            started: Instant::now(),
            cpus: cpu::read_ticks().unwrap_or_default(),
            interfaces: interface::all_traffic().unwrap_or_default(),
            protocols: read_protocols(),
            nic: interface.map(|name| (name.to_owned(), find_link(name))),
            is_v6,
        }
    }

    /// Returns the difference to the counters at the start. Counters that did not move are
    /// unavailable if this host has sent or received datagrams since then (`has_datagrams`).
    pub(crate) fn since_start(&self, has_datagrams: bool) -> HostActivity {
        let ticks = cpu::read_ticks().unwrap_or_default();
        let elapsed = cpu::elapsed_ticks(&self.cpus, &ticks, self.started.elapsed());
        let interfaces = interface::all_traffic().unwrap_or_default();
        let counters = HostCounters {
            interfaces: (interfaces.iter())
                .filter_map(|(name, traffic)| self.interface_counters(name, traffic))
                .take(MAX_INTERFACES)
                .collect(),
            ..read_protocols().since(&self.protocols, self.is_v6)
        };
        HostActivity {
            cpus: cpu_loads(&elapsed),
            counters: if has_datagrams {
                counters.without_frozen()
            } else {
                counters
            },
            nic: self
                .nic
                .as_ref()
                .map_or_else(NicCounters::default, nic_counters_since),
        }
    }

    /// Returns the counters of an interface since the start, as in /proc/net/dev; `None` if they are
    /// unavailable or ran backwards. A new interface counts from zero.
    fn interface_counters(&self, name: &str, traffic: &Traffic) -> Option<InterfaceCounters> {
        let traffic = match self.interfaces.iter().find(|(other, _)| other == name) {
            Some((_, before)) => traffic.since(before)?,
            None if self.interfaces.is_empty() => return None,
            None => *traffic,
        };
        let values = [
            traffic.received_packets,
            traffic.received_bytes,
            traffic.receive_errors,
            traffic.receive_drops,
            traffic.sent_packets,
            traffic.sent_bytes,
            traffic.send_errors,
            traffic.send_drops,
        ];
        Some(InterfaceCounters {
            name: Text::truncated(name),
            values: values.map(|value| value as i64),
        })
    }
}

fn find_link(name: &str) -> Option<Link> {
    interface::link(interface::index_by_name(name).ok()?).ok()
}

/// Returns the increase of the counters that all drivers have, in the order of
/// [`NicCounters::NAMES`]. Without the interface, there are no values.
fn nic_counters_since((name, before): &(String, Option<Link>)) -> NicCounters {
    let mut counters = NicCounters {
        name: Text::truncated(name),
        ..NicCounters::default()
    };
    let Some(after) = find_link(name) else {
        return counters;
    };
    counters.count = NicCounters::NAMES.len() as u32;
    counters.values[..NicCounters::NAMES.len()].fill(UNAVAILABLE);
    let before = before.as_ref().filter(|before| before.index == after.index);
    let mut set = |index: usize, value: Option<u64>| {
        counters.values[index] = value.map_or(UNAVAILABLE, |value| value as i64);
    };
    let traffic = before.and_then(|before| after.traffic?.since(&before.traffic?));
    set(0, traffic.map(|traffic| traffic.received_packets));
    set(1, traffic.map(|traffic| traffic.sent_packets));
    let errors = before.and_then(|before| before.hardware_errors.zip(after.hardware_errors));
    set(
        7,
        errors.and_then(|(before, after)| after.checksum.checked_sub(before.checksum)),
    );
    set(
        8,
        errors.and_then(|(before, after)| after.missed.checked_sub(before.missed)),
    );
    counters
}

/// Reads the counters of the protocols, which only files report.
fn read_protocols() -> HostCounters {
    let read = |path| read_text(path).unwrap_or_default();
    let texts = KernelTexts {
        interfaces: "",
        protocols: &read("/proc/thread-self/net/snmp"),
        protocols6: &read("/proc/thread-self/net/snmp6"),
    };
    texts.parse()
}

/// Returns the load of all CPUs together, then of each CPU. If /proc/stat is unusable, the list is
/// empty.
fn cpu_loads(elapsed: &[(u32, CpuTicks)]) -> Vec<CpuLoad> {
    if elapsed.is_empty() {
        return Vec::new();
    }
    let per_cpu = || elapsed.iter().map(|(_, ticks)| ticks);
    let sum = |field: fn(&CpuTicks) -> u64| per_cpu().map(field).sum();
    let total = CpuTicks {
        user: sum(|ticks| ticks.user),
        nice: sum(|ticks| ticks.nice),
        system: sum(|ticks| ticks.system),
        idle: sum(|ticks| ticks.idle),
        iowait: sum(|ticks| ticks.iowait),
        irq: sum(|ticks| ticks.irq),
        softirq: sum(|ticks| ticks.softirq),
        steal: 0,
    };
    std::iter::once(&total)
        .chain(per_cpu())
        .map(cpu_load)
        .collect()
}

/// Returns the shares of CPU time in whole per cent. Stolen time does not count.
fn cpu_load(ticks: &CpuTicks) -> CpuLoad {
    let system = ticks.system + ticks.iowait + ticks.irq + ticks.softirq;
    let total = (ticks.user + ticks.nice + system + ticks.idle).max(1);
    let share = |ticks: u64| 100 * ticks / total;
    CpuLoad {
        user: share(ticks.user),
        nice: share(ticks.nice),
        system: share(system),
        idle: share(ticks.idle),
        iowait: share(ticks.iowait),
        irq: share(ticks.irq),
        softirq: share(ticks.softirq),
        kernel: share(ticks.system),
        count: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_percentages_without_stolen_time() {
        let ticks = |user, system, softirq, idle| CpuTicks {
            user,
            system,
            softirq,
            idle,
            steal: 100,
            ..CpuTicks::default()
        };
        let loads = cpu_loads(&[(0, ticks(10, 20, 5, 65)), (1, ticks(0, 0, 0, 100))]);
        let shares =
            |load: &CpuLoad| [load.user, load.system, load.kernel, load.softirq, load.idle];
        let shares: Vec<_> = loads.iter().map(shares).collect();
        assert_eq!(
            shares,
            [[5, 12, 10, 2, 82], [10, 25, 20, 5, 65], [0, 0, 0, 0, 100]]
        );
    }

    #[test]
    fn without_ticks_there_are_no_loads() {
        assert!(cpu_loads(&[]).is_empty());
    }

    #[test]
    fn a_datagram_over_loopback_is_counted() {
        let meter = HostMeter::start(Some("lo"), false);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .send_to(&[0; 9], socket.local_addr().unwrap())
            .unwrap();
        let activity = meter.since_start(true);
        let lo = activity
            .counters
            .interfaces
            .iter()
            .find(|interface| interface.name == *"lo");
        assert!(lo.unwrap().values[0] >= 1);
        assert!(activity.counters.protocols.udp_out_datagrams >= 1);
        assert!(activity.nic.values().next().unwrap().unwrap() >= 1);
        assert!(activity.cpus.len() >= 2);
        let unknown_interface = HostMeter::start(Some("no-such-interface"), false);
        assert_eq!(unknown_interface.since_start(true).nic.values().count(), 0);
    }

    #[test]
    fn interfaces_without_counters_are_unavailable() {
        let mut meter = HostMeter::start(Some("lo"), false);
        meter.interfaces.clear();
        let (_, link) = meter.nic.as_mut().unwrap();
        link.as_mut().unwrap().traffic = None;
        let activity = meter.since_start(true);
        assert_eq!(activity.counters.interfaces, []);
        let nic: Vec<_> = activity.nic.values().collect();
        assert_eq!(nic[..7], [None; 7]);
        assert!(nic[7].is_some() && nic[8].is_some());
    }
}
