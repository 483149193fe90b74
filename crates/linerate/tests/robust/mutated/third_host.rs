//! A host that the servers can reach but must not send to.

use std::net::{Ipv4Addr, UdpSocket};

use testkit::{Namespace, add_link, wait_until};

use super::servers::IDLE_TIMEOUT;

/// Address of a host that the server can reach but must not send to.
pub(super) const THIRD_HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

/// The host that the server must not send to.
pub(super) struct ThirdHost {
    host: Namespace,
    /// Bytes that the interface received before the test.
    initial_bytes: u64,
}

impl ThirdHost {
    /// Creates the host and its link to the server's host. The neighbour entries are permanent, so
    /// the kernels themselves send nothing.
    pub(super) fn linked_to(server: &Namespace) -> Self {
        let host = Namespace::with_loopback_only();
        add_link(
            (server, "third", "203.0.113.1/24"),
            (&host, "eth0", &format!("{THIRD_HOST}/24")),
        );
        host.ip("link set eth0 address 02:00:00:00:00:02");
        server.ip("link set third arp off");
        server.ip(&format!(
            "neighbour replace {THIRD_HOST} lladdr 02:00:00:00:00:02 dev third nud permanent"
        ));
        let mut third_host = Self {
            host,
            initial_bytes: 0,
        };
        // This datagram proves that the counter works.
        server.enter(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("the socket can be bound");
            socket
                .send_to(b"x", (THIRD_HOST, 9))
                .expect("the host has a route");
        });
        assert!(wait_until(IDLE_TIMEOUT, || third_host.received_bytes() > 0));
        third_host.initial_bytes = third_host.received_bytes();
        third_host
    }

    fn received_bytes(&self) -> u64 {
        let table = self
            .host
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("/proc is mounted");
        let line = table
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let bytes = line.and_then(|line| line.split_whitespace().next());
        bytes
            .and_then(|bytes| bytes.parse().ok())
            .expect("the table has the interface")
    }

    #[track_caller]
    pub(super) fn assert_received_nothing(&self) {
        let received = self.received_bytes() - self.initial_bytes;
        assert_eq!(received, 0, "the third host received {received} bytes");
    }
}
