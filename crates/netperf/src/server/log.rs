//! The log: lines on stderr, warnings only without `-d`. Their rate is bounded, so that clients cannot fill a disk.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use server::{Pace, Verdict};
use sys::write_error_line;

/// The most lines per period with `-d`.
const MOST_LINES: u32 = 1000;

/// The most lines per period without it.
const MOST_WARNINGS: u32 = 100;

/// The most lines per period; 0 until the log is started.
static MOST: AtomicU32 = AtomicU32::new(0);

static PACE: Mutex<Option<Pace>> = Mutex::new(None);

/// Starts the log: with warnings, and with all other lines if `debug` is set.
pub(super) fn start(debug: bool) {
    let most = if debug { MOST_LINES } else { MOST_WARNINGS };
    MOST.store(most, Relaxed);
}

/// Writes a line if `-d` is given; never from within a measured loop.
pub(super) fn log(line: fmt::Arguments<'_>) {
    if MOST.load(Relaxed) == MOST_LINES {
        write(line);
    }
}

/// Writes a line about a host that may be an attacker: a refused client, or data from another address than the client's.
pub(super) fn warn(line: fmt::Arguments<'_>) {
    if MOST.load(Relaxed) > 0 {
        write(line);
    }
}

fn write(line: fmt::Arguments<'_>) {
    let verdict = {
        let mut pace = PACE.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        pace.get_or_insert(Pace::begin(now))
            .judge(now, MOST.load(Relaxed))
    };
    let Verdict::Written { left_out } = verdict else {
        return;
    };
    if left_out > 0 {
        write_error_line(format_args!("netserver: {left_out} log lines left out"));
    }
    write_error_line(format_args!("netserver: {line}"));
}
