//! Whose data a run takes: connections and datagrams from addresses that are not the control connection's.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{Profile, TestCase, with_prefix};
use uperf::DataProtocol;
use uperf::wire::{Goodbye, MasterCommand};

use super::ground::{Hosts, SOON, address, master_address};
use super::scripted::{self, Master, datagrams_from, place_of, stream_from};

/// An address beside the one that a host's control connection has.
const OTHER: &str = "198.18.0.9";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        datagrams_go_to_the_control_peer,
        datagrams_go_elsewhere_if_allowed,
        refused_datagrams_are_reported,
        connections_of_the_control_peer_are_preferred,
        another_address_is_accepted_with_a_warning,
        another_address_is_refused_if_strict,
        a_master_prefers_its_slave,
    ];
    with_prefix("strangers", test_cases).collect()
}

/// A slave's host, and a master's with one address more.
fn hosts() -> Hosts {
    let hosts = Hosts::new(1);
    hosts.master.ip(&format!("address add {OTHER}/24 dev to0"));
    hosts
}

fn own() -> IpAddr {
    master_address(0).parse().expect("an address")
}

fn other() -> IpAddr {
    OTHER.parse().expect("an address")
}

/// The slave sends as long as it lasts, to whoever it takes for its master.
fn flood(protocol: &str) -> String {
    Profile::new("flood")
        .group("nthreads=1")
        .single_flowop(&format!(
            "connect remotehost=198.18.0.2 protocol={protocol}"
        ))
        .transaction("duration=90s rate=1000", &["read size=64"])
        .text()
}

fn datagrams_go_to_the_control_peer() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::begin(&flood("udp"));
        let at = place_of(&infos[0], DataProtocol::Udp);
        // The stranger's handshake comes first.
        let stranger = datagrams_from(other(), at);
        let own = datagrams_from(own(), at);
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        let mut data = [1; 100];
        for _ in 0..100 {
            assert_eq!(own.recv(&mut data).expect("data"), 64);
        }
        stranger.set_nonblocking(true).expect("it can be");
        let nothing = stranger.recv(&mut data).expect_err("it requested nothing");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    });
}

fn datagrams_go_elsewhere_if_allowed() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "--allow-third-party");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::begin(&flood("udp"));
        let other = datagrams_from(other(), place_of(&infos[0], DataProtocol::Udp));
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        assert_eq!(other.recv(&mut [0; 100]).expect("data"), 64);
    });
}

/// It is no wait without end, and says what would help.
fn refused_datagrams_are_reported() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::begin(&flood("udp"));
        let _stranger = datagrams_from(other(), place_of(&infos[0], DataProtocol::Udp));
        master.command(MasterCommand::NextTransaction(0));
        let goodbye = master.goodbye();
        assert_eq!(goodbye.kind, Goodbye::ERROR);
        for words in [
            "refused a UDP handshake from 198.18.0.9: the control connection is with 198.18.0.1",
            "--allow-third-party",
            "Error for flowop accept  Connection timed out",
        ] {
            let message = goodbye.message.to_string();
            assert!(message.contains(words), "no {words}: {message}");
        }
    });
}

fn connections_of_the_control_peer_are_preferred() {
    for protocol in ["tcp", "ssl"] {
        let hosts = hosts();
        let _slave = hosts.slave(0, "");
        hosts.master.enter(|| {
            let (mut master, infos) = Master::begin(&flood(protocol));
            let protocol = DataProtocol::from_name(protocol).expect("a protocol");
            let at = place_of(&infos[0], protocol);
            let begun = Instant::now();
            let mut stranger = stream_from(other(), at);
            let mut own = stream_from(own(), at);
            master.command(MasterCommand::NextTransaction(0));
            master.command(MasterCommand::NextTransaction(1));
            if protocol == DataProtocol::Tcp {
                own.read_exact(&mut [0; 640]).expect("data");
            } else {
                // What a server of TLS answers to what is no handshake.
                own.write_all(&[0; 100]).expect("it is read");
                own.read_exact(&mut [0; 1]).expect("an alert");
            }
            assert!(begun.elapsed() < SOON);
            let ended = stranger.read(&mut [0; 1]);
            assert_eq!(ended.unwrap_or(0), 0, "it is closed");
        });
    }
}

fn another_address_is_accepted_with_a_warning() {
    let hosts = hosts();
    let slave = hosts.slave(0, "");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::begin(&flood("tcp"));
        let begun = Instant::now();
        let mut other = stream_from(other(), place_of(&infos[0], DataProtocol::Tcp));
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        other.read_exact(&mut [0; 640]).expect("data");
        assert!(begun.elapsed() >= Duration::from_secs(2));
        master.command(MasterCommand::Abort);
        let message = master.goodbye().message.to_string();
        let words = "accepted a data connection from 198.18.0.9: \
                     the control connection is with 198.18.0.1";
        assert!(message.contains(words), "{message}");
    });
    let said = slave.stderr();
    assert!(said.contains("from 198.18.0.9"), "{said}");
}

fn another_address_is_refused_if_strict() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "--strict-peers");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::begin(&flood("tcp"));
        let mut other = stream_from(other(), place_of(&infos[0], DataProtocol::Tcp));
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        assert_eq!(other.read(&mut [0; 640]).unwrap_or(0), 0, "it is closed");
        let message = master.goodbye().message.to_string();
        let words = "refused a data connection from 198.18.0.9";
        assert!(message.contains(words), "{message}");
    });
}

/// The same at the other end: a stranger is faster than the slave.
fn a_master_prefers_its_slave() {
    let profile = flood("tcp")
        .replace("connect", "accept")
        .replace("duration=\"90s\" rate=\"1000\"", "iterations=\"10\"");
    let hosts = Hosts::new(1);
    hosts.slaves[0].ip(&format!("address add {OTHER}/24 dev eth0"));
    let slave = hosts.slaves[0].enter(scripted::Slave::listen);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            hosts.slaves[0].enter(|| {
                let (mut control, infos) = slave.serve(&profile);
                let at = SocketAddr::new(
                    master_address(0).parse().expect("an address"),
                    infos[0].port(DataProtocol::Tcp).expect("it listens") as u16,
                );
                let own: IpAddr = address(0).parse().expect("an address");
                let mut stranger = stream_from(other(), at);
                stranger.write_all(&[9; 64]).expect("it is read, or not");
                let mut own = stream_from(own, at);
                own.write_all(&[7; 640]).expect("it is read");
                // The second transaction, the statistics.
                for _ in 0..2 {
                    let mut command = [0; MasterCommand::LEN];
                    control.read_exact(&mut command).expect("the master speaks");
                }
                let goodbye = Goodbye {
                    kind: Goodbye::INFO,
                    bytes: 640,
                    operations: 11,
                    ..Goodbye::default()
                };
                let goodbye = goodbye.encode(uperf::wire::Endian::NATIVE);
                control.write_all(&goodbye).expect("the master listens");
                assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0, "it is closed");
            });
        });
        hosts.run("", &profile).finish_within(SOON * 3)
    });
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let words = "** Warning: refused a data connection from 198.18.0.9: \
                 the control connection is with 198.18.0.2";
    assert!(ended.stdout.contains(words), "{ended:#?}");
}
