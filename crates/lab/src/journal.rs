//! What happened to each packet, and the sums of it.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};
use stats::Histogram;
use sys::WholeFile;

use crate::schedule::Direction;

/// The columns of the log, which are the fields of [`Record`].
const HEADER: &str =
    "direction,number,protocol,length_bytes,arrival_ns,due_ns,departure_ns,verdict";

/// One packet, or one of the two that a packet became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its way.
    pub direction: Direction,
    /// Of the packet in its direction, by arrival, from 1; a copy has its original's.
    pub number: u64,
    /// Of the IP header; 0 if that could not be read.
    pub protocol: u8,
    /// Of the IP packet.
    pub length_bytes: u32,
    /// When it was read from the one TUN device: CLOCK_MONOTONIC, as the next two.
    pub arrival_ns: u64,
    /// When it was to leave by the schedule.
    pub due_ns: u64,
    /// Just before it was written to the other device; 0 if it never was.
    pub departure_ns: u64,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It left.
    Sent,
    /// It left, held back by a `reorder` rule.
    Held,
    /// It left as the second of two.
    Copy,
    /// The schedule dropped it.
    Dropped,
    /// More were waiting than the forwarder keeps.
    Overflow,
    /// The other device did not take it.
    Refused,
    /// It still waited when the network was taken down.
    Unsent,
}

impl Verdict {
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

    /// Whether it went out.
    fn left(self) -> bool {
        matches!(self, Self::Sent | Self::Held | Self::Copy)
    }
}

/// The sums of both directions.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// From the client to the server.
    pub forth: Sums,
    /// From the server to the client.
    pub back: Sums,
}

/// Of one direction.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Packets that were read.
    pub arrived: u64,
    /// Packets that left, copies among them.
    pub departed: u64,
    /// Copies that left.
    pub copies: u64,
    /// Packets that a `reorder` rule held back.
    pub held: u64,
    /// Packets that left after one that had come after them, copies not counted (RFC 4737 §3.3).
    pub reordered: u64,
    /// Dropped by the schedule.
    pub dropped: u64,
    /// Dropped because too many waited.
    pub overflow: u64,
    /// Not taken by the other device.
    pub refused: u64,
    /// Still waiting at the end.
    pub unsent: u64,
    /// Dropped by the kernel before the forwarder could read them: not in the log, and not in
    /// `arrived`.
    pub queue_dropped: u64,
    /// Departure less arrival, of what left.
    pub added: Histogram,
    /// Departure less due time, of what left.
    pub lateness: Histogram,
    last: u64,
}

impl Journal {
    /// Sums up what comes until nobody sends any more, and writes it to `log` if there is one.
    pub fn keep(records: &Receiver<Vec<Record>>, log: Option<&Path>) -> io::Result<Self> {
        let mut file = match log {
            Some(path) => Some(BufWriter::new(WholeFile::begin(path)?.place()?)),
            None => None,
        };
        if let Some(file) = &mut file {
            writeln!(file, "{HEADER}")?;
        }
        let mut journal = Self::default();
        for record in records.iter().flatten() {
            if let Some(file) = &mut file {
                writeln!(file, "{}", line(&record))?;
            }
            journal.of(record.direction).add(&record);
        }
        if let Some(mut file) = file {
            file.flush()?;
        }
        Ok(journal)
    }

    /// The sums of one direction.
    pub fn of(&mut self, direction: Direction) -> &mut Sums {
        match direction {
            Direction::Forth => &mut self.forth,
            Direction::Back => &mut self.back,
        }
    }

    /// As a document, with times in nanoseconds.
    pub fn json(&self) -> Value {
        json!({ "forth": self.forth.json(), "back": self.back.json() })
    }

    /// As two lines.
    pub fn text(&self) -> String {
        format!("forth: {}\nback: {}\n", self.forth.text(), self.back.text())
    }
}

impl Sums {
    fn add(&mut self, record: &Record) {
        // A copy is no packet of its own.
        self.arrived += u64::from(record.verdict != Verdict::Copy);
        match record.verdict {
            Verdict::Sent => (),
            Verdict::Held => self.held += 1,
            Verdict::Copy => self.copies += 1,
            Verdict::Dropped => self.dropped += 1,
            Verdict::Overflow => self.overflow += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Unsent => self.unsent += 1,
        }
        if !record.verdict.left() {
            return;
        }
        self.departed += 1;
        let overtaken = record.number < self.last && record.verdict != Verdict::Copy;
        self.reordered += u64::from(overtaken);
        self.last = self.last.max(record.number);
        let since = |time: u64| record.departure_ns.saturating_sub(time);
        self.added.record(since(record.arrival_ns));
        self.lateness.record(since(record.due_ns));
    }

    fn json(&self) -> Value {
        let times = |times: &Histogram| {
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
            "added": times(&self.added), "lateness": times(&self.lateness),
        })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} packets in, {} out, {} dropped, {} doubled, {} reordered",
            self.arrived, self.departed, self.dropped, self.copies, self.reordered
        );
        for (count, what) in [
            (self.overflow, "too many to keep"),
            (self.refused, "refused"),
            (self.unsent, "still waiting"),
            (self.queue_dropped, "lost before the forwarder"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        if let (Some(added), Some(late)) = (self.added.summary(), self.lateness.summary()) {
            let us = |ns: u64| ns as f64 / 1e3;
            let _ = write!(
                text,
                "; added {:.1} us on average; late p50 {:.1} p99 {:.1} max {:.1} us",
                added.mean_ns / 1e3,
                us(late.p50_ns),
                us(late.p99_ns),
                us(late.max_ns)
            );
        }
        text
    }
}

fn line(record: &Record) -> String {
    let Record {
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

    fn record(number: u64, verdict: Verdict) -> Record {
        Record {
            direction: Direction::Forth,
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
    fn sums_and_lines() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let records = [
            (1, Verdict::Sent),
            (2, Verdict::Dropped),
            (4, Verdict::Sent),
            (4, Verdict::Copy),
            (3, Verdict::Held),
            (5, Verdict::Unsent),
        ];
        let records = records.map(|(number, verdict)| record(number, verdict));
        sender.send(records.to_vec()).unwrap();
        drop(sender);
        let log = tempfile::NamedTempFile::new().unwrap();
        let journal = Journal::keep(&receiver, Some(log.path())).unwrap();

        let sums = &journal.forth;
        assert_eq!((sums.arrived, sums.departed, sums.copies), (5, 4, 1));
        assert_eq!((sums.dropped, sums.held, sums.unsent), (1, 1, 1));
        assert_eq!(sums.reordered, 1, "the copy keeps its order");
        assert_eq!(sums.lateness.summary().unwrap().max_ns, 10);
        assert_eq!(journal.json()["forth"]["added"]["max_ns"], 510);
        assert_eq!(journal.json()["back"]["added"], Value::Null);
        let text = std::fs::read_to_string(log.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert_eq!(lines[5], "forth,3,17,100,3000,3500,3510,held");
    }
}
