//! Per-packet records as text.

use std::fmt::Write;

use stats::ClockFit;

use super::format_g;
use crate::result::{RecordRows, Records};
use crate::wire::{ArrivalRecord, LostRecord};

/// Formats the records of `udpmon_bw_mon`.
pub fn arrival_records(records: &Records) -> String {
    let mut text = skipped_line(records);
    match &records.rows {
        RecordRows::All(rows) => write_arrivals(&mut text, records, rows),
        RecordRows::Lost(rows) => write_losses(&mut text, records, rows),
    }
    text
}

fn skipped_line(records: &Records) -> String {
    format!(" num packets skipped =; {}\n", records.skip)
}

/// Returns the printed numbers of the records. The first datagram has number 1.
fn numbers(records: &Records) -> impl Iterator<Item = u64> + use<> {
    u64::from(records.skip) + 1..
}

/// Converts a time in 0.1 µs to microseconds.
fn tenths_to_us(tenths: i64) -> f64 {
    tenths as f64 / 10.0
}

/// Returns the one-way delay in µs; 0 without clock exchanges.
fn delay_us(clock: Option<&ClockFit>, arrival: i64, sent: i64) -> f64 {
    let Some(clock) = clock else { return 0.0 };
    let arrival_ns = arrival as f64 * 100.0;
    let drift = clock.skew_ppm.unwrap_or(0.0) * 1e-6 * (arrival_ns - clock.at_ns as f64);
    (arrival_ns - clock.offset_ns as f64 - drift - sent as f64 * 100.0) / 1e3
}

fn write_arrivals(text: &mut String, records: &Records, rows: &[ArrivalRecord]) {
    *text += "packet; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv_time us; delta \
              send_time us; delta 1-way time us; ;HW system time ns; HW raw time ns; ;delta HW system time us; delta HW \
              raw time us;  \n";
    let delay = |row: &ArrivalRecord| match row.arrival {
        0 => 0.0,
        arrival => delay_us(records.clock.as_ref(), arrival, row.sent),
    };
    let mut previous: Option<&ArrivalRecord> = None;
    for (number, row) in numbers(records).zip(rows) {
        let difference = row.arrival.wrapping_sub(row.sent);
        let _ = write!(
            text,
            " {number}; {}; {}; {difference}; {}; ;",
            row.arrival,
            row.sent,
            format_g(delay(row))
        );
        match previous.replace(row) {
            None => *text += "\n",
            Some(previous) if previous.arrival == 0 || row.arrival == 0 => {
                *text += " 0; 0; 0; ; 0; 0; ;";
            }
            Some(previous) => {
                let _ = write!(
                    text,
                    " {}; {}; {}; ; {}; {}; ; {}; {}; ;",
                    format_g(tenths_to_us(row.arrival.wrapping_sub(previous.arrival))),
                    format_g(tenths_to_us(row.sent.wrapping_sub(previous.sent))),
                    format_g(delay(row) - delay(previous)),
                    row.kernel_ns,
                    row.hardware_ns,
                    format_g(stamp_delta_us(previous.kernel_ns, row.kernel_ns)),
                    format_g(stamp_delta_us(previous.hardware_ns, row.hardware_ns)),
                );
            }
        }
        *text += "\n";
    }
}

/// Returns the time from one stamp to the next, in µs.
fn stamp_delta_us(previous_ns: u64, next_ns: u64) -> f64 {
    next_ns.wrapping_sub(previous_ns) as i64 as f64 / 1e3
}

fn write_losses(text: &mut String, records: &Records, rows: &[LostRecord]) {
    *text += "lost event; recv_time 0.1us; send_time 0.1us; diff 0.1us; one_way time us; lost packet num; ;delta \
              recv_time us; delta send_time us; num packets between losses;\n";
    let mut previous = LostRecord::default();
    for (number, row) in (1..).zip(rows) {
        let delay = match row.arrival {
            0 => 0.0,
            arrival => delay_us(records.clock.as_ref(), arrival, row.sent),
        };
        let _ = writeln!(
            text,
            " {number}; {}; {}; {}; {}; {}; ; {}; {}; {}",
            row.arrival,
            row.sent,
            row.arrival.wrapping_sub(row.sent),
            format_g(delay),
            row.number,
            format_g(tenths_to_us(row.arrival.wrapping_sub(previous.arrival))),
            format_g(tenths_to_us(row.sent.wrapping_sub(previous.sent))),
            row.number.wrapping_sub(previous.number)
        );
        previous = *row;
    }
}

/// Formats the records of `udpmon_recv`. Times are relative to the first packet. There is no
/// one-way delay, because a receiver has no clock exchanges.
pub fn recv_records(records: &Records) -> String {
    let mut text = "recv_time ipg us; send_time ipg us; \n".to_owned() + &skipped_line(records);
    let rows = match &records.rows {
        RecordRows::All(rows) => rows,
        RecordRows::Lost(rows) => {
            write_losses(&mut text, records, rows);
            return text;
        }
    };
    text += "packet num; recv_time 0.1us; send_time 0.1us; diff 0.1us; ;delta recv_time us; delta send_time us; ;HW \
             system time ns; HW raw time ns; ;delta HW system time us; delta HW raw time us;  \n";
    let first = rows.iter().find(|row| **row != ArrivalRecord::default());
    let first = first.copied().unwrap_or_default();
    let mut previous: Option<ArrivalRecord> = None;
    for (number, row) in numbers(records).zip(rows) {
        if *row == ArrivalRecord::default() {
            let _ = writeln!(text, " {number}; 0; 0; 0; ;0; 0; ; 0; 0; ;0; 0; ;");
            previous = None;
            continue;
        }
        let (arrival, sent) = (
            row.arrival.wrapping_sub(first.arrival),
            row.sent.wrapping_sub(first.sent),
        );
        let _ = write!(
            text,
            " {number}; {arrival}; {sent}; {}; ",
            sent.wrapping_sub(arrival)
        );
        match previous.replace(*row) {
            None if *row == first => text += "; ; ; ; 0; 0; ; ; ; ;",
            None => {
                let _ = write!(
                    text,
                    ";0; 0; ; {}; {}; ; 0; 0; ;",
                    row.kernel_ns, row.hardware_ns
                );
            }
            Some(previous) => {
                let _ = write!(
                    text,
                    ";{}; {}; ; {}; {}; ; {}; {}; ;",
                    format_g(tenths_to_us(row.arrival.wrapping_sub(previous.arrival))),
                    format_g(tenths_to_us(row.sent.wrapping_sub(previous.sent))),
                    row.kernel_ns,
                    row.hardware_ns,
                    format_g(stamp_delta_us(previous.kernel_ns, row.kernel_ns)),
                    format_g(stamp_delta_us(previous.hardware_ns, row.hardware_ns)),
                );
            }
        }
        text += "\n";
    }
    text
}
