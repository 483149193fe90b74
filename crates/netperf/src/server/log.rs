//! The log: lines on stderr. Without `-d` it contains only warnings. Its rate is limited, so that
//! clients cannot fill a disk.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use server::ErrorLog;

/// Maximum lines per period with `-d`.
const MAX_LINES: u32 = 1000;

/// Maximum lines per period; 0 until the log starts.
static LINE_LIMIT: AtomicU32 = AtomicU32::new(0);

static LOG: ErrorLog = ErrorLog::new("netserver");

/// Starts the log with warnings, and with all other lines if `debug` is set.
pub(super) fn start(debug: bool) {
    let limit = if debug {
        MAX_LINES
    } else {
        ErrorLog::MAX_WARNINGS
    };
    LINE_LIMIT.store(limit, Relaxed);
}

/// Writes a line with `-d` only. Never call it in a measured loop.
pub(super) fn log(line: fmt::Arguments<'_>) {
    if LINE_LIMIT.load(Relaxed) == MAX_LINES {
        LOG.write(line, MAX_LINES);
    }
}

/// Writes a line about a possible attack: a refused client, or data from an address that is not the
/// client's.
pub(super) fn warn(line: fmt::Arguments<'_>) {
    let max_lines = LINE_LIMIT.load(Relaxed);
    if max_lines > 0 {
        LOG.write(line, max_lines);
    }
}
