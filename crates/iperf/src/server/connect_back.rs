//! The connection to a client's own port, over which the server sends (`-d`, `-r`).

use std::fmt;
use std::time::{Duration, Instant};

use engine::{DataSocket, Role as End, Stop};
use model::{FlowPlan, SocketOptions, Transport};
use sys::Address;

use super::flow_id;
use crate::connection::{self, FlowNumbers};
use crate::event::{ConnectionInfo, Observer, TestEvent};
use crate::flow::send_length;
use crate::wire::{Hello, version_name};

/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the port that the client named in its header, for the flow of `plan`.
///
/// # Errors
///
/// Returns the line for standard error.
pub(crate) fn connect_back(
    client: &Address,
    hello: &Hello,
    plan: &FlowPlan,
    options: &SocketOptions,
    flow_numbers: &FlowNumbers,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<(DataSocket, ConnectionInfo), String> {
    let is_udp = plan.transport == Transport::Udp;
    let protocol = if is_udp { "udp" } else { "tcp" };
    let failed = |reason: &dyn fmt::Display| format!("{protocol} connect failed: {reason}");
    let address = client
        .with_port(hello.port)
        .filter(|address| address.port() != 0);
    let address = address.ok_or_else(|| failed(&format_args!("{} is not a port", hello.port)))?;
    let local = address.with_any_host().with_any_port();
    let data = DataSocket::open(plan.transport, &local, options, End::Initiator);
    let data = data.map_err(|error| failed(&error))?;
    let (connect_stop, _deadline) = stop.child_until(Instant::now() + CONNECT_TIMEOUT);
    engine::connect(&data.socket, &address, &connect_stop).map_err(|error| failed(&error))?;
    let length = send_length(plan);
    let requested_rate = |hello: &Hello| hello.extension?.requested_rate(length);
    observer.observe(&TestEvent::Connecting {
        host: &address.ip().map(|ip| ip.to_string()).unwrap_or_default(),
        port: address.port() as u16,
        window: data.facts.send_buffer_bytes,
        flows: 1,
        length,
        rate: requested_rate(hello).filter(|_| is_udp),
        congestion_control: engine::congestion_control(&data.socket),
        is_client: false,
    });
    let id = flow_id(flow_numbers.next(), true, Some(hello));
    let mut connection = connection::from_socket(id, &data, address, plan.transport);
    connection.is_reverse = true;
    connection.started = None;
    let extension = hello.extension;
    connection.peer_version = extension.and_then(|extension| version_name(extension.version));
    observer.observe(&TestEvent::Connected(&connection));
    Ok((data, connection))
}
