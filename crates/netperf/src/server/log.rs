//! The log: lines on stderr. Without `-d` it contains only warnings. Its rate is limited, so that
//! clients cannot fill a disk.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use server::{LogDecision, LogRateLimit};
use sys::write_error_line;

/// Maximum lines per period with `-d`.
const MAX_LINES: u32 = 1000;

/// Maximum lines per period without `-d`.
const MAX_WARNINGS: u32 = 100;

/// Maximum lines per period; 0 until the log starts.
static LINE_LIMIT: AtomicU32 = AtomicU32::new(0);

static RATE_LIMIT: Mutex<Option<LogRateLimit>> = Mutex::new(None);

/// Starts the log with warnings, and with all other lines if `debug` is set.
pub(super) fn start(debug: bool) {
    let limit = if debug { MAX_LINES } else { MAX_WARNINGS };
    LINE_LIMIT.store(limit, Relaxed);
}

/// Writes a line with `-d` only. Never call it in a measured loop.
pub(super) fn log(line: fmt::Arguments<'_>) {
    if LINE_LIMIT.load(Relaxed) == MAX_LINES {
        write(line);
    }
}

/// Writes a line about a possible attack: a refused client, or data from an address that is not the
/// client's.
pub(super) fn warn(line: fmt::Arguments<'_>) {
    if LINE_LIMIT.load(Relaxed) > 0 {
        write(line);
    }
}

fn write(line: fmt::Arguments<'_>) {
    let decision = {
        let mut rate_limit = RATE_LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        rate_limit
            .get_or_insert(LogRateLimit::begin(now))
            .decide(now, LINE_LIMIT.load(Relaxed))
    };
    let LogDecision::Write {
        suppressed: left_out,
    } = decision
    else {
        return;
    };
    if left_out > 0 {
        write_error_line(format_args!("netserver: {left_out} log lines left out"));
    }
    write_error_line(format_args!("netserver: {line}"));
}
