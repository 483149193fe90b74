//! The reported facts of interfaces, against what ethtool(8) and the kernel's files say of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use testkit::{Implementation, Namespace, Role, Server, add_link};

use super::{by_name, said, same};
use crate::interop::exchange::{peers, run};
use crate::interop::{Case, Outcome};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::against_stock("facts::link", veth)
            .alone()
            .inside(true),
        Case::against_stock("facts::words_of_a_driver", words_of_a_driver)
            .alone()
            .inside(true),
        Case::against_stock("facts::network_card", || {
            Namespace::for_this_process().enter(network_card)
        })
        .alone()
        .lacking(network_card_here().err()),
    ]
}

/// An Ethernet link with each end in a namespace of its own, in which /sys is another's.
fn veth() -> Outcome {
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
    let peers = peers();
    let server = far.enter(|| Server::start("-4"));
    let before = counters(&near, "left")?;
    let mut client = peers.command(Implementation::Ours, Role::Client);
    client
        .args(["-H", "10.7.0.2", "-p", &server.port.to_string()])
        .args(["-P", "0", "-t", "TCP_RR", "-l", "-2000", "--", "-k", NAMES]);
    let finished = run(near.command(&client))?;
    let after = counters(&near, "left")?;
    let facts = by_name(&finished.stdout);
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
        same(&facts, &format!("{end}_INTERFACE_NAME"), name)?;
        // It is no PCI device.
        for id in ["VENDOR", "DEVICE", "SUBVENDOR", "SUBDEVICE"] {
            same(&facts, &format!("{end}_INTERFACE_{id}"), "0xffffffff")?;
        }
        same(&facts, &format!("{end}_INTERFACE_SLOT"), "None")?;
        if let Ok(text) = namespace.run(&format!("ethtool -i {name}")) {
            for (fact, words) in DRIVER {
                let told = Some(line_of(&text, words)).filter(|words| !words.is_empty());
                same(
                    &facts,
                    &format!("{end}_DRIVER_{fact}"),
                    told.unwrap_or("None"),
                )?;
            }
        }
    }

    let number = |name: &str| facts[name].parse::<f64>().unwrap_or(f64::NAN);
    let rate = number("PACKETS_PER_TRANSACTION");
    // A request and a response, and the two control messages, handshake and goodbye around them.
    if !(2.0..2.02).contains(&rate) {
        return Err(format!("{facts:?}"));
    }
    // The whole run has the control connection in it; the test has not.
    for (name, whole) in [
        ("LOCAL_INTERFACE_RX_PACKETS", after.0 - before.0),
        ("LOCAL_INTERFACE_TX_PACKETS", after.1 - before.1),
    ] {
        let packets = number(name);
        if !(TRANSACTIONS..whole).contains(&packets) {
            return Err(format!("{name}={packets}, all {whole}"));
        }
    }
    // What one end sends the other one receives; the two look at it a moment apart.
    for (from, to) in [("REMOTE", "LOCAL"), ("LOCAL", "REMOTE")] {
        let [packets, bytes] = ["PACKETS", "BYTES"].map(|what| {
            let sent = number(&format!("{from}_INTERFACE_TX_{what}"));
            (sent, number(&format!("{to}_INTERFACE_RX_{what}")))
        });
        let close = |(sent, received): (f64, f64), apart: f64| (sent - received).abs() <= apart;
        // Ethernet, IPv4, TCP with timestamps, and a byte.
        let least = 67.0 * TRANSACTIONS;
        let frames = bytes.0 >= least && bytes.1 >= least;
        if !(close(packets, 10.0) && close(bytes, 10_000.0) && frames) {
            return Err(format!("{from}: {facts:?}"));
        }
    }
    Ok(())
}

/// The selectors `*_DRIVER_*`, and what `ethtool -i` calls them.
const DRIVER: [(&str, &str); 4] = [
    ("NAME", "driver"),
    ("VERSION", "version"),
    ("FIRMWARE", "firmware-version"),
    ("BUS", "bus-info"),
];

/// What `ethtool -i` says in a line.
fn line_of<'a>(text: &'a str, key: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix(':');
    text.lines().find_map(value).unwrap_or_default().trim()
}

/// A driver with a word for everything: the kernel's own bridge. Nothing is sent; that a packet would
/// leave there is enough.
fn words_of_a_driver() -> Outcome {
    let host = Namespace::with_loopback_only();
    let run = |line: &str| host.run(line).map_err(|error| error.to_string());
    run("ip link add bridge type bridge")?;
    run("ip address add 10.8.0.1/24 dev bridge")?;
    run("ip link set bridge up")?;
    let text = run("ethtool -i bridge")?;
    let found = host.enter(|| towards("10.8.0.2"))?;
    as_ethtool_has_it(&found, &text)?;
    let all = [
        &found.driver,
        &found.driver_version,
        &found.firmware,
        &found.bus,
    ];
    if found.name != "bridge" || all.iter().any(|words| words.is_none()) {
        return Err(format!("{found:?}"));
    }
    Ok(())
}

/// The reported facts of the interface that packets to an address would leave by.
fn towards(address: &str) -> Result<model::Interface, String> {
    let remote = format!("{address}:9").parse::<SocketAddr>();
    let remote = remote.map_err(|error| format!("{address}: {error}"))?;
    let meter = engine::InterfaceMeter::start(&remote.into());
    let meter = meter.ok_or_else(|| format!("no way to {address}"))?;
    Ok(meter.finish())
}

fn as_ethtool_has_it(found: &model::Interface, text: &str) -> Outcome {
    let told = [
        &found.driver,
        &found.driver_version,
        &found.firmware,
        &found.bus,
    ];
    for ((_, key), told) in DRIVER.iter().zip(told) {
        if told.as_deref().unwrap_or_default() != line_of(text, key) {
            return Err(format!("{key}: {told:?}, ethtool {text}"));
        }
    }
    Ok(())
}

/// A network interface of this host on the PCI bus that has a route: its name, an address beyond it,
/// and its place.
fn network_card_here() -> Result<(String, String, String), String> {
    let none = || "no network interface on the PCI bus here".to_owned();
    let interfaces = std::fs::read_dir("/sys/class/net").map_err(|_| none())?;
    let names = interfaces.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let card = |name: String| {
        let text = said("ethtool", &["-i", &name]).ok()?;
        let place = line_of(&text, "bus-info");
        let pci = format!("/sys/bus/pci/devices/{place}");
        let routes = said("ip", &["-4", "-o", "route", "show", "dev", &name]).ok()?;
        let mut words = routes
            .split([' ', '/', '\n'])
            .skip_while(|word| *word == "default");
        let beyond = words.find(|word| word.parse::<Ipv4Addr>().is_ok())?;
        let there = !place.is_empty() && Path::new(&pci).exists();
        there.then(|| (name, beyond.to_owned(), place.to_owned()))
    };
    let mut cards = names.filter_map(card);
    cards.next().ok_or_else(none)
}

/// A card's numbers are those of its device, in the words of the kernel's other file about it. Nothing
/// is sent.
fn network_card() -> Outcome {
    let (name, beyond, place) = network_card_here()?;
    let found = towards(&beyond)?;
    as_ethtool_has_it(&found, &said("ethtool", &["-i", &name])?)?;
    let file = format!("/sys/bus/pci/devices/{place}/uevent");
    let uevent = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let pair = |key: &str| {
        let (one, other) = uevent
            .lines()
            .find_map(|line| line.strip_prefix(key))?
            .split_once(':')?;
        let id = |digits| u16::from_str_radix(digits, 16).ok();
        Some((id(one)?, id(other)?))
    };
    let device = found.pci.as_ref();
    let numbers = device.map(|ids| (ids.vendor, ids.device));
    let of_board = device.map(|ids| (ids.subvendor, ids.subdevice));
    let known = (pair("PCI_ID="), pair("PCI_SUBSYS_ID="));
    if found.name != name || numbers.is_none() || (numbers, of_board) != known {
        return Err(format!("{found:?}, not {known:?}"));
    }
    // A slot has the address of all the functions that sit in it.
    let script = "grep -lxF \"$0\" /sys/bus/pci/slots/*/address | sed 's,/address$,,; s,.*/,,'";
    let functions = place.split('.').next().unwrap_or_default();
    let slot = said("sh", &["-c", script, functions])?;
    if found.slot.as_deref().unwrap_or_default() != slot.lines().next().unwrap_or_default() {
        return Err(format!("slot {:?}, not {slot:?}", found.slot));
    }
    Ok(())
}

/// Packets that an interface has received and sent.
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
