//! SIGSEGV and SIGBUS end the process.

use std::ffi::c_int;

/// Installs [`end_process`] before `main`. The standard library's handler reports the overflow of a
/// thread's stack by name, and needs a second stack for each thread: three more changes of the
/// address space for every thread that starts and ends. They all need one lock of the kernel, on
/// which thousands of short sessions otherwise wait for each other. The library installs no handler
/// if another one is present.
#[used]
#[unsafe(link_section = ".init_array")]
static INSTALL: extern "C" fn() = install;

extern "C" fn install() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the action is plain data, and its handler calls only functions that are safe in a
        // signal handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = end_process as extern "C" fn(c_int) as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Raises the signal again. SA_RESETHAND has set its default action, which ends the process.
extern "C" fn end_process(signal: c_int) {
    // SAFETY: raise(3) may be called in a signal handler.
    unsafe { libc::raise(signal) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_has_no_signal_stack() {
        let flags = std::thread::spawn(|| {
            // SAFETY: the call only writes to `stack`, which is plain data.
            unsafe {
                let mut stack: libc::stack_t = std::mem::zeroed();
                assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut stack), 0);
                stack.ss_flags
            }
        });
        assert_eq!(flags.join().unwrap() & libc::SS_DISABLE, libc::SS_DISABLE);
    }
}
