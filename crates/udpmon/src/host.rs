//! The activity of this host during a test: CPU time, interfaces, protocols, and one interface's
//! driver counters.

use std::fs;
use std::path::Path;

use codec::Text;
use sys::cpu::{self, CpuTicks};

use crate::result::HostActivity;
use crate::wire::{CpuLoad, HostCounters, KernelTexts, NicCounters};

/// A snapshot of the host's counters. The difference of two snapshots shows the host's activity.
#[derive(Debug)]
pub(crate) struct HostMeter {
    cpus: Vec<(u32, CpuTicks)>,
    counters: HostCounters,
    /// The interface of the driver counters, and their values.
    nic: Option<(String, [Option<i64>; NicCounters::NAMES.len()])>,
    is_v6: bool,
}

impl HostMeter {
    /// Reads the counters, and the driver counters of `interface`.
    pub(crate) fn start(interface: Option<&str>, is_v6: bool) -> Self {
        Self {
            cpus: cpu::read_ticks().unwrap_or_default(),
            counters: read_counters(),
            nic: interface.map(|name| (name.to_owned(), read_nic_counters(name))),
            is_v6,
        }
    }

    /// Returns the difference to the counters at the start.
    pub(crate) fn since_start(&self) -> HostActivity {
        HostActivity {
            cpus: cpu_loads(&self.cpus, &cpu::read_ticks().unwrap_or_default()),
            counters: read_counters().since(&self.counters, self.is_v6),
            nic: self
                .nic
                .as_ref()
                .map_or_else(NicCounters::default, nic_counters_since),
        }
    }
}

fn read_counters() -> HostCounters {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let texts = KernelTexts {
        interfaces: &read("/proc/net/dev"),
        protocols: &read("/proc/net/snmp"),
        protocols6: &read("/proc/net/snmp6"),
    };
    texts.parse()
}

/// Returns the load of all CPUs together, then of each CPU. Without /proc/stat, the list is
/// empty.
fn cpu_loads(before: &[(u32, CpuTicks)], after: &[(u32, CpuTicks)]) -> Vec<CpuLoad> {
    let differences = after.iter().filter_map(|(number, ticks)| {
        let (_, before) = before
            .iter()
            .find(|(earlier_number, _)| earlier_number == number)?;
        Some(ticks.since(before))
    });
    let per_cpu: Vec<CpuTicks> = differences.collect();
    if per_cpu.is_empty() {
        return Vec::new();
    }
    let sum = |field: fn(&CpuTicks) -> u64| per_cpu.iter().map(field).sum();
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
        .chain(&per_cpu)
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

/// Reads the counters common to all drivers, in the order of [`NicCounters::NAMES`].
fn read_nic_counters(interface: &str) -> [Option<i64>; NicCounters::NAMES.len()] {
    let read = |name: &str| {
        let path = Path::new("/sys/class/net")
            .join(interface)
            .join("statistics")
            .join(name);
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let mut counters = [None; NicCounters::NAMES.len()];
    for (index, name) in [
        (0, "rx_packets"),
        (1, "tx_packets"),
        (7, "rx_crc_errors"),
        (8, "rx_missed_errors"),
    ] {
        counters[index] = read(name);
    }
    counters
}

/// Returns the increase of an interface's driver counters since the start.
fn nic_counters_since(
    (name, before): &(String, [Option<i64>; NicCounters::NAMES.len()]),
) -> NicCounters {
    let after = read_nic_counters(name);
    let mut counters = NicCounters {
        name: Text::truncated(name),
        ..NicCounters::default()
    };
    if after.iter().all(Option::is_none) {
        return counters;
    }
    counters.count = NicCounters::NAMES.len() as u32;
    for (value, pair) in counters.values.iter_mut().zip(after.iter().zip(before)) {
        *value = match pair {
            (Some(after), Some(before)) => after.wrapping_sub(*before),
            _ => -1,
        };
    }
    counters
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
        let before = [(0, ticks(5, 5, 5, 5)), (1, CpuTicks::default())];
        let after = [
            (0, ticks(15, 25, 10, 70)),
            (1, ticks(0, 0, 0, 100)),
            (2, ticks(1, 1, 1, 1)),
        ];
        let loads = cpu_loads(&before, &after);
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
        assert!(cpu_loads(&[], &[]).is_empty());
    }

    #[test]
    fn a_datagram_over_loopback_is_counted() {
        let meter = HostMeter::start(Some("lo"), false);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .send_to(&[0; 9], socket.local_addr().unwrap())
            .unwrap();
        let activity = meter.since_start();
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
        assert_eq!(unknown_interface.since_start().nic.values().count(), 0);
    }
}
