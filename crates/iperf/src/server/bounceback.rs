//! The server of a bounceback test.
//!
//! The server returns each message with two timestamps: the receive time and the send time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use control::ControlConnection;
use engine::{CounterReading, Counters, Stop, deadline_thread};
use model::{Counts, EndCause, Side, Transport};
use server::ServerContext;
use sys::Address;
use sys::call::{self, Error};

use super::IperfDialect;
use super::requested::MAX_SEND_LENGTH;
use crate::event::{BouncebackInfo, ConnectionInfo, TestEvent};
use crate::report_group::MeasuredFlow;
use crate::wire::{BounceMessage, MIN_BOUNCE_BYTES, WallTime};

/// The maximum time until the next message. It exceeds the longest useful period.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum time that a client may request the server to hold a message.
const MAX_HOLD: Duration = Duration::from_secs(10);

/// Serves one bounceback test, whose first message starts with `first_bytes`.
pub(super) fn serve(
    iperf: &IperfDialect,
    control: &ControlConnection,
    number: u32,
    first_bytes: [u8; 4],
    server: ServerContext<'_>,
) -> io::Result<()> {
    let mut head = [0; MIN_BOUNCE_BYTES as usize];
    head[..4].copy_from_slice(&first_bytes);
    let deadline = Instant::now() + iperf.hello_timeout();
    control.read_exact(&mut head[4..], deadline)?;
    let Some(bounce) = BounceMessage::read(&head).filter(|bounce| {
        let is_in_range = |bytes| (MIN_BOUNCE_BYTES..=MAX_SEND_LENGTH).contains(&bytes);
        let reply_bytes = bounce.reply_bytes.unwrap_or(bounce.size);
        is_in_range(bounce.size) && is_in_range(reply_bytes) && bounce.hold <= MAX_HOLD
    }) else {
        iperf.report_error(
            "read bounce back header failed: its size or hold is out of range".to_owned(),
        );
        return Ok(());
    };
    let reply_bytes = bounce.reply_bytes.unwrap_or(bounce.size);
    let test = super::describe_test("bounceback", None);
    let running = server.begin(control.peer(), test);
    let running = running.map_err(io::Error::other)?;
    let id = super::flow_id(number, false, None);
    let local = control.local_address();
    let connection = ConnectionInfo {
        initial_tcp_state: crate::connection::initial_tcp_state(control.as_fd()),
        bounceback: Some(BouncebackInfo {
            request_bytes: bounce.size,
            reply_bytes,
            hold: bounce.hold,
            has_quick_ack: bounce.quick_ack,
        }),
        local: local.clone(),
        device: crate::connection::device_for_peer(control.peer()),
        type_of_service: bounce.type_of_service,
        started: Some(SystemTime::now()),
        ..crate::connection::unconnected(id.clone(), control.peer().clone())
    };
    // The messages have no field for a key.
    if !iperf.is_permitted(None) {
        iperf.drop_client(&connection, &running, control.as_fd());
        return Ok(());
    }
    let _share = (iperf.memory_for(control.peer()))
        .reserve(bounce.size.max(reply_bytes).into())
        .map_err(io::Error::other)?;
    // The reply begins with the request, cut off or followed by zeros.
    let (size, reply_size) = (bounce.size as usize, reply_bytes as usize);
    let mut message = vec![0; size.max(reply_size)];
    message[..head.len()].copy_from_slice(&head);
    control.read_exact(&mut message[head.len()..size], deadline)?;
    iperf.observer.observe(&TestEvent::Connected(&connection));
    let socket = Arc::new(control.as_fd().try_clone_to_owned()?);
    let measured = MeasuredFlow {
        id,
        sends: false,
        transport: Transport::Tcp,
        counters: Arc::new(Counters::default()),
        socket,
        endpoints: local.map(|local: Address| (control.peer().clone(), local)),
        timings: None,
        jitter_times: None,
        has_trip_times: false,
        is_detailed: false,
        is_full_duplex: false,
    };
    let reports = iperf
        .report_groups
        .group_for(control.peer(), connection.local.as_ref());
    let started = Instant::now();
    let _registered = reports.begin(&measured, started);
    running.add_counters(&measured.counters);
    // Each message counts for both directions, as in the client.
    let count_message = || measured.counters.count_received(size + reply_size, 1);
    let stop = server.cancel_stop.child();
    let _idle_watch = deadline_thread().set_on_idle(&measured.counters, MESSAGE_TIMEOUT, &stop);
    let _registration = stop.register_thread();
    let ended = loop {
        let received = WallTime::now();
        if !bounce.hold.is_zero() {
            std::thread::sleep(bounce.hold);
        }
        BounceMessage::stamp(&mut message, received, WallTime::now());
        if let Err(error) = control.write(&message[..reply_size], MESSAGE_TIMEOUT) {
            break end_for_error(&error);
        }
        count_message();
        if let Err(ended) = receive(control.as_fd(), &mut message[..size], &stop) {
            break ended;
        }
    };
    running.record_end(&ended);
    let elapsed = started.elapsed();
    let counts: Counts = CounterReading::now(std::slice::from_ref(&measured.counters)).counts;
    reports.end(
        &measured,
        &Side {
            counts,
            elapsed: Some(elapsed),
            ..Side::default()
        },
    );
    Ok(())
}

/// Receives a complete message. An error is the end of the test.
///
/// The thread is registered with the stop, which interrupts the receive call, so no separate wait
/// is needed.
fn receive(socket: BorrowedFd<'_>, message: &mut [u8], stop: &Stop) -> Result<(), EndCause> {
    let mut filled = 0;
    while filled < message.len() {
        if let Some(reason) = stop.reason() {
            return Err(reason.into());
        }
        match call::receive(socket, &mut message[filled..]) {
            Ok(0) if filled == 0 => return Err(EndCause::PeerClosed),
            Ok(0) => {
                let reason = "the client closed the connection within a message";
                return Err(EndCause::Failed(reason.to_owned()));
            }
            Ok(count) => filled += count,
            Err(Error::INTR) => {}
            Err(error) => return Err(end_for_error(&error.into())),
        }
    }
    Ok(())
}

/// Returns the end of a test whose connection failed. As in other tests, clients may end it by a
/// reset.
fn end_for_error(error: &io::Error) -> EndCause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => EndCause::PeerClosed,
        _ => EndCause::Failed(control::describe_error(error)),
    }
}
