//! The record of each packet, and the totals of all records.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};
use stats::Histogram;
use sys::OutputFile;

use crate::schedule::LinkDirection;

/// The first line of the log: the fields of [`ForwardRecord`].
const HEADER: &str =
    "direction,number,protocol,length_bytes,arrival_ns,due_ns,departure_ns,verdict";

/// The record of one packet, or of one copy of a duplicated packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardRecord {
    /// The direction of the packet.
    pub direction: LinkDirection,
    /// The number of the packet in its direction, by arrival, from 1. A copy has the number of its
    /// original.
    pub number: u64,
    /// The protocol number of the IP header; 0 if the header is malformed.
    pub protocol: u8,
    /// The length of the IP packet.
    pub length_bytes: u32,
    /// The time of the read from the first TUN device. All times are of CLOCK_MONOTONIC.
    pub arrival_ns: u64,
    /// The departure time that the schedule requires.
    pub due_ns: u64,
    /// The time just before the write to the second TUN device; 0 without a write.
    pub departure_ns: u64,
    /// The result.
    pub verdict: PacketVerdict,
}

/// The result of forwarding a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketVerdict {
    /// Forwarded.
    Sent,
    /// Forwarded late, by a `reorder` rule.
    Held,
    /// Forwarded as a duplicate.
    Copy,
    /// Dropped by a rule.
    Dropped,
    /// Dropped because the queue was full.
    Overflow,
    /// Refused by the second TUN device.
    Refused,
    /// Still waiting when forwarding stopped.
    Unsent,
}

impl PacketVerdict {
    fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Held => "held",
            Self::Copy => "copy",
            Self::Dropped => "dropped",
            Self::Overflow => "overflow",
            Self::Refused => "refused",
            Self::Unsent => "unsent",
        }
    }

    /// Returns whether the packet was forwarded.
    fn has_departed(self) -> bool {
        matches!(self, Self::Sent | Self::Held | Self::Copy)
    }
}

/// The totals of both directions.
#[derive(Clone, Debug, Default)]
pub struct PacketSums {
    /// From the client to the server; `forth` in schedules.
    pub to_server: DirectionSums,
    /// From the server to the client; `back` in schedules.
    pub to_client: DirectionSums,
}

/// The totals of one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionSums {
    /// Packets read by the forwarder.
    pub arrived: u64,
    /// Forwarded packets, including copies.
    pub departed: u64,
    /// Forwarded copies.
    pub copies: u64,
    /// Packets that a `reorder` rule held back.
    pub held: u64,
    /// Packets, except copies, that departed after a packet with a higher number (RFC 4737 §3.3).
    pub reordered: u64,
    /// Packets dropped by a rule.
    pub dropped: u64,
    /// Packets dropped because the queue was full.
    pub overflow: u64,
    /// Packets refused by the second TUN device.
    pub refused: u64,
    /// Packets still waiting at the end.
    pub unsent: u64,
    /// Packets dropped by the kernel before the forwarder read them. They are neither in the log
    /// nor in `arrived`.
    pub queue_dropped: u64,
    /// Departure minus arrival of forwarded packets, in nanoseconds.
    pub added_delay: Histogram,
    /// Departure minus due time of forwarded packets, in nanoseconds.
    pub lateness: Histogram,
    /// The largest number of a forwarded packet.
    max_number: u64,
}

impl PacketSums {
    /// Adds up records until all senders are dropped, and writes each record to `log`, if given.
    pub fn collect(records: &Receiver<Vec<ForwardRecord>>, log: Option<&Path>) -> io::Result<Self> {
        let mut file = match log {
            Some(path) => Some(BufWriter::new(OutputFile::begin(path)?.create()?)),
            None => None,
        };
        if let Some(file) = &mut file {
            writeln!(file, "{HEADER}")?;
        }
        let mut sums = Self::default();
        for record in records.iter().flatten() {
            if let Some(file) = &mut file {
                writeln!(file, "{}", csv_line(&record))?;
            }
            sums.direction_mut(record.direction).add(&record);
        }
        if let Some(mut file) = file {
            file.flush()?;
        }
        Ok(sums)
    }

    /// Returns the totals of one direction.
    pub fn direction_mut(&mut self, direction: LinkDirection) -> &mut DirectionSums {
        match direction {
            LinkDirection::ToServer => &mut self.to_server,
            LinkDirection::ToClient => &mut self.to_client,
        }
    }

    /// Returns the totals as JSON, with times in nanoseconds.
    pub fn to_json(&self) -> Value {
        json!({ "forth": self.to_server.to_json(), "back": self.to_client.to_json() })
    }

    /// Returns the totals as two lines of text.
    pub fn to_text(&self) -> String {
        format!(
            "forth: {}\nback: {}\n",
            self.to_server.to_text(),
            self.to_client.to_text()
        )
    }
}

impl DirectionSums {
    fn add(&mut self, record: &ForwardRecord) {
        // A copy is not counted as an arrival.
        self.arrived += u64::from(record.verdict != PacketVerdict::Copy);
        match record.verdict {
            PacketVerdict::Sent => (),
            PacketVerdict::Held => self.held += 1,
            PacketVerdict::Copy => self.copies += 1,
            PacketVerdict::Dropped => self.dropped += 1,
            PacketVerdict::Overflow => self.overflow += 1,
            PacketVerdict::Refused => self.refused += 1,
            PacketVerdict::Unsent => self.unsent += 1,
        }
        if !record.verdict.has_departed() {
            return;
        }
        self.departed += 1;
        let is_overtaken = record.number < self.max_number && record.verdict != PacketVerdict::Copy;
        self.reordered += u64::from(is_overtaken);
        self.max_number = self.max_number.max(record.number);
        let departure_after = |time_ns: u64| record.departure_ns.saturating_sub(time_ns);
        self.added_delay.record(departure_after(record.arrival_ns));
        self.lateness.record(departure_after(record.due_ns));
    }

    fn to_json(&self) -> Value {
        let summarize = |times: &Histogram| {
            times.summary().map(|times| {
                json!({
                    "count": times.count, "min_ns": times.min_ns, "mean_ns": times.mean_ns,
                    "p50_ns": times.p50_ns, "p99_ns": times.p99_ns, "max_ns": times.max_ns,
                })
            })
        };
        json!({
            "arrived": self.arrived, "departed": self.departed, "copies": self.copies,
            "held": self.held, "reordered": self.reordered, "dropped": self.dropped,
            "overflow": self.overflow, "refused": self.refused, "unsent": self.unsent,
            "queue_dropped": self.queue_dropped,
            "added": summarize(&self.added_delay), "lateness": summarize(&self.lateness),
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "{} packets in, {} out, {} dropped, {} duplicated, {} reordered",
            self.arrived, self.departed, self.dropped, self.copies, self.reordered
        );
        for (count, reason) in [
            (self.overflow, "dropped by the full queue"),
            (self.refused, "refused"),
            (self.unsent, "unsent"),
            (self.queue_dropped, "dropped by the kernel"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {reason}");
            }
        }
        if let (Some(added), Some(lateness)) = (self.added_delay.summary(), self.lateness.summary())
        {
            let us = |ns: u64| ns as f64 / 1e3;
            let _ = write!(
                text,
                "; added {:.1} us on average; late p50 {:.1} p99 {:.1} max {:.1} us",
                added.mean_ns / 1e3,
                us(lateness.p50_ns),
                us(lateness.p99_ns),
                us(lateness.max_ns)
            );
        }
        text
    }
}

fn csv_line(record: &ForwardRecord) -> String {
    let ForwardRecord {
        direction,
        number,
        protocol,
        length_bytes,
        arrival_ns,
        due_ns,
        departure_ns,
        verdict,
    } = record;
    let (direction, verdict) = (direction.name(), verdict.name());
    format!(
        "{direction},{number},{protocol},{length_bytes},{arrival_ns},{due_ns},{departure_ns},{verdict}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, verdict: PacketVerdict) -> ForwardRecord {
        ForwardRecord {
            direction: LinkDirection::ToServer,
            number,
            protocol: 17,
            length_bytes: 100,
            arrival_ns: number * 1000,
            due_ns: number * 1000 + 500,
            departure_ns: number * 1000 + 510,
            verdict,
        }
    }

    #[test]
    fn collects_sums_and_log_lines() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let records = [
            (1, PacketVerdict::Sent),
            (2, PacketVerdict::Dropped),
            (4, PacketVerdict::Sent),
            (4, PacketVerdict::Copy),
            (3, PacketVerdict::Held),
            (5, PacketVerdict::Unsent),
        ];
        let records = records.map(|(number, verdict)| record(number, verdict));
        sender.send(records.to_vec()).unwrap();
        drop(sender);
        let log = tempfile::NamedTempFile::new().unwrap();
        let sums = PacketSums::collect(&receiver, Some(log.path())).unwrap();

        let to_server = &sums.to_server;
        assert_eq!(
            (to_server.arrived, to_server.departed, to_server.copies),
            (5, 4, 1)
        );
        assert_eq!(
            (to_server.dropped, to_server.held, to_server.unsent),
            (1, 1, 1)
        );
        assert_eq!(to_server.reordered, 1, "only packet 3, not the copy");
        assert_eq!(to_server.lateness.summary().unwrap().max_ns, 10);
        assert_eq!(sums.to_json()["forth"]["added"]["max_ns"], 510);
        assert_eq!(sums.to_json()["back"]["added"], Value::Null);
        let text = std::fs::read_to_string(log.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert_eq!(lines[5], "forth,3,17,100,3000,3500,3510,held");
    }
}
