//! Hosts with several addresses: data uses the addresses of the control connection.

use testkit::Requirement::Namespaces;
use testkit::{Namespace, Profile, TestCase, test_case};

use super::network::{Hosts, SHORT_TIMEOUT, slave_address, start_master_on};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "addresses::datagrams_use_control_addresses",
            &[Namespaces],
            datagrams_use_control_addresses,
        ),
        test_case(
            "addresses::connections_use_control_addresses",
            &[Namespaces],
            connections_use_control_addresses,
        ),
    ]
}

/// Addresses of the slave host: two IPv4 addresses on the link, one on the loopback device, and two
/// IPv6 addresses.
const ADDRESSES: [&str; 5] = [
    "198.18.0.2",
    "198.18.0.22",
    "192.0.2.77",
    "fd00::2",
    "fd00::22",
];

/// Profiles that connect once, and in each iteration.
fn profiles(open: &str) -> [String; 2] {
    let exchange = ["write size=90", "read size=90"];
    let churn = [open, exchange[0], exchange[1], "disconnect"];
    [
        Profile::new("once")
            .group("nthreads=2")
            .single_flowop(open)
            .transaction("iterations=100", &exchange)
            .text(),
        Profile::new("churn")
            .group("nthreads=2")
            .transaction("iterations=50", &churn)
            .text(),
    ]
}

fn datagrams_use_control_addresses() {
    check_addresses("udp");
}

/// A connection from another address would cause a delay of 2 s and a warning.
fn connections_use_control_addresses() {
    check_addresses("tcp");
}

fn check_addresses(protocol: &str) {
    let hosts = Hosts::new(1);
    add_addresses(&hosts.master, "to0", &["fd00::1/64", "fd00::11/64"]);
    let slave = &hosts.slaves[0];
    add_addresses(slave, "eth0", &["fd00::2/64", "fd00::22/64"]);
    slave.ip(&format!("address add {}/24 dev eth0", ADDRESSES[1]));
    slave.ip(&format!("address add {}/32 dev lo", ADDRESSES[2]));
    let gateway = slave_address(0);
    hosts
        .master
        .ip(&format!("route add {}/32 via {gateway}", ADDRESSES[2]));
    let _slave = hosts.start_slave(0, "");
    for to in ADDRESSES {
        for opening in ["connect", "accept"] {
            let open = format!("{opening} remotehost={to} protocol={protocol}");
            for profile in profiles(&open) {
                let output =
                    start_master_on(&hosts.master, "", &profile).finish_within(SHORT_TIMEOUT * 2);
                assert_eq!(output.code, Some(0), "{to} {opening}: {output:#?}");
                assert!(
                    !output.stdout.contains("** "),
                    "{to} {opening}: {output:#?}"
                );
            }
        }
    }
}

fn add_addresses(host: &Namespace, link: &str, addresses: &[&str]) {
    let enable = || std::fs::write(format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6"), "0");
    host.enter(enable).expect("root can write sysctls");
    for address in addresses {
        host.ip(&format!("address add {address} dev {link} nodad"));
    }
}
