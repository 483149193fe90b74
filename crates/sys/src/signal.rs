//! SIGINT, SIGTERM and other signals as bytes on a socket, for a thread that waits for them.

use std::ffi::CStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use signal_hook::flag;
use signal_hook::low_level::pipe;

pub use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM};

/// Exit code of a process that a second signal ends; a shell reports SIGINT as this code.
pub const INTERRUPTED_EXIT_CODE: i32 = 130;

/// Returns a socket that gets a byte for each SIGINT, SIGTERM and signal in `other_signals`. A
/// second SIGINT or SIGTERM ends the process immediately.
pub fn notify_first_interrupt(other_signals: &[i32]) -> io::Result<UnixStream> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag unset, then sets it.
        flag::register_conditional_shutdown(
            signal,
            INTERRUPTED_EXIT_CODE,
            Arc::clone(&is_interrupted),
        )?;
        flag::register(signal, Arc::clone(&is_interrupted))?;
    }
    register_signals(&[&[SIGINT, SIGTERM], other_signals].concat())
}

/// Returns a socket that gets a byte for each SIGINT and SIGTERM, which have no other effect.
pub fn notify_each_interrupt() -> io::Result<UnixStream> {
    register_signals(&[SIGINT, SIGTERM])
}

/// Returns a socket that gets a byte for each SIGHUP, which has no other effect.
pub fn notify_each_hangup() -> io::Result<UnixStream> {
    register_signals(&[SIGHUP])
}

/// Returns whether this process ignores a signal, as nohup(1) makes its command ignore SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the call only writes the current action to `action`, which is plain data.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The last recorded signal; 0 for none.
static LAST_SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Records these signals for [`last_signal`]. Call it before the function that makes their socket.
pub fn record(signals: &[i32]) -> io::Result<()> {
    for signal in signals {
        flag::register_usize(*signal, Arc::clone(&LAST_SIGNAL), *signal as usize)?;
    }
    Ok(())
}

/// Returns the last recorded signal.
pub fn last_signal() -> Option<i32> {
    Some(LAST_SIGNAL.load(Relaxed) as i32).filter(|signal| *signal > 0)
}

/// Returns the description of a signal, such as `Interrupt`: strsignal(3).
pub fn description(signal: i32) -> String {
    // SAFETY: strsignal(3) returns a C string, which stays unchanged until the next call in this
    // thread.
    unsafe {
        let text = libc::strsignal(signal);
        if text.is_null() {
            return "Unknown signal".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn register_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(*signal, sender.try_clone()?)?;
    }
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_signal_sends_one_byte() {
        record(&[SIGALRM]).unwrap();
        let mut receiver = notify_first_interrupt(&[SIGALRM]).unwrap();
        for _ in 0..2 {
            signal_hook::low_level::raise(SIGALRM).unwrap();
            receiver.read_exact(&mut [0]).unwrap();
        }
        assert_eq!(
            last_signal().map(description).as_deref(),
            Some("Alarm clock")
        );
    }
}
