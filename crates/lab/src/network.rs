//! A test network: two hosts and the link between them.
//!
//! ```text
//! directly     client0 ═══════════════════════════ server0
//! with a rate  client0 ═══ near0 (router) far0 ═══ server0
//! impaired     client0 ═══ near0 (router) tun0 ─── forwarder ─── tun1 (router) far0 ═══ server0
//! ```
//!
//! `═` is a veth pair without segmentation offloads. Token buckets at the egress of `far0` and
//! `near0` limit the rate, after the forwarder.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use sys::interface;
use testkit::{LinkEnd, Namespace, try_add_link};

use crate::forward::{Forwarder, ForwarderStop};
use crate::records::{ForwardRecord, PacketSums};
use crate::schedule::{ImpairmentSchedule, LinkDirection};

/// The address of the client host, from the block for benchmarks (RFC 2544 §C.2.2).
pub const CLIENT_ADDRESS: &str = "198.18.0.1";
/// The address of the server host.
pub const SERVER_ADDRESS: &str = "198.19.0.1";
/// The IPv6 address of the client host, if requested.
pub const CLIENT_ADDRESS6: &str = "fd12::1";
/// The IPv6 address of the server host, if requested.
pub const SERVER_ADDRESS6: &str = "fd13::1";

/// The maximum number of packets that wait in a TUN device until the forwarder reads them.
const TUN_QUEUE_LENGTH: u32 = 20_000;

/// Options of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// The rate limit of each direction, [`LinkDirection::ToServer`] first; `None` is unlimited.
    pub rates: [Option<TokenBucket>; 2],
    /// The impairments of the forwarder; `None` creates no forwarder.
    pub schedule: Option<ImpairmentSchedule>,
    /// The maximum number of packets that wait in the forwarder, per direction.
    pub queue_limit: usize,
    /// Whether the forwarder polls without sleeping.
    pub spin: bool,
    /// Whether the hosts also have IPv6 addresses.
    pub ipv6: bool,
}

/// The parameters of a token bucket, in the notation of tc-tbf(8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// The rate, for example `100mbit`.
    pub rate: String,
    /// The size of the bucket, for example `32kb`.
    pub burst: String,
    /// The maximum time that a packet waits for tokens, for example `50ms`.
    pub latency: String,
}

/// The hosts and their routers. Dropping this value removes them.
#[derive(Debug)]
pub struct TestNetwork {
    /// The host that runs the test client.
    pub client: Namespace,
    /// The host that runs the servers.
    pub server: Namespace,
    /// The router next to the client; without a forwarder, the only router.
    client_router: Option<Namespace>,
    /// The router next to the server.
    server_router: Option<Namespace>,
    /// The TUN devices of the client's and the server's router.
    tun_devices: Option<[OwnedFd; 2]>,
    queue_limit: usize,
    spin: bool,
    schedule: ImpairmentSchedule,
}

impl TestNetwork {
    /// Creates the namespaces and links.
    pub fn new(link: &LinkOptions) -> io::Result<Self> {
        let (client, server) = (Namespace::create()?, Namespace::create()?);
        let mut network = Self {
            client,
            server,
            client_router: None,
            server_router: None,
            tun_devices: None,
            queue_limit: link.queue_limit,
            spin: link.spin,
            schedule: link.schedule.clone().unwrap_or_default(),
        };
        if link.schedule.is_some() {
            network.connect_with_forwarder(link)?;
        } else if link.rates.iter().any(Option::is_some) {
            network.connect_with_router(link)?;
        } else {
            network.connect_directly(link)?;
        }
        Ok(network)
    }

    /// Returns whether packets pass the forwarder, so that [`TestNetwork::forward`] must run.
    pub fn is_impaired(&self) -> bool {
        self.tun_devices.is_some()
    }

    /// Forwards packets until `stop` is triggered. Writes one line per packet to `log`, if given.
    pub fn forward(&self, stop: &ForwarderStop, log: Option<&Path>) -> io::Result<PacketSums> {
        let Some([client_tun, server_tun]) = &self.tun_devices else {
            return Ok(PacketSums::default());
        };
        let (sender, receiver) = mpsc::channel::<Vec<ForwardRecord>>();
        let forwarder_of = |direction| {
            let (from, to) = match direction {
                LinkDirection::ToServer => (client_tun, server_tun),
                LinkDirection::ToClient => (server_tun, client_tun),
            };
            Forwarder {
                direction,
                from,
                to,
                stop: stop.as_fd(),
                impairer: self.schedule.impairer(direction),
                queue_limit: self.queue_limit,
                spin: self.spin,
                rounds: 0,
            }
        };
        let mut sums = thread::scope(|scope| {
            let threads = LinkDirection::ALL.map(|direction| {
                let (forwarder, sender) = (forwarder_of(direction), sender.clone());
                scope.spawn(move || forwarder.run(&sender))
            });
            drop(sender);
            let sums = PacketSums::collect(&receiver, log);
            for thread in threads {
                thread.join().expect("forwarders do not panic")?;
            }
            sums
        })?;
        for direction in LinkDirection::ALL {
            sums.direction_mut(direction).queue_dropped = self.queue_dropped(direction)?;
        }
        Ok(sums)
    }

    /// Returns the number of packets that the kernel dropped because the forwarder was too slow.
    fn queue_dropped(&self, direction: LinkDirection) -> io::Result<u64> {
        let (router, device) = match direction {
            LinkDirection::ToServer => (&self.client_router, "tun0"),
            LinkDirection::ToClient => (&self.server_router, "tun1"),
        };
        let router = router
            .as_ref()
            .expect("an impaired network has two routers");
        let link = router.enter(|| interface::link(interface::index_by_name(device)?))?;
        let traffic = link.traffic.ok_or(io::ErrorKind::InvalidData)?;
        Ok(traffic.send_drops)
    }

    fn connect_directly(&self, link: &LinkOptions) -> io::Result<()> {
        let ends = [
            (&self.client, "client0", "198.18.0.1/15"),
            (&self.server, "server0", "198.19.0.1/15"),
        ];
        add_link(ends[0], ends[1])?;
        if link.ipv6 {
            add_ipv6(&self.client, "client0", "fd12::1/15")?;
            add_ipv6(&self.server, "server0", "fd13::1/15")?;
        }
        Ok(())
    }

    fn connect_with_router(&mut self, link: &LinkOptions) -> io::Result<()> {
        let router = Namespace::create()?;
        self.connect_to_routers(&router, &router, link)?;
        self.client_router = Some(router);
        Ok(())
    }

    fn connect_with_forwarder(&mut self, link: &LinkOptions) -> io::Result<()> {
        let (client_router, server_router) = (Namespace::create()?, Namespace::create()?);
        self.connect_to_routers(&client_router, &server_router, link)?;
        let tun_devices = [
            add_tun(
                &client_router,
                "tun0",
                "198.19.0.0/16",
                link.ipv6.then_some("fd13::/16"),
            )?,
            add_tun(
                &server_router,
                "tun1",
                "198.18.0.0/16",
                link.ipv6.then_some("fd12::/16"),
            )?,
        ];
        (self.client_router, self.server_router, self.tun_devices) =
            (Some(client_router), Some(server_router), Some(tun_devices));
        Ok(())
    }

    /// Links each host to its router, which may be the same for both.
    fn connect_to_routers(
        &self,
        client_router: &Namespace,
        server_router: &Namespace,
        link: &LinkOptions,
    ) -> io::Result<()> {
        let sides = [
            (
                &self.client,
                "client0",
                "198.18.0.1/16",
                client_router,
                "near0",
                "198.18.0.254/16",
            ),
            (
                &self.server,
                "server0",
                "198.19.0.1/16",
                server_router,
                "far0",
                "198.19.0.254/16",
            ),
        ];
        for (host, name, address, router, router_name, router_address) in sides {
            add_link((host, name, address), (router, router_name, router_address))?;
            let (gateway, _) = router_address
                .split_once('/')
                .expect("the address has a prefix length");
            host.run(&format!("ip route add default via {gateway}"))?;
            router.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
        }
        if link.ipv6 {
            for (host, name, address, router, router_name, gateway) in [
                (
                    &self.client,
                    "client0",
                    "fd12::1/16",
                    client_router,
                    "near0",
                    "fd12::fe",
                ),
                (
                    &self.server,
                    "server0",
                    "fd13::1/16",
                    server_router,
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
        let [to_server_rate, to_client_rate] = &link.rates;
        for (rate, router, name) in [
            (to_server_rate, server_router, "far0"),
            (to_client_rate, client_router, "near0"),
        ] {
            if let Some(TokenBucket {
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

/// Adds a link without segmentation offloads. With offloads, an interface counts one header for
/// many segments, and a token bucket drops packets that are larger than its burst.
fn add_link(first: LinkEnd, second: LinkEnd) -> io::Result<()> {
    try_add_link(first, second)?;
    for (namespace, name, _) in [first, second] {
        namespace.run(&format!("ethtool -K {name} tso off gso off gro off"))?;
    }
    Ok(())
}

/// Creates a TUN device on a router and routes `network` and `network6` through it.
fn add_tun(
    router: &Namespace,
    name: &str,
    network: &str,
    network6: Option<&str>,
) -> io::Result<OwnedFd> {
    let device = router.enter(|| sys::tun::open(name))?;
    // Prevents router solicitations, which the forwarder would count.
    let _ = router
        .enter(|| std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1"));
    router.run(&format!(
        "ip link set {name} txqueuelen {TUN_QUEUE_LENGTH} up"
    ))?;
    router.run(&format!("ip route add {network} dev {name}"))?;
    if let Some(network6) = network6 {
        router.enter(|| enable_ipv6(name))?;
        router.run(&format!("ip -6 route add {network6} dev {name}"))?;
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
