//! Data connections and datagrams from addresses other than the control peer's.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{Profile, Receive, TestCase, with_prefix};
use uperf::DataProtocol;
use uperf::wire::{Goodbye, MasterCommand};

use super::network::{Hosts, SHORT_TIMEOUT, master_address, slave_address};
use super::scripted::{self, Master, connect_from, connect_udp_from, data_address};

/// Second address of the host, which the control connection does not use.
const OTHER_ADDRESS: &str = "198.18.0.9";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        sends_datagrams_to_control_peer_only,
        sends_datagrams_elsewhere_if_allowed,
        reports_refused_datagrams,
        prefers_connections_of_control_peer,
        accepts_other_address_with_warning,
        refuses_other_address_if_strict,
        master_prefers_connections_of_its_slave,
    ];
    with_prefix("strangers", test_cases).collect()
}

/// Creates a slave host and a master host with a second address.
fn hosts_with_other_address() -> Hosts {
    let hosts = Hosts::new(1);
    hosts
        .master
        .ip(&format!("address add {OTHER_ADDRESS}/24 dev to0"));
    hosts
}

fn control_address() -> IpAddr {
    master_address(0).parse().expect("a valid address")
}

fn other_address() -> IpAddr {
    OTHER_ADDRESS.parse().expect("a valid address")
}

/// A profile with a slave that sends to the peer that it takes for its master.
fn flood_profile(protocol: &str) -> String {
    Profile::new("flood")
        .group("nthreads=1")
        .single_flowop(&format!(
            "connect remotehost=198.18.0.2 protocol={protocol}"
        ))
        .transaction("duration=90s rate=1000", &["read size=64"])
        .text()
}

fn sends_datagrams_to_control_peer_only() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::complete_handshake(&flood_profile("udp"));
        let slave_address = data_address(&infos[0], DataProtocol::Udp);
        // The handshake of the stranger arrives first.
        let stranger = connect_udp_from(other_address(), slave_address);
        let control_peer = connect_udp_from(control_address(), slave_address);
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        let mut data = [1; 100];
        for _ in 0..100 {
            assert_eq!(control_peer.receive(&mut data).expect("data arrives"), 64);
        }
        stranger
            .set_nonblocking(true)
            .expect("a non-blocking socket");
        let error = stranger.receive(&mut data).expect_err("no data");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

fn sends_datagrams_elsewhere_if_allowed() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "--allow-third-party");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::complete_handshake(&flood_profile("udp"));
        let other = connect_udp_from(other_address(), data_address(&infos[0], DataProtocol::Udp));
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        assert_eq!(other.receive(&mut [0; 100]).expect("data arrives"), 64);
    });
}

/// The slave stops waiting, and its message names the option that allows the peer.
fn reports_refused_datagrams() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::complete_handshake(&flood_profile("udp"));
        let _stranger =
            connect_udp_from(other_address(), data_address(&infos[0], DataProtocol::Udp));
        master.command(MasterCommand::NextTransaction(0));
        let goodbye = master.receive_goodbye();
        assert_eq!(goodbye.kind, Goodbye::ERROR);
        for expected in [
            "refused a UDP handshake from 198.18.0.9: the control connection is with 198.18.0.1",
            "--allow-third-party",
            "Error for flowop accept  Connection timed out",
        ] {
            let message = goodbye.message.to_string();
            assert!(message.contains(expected), "no {expected}: {message}");
        }
    });
}

fn prefers_connections_of_control_peer() {
    for protocol in ["tcp", "ssl"] {
        let hosts = hosts_with_other_address();
        let _slave = hosts.start_slave(0, "");
        hosts.master.enter(|| {
            let (mut master, infos) = Master::complete_handshake(&flood_profile(protocol));
            let protocol = DataProtocol::from_name(protocol).expect("a protocol");
            let slave_address = data_address(&infos[0], protocol);
            let start = Instant::now();
            let stranger = connect_from(other_address(), slave_address);
            let mut control_peer = connect_from(control_address(), slave_address);
            master.command(MasterCommand::NextTransaction(0));
            master.command(MasterCommand::NextTransaction(1));
            if protocol == DataProtocol::Tcp {
                control_peer
                    .read_exact(&mut [0; 640])
                    .expect("data arrives");
            } else {
                // A TLS server answers an invalid handshake with an alert.
                control_peer.write_all(&[0; 100]).expect("the slave reads");
                control_peer.read_exact(&mut [0; 1]).expect("an alert");
            }
            assert!(start.elapsed() < SHORT_TIMEOUT);
            assert_closed(&stranger);
        });
    }
}

fn accepts_other_address_with_warning() {
    let hosts = hosts_with_other_address();
    let slave = hosts.start_slave(0, "");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::complete_handshake(&flood_profile("tcp"));
        let start = Instant::now();
        let mut other = connect_from(other_address(), data_address(&infos[0], DataProtocol::Tcp));
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        other.read_exact(&mut [0; 640]).expect("data arrives");
        assert!(start.elapsed() >= Duration::from_millis(100));
        master.command(MasterCommand::Abort);
        let message = master.receive_goodbye().message.to_string();
        let expected = "accepted a data connection from 198.18.0.9: \
                     the control connection is with 198.18.0.1";
        assert!(message.contains(expected), "{message}");
    });
    let stderr = slave.stderr();
    assert!(stderr.contains("from 198.18.0.9"), "{stderr}");
}

fn refuses_other_address_if_strict() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "--strict-peers");
    hosts.master.enter(|| {
        let (mut master, infos) = Master::complete_handshake(&flood_profile("tcp"));
        let other = connect_from(other_address(), data_address(&infos[0], DataProtocol::Tcp));
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        assert_closed(&other);
        let message = master.receive_goodbye().message.to_string();
        let expected = "refused a data connection from 198.18.0.9";
        assert!(message.contains(expected), "{message}");
    });
}

/// A stranger connects to the master before the slave does.
fn master_prefers_connections_of_its_slave() {
    let profile = flood_profile("tcp")
        .replace("connect", "accept")
        .replace("duration=\"90s\" rate=\"1000\"", "iterations=\"10\"");
    let hosts = Hosts::new(1);
    hosts.slaves[0].ip(&format!("address add {OTHER_ADDRESS}/24 dev eth0"));
    let slave = hosts.slaves[0].enter(scripted::Slave::listen);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            hosts.slaves[0].enter(|| {
                let (mut control, infos) = slave.serve_handshake(&profile);
                let listener_address = SocketAddr::new(
                    master_address(0).parse().expect("a valid address"),
                    infos[0]
                        .port(DataProtocol::Tcp)
                        .expect("the master listens") as u16,
                );
                let slave_address: IpAddr = slave_address(0).parse().expect("a valid address");
                let mut stranger = connect_from(other_address(), listener_address);
                stranger
                    .write_all(&[9; 64])
                    .expect("space in the send buffer");
                let mut control_peer = connect_from(slave_address, listener_address);
                control_peer
                    .write_all(&[7; 640])
                    .expect("space in the send buffer");
                // The commands for the second transaction and for the statistics.
                for _ in 0..2 {
                    let mut command = [0; MasterCommand::LEN];
                    control.read_exact(&mut command).expect("the master sends");
                }
                let goodbye = Goodbye {
                    kind: Goodbye::INFO,
                    bytes: 640,
                    operations: 11,
                    ..Goodbye::default()
                };
                let goodbye = goodbye.encode(uperf::wire::Endian::NATIVE);
                control.write_all(&goodbye).expect("the master reads");
                assert_closed(&stranger);
            });
        });
        hosts
            .start_master("", &profile)
            .finish_within(SHORT_TIMEOUT * 3)
    });
    assert_eq!(output.code, Some(0), "{output:#?}");
    let expected = "** Warning: refused a data connection from 198.18.0.9: \
                 the control connection is with 198.18.0.2";
    assert!(output.stdout.contains(expected), "{output:#?}");
}

/// Checks that the peer has closed the connection: a read returns the end or a reset, no timeout.
fn assert_closed(connection: &impl Receive) {
    let is_timeout = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
    match connection.receive(&mut [0; 1]) {
        Ok(received) => assert_eq!(received, 0, "the connection is still open"),
        Err(error) => assert!(!is_timeout(error.kind()), "the connection is still open"),
    }
}
