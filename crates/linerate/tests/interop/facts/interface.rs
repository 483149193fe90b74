//! Reported facts of interfaces, compared with ethtool(8) and the kernel's files.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use testkit::{Implementation, Namespace, Role, Server, add_link};

use super::{expect_fact, parse_facts, stdout_of_program};
use crate::interop::exchange::{programs, run};
use crate::interop::{Case, CaseResult};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("facts::link", link)
            .without_stock()
            .in_namespace(true),
        Case::new("facts::driver_details", driver_details)
            .without_stock()
            .in_namespace(true),
        Case::new("facts::network_card", || {
            Namespace::for_this_process().enter(network_card)
        })
        .without_stock()
        .unless(find_network_card().err()),
    ]
}

/// An Ethernet link between two namespaces, which do not mount their own /sys.
fn link() -> CaseResult {
    const TRANSACTIONS: f64 = 2000.0;
    const NAMES: &str = "LOCAL_INTERFACE_NAME,LOCAL_INTERFACE_VENDOR,LOCAL_INTERFACE_DEVICE,\
        LOCAL_INTERFACE_SUBVENDOR,LOCAL_INTERFACE_SUBDEVICE,LOCAL_INTERFACE_SLOT,LOCAL_DRIVER_NAME,\
        LOCAL_DRIVER_VERSION,LOCAL_DRIVER_FIRMWARE,LOCAL_DRIVER_BUS,REMOTE_INTERFACE_NAME,\
        REMOTE_INTERFACE_VENDOR,REMOTE_INTERFACE_DEVICE,REMOTE_INTERFACE_SUBVENDOR,\
        REMOTE_INTERFACE_SUBDEVICE,REMOTE_INTERFACE_SLOT,REMOTE_DRIVER_NAME,REMOTE_DRIVER_VERSION,\
        REMOTE_DRIVER_FIRMWARE,REMOTE_DRIVER_BUS,LOCAL_INTERFACE_RX_PACKETS,\
        LOCAL_INTERFACE_RX_BYTES,LOCAL_INTERFACE_TX_PACKETS,LOCAL_INTERFACE_TX_BYTES,\
        REMOTE_INTERFACE_RX_PACKETS,REMOTE_INTERFACE_RX_BYTES,REMOTE_INTERFACE_TX_PACKETS,\
        REMOTE_INTERFACE_TX_BYTES,PACKETS_PER_TRANSACTION";
    let (near, far) = (
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
    );
    add_link(
        (&near, "left", "10.7.0.1/24"),
        (&far, "right", "10.7.0.2/24"),
    );
    let programs = programs();
    let server = far.enter(|| Server::start("-4"));
    let before = counters(&near, "left")?;
    let mut client = programs.command(Implementation::Ours, Role::Client);
    client
        .args(["-H", "10.7.0.2", "-p", &server.port.to_string()])
        .args(["-P", "0", "-t", "TCP_RR", "-l", "-2000", "--", "-k", NAMES]);
    let finished = run(near.command(&client))?;
    let after = counters(&near, "left")?;
    let facts = parse_facts(&finished.stdout);
    if facts.len() != NAMES.split(',').count() {
        return Err(format!("{finished:?}"));
    }

    let route = near
        .run("ip -o route get 10.7.0.2")
        .map_err(|error| error.to_string())?;
    if !route.contains(" dev left ") {
        return Err(route);
    }
    for (end, namespace, name) in [("LOCAL", &near, "left"), ("REMOTE", &far, "right")] {
        expect_fact(&facts, &format!("{end}_INTERFACE_NAME"), name)?;
        // A veth interface is not a PCI device.
        for id in ["VENDOR", "DEVICE", "SUBVENDOR", "SUBDEVICE"] {
            expect_fact(&facts, &format!("{end}_INTERFACE_{id}"), "0xffffffff")?;
        }
        expect_fact(&facts, &format!("{end}_INTERFACE_SLOT"), "None")?;
        if let Ok(text) = namespace.run(&format!("ethtool -i {name}")) {
            for (fact, key) in DRIVER {
                let expected = Some(ethtool_value(&text, key)).filter(|value| !value.is_empty());
                expect_fact(
                    &facts,
                    &format!("{end}_DRIVER_{fact}"),
                    expected.unwrap_or("None"),
                )?;
            }
        }
    }

    let number = |name: &str| facts[name].parse::<f64>().unwrap_or(f64::NAN);
    let rate = number("PACKETS_PER_TRANSACTION");
    // A request and a response. Control messages, handshake and close add a few packets.
    if !(2.0..2.02).contains(&rate) {
        return Err(format!("{facts:?}"));
    }
    // The run includes the control connection's packets; the test does not.
    for (name, packets_of_run) in [
        ("LOCAL_INTERFACE_RX_PACKETS", after.0 - before.0),
        ("LOCAL_INTERFACE_TX_PACKETS", after.1 - before.1),
    ] {
        let packets = number(name);
        if !(TRANSACTIONS..packets_of_run).contains(&packets) {
            return Err(format!("{name}={packets}, whole run {packets_of_run}"));
        }
    }
    // Each end receives the packets of the other. The ends read their counters at slightly
    // different times.
    for (from, to) in [("REMOTE", "LOCAL"), ("LOCAL", "REMOTE")] {
        let [packets, bytes] = ["PACKETS", "BYTES"].map(|unit| {
            let sent = number(&format!("{from}_INTERFACE_TX_{unit}"));
            (sent, number(&format!("{to}_INTERFACE_RX_{unit}")))
        });
        let is_close =
            |(sent, received): (f64, f64), tolerance: f64| (sent - received).abs() <= tolerance;
        // Headers of Ethernet, IPv4 and TCP with timestamps, and one byte.
        let min_bytes = 67.0 * TRANSACTIONS;
        let has_headers = bytes.0 >= min_bytes && bytes.1 >= min_bytes;
        if !(is_close(packets, 10.0) && is_close(bytes, 10_000.0) && has_headers) {
            return Err(format!("{from}: {facts:?}"));
        }
    }
    Ok(())
}

/// The selectors `*_DRIVER_*` and their keys in `ethtool -i`.
const DRIVER: [(&str, &str); 4] = [
    ("NAME", "driver"),
    ("VERSION", "version"),
    ("FIRMWARE", "firmware-version"),
    ("BUS", "bus-info"),
];

/// Returns a value of `ethtool -i`; empty if there is none.
fn ethtool_value<'a>(text: &'a str, key: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix(':');
    text.lines().find_map(value).unwrap_or_default().trim()
}

/// The kernel's bridge driver has a value for every fact. The case sends nothing; the route selects
/// the interface. So its counters do not move, and the traffic of a test with data is unavailable.
fn driver_details() -> CaseResult {
    let host = Namespace::with_loopback_only();
    let run = |line: &str| host.run(line).map_err(|error| error.to_string());
    run("ip link add bridge type bridge")?;
    run("ip address add 10.8.0.1/24 dev bridge")?;
    run("ip link set bridge up")?;
    let text = run("ethtool -i bridge")?;
    let interface = host.enter(|| interface_towards("10.8.0.2"))?;
    compare_with_ethtool(&interface, &text)?;
    let has_facts = driver_facts(&interface).iter().all(Option::is_some);
    if interface.name != "bridge" || !has_facts || interface.traffic.is_some() {
        return Err(format!("{interface:?}"));
    }
    Ok(())
}

/// Returns the reported facts of the interface on the route to an address.
fn interface_towards(address: &str) -> Result<model::Interface, String> {
    let remote = format!("{address}:9").parse::<SocketAddr>();
    let remote = remote.map_err(|error| format!("{address}: {error}"))?;
    let meter = engine::InterfaceMeter::start(&remote.into());
    let meter = meter.ok_or_else(|| format!("no route to {address}"))?;
    Ok(meter.finish(true))
}

/// Returns the driver's facts in the order of [`DRIVER`].
fn driver_facts(interface: &model::Interface) -> [Option<&str>; 4] {
    [
        interface.driver.as_deref(),
        interface.driver_version.as_deref(),
        interface.firmware.as_deref(),
        interface.bus.as_deref(),
    ]
}

fn compare_with_ethtool(interface: &model::Interface, text: &str) -> CaseResult {
    for ((_, key), fact) in DRIVER.iter().zip(driver_facts(interface)) {
        if fact.unwrap_or_default() != ethtool_value(text, key) {
            return Err(format!("{key}: {fact:?}, ethtool {text}"));
        }
    }
    Ok(())
}

/// Finds a network interface of this host on the PCI bus that has a route. Returns its name, an
/// address on the route, and its bus address.
fn find_network_card() -> Result<(String, String, String), String> {
    let none = || "this host has no network interface on the PCI bus with a route".to_owned();
    let interfaces = std::fs::read_dir("/sys/class/net").map_err(|_| none())?;
    let names = interfaces.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let card = |name: String| {
        let text = stdout_of_program("ethtool", &["-i", &name]).ok()?;
        let bus_address = ethtool_value(&text, "bus-info");
        let pci_path = format!("/sys/bus/pci/devices/{bus_address}");
        let routes = stdout_of_program("ip", &["-4", "-o", "route", "show", "dev", &name]).ok()?;
        let mut words = routes
            .split([' ', '/', '\n'])
            .skip_while(|word| *word == "default");
        let destination = words.find(|word| word.parse::<Ipv4Addr>().is_ok())?;
        let is_pci = !bus_address.is_empty() && Path::new(&pci_path).exists();
        is_pci.then(|| (name, destination.to_owned(), bus_address.to_owned()))
    };
    let mut cards = names.filter_map(card);
    cards.next().ok_or_else(none)
}

/// The identifiers of a card match the kernel's `uevent` file. The case sends nothing.
fn network_card() -> CaseResult {
    let (name, destination, bus_address) = find_network_card()?;
    let interface = interface_towards(&destination)?;
    compare_with_ethtool(&interface, &stdout_of_program("ethtool", &["-i", &name])?)?;
    let file = format!("/sys/bus/pci/devices/{bus_address}/uevent");
    let uevent = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let id_pair = |key: &str| {
        let (vendor, device) = uevent
            .lines()
            .find_map(|line| line.strip_prefix(key))?
            .split_once(':')?;
        let id = |digits| u16::from_str_radix(digits, 16).ok();
        Some((id(vendor)?, id(device)?))
    };
    let pci = interface.pci.as_ref();
    let ids = pci.map(|ids| (ids.vendor, ids.device));
    let subsystem_ids = pci.map(|ids| (ids.subvendor, ids.subdevice));
    let expected = (id_pair("PCI_ID="), id_pair("PCI_SUBSYS_ID="));
    if interface.name != name || ids.is_none() || (ids, subsystem_ids) != expected {
        return Err(format!("{interface:?}, not {expected:?}"));
    }
    // All functions of a slot share its address.
    let script = "grep -lxF \"$0\" /sys/bus/pci/slots/*/address | sed 's,/address$,,; s,.*/,,'";
    let slot_address = bus_address.split('.').next().unwrap_or_default();
    let slot = stdout_of_program("sh", &["-c", script, slot_address])?;
    if interface.slot.as_deref().unwrap_or_default() != slot.lines().next().unwrap_or_default() {
        return Err(format!("slot {:?}, not {slot:?}", interface.slot));
    }
    Ok(())
}

/// Returns the packets that an interface received and sent.
pub(super) fn counters(namespace: &Namespace, interface: &str) -> Result<(f64, f64), String> {
    let table = namespace
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
        .map_err(|error| error.to_string())?;
    let row = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    let words: Vec<f64> = row
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match words[..] {
        [_, received, _, _, _, _, _, _, _, sent, ..] => Ok((received, sent)),
        _ => Err(table),
    }
}
