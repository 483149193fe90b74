//! The end of a transaction's time with a stock slave.
//!
//! A stock slave reads its orders and its clock once per second. Its strands go on until that tick: what this end
//! closes before it, with data unread, resets their connections, and a command that comes before it makes the
//! slave wait for another second.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::StartBarrier;
use engine::script::Connection;
use socket2::{SockRef, Type};
use sys::call;

use super::connections::ConnectionPool;

/// Time between two ticks of a stock slave.
const TICK: Duration = Duration::from_secs(1);

/// Time that it then gives its strands to end.
const ROUND: Duration = Duration::from_millis(200);

/// Its ticks are late by at most one part in so many, and at least by one in so many: poll(2) takes 0.1 % longer
/// than it is asked to. The second covers what a profile's `30s` is over 30 s, too (single precision).
const MOST_LATE: u32 = 500;
const LEAST_LATE: u32 = 10_000;

/// Time without data after which all of it has come.
const QUIET: Duration = Duration::from_millis(20);

/// Longest time that data is drained for.
const LONGEST_DRAIN: Duration = Duration::from_millis(200);

/// Waits until a stock slave has ended a transaction of this duration, and discards what it sent until then.
pub(super) fn settle(
    barrier: &StartBarrier,
    connections: &ConnectionPool<Connection>,
    began: Instant,
    duration: Duration,
    buffer: &mut [u8],
) {
    let ended = began.checked_add(slave_duration(duration));
    barrier.pause(ended.unwrap_or_else(Instant::now));
    let until = Instant::now() + LONGEST_DRAIN;
    while drain(connections, until, buffer) {
        barrier.pause(Instant::now() + QUIET);
    }
}

/// The duration that a stock slave is sent, so that it does not end before this one: it leaves out fractions of
/// seconds, in its clock and in the duration.
pub(crate) fn whole_ticks(duration: Duration) -> Duration {
    let in_ticks = duration.saturating_sub(duration / LEAST_LATE);
    let ticks = in_ticks.as_nanos().div_ceil(TICK.as_nanos());
    let ticks = TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
    duration.max(ticks)
}

/// Time that it takes for that: up to its next tick, and one round.
fn slave_duration(duration: Duration) -> Duration {
    let ticks = whole_ticks(duration);
    ticks.saturating_add(ticks / MOST_LATE + ROUND)
}

/// Discards what the connections have that would be reset if they were closed with it; whether there may be more.
fn drain(connections: &ConnectionPool<Connection>, until: Instant, buffer: &mut [u8]) -> bool {
    let streams = connections
        .open()
        .filter_map(|connection| match connection {
            Connection::Socket(socket) if is_stream(socket) => Some(socket.as_fd()),
            _ => None,
        });
    let mut had_data = false;
    for stream in streams {
        while let Ok(1..) = call::receive_without_waiting(stream, buffer) {
            if Instant::now() >= until {
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
            let duration = slave_duration(Duration::from_micros(microseconds));
            assert_eq!(duration.as_millis(), expected, "{microseconds} us");
        }
        assert_eq!(slave_duration(Duration::MAX), Duration::MAX);
        // As it is in the profile, unless it is shorter.
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
