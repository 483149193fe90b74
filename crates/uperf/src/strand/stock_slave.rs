//! The end of a transaction's time with a stock slave.
//!
//! A stock slave reads its commands and its clock once per second. Its strands continue until that
//! tick. If this end closes connections with unread data before the tick, it resets them. A command
//! before the tick makes the slave wait for another second.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::StartBarrier;
use engine::script::Connection;
use socket2::{SockRef, Type};
use sys::call;

use super::connections::ConnectionPool;

/// Time between two ticks of a stock slave.
const SLAVE_TICK: Duration = Duration::from_secs(1);

/// How long a stock slave waits for its strands to end after its last tick.
const STRAND_END_TIME: Duration = Duration::from_millis(200);

/// A tick is late by at least 1/10000 and at most 1/500 of the duration: poll(2) waits 0.1 % longer
/// than requested. The minimum also covers the rounding error of a profile's `30s`, which uperf
/// parses as a single-precision number.
const MAX_LATENESS_DIVISOR: u32 = 500;
const MIN_LATENESS_DIVISOR: u32 = 10_000;

/// Time without new data after which all data has arrived.
const QUIET_TIME: Duration = Duration::from_millis(20);

/// Maximum time for draining data.
const MAX_DRAIN_TIME: Duration = Duration::from_millis(200);

/// Waits until a stock slave has ended a transaction of this duration, and discards the data that
/// it sent until then.
pub(super) fn await_transaction_end(
    barrier: &StartBarrier,
    connections: &ConnectionPool<Connection>,
    began: Instant,
    duration: Duration,
    buffer: &mut [u8],
) {
    let slave_end = began.checked_add(max_slave_duration(duration));
    barrier.sleep_until(slave_end.unwrap_or_else(Instant::now));
    let deadline = Instant::now() + MAX_DRAIN_TIME;
    while drain(connections, deadline, buffer) {
        barrier.sleep_until(Instant::now() + QUIET_TIME);
    }
}

/// Returns the duration to send to a stock slave, so that it does not end before this one. The
/// slave ignores fractions of seconds, in its clock and in the duration.
pub(crate) fn whole_ticks(duration: Duration) -> Duration {
    let min_duration = duration.saturating_sub(duration / MIN_LATENESS_DIVISOR);
    let ticks = min_duration.as_nanos().div_ceil(SLAVE_TICK.as_nanos());
    let ticks = SLAVE_TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
    duration.max(ticks)
}

/// Returns the maximum time that a stock slave takes for this duration: up to its next tick, plus
/// the end of its strands.
fn max_slave_duration(duration: Duration) -> Duration {
    let ticks = whole_ticks(duration);
    ticks.saturating_add(ticks / MAX_LATENESS_DIVISOR + STRAND_END_TIME)
}

/// Discards unread data, because closing a connection with unread data resets it. Returns whether
/// more may arrive.
fn drain(connections: &ConnectionPool<Connection>, deadline: Instant, buffer: &mut [u8]) -> bool {
    let streams = connections
        .open()
        .filter_map(|connection| match connection {
            Connection::Socket(socket) if is_stream(socket) => Some(socket.as_fd()),
            _ => None,
        });
    let mut had_data = false;
    for stream in streams {
        while let Ok(1..) = call::receive_without_waiting(stream, buffer) {
            if Instant::now() >= deadline {
                return false;
            }
            had_data = true;
        }
    }
    had_data
}

fn is_stream(socket: &impl AsFd) -> bool {
    let kind = SockRef::from(socket).r#type();
    kind.is_ok_and(|kind| kind == Type::STREAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slave_ends_at_its_next_tick() {
        for (microseconds, expected) in [
            (1, 1202),
            (500_000, 1202),
            (1_000_000, 1202),
            (1_001_000, 2204),
            (30_000_001, 30_260),
        ] {
            let duration = max_slave_duration(Duration::from_micros(microseconds));
            assert_eq!(duration.as_millis(), expected, "{microseconds} us");
        }
        assert_eq!(max_slave_duration(Duration::MAX), Duration::MAX);
        // The duration of the profile, unless that is shorter than the ticks.
        for (microseconds, expected) in [
            (500_000, 1_000_000),
            (1_500_000, 2_000_000),
            (2_000_000, 2_000_000),
            (30_000_001, 30_000_001),
            (59_999_999, 60_000_000),
        ] {
            let whole = whole_ticks(Duration::from_micros(microseconds));
            assert_eq!(whole.as_micros(), expected, "{microseconds} us");
        }
    }
}
