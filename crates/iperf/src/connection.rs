//! The connection facts that client and server report.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use engine::DataSocket;
use model::{FlowPlan, Transport};
use sys::{Address, option};

use crate::event::{ConnectionInfo, FlowId, Segments};
use crate::report_group::MeasuredFlow;
use crate::wire::fill_with_digits;

/// Assigns the numbers of the flows of a process, from 1.
#[derive(Debug, Default)]
pub(crate) struct FlowNumbers(AtomicU32);

impl FlowNumbers {
    pub(crate) fn next(&self) -> u32 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// Returns the facts of a connected socket. The caller adds the requested features.
pub(crate) fn from_socket(
    id: FlowId,
    data: &DataSocket,
    peer: Address,
    transport: Transport,
) -> ConnectionInfo {
    let local = Address::local(&data.socket).ok();
    ConnectionInfo {
        id,
        device: device_for_peer(&peer),
        socket_fd: data.socket.as_fd().as_raw_fd(),
        local,
        peer,
        is_reverse: false,
        is_full_duplex: false,
        bounceback: None,
        has_trip_times: false,
        upper_flags: 0,
        burst_period: None,
        prefetch: None,
        no_udp_fin: false,
        type_of_service: None,
        congestion_control: None,
        peer_version: None,
        initial_tcp_state: (transport == Transport::Tcp)
            .then(|| initial_tcp_state(data.socket.as_fd()))
            .flatten(),
        connect_time: None,
        started: Some(SystemTime::now()),
    }
}

/// Returns the facts of a failed connection.
pub(crate) fn unconnected(id: FlowId, peer: Address) -> ConnectionInfo {
    ConnectionInfo {
        id,
        local: None,
        peer,
        device: None,
        socket_fd: -1,
        is_reverse: false,
        is_full_duplex: false,
        bounceback: None,
        has_trip_times: false,
        upper_flags: 0,
        burst_period: None,
        prefetch: None,
        no_udp_fin: false,
        type_of_service: None,
        congestion_control: None,
        peer_version: None,
        initial_tcp_state: None,
        connect_time: None,
        started: None,
    }
}

/// Returns the initial TCP state of a connection: congestion window in KByte, segment size in
/// bytes, and round-trip time in microseconds.
pub(crate) fn initial_tcp_state(socket: BorrowedFd<'_>) -> Option<[u32; 3]> {
    let info = option::tcp_info(socket).ok()?;
    let window = u64::from(info.congestion_window) * u64::from(info.segment_bytes) / 1024;
    Some([window as u32, info.segment_bytes, info.rtt_us])
}

/// Delays the data that a TCP socket sends (`--tcp-tx-delay`).
pub(crate) fn set_tx_delay(data: &DataSocket, delay: Option<Duration>) -> Result<(), String> {
    let Some(delay) = delay else {
        return Ok(());
    };
    let micros = delay.as_micros() as u32;
    let set = option::set_tcp(data.socket.as_fd(), option::TcpOption::TxDelayUs, micros);
    set.map_err(|error| format!("--tcp-tx-delay: {}", sys::describe(&error)))
}

/// Returns the current segments of a TCP connection.
pub(crate) fn segments(socket: BorrowedFd<'_>) -> Option<Segments> {
    let info = option::tcp_info(socket).ok()?;
    Some(Segments {
        bytes: info.segment_bytes,
        in_flight: info.unacknowledged,
    })
}

/// Returns the name of the network device towards a peer.
pub(crate) fn device_for_peer(peer: &Address) -> Option<String> {
    let remote = SocketAddr::new(peer.ip()?.to_canonical(), peer.port() as u16);
    let index = sys::interface::index_for_remote(remote).ok()?;
    sys::interface::link(index).ok().map(|link| link.name)
}

/// Returns the measured flow for one direction of a socket. `flow` is the plan of the direction.
pub(crate) fn measured_flow(
    id: FlowId,
    flow: &FlowPlan,
    data: &DataSocket,
    connection: &ConnectionInfo,
) -> std::io::Result<MeasuredFlow> {
    let sends = flow.workload.sends();
    let endpoints = connection.local.clone().map(|local| {
        let peer = connection.peer.clone();
        if sends { (local, peer) } else { (peer, local) }
    });
    Ok(MeasuredFlow {
        id,
        sends,
        transport: flow.transport,
        counters: std::sync::Arc::default(),
        socket: crate::traffic::duplicate(&data.socket)?,
        endpoints,
        timings: None,
        jitter_times: None,
        has_trip_times: connection.has_trip_times,
        is_detailed: connection.is_detailed(),
        is_full_duplex: connection.is_full_duplex,
    })
}

/// Returns the content of a sender's buffer: repeated digits, with `header` over the first bytes.
pub(crate) fn pattern(length: u32, header: &[u8]) -> Vec<u8> {
    let mut pattern = vec![0; length as usize];
    fill_with_digits(&mut pattern);
    let head = &header[..header.len().min(pattern.len())];
    pattern[..head.len()].copy_from_slice(head);
    pattern
}
