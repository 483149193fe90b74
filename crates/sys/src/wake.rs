//! Waking a thread that blocks in a system call.
//!
//! A signal whose handler does nothing, installed without SA_RESTART, makes the call return EINTR.
//! One signal can come a moment too early and be lost; whoever wakes repeats it until the thread
//! says that it saw the flag (the engine's deadline thread does).

use std::cell::Cell;
use std::io;
use std::sync::Once;

/// A thread that can be woken. Sending to one that has ended is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper {
    process: libc::pid_t,
    thread: libc::pid_t,
}

thread_local! {
    /// What it was found out to be: two system calls.
    static THIS_THREAD: Cell<Option<Sleeper>> = const { Cell::new(None) };
}

/// In a forked child the calling thread is another one.
pub(crate) fn forget_this_thread() {
    THIS_THREAD.set(None);
}

impl Sleeper {
    /// The calling thread.
    pub fn this_thread() -> Self {
        THIS_THREAD.get().unwrap_or_else(|| {
            install_handler();
            let sleeper = Self {
                process: std::process::id() as libc::pid_t,
                thread: rustix::thread::gettid().as_raw_nonzero().get(),
            };
            THIS_THREAD.set(Some(sleeper));
            sleeper
        })
    }

    /// Makes the thread's current blocking call return EINTR, if it is in one.
    pub fn wake(self) {
        // SAFETY: tgkill(2) takes numbers only; an ended thread is ESRCH, which is no harm, and the
        // process id keeps a reused thread number of another process out.
        unsafe {
            libc::syscall(libc::SYS_tgkill, self.process, self.thread, signal());
        }
    }
}

/// The first real-time signal that the C library leaves to programs; unlike SIGUSR1 and SIGALRM no
/// other part of a program is likely to want it.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: a zeroed sigaction is valid: no flags (so no SA_RESTART), an empty mask; the
        // handler touches nothing.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            libc::sigaction(signal(), &raw const action, std::ptr::null_mut())
        };
        debug_assert_eq!(result, 0, "{}", io::Error::last_os_error());
    });
}
