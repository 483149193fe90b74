//! The text output: exactly the lines of the stock programs, and additional lines that begin with
//! `# `.
//!
//! Stock's columns keep stock's meaning, even where it misleads. The [`remarks`] contain the
//! corrected figures.

mod blocks;
pub mod csv;

mod histogram;
mod line;
mod preamble;
mod records;
pub mod remarks;

pub use histogram::{format_histogram, format_latency_histogram};
pub use line::{
    bw_mon_line, bw_mon_titles, quiet_prefix, recv_line, recv_table, recv_titles, req_line,
    req_titles, send_line, send_titles,
};
pub use preamble::{ClockCost, Program, preamble};
pub use records::{arrival_records, recv_records};

use units::iperf::format_general;

/// Formats a number as C's `%g`.
fn format_g(number: f64) -> String {
    format_general(number, 6)
}

/// Formats a part of `total` in per cent, as `%.2g`; 0 if `total` is 0.
fn percent(part: f64, total: f64) -> String {
    let percent = if total > 0.0 {
        100.0 * part / total
    } else {
        0.0
    };
    format_general(percent, 2)
}

/// Returns a time in microseconds.
fn micros(time: std::time::Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Returns the overhead per datagram on the wire in bytes: the interframe gap, the preamble,
/// Ethernet's header and checksum, and the headers of IP and UDP.
pub(crate) fn wire_overhead_bytes(is_v6: bool) -> u32 {
    if is_v6 { 86 } else { 66 }
}
