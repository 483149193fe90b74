//! The server of a bounceback test: each message goes back with two times in it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{Counters, Reading, Stop, deadline_thread};
use model::{Counts, Side, Transport};
use server::ServerContext;
use sys::Address;
use sys::call::{self, Error};

use super::{Iperf, MOST_LENGTH};
use crate::event::{Connection, Event};
use crate::report_group::Leg;
use crate::wire::{Bounce, SHORTEST_BOUNCE, WallTime};

/// How long the next message is waited for, beyond the longest period that makes sense.
const IDLE: Duration = Duration::from_secs(60);

/// The longest time that a message is kept.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

pub(super) fn serve(
    iperf: &Iperf,
    control: &ControlConnection,
    number: u32,
    first: [u8; 4],
    server: ServerContext<'_>,
) -> io::Result<()> {
    let mut head = [0; SHORTEST_BOUNCE as usize];
    head[..4].copy_from_slice(&first);
    let until = Instant::now() + super::GREETED;
    control.fill(&mut head[4..], until)?;
    let Some(bounce) = Bounce::read(&head).filter(|bounce| {
        (SHORTEST_BOUNCE..=MOST_LENGTH).contains(&bounce.size) && bounce.hold <= LONGEST_HOLD
    }) else {
        iperf
            .trouble("read bounce back header failed: its size or hold is out of range".to_owned());
        return Ok(());
    };
    let test = super::test_of("bounceback", None);
    let running = server.begin(control.peer(), test);
    let running = running.map_err(io::Error::other)?;
    let mut message = vec![0; bounce.size as usize];
    message[..head.len()].copy_from_slice(&head);
    control.fill(&mut message[head.len()..], until)?;
    let id = iperf.id(number, false);
    let local = control.here();
    let connection = Connection {
        tcp: crate::connection::handshake(control.as_fd()),
        bounce: Some((
            bounce.size,
            bounce.hold.as_micros() as u32,
            bounce.quick_ack,
        )),
        local: local.clone(),
        ..crate::connection::unconnected(id.clone(), control.peer().clone())
    };
    iperf.observer.see(&Event::Connected(&connection));
    let socket = Arc::new(control.as_fd().try_clone_to_owned()?);
    let leg = Leg {
        id,
        sends: false,
        transport: Transport::Tcp,
        counters: Arc::new(Counters::default()),
        socket,
        ends: local.map(|local: Address| (control.peer().clone(), local)),
        tallies: None,
        has_trip_times: false,
    };
    let reports = iperf
        .report_groups
        .of(control.peer(), connection.local.as_ref());
    reports.begin(&leg);
    running.count(&leg.counters);
    let begun = Instant::now();
    // Both directions count, as at the client.
    let count = |bytes: usize| leg.counters.count_received(2 * bytes, 1);
    let stop = server.cut.follower();
    deadline_thread().on_silence(&leg.counters, IDLE, &stop);
    let _attending = stop.attend();
    loop {
        let received = WallTime::now();
        if !bounce.hold.is_zero() {
            std::thread::sleep(bounce.hold);
        }
        Bounce::stamp(&mut message, received, WallTime::now());
        if control.write(&message, IDLE).is_err() {
            break;
        }
        count(message.len());
        if !receive(control.as_fd(), &mut message, &stop) {
            break;
        }
    }
    if !server.cut.is_set() {
        running.complete();
    }
    let elapsed = begun.elapsed();
    let counts: Counts = Reading::now(std::slice::from_ref(&leg.counters)).counts;
    reports.end(
        &leg,
        &Side {
            counts,
            elapsed: Some(elapsed),
            ..Side::default()
        },
    );
    Ok(())
}

/// Receives a whole message, without a wait before each call: the thread attends the stop. Returns whether one came.
fn receive(socket: BorrowedFd<'_>, message: &mut [u8], stop: &Stop) -> bool {
    let mut filled = 0;
    while filled < message.len() && !stop.is_set() {
        match call::receive(socket, &mut message[filled..]) {
            Ok(0) => return false,
            Ok(count) => filled += count,
            Err(Error::INTR) => {}
            Err(_) => return false,
        }
    }
    filled == message.len()
}
