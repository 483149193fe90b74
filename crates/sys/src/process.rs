//! Detaching from a terminal, limits, and descriptors that were handed over.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// Which side of a [`detach`] this is.
#[derive(Debug, PartialEq, Eq)]
pub enum Side {
    /// The process that was started, which should exit now.
    Parent,
    /// The daemon: leader of a new session, without a terminal.
    Daemon,
}

/// Forks a daemon. Must be called before the first thread exists.
///
/// The daemon starts a new session and works in `/`; its standard streams stay until
/// [`silence`] closes them, so that it can still say why it did not start.
pub fn detach() -> io::Result<Side> {
    // SAFETY: no other thread exists yet (the caller's promise, checked below), so the child may go
    // on as if nothing had happened.
    assert_eq!(thread_count(), 1, "detach() with threads running");
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            rustix::process::setsid()?;
            rustix::process::chdir("/")?;
            Ok(Side::Daemon)
        }
        _ => Ok(Side::Parent),
    }
}

/// Points standard input, output and error at the null device.
pub fn silence() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// How many threads this process has.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// A duplicate of descriptor 0 if it is a socket: so inetd(8) starts a program.
pub fn socket_on_stdin() -> Option<OwnedFd> {
    let stdin = io::stdin();
    let stdin: BorrowedFd<'_> = stdin.as_fd();
    let is_socket = rustix::net::sockopt::socket_type(stdin).is_ok();
    is_socket
        .then(|| rustix::io::fcntl_dupfd_cloexec(stdin, 3).ok())
        .flatten()
}

/// Raises this process's limit of open descriptors as far as it may, and returns it.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
