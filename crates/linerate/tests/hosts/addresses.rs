//! Hosts with several addresses: data comes from, and goes to, the address that the control connection has.

use testkit::Requirement::Namespaces;
use testkit::{Namespace, Profile, TestCase, test_case};

use super::ground::{Hosts, SOON, address, run_on};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("addresses::datagrams", &[Namespaces], datagrams),
        test_case("addresses::connections", &[Namespaces], connections),
    ]
}

/// Addresses of the slave's host: its first, a second on the link, one that no link has, and two of IPv6.
const ADDRESSES: [&str; 5] = [
    "198.18.0.2",
    "198.18.0.22",
    "192.0.2.77",
    "fd00::2",
    "fd00::22",
];

/// A connection in a transaction of its own, and one in each pass.
fn profiles(open: &str) -> [String; 2] {
    let exchange = ["write size=90", "read size=90"];
    let again = [open, exchange[0], exchange[1], "disconnect"];
    [
        Profile::new("once")
            .group("nthreads=2")
            .single_flowop(open)
            .transaction("iterations=100", &exchange)
            .text(),
        Profile::new("again")
            .group("nthreads=2")
            .transaction("iterations=50", &again)
            .text(),
    ]
}

fn datagrams() {
    over("udp");
}

/// That the address is another would take two seconds, and a warning.
fn connections() {
    over("tcp");
}

fn over(protocol: &str) {
    let hosts = Hosts::new(1);
    add(&hosts.master, "to0", &["fd00::1/64", "fd00::11/64"]);
    let slave = &hosts.slaves[0];
    add(slave, "eth0", &["fd00::2/64", "fd00::22/64"]);
    slave.ip(&format!("address add {}/24 dev eth0", ADDRESSES[1]));
    slave.ip(&format!("address add {}/32 dev lo", ADDRESSES[2]));
    let by = address(0);
    hosts
        .master
        .ip(&format!("route add {}/32 via {by}", ADDRESSES[2]));
    let _slave = hosts.slave(0, "");
    for to in ADDRESSES {
        for opening in ["connect", "accept"] {
            let open = format!("{opening} remotehost={to} protocol={protocol}");
            for profile in profiles(&open) {
                let ended = run_on(&hosts.master, "", &profile).finish_within(SOON * 2);
                assert_eq!(ended.code, Some(0), "{to} {opening}: {ended:#?}");
                assert!(!ended.stdout.contains("** "), "{to} {opening}: {ended:#?}");
            }
        }
    }
}

fn add(host: &Namespace, link: &str, addresses: &[&str]) {
    let enable = || std::fs::write(format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6"), "0");
    host.enter(enable).expect("root may");
    for address in addresses {
        host.ip(&format!("address add {address} dev {link} nodad"));
    }
}
