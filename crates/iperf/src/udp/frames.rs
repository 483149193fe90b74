//! Datagrams that are more than one after the other at a rate: frames, files, gaps, rates that vary; and what a
//! receiver keeps of them.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{Counters, DatagramWatch, Ran, Reason, Stop};
use model::{Ended, Limit};
use sys::call::{self, Error};
use sys::clock::{monotonic_ns, wall_ns};

use super::REFUSED;
use crate::bursts::{Due, Rate, Sizes, Source};
use crate::options::Shape;
use crate::tally::{Kind, Tallies};
use crate::wire::{DatagramHeader, FrameRecord, WallTime};

/// A sender of datagrams.
pub(super) struct Sender<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) shape: &'a Shape,
    pub(super) counters: &'a Counters,
    pub(super) tallies: Option<&'a Tallies>,
    pub(super) rate: Option<f64>,
    /// The most refusals of the peer after which it goes on.
    pub(super) most_refusals: u32,
    pub(super) stop: &'a Stop,
}

/// What a sender has done.
struct Progress {
    /// The last datagram's number.
    number: i64,
    datagram: Vec<u8>,
    /// Bytes that may still be sent.
    left: u64,
    refusals: u32,
}

impl Sender<'_> {
    /// Sends datagrams that begin as `pattern` does, until the limit or the stop.
    pub(super) fn run(&self, pattern: &[u8], limit: Limit) -> Ran {
        let mut progress = Progress {
            number: 0,
            refusals: 0,
            datagram: pattern.to_vec(),
            left: match limit {
                Limit::Bytes(bytes) => bytes,
                Limit::Messages(count) => count.saturating_mul(pattern.len() as u64),
                _ => u64::MAX,
            },
        };
        let sent = match self.shape.frames {
            Some(_) => self.frames(&mut progress),
            None => self.datagrams(&mut progress),
        };
        match sent {
            Ok(()) => Ended::Count.into(),
            Err(Error::CANCELED) => self.stop.reason().unwrap_or(Reason::Cancelled).into(),
            Err(error) => {
                let why = sys::describe(&io::Error::from(error));
                Ended::Failed(format!("write failed: {why}")).into()
            }
        }
    }

    /// One after the other.
    fn datagrams(&self, progress: &mut Progress) -> Result<(), Error> {
        let length = progress.datagram.len();
        let source = self.shape.input.as_ref().map(Source::open).transpose();
        let source = source.map_err(|_| Error::NOENT)?;
        let mut rate = self.rate.map(|rate| Rate::new(rate, self.shape.deviation));
        let mut due = Due::now(self.stop);
        while progress.left > 0 {
            let mut size = length;
            // The first one is as it always is.
            if let Some(source) = source.as_ref().filter(|_| progress.number > 0) {
                let rest = &mut progress.datagram[DatagramHeader::WIDE.min(length)..];
                let filled = source.fill(rest).map_err(|_| Error::IO)?;
                if filled == 0 {
                    break;
                }
                size = DatagramHeader::WIDE + filled;
            }
            if !due.wait() {
                return Err(Error::CANCELED);
            }
            self.send(progress, size)?;
            due.at_ns += match (self.shape.gap, &mut rate) {
                (Some(gap), _) => gap.as_nanos() as u64,
                (None, Some(rate)) => rate.gap_ns(size, monotonic_ns()),
                (None, None) => 0,
            };
        }
        Ok(())
    }

    /// A first datagram without a frame, and then frames.
    fn frames(&self, progress: &mut Progress) -> Result<(), Error> {
        let Some(frames) = self.shape.frames else {
            return Ok(());
        };
        let length = progress.datagram.len();
        self.send(progress, length)?;
        let started = WallTime::now();
        let mut sizes = Sizes::new(frames);
        let mut due = Due::now(self.stop);
        let (mut number, mut before) = (0, 0);
        while progress.left > 0 {
            number += 1;
            let size = sizes.next(FrameRecord::END as u32);
            if !due.wait() {
                return Err(Error::CANCELED);
            }
            let mut gap = Due::now(self.stop);
            let mut left = size;
            while left > 0 {
                let record = FrameRecord {
                    period: frames.period,
                    started,
                    before,
                    number,
                    size: size as u32,
                    left: left as u32,
                };
                record.write(&mut progress.datagram);
                // What is less than a record would be cut off.
                let part = left.min(length).max(FrameRecord::END.min(length));
                if !gap.wait() {
                    return Err(Error::CANCELED);
                }
                self.send(progress, part)?;
                left = left.saturating_sub(part);
                gap.at_ns += self.shape.gap.map_or(0, |gap| gap.as_nanos() as u64);
            }
            before = number;
            let (missed, slips) = frames.next(monotonic_ns(), &mut due.at_ns);
            number += missed as u32;
            if let Some(tallies) = self.tallies {
                tallies.note(|tally| tally.note_frame(missed, slips));
            }
        }
        Ok(())
    }

    /// Sends the next datagram, of `size` bytes.
    fn send(&self, progress: &mut Progress, size: usize) -> Result<(), Error> {
        let number = progress.number + 1;
        loop {
            if self.stop.is_set() {
                return Err(Error::CANCELED);
            }
            let sent = WallTime::now();
            DatagramHeader { number, sent }.write(&mut progress.datagram, true);
            let before_ns = monotonic_ns();
            match call::send(self.socket, &progress.datagram[..size]) {
                Ok(_) => {
                    let taken_ns = monotonic_ns() - before_ns;
                    self.counters.count_sent(size, 1);
                    if let Some(tallies) = self.tallies.filter(|all| all.kind == Kind::Writes) {
                        tallies.time(taken_ns as i64, wall_ns(), size as u64);
                    }
                    progress.number = number;
                    progress.left = progress.left.saturating_sub(size as u64);
                    return Ok(());
                }
                Err(Error::INTR) => {}
                Err(Error::CONNREFUSED) if progress.refusals < self.most_refusals => {
                    progress.refusals += 1;
                    std::thread::sleep(REFUSED);
                }
                // The interface's queue is full.
                Err(Error::NOBUFS) => std::thread::sleep(Duration::from_micros(100)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Keeps what a receiver's tallies are about.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    tallies: &'a Tallies,
    /// Where the number is wide: frames stand in such datagrams only.
    frame: Mutex<Frame>,
}

/// The frame that comes.
#[derive(Debug, Default)]
struct Frame {
    number: u32,
    /// When its first datagram was sent.
    sent_ns: u64,
    came_ns: u64,
    bytes: u64,
}

impl<'a> Watch<'a> {
    pub(super) fn new(tallies: &'a Tallies) -> Self {
        let frame = Mutex::default();
        Self { tallies, frame }
    }

    /// The last frame is over.
    pub(super) fn end(&self) {
        let mut frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        self.over(&std::mem::take(&mut *frame));
    }

    fn over(&self, frame: &Frame) {
        if frame.number > 0 {
            let time_ns = frame.came_ns.wrapping_sub(frame.sent_ns).cast_signed();
            self.tallies.time(time_ns, frame.came_ns, frame.bytes);
            self.tallies.note(|tally| tally.frames += 1);
        }
    }
}

impl DatagramWatch for Watch<'_> {
    fn see(&self, datagram: &[u8], now_ns: u64) {
        let Some(header) = DatagramHeader::read(datagram, true) else {
            return;
        };
        let sent_ns = header.sent.since_epoch().as_nanos() as u64;
        if self.tallies.kind != Kind::Frames {
            let time_ns = now_ns.wrapping_sub(sent_ns).cast_signed();
            self.tallies.time(time_ns, now_ns, datagram.len() as u64);
            return;
        }
        let Some(record) = FrameRecord::read(datagram).filter(|_| header.number > 0) else {
            return;
        };
        let mut frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        if record.number > frame.number {
            self.over(&frame);
            let missed = u64::from(record.number - frame.number - 1);
            // More would be nonsense of a peer's.
            self.tallies
                .note(|tally| tally.missed += missed.min(1 << 20));
            *frame = Frame {
                number: record.number,
                sent_ns,
                ..Frame::default()
            };
        }
        if record.number == frame.number {
            frame.came_ns = now_ns;
            frame.bytes += datagram.len() as u64;
        }
    }
}
