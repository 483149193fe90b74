//! The addresses and sockets of a client's flows.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use engine::{DataSocket, Role as End};
use sys::Address;
use sys::resolve::{Wanted, resolve};

use super::Run;
use crate::event::Event;
use crate::options::{Client, Settings};

/// The deadline of a connection.
const CONNECT: Duration = Duration::from_secs(20);

/// Resolves the server's address, with the first port.
pub(super) fn of_server(settings: &Settings, client: &Client) -> Result<Address, String> {
    let (host, _) = client.host.split_once('%').unwrap_or((&client.host, ""));
    let wanted = match (settings.v6, host.contains(':')) {
        (true, _) => Wanted::V6,
        (false, true) => Wanted::Any,
        (false, false) => Wanted::V4,
    };
    resolve(host, wanted)
        .ok()
        .and_then(|found| found.at(settings.ports.0).into_iter().next())
        .ok_or_else(|| unknown(host, settings.v6))
        .and_then(|to| scoped(&to, client.host.split_once('%')))
}

/// The error of a host without a usable address.
fn unknown(host: &str, only_v6: bool) -> String {
    if only_v6 {
        return format!(
            "ERROR: failed to find an ip address for host '{host}': -V needs an IPv6 address"
        );
    }
    format!("{host}: Unknown host")
}

/// Adds the interface of `host%device` to an IPv6 address that needs one: a group, or a link-local address.
fn scoped(to: &Address, named: Option<(&str, &str)>) -> Result<Address, String> {
    let (Address::Inet(SocketAddr::V6(address)), Some((_, device))) = (to, named) else {
        return Ok(to.clone());
    };
    let ip = address.ip();
    if !ip.is_multicast() && !ip.is_unicast_link_local() {
        return Ok(to.clone());
    }
    let index = sys::interface::index_of(device)
        .map_err(|error| format!("{device}: {}", sys::describe(&error)))?;
    let scoped = SocketAddrV6::new(*ip, address.port(), 0, index);
    Ok(Address::Inet(scoped.into()))
}

/// Returns the address `by` addresses further.
fn further(address: &Address, by: u32) -> Address {
    let Address::Inet(socket) = address else {
        return address.clone();
    };
    let mut next = *socket;
    next.set_ip(match socket.ip() {
        IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).wrapping_add(by).into()),
        IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).wrapping_add(by.into()).into()),
    });
    Address::Inet(next)
}

impl Run<'_> {
    /// Returns the destination of a flow: each port of a range has one flow.
    pub(crate) fn target(&self, flow: u32) -> Result<Address, String> {
        let (first, last) = self.settings.ports;
        let increments = self.client.increments;
        let is_next = first != last || increments.port;
        let port = u32::from(first) + if is_next { flow } else { 0 };
        let to = if increments.host {
            further(&self.to, flow)
        } else {
            self.to.clone()
        };
        let to = to.with_port(port);
        to.ok_or_else(|| format!("{port} is no port"))
    }

    /// Returns the address to bind a flow to: `-B`, with a port per flow if `-B` has a port.
    pub(crate) fn local(&self, flow: u32) -> Result<Address, String> {
        let anywhere = self.to.anywhere().with_any_port();
        let Some(bind) = &self.settings.bind else {
            return Ok(anywhere);
        };
        let (bind, _) = bind.split_once('%').unwrap_or((bind, ""));
        let (host, port) = match bind.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None if bind.matches(':').count() == 1 => {
                let (host, port) = bind.split_once(':').unwrap_or((bind, ""));
                (host, Some(port))
            }
            None => (bind, None),
        };
        let port: u32 = match port.map(str::parse) {
            None => 0,
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(format!("{bind}: its port is not a number")),
        };
        let wanted = if self.to.is_ipv6() {
            Wanted::V6
        } else {
            Wanted::V4
        };
        let found = resolve(host, wanted).map_err(|_| format!("{host}: Unknown host"))?;
        let port = if port == 0 { 0 } else { port + flow };
        let address = found.addresses.into_iter().next().map(|address| {
            let is_next = self.client.increments.source;
            further(&address, if is_next { flow } else { 0 })
        });
        let address = address.and_then(|address| address.with_port(port));
        address.ok_or_else(|| format!("{bind}: no address with this port"))
    }

    /// Opens the socket of a flow.
    pub(crate) fn open(&self, flow: u32) -> Result<DataSocket, String> {
        let local = self.local(flow)?;
        let plan = self.client.plan.flow().map(|flow| flow.here.socket.clone());
        let options = plan.unwrap_or_default();
        let data = DataSocket::open(self.settings.transport, &local, &options, End::Initiator);
        let data = data.map_err(|error| match error.what() {
            "bind it" => format!("bind failed: {}", sys::describe(error.error())),
            _ => error.to_string(),
        })?;
        for refused in &data.refused {
            let (name, why) = (&refused.asked, &refused.why);
            let line = format!("Attempt to set '{name}' congestion control failed: {why}");
            self.observer.see(&Event::Trouble(line));
        }
        Ok(data)
    }

    /// Connects a flow's socket, with the retries of `--connect-retries`.
    pub(super) fn connect(&self, flow: u32) -> Option<(DataSocket, Duration)> {
        let mut tries = self.client.retries;
        loop {
            let data = match self.open(flow) {
                Ok(data) => data,
                Err(why) => {
                    self.announce(None);
                    self.fail(why);
                    return None;
                }
            };
            self.announce(Some(&data));
            let began = Instant::now();
            let (in_time, _deadline) = self.stop.follower_until(began + CONNECT);
            let to = self.target(flow).ok()?;
            let Err(error) = engine::connect(&data.socket, &to, &in_time) else {
                return Some((data, began.elapsed()));
            };
            let why = match error {
                engine::ConnectError::Failed(error) => sys::describe(&error),
                engine::ConnectError::Stopped(_) => "Connection timed out".to_owned(),
            };
            let line = format!("tcp connect failed: {why}");
            if tries == 0 || self.stop.is_set() {
                self.fail(line);
                return None;
            }
            self.observer.see(&Event::Trouble(line));
            tries -= 1;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
