//! What SIGINT and SIGTERM do: end what runs, early but properly.

use engine::{Reason, Stop};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Pulls `stop` at the first SIGINT or SIGTERM. A second one ends the process at once, for a user
/// who has lost patience.
pub(crate) fn stop_on_signals(stop: &Stop) {
    let stop = stop.clone();
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        // Without a handler the signals end the process, which is the next best thing.
        return;
    };
    let waiting = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            stop.pull(Reason::Cancelled);
        }
    };
    let _ = std::thread::Builder::new().stack_size(64 * 1024).spawn(waiting);
}
