//! Multicast groups: a server receives one flow at a time from its group.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{FirstDatagram, Stop};
use model::SocketOptions;
use sys::{Address, Socket, call, multicast};

use super::MAX_PAYLOAD_BYTES;
use super::first_datagram::can_begin_flow;
use super::server::bind_failed;
use crate::options::{ServerSettings, Settings};

/// The default of [`MulticastGroup::wait_time`].
const WAIT_TIME: Duration = Duration::from_secs(3600);

/// The maximum number of datagrams of a flow that are read before its test starts.
const MAX_EARLY_DATAGRAMS: usize = 1024;

/// A multicast group and its filters.
pub(super) struct MulticastGroup {
    pub(super) address: Address,
    ip: IpAddr,
    /// `-H`: the source of a source-specific group.
    source: Option<IpAddr>,
    device: Option<String>,
    networks: Vec<server::Network>,
    /// `-t`: the time after which the server stops.
    pub(super) time: Option<Duration>,
    /// The time of one wait for a datagram; the server waits again after it.
    wait_time: Duration,
}

impl MulticastGroup {
    /// Returns the group at `address`, with the filters from the server's options.
    pub(super) fn new(
        settings: &Settings,
        server_settings: &ServerSettings,
        address: &Address,
    ) -> Result<Self, String> {
        let ip = address.ip().ok_or("listener bind failed: no group")?;
        let device = settings
            .bind
            .as_deref()
            .and_then(|bind| bind.split_once('%'));
        let source = server_settings.source.as_deref().map(|source| {
            let resolved = sys::resolve::resolve(source, sys::resolve::AddressFamily::Any);
            let ip = resolved
                .ok()
                .and_then(|resolved| resolved.addresses.first()?.ip());
            ip.ok_or_else(|| format!("-H {source}: Unknown host"))
        });
        Ok(Self {
            address: address.clone(),
            ip,
            source: source.transpose()?,
            device: device.map(|(_, device)| device.to_owned()),
            networks: server_settings.config.networks.clone(),
            time: server_settings.time,
            wait_time: WAIT_TIME,
        })
    }

    /// Opens a socket and joins the group on it.
    pub(super) fn join(&self, options: &SocketOptions) -> Result<Socket, String> {
        let failed =
            |error: &std::io::Error| format!("multicast join failed: {}", sys::describe(error));
        let index = self.device.as_deref().map(sys::interface::index_by_name);
        let index = index
            .transpose()
            .map_err(|error| failed(&error))?
            .unwrap_or(0);
        let mut local = self.address.clone();
        if let (IpAddr::V6(ip), port) = (self.ip, local.port() as u16) {
            local = Address::Inet(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, index)));
        }
        let socket = Socket::new(local.domain(), sys::Type::DGRAM, None);
        let socket = socket.map_err(|error| bind_failed(&error))?;
        if let Some(bytes) = options.receive_buffer_bytes {
            let _ = socket.set_recv_buffer_size(bytes as usize);
        }
        // Several receivers on one host may join a group.
        let bound = socket.set_reuse_address(true);
        let bound = bound.and_then(|()| socket.bind(&local.to_kernel()?));
        bound.map_err(|error| bind_failed(&error))?;
        let joined = multicast::join(socket.as_fd(), self.ip, self.source, index);
        joined.map_err(|error| failed(&error))?;
        Ok(socket)
    }

    /// Waits for the first datagram of a flow, and connects the socket to its sender.
    ///
    /// Returns the sender and the datagrams received by then; `None` after the stop or an
    /// error of the socket.
    pub(super) fn next_flow(
        &self,
        socket: &Socket,
        stop: &Stop,
    ) -> Option<(Address, Vec<FirstDatagram>)> {
        let mut buffer = vec![0; MAX_PAYLOAD_BYTES as usize];
        loop {
            let readable = stop.wait_readable(socket.as_fd(), Instant::now() + self.wait_time);
            if stop.is_set() {
                return None;
            }
            if !readable.ok()? {
                continue;
            }
            let received = call::receive_from_without_waiting(socket.as_fd(), &mut buffer);
            let Ok((length, Some(from))) = received else {
                continue;
            };
            let mut datagrams = vec![FirstDatagram::received_now(&buffer[..length])];
            let is_allowed = self
                .networks
                .iter()
                .any(|network| from.ip().is_some_and(|ip| network.contains(ip)));
            if !can_begin_flow(&datagrams[0].data) || !(self.networks.is_empty() || is_allowed) {
                continue;
            }
            if !connect_to_source(socket, &from) {
                continue;
            }
            // Datagrams of other senders may have arrived before the connect.
            while let Ok((length, Some(sender))) =
                call::receive_from_without_waiting(socket.as_fd(), &mut buffer)
            {
                if sender == from {
                    datagrams.push(FirstDatagram::received_now(&buffer[..length]));
                }
                if datagrams.len() > MAX_EARLY_DATAGRAMS {
                    break;
                }
            }
            return Some((from, datagrams));
        }
    }

    /// Returns stock's banner line for the group.
    pub(super) fn banner_line(&self) -> String {
        let device = self
            .device
            .as_ref()
            .map_or(String::new(), |name| format!(" w/iface {name}"));
        match (self.source, &self.device) {
            (Some(source), _) => format!("Joining multicast (S,G)={source},{}{device}", self.ip),
            (None, Some(_)) => format!("Joining multicast (*,G)=*,{}{device}", self.ip),
            (None, None) => format!("Joining multicast group  {}", self.ip),
        }
    }
}

/// Connects the socket to the source of a datagram. Returns `false` if that is impossible: the
/// address can be forged, and have no route.
fn connect_to_source(socket: &Socket, from: &Address) -> bool {
    from.to_kernel()
        .is_ok_and(|from| socket.connect(&from).is_ok())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// A group whose waits for a datagram end at once, as each would after an hour.
    fn impatient_group() -> MulticastGroup {
        let address: SocketAddr = "239.255.1.1:0".parse().unwrap();
        MulticastGroup {
            address: Address::Inet(address),
            ip: address.ip(),
            source: None,
            device: None,
            networks: Vec::new(),
            time: None,
            wait_time: Duration::ZERO,
        }
    }

    fn socket_on_loopback() -> (Socket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (socket.into(), address)
    }

    #[test]
    fn the_server_waits_again_after_an_idle_hour() {
        let (socket, address) = socket_on_loopback();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = Address::Inet(sender.local_addr().unwrap());
        let (group, stop) = (impatient_group(), Stop::new());
        let flow = std::thread::scope(|scope| {
            let flow = scope.spawn(|| group.next_flow(&socket, &stop));
            // The waits end without a datagram until this one arrives.
            std::thread::sleep(Duration::from_millis(50));
            let mut datagram = [0; 100];
            datagram[3] = 1;
            sender.send_to(&datagram, address).unwrap();
            flow.join().unwrap()
        });
        let (sender, datagrams) = flow.expect("a flow after several waits");
        assert_eq!((sender, datagrams.len()), (from, 1));
    }

    #[test]
    fn a_source_without_a_route_begins_no_flow() {
        let (socket, _) = socket_on_loopback();
        for (source, is_connected) in [
            // A socket without SO_BROADCAST has no route to it on any host.
            ("255.255.255.255:1", false),
            ("[2001:db8::1]:1", false),
            ("127.0.0.1:1", true),
        ] {
            let from = Address::Inet(source.parse().unwrap());
            assert_eq!(connect_to_source(&socket, &from), is_connected, "{source}");
        }
    }
}
