//! Per-packet records as text.

use std::fmt::Write;

use stats::ClockFit;

use super::g;
use crate::result::{RecordRows, Records};
use crate::wire::{LostRecord, PacketRecord};

/// The records of `udpmon_bw_mon`.
pub fn arrival_records(records: &Records) -> String {
    let mut text = skipped(records);
    match &records.rows {
        RecordRows::All(rows) => all(&mut text, records, rows),
        RecordRows::Lost(rows) => lost(&mut text, records, rows),
    }
    text
}

fn skipped(records: &Records) -> String {
    format!(" num packets skipped =; {}\n", records.skip)
}

/// The number of the first record. Numbers start at 1.
fn numbers(records: &Records) -> impl Iterator<Item = u64> + use<> {
    u64::from(records.skip) + 1..
}

/// Tenths of a microsecond, as microseconds.
fn us(tenths: i64) -> f64 {
    tenths as f64 / 10.0
}

/// The one-way delay in µs; 0 without exchanges.
fn delay_us(clock: Option<&ClockFit>, came: i64, sent: i64) -> f64 {
    let Some(clock) = clock else { return 0.0 };
    let came_ns = came as f64 * 100.0;
    let drift = clock.skew_ppm.unwrap_or(0.0) * 1e-6 * (came_ns - clock.at_ns as f64);
    (came_ns - clock.offset_ns as f64 - drift - sent as f64 * 100.0) / 1e3
}

fn all(text: &mut String, records: &Records, rows: &[PacketRecord]) {
    *text += "packet; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv_time us; delta \
              send_time us; delta 1-way time us; ;HW system time ns; HW raw time ns; ;delta HW system time us; delta HW \
              raw time us;  \n";
    let delay = |row: &PacketRecord| match row.came {
        0 => 0.0,
        came => delay_us(records.clock.as_ref(), came, row.sent),
    };
    let mut before: Option<&PacketRecord> = None;
    for (number, row) in numbers(records).zip(rows) {
        let difference = row.came.wrapping_sub(row.sent);
        let _ = write!(
            text,
            " {number}; {}; {}; {difference}; {}; ;",
            row.came,
            row.sent,
            g(delay(row))
        );
        match before.replace(row) {
            None => *text += "\n",
            Some(before) if before.came == 0 || row.came == 0 => {
                *text += " 0; 0; 0; ; 0; 0; ;";
            }
            Some(before) => {
                let _ = write!(
                    text,
                    " {}; {}; {}; ; {}; {}; ; {}; {}; ;",
                    g(us(row.came.wrapping_sub(before.came))),
                    g(us(row.sent.wrapping_sub(before.sent))),
                    g(delay(row) - delay(before)),
                    row.kernel_ns,
                    row.hardware_ns,
                    g(stamp_delta_us(before.kernel_ns, row.kernel_ns)),
                    g(stamp_delta_us(before.hardware_ns, row.hardware_ns)),
                );
            }
        }
        *text += "\n";
    }
}

/// µs from one stamp to the next.
fn stamp_delta_us(before_ns: u64, now_ns: u64) -> f64 {
    now_ns.wrapping_sub(before_ns) as i64 as f64 / 1e3
}

fn lost(text: &mut String, records: &Records, rows: &[LostRecord]) {
    *text += "lost event; recv_time 0.1us; send_time 0.1us; diff 0.1us; one_way time us; lost packet num; ;delta \
              recv_time us; delta send_time us; num packets between losses;\n";
    let mut before = LostRecord::default();
    for (number, row) in (1..).zip(rows) {
        let delay = match row.came {
            0 => 0.0,
            came => delay_us(records.clock.as_ref(), came, row.sent),
        };
        let _ = writeln!(
            text,
            " {number}; {}; {}; {}; {}; {}; ; {}; {}; {}",
            row.came,
            row.sent,
            row.came.wrapping_sub(row.sent),
            g(delay),
            row.number,
            g(us(row.came.wrapping_sub(before.came))),
            g(us(row.sent.wrapping_sub(before.sent))),
            row.number.wrapping_sub(before.number)
        );
        before = *row;
    }
}

/// Formats the records of `udpmon_recv`. Without exchanges, they have no one-way delay. Times are relative to the first
/// packet.
pub fn recv_records(records: &Records) -> String {
    let mut text = "recv_time ipg us; send_time ipg us; \n".to_owned() + &skipped(records);
    let rows = match &records.rows {
        RecordRows::All(rows) => rows,
        RecordRows::Lost(rows) => {
            lost(&mut text, records, rows);
            return text;
        }
    };
    text += "packet num; recv_time 0.1us; send_time 0.1us; diff 0.1us; ;delta recv_time us; delta send_time us; ;HW \
             system time ns; HW raw time ns; ;delta HW system time us; delta HW raw time us;  \n";
    let first = rows.iter().find(|row| **row != PacketRecord::default());
    let first = first.copied().unwrap_or_default();
    let mut before: Option<PacketRecord> = None;
    for (number, row) in numbers(records).zip(rows) {
        if *row == PacketRecord::default() {
            let _ = writeln!(text, " {number}; 0; 0; 0; ;0; 0; ; 0; 0; ;0; 0; ;");
            before = None;
            continue;
        }
        let (came, sent) = (
            row.came.wrapping_sub(first.came),
            row.sent.wrapping_sub(first.sent),
        );
        let _ = write!(
            text,
            " {number}; {came}; {sent}; {}; ",
            sent.wrapping_sub(came)
        );
        match before.replace(*row) {
            None if *row == first => text += "; ; ; ; 0; 0; ; ; ; ;",
            None => {
                let _ = write!(
                    text,
                    ";0; 0; ; {}; {}; ; 0; 0; ;",
                    row.kernel_ns, row.hardware_ns
                );
            }
            Some(before) => {
                let _ = write!(
                    text,
                    ";{}; {}; ; {}; {}; ; {}; {}; ;",
                    g(us(row.came.wrapping_sub(before.came))),
                    g(us(row.sent.wrapping_sub(before.sent))),
                    row.kernel_ns,
                    row.hardware_ns,
                    g(stamp_delta_us(before.kernel_ns, row.kernel_ns)),
                    g(stamp_delta_us(before.hardware_ns, row.hardware_ns)),
                );
            }
        }
        text += "\n";
    }
    text
}
