//! Sockets and counters in the network namespace of this thread, and free ports. The source is
//! proc(5): `/proc/net/tcp`, `/proc/net/udp`, `/proc/net/snmp` and `/proc/net/netstat`.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

/// A socket in a kernel table.
struct SocketEntry {
    local_port: u16,
    /// `None` for an IPv6 address.
    remote_host: Option<Ipv4Addr>,
    remote_port: u16,
    /// State as in the kernel's `tcp_states.h`.
    state: u8,
    /// Bytes that the kernel has received and the process has not read.
    unread_bytes: u64,
    inode: u64,
}

const TCP_TABLES: [&str; 2] = ["tcp", "tcp6"];
const UDP_TABLES: [&str; 2] = ["udp", "udp6"];

const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// Returns a port that is free for IPv4 and IPv6. The kernel does not assign it to sockets by
/// itself. The next thousands of calls in this process return other ports.
pub fn free_port() -> u16 {
    let (_sockets, port) = bind_free_port();
    port
}

/// Range of the ports that [`free_port`] returns. It is below the kernel's ephemeral ports (32768
/// to 60999) and above the usual ports of servers.
const FREE_PORT_RANGE: Range<u32> = 22_000..32_000;

/// Step from one returned port to the next. A test may also use the ports next to its own, which
/// [`free_port`] returns only thousands of calls later.
const PORT_STEP: u32 = 7;

/// Binds sockets to a free port. They do not listen, and allow other sockets with SO_REUSEADDR,
/// such as those of servers, to bind the port.
///
/// A child that another thread starts has copies of the sockets until its execve(2), which may take
/// long on a busy machine. If the sockets listened, tests would mistake them for a server, and the
/// server could not bind the port.
fn bind_free_port() -> (Vec<OwnedFd>, u16) {
    static NEXT_OFFSET: AtomicU32 = AtomicU32::new(0);
    // Each process starts at a different port.
    let first_offset = std::process::id().wrapping_mul(769);
    (0..FREE_PORT_RANGE.len())
        .find_map(|_| {
            let offset = first_offset.wrapping_add(NEXT_OFFSET.fetch_add(PORT_STEP, Relaxed));
            let range_length = FREE_PORT_RANGE.end - FREE_PORT_RANGE.start;
            let port = FREE_PORT_RANGE.start + offset % range_length;
            let port = u16::try_from(port).expect("the range contains only ports");
            Some((bind_port(port)?, port))
        })
        .expect("there is a free port")
}

/// Binds sockets of both families to a port, or only of IPv4 if the host lacks IPv6. Returns `None`
/// if the port is in use.
fn bind_port(port: u16) -> Option<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    for (family, wildcard) in [
        (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
        (AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    ] {
        let Ok(socket) = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) else {
            continue;
        };
        sockopt::set_socket_reuseaddr(&socket, true).ok()?;
        if family == AddressFamily::INET6 {
            sockopt::set_ipv6_v6only(&socket, true).ok()?;
        }
        match rustix::net::bind(&socket, &SocketAddr::new(wildcard, port)) {
            Ok(()) => sockets.push(socket),
            Err(Errno::ADDRNOTAVAIL) => {}
            Err(_) => return None,
        }
    }
    (!sockets.is_empty()).then_some(sockets)
}

/// Returns whether a TCP socket listens on the port.
pub fn is_listening(port: u16) -> bool {
    is_listening_in("thread-self", port)
}

/// Returns whether a TCP socket listens on the port in the network namespace of a process, or of
/// `thread-self`.
pub(crate) fn is_listening_in(process: &str, port: u16) -> bool {
    socket_table(process, TCP_TABLES)
        .iter()
        .any(|entry| entry.state == LISTEN && entry.local_port == port)
}

/// Returns whether an unconnected datagram socket is bound to the port.
pub fn receives_datagrams(port: u16) -> bool {
    receives_datagrams_in("thread-self", port)
}

/// Returns whether an unconnected datagram socket is bound to the port in the network namespace of
/// a process, or of `thread-self`.
pub(crate) fn receives_datagrams_in(process: &str, port: u16) -> bool {
    socket_table(process, UDP_TABLES)
        .iter()
        .any(|entry| entry.remote_port == 0 && entry.local_port == port)
}

/// Returns the local port and the peer of each connected IPv4 datagram socket.
pub fn datagram_connections() -> Vec<(u16, SocketAddrV4)> {
    let entries = socket_table("thread-self", UDP_TABLES).into_iter();
    let connections = entries.filter(|entry| entry.state == ESTABLISHED);
    connections
        .filter_map(|entry| {
            let peer = SocketAddrV4::new(entry.remote_host?, entry.remote_port);
            Some((entry.local_port, peer))
        })
        .collect()
}

/// Returns the number of listening TCP sockets.
pub fn listener_count() -> usize {
    listening_ports().len()
}

/// Returns the port of each listening TCP socket. A port may occur more than once.
pub fn listening_ports() -> Vec<u16> {
    socket_table("thread-self", TCP_TABLES)
        .iter()
        .filter(|entry| entry.state == LISTEN)
        .map(|entry| entry.local_port)
        .collect()
}

/// Returns whether a TCP client has sent bytes to the server at the port that the server has not
/// read. Unlike the state of the connection, this shows that connect(2) has returned to the client.
pub fn has_unread_bytes(port: u16) -> bool {
    socket_table("thread-self", TCP_TABLES).iter().any(|entry| {
        entry.state == ESTABLISHED && entry.local_port == port && entry.unread_bytes > 0
    })
}

/// Returns the number of TCP connections of a process, without those of its children.
pub fn connection_count(pid: u32) -> usize {
    let table = socket_table("thread-self", TCP_TABLES);
    let links = descriptors(pid).filter_map(|descriptor| std::fs::read_link(descriptor).ok());
    // Several descriptors may refer to one socket.
    let inodes: HashSet<u64> = links
        .filter_map(|link| {
            link.to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?
                .parse()
                .ok()
        })
        .collect();
    let connected = table
        .iter()
        .filter(|entry| entry.state == ESTABLISHED && inodes.contains(&entry.inode));
    connected.count()
}

/// Returns the descriptors of each thread of a process, as paths in /proc. Threads may have private
/// descriptor tables.
pub(crate) fn descriptors(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = |directory: PathBuf| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let threads = entries(format!("/proc/{pid}/task").into());
    let descriptors = threads.flat_map(move |thread| entries(thread.path().join("fd")));
    descriptors.map(|descriptor| descriptor.path())
}

/// Returns a kernel counter of a protocol in the namespace of this thread, such as `InDatagrams` of
/// `Udp` or `MPCapableSYNRX` of `MPTcpExt`. Returns 0 if the counter does not exist.
pub fn kernel_counter(protocol: &str, name: &str) -> u64 {
    let tables = ["snmp", "netstat"].map(|table| format!("/proc/thread-self/net/{table}"));
    let text = tables
        .map(|table| std::fs::read_to_string(table).unwrap_or_default())
        .concat();
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or_default()
}

fn socket_table(process: &str, table_names: [&str; 2]) -> Vec<SocketEntry> {
    let read_table =
        |name| std::fs::read_to_string(format!("/proc/{process}/net/{name}")).unwrap_or_default();
    let tables = table_names.map(read_table);
    tables.iter().flat_map(|table| parse_table(table)).collect()
}

fn parse_table(table: &str) -> impl Iterator<Item = SocketEntry> {
    table.lines().filter_map(parse_entry)
}

/// Parses a line of a socket table. Returns `None` for the header line.
fn parse_entry(line: &str) -> Option<SocketEntry> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let port = |word: &str| u16::from_str_radix(word.rsplit_once(':')?.1, 16).ok();
    // The kernel prints the address as a number in its own byte order.
    let remote_host = words.get(2)?.split_once(':').map(|(host, _)| host);
    let remote_host = remote_host.filter(|host| host.len() == 8);
    let remote_host = remote_host.and_then(|host| u32::from_str_radix(host, 16).ok());
    Some(SocketEntry {
        local_port: port(words.get(1)?)?,
        remote_host: remote_host.map(|host| host.to_ne_bytes().into()),
        remote_port: port(words.get(2)?)?,
        state: u8::from_str_radix(words.get(3)?, 16).ok()?,
        unread_bytes: u64::from_str_radix(words.get(4)?.split_once(':')?.1, 16).ok()?,
        inode: words.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn finds_connected_datagram_sockets() {
        let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        first.connect(second.local_addr().unwrap()).unwrap();
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        let peer = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port(&second));
        let connections = datagram_connections();
        assert!(connections.contains(&(port(&first), peer)));
        assert!(!connections.iter().any(|(local, _)| *local == port(&second)));
    }

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 00000000:3241 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n   \
        1: 0100007F:A000 0100007F:3242 01 00000000:000000A0 00:00000000 00000000     0        0 4712 1\n";

    #[test]
    fn parses_entries_of_a_table() {
        let entries: Vec<_> = parse_table(TABLE)
            .map(|entry| {
                (
                    entry.local_port,
                    entry.remote_port,
                    entry.state,
                    entry.unread_bytes,
                    entry.inode,
                )
            })
            .collect();
        assert_eq!(
            entries,
            [
                (12865, 0, LISTEN, 0, 4711),
                (40960, 12866, ESTABLISHED, 160, 4712)
            ]
        );
    }

    /// `_copies` stands for the copies in a child of another thread before its execve(2).
    #[test]
    fn a_server_can_bind_a_free_port_immediately() {
        let (_copies, port) = bind_free_port();
        assert!(!is_listening(port));
        let _server = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(is_listening(port));
    }

    #[test]
    fn a_connected_socket_does_not_receive_from_others() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        assert!(receives_datagrams(address.port()));
        socket.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
        assert!(!receives_datagrams(address.port()));
    }
}
