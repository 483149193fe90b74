//! The addresses and sockets of a client's flows.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use engine::{DataSocket, Role as End};
use sys::Address;
use sys::resolve::{AddressFamily, resolve};

use super::ClientRun;
use crate::event::TestEvent;
use crate::options::{ClientSettings, Settings};

/// The connect timeout of a flow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Resolves the server's address, with the first port.
pub(super) fn resolve_server(
    settings: &Settings,
    client: &ClientSettings,
) -> Result<Address, String> {
    let (host, _) = client.host.split_once('%').unwrap_or((&client.host, ""));
    let family = match (settings.v6, host.contains(':')) {
        (true, _) => AddressFamily::V6,
        (false, true) => AddressFamily::Any,
        (false, false) => AddressFamily::V4,
    };
    resolve(host, family)
        .ok()
        .and_then(|resolved| resolved.with_port(settings.ports.0).into_iter().next())
        .ok_or_else(|| unknown_host_error(host, settings.v6))
        .and_then(|address| with_scope(&address, client.host.split_once('%')))
}

/// Returns the error message for a host without a usable address.
fn unknown_host_error(host: &str, requires_ipv6: bool) -> String {
    if requires_ipv6 {
        return format!(
            "ERROR: failed to find an ip address for host '{host}': -V needs an IPv6 address"
        );
    }
    format!("{host}: Unknown host")
}

/// Adds the interface index of `host%device` to an IPv6 address.
///
/// Only multicast and link-local addresses need an index. Returns other addresses unchanged.
fn with_scope(address: &Address, host_and_device: Option<(&str, &str)>) -> Result<Address, String> {
    let (Address::Inet(SocketAddr::V6(address_v6)), Some((_, device))) = (address, host_and_device)
    else {
        return Ok(address.clone());
    };
    let ip = address_v6.ip();
    if !ip.is_multicast() && !ip.is_unicast_link_local() {
        return Ok(address.clone());
    }
    let index = sys::interface::index_by_name(device)
        .map_err(|error| format!("{device}: {}", sys::describe(&error)))?;
    let scoped = SocketAddrV6::new(*ip, address_v6.port(), 0, index);
    Ok(Address::Inet(scoped.into()))
}

/// Returns the address plus `offset`.
fn add_to_address(address: &Address, offset: u32) -> Address {
    let Address::Inet(socket) = address else {
        return address.clone();
    };
    let mut next = *socket;
    next.set_ip(match socket.ip() {
        IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).wrapping_add(offset).into()),
        IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).wrapping_add(offset.into()).into()),
    });
    Address::Inet(next)
}

impl ClientRun<'_> {
    /// Returns the destination of a flow.
    ///
    /// With a range of ports or with port increments, each flow has its own port. With host
    /// increments, each flow has its own address.
    pub(crate) fn destination(&self, flow: u32) -> Result<Address, String> {
        let (first, last) = self.settings.ports;
        let increments = self.client.increments;
        let has_own_port = first != last || increments.port;
        let port = u32::from(first) + if has_own_port { flow } else { 0 };
        let host_address = if increments.host {
            add_to_address(&self.server_address, flow)
        } else {
            self.server_address.clone()
        };
        let address = host_address.with_port(port);
        address.ok_or_else(|| format!("{port} is not a port"))
    }

    /// Returns the address to bind a flow to, from `-B`.
    ///
    /// If `-B` has a port, each flow has its own port.
    pub(crate) fn local_address(&self, flow: u32) -> Result<Address, String> {
        let any_address = self.server_address.with_any_host().with_any_port();
        let Some(bind) = &self.settings.bind else {
            return Ok(any_address);
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
        let family = if self.server_address.is_ipv6() {
            AddressFamily::V6
        } else {
            AddressFamily::V4
        };
        let resolved = resolve(host, family).map_err(|_| format!("{host}: Unknown host"))?;
        let port = if port == 0 { 0 } else { port + flow };
        let address = resolved.addresses.into_iter().next().map(|address| {
            let has_own_source = self.client.increments.source;
            add_to_address(&address, if has_own_source { flow } else { 0 })
        });
        let address = address.and_then(|address| address.with_port(port));
        address.ok_or_else(|| format!("{bind}: no address, or the flow's port is above 65535"))
    }

    /// Opens the socket of a flow.
    pub(crate) fn open_socket(&self, flow: u32) -> Result<DataSocket, String> {
        let local = self.local_address(flow)?;
        let planned_options = self
            .client
            .plan
            .flow()
            .map(|flow| flow.local.socket.clone());
        let options = planned_options.unwrap_or_default();
        let data = DataSocket::open(self.settings.transport, &local, &options, End::Initiator);
        let data = data.map_err(|error| match error.action() {
            "bind the socket" => format!("bind failed: {}", sys::describe(error.error())),
            _ => error.to_string(),
        })?;
        crate::connection::set_tx_delay(&data, self.settings.tx_delay)?;
        for refused in &data.refused {
            let (name, reason) = (&refused.requested, &refused.reason);
            let message = format!("Attempt to set '{name}' congestion control failed: {reason}");
            self.observer.observe(&TestEvent::Error(message));
        }
        Ok(data)
    }

    /// Connects a flow's socket. Returns the socket and the connect time.
    ///
    /// Retries as the client's settings allow. Reports each failure to the observer.
    pub(super) fn connect(&self, flow: u32, number: u32) -> Option<(DataSocket, Duration)> {
        let id = self.flow_id(number, false);
        let retry = self.client.retry;
        let mut first_attempt = None;
        let mut attempts = 0;
        loop {
            let data = match self.open_socket(flow) {
                Ok(data) => data,
                Err(reason) => {
                    self.report_connecting(None);
                    self.fail(reason);
                    return None;
                }
            };
            self.report_connecting(Some(&data));
            let started = Instant::now();
            let first_attempt = *first_attempt.get_or_insert(started);
            attempts += 1;
            let (connect_stop, _deadline) = self.stop.child_until(started + CONNECT_TIMEOUT);
            let destination = match self.destination(flow) {
                Ok(destination) => destination,
                Err(reason) => {
                    self.fail(reason);
                    return None;
                }
            };
            let Err(error) = engine::connect(&data.socket, &destination, &connect_stop) else {
                return Some((data, started.elapsed()));
            };
            let reason = match error {
                engine::ConnectError::Failed(error) => sys::describe(&error),
                engine::ConnectError::Stopped(_) => "Connection timed out".to_owned(),
            };
            let next_attempt = first_attempt + retry.interval * attempts;
            let is_in_time = next_attempt <= first_attempt + retry.time;
            let is_stopped = self.stop.is_set();
            let is_last = (attempts > retry.count && !is_in_time) || is_stopped;
            self.observer.observe(&TestEvent::ConnectFailed {
                id: &id,
                peer: &destination,
                reason: &reason,
                has_expired: is_last && !is_stopped && !retry.time.is_zero(),
            });
            if is_last || !self.sleep_until(next_attempt) {
                let _ = self
                    .first_failure
                    .set(format!("tcp connect failed: {reason}"));
                return None;
            }
        }
    }
}
