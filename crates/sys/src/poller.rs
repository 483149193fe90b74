//! Waiting for a timeout, for connections that hang up, and for a wake-up by another thread. The
//! engine's deadline thread uses it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Tag of [`Poller::wake`]; no watched connection has it.
const WAKE_TAG: u64 = u64::MAX;

/// Tag of an expired timer.
const TIMER_TAG: u64 = u64::MAX - 1;

/// An epoll(7) instance with an eventfd(2) for wake-ups and a timerfd(2) for timeouts. epoll's own
/// timeout has a resolution of 1 ms before Linux 5.11.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    wake_event: OwnedFd,
    timer: OwnedFd,
}

impl Poller {
    /// Creates a poller without watched connections.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake_event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(
            &epoll,
            &wake_event,
            epoll::EventData::new_u64(WAKE_TAG),
            epoll::EventFlags::IN,
        )?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(
            &epoll,
            &timer,
            epoll::EventData::new_u64(TIMER_TAG),
            epoll::EventFlags::IN,
        )?;
        Ok(Self {
            epoll,
            wake_event,
            timer,
        })
    }

    /// Gives the calling thread a private descriptor table with only this poller's descriptors.
    /// Other threads can still watch connections and call [`Poller::wake`].
    pub fn use_private_descriptors(&self) {
        crate::process::use_private_descriptors(&[
            self.epoll.as_fd(),
            self.wake_event.as_fd(),
            self.timer.as_fd(),
        ]);
    }

    /// Reports `tag` (below `u64::MAX - 1`) once when the peer of this connection hangs up or
    /// resets.
    pub fn watch_hang_up(&self, connection: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.add(connection, tag, epoll::EventFlags::RDHUP)
    }

    /// Reports `tag` once when this connection is reset or has ended in both directions.
    pub fn watch_reset(&self, connection: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        // epoll always reports HUP and ERR.
        self.add(connection, tag, epoll::EventFlags::empty())
    }

    /// Reports `tag` once when the source is readable.
    pub fn watch_input(&self, source: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.add(source, tag, epoll::EventFlags::IN)
    }

    fn add(&self, source: BorrowedFd<'_>, tag: u64, events: epoll::EventFlags) -> io::Result<()> {
        let (data, once) = (epoll::EventData::new_u64(tag), epoll::EventFlags::ONESHOT);
        Ok(epoll::add(&self.epoll, source, data, events | once)?)
    }

    /// Stops watching a connection.
    pub fn unwatch(&self, connection: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, connection);
    }

    /// Makes [`Poller::wait`] in another thread return.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake_event, &1_u64.to_ne_bytes());
    }

    /// Sleeps until a watched event, a wake-up, or the timeout, with the precision of the kernel's
    /// high-resolution timers. Returns the tags of the watched events.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        self.set_timer(timeout);
        let mut events = Vec::with_capacity(64);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(self.epoll.as_fd(), buffer, None).is_err() {
            return Vec::new();
        }
        let mut tags: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        if tags.contains(&WAKE_TAG) {
            let _ = rustix::io::read(&self.wake_event, &mut [0_u8; 8]);
        }
        tags.retain(|tag| *tag < TIMER_TAG);
        tags
    }

    /// Sets the timer, which also clears an earlier expiration; `None` disarms it.
    fn set_timer(&self, timeout: Option<Duration>) {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A value of zero would disarm the timer, so a zero timeout becomes 1 ns.
        let value = timeout.map_or(zero, |timeout| Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: (timeout.subsec_nanos() + u32::from(timeout.is_zero())).into(),
        });
        let time = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_wait_ends_in_time_and_not_before() {
        let poller = Poller::new().unwrap();
        for micros in [0, 300, 2_500] {
            let start = std::time::Instant::now();
            assert_eq!(
                poller.wait(Some(Duration::from_micros(micros))),
                Vec::<u64>::new()
            );
            assert!(start.elapsed() >= Duration::from_micros(micros));
        }
    }

    #[test]
    fn a_hang_up_is_reported_once_and_a_wake_has_no_tag() {
        let poller = Poller::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        poller.watch_hang_up(near.as_fd(), 7).unwrap();
        poller.wake();
        assert_eq!(poller.wait(Some(Duration::from_secs(5))), Vec::<u64>::new());
        drop(far);
        assert_eq!(poller.wait(Some(Duration::from_secs(5))), [7]);
        assert_eq!(
            poller.wait(Some(Duration::from_millis(1))),
            Vec::<u64>::new()
        );
    }
}
