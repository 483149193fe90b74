//! The kernel's tables of this thread's namespace: proc(5), `/proc/net/tcp`, `/proc/net/udp`, `/proc/net/snmp` and
//! `/proc/net/netstat`.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

/// A socket as the table has it.
struct Entry {
    local_port: u16,
    remote_port: u16,
    /// As in the kernel's `tcp_states.h`.
    state: u8,
    inode: u64,
}

const TCP: [&str; 2] = ["tcp", "tcp6"];
const UDP: [&str; 2] = ["udp", "udp6"];

const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// A port that was free for both families a moment ago. The kernel gives it to nobody by itself, and no other
/// caller in this process gets it soon.
pub fn free_port() -> u16 {
    let (_sockets, port) = bound_to_a_port();
    port
}

/// Below the ports that the kernel chooses (32768 to 60999), above the usual ports of servers.
const PORTS: Range<u32> = 22_000..32_000;

/// From one port to the next. Its neighbours, which a test may need too, come thousands of ports later.
const STRIDE: u32 = 7;

/// Sockets that other sockets with SO_REUSEADDR, such as servers' have, may share their port with.
///
/// A child that another thread starts at the same time has copies of them until its execve(2), a long time on a busy
/// machine. If they listened, the copies would be taken for a server's, and would keep the server out.
fn bound_to_a_port() -> (Vec<OwnedFd>, u16) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Two processes begin at different ports.
    let begin = std::process::id().wrapping_mul(769);
    (0..PORTS.len())
        .find_map(|_| {
            let next = begin.wrapping_add(NEXT.fetch_add(STRIDE, Relaxed));
            let port = PORTS.start + next % (PORTS.end - PORTS.start);
            let port = u16::try_from(port).expect("all of PORTS are ports");
            Some((bound_to(port)?, port))
        })
        .expect("there is a free port")
}

/// Sockets of both families at a port; `None` if somebody has it. A host may be without IPv6.
fn bound_to(port: u16) -> Option<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    for (family, anywhere) in [
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
        match rustix::net::bind(&socket, &SocketAddr::new(anywhere, port)) {
            Ok(()) => sockets.push(socket),
            Err(Errno::ADDRNOTAVAIL) => {}
            Err(_) => return None,
        }
    }
    (!sockets.is_empty()).then_some(sockets)
}

/// Whether the port is listened on.
pub fn is_listening(port: u16) -> bool {
    listens("thread-self", port)
}

/// Whether the port is listened on in the network namespace of a process, or of `thread-self`.
pub(crate) fn listens(of: &str, port: u16) -> bool {
    table(of, TCP)
        .iter()
        .any(|entry| entry.state == LISTEN && entry.local_port == port)
}

/// Whether a datagram socket that is not connected has the port.
pub fn takes_datagrams(port: u16) -> bool {
    receives("thread-self", port)
}

/// The same in the network namespace of a process, or of `thread-self`.
pub(crate) fn receives(of: &str, port: u16) -> bool {
    table(of, UDP)
        .iter()
        .any(|entry| entry.remote_port == 0 && entry.local_port == port)
}

/// How many sockets listen.
pub fn listeners() -> usize {
    listening_ports().len()
}

/// The ports that are listened on, each as often as it is.
pub fn listening_ports() -> Vec<u16> {
    table("thread-self", TCP)
        .iter()
        .filter(|entry| entry.state == LISTEN)
        .map(|entry| entry.local_port)
        .collect()
}

/// Whether somebody is connected to the port.
pub fn established(port: u16) -> bool {
    table("thread-self", TCP)
        .iter()
        .any(|entry| entry.state == ESTABLISHED && entry.remote_port == port)
}

/// How many connections the process itself has, its children's not counted.
pub fn connections_of(pid: u32) -> usize {
    let table = table("thread-self", TCP);
    let links = descriptors(pid).filter_map(|descriptor| std::fs::read_link(descriptor).ok());
    // Two descriptors may be of one socket.
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

/// The descriptors of each thread of a process, as proc(5) has them: threads may have tables of their own.
pub(crate) fn descriptors(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = |directory: PathBuf| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let threads = entries(format!("/proc/{pid}/task").into());
    let of_threads = threads.flat_map(move |thread| entries(thread.path().join("fd")));
    of_threads.map(|descriptor| descriptor.path())
}

/// What the kernel has counted of a protocol in this thread's namespace: of "Udp" say "InDatagrams", of
/// "MPTcpExt" "MPCapableSYNRX". 0 if there is no such counter.
pub fn counter(protocol: &str, name: &str) -> u64 {
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
        .find(|(known, _)| *known == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or_default()
}

fn table(process: &str, families: [&str; 2]) -> Vec<Entry> {
    let of = |family| {
        std::fs::read_to_string(format!("/proc/{process}/net/{family}")).unwrap_or_default()
    };
    let tables = families.map(of);
    tables.iter().flat_map(|table| entries(table)).collect()
}

fn entries(table: &str) -> impl Iterator<Item = Entry> {
    table.lines().filter_map(entry)
}

/// `None` for the headings.
fn entry(line: &str) -> Option<Entry> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let port = |word: &str| u16::from_str_radix(word.rsplit_once(':')?.1, 16).ok();
    Some(Entry {
        local_port: port(words.get(1)?)?,
        remote_port: port(words.get(2)?)?,
        state: u8::from_str_radix(words.get(3)?, 16).ok()?,
        inode: words.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 00000000:3241 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n   \
        1: 0100007F:A000 0100007F:3242 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";

    #[test]
    fn entries_of_a_table() {
        let found: Vec<_> = entries(TABLE)
            .map(|entry| {
                (
                    entry.local_port,
                    entry.remote_port,
                    entry.state,
                    entry.inode,
                )
            })
            .collect();
        assert_eq!(
            found,
            [(12865, 0, LISTEN, 4711), (40960, 12866, ESTABLISHED, 4712)]
        );
    }

    /// As if a child of another thread had not executed its program yet.
    #[test]
    fn a_free_port_is_a_servers_at_once() {
        let (_copies, port) = bound_to_a_port();
        assert!(!is_listening(port));
        let _server = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(is_listening(port));
    }

    #[test]
    fn a_connected_socket_takes_no_datagrams_of_others() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        assert!(takes_datagrams(address.port()));
        socket.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
        assert!(!takes_datagrams(address.port()));
    }
}
