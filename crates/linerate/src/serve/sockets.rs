//! The sockets of `linerate serve`: its own, or sockets passed by systemd.

use std::io;

use clap::ValueEnum;
use model::{SocketOptions, Transport};
use server::{inherited_sockets, listen};
use sys::resolve::{Wanted, resolve};
use sys::{Address, Socket, Type};

use super::{Args, Name};

/// The sockets of one dialect.
pub(super) struct Bound {
    pub(super) name: Name,
    /// `--bind`.
    pub(super) bind: Option<String>,
    pub(super) listeners: Vec<Socket>,
    /// Made by [`engine::datagram_listener`], or equivalent.
    pub(super) datagrams: Vec<Socket>,
}

/// Opens the sockets of each dialect. If systemd passes sockets, serves only the dialects that have one.
pub(super) fn bind(args: &Args) -> Result<Vec<Bound>, String> {
    let inherited = inherited_sockets();
    let inherited = inherited.map_err(|error| format!("LISTEN_FDS: {}", sys::describe(&error)))?;
    if !inherited.is_empty() {
        return taken(args, inherited);
    }
    let selected = match &args.only[..] {
        [] => Name::value_variants(),
        only => only,
    };
    selected
        .iter()
        .map(|name| Bound::open(*name, args))
        .collect()
}

fn taken(args: &Args, inherited: Vec<(String, Socket)>) -> Result<Vec<Bound>, String> {
    let mut all: Vec<Bound> = Vec::new();
    for (fd_name, socket) in inherited {
        let port = Address::of(&socket).map_or(0, |address| address.port());
        let of_port = || {
            let mut names = Name::value_variants().iter().copied();
            names.find(|name| u32::from(name.port(args)) == port)
        };
        let name = Name::from_str(&fd_name, false).ok().or_else(of_port);
        let name = name.ok_or_else(|| {
            format!("no dialect has the port {port} of systemd's socket {fd_name}: use FileDescriptorName=DIALECT")
        })?;
        if !args.only.is_empty() && !args.only.contains(&name) {
            continue;
        }
        let at = all
            .iter()
            .position(|bound| bound.name == name)
            .unwrap_or_else(|| {
                all.push(Bound::new(name, args));
                all.len() - 1
            });
        if socket.r#type().is_ok_and(|kind| kind == Type::STREAM) {
            all[at].listeners.push(socket);
        } else {
            all[at].datagrams.push(socket);
        }
    }
    Ok(all)
}

impl Name {
    /// Returns the dialect's name in options.
    fn text(self) -> String {
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

impl Bound {
    fn new(name: Name, args: &Args) -> Self {
        Self {
            name,
            bind: args.bind.clone(),
            listeners: Vec::new(),
            datagrams: Vec::new(),
        }
    }

    fn open(name: Name, args: &Args) -> Result<Self, String> {
        let mut bound = Self::new(name, args);
        bound.listen(name.port(args)).map_err(|error| {
            format!("{}: cannot listen: {}", name.text(), sys::describe(&error))
        })?;
        Ok(bound)
    }

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let mut addresses = match &self.bind {
            None => Address::wildcards(port).to_vec(),
            Some(host) => {
                let found = resolve(host, Wanted::Any).map_err(io::Error::other)?;
                found.at(port)
            }
        };
        if self.name != Name::Udpmon {
            let listen = |transport| listen(transport, &addresses, false);
            self.listeners = match self.name {
                Name::Iperf3 => listen(Transport::Mptcp).or_else(|_| listen(Transport::Tcp)),
                _ => listen(Transport::Tcp),
            }?;
            let bound = self.listeners.iter().map(Address::of);
            addresses = bound.collect::<io::Result<_>>()?;
        }
        if matches!(self.name, Name::Iperf | Name::Udpmon) {
            self.datagrams = listen_for_datagrams(&addresses)?;
        }
        Ok(())
    }

    pub(super) fn port(&self) -> u16 {
        let first = self.listeners.iter().chain(&self.datagrams).next();
        let address = first.and_then(|first| Address::of(first).ok());
        address.map_or(0, |address| address.port() as u16)
    }

    /// Returns the dialect and the port, such as `iperf 5001`.
    pub(super) fn describe(&self) -> String {
        format!("{} {}", self.name.text(), self.port())
    }
}

/// Opens a socket per address. The IPv6 wildcard also takes IPv4, so the bind to the IPv4 wildcard may then fail.
fn listen_for_datagrams(addresses: &[Address]) -> io::Result<Vec<Socket>> {
    let open = |at| engine::datagram_listener(Transport::Udp, at, &SocketOptions::default());
    let (mut opened, mut refused) = (Vec::new(), None);
    for at in addresses {
        match open(at) {
            Ok(socket) => opened.push(socket),
            Err(error) => refused = refused.or(Some(format!("UDP {at}: {error}"))),
        }
    }
    let refused = refused.filter(|_| opened.is_empty());
    refused.map_or(Ok(opened), |why| Err(io::Error::other(why)))
}
