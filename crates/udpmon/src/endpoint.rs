//! The UDP socket of a program, and its CPU binding.

use std::io;
use std::os::fd::AsFd;

use engine::{Role, deadline_thread, open_data_socket};
use model::Transport;
use sys::resolve::{AddressFamily, resolve};
use sys::{Address, Socket, option};

use crate::options::CommonSettings;
use crate::result::{EndpointInfo, SocketBuffers};

/// Opens a socket bound to `bind`, and connects it to `peer` if there is one.
pub(crate) fn open(
    common: &CommonSettings,
    bind: &Address,
    peer: Option<&Address>,
) -> io::Result<(Socket, EndpointInfo)> {
    let socket = open_data_socket(
        Transport::Udp,
        bind,
        &common.socket_options(),
        Role::Initiator,
    )
    .map_err(|error| io::Error::other(format!("UDP {bind}: {error}")))?;
    if let Some(peer) = peer {
        socket.connect(&peer.to_kernel()?)?;
    }
    let info = prepare(common, &socket, peer)?;
    Ok((socket, info))
}

/// Binds this thread and its future child threads to the CPUs of the options. Returns the granted
/// socket options. Fails if the kernel granted smaller buffers than requested.
pub(crate) fn prepare(
    common: &CommonSettings,
    socket: &Socket,
    peer: Option<&Address>,
) -> io::Result<EndpointInfo> {
    let local = Address::local(socket)?;
    let is_v6 = local.is_ipv6();
    let default_socket = Socket::new(local.domain(), sys::Type::DGRAM, None)?;
    let default_buffers = read_buffers(&default_socket, is_v6);
    let set_buffers = read_buffers(socket, is_v6);
    let set_buffers = SocketBuffers {
        receive: set_buffers.receive / 2,
        send: set_buffers.send / 2,
        ..set_buffers
    };
    check_granted("SO_RCVBUF", common.buffer_bytes, set_buffers.receive)?;
    check_granted("SO_SNDBUF", common.buffer_bytes, set_buffers.send)?;
    let address = |address: &Address| address.ip().map_or_else(String::new, |ip| ip.to_string());
    Ok(EndpointInfo {
        cpus: bind_to_cpus(common.cpus)?,
        default_buffers,
        set_buffers,
        peer_address: peer.map_or_else(String::new, address),
        local_address: address(&local),
        node: sys::facts::uname().nodename,
        ..EndpointInfo::default()
    })
}

/// Resolves a host name. Returns its first address, with this port.
pub(crate) fn resolve_address(host: &str, port: u16, is_v6: bool) -> io::Result<Address> {
    let family = if is_v6 {
        AddressFamily::V6
    } else {
        AddressFamily::V4
    };
    let addresses = resolve(host, family).map_err(io::Error::other)?;
    let first = addresses.with_port(port).into_iter().next();
    first.ok_or_else(|| io::Error::other(format!("{host} has no address with port {port}")))
}

/// Returns the buffer sizes and the type of service of a socket; 0 if unavailable.
fn read_buffers(socket: &Socket, is_v6: bool) -> SocketBuffers {
    let service = option::type_of_service(socket.as_fd(), is_v6);
    SocketBuffers {
        receive: socket.recv_buffer_size().unwrap_or(0) as u32,
        send: socket.send_buffer_size().unwrap_or(0) as u32,
        type_of_service: service.unwrap_or(0) as u8,
    }
}

/// Enlarges the receive buffer to 4 MiB, unless `-S` sets a size. Stock's default holds 56 packets
/// of 1472 bytes.
pub(crate) fn enlarge_receive_buffer(socket: &Socket, common: &CommonSettings) {
    const LARGE_BUFFER_BYTES: u32 = 4 << 20;
    if common.sets_buffer_bytes {
        return;
    }
    option::enlarge_receive_buffer(socket.as_fd(), LARGE_BUFFER_BYTES);
}

/// Fails if the kernel granted a smaller buffer than requested.
fn check_granted(name: &str, requested: Option<u32>, granted: u32) -> io::Result<()> {
    match requested {
        Some(requested) if granted < requested => Err(io::Error::other(format!(
            "cannot set {name} to {requested} bytes: the kernel granted {granted}; raise net.core.rmem_max and wmem_max, or \
             use -S 0"
        ))),
        _ => Ok(()),
    }
}

/// Binds this thread and its future child threads to the CPUs of a mask. Returns the masks before
/// and after.
pub(crate) fn bind_to_cpus(mask: Option<u64>) -> io::Result<(u64, u64)> {
    let allowed_mask = || -> io::Result<u64> {
        let cpus = sys::cpu::allowed_cpus()?;
        Ok(cpus
            .iter()
            .filter(|cpu| **cpu < 64)
            .fold(0, |mask, cpu| mask | 1 << cpu))
    };
    let before = allowed_mask()?;
    let Some(mask) = mask else {
        return Ok((before, before));
    };
    // Start the deadline thread before binding: it must not share one CPU with a spinning thread.
    deadline_thread();
    let cpus: Vec<u32> = (0..64).filter(|cpu| mask & 1 << cpu != 0).collect();
    sys::cpu::bind_thread_to(&cpus).map_err(|error| {
        let reason = sys::describe(&error);
        io::Error::other(format!(
            "cannot bind to the CPUs of mask {mask:#x}: {reason}"
        ))
    })?;
    Ok((before, mask))
}
