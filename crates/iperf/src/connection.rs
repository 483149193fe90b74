//! Connection lines of both ends.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::SystemTime;

use engine::DataSocket;
use model::{FlowPlan, Transport};
use sys::{Address, option};

use crate::event::{Connection, FlowId};
use crate::report_group::Leg;
use crate::wire::fill_with_digits;

/// The numbers of the flows of a process.
#[derive(Debug, Default)]
pub(crate) struct Numbers(AtomicU32);

impl Numbers {
    pub(crate) fn next(&self) -> u32 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// Returns the connection line of a socket, without its notes.
pub(crate) fn of_socket(
    id: FlowId,
    data: &DataSocket,
    peer: Address,
    transport: Transport,
) -> Connection {
    let local = Address::of(&data.socket).ok();
    Connection {
        id,
        device: device_towards(&peer),
        socket: data.socket.as_fd().as_raw_fd(),
        local,
        peer,
        is_reverse: false,
        is_full_duplex: false,
        bounce: None,
        has_trip_times: false,
        upper: 0,
        burst_period: None,
        prefetch: None,
        no_udp_fin: false,
        service: None,
        peer_version: None,
        tcp: (transport == Transport::Tcp)
            .then(|| handshake(data.socket.as_fd()))
            .flatten(),
        connect_time: None,
        started: Some(SystemTime::now()),
    }
}

/// A connection that could not be had.
pub(crate) fn unconnected(id: FlowId, peer: Address) -> Connection {
    Connection {
        id,
        local: None,
        peer,
        device: None,
        socket: -1,
        is_reverse: false,
        is_full_duplex: false,
        bounce: None,
        has_trip_times: false,
        upper: 0,
        burst_period: None,
        prefetch: None,
        no_udp_fin: false,
        service: None,
        peer_version: None,
        tcp: None,
        connect_time: None,
        started: None,
    }
}

/// The initial state of TCP in connection lines.
pub(crate) fn handshake(socket: BorrowedFd<'_>) -> Option<[u32; 3]> {
    let info = option::tcp_info(socket).ok()?;
    let window = u64::from(info.congestion_window) * u64::from(info.segment_bytes) / 1024;
    Some([window as u32, info.segment_bytes, info.rtt_us])
}

fn device_towards(peer: &Address) -> Option<String> {
    let remote = SocketAddr::new(peer.ip()?.to_canonical(), peer.port() as u16);
    let index = sys::interface::index_towards(remote).ok()?;
    sys::interface::link(index).ok().map(|link| link.name)
}

/// The direction of a flow on this socket that `flow` describes.
pub(crate) fn leg(
    id: FlowId,
    flow: &FlowPlan,
    data: &DataSocket,
    connection: &Connection,
) -> std::io::Result<Leg> {
    let sends = flow.workload.sends();
    let ends = connection.local.clone().map(|local| {
        let peer = connection.peer.clone();
        if sends { (local, peer) } else { (peer, local) }
    });
    Ok(Leg {
        id,
        sends,
        transport: flow.transport,
        counters: std::sync::Arc::default(),
        socket: crate::traffic::duplicate(&data.socket)?,
        ends,
        tallies: None,
        has_trip_times: connection.has_trip_times,
    })
}

/// What a sender's buffer holds: digits, and over them what the first bytes were.
pub(crate) fn pattern(length: u32, head: &[u8]) -> Vec<u8> {
    let mut pattern = vec![0; length as usize];
    fill_with_digits(&mut pattern);
    let head = &head[..head.len().min(pattern.len())];
    pattern[..head.len()].copy_from_slice(head);
    pattern
}
