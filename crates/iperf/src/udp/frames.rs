//! Sender of datagrams in modes other than a constant rate: frames, files, gaps and varying rates.
//!
//! [`TimingObserver`] records the timings at the receiver.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{Counters, DatagramObserver, LoopResult, Stop, StopReason};
use model::{EndCause, Limit};
use sys::call::{self, Error};
use sys::clock::{monotonic_ns, wall_ns};

use super::REFUSAL_PAUSE;
use crate::options::SendMode;
use crate::report_group::MeasuredFlow;
use crate::stream_loop::{DataSource, FrameSizes, SendSchedule, VaryingRate};
use crate::timing::{FlowTimings, TimingKind};
use crate::wire::{DatagramHeader, FrameRecord, WallTime};

/// A sender of datagrams in any [`SendMode`].
pub(super) struct DatagramSender<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) send_mode: &'a SendMode,
    pub(super) counters: &'a Counters,
    pub(super) timings: Option<&'a FlowTimings>,
    pub(super) rate: Option<f64>,
    /// The number of refused datagrams that the sender tolerates. The next one ends the test.
    pub(super) max_refusals: u32,
    pub(super) stop: &'a Stop,
}

/// The state of a sender.
struct Progress {
    /// The number of the last sent datagram.
    number: i64,
    datagram: Vec<u8>,
    /// Bytes that may still be sent.
    bytes_left: u64,
    refusals: u32,
}

impl DatagramSender<'_> {
    /// Sends datagrams that begin as `pattern` does, until the limit or the stop.
    pub(super) fn run(&self, pattern: &[u8], limit: Limit) -> LoopResult {
        let mut progress = Progress {
            number: 0,
            refusals: 0,
            datagram: pattern.to_vec(),
            bytes_left: match limit {
                Limit::Bytes(bytes) => bytes,
                Limit::Messages(count) => count.saturating_mul(pattern.len() as u64),
                _ => u64::MAX,
            },
        };
        let sent = match self.send_mode.periodic_bursts {
            Some(_) => self.send_frames(&mut progress),
            None => self.send_datagrams(&mut progress),
        };
        match sent {
            Ok(()) => EndCause::Count.into(),
            Err(Error::CANCELED) => self.stop.reason().unwrap_or(StopReason::Cancelled).into(),
            Err(error) => {
                let reason = sys::describe(&io::Error::from(error));
                EndCause::Failed(format!("write failed: {reason}")).into()
            }
        }
    }

    /// Sends one datagram after another.
    fn send_datagrams(&self, progress: &mut Progress) -> Result<(), Error> {
        let length = progress.datagram.len();
        let open = |input| DataSource::open(input, self.stop);
        let source = self.send_mode.input.as_ref().map(open).transpose()?;
        let mut rate = self
            .rate
            .map(|rate| VaryingRate::new(rate, self.send_mode.deviation));
        let mut schedule = SendSchedule::from_now(self.stop);
        while progress.bytes_left > 0 {
            let mut size = length;
            // The first datagram carries the client's header, not file data.
            if let Some(source) = source.as_ref().filter(|_| progress.number > 0) {
                let payload = &mut progress.datagram[DatagramHeader::WIDE_LEN.min(length)..];
                let filled = source.fill(payload)?;
                if filled == 0 {
                    break;
                }
                size = DatagramHeader::WIDE_LEN + filled;
            }
            if !schedule.wait_until_due() {
                return Err(Error::CANCELED);
            }
            self.send(progress, size)?;
            schedule.due_ns += match (self.send_mode.gap, &mut rate) {
                (Some(gap), _) => gap.as_nanos() as u64,
                (None, Some(rate)) => rate.gap_ns(size, monotonic_ns()),
                (None, None) => 0,
            };
        }
        Ok(())
    }

    /// Sends a first datagram without a frame record, and then frames.
    fn send_frames(&self, progress: &mut Progress) -> Result<(), Error> {
        let Some(frames) = self.send_mode.periodic_bursts else {
            return Ok(());
        };
        let length = progress.datagram.len();
        self.send(progress, length)?;
        let started = WallTime::now();
        let mut sizes = FrameSizes::new(frames);
        let mut frame_schedule = SendSchedule::from_now(self.stop);
        let (mut number, mut previous) = (0, 0);
        while progress.bytes_left > 0 {
            number += 1;
            let size = sizes.next(FrameRecord::END as u32);
            if !frame_schedule.wait_until_due() {
                return Err(Error::CANCELED);
            }
            let late_ns = monotonic_ns().saturating_sub(frame_schedule.due_ns);
            let mut datagram_schedule = SendSchedule::from_now(self.stop);
            let mut bytes_left = size;
            while bytes_left > 0 {
                let record = FrameRecord {
                    period: frames.period,
                    started,
                    previous,
                    number,
                    size: size as u32,
                    remaining: bytes_left as u32,
                };
                record.write(&mut progress.datagram);
                // A shorter datagram would cut off the record.
                let part = bytes_left.min(length).max(FrameRecord::END.min(length));
                if !datagram_schedule.wait_until_due() {
                    return Err(Error::CANCELED);
                }
                self.send(progress, part)?;
                bytes_left = bytes_left.saturating_sub(part);
                datagram_schedule.due_ns +=
                    self.send_mode.gap.map_or(0, |gap| gap.as_nanos() as u64);
            }
            previous = number;
            let (missed, late_frames) =
                frames.schedule_next(monotonic_ns(), &mut frame_schedule.due_ns);
            number += missed as u32;
            if let Some(timings) = self.timings {
                timings.update(|stats| stats.count_sent_frame(late_ns, missed, late_frames));
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
                    let is_timed = |timings: &&FlowTimings| timings.kind == TimingKind::Writes;
                    if let Some(timings) = self.timings.filter(is_timed) {
                        timings.record(taken_ns as i64, wall_ns(), size as u64);
                    }
                    progress.number = number;
                    progress.bytes_left = progress.bytes_left.saturating_sub(size as u64);
                    return Ok(());
                }
                Err(Error::INTR) => {}
                Err(Error::CONNREFUSED) if progress.refusals < self.max_refusals => {
                    progress.refusals += 1;
                    std::thread::sleep(REFUSAL_PAUSE);
                }
                // The send queue of the interface is full.
                Err(Error::NOBUFS) => std::thread::sleep(Duration::from_micros(100)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Records the timings of received datagrams or frames.
#[derive(Debug)]
pub(super) struct TimingObserver<'a> {
    timings: Option<&'a FlowTimings>,
    jitter_times: Option<&'a FlowTimings>,
    /// The time from sender to receiver of the datagram before.
    last_delay_ns: Mutex<Option<i64>>,
    /// The frame whose datagrams are arriving.
    frame: Mutex<Frame>,
}

/// A frame at the receiver. The times are nanoseconds of the wall clock.
#[derive(Debug, Default)]
struct Frame {
    number: u32,
    /// The send time of its first datagram.
    sent_ns: u64,
    /// The receive time of its last datagram so far.
    received_ns: u64,
    bytes: u64,
}

impl<'a> TimingObserver<'a> {
    /// Returns `None` if the flow times no datagrams.
    pub(super) fn new(measured: &'a MeasuredFlow) -> Option<Self> {
        let timings = measured.timings.as_deref();
        let jitter_times = measured.jitter_times.as_deref();
        (timings.is_some() || jitter_times.is_some()).then(|| Self {
            timings,
            jitter_times,
            last_delay_ns: Mutex::default(),
            frame: Mutex::default(),
        })
    }

    /// Records the last frame.
    pub(super) fn finish(&self) {
        let mut frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        self.record_frame(&std::mem::take(&mut *frame));
    }

    fn record_frame(&self, frame: &Frame) {
        if let (Some(timings), 1..) = (self.timings, frame.number) {
            let time_ns = frame.received_ns.wrapping_sub(frame.sent_ns).cast_signed();
            timings.record(time_ns, frame.received_ns, frame.bytes);
            timings.update(|stats| stats.frames += 1);
        }
    }

    fn record_jitter(&self, times: &FlowTimings, delay_ns: i64, now_ns: u64, bytes: u64) {
        let mut last = (self.last_delay_ns.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(last_ns) = last.replace(delay_ns) {
            let difference_ns = delay_ns.wrapping_sub(last_ns).unsigned_abs();
            let difference_ns = i64::try_from(difference_ns).unwrap_or(i64::MAX);
            times.record(difference_ns, now_ns, bytes);
        }
    }

    /// Counts a datagram of a frame, and records the frame before when a new one begins.
    fn observe_frame(&self, timings: &FlowTimings, datagram: &[u8], sent_ns: u64, now_ns: u64) {
        let Some(record) = FrameRecord::read(datagram) else {
            return;
        };
        let mut frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        if record.number > frame.number {
            self.record_frame(&frame);
            let missed = u64::from(record.number - frame.number - 1);
            // The cap limits the effect of an invalid frame number.
            timings.update(|stats| stats.missed += missed.min(1 << 20));
            *frame = Frame {
                number: record.number,
                sent_ns,
                ..Frame::default()
            };
        }
        if record.number == frame.number {
            frame.received_ns = now_ns;
            frame.bytes += datagram.len() as u64;
        }
    }
}

impl DatagramObserver for TimingObserver<'_> {
    fn observe(&self, datagram: &[u8], now_ns: u64) {
        let Some(header) = DatagramHeader::read(datagram, true) else {
            return;
        };
        let sent_ns = header.sent.since_epoch().as_nanos() as u64;
        let delay_ns = now_ns.wrapping_sub(sent_ns).cast_signed();
        let bytes = datagram.len() as u64;
        // A number below 0 marks the end.
        if let Some(times) = self.jitter_times.filter(|_| header.number >= 0) {
            self.record_jitter(times, delay_ns, now_ns, bytes);
        }
        match self.timings {
            Some(timings) if timings.kind != TimingKind::Frames => {
                timings.record(delay_ns, now_ns, bytes);
            }
            Some(timings) if header.number > 0 => {
                self.observe_frame(timings, datagram, sent_ns, now_ns);
            }
            _ => {}
        }
    }
}
