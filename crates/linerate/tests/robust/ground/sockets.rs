//! The kernel's table of TCP sockets in this thread's namespace: proc(5), `/proc/net/tcp`.

use std::collections::HashSet;

/// A socket as the table has it.
struct Entry {
    local_port: u16,
    remote_port: u16,
    /// As in the kernel's `tcp_states.h`.
    state: u8,
    inode: u64,
}

const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// Whether the port is listened on.
pub(crate) fn is_listening(port: u16) -> bool {
    table()
        .iter()
        .any(|entry| entry.state == LISTEN && entry.local_port == port)
}

/// How many sockets listen.
pub(crate) fn listeners() -> usize {
    table().iter().filter(|entry| entry.state == LISTEN).count()
}

/// Whether somebody is connected to the port.
pub(crate) fn established(port: u16) -> bool {
    table()
        .iter()
        .any(|entry| entry.state == ESTABLISHED && entry.remote_port == port)
}

/// How many connections the process itself has, its children's not counted.
pub(crate) fn connections_of(pid: u32) -> usize {
    let table = table();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let links = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
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

fn table() -> Vec<Entry> {
    let of =
        |name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let tables = ["tcp", "tcp6"].map(of);
    tables
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(entry)
        .collect()
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
