//! Detaching from a terminal, limits, and descriptors that were handed over.

use std::fs::File;
use std::io::{self, Read};
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
            crate::wake::forget_this_thread();
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

/// Creates files that only this user may use: umask(2). No other thread may create files meanwhile.
pub fn with_private_files<T>(create: impl FnOnce() -> T) -> T {
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let created = create();
    rustix::process::umask(before);
    created
}

/// Gives the calling thread a descriptor table of its own, with only the standard streams and
/// `keep` in it: unshare(2), close_range(2).
///
/// As long as threads share a table, each system call on a socket counts a reference up and down in
/// it, with two locked instructions. A helper thread that leaves the table saves the measuring
/// thread those. A kernel that cannot do it (before 5.9) changes nothing. Not for a thread that has
/// sockets: who looks for them finds those of a process in its first thread's table, as ss(8) does.
pub fn own_descriptors(keep: &[BorrowedFd<'_>]) {
    use std::os::fd::AsRawFd;
    const NONE: libc::c_uint = libc::c_uint::MAX;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        // SAFETY: close_range(2) takes numbers. Only descriptors of this thread's own table are
        // closed, below; an empty range closes nothing.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
    };
    if !close(NONE, NONE) {
        return;
    }
    // A signal handler that writes to a descriptor must not run where that is closed; another thread
    // takes the signal instead.
    // SAFETY: the set is filled before it is read; only this thread's mask changes.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
    // SAFETY: only the descriptor table is unshared. Its copies in this thread are closed at once
    // but for those that the caller goes on using.
    if unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) }.is_err() {
        return;
    }
    let mut kept: Vec<libc::c_uint> = keep
        .iter()
        .map(|fd| fd.as_raw_fd() as libc::c_uint)
        .collect();
    kept.sort_unstable();
    close_all_but(&kept);
}

/// Closes all descriptors but the standard streams and `keep`, which must be in order.
fn close_all_but(keep: &[libc::c_uint]) {
    const NONE: libc::c_uint = libc::c_uint::MAX;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        // SAFETY: close_range(2) takes numbers; whose descriptors they are is the callers' business.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    };
    let mut first = 3;
    for &fd in keep {
        if fd > first {
            close(first, fd - 1);
        }
        first = first.max(fd + 1);
    }
    close(first, NONE);
}

/// What [`fork`] returned in.
#[derive(Debug, PartialEq, Eq)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old one: the child's number.
    Parent(u32),
}

/// Forks, beside threads or not.
///
/// The child has the calling thread alone. What the other threads held at that moment (a lock of
/// theirs, the output's) is held in it for ever: it must use nothing that they use. Memory is safe,
/// as the C libraries see to their own locks. It ends by [`leave`].
pub fn fork() -> io::Result<Forked> {
    // SAFETY: fork(2) itself touches nothing; what the child may do is said above.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            crate::wake::forget_this_thread();
            Ok(Forked::Child)
        }
        child => Ok(Forked::Parent(child as u32)),
    }
}

/// For a forked child: ends with its parent's thread that forked it, takes no signals that are meant
/// for that (its terminal's, say), and has no descriptors but the standard streams and `keep`.
///
/// All other descriptors that it inherited are closed, whoever has them: they must not be used, or
/// dropped.
pub fn settle_as_child(parent: u32, keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let has_parent = rustix::process::getppid()
        .is_some_and(|number| number.as_raw_nonzero().get() as u32 == parent);
    if !has_parent {
        leave(1);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_IGN needs no handler of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let mut kept: Vec<_> = keep
        .iter()
        .map(|fd| fd.as_raw_fd() as libc::c_uint)
        .collect();
    kept.sort_unstable();
    close_all_but(&kept);
    Ok(())
}

/// Ends the process at once: nothing is flushed, dropped or called: _exit(2).
pub fn leave(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Kills a child that has not been waited for: SIGKILL.
pub fn kill(child: u32) -> io::Result<()> {
    let Some(child) = rustix::process::Pid::from_raw(child as i32) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(rustix::process::kill_process(
        child,
        rustix::process::Signal::KILL,
    )?)
}

/// Waits for a child's end: waitpid(2).
pub fn wait_for(child: u32) -> io::Result<std::process::ExitStatus> {
    use std::os::unix::process::ExitStatusExt;
    let child = rustix::process::Pid::from_raw(child as i32);
    loop {
        match rustix::process::waitpid(child, rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return Ok(std::process::ExitStatus::from_raw(status.as_raw()));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How many threads this process has.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// The calling thread's number in the system, as ps(1) and /proc have it: gettid(2).
pub fn thread_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}

/// A duplicate of descriptor 0 if it is an Internet connection: so inetd(8) starts a program. Other
/// sockets there are somebody's way of wiring standard input.
pub fn socket_on_stdin() -> Option<OwnedFd> {
    let stdin = io::stdin();
    let stdin: BorrowedFd<'_> = stdin.as_fd();
    let peer = rustix::net::getpeername(stdin).ok().flatten();
    let is_connection = peer.is_some_and(|peer| std::net::SocketAddr::try_from(peer).is_ok());
    is_connection
        .then(|| rustix::io::fcntl_dupfd_cloexec(stdin, 3).ok())
        .flatten()
}

/// Whether a process resolves paths as this thread does: both are in one mount namespace and see its first mount.
/// False if that is unknown.
pub fn shares_paths_with(process: i32) -> bool {
    // Each mount id belongs to one namespace: proc_pid_mountinfo(5). Only root and the process's own user may read
    // the link to its namespace.
    let first_mount = |process: &str| {
        let mut text = [0; 16];
        let mut file = File::open(format!("/proc/{process}/mountinfo")).ok()?;
        let length = file.read(&mut text).ok()?;
        let number = text[..length].split(|byte| *byte == b' ').next()?;
        (!number.is_empty()).then(|| number.to_owned())
    };
    let here = first_mount("thread-self");
    here.is_some() && here == first_mount(&process.to_string())
}

/// How many columns the terminal has that this descriptor is, if it is one: TIOCGWINSZ, ioctl_tty(2).
pub fn terminal_columns(descriptor: impl AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(descriptor).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// The effective user id: geteuid(2).
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Has the allocator give large pieces back at once when they are freed, and keep little of the rest: mallopt(3), of
/// glibc, whose bounds otherwise grow with what is freed.
pub fn keep_little_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// A quarter of what glibc begins with: it keeps as much for each of its arenas.
        const BOUND: i32 = 32 << 10;
        // SAFETY: it takes two numbers, and is safe with threads.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, BOUND);
            libc::mallopt(libc::M_TRIM_THRESHOLD, BOUND);
        }
    }
}

/// Gives the system the memory that has been freed: malloc_trim(3), which glibc has. Others do it by themselves.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and is safe with threads.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// This process's limit of open descriptors.
pub fn descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
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
    descriptor_limit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shared_with_oneself() {
        assert!(shares_paths_with(std::process::id() as i32));
        assert!(!shares_paths_with(0) && !shares_paths_with(i32::MAX));
    }
}
