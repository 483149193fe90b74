//! A multicast group that a server receives, one flow at a time.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{FirstDatagram, Stop};
use model::SocketOptions;
use sys::{Address, Socket, call, multicast};

use super::LARGEST;
use super::server::{begins, bind_failed};
use crate::options::{Serve, Settings};

/// How long a server waits for a flow before it looks at its stop again.
const LOOK: Duration = Duration::from_secs(3600);

/// The most datagrams of a flow that are read before its test starts.
const MOST_FIRST: usize = 1024;

/// A multicast group and its filters.
pub(super) struct Group {
    pub(super) address: Address,
    ip: IpAddr,
    /// `-H`: the source of a source-specific group.
    source: Option<IpAddr>,
    device: Option<String>,
    networks: Vec<server::Network>,
    /// `-t`: the time after which the server stops.
    pub(super) time: Option<Duration>,
}

impl Group {
    /// Reads the options of a server at a group's address.
    pub(super) fn of(
        settings: &Settings,
        serve: &Serve,
        address: &Address,
    ) -> Result<Self, String> {
        let ip = address.ip().ok_or("listener bind failed: no group")?;
        let device = settings
            .bind
            .as_deref()
            .and_then(|bind| bind.split_once('%'));
        let source = serve.source.as_deref().map(|source| {
            let found = sys::resolve::resolve(source, sys::resolve::Wanted::Any);
            let ip = found.ok().and_then(|found| found.addresses.first()?.ip());
            ip.ok_or_else(|| format!("-H {source}: Unknown host"))
        });
        Ok(Self {
            address: address.clone(),
            ip,
            source: source.transpose()?,
            device: device.map(|(_, device)| device.to_owned()),
            networks: serve.config.networks.clone(),
            time: serve.time,
        })
    }

    /// Returns a new socket that receives the group.
    pub(super) fn join(&self, options: &SocketOptions) -> Result<Socket, String> {
        let failed =
            |error: &std::io::Error| format!("multicast join failed: {}", sys::describe(error));
        let index = self.device.as_deref().map(sys::interface::index_of);
        let index = index
            .transpose()
            .map_err(|error| failed(&error))?
            .unwrap_or(0);
        let mut at = self.address.clone();
        if let (IpAddr::V6(ip), port) = (self.ip, at.port() as u16) {
            at = Address::Inet(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, index)));
        }
        let made = Socket::new(at.domain(), sys::Type::DGRAM, None);
        let socket = made.map_err(|error| bind_failed(&error))?;
        if let Some(bytes) = options.receive_buffer_bytes {
            let _ = socket.set_recv_buffer_size(bytes as usize);
        }
        // A group has any number of receivers on a host.
        let bound = socket.set_reuse_address(true);
        let bound = bound.and_then(|()| socket.bind(&at.to_kernel()?));
        bound.map_err(|error| bind_failed(&error))?;
        let joined = multicast::join(socket.as_fd(), self.ip, self.source, index);
        joined.map_err(|error| failed(&error))?;
        Ok(socket)
    }

    /// Waits for a flow's first datagram, and connects the socket to its sender. Returns the sender and the datagrams
    /// received so far; `None` after the stop or an error.
    pub(super) fn next(
        &self,
        socket: &Socket,
        stop: &Stop,
    ) -> Option<(Address, Vec<FirstDatagram>)> {
        let mut buffer = vec![0; LARGEST as usize];
        loop {
            let readable = stop.wait_readable(socket.as_fd(), Instant::now() + LOOK);
            if !readable.ok()? || stop.is_set() {
                return None;
            }
            let received = call::receive_from_without_waiting(socket.as_fd(), &mut buffer);
            let Ok((length, Some(from))) = received else {
                continue;
            };
            let mut first = vec![FirstDatagram::now(&buffer[..length])];
            let is_wanted = self
                .networks
                .iter()
                .any(|network| from.ip().is_some_and(|ip| network.contains(ip)));
            if !begins(&first[0].data) || !(self.networks.is_empty() || is_wanted) {
                continue;
            }
            socket.connect(&from.to_kernel().ok()?).ok()?;
            // The socket may still hold datagrams of other senders, which came before the connect.
            while let Ok((length, Some(other))) =
                call::receive_from_without_waiting(socket.as_fd(), &mut buffer)
            {
                if other == from {
                    first.push(FirstDatagram::now(&buffer[..length]));
                }
                if first.len() > MOST_FIRST {
                    break;
                }
            }
            return Some((from, first));
        }
    }

    /// Returns the line of stock's banner.
    pub(super) fn text(&self) -> String {
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
