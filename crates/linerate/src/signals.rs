//! What SIGINT and SIGTERM do: end what runs, early but properly.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use engine::{Reason, Stop};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{self, pipe};

/// Pulls `stop` at the first SIGINT or SIGTERM. A second one ends the process at once, for a user
/// who has lost patience.
pub(crate) fn stop_on_signals(stop: &Stop) {
    // Without a handler the signals end the process, which is the next best thing.
    let _ = wait_for_signals(stop.clone());
}

fn wait_for_signals(stop: Stop) -> io::Result<()> {
    let (mut bell, ring) = UnixStream::pair()?;
    pipe::register(SIGINT, ring.try_clone()?)?;
    pipe::register(SIGTERM, ring)?;
    let waiting = move || {
        sys::process::own_descriptors(&[bell.as_fd()]);
        let mut once = [0];
        if bell.read_exact(&mut once).is_ok() {
            stop.pull(Reason::Cancelled);
        }
        if bell.read_exact(&mut once).is_ok() {
            let _ = low_level::emulate_default_handler(SIGTERM);
        }
    };
    std::thread::Builder::new()
        .stack_size(64 * 1024)
        .spawn(waiting)
        .map(drop)
}
