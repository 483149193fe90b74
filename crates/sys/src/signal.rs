//! SIGINT, SIGTERM and other signals as bytes in a socket, for a thread that waits for them.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

pub use signal_hook::consts::SIGALRM;

/// The exit code of a process that a second signal ends, as a shell shows a SIGINT.
pub const INTERRUPTED: i32 = 130;

/// Returns a socket that gets a byte at each SIGINT, SIGTERM and signal of `others`. A second SIGINT or SIGTERM ends
/// the process at once, for a user who has lost patience.
pub fn first_interrupt(others: &[i32]) -> io::Result<UnixStream> {
    let once = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down, and raises it.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&once))?;
        flag::register(signal, Arc::clone(&once))?;
    }
    of_signals(&[&[SIGINT, SIGTERM], others].concat())
}

/// Returns a socket that gets a byte at each SIGINT and SIGTERM, which have no other effect.
pub fn each_interrupt() -> io::Result<UnixStream> {
    of_signals(&[SIGINT, SIGTERM])
}

/// Returns a socket that gets a byte at each SIGHUP, which has no other effect.
pub fn each_hangup() -> io::Result<UnixStream> {
    of_signals(&[SIGHUP])
}

fn of_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (bell, ring) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(*signal, ring.try_clone()?)?;
    }
    Ok(bell)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_signal_is_a_byte() {
        let mut bell = first_interrupt(&[SIGALRM]).unwrap();
        for _ in 0..2 {
            signal_hook::low_level::raise(SIGALRM).unwrap();
            bell.read_exact(&mut [0]).unwrap();
        }
    }
}
