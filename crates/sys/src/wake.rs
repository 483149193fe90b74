//! Waking a thread that blocks in a system call.
//!
//! A signal with an empty handler, installed without SA_RESTART, makes the call return EINTR. A
//! signal that arrives just before the call is lost. So the waking thread, usually the engine's
//! deadline thread, repeats the signal until the woken thread confirms that it has seen its flag.

use std::cell::Cell;
use std::io;
use std::sync::Once;

/// A thread that can be woken. Waking a thread that has ended is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeableThread {
    process: libc::pid_t,
    thread: libc::pid_t,
}

thread_local! {
    /// The calling thread's ids, cached to save two system calls.
    static THIS_THREAD: Cell<Option<WakeableThread>> = const { Cell::new(None) };
}

/// Clears the cached ids in a forked child, whose thread has other ids.
pub(crate) fn forget_this_thread() {
    THIS_THREAD.set(None);
}

impl WakeableThread {
    /// Returns the calling thread.
    pub fn this_thread() -> Self {
        THIS_THREAD.get().unwrap_or_else(|| {
            install_handler();
            let thread = Self {
                process: std::process::id() as libc::pid_t,
                thread: rustix::thread::gettid().as_raw_nonzero().get(),
            };
            THIS_THREAD.set(Some(thread));
            thread
        })
    }

    /// Makes the thread's current blocking call return EINTR, if it is in one.
    pub fn wake(self) {
        // SAFETY: tgkill(2) takes only numbers. If the thread has ended, it fails with ESRCH. The
        // process id excludes threads of other processes that reuse the thread id.
        unsafe {
            libc::syscall(libc::SYS_tgkill, self.process, self.thread, wake_signal());
        }
    }
}

/// Returns the first real-time signal that the C library leaves to programs. Other code is unlikely
/// to use it, unlike SIGUSR1 and SIGALRM.
fn wake_signal() -> libc::c_int {
    libc::SIGRTMIN()
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        extern "C" fn do_nothing(_: libc::c_int) {}
        // SAFETY: a zeroed sigaction is valid: no flags (so no SA_RESTART) and an empty mask. The
        // handler touches no memory.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = do_nothing as *const () as libc::sighandler_t;
            libc::sigaction(wake_signal(), &raw const action, std::ptr::null_mut())
        };
        debug_assert_eq!(result, 0, "{}", io::Error::last_os_error());
    });
}
