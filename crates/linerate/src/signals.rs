//! What SIGINT, SIGTERM and SIGALRM do: end what runs, early but properly.

#[cfg(any(feature = "run", feature = "uperf"))]
use std::io::{self, Read};

#[cfg(any(feature = "run", feature = "uperf"))]
use engine::Reason;
use engine::{Stop, deadline_thread};
#[cfg(any(feature = "run", feature = "uperf"))]
use sys::signal::INTERRUPTED;

/// What a thread needs that only waits for signals.
#[cfg(any(feature = "run", feature = "uperf"))]
const STACK: usize = 64 * 1024;

/// Pulls `stop` at the first SIGINT or SIGTERM. A second one ends the process at once.
pub(crate) fn stop_on_signals(stop: &Stop) {
    // Without handlers the signals end the process, which is the next best thing.
    let _ = deadline_thread().on_signals(&[], stop);
}

/// What a server does once it listens: it goes to the background if it `is_daemon`, without its standard streams if
/// `is_silent`, and ends by signals. Whether this process is the one that serves. No thread may exist yet.
#[cfg(any(feature = "iperf", feature = "iperf3", feature = "udpmon"))]
pub(crate) fn begin_serving(is_daemon: bool, is_silent: bool, stop: &Stop) -> Result<bool, String> {
    let refused =
        |error: std::io::Error| format!("cannot go to the background: {}", sys::describe(&error));
    if is_daemon {
        if sys::process::detach().map_err(refused)? == sys::process::Side::Parent {
            return Ok(false);
        }
        if is_silent {
            sys::process::silence().map_err(refused)?;
        }
    }
    stop_on_signals(stop);
    Ok(true)
}

/// Pulls `stop` as [`stop_on_signals`] does, and at SIGALRM: the stock client's own timer is that signal, and scripts send it to say
/// that the time is up. More of them say nothing new.
#[cfg(feature = "netperf")]
pub(crate) fn stop_on_signals_and_alarm(stop: &Stop) {
    let _ = deadline_thread().on_signals(&[sys::signal::SIGALRM], stop);
}

/// Pulls these stops in their order, one at each SIGINT or SIGTERM. The next one ends the process at once.
#[cfg(any(feature = "run", feature = "uperf"))]
pub(crate) fn stop_in_turn(stops: Vec<Stop>) {
    let _ = ring_in_turn(stops);
}

#[cfg(any(feature = "run", feature = "uperf"))]
fn ring_in_turn(stops: Vec<Stop>) -> io::Result<()> {
    let mut bell = sys::signal::each_interrupt()?;
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
