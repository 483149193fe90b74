//! The blocks of host counters (CPU, interfaces, IP and UDP, NIC) at the end of a result line, and
//! their titles.

use std::fmt::Write;

use crate::wire::{CpuLoad, HostCounters, NicCounters, UNAVAILABLE};

/// The label of a host: `L` for this host, `R` for the responder's.
pub(super) type HostLabel = char;

/// Formats the block of CPUs: all CPUs together, then each CPU. A CPU without ticks has dashes.
pub(super) fn cpu_block(label: HostLabel, loads: &[CpuLoad]) -> String {
    let mut text = String::new();
    for (index, load) in loads.iter().enumerate() {
        let shares = [
            load.user,
            load.nice,
            load.system,
            load.idle,
            load.iowait,
            load.irq,
            load.softirq,
        ];
        let shares = if load.has_ticks() {
            shares.map(|share| share.to_string())
        } else {
            shares.map(|_| "-".to_owned())
        };
        let name = cpu_label(label, index);
        let _ = write!(text, "{name} ; {}; ;", shares.join("; "));
    }
    text
}

/// Formats the titles of the block of CPUs.
pub(super) fn cpu_titles(label: HostLabel, load_count: usize) -> String {
    let titles = (0..load_count).map(|index| {
        let name = match index {
            0 => format!("<{label} CPU>"),
            _ => format!("{} CPU", cpu_label(label, index)),
        };
        format!(
            "{name}; user cpu %; low-prio cpu %; kernel cpu%; idle cpu%; iowait cpu %; irq cpu%; softirq cpu%"
        )
    });
    titles.collect::<Vec<_>>().join(";; ")
}

fn cpu_label(label: HostLabel, index: usize) -> String {
    match index {
        0 => label.to_string(),
        _ => format!("{label}{}", index - 1),
    }
}

/// Formats the blocks of interfaces, and of IP and UDP, without a separator at the end. An
/// unavailable counter is a dash.
pub(super) fn counter_block(label: HostLabel, counters: &HostCounters) -> String {
    let mut interfaces = String::new();
    let mut add_interface = |name: &str, values: [i64; 8]| {
        let values = values.map(format_counter).join("; ");
        let _ = write!(interfaces, "{name:>6}: ; {values};");
    };
    for interface in &counters.interfaces {
        add_interface(&interface.name.to_string(), interface.values);
    }
    if counters.interfaces.is_empty() {
        add_interface("-", [UNAVAILABLE; 8]);
    }
    let protocols = &counters.protocols;
    let (title, values) = if counters.is_v6 {
        // The order of the titles. Stock prints the values in another order.
        let values = [
            protocols.ip6_in_discards,
            protocols.ip6_in_receives,
            protocols.ip6_out_discards,
            protocols.ip6_out_requests,
            protocols.udp6_in_datagrams,
            protocols.udp6_in_errors,
            protocols.udp6_out_datagrams,
        ];
        (format!(" {label} snmp6"), values)
    } else {
        let values = [
            protocols.ip_in_receives,
            protocols.ip_in_discards,
            protocols.ip_out_requests,
            protocols.ip_out_discards,
            protocols.udp_in_datagrams,
            protocols.udp_in_errors,
            protocols.udp_out_datagrams,
        ];
        (format!("{label} snmp"), values)
    };
    let values = values.map(format_counter).join("; ");
    format!("{label} if;{interfaces}{title}; {values}")
}

fn format_counter(value: i64) -> String {
    match value {
        UNAVAILABLE => "-".to_owned(),
        value => value.to_string(),
    }
}

/// Formats the titles of the blocks of interfaces, and of IP and UDP.
pub(super) fn counter_titles(label: HostLabel, is_v6: bool) -> String {
    let interface =
        "interface:; pktsin; bytesin; errin; dropin; pktsout; bytesout; errout; dropout";
    let protocols = if is_v6 {
        "snmp6; Ip6InDiscards; Ip6InReceives; Ip6OutDiscards; Ip6OutRequests; Udp6InDatagrams; Udp6InErrors; Udp6OutDatagrams"
    } else {
        "snmp; InReceives; InDiscards; OutRequests; OutDiscards; UDPInDatagrams; UDPInErrors; UDPOutDatagrams"
    };
    format!("{label} if; {interface}; {label} {protocols}")
}

/// Formats the block of an interface's hardware counters. A missing counter is a dash.
pub(super) fn nic_block(label: HostLabel, nic: &NicCounters) -> String {
    let values = (nic.values()).map(|value| format_counter(value.unwrap_or(UNAVAILABLE)) + "; ");
    format!(" {label} NIC; {}; {}", nic.name, values.collect::<String>())
}

/// Formats the titles of the hardware counters.
pub(super) fn nic_titles(label: HostLabel) -> String {
    format!(
        "{label} NIC; interface:; {};",
        NicCounters::NAMES.join("; ")
    )
}
