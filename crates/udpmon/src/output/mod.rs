//! The text output: exactly the lines of the stock programs, and additional lines that begin with `# `.
//!
//! A column of stock has stock's meaning, even if another meaning would be better. The [`remarks`] contain the better
//! figures.

mod blocks;
pub mod csv;

mod histogram;
mod line;
mod preamble;
mod records;
pub mod remarks;

pub use histogram::{histogram, latency_histogram};
pub use line::{
    bw_mon_line, bw_mon_titles, quiet_prefix, recv_line, recv_table, recv_titles, req_line,
    req_titles, send_line, send_titles,
};
pub use preamble::{Calibration, Program, preamble};
pub use records::{arrival_records, recv_records};

use units::iperf::general;

/// C's `%g`.
fn g(number: f64) -> String {
    general(number, 6)
}

/// Formats a part of `whole` in per cent, as `%.2g`; 0 if `whole` is 0.
fn percent(part: f64, whole: f64) -> String {
    let percent = if whole > 0.0 {
        100.0 * part / whole
    } else {
        0.0
    };
    general(percent, 2)
}

/// Microseconds.
fn micros(time: std::time::Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Overhead in bytes per datagram on the wire: the gap between frames, the preamble, Ethernet's header and checksum,
/// and the headers of IP and UDP.
pub(crate) fn overhead(is_v6: bool) -> u32 {
    if is_v6 { 86 } else { 66 }
}
