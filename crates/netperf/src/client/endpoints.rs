//! The data connection's two ends: from names to addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::Address;
use sys::resolve::{Resolved, Wanted, resolve};

use super::control::Established;
use super::error::ClientError;
use crate::options::{Family, Settings};
use crate::result::Endpoints;

impl Endpoints {
    /// The ends that the settings ask for: what they leave open is the control connection's, or would
    /// be if there were one.
    pub(super) fn of(
        settings: &Settings,
        control: Option<&Established>,
    ) -> Result<Self, ClientError> {
        let data = &settings.data;
        let mut dest = match (&data.host, control) {
            (None, Some(control)) if data.family.admits(&control.remote) => Resolved {
                name: control.remote_name.clone(),
                addresses: vec![control.remote.clone()],
            },
            (None, _) => look_up(&settings.control.host, data.family)?,
            (Some(host), _) => look_up(host, data.family)?,
        };
        let dest_addr = drawn(dest.addresses.swap_remove(0), data.host_bits);
        let dest_addr = with_port(&dest_addr, port(&data.port)?);
        let family = family_of(&dest_addr);

        let control_host = settings.control.local_host.as_ref();
        let local_host = data.local_host.as_ref();
        let local_host = local_host.or_else(|| {
            // A name of the one family says nothing in the other.
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
        let source_addr = drawn(source.addresses.swap_remove(0), data.local_bits);
        Ok(Self {
            source: with_port(&source_addr, port(&data.local_port)?),
            source_name: source.name,
            dest: dest_addr,
            dest_name: dest.name,
        })
    }

    /// Moves the ports that were asked for so far up, as each flow needs its own.
    pub(super) fn move_ports(&mut self, up: usize) -> Result<(), ClientError> {
        for end in [&mut self.source, &mut self.dest] {
            if end.port() == 0 {
                continue;
            }
            let port = u64::from(end.port()) + up as u64;
            let moved = u32::try_from(port)
                .ok()
                .and_then(|port| end.with_port(port));
            *end = moved.ok_or_else(|| ClientError::BadPort(port.to_string()))?;
        }
        Ok(())
    }

    /// Whether a source address was asked for.
    pub(super) fn source_is_given(&self) -> bool {
        !self.source.is_wildcard()
    }
}

/// Looks a name up; a failure has the stock tool's words.
pub(super) fn look_up(host: &str, family: Family) -> Result<Resolved, ClientError> {
    let wanted = match family {
        Family::Unspecified => Wanted::Any,
        Family::V4 => Wanted::V4,
        Family::V6 => Wanted::V6,
        Family::Vsock => return context(host),
    };
    resolve(host, wanted).map_err(|cause| ClientError::Unresolved(host.to_owned(), family, cause))
}

/// A context's number; there are no names for them.
fn context(host: &str) -> Result<Resolved, ClientError> {
    let context = host
        .parse()
        .map_err(|_| ClientError::BadContext(host.to_owned()))?;
    Ok(Resolved {
        name: host.to_owned(),
        addresses: vec![Address::Vsock { context, port: 0 }],
    })
}

/// Of the families that a name can have.
pub(super) fn family_of(address: &Address) -> Family {
    match address {
        Address::Vsock { .. } => Family::Vsock,
        address if address.is_ipv6() => Family::V6,
        _ => Family::V4,
    }
}

/// The wildcard of a family, under the names that the stock tool has for it.
pub(super) fn wildcard(family: Family) -> Resolved {
    let inet = |ip: IpAddr| Address::from(SocketAddr::new(ip, 0));
    let (name, address) = match family {
        Family::V6 => ("::0", inet(Ipv6Addr::UNSPECIFIED.into())),
        Family::Vsock => {
            let context = Address::ANY_CONTEXT;
            ("any", Address::Vsock { context, port: 0 })
        }
        _ => ("0.0.0.0", inet(Ipv4Addr::UNSPECIFIED.into())),
    };
    Resolved {
        name: name.to_owned(),
        addresses: vec![address],
    }
}

/// A port as typed: a number or the name of a service.
pub(super) fn port(text: &str) -> Result<u16, ClientError> {
    // What `-N` stands on is known without a list of services, too.
    let well_known = || SERVICES.iter().find(|(name, _)| *name == text);
    sys::resolve::port(text)
        .or_else(|| well_known().map(|(_, port)| *port))
        .ok_or_else(|| ClientError::BadPort(text.to_owned()))
}

/// RFC 862, 863, 864.
const SERVICES: [(&str, u16); 3] = [("echo", 7), ("discard", 9), ("chargen", 19)];

/// Every family with ports has the 16-bit ones.
pub(super) fn with_port(address: &Address, port: u16) -> Address {
    let changed = address.with_port(port.into());
    changed.unwrap_or_else(|| address.clone())
}

/// The address with the bits behind the first `bits` drawn anew.
fn drawn(mut address: Address, bits: Option<u8>) -> Address {
    if let (Some(bits), Address::Inet(inet)) = (bits, &mut address) {
        inet.set_ip(with_random_host(inet.ip(), bits));
    }
    address
}

/// Draws the bits behind the first `bits` of an address anew.
fn with_random_host(ip: IpAddr, bits: u8) -> IpAddr {
    let mut random = SmallRng::from_os_rng();
    match ip {
        IpAddr::V4(ip) => {
            let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(
                ip.to_bits() & !host | random.random::<u32>() & host,
            ))
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(
                ip.to_bits() & !host | random.random::<u128>() & host,
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
            let v4 = with_random_host("10.1.2.3".parse().unwrap(), 24);
            assert!(v4.to_string().starts_with("10.1.2."));
            let v6 = with_random_host("fd00:1::5".parse().unwrap(), 64);
            assert!(v6.to_string().starts_with("fd00:1:"), "{v6}");
            assert_eq!(
                with_random_host("10.1.2.3".parse().unwrap(), 32).to_string(),
                "10.1.2.3"
            );
        }
    }
}
