//! Handling of SIGINT, SIGTERM and SIGALRM: they end the running tests early, but cleanly.

#[cfg(any(feature = "run", feature = "uperf"))]
use std::io::{self, Read};

#[cfg(any(feature = "run", feature = "uperf"))]
use engine::StopReason;
use engine::{Stop, deadline_thread};
#[cfg(any(feature = "run", feature = "uperf"))]
use sys::signal::INTERRUPTED_EXIT_CODE;

/// Stack size of the thread that waits for signals.
#[cfg(any(feature = "run", feature = "uperf"))]
const SIGNAL_THREAD_STACK_BYTES: usize = 64 * 1024;

/// Sets `stop` at the first SIGINT or SIGTERM. A second signal ends the process immediately.
pub(crate) fn stop_on_signals(stop: &Stop) {
    // If the handlers cannot be installed, the signals end the process.
    let _ = deadline_thread().set_on_signals(&[], stop);
}

/// Prepares a server that already listens, and installs its signal handlers.
///
/// `install_handlers` is [`stop_on_signals`] or a function like it. If `is_daemon`, the server goes to the background; if also `redirects_to_null`, its standard
/// streams go to /dev/null. Returns false in the parent process of a daemon, which does not serve.
/// Call it before any thread starts, because it may fork.
#[cfg(any(feature = "iperf", feature = "iperf3", feature = "udpmon"))]
pub(crate) fn begin_serving(
    is_daemon: bool,
    redirects_to_null: bool,
    install_handlers: impl FnOnce(),
) -> Result<bool, String> {
    let detach_error =
        |error: std::io::Error| format!("cannot go to the background: {}", sys::describe(&error));
    if is_daemon {
        if sys::process::detach().map_err(detach_error)? == sys::process::DetachResult::Parent {
            return Ok(false);
        }
        if redirects_to_null {
            sys::process::redirect_to_null().map_err(detach_error)?;
        }
    }
    install_handlers();
    Ok(true)
}

/// Sets `stop` as [`stop_on_signals`] does, and also at SIGHUP, unless the process ignores it, for
/// example because of nohup(1). Further SIGHUPs have no effect. In the other dialects, as in their
/// stock programs, SIGHUP ends the process.
#[cfg(feature = "iperf3")]
pub(crate) fn stop_on_signals_and_hangup(stop: &Stop) {
    use sys::signal::{SIGHUP, SIGINT, SIGTERM};

    let hangup = [SIGHUP];
    let is_ignored = sys::signal::is_ignored(SIGHUP);
    let signals = if is_ignored { &[][..] } else { &hangup };
    // Without a record, the report does not name the signal.
    let _ = sys::signal::record(&[&[SIGINT, SIGTERM], signals].concat());
    let _ = deadline_thread().set_on_signals(signals, stop);
}

/// Sets `stop` as [`stop_on_signals`] does, and also at SIGALRM. Scripts send SIGALRM to end a
/// test, because it is the timer signal of the stock client. Further SIGALRMs have no effect.
#[cfg(feature = "netperf")]
pub(crate) fn stop_on_signals_and_alarm(stop: &Stop) {
    let _ = deadline_thread().set_on_signals(&[sys::signal::SIGALRM], stop);
}

/// Sets the first stop at the first SIGINT or SIGTERM, the second stop at the second one, and so
/// on. A signal after the last stop ends the process immediately.
#[cfg(any(feature = "run", feature = "uperf"))]
pub(crate) fn stop_one_per_signal(stops: Vec<Stop>) {
    let _ = spawn_signal_thread(stops);
}

#[cfg(any(feature = "run", feature = "uperf"))]
fn spawn_signal_thread(stops: Vec<Stop>) -> io::Result<()> {
    let mut signals = sys::signal::notify_each_interrupt()?;
    std::thread::Builder::new()
        .stack_size(SIGNAL_THREAD_STACK_BYTES)
        .spawn(move || {
            let mut byte = [0];
            for stop in stops {
                let _ = signals.read_exact(&mut byte);
                stop.set(StopReason::Cancelled);
            }
            let _ = signals.read_exact(&mut byte);
            std::process::exit(INTERRUPTED_EXIT_CODE);
        })?;
    Ok(())
}
