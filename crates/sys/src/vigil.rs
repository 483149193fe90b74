//! Waiting for many things at once: times to come, connections that hang up, a call from another
//! thread. What the engine's keeper sleeps in.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll};

/// The tag of [`Vigil::call`]; watched connections have others.
const CALL: u64 = u64::MAX;

/// An epoll(7) instance with an eventfd(2) to end a wait early.
#[derive(Debug)]
pub struct Vigil {
    epoll: OwnedFd,
    bell: OwnedFd,
}

impl Vigil {
    /// A vigil that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(
            &epoll,
            &bell,
            epoll::EventData::new_u64(CALL),
            epoll::EventFlags::IN,
        )?;
        Ok(Self { epoll, bell })
    }

    /// Leaves the descriptors of the other threads to them: what this thread waits with is all that
    /// it needs. [`Vigil::watch`] and [`Vigil::call`] go on working from anywhere.
    pub fn move_in(&self) {
        crate::process::own_descriptors(&[self.epoll.as_fd(), self.bell.as_fd()]);
    }

    /// Reports `tag` (below `u64::MAX`) once when the peer of this connection hangs up or resets.
    pub fn watch(&self, connection: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        Ok(epoll::add(
            &self.epoll,
            connection,
            epoll::EventData::new_u64(tag),
            flags,
        )?)
    }

    /// Ends a [`Vigil::watch`].
    pub fn forget(&self, connection: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, connection);
    }

    /// Makes a [`Vigil::wait`] in another thread return.
    pub fn call(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Sleeps until a connection hung up, somebody called, or `timeout` is over; gives the tags of
    /// the connections. Precise to the kernel's high-resolution timers: epoll_pwait2(2), or to a
    /// millisecond on kernels before 5.11.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        let mut events = Vec::with_capacity(64);
        let limit = timeout.map(|t| Timespec {
            tv_sec: t.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: t.subsec_nanos().into(),
        });
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(self.epoll.as_fd(), buffer, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let mut tags: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        if tags.contains(&CALL) {
            let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
            tags.retain(|tag| *tag != CALL);
        }
        tags
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_hang_up_is_told_once_and_a_call_is_not_a_tag() {
        let vigil = Vigil::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        vigil.watch(near.as_fd(), 7).unwrap();
        vigil.call();
        assert_eq!(vigil.wait(Some(Duration::from_secs(5))), Vec::<u64>::new());
        drop(far);
        assert_eq!(vigil.wait(Some(Duration::from_secs(5))), [7]);
        assert_eq!(
            vigil.wait(Some(Duration::from_millis(1))),
            Vec::<u64>::new()
        );
    }
}
