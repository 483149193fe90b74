//! Two hosts and what lies between them.
//!
//! ```text
//! directly     client0 ═══════════════════════════ server0
//! with a rate  client0 ═══ near0 (router) far0 ═══ server0
//! impaired     client0 ═══ near0 (router) tun0 ─── forwarder ─── tun1 (router) far0 ═══ server0
//! ```
//!
//! `═` is a veth pair with its segmentation offloads off. A rate is that of what goes out at `far0`
//! and `near0`, so it lies behind the forwarder.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use testkit::{Namespace, try_link};

use crate::forward::{Stop, Way};
use crate::journal::{Journal, Record};
use crate::schedule::{Direction, Schedule};

/// Of the client host: from the block for benchmarks, RFC 2544 §C.2.2.
pub const CLIENT: &str = "198.18.0.1";
/// Of the server host.
pub const SERVER: &str = "198.19.0.1";
/// Of the client host, if IPv6 is asked for.
pub const CLIENT6: &str = "fd12::1";
/// Of the server host.
pub const SERVER6: &str = "fd13::1";

/// Packets that may wait in a TUN device until the forwarder gets to them.
const TUN_QUEUE: u32 = 20_000;

/// What the link is to be like.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Of each direction, [`Direction::Forth`] first; `None` for as fast as it goes.
    pub rates: [Option<Rate>; 2],
    /// What the forwarder does; without one there is no forwarder.
    pub schedule: Option<Schedule>,
    /// Packets that may wait in the forwarder, in each direction.
    pub limit: usize,
    /// The forwarder never sleeps.
    pub spin: bool,
    /// IPv6 beside IPv4.
    pub ipv6: bool,
}

/// A token bucket, tc-tbf(8), in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Such as `100mbit`.
    pub rate: String,
    /// Such as `32kb`.
    pub burst: String,
    /// How long a packet may wait for its turn, such as `50ms`.
    pub latency: String,
}

/// The hosts and their routers, as long as this lives.
#[derive(Debug)]
pub struct Network {
    /// Where tests are started.
    pub client: Namespace,
    /// Where they are answered.
    pub server: Namespace,
    /// On the client's side, and without a forwarder the only one.
    near: Option<Namespace>,
    /// On the server's side.
    far: Option<Namespace>,
    /// On both routers.
    tuns: Option<[OwnedFd; 2]>,
    limit: usize,
    spin: bool,
    schedule: Schedule,
}

impl Network {
    /// Makes it.
    pub fn new(link: &Link) -> io::Result<Self> {
        let (client, server) = (Namespace::create()?, Namespace::create()?);
        let mut network = Self {
            client,
            server,
            near: None,
            far: None,
            tuns: None,
            limit: link.limit,
            spin: link.spin,
            schedule: link.schedule.clone().unwrap_or_default(),
        };
        if link.schedule.is_some() {
            network.with_forwarder(link)?;
        } else if link.rates.iter().any(Option::is_some) {
            network.with_router(link)?;
        } else {
            network.directly(link)?;
        }
        Ok(network)
    }

    /// Whether packets pass the forwarder, so that [`Network::forward`] must run.
    pub fn is_impaired(&self) -> bool {
        self.tuns.is_some()
    }

    /// Forwards until `stop`, and writes the log if it is to be kept.
    pub fn forward(&self, stop: &Stop, log: Option<&Path>) -> io::Result<Journal> {
        let Some([near, far]) = &self.tuns else {
            return Ok(Journal::default());
        };
        let (sender, receiver) = mpsc::channel::<Vec<Record>>();
        let way = |direction| {
            let (from, to) = match direction {
                Direction::Forth => (near, far),
                Direction::Back => (far, near),
            };
            Way {
                direction,
                from,
                to,
                stop: stop.as_fd(),
                course: self.schedule.course(direction),
                limit: self.limit,
                spin: self.spin,
                turns: 0,
            }
        };
        let mut journal = thread::scope(|scope| {
            let ways = Direction::ALL.map(|direction| {
                let (way, sender) = (way(direction), sender.clone());
                scope.spawn(move || way.run(&sender))
            });
            drop(sender);
            let journal = Journal::keep(&receiver, log);
            for way in ways {
                way.join().expect("a way returns its errors")?;
            }
            journal
        })?;
        for direction in Direction::ALL {
            journal.of(direction).queue_dropped = self.queue_dropped(direction)?;
        }
        Ok(journal)
    }

    /// What the kernel dropped because the forwarder did not read it in time.
    fn queue_dropped(&self, direction: Direction) -> io::Result<u64> {
        let (router, device) = match direction {
            Direction::Forth => (&self.near, "tun0"),
            Direction::Back => (&self.far, "tun1"),
        };
        let router = router.as_ref().expect("an impaired network has both");
        let table = router.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        Ok(transmit_drops(&table, device).unwrap_or(0))
    }

    fn directly(&self, link: &Link) -> io::Result<()> {
        let ends = [
            (&self.client, "client0", "198.18.0.1/15"),
            (&self.server, "server0", "198.19.0.1/15"),
        ];
        cable(ends[0], ends[1])?;
        if link.ipv6 {
            add_ipv6(&self.client, "client0", "fd12::1/15")?;
            add_ipv6(&self.server, "server0", "fd13::1/15")?;
        }
        Ok(())
    }

    fn with_router(&mut self, link: &Link) -> io::Result<()> {
        let router = Namespace::create()?;
        self.to_routers(&router, &router, link)?;
        self.near = Some(router);
        Ok(())
    }

    fn with_forwarder(&mut self, link: &Link) -> io::Result<()> {
        let (near, far) = (Namespace::create()?, Namespace::create()?);
        self.to_routers(&near, &far, link)?;
        let tuns = [
            tun(
                &near,
                "tun0",
                "198.19.0.0/16",
                link.ipv6.then_some("fd13::/16"),
            )?,
            tun(
                &far,
                "tun1",
                "198.18.0.0/16",
                link.ipv6.then_some("fd12::/16"),
            )?,
        ];
        (self.near, self.far, self.tuns) = (Some(near), Some(far), Some(tuns));
        Ok(())
    }

    /// Cables from both hosts to their routers, which may be one.
    fn to_routers(&self, near: &Namespace, far: &Namespace, link: &Link) -> io::Result<()> {
        let sides = [
            (
                &self.client,
                "client0",
                "198.18.0.1/16",
                near,
                "near0",
                "198.18.0.254/16",
            ),
            (
                &self.server,
                "server0",
                "198.19.0.1/16",
                far,
                "far0",
                "198.19.0.254/16",
            ),
        ];
        for (host, name, address, router, router_name, router_address) in sides {
            cable((host, name, address), (router, router_name, router_address))?;
            let (gateway, _) = router_address.split_once('/').expect("it has a length");
            host.run(&format!("ip route add default via {gateway}"))?;
            router.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
        }
        if link.ipv6 {
            for (host, name, address, router, router_name, gateway) in [
                (
                    &self.client,
                    "client0",
                    "fd12::1/16",
                    near,
                    "near0",
                    "fd12::fe",
                ),
                (
                    &self.server,
                    "server0",
                    "fd13::1/16",
                    far,
                    "far0",
                    "fd13::fe",
                ),
            ] {
                add_ipv6(host, name, address)?;
                add_ipv6(router, router_name, &format!("{gateway}/16"))?;
                host.run(&format!("ip -6 route add default via {gateway}"))?;
                router.enter(|| std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1"))?;
            }
        }
        let [forth, back] = &link.rates;
        for (rate, router, name) in [(forth, far, "far0"), (back, near, "near0")] {
            if let Some(Rate {
                rate,
                burst,
                latency,
            }) = rate
            {
                router.run(&format!(
                    "tc qdisc add dev {name} root tbf rate {rate} burst {burst} latency {latency}"
                ))?;
            }
        }
        Ok(())
    }
}

type End<'a> = testkit::End<'a>;

/// A link without offloads: an interface that segments counts one header for many segments, and a
/// token bucket drops what is larger than its burst.
fn cable(here: End, there: End) -> io::Result<()> {
    try_link(here, there)?;
    for (namespace, name, _) in [here, there] {
        namespace.run(&format!("ethtool -K {name} tso off gso off gro off"))?;
    }
    Ok(())
}

/// A TUN device on a router, with a route to the network behind it.
fn tun(router: &Namespace, name: &str, beyond: &str, beyond6: Option<&str>) -> io::Result<OwnedFd> {
    let device = router.enter(|| sys::tun::open(name))?;
    // Router solicitations are packets too.
    let _ = router
        .enter(|| std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1"));
    router.run(&format!("ip link set {name} txqueuelen {TUN_QUEUE} up"))?;
    router.run(&format!("ip route add {beyond} dev {name}"))?;
    if let Some(beyond) = beyond6 {
        router.enter(|| enable_ipv6(name))?;
        router.run(&format!("ip -6 route add {beyond} dev {name}"))?;
    }
    Ok(device)
}

fn add_ipv6(namespace: &Namespace, name: &str, address: &str) -> io::Result<()> {
    namespace.enter(|| enable_ipv6(name))?;
    namespace.run(&format!("ip address add {address} dev {name} nodad"))?;
    Ok(())
}

fn enable_ipv6(name: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "0")
}

/// Of an interface, in /proc/net/dev: proc(5). It counts bytes, packets, errors, drops, … received,
/// eight figures, and then the same transmitted.
fn transmit_drops(table: &str, interface: &str) -> Option<u64> {
    let figures = table.lines().find_map(|line| {
        let (name, figures) = line.split_once(':')?;
        (name.trim() == interface).then_some(figures)
    })?;
    figures.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_an_interface() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:       1       2    3    4    5     6          7         8       9      10   11   12   13    14      15         16\n  \
            tun0:    21      22   23   24   25    26         27        28      29      30   31   32   33    34      35         36\n";
        assert_eq!(transmit_drops(table, "tun0"), Some(32));
        assert_eq!(transmit_drops(table, "tun1"), None);
    }
}
