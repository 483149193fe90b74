//! The sockets of `linerate serve`. The server opens them, or systemd passes them.

use std::io;

use clap::ValueEnum;
use model::{SocketOptions, Transport};
use server::{inherited_sockets, listen};
use sys::resolve::{AddressFamily, resolve};
use sys::{Address, Socket, Type};

use super::{Args, DialectName};

/// The sockets of one dialect.
pub(super) struct DialectSockets {
    pub(super) name: DialectName,
    /// The host of `--bind`, without brackets.
    pub(super) bind: Option<String>,
    pub(super) listeners: Vec<Socket>,
    /// Opened by [`engine::open_datagram_listener`], or with the same options.
    pub(super) datagrams: Vec<Socket>,
}

/// Opens the sockets of each dialect. If systemd passes sockets, returns only these.
pub(super) fn open_sockets(args: &Args) -> Result<Vec<DialectSockets>, String> {
    let inherited = inherited_sockets();
    let inherited = inherited.map_err(|error| format!("LISTEN_FDS: {}", sys::describe(&error)))?;
    if !inherited.is_empty() {
        return assign_inherited(args, inherited);
    }
    let selected = match &args.only[..] {
        [] => DialectName::value_variants(),
        only => only,
    };
    selected
        .iter()
        .map(|name| DialectSockets::open(*name, args))
        .collect()
}

fn assign_inherited(
    args: &Args,
    inherited: Vec<(String, Socket)>,
) -> Result<Vec<DialectSockets>, String> {
    let mut dialects: Vec<DialectSockets> = Vec::new();
    for (fd_name, socket) in inherited {
        let port = Address::local(&socket).map_or(0, |address| address.port());
        let name_by_port = || {
            let mut names = DialectName::value_variants().iter().copied();
            names.find(|name| u32::from(name.port(args)) == port)
        };
        let name = DialectName::from_str(&fd_name, false)
            .ok()
            .or_else(name_by_port);
        let name = name.ok_or_else(|| {
            format!(
                "no dialect has the port {port} of systemd's socket {fd_name}: \
                 use FileDescriptorName=DIALECT"
            )
        })?;
        let is_stream = socket.r#type().is_ok_and(|kind| kind == Type::STREAM);
        let is_usable = match name {
            DialectName::Iperf => true,
            DialectName::Udpmon => !is_stream,
            DialectName::Netperf | DialectName::Uperf | DialectName::Iperf3 => is_stream,
        };
        if !is_usable {
            let (name, kind) = (name.option_name(), if is_stream { "TCP" } else { "UDP" });
            return Err(format!("systemd's socket for {name} is a {kind} socket"));
        }
        if !args.only.is_empty() && !args.only.contains(&name) {
            continue;
        }
        let index = dialects
            .iter()
            .position(|bound| bound.name == name)
            .unwrap_or_else(|| {
                dialects.push(DialectSockets::new(name, args));
                dialects.len() - 1
            });
        if is_stream {
            dialects[index].listeners.push(socket);
        } else {
            dialects[index].datagrams.push(socket);
        }
    }
    if dialects.is_empty() {
        return Err("none of systemd's sockets belongs to a dialect of --only".to_owned());
    }
    Ok(dialects)
}

impl DialectName {
    /// Returns the dialect's name in options.
    fn option_name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn port(self, args: &Args) -> u16 {
        match self {
            Self::Netperf => args.netperf_port,
            Self::Uperf => args.uperf_port,
            Self::Iperf => args.iperf_port,
            Self::Iperf3 => args.iperf3_port,
            Self::Udpmon => args.udpmon_port,
        }
    }
}

impl DialectSockets {
    fn new(name: DialectName, args: &Args) -> Self {
        Self {
            name,
            bind: args.bind.as_deref().map(without_brackets),
            listeners: Vec::new(),
            datagrams: Vec::new(),
        }
    }

    fn open(name: DialectName, args: &Args) -> Result<Self, String> {
        let mut bound = Self::new(name, args);
        bound.listen(name.port(args)).map_err(|error| {
            format!(
                "{}: cannot listen: {}",
                name.option_name(),
                sys::describe(&error)
            )
        })?;
        Ok(bound)
    }

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let mut addresses = match &self.bind {
            None => Address::wildcards(port).to_vec(),
            Some(host) => {
                let resolved = resolve(host, AddressFamily::Any).map_err(io::Error::other)?;
                resolved.with_port(port)
            }
        };
        if self.name != DialectName::Udpmon {
            let listen = |transport| listen(transport, &addresses, false);
            self.listeners = match self.name {
                DialectName::Iperf3 => listen(Transport::Mptcp).or_else(|_| listen(Transport::Tcp)),
                _ => listen(Transport::Tcp),
            }?;
            let local = self.listeners.iter().map(Address::local);
            addresses = local.collect::<io::Result<_>>()?;
        }
        if matches!(self.name, DialectName::Iperf | DialectName::Udpmon) {
            self.datagrams = listen_for_datagrams(&addresses)?;
        }
        Ok(())
    }

    pub(super) fn port(&self) -> u16 {
        let first_socket = self.listeners.iter().chain(&self.datagrams).next();
        let address = first_socket.and_then(|socket| Address::local(socket).ok());
        address.map_or(0, |address| address.port() as u16)
    }

    /// Returns the dialect and the port, such as `iperf 5001`.
    pub(super) fn describe(&self) -> String {
        format!("{} {}", self.name.option_name(), self.port())
    }
}

/// Removes the brackets that an IPv6 address may have, as in `[::1]`.
fn without_brackets(host: &str) -> String {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).to_owned()
}

/// Opens a socket per address. Fails only if all addresses fail, because the IPv6 wildcard also
/// receives IPv4 and can prevent the bind to the IPv4 wildcard.
fn listen_for_datagrams(addresses: &[Address]) -> io::Result<Vec<Socket>> {
    let open = |address| {
        engine::open_datagram_listener(Transport::Udp, address, &SocketOptions::default())
    };
    let (mut sockets, mut first_error) = (Vec::new(), None);
    for address in addresses {
        match open(address) {
            Ok(socket) => sockets.push(socket),
            Err(error) => first_error = first_error.or(Some(format!("UDP {address}: {error}"))),
        }
    }
    let open_error = first_error.filter(|_| sockets.is_empty());
    open_error.map_or(Ok(sockets), |error| Err(io::Error::other(error)))
}
