//! The counters of hosts at the end of a long line, and their titles.

use std::fmt::Write;

use crate::wire::{CpuLoad, HostCounters, NicCounters};

/// `L` for this host, `R` for the responder's.
pub(super) type Whose = char;

/// The block of CPUs: the sum of all, then each.
pub(super) fn cpus(whose: Whose, loads: &[CpuLoad]) -> String {
    let mut text = String::new();
    for (at, load) in loads.iter().enumerate() {
        let name = tag(whose, at);
        let _ = write!(
            text,
            "{name} ; {}; {}; {}; {}; {}; {}; {}; ;",
            load.user, load.nice, load.system, load.idle, load.iowait, load.irq, load.softirq
        );
    }
    text
}

/// Its titles.
pub(super) fn cpu_titles(whose: Whose, loads: usize) -> String {
    let titles = (0..loads).map(|at| {
        let name = match at {
            0 => format!("<{whose} CPU>"),
            _ => format!("{} CPU", tag(whose, at)),
        };
        format!(
            "{name}; user cpu %; low-prio cpu %; kernel cpu%; idle cpu%; iowait cpu %; irq cpu%; softirq cpu%"
        )
    });
    titles.collect::<Vec<_>>().join(";; ")
}

fn tag(whose: Whose, at: usize) -> String {
    match at {
        0 => whose.to_string(),
        _ => format!("{whose}{}", at - 1),
    }
}

/// The blocks of interfaces, and of IP and UDP, without a separator at the end.
pub(super) fn counters(whose: Whose, counters: &HostCounters) -> String {
    let mut interfaces = String::new();
    for interface in &counters.interfaces {
        let values = interface.values.map(|value| value.to_string());
        let name = interface.name.to_string();
        let _ = write!(interfaces, "{name:>6}: ; {};", values.join("; "));
    }
    let p = &counters.protocols;
    let (title, values) = if counters.is_v6 {
        // Stock prints the values in another order than the titles.
        let values = [
            p.ip6_in_discards,
            p.ip6_in_receives,
            p.ip6_out_discards,
            p.ip6_out_requests,
            p.udp6_in_datagrams,
            p.udp6_in_errors,
            p.udp6_out_datagrams,
        ];
        (format!(" {whose} snmp6"), values)
    } else {
        let values = [
            p.ip_in_receives,
            p.ip_in_discards,
            p.ip_out_requests,
            p.ip_out_discards,
            p.udp_in_datagrams,
            p.udp_in_errors,
            p.udp_out_datagrams,
        ];
        (format!("{whose} snmp"), values)
    };
    let values = values.map(|value| value.to_string()).join("; ");
    format!("{whose} if;{interfaces}{title}; {values}")
}

/// Their titles.
pub(super) fn counter_titles(whose: Whose, is_v6: bool) -> String {
    let interface =
        "interface:; pktsin; bytesin; errin; dropin; pktsout; bytesout; errout; dropout";
    let protocols = if is_v6 {
        "snmp6; Ip6InDiscards; Ip6InReceives; Ip6OutDiscards; Ip6OutRequests; Udp6InDatagrams; Udp6InErrors; Udp6OutDatagrams"
    } else {
        "snmp; InReceives; InDiscards; OutRequests; OutDiscards; UDPInDatagrams; UDPInErrors; UDPOutDatagrams"
    };
    format!("{whose} if; {interface}; {whose} {protocols}")
}

/// Formats the block of an interface's hardware counters. A missing counter is a dash.
pub(super) fn nic(whose: Whose, nic: &NicCounters) -> String {
    let values = nic.values().map(|value| match value {
        Some(value) => format!("{value}; "),
        None => "-; ".to_owned(),
    });
    format!(" {whose} NIC; {}; {}", nic.name, values.collect::<String>())
}

/// Its titles.
pub(super) fn nic_titles(whose: Whose) -> String {
    format!(
        "{whose} NIC; interface:; {};",
        NicCounters::NAMES.join("; ")
    )
}
