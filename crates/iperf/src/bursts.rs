//! Streams that are more than one buffer after the other: bursts and frames with a record before each, files, sends
//! that are timed or that wait for the path.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Counters, Ran, Stop};
use model::{Ended, Limit};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::call::{self, Error};
use sys::clock::{ExactSleep, monotonic_ns, sleep_until, wall_ns};
use sys::option;

use crate::options::{Frames, Input, Shape};
use crate::tally::{Kind, Tallies, Tally};
use crate::wire::{BurstRecord, Hello, WallTime, word};

/// The largest burst, in bytes.
pub(crate) const MOST_BURST: u32 = 1 << 30;

/// A sender or a receiver at work.
pub(crate) struct Stream<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) counters: &'a Counters,
    pub(crate) tallies: Option<&'a Tallies>,
    pub(crate) stop: &'a Stop,
}

/// A schedule, in nanoseconds of the monotonic clock.
pub(crate) struct Due<'a> {
    pub(crate) at_ns: u64,
    stop: &'a Stop,
    _exact_sleep: ExactSleep,
}

impl<'a> Due<'a> {
    /// The first is due now.
    pub(crate) fn now(stop: &'a Stop) -> Self {
        Self {
            at_ns: monotonic_ns(),
            stop,
            _exact_sleep: ExactSleep::begin(),
        }
    }

    /// Waits for it; `false` at the stop.
    pub(crate) fn wait(&self) -> bool {
        while !self.stop.is_set() {
            if monotonic_ns() >= self.at_ns {
                return true;
            }
            // The stop interrupts it.
            let _ = sleep_until(self.at_ns);
        }
        false
    }
}

/// A rate that is drawn anew each second, from a log-normal distribution of this mean and deviation.
pub(crate) struct Rate {
    mean: f64,
    deviation: f64,
    drawn: f64,
    until_ns: u64,
    random: SmallRng,
}

impl Rate {
    /// In bits per second.
    pub(crate) fn new(mean: f64, deviation: Option<f64>) -> Self {
        Self {
            mean,
            deviation: deviation.unwrap_or(0.0),
            drawn: mean,
            until_ns: 0,
            random: SmallRng::from_os_rng(),
        }
    }

    /// Returns the time of this number of bytes at the current rate.
    pub(crate) fn gap_ns(&mut self, bytes: usize, now_ns: u64) -> u64 {
        if self.deviation > 0.0 && now_ns >= self.until_ns {
            let variance = (self.deviation / self.mean).powi(2).ln_1p();
            let middle = self.mean.ln() - variance / 2.0;
            self.drawn = (middle + variance.sqrt() * normal(&mut self.random)).exp();
            self.until_ns = now_ns + 1_000_000_000;
        }
        (bytes as f64 * 8e9 / self.drawn) as u64
    }
}

/// A number of the standard normal distribution, by Box and Muller.
fn normal(random: &mut SmallRng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// The sizes of bursts or frames.
pub(crate) struct Sizes {
    frames: Frames,
    random: SmallRng,
}

impl Sizes {
    pub(crate) fn new(frames: Frames) -> Self {
        let random = SmallRng::from_os_rng();
        Self { frames, random }
    }

    /// The next one, at least as long as `least`.
    pub(crate) fn next(&mut self, least: u32) -> usize {
        let Frames {
            mean, deviation, ..
        } = self.frames;
        let size = if deviation > 0.0 {
            mean + deviation * normal(&mut self.random)
        } else {
            mean
        };
        (size as u32).clamp(least, MOST_BURST) as usize
    }
}

/// The source of sent data.
#[derive(Clone)]
pub(crate) struct Source(Arc<Mutex<dyn Read + Send>>);

impl Source {
    /// Opens a file, or takes standard input.
    pub(crate) fn open(input: &Input) -> Result<Self, String> {
        match input {
            Input::Standard => Ok(Self(Arc::new(Mutex::new(io::stdin())))),
            Input::File(path) => match File::open(path) {
                Ok(file) => Ok(Self(Arc::new(Mutex::new(file)))),
                Err(error) => {
                    let why = sys::describe(&error);
                    let path = path.display();
                    Err(format!("Unable to open the file stream {path}: {why}"))
                }
            },
        }
    }

    /// Fills the buffer as far as there is something; 0 at the end.
    pub(crate) fn fill(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut filled = 0;
        while filled < buffer.len() {
            match source.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Stream<'_> {
    /// Sends in this shape until the limit or the stop. `pattern` is a buffer that begins with the header.
    pub(crate) fn send(
        &self,
        shape: &Shape,
        (pattern, rate): (&[u8], Option<f64>),
        limit: Limit,
        started: WallTime,
    ) -> Ran {
        match self.try_send(shape, (pattern, rate), limit, started) {
            Ok(ended) => ended.into(),
            Err(error) => self.failed("write", error),
        }
    }

    fn failed(&self, what: &'static str, error: Error) -> Ran {
        if error == Error::CANCELED {
            let reason = self.stop.reason().unwrap_or(engine::Reason::Cancelled);
            return reason.into();
        }
        let why = sys::describe(&io::Error::from(error));
        Ended::Failed(format!("{what} failed: {why}")).into()
    }

    fn try_send(
        &self,
        shape: &Shape,
        (pattern, rate): (&[u8], Option<f64>),
        limit: Limit,
        started: WallTime,
    ) -> Result<Ended, Error> {
        let mut buffer = pattern.to_vec();
        if shape.has_records && buffer.len() < BurstRecord::LEN {
            buffer.resize(BurstRecord::LEN, 0);
        }
        let length = buffer.len();
        let source = shape.input.as_ref().map(Source::open).transpose();
        let source = source.map_err(|_| Error::NOENT)?;
        let mut sizes = shape.frames.map(Sizes::new);
        let mut rate = rate.map(|rate| Rate::new(rate, shape.deviation));
        let mut due = Due::now(self.stop);
        let mut left = match limit {
            Limit::Bytes(bytes) => bytes,
            _ => u64::MAX,
        };
        let (mut number, mut cumulative) = (0_u32, 0_u64);
        while left > 0 {
            let mut size = match &mut sizes {
                Some(sizes) => sizes.next(BurstRecord::LEN as u32),
                None => length,
            };
            if !shape.has_records {
                size = size.min(usize::try_from(left).unwrap_or(usize::MAX));
            }
            if let Some(source) = &source {
                let wanted = size.min(length);
                size = source.fill(&mut buffer[..wanted]).map_err(|_| Error::IO)?;
                if size == 0 {
                    break;
                }
            }
            if !due.wait() {
                return Err(Error::CANCELED);
            }
            number = number.wrapping_add(1);
            cumulative += size as u64;
            let now_ns = monotonic_ns();
            if shape.has_records {
                let record = BurstRecord {
                    started,
                    written: WallTime::now(),
                    period: shape.frames.map(|frames| frames.period),
                    number,
                    size: size as u32,
                    cumulative: match shape.frames {
                        Some(frames) if !frames.is_isochronous => size as u64,
                        _ => cumulative + 2,
                    },
                };
                record.write(&mut buffer);
            }
            self.send_burst(shape, &buffer, size)?;
            left = left.saturating_sub(size as u64);
            self.note_frame(shape, now_ns, &mut due);
            if let Some(rate) = &mut rate
                && shape.frames.is_none()
            {
                due.at_ns += rate.gap_ns(size, now_ns);
            }
            if let Some(weight) = shape.near_congestion {
                let rtt_us = option::tcp_info(self.socket).map_or(0, |info| info.rtt_us);
                due.at_ns = monotonic_ns() + (f64::from(rtt_us) * 1e3 * weight) as u64;
            }
        }
        Ok(Ended::Count)
    }

    fn note_frame(&self, shape: &Shape, now_ns: u64, due: &mut Due<'_>) {
        let Some(frames) = shape.frames else {
            return;
        };
        let (missed, slips) = frames.next(now_ns, &mut due.at_ns);
        if let Some(tallies) = self.tallies {
            tallies.note(|tally| tally.note_frame(missed, slips));
        }
    }

    /// Sends a burst in buffers.
    fn send_burst(&self, shape: &Shape, buffer: &[u8], size: usize) -> Result<(), Error> {
        let mut left = size;
        while left > 0 {
            let mut rest = &buffer[..left.min(buffer.len())];
            left -= rest.len();
            while !rest.is_empty() {
                if self.stop.is_set() {
                    return Err(Error::CANCELED);
                }
                if shape.prefetch.is_some() {
                    let ready = call::wait_writable(self.socket, Duration::from_secs(1));
                    if !ready.or_else(ignoring_interrupts)? {
                        continue;
                    }
                }
                let before_ns = monotonic_ns();
                match call::send(self.socket, rest) {
                    Ok(sent) => {
                        self.counters.count_sent(sent, 1);
                        if let Some(tallies) = self.tallies.filter(|one| one.kind == Kind::Writes) {
                            let taken_ns = monotonic_ns() - before_ns;
                            tallies.time(taken_ns as i64, wall_ns(), sent as u64);
                        }
                        rest = &rest[sent..];
                    }
                    Err(Error::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Receives bursts, each with its record. `is_stamped`: both clocks are synchronised. With a header the
    /// stream begins with that of the sender.
    pub(crate) fn receive(
        &self,
        length: usize,
        is_stamped: bool,
        has_header: bool,
        each: &dyn Fn(&Tally, u32, Duration),
    ) -> Ran {
        match self.try_receive(length, is_stamped, has_header, each) {
            Ok(ended) => ended.into(),
            Err(Error::PIPE) => Ended::PeerClosed.into(),
            Err(error) => self.failed("recv", error),
        }
    }

    fn try_receive(
        &self,
        length: usize,
        is_stamped: bool,
        has_header: bool,
        each: &dyn Fn(&Tally, u32, Duration),
    ) -> Result<Ended, Error> {
        let mut buffer = vec![0; length.max(256)];
        let mut record = [0; BurstRecord::LEN];
        let mut is_begun = 0;
        if has_header {
            self.fill(&mut record[..4], length, &mut None)?;
            // The frames of -R have none.
            is_begun = 4;
            if let Some(header) = Hello::length(word(&record, 0)) {
                self.fill(&mut buffer[4..header.clamp(4, 256)], length, &mut None)?;
                is_begun = 0;
            }
        }
        loop {
            let mut burst = Some(Tally::default());
            self.fill(
                &mut record[std::mem::take(&mut is_begun)..],
                length,
                &mut burst,
            )?;
            let begun_ns = wall_ns();
            let BurstRecord { written, size, .. } = BurstRecord::read(&record);
            if !(BurstRecord::LEN as u32..=MOST_BURST).contains(&size) {
                let why = format!("recv failed: a burst of {size} bytes");
                return Ok(Ended::Failed(why));
            }
            let mut left = size as usize - BurstRecord::LEN;
            while left > 0 {
                let part = left.min(length);
                self.fill(&mut buffer[..part], length, &mut burst)?;
                left -= part;
            }
            let now_ns = wall_ns();
            let sent_ns = if is_stamped {
                written.since_epoch().as_nanos() as u64
            } else {
                begun_ns
            };
            let time_ns = now_ns.wrapping_sub(sent_ns).cast_signed();
            if let Some(tallies) = self.tallies {
                tallies.time(time_ns, now_ns, size.into());
            }
            if let Some(mut burst) = burst {
                burst.time(time_ns, now_ns, None);
                let took_ns = u64::try_from(time_ns).unwrap_or(now_ns - begun_ns);
                each(&burst, size, Duration::from_nanos(took_ns));
            }
        }
    }

    /// Receives this number of bytes; EPIPE at the end of the stream.
    fn fill(
        &self,
        buffer: &mut [u8],
        length: usize,
        burst: &mut Option<Tally>,
    ) -> Result<(), Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.stop.is_set() {
                return Err(Error::CANCELED);
            }
            match call::receive(self.socket, &mut buffer[filled..]) {
                Ok(0) => return Err(Error::PIPE),
                Ok(count) => {
                    filled += count;
                    self.counters.count_received(count, 1);
                    if let Some(tallies) = self.tallies {
                        tallies.note(|tally| tally.read(count, length));
                    }
                    if let Some(burst) = burst {
                        burst.read(count, length);
                    }
                }
                Err(Error::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A wait that a signal ended.
fn ignoring_interrupts(error: Error) -> Result<bool, Error> {
    if error == Error::INTR {
        Ok(false)
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_vary_around_their_mean() {
        let frames = Frames {
            is_isochronous: true,
            period: Duration::from_millis(10),
            mean: 10_000.0,
            deviation: 1000.0,
        };
        let mut sizes = Sizes::new(frames);
        let drawn: Vec<_> = (0..2000).map(|_| sizes.next(92)).collect();
        let mean = drawn.iter().sum::<usize>() as f64 / 2000.0;
        assert!((9800.0..10_200.0).contains(&mean), "{mean}");
        assert!(drawn.iter().any(|size| *size != drawn[0]));
        let mut rate = Rate::new(8e6, Some(1e6));
        let gaps: Vec<_> = (0..2000)
            .map(|second| rate.gap_ns(1000, second * 1_000_000_000))
            .collect();
        let rates = gaps.iter().map(|gap| 8e12 / *gap as f64);
        let mean = rates.sum::<f64>() / 2000.0;
        assert!((7.8e6..8.2e6).contains(&mean), "{mean}");
        assert_eq!(Rate::new(8e6, None).gap_ns(1000, 7), 1_000_000);
    }
}
