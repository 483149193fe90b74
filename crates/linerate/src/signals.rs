//! What SIGINT and SIGTERM do: end what runs, early but properly.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::{Stop, keeper};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// The exit code of a process that a second signal ends, as a shell shows a SIGINT.
const INTERRUPTED: i32 = 130;

/// Pulls `stop` at the first SIGINT or SIGTERM. A second one ends the process at once, for a user
/// who has lost patience.
pub(crate) fn stop_on_signals(stop: &Stop) {
    // Without handlers the signals end the process, which is the next best thing.
    let _ = register(stop);
}

fn register(stop: &Stop) -> io::Result<()> {
    let (bell, ring) = UnixStream::pair()?;
    keeper().on_input(bell.into(), stop)?;
    let once = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down, and raises it.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&once))?;
        flag::register(signal, Arc::clone(&once))?;
        pipe::register(signal, ring.try_clone()?)?;
    }
    Ok(())
}
