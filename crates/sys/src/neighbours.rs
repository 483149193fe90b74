//! Who else of one kind runs in this network namespace, without a file, a server or anything to clean
//! up: each has a datagram socket with an abstract name (unix(7)), which goes when its process does.
//!
//! A newcomer finds the names in /proc/net/unix and sends each an empty datagram, so that who was there
//! before learns of who came later, even if that one has gone again. Whatever fails, somebody is
//! missed, and nothing else happens.

use std::collections::BTreeSet;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A place among others of the same kind, until it is dropped.
#[derive(Debug)]
pub struct Neighbours {
    socket: UnixDatagram,
    kind: String,
    /// The names of all others that were there since.
    known: BTreeSet<Vec<u8>>,
}

impl Neighbours {
    /// Takes a place under `kind`, which is the beginning of an abstract name, and says so to the
    /// others. The places of its own process are others', too.
    pub fn join(kind: &str) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let own = format!("{kind}-{}-{number}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&own)?)?;
        socket.set_nonblocking(true)?;
        // Read when one's own name stands in it: of two that come at once each finds the other.
        // Others' names may be any bytes; those of a kind are text.
        let table = std::fs::read("/proc/net/unix")?;
        let table = String::from_utf8_lossy(&table);
        let mut known = BTreeSet::new();
        for name in names(&table, kind).filter(|name| *name != own).take(MOST) {
            known.insert(name.as_bytes().to_vec());
            // One that is full has been told often enough.
            let to = SocketAddr::from_abstract_name(name);
            let _ = to.and_then(|to| socket.send_to_addr(&[], &to));
        }
        Ok(Self {
            socket,
            kind: kind.to_owned(),
            known,
        })
    }

    /// How many others there were since the place was taken, at least: of those that came later the
    /// kernel keeps some ten words, or hundreds (`net.unix.max_dgram_qlen`).
    pub fn count(&mut self) -> usize {
        // Whoever likes can send, and go on sending.
        for _ in 0..MOST {
            let Ok((_, from)) = self.socket.recv_from(&mut [0; 1]) else {
                break;
            };
            let name = from.as_abstract_name();
            if self.known.len() < MOST
                && let Some(name) = name.filter(|name| is_of_kind(name, &self.kind))
            {
                self.known.insert(name.to_vec());
            }
        }
        self.known.len()
    }
}

/// More would say no more.
const MOST: usize = 10_000;

/// The abstract names of a kind in /proc/net/unix: the last word of a line, an `@` before them.
fn names<'a>(table: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    table.lines().filter_map(move |line| {
        let name = line.rsplit(' ').next()?.strip_prefix('@')?;
        is_of_kind(name.as_bytes(), kind).then_some(name)
    })
}

fn is_of_kind(name: &[u8], kind: &str) -> bool {
    let rest = name.strip_prefix(kind.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_kind() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 8421 /run/a-1-0\n\
            0000: 00000002 00000000 00000000 0002 01 8422 @a-7-0\n\
            0000: 00000002 00000000 00000000 0002 01 8423 @ab-7-0\n\
            0000: 00000003 00000000 00000000 0001 03 8424\n\
            0000: 00000002 00000000 00000000 0002 01 8425 @a-8-1\n";
        assert_eq!(names(table, "a").collect::<Vec<_>>(), ["a-7-0", "a-8-1"]);
    }

    #[test]
    fn each_learns_of_the_others_even_of_those_that_have_gone() {
        let kind = format!("linerate-unit-{}", std::process::id());
        let mut first = Neighbours::join(&kind).unwrap();
        assert_eq!(first.count(), 0);
        let mut second = Neighbours::join(&kind).unwrap();
        assert_eq!((first.count(), second.count()), (1, 1));
        drop(second);
        let mut third = Neighbours::join(&kind).unwrap();
        assert_eq!((first.count(), third.count()), (2, 1));
        drop((first, third));
        assert_eq!(Neighbours::join(&kind).unwrap().count(), 0);
    }

    #[test]
    fn strangers_are_no_neighbours_and_no_hindrance() {
        let kind = format!("linerate-strange-{}", std::process::id());
        // Bytes that are no text, and a name that only begins like one of the kind.
        let strangers = [&b"\xff\xfe-1-0"[..], b"r-1-0"].map(|rest| {
            let name = [kind.as_bytes(), rest].concat();
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
        });
        let mut place = Neighbours::join(&kind).unwrap();
        let own = place.socket.local_addr().unwrap();
        for stranger in &strangers {
            stranger.send_to_addr(&[], &own).unwrap();
        }
        UnixDatagram::unbound()
            .unwrap()
            .send_to_addr(&[], &own)
            .unwrap();
        assert_eq!(place.count(), 0);
        assert!(Neighbours::join(&kind).is_ok());
    }

    #[test]
    fn more_newcomers_than_the_kernel_keeps_words_of_are_many() {
        let kind = format!("linerate-many-{}", std::process::id());
        let mut first = Neighbours::join(&kind).unwrap();
        let others: Vec<_> = (0..40).map(|_| Neighbours::join(&kind).unwrap()).collect();
        assert!((10..=40).contains(&first.count()));
        assert_eq!(others.last().unwrap().known.len(), 40);
    }
}
