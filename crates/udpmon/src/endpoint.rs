//! The UDP socket and the CPUs of a program, as the options request.

use std::io;
use std::os::fd::AsFd;

use engine::{Role, data_socket, deadline_thread};
use model::Transport;
use sys::resolve::{Wanted, resolve};
use sys::{Address, Socket, option};

use crate::options::Common;
use crate::result::{Buffers, Opened};

/// Opens a socket bound to `bind` and connected to `peer`, if there is one.
pub(crate) fn open(
    common: &Common,
    bind: &Address,
    peer: Option<&Address>,
) -> io::Result<(Socket, Opened)> {
    let socket = data_socket(Transport::Udp, bind, &common.socket(), Role::Initiator)
        .map_err(|error| io::Error::other(format!("UDP {bind}: {error}")))?;
    if let Some(peer) = peer {
        socket.connect(&peer.to_kernel()?)?;
    }
    let opened = opened(common, &socket, peer)?;
    Ok((socket, opened))
}

/// Binds this thread and its future child threads to the CPUs of the options, and reads the granted socket options.
pub(crate) fn opened(
    common: &Common,
    socket: &Socket,
    peer: Option<&Address>,
) -> io::Result<Opened> {
    let local = Address::of(socket)?;
    let is_v6 = local.is_ipv6();
    let default = Socket::new(local.domain(), sys::Type::DGRAM, None)?;
    let default = buffers(&default, is_v6);
    let set = buffers(socket, is_v6);
    let set = Buffers {
        receive: set.receive / 2,
        send: set.send / 2,
        ..set
    };
    granted("SO_RCVBUF", common.buffer_bytes, set.receive)?;
    granted("SO_SNDBUF", common.buffer_bytes, set.send)?;
    let address = |address: &Address| address.ip().map_or_else(String::new, |ip| ip.to_string());
    Ok(Opened {
        cpus: bind_to_cpus(common.cpus)?,
        default,
        set,
        peer_address: peer.map_or_else(String::new, address),
        local_address: address(&local),
        node: sys::facts::uname().nodename,
        ..Opened::default()
    })
}

/// The address of a host at a port.
pub(crate) fn find(host: &str, port: u16, is_v6: bool) -> io::Result<Address> {
    let wanted = if is_v6 { Wanted::V6 } else { Wanted::V4 };
    let found = resolve(host, wanted).map_err(io::Error::other)?;
    let first = found.at(port).into_iter().next();
    first.ok_or_else(|| io::Error::other(format!("{host} has no address with port {port}")))
}

fn buffers(socket: &Socket, is_v6: bool) -> Buffers {
    let service = option::type_of_service(socket.as_fd(), is_v6);
    Buffers {
        receive: socket.recv_buffer_size().unwrap_or(0) as u32,
        send: socket.send_buffer_size().unwrap_or(0) as u32,
        type_of_service: service.unwrap_or(0) as u8,
    }
}

/// Gives a socket that receives packets a large buffer, unless `-S` sets a size. Stock's default holds 56 packets of
/// 1472 bytes, which is too small if the program is not scheduled for some milliseconds.
pub(crate) fn widen(socket: &Socket, common: &Common) {
    const WIDE: u32 = 4 << 20;
    let is_default = common.buffer_bytes == Common::default().buffer_bytes;
    if is_default && option::force_receive_buffer(socket.as_fd(), WIDE).is_err() {
        // Without privilege, the limit is net.core.rmem_max.
        let _ = socket.set_recv_buffer_size(WIDE as usize);
    }
}

fn granted(name: &str, asked: Option<u32>, given: u32) -> io::Result<()> {
    match asked {
        Some(asked) if given < asked => Err(io::Error::other(format!(
            "cannot set {name} to {asked} bytes: the kernel gave {given}; raise net.core.rmem_max and wmem_max, or \
             use -S 0"
        ))),
        _ => Ok(()),
    }
}

/// Binds this thread and its future child threads to the CPUs of a mask. Returns the masks before and after that.
pub(crate) fn bind_to_cpus(mask: Option<u64>) -> io::Result<(u64, u64)> {
    let allowed = || -> io::Result<u64> {
        let cpus = sys::cpu::allowed()?;
        Ok(cpus
            .iter()
            .filter(|cpu| **cpu < 64)
            .fold(0, |mask, cpu| mask | 1 << cpu))
    };
    let before = allowed()?;
    let Some(mask) = mask else {
        return Ok((before, before));
    };
    // It must not compete with a thread that spins on its only CPU.
    deadline_thread();
    let cpus: Vec<u32> = (0..64).filter(|cpu| mask & 1 << cpu != 0).collect();
    sys::cpu::bind_thread_to(&cpus).map_err(|error| {
        let why = sys::describe(&error);
        io::Error::other(format!("cannot run on the CPUs of mask {mask:#x}: {why}"))
    })?;
    Ok((before, mask))
}
