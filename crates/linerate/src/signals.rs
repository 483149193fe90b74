//! What SIGINT, SIGTERM and SIGALRM do: end what runs, early but properly.

use std::io;
#[cfg(feature = "uperf")]
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[cfg(feature = "uperf")]
use engine::Reason;
use engine::{Stop, deadline_thread};
#[cfg(feature = "netperf")]
use signal_hook::consts::SIGALRM;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// The exit code of a process that a second signal ends, as a shell shows a SIGINT.
const INTERRUPTED: i32 = 130;

/// What a thread needs that only waits for signals.
#[cfg(feature = "uperf")]
const STACK: usize = 64 * 1024;

/// Pulls `stop` at the first SIGINT or SIGTERM. A second one ends the process at once, for a user
/// who has lost patience.
pub(crate) fn stop_on_signals(stop: &Stop) {
    // Without handlers the signals end the process, which is the next best thing.
    let _ = register(stop, &[]);
}

/// The same, and at SIGALRM: the stock client's own timer is that signal, and scripts send it to say
/// that the time is up. More of them say nothing new.
#[cfg(feature = "netperf")]
pub(crate) fn stop_on_signals_and_alarm(stop: &Stop) {
    let _ = register(stop, &[SIGALRM]);
}

/// Pulls these stops in their order, one at each SIGINT or SIGTERM. The next one ends the process at once.
#[cfg(feature = "uperf")]
pub(crate) fn stop_in_turn(stops: Vec<Stop>) {
    let _ = ring_in_turn(stops);
}

#[cfg(feature = "uperf")]
fn ring_in_turn(stops: Vec<Stop>) -> io::Result<()> {
    let (mut bell, ring) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, ring.try_clone()?)?;
    }
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || {
            let mut ring = [0];
            for stop in stops {
                let _ = bell.read_exact(&mut ring);
                stop.pull(Reason::Cancelled);
            }
            let _ = bell.read_exact(&mut ring);
            std::process::exit(INTERRUPTED);
        })?;
    Ok(())
}

fn register(stop: &Stop, alarms: &[i32]) -> io::Result<()> {
    let (bell, ring) = UnixStream::pair()?;
    deadline_thread().on_input(bell.into(), stop)?;
    let once = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down, and raises it.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&once))?;
        flag::register(signal, Arc::clone(&once))?;
        pipe::register(signal, ring.try_clone()?)?;
    }
    for signal in alarms {
        pipe::register(*signal, ring.try_clone()?)?;
    }
    Ok(())
}
