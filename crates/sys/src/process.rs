//! Forking, detaching from a terminal, descriptors, and limits of this process.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// Process in which [`detach`] returned.
#[derive(Debug, PartialEq, Eq)]
pub enum DetachResult {
    /// The original process, which should exit now.
    Parent,
    /// The daemon, which leads a new session without a terminal.
    Daemon,
}

/// Forks a daemon. It must be called before the process starts threads.
///
/// The daemon starts a new session in `/`. Its standard streams stay open until
/// [`redirect_to_null`], so that it can report start-up errors.
pub fn detach() -> io::Result<DetachResult> {
    // SAFETY: no other thread exists (asserted here), so the child may continue without
    // restrictions.
    assert_eq!(thread_count(), 1, "detach() with threads running");
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            crate::wake::forget_this_thread();
            rustix::process::setsid()?;
            rustix::process::chdir("/")?;
            Ok(DetachResult::Daemon)
        }
        _ => Ok(DetachResult::Parent),
    }
}

/// Redirects standard input, output and error to the null device.
pub fn redirect_to_null() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Calls `create` with a umask(2) that makes new files accessible to this user only. The umask
/// applies to all threads.
pub fn with_private_files<T>(create: impl FnOnce() -> T) -> T {
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let created = create();
    rustix::process::umask(before);
    created
}

/// Gives the calling thread a private descriptor table with only the standard streams and `keep`:
/// unshare(2), close_range(2).
///
/// While threads share a table, each system call on a socket increments and decrements a reference
/// count, with two locked instructions. A helper thread with a private table saves the measuring
/// thread this cost. Kernels before 5.9 lack close_range(2); the table then stays shared. Do not
/// call this in a thread with sockets: ss(8) and similar tools look for a process's sockets in the
/// table of its first thread.
pub fn use_private_descriptors(keep: &[BorrowedFd<'_>]) {
    use std::os::fd::AsRawFd;
    const MAX_FD: libc::c_uint = libc::c_uint::MAX;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        // SAFETY: close_range(2) takes numbers. It closes nothing here: no descriptor is MAX_FD.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
    };
    if !close(MAX_FD, MAX_FD) {
        return;
    }
    // Blocks all signals in this thread: a signal handler may write to a descriptor that is closed
    // here. Other threads still take the signals.
    // SAFETY: the set is filled before it is read, and only this thread's mask changes.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
    // SAFETY: only the descriptor table is unshared. All its descriptors in this thread are closed
    // right after, except those that the caller continues to use.
    if unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) }.is_err() {
        return;
    }
    let mut sorted_keep: Vec<libc::c_uint> = keep
        .iter()
        .map(|fd| fd.as_raw_fd() as libc::c_uint)
        .collect();
    sorted_keep.sort_unstable();
    close_all_except(&sorted_keep);
}

/// Closes all descriptors except the standard streams and `keep`, which must be sorted.
fn close_all_except(keep: &[libc::c_uint]) {
    const MAX_FD: libc::c_uint = libc::c_uint::MAX;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        // SAFETY: close_range(2) takes numbers; the callers ensure that the descriptors are not
        // used any more.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    };
    let mut first = 3;
    for &fd in keep {
        if fd > first {
            close(first, fd - 1);
        }
        first = first.max(fd + 1);
    }
    close(first, MAX_FD);
}

/// Process in which [`fork`] returned.
#[derive(Debug, PartialEq, Eq)]
pub enum ForkResult {
    /// The child process.
    Child,
    /// The parent process, with the child's process id.
    Parent(u32),
}

/// Forks a process that may have threads.
///
/// The child has only the calling thread. Locks that other threads held at that moment (their own,
/// or standard output's) stay locked in the child for ever, so the child must not use them. Memory
/// allocation is safe, because C libraries handle their own locks. The child must end with
/// [`exit_now`].
pub fn fork() -> io::Result<ForkResult> {
    // SAFETY: fork(2) itself touches no memory; the restrictions of the child are documented above.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            crate::wake::forget_this_thread();
            Ok(ForkResult::Child)
        }
        child => Ok(ForkResult::Parent(child as u32)),
    }
}

/// Prepares a forked child: it is killed when the parent's forking thread ends, and it ignores
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT. Closes all descriptors except the standard streams and
/// `keep`.
///
/// Values that own closed descriptors must not be used or dropped in the child.
pub fn prepare_child(parent: u32, keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let is_parent_alive =
        rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == parent);
    if !is_parent_alive {
        exit_now(1);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_IGN needs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let mut sorted_keep: Vec<_> = keep
        .iter()
        .map(|fd| fd.as_raw_fd() as libc::c_uint)
        .collect();
    sorted_keep.sort_unstable();
    close_all_except(&sorted_keep);
    Ok(())
}

/// Ends the process immediately, without flushing, dropping, or exit handlers: _exit(2).
pub fn exit_now(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Kills a child that has not been waited for: SIGKILL.
pub fn kill_child(child: u32) -> io::Result<()> {
    let Some(child) = rustix::process::Pid::from_raw(child as i32) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(rustix::process::kill_process(
        child,
        rustix::process::Signal::KILL,
    )?)
}

/// Waits for a child's end: waitpid(2).
pub fn wait_for_child(child: u32) -> io::Result<std::process::ExitStatus> {
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

/// Returns the number of threads in this process; 1 if the directory is missing or masked.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, |threads| threads.count().max(1))
}

/// Returns the calling thread's id, as in ps(1) and /proc: gettid(2).
pub fn thread_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}

/// Returns a duplicate of descriptor 0 if it is an Internet connection, as inetd(8) provides. Other
/// sockets may serve as standard input for other reasons.
pub fn socket_on_stdin() -> Option<OwnedFd> {
    let stdin = io::stdin();
    let stdin: BorrowedFd<'_> = stdin.as_fd();
    let peer = rustix::net::getpeername(stdin).ok().flatten();
    let is_connection = peer.is_some_and(|peer| std::net::SocketAddr::try_from(peer).is_ok());
    is_connection
        .then(|| rustix::io::fcntl_dupfd_cloexec(stdin, 3).ok())
        .flatten()
}

/// Returns whether a process resolves paths like this thread: both have the same mount namespace
/// and the same first mount. Returns false if that is unknown.
pub fn shares_paths_with(process: i32) -> bool {
    // Each mount id belongs to one namespace: proc_pid_mountinfo(5). The link to the namespace
    // itself is readable only for root and the process's own user.
    let first_mount = |process: &str| {
        let mut text = [0; 16];
        let mut file = File::open(format!("/proc/{process}/mountinfo")).ok()?;
        let length = file.read(&mut text).ok()?;
        let number = text[..length].split(|byte| *byte == b' ').next()?;
        (!number.is_empty()).then(|| number.to_owned())
    };
    let this_thread = first_mount("thread-self");
    this_thread.is_some() && this_thread == first_mount(&process.to_string())
}

/// Returns the number of columns of this terminal; `None` if the descriptor is not a terminal:
/// TIOCGWINSZ, ioctl_tty(2).
pub fn terminal_columns(descriptor: impl AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(descriptor).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Returns the effective user id: geteuid(2).
pub fn effective_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes glibc's allocator return large blocks to the system as soon as they are freed, and keep
/// little other free memory: mallopt(3). By default, it raises its limits with the sizes of freed
/// blocks.
pub fn limit_memory_kept_by_allocator() {
    #[cfg(target_env = "gnu")]
    {
        /// A quarter of glibc's initial limit, which applies to each arena.
        const LIMIT_BYTES: i32 = 32 << 10;
        /// Each arena keeps the pages in which something is left. No loop allocates.
        const ARENAS: i32 = 2;
        // SAFETY: it takes two numbers and is thread-safe.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LIMIT_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LIMIT_BYTES);
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        }
    }
}

/// Returns freed memory to the system: malloc_trim(3) of glibc. Other allocators do it by
/// themselves.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns this process's limit of open descriptors.
pub fn descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises this process's limit of open descriptors to its hard limit, and returns it.
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
    fn a_process_shares_paths_with_itself() {
        assert!(shares_paths_with(std::process::id() as i32));
        assert!(!shares_paths_with(0) && !shares_paths_with(i32::MAX));
    }
}
