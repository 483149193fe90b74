//! Detects other instances of a program in this network namespace, without a file, a server, or
//! cleanup. Each instance has a datagram socket with an abstract name (unix(7)), which vanishes
//! with its process.
//!
//! A new instance finds the names in /proc/net/unix and sends an empty datagram to each. So earlier
//! instances detect later ones, even those that have already ended. If a step fails, the only
//! effect is that an instance is not counted.

use std::collections::BTreeSet;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Registration of this instance, and the others that it has detected. Dropping it ends the
/// registration.
#[derive(Debug)]
pub struct Instances {
    socket: UnixDatagram,
    kind: String,
    /// Names of the other instances that have been detected.
    known: BTreeSet<Vec<u8>>,
}

impl Instances {
    /// Registers an instance under `kind`, the prefix of its abstract name, and notifies the
    /// others. Registrations of the same process count as others too.
    pub fn register(kind: &str) -> io::Result<Self> {
        static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        let local_name = format!("{kind}-{}-{number}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&local_name)?)?;
        socket.set_nonblocking(true)?;
        // The table is read after this name is in it, so two simultaneous instances detect each
        // other. Names in the table may be any bytes; those that match `kind` are text.
        let table = std::fs::read("/proc/net/unix")?;
        let table = String::from_utf8_lossy(&table);
        let mut known = BTreeSet::new();
        for name in names_of_kind(&table, kind)
            .filter(|name| *name != local_name)
            .take(MAX_NAMES)
        {
            known.insert(name.as_bytes().to_vec());
            // If the queue is full, that instance counts many others already; a failure is ignored.
            let to = SocketAddr::from_abstract_name(name);
            let _ = to.and_then(|to| socket.send_to_addr(&[], &to));
        }
        Ok(Self {
            socket,
            kind: kind.to_owned(),
            known,
        })
    }

    /// Returns the number of other instances since the registration, as a lower bound. The kernel
    /// queues `net.unix.max_dgram_qlen` datagrams of later instances: ten, or some hundreds.
    pub fn count_others(&mut self) -> usize {
        // Any process can send any number of datagrams, so the loop is bounded.
        for _ in 0..MAX_NAMES {
            let Ok((_, from)) = self.socket.recv_from(&mut [0; 1]) else {
                break;
            };
            let name = from.as_abstract_name();
            if self.known.len() < MAX_NAMES
                && let Some(name) = name.filter(|name| is_of_kind(name, &self.kind))
            {
                self.known.insert(name.to_vec());
            }
        }
        self.known.len()
    }
}

/// Limit of counted names and received datagrams.
const MAX_NAMES: usize = 10_000;

/// Returns the abstract names of a kind in /proc/net/unix: the last word of a line, after an `@`.
fn names_of_kind<'a>(table: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    table.lines().filter_map(move |line| {
        let name = line.rsplit(' ').next()?.strip_prefix('@')?;
        is_of_kind(name.as_bytes(), kind).then_some(name)
    })
}

fn is_of_kind(name: &[u8], kind: &str) -> bool {
    let suffix = name.strip_prefix(kind.as_bytes());
    suffix.is_some_and(|suffix| suffix.starts_with(b"-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_selected_by_kind() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 8421 /run/a-1-0\n\
            0000: 00000002 00000000 00000000 0002 01 8422 @a-7-0\n\
            0000: 00000002 00000000 00000000 0002 01 8423 @ab-7-0\n\
            0000: 00000003 00000000 00000000 0001 03 8424\n\
            0000: 00000002 00000000 00000000 0002 01 8425 @a-8-1\n";
        assert_eq!(
            names_of_kind(table, "a").collect::<Vec<_>>(),
            ["a-7-0", "a-8-1"]
        );
    }

    #[test]
    fn each_instance_counts_all_others_that_ran_since_its_start() {
        let kind = format!("linerate-unit-{}", std::process::id());
        let mut first = Instances::register(&kind).unwrap();
        assert_eq!(first.count_others(), 0);
        let mut second = Instances::register(&kind).unwrap();
        assert_eq!((first.count_others(), second.count_others()), (1, 1));
        drop(second);
        let mut third = Instances::register(&kind).unwrap();
        assert_eq!((first.count_others(), third.count_others()), (2, 1));
        drop((first, third));
        assert_eq!(Instances::register(&kind).unwrap().count_others(), 0);
    }

    #[test]
    fn other_sockets_are_ignored() {
        let kind = format!("linerate-strange-{}", std::process::id());
        // A name that is not UTF-8, and a name whose prefix is longer than the kind.
        let strangers = [&b"\xff\xfe-1-0"[..], b"r-1-0"].map(|suffix| {
            let name = [kind.as_bytes(), suffix].concat();
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
        });
        let mut instance = Instances::register(&kind).unwrap();
        let address = instance.socket.local_addr().unwrap();
        for stranger in &strangers {
            stranger.send_to_addr(&[], &address).unwrap();
        }
        UnixDatagram::unbound()
            .unwrap()
            .send_to_addr(&[], &address)
            .unwrap();
        assert_eq!(instance.count_others(), 0);
        assert!(Instances::register(&kind).is_ok());
    }

    #[test]
    fn at_least_a_full_queue_of_instances_is_counted() {
        let kind = format!("linerate-many-{}", std::process::id());
        let mut first = Instances::register(&kind).unwrap();
        let others: Vec<_> = (0..40)
            .map(|_| Instances::register(&kind).unwrap())
            .collect();
        assert!((10..=40).contains(&first.count_others()));
        assert_eq!(others.last().unwrap().known.len(), 40);
    }
}
