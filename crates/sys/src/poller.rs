//! Waiting for many things at once: times to come, connections that hang up, a call from another
//! thread. What the engine's deadline thread sleeps in.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The tag of [`Poller::call`]; watched connections have others.
const CALL: u64 = u64::MAX;

/// The tag of a time that has come.
const TIME: u64 = u64::MAX - 1;

/// An epoll(7) instance with an eventfd(2) to end a wait early and a timerfd(2) to end it in time:
/// epoll's own timeout is whole milliseconds on kernels before 5.11.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    bell: OwnedFd,
    timer: OwnedFd,
}

impl Poller {
    /// A poller that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(
            &epoll,
            &bell,
            epoll::EventData::new_u64(CALL),
            epoll::EventFlags::IN,
        )?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(
            &epoll,
            &timer,
            epoll::EventData::new_u64(TIME),
            epoll::EventFlags::IN,
        )?;
        Ok(Self { epoll, bell, timer })
    }

    /// Leaves the descriptors of the other threads to them: what this thread waits with is all that
    /// it needs. [`Poller::watch`] and [`Poller::call`] go on working from anywhere.
    pub fn move_in(&self) {
        crate::process::own_descriptors(&[
            self.epoll.as_fd(),
            self.bell.as_fd(),
            self.timer.as_fd(),
        ]);
    }

    /// Reports `tag` (below `u64::MAX - 1`) once when the peer of this connection hangs up or resets.
    pub fn watch(&self, connection: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.add(connection, tag, epoll::EventFlags::RDHUP)
    }

    /// Reports `tag` once when this connection is reset, or has ended in both directions.
    pub fn watch_reset(&self, connection: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        // epoll always reports HUP and ERR.
        self.add(connection, tag, epoll::EventFlags::empty())
    }

    /// Reports `tag` once when there is something to read.
    pub fn watch_input(&self, source: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.add(source, tag, epoll::EventFlags::IN)
    }

    fn add(&self, source: BorrowedFd<'_>, tag: u64, events: epoll::EventFlags) -> io::Result<()> {
        let (data, once) = (epoll::EventData::new_u64(tag), epoll::EventFlags::ONESHOT);
        Ok(epoll::add(&self.epoll, source, data, events | once)?)
    }

    /// Ends a [`Poller::watch`].
    pub fn forget(&self, connection: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, connection);
    }

    /// Makes a [`Poller::wait`] in another thread return.
    pub fn call(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Sleeps until a connection hung up, somebody called, or `timeout` is over; gives the tags of
    /// the connections. Precise to the kernel's high-resolution timers.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        self.set_timer(timeout);
        let mut events = Vec::with_capacity(64);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(self.epoll.as_fd(), buffer, None).is_err() {
            return Vec::new();
        }
        let mut tags: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        if tags.contains(&CALL) {
            let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        }
        tags.retain(|tag| *tag < TIME);
        tags
    }

    /// Arms the timer anew, which also takes back that it went off; `None` disarms it.
    fn set_timer(&self, timeout: Option<Duration>) {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A timer set to zero is off, so what is due now is due in a nanosecond.
        let value = timeout.map_or(none, |timeout| Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: (timeout.subsec_nanos() + u32::from(timeout.is_zero())).into(),
        });
        let time = Itimerspec {
            it_interval: none,
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
    fn a_hang_up_is_told_once_and_a_call_is_not_a_tag() {
        let poller = Poller::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        poller.watch(near.as_fd(), 7).unwrap();
        poller.call();
        assert_eq!(poller.wait(Some(Duration::from_secs(5))), Vec::<u64>::new());
        drop(far);
        assert_eq!(poller.wait(Some(Duration::from_secs(5))), [7]);
        assert_eq!(
            poller.wait(Some(Duration::from_millis(1))),
            Vec::<u64>::new()
        );
    }
}
