//! Resolves the two ends of the data connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::Address;
use sys::resolve::{AddressFamily, ResolvedName, resolve};

use super::control::ServerConnection;
use super::error::ClientError;
use crate::options::{Family, Settings};
use crate::result::Endpoints;

impl Endpoints {
    /// Resolves the ends in the settings. The hosts of the control options are the default, even if
    /// there is no control connection.
    pub(super) fn resolve(
        settings: &Settings,
        control: Option<&ServerConnection>,
    ) -> Result<Self, ClientError> {
        let data = &settings.data;
        let mut dest = match (&data.host, control) {
            (None, Some(control)) if data.family.includes(&control.remote) => ResolvedName {
                name: control.remote_name.clone(),
                addresses: vec![control.remote.clone()],
            },
            (None, _) => look_up(&settings.control.host, data.family)?,
            (Some(host), _) => look_up(host, data.family)?,
        };
        let dest_address = randomize_address(dest.addresses.swap_remove(0), data.host_prefix_bits);
        let dest_address = with_port(&dest_address, parse_port(&data.port)?);
        let family = family_of(&dest_address);

        let control_host = settings.control.local_host.as_ref();
        let local_host = data.local_host.as_ref();
        let local_host = local_host.or_else(|| {
            // A VSOCK context is not an IP name, and vice versa.
            control_host
                .filter(|_| (family == Family::Vsock) == (settings.control.family == Family::Vsock))
        });
        let mut source = match local_host {
            Some(host) => look_up(
                host,
                if data.local_family == Family::Unspecified {
                    family
                } else {
                    data.local_family
                },
            )?,
            None => wildcard(family),
        };
        let source_address =
            randomize_address(source.addresses.swap_remove(0), data.local_prefix_bits);
        Ok(Self {
            source: with_port(&source_address, parse_port(&data.local_port)?),
            source_name: source.name,
            dest: dest_address,
            dest_name: dest.name,
        })
    }

    /// Adds an offset to requested ports, because each flow needs its own.
    pub(super) fn add_to_ports(&mut self, offset: usize) -> Result<(), ClientError> {
        for end in [&mut self.source, &mut self.dest] {
            if end.port() == 0 {
                continue;
            }
            let port = u64::from(end.port()) + offset as u64;
            let moved = u32::try_from(port)
                .ok()
                .and_then(|port| end.with_port(port));
            *end = moved.ok_or_else(|| ClientError::BadPort(port.to_string()))?;
        }
        Ok(())
    }

    /// Whether the settings have a source address.
    pub(super) fn has_source_address(&self) -> bool {
        !self.source.is_wildcard()
    }
}

/// Resolves a name. The error has the stock tool's text.
pub(super) fn look_up(host: &str, family: Family) -> Result<ResolvedName, ClientError> {
    let address_family = match family {
        Family::Unspecified => AddressFamily::Any,
        Family::V4 => AddressFamily::V4,
        Family::V6 => AddressFamily::V6,
        Family::Vsock => return parse_context(host),
    };
    resolve(host, address_family)
        .map_err(|cause| ClientError::Unresolved(host.to_owned(), family, cause))
}

/// Parses a VSOCK context; contexts have no names.
fn parse_context(host: &str) -> Result<ResolvedName, ClientError> {
    let context = host
        .parse()
        .map_err(|_| ClientError::BadContext(host.to_owned()))?;
    Ok(ResolvedName {
        name: host.to_owned(),
        addresses: vec![Address::Vsock { context, port: 0 }],
    })
}

/// Returns the family of an address of IPv4, IPv6 or VSOCK.
pub(super) fn family_of(address: &Address) -> Family {
    match address {
        Address::Vsock { .. } => Family::Vsock,
        address if address.is_ipv6() => Family::V6,
        _ => Family::V4,
    }
}

/// Returns the wildcard address of a family, with the stock tool's name for it.
pub(super) fn wildcard(family: Family) -> ResolvedName {
    let inet = |ip: IpAddr| Address::from(SocketAddr::new(ip, 0));
    let (name, address) = match family {
        Family::V6 => ("::0", inet(Ipv6Addr::UNSPECIFIED.into())),
        Family::Vsock => {
            let context = Address::ANY_CONTEXT;
            ("any", Address::Vsock { context, port: 0 })
        }
        _ => ("0.0.0.0", inet(Ipv4Addr::UNSPECIFIED.into())),
    };
    ResolvedName {
        name: name.to_owned(),
        addresses: vec![address],
    }
}

/// Parses a port: a number or a service name.
pub(super) fn parse_port(text: &str) -> Result<u16, ClientError> {
    // The services for `-N` work without /etc/services.
    let well_known = || WELL_KNOWN_SERVICES.iter().find(|(name, _)| *name == text);
    sys::resolve::port(text)
        .or_else(|| well_known().map(|(_, port)| *port))
        .ok_or_else(|| ClientError::BadPort(text.to_owned()))
}

/// Services of RFC 862, 863 and 864.
const WELL_KNOWN_SERVICES: [(&str, u16); 3] = [("echo", 7), ("discard", 9), ("chargen", 19)];

/// Returns the address with this port; unchanged if its family has no such port.
pub(super) fn with_port(address: &Address, port: u16) -> Address {
    let changed = address.with_port(port.into());
    changed.unwrap_or_else(|| address.clone())
}

/// Returns the address with random bits after the first `prefix_bits`.
fn randomize_address(mut address: Address, prefix_bits: Option<u8>) -> Address {
    if let (Some(bits), Address::Inet(inet)) = (prefix_bits, &mut address) {
        inet.set_ip(randomize_host_bits(inet.ip(), bits));
    }
    address
}

/// Replaces the bits after the first `prefix_bits` of an IP address by random ones.
fn randomize_host_bits(ip: IpAddr, prefix_bits: u8) -> IpAddr {
    let mut random = SmallRng::from_os_rng();
    match ip {
        IpAddr::V4(ip) => {
            let host_mask = u32::MAX.checked_shr(prefix_bits.into()).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(
                ip.to_bits() & !host_mask | random.random::<u32>() & host_mask,
            ))
        }
        IpAddr::V6(ip) => {
            let host_mask = u128::MAX.checked_shr(prefix_bits.into()).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(
                ip.to_bits() & !host_mask | random.random::<u128>() & host_mask,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_part_stays() {
        for _ in 0..100 {
            let v4 = randomize_host_bits("10.1.2.3".parse().unwrap(), 24);
            assert!(v4.to_string().starts_with("10.1.2."));
            let v6 = randomize_host_bits("fd00:1::5".parse().unwrap(), 64);
            assert!(v6.to_string().starts_with("fd00:1:"), "{v6}");
            assert_eq!(
                randomize_host_bits("10.1.2.3".parse().unwrap(), 32).to_string(),
                "10.1.2.3"
            );
        }
    }
}
