//! Send and receive loops for the TCP modes that the engine lacks: bursts and frames with records,
//! data from a file, timed send calls, and sends that depend on the state of the connection.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::{Counters, LoopResult, Stop};
use model::{EndCause, Limit};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::call::{self, Error};
use sys::clock::{ExactSleep, monotonic_ns, sleep_until, wall_ns};
use sys::option;

use crate::options::{Input, PeriodicBursts, SendMode};
use crate::peer_checks::is_possible_latency;
use crate::timing::{FlowTimings, TimingKind, TimingStats};
use crate::wire::{BurstRecord, Hello, WallTime, read_word};

/// The maximum size of a burst, in bytes.
pub(crate) const MAX_BURST_BYTES: u32 = 1 << 30;

/// A loop that sends or receives one TCP stream.
pub(crate) struct StreamLoop<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) counters: &'a Counters,
    pub(crate) timings: Option<&'a FlowTimings>,
    pub(crate) stop: &'a Stop,
}

/// A schedule of send calls. `due_ns` is when the next one is due, by the monotonic clock.
pub(crate) struct SendSchedule<'a> {
    pub(crate) due_ns: u64,
    stop: &'a Stop,
    _exact_sleep: ExactSleep,
}

impl<'a> SendSchedule<'a> {
    /// Creates a schedule whose first send call is due now.
    pub(crate) fn from_now(stop: &'a Stop) -> Self {
        Self {
            due_ns: monotonic_ns(),
            stop,
            _exact_sleep: ExactSleep::begin(),
        }
    }

    /// Waits until the send call is due. Returns `false` if the test stops first.
    pub(crate) fn wait_until_due(&self) -> bool {
        while !self.stop.is_set() {
            if monotonic_ns() >= self.due_ns {
                return true;
            }
            // The stop interrupts the sleep.
            let _ = sleep_until(self.due_ns);
        }
        false
    }
}

/// A rate that follows a log-normal distribution.
///
/// With a deviation, the rate is drawn again each second. Without one, it is the mean.
pub(crate) struct VaryingRate {
    mean: f64,
    deviation: f64,
    current: f64,
    redraw_at_ns: u64,
    random: SmallRng,
}

impl VaryingRate {
    /// Creates a rate from its mean and standard deviation, in bits per second.
    pub(crate) fn new(mean: f64, deviation: Option<f64>) -> Self {
        Self {
            mean,
            deviation: deviation.unwrap_or(0.0),
            current: mean,
            redraw_at_ns: 0,
            random: SmallRng::from_os_rng(),
        }
    }

    /// Returns the duration of `bytes` at the current rate, in nanoseconds.
    pub(crate) fn gap_ns(&mut self, bytes: usize, now_ns: u64) -> u64 {
        if self.deviation > 0.0 && now_ns >= self.redraw_at_ns {
            let variance = (self.deviation / self.mean).powi(2).ln_1p();
            let log_mean = self.mean.ln() - variance / 2.0;
            self.current =
                (log_mean + variance.sqrt() * draw_standard_normal(&mut self.random)).exp();
            self.redraw_at_ns = now_ns + 1_000_000_000;
        }
        (bytes as f64 * 8e9 / self.current) as u64
    }
}

/// Draws a number from the standard normal distribution (Box-Muller method).
fn draw_standard_normal(random: &mut SmallRng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// Generates the sizes of bursts or frames.
pub(crate) struct FrameSizes {
    bursts: PeriodicBursts,
    random: SmallRng,
}

impl FrameSizes {
    pub(crate) fn new(bursts: PeriodicBursts) -> Self {
        let random = SmallRng::from_os_rng();
        Self { bursts, random }
    }

    /// Returns the next size, in bytes, at least `min_bytes`.
    pub(crate) fn next(&mut self, min_bytes: u32) -> usize {
        let PeriodicBursts {
            mean, deviation, ..
        } = self.bursts;
        let size = if deviation > 0.0 {
            mean + deviation * draw_standard_normal(&mut self.random)
        } else {
            mean
        };
        (size as u32).clamp(min_bytes, MAX_BURST_BYTES) as usize
    }
}

/// Checks that the source of sent data is readable. Does not open it, because a FIFO's writer would
/// take that for its reader.
pub(crate) fn check_input(input: &Input) -> Result<(), String> {
    let Input::File(path) = input else {
        return Ok(());
    };
    sys::input_file::check_readable(path).map_err(|error| {
        let reason = sys::describe(&error);
        let path = path.display();
        format!("Unable to open the file stream {path}: {reason}")
    })
}

/// An open source of sent data.
pub(crate) struct DataSource<'a> {
    file: File,
    /// Whether a read may wait for data.
    may_wait: bool,
    stop: &'a Stop,
}

impl<'a> DataSource<'a> {
    /// Opens the file, or uses standard input.
    pub(crate) fn open(input: &Input, stop: &'a Stop) -> Result<Self, Error> {
        let file = match input {
            Input::Standard => io::stdin().as_fd().try_clone_to_owned().map(File::from),
            Input::File(path) => sys::input_file::open_stream(path),
        };
        let file = file.map_err(|error| Error::from_io_error(&error).unwrap_or(Error::IO))?;
        let may_wait = !file.metadata().is_ok_and(|metadata| metadata.is_file());
        Ok(Self {
            file,
            may_wait,
            stop,
        })
    }

    /// Fills the buffer and returns the number of bytes read. Fails with `CANCELED` if the stop is
    /// set before the buffer is full.
    ///
    /// The number is smaller than the buffer only at the end of the input; 0 means no more data.
    pub(crate) fn fill(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.may_wait && !self.wait()? {
                continue;
            }
            match (&self.file).read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                // Another stream has read the data, or the stop interrupts the read.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    ) => {}
                Err(_) => return Err(Error::IO),
            }
        }
        Ok(filled)
    }

    /// Waits for data or the end of the input. Returns whether one is there; the stop interrupts the
    /// wait. A read without it would take a FIFO that has no writer yet for one at its end.
    fn wait(&self) -> Result<bool, Error> {
        if self.stop.is_set() {
            return Err(Error::CANCELED);
        }
        call::wait_readable(self.file.as_fd(), Duration::from_secs(1)).or_else(ignore_interrupt)
    }
}

impl StreamLoop<'_> {
    /// Sends in `send_mode` until the limit or the stop.
    ///
    /// `pattern` is a buffer that starts with the test header. `rate` is in bits per second.
    pub(crate) fn send(
        &self,
        send_mode: &SendMode,
        (pattern, rate): (&[u8], Option<f64>),
        limit: Limit,
        started: WallTime,
    ) -> LoopResult {
        match self.try_send(send_mode, (pattern, rate), limit, started) {
            Ok(ended) => ended.into(),
            Err(error) => self.failure("write", error),
        }
    }

    fn failure(&self, call: &'static str, error: Error) -> LoopResult {
        if error == Error::CANCELED {
            let reason = self.stop.reason().unwrap_or(engine::StopReason::Cancelled);
            return reason.into();
        }
        let reason = sys::describe(&io::Error::from(error));
        EndCause::Failed(format!("{call} failed: {reason}")).into()
    }

    fn try_send(
        &self,
        send_mode: &SendMode,
        (pattern, rate): (&[u8], Option<f64>),
        limit: Limit,
        started: WallTime,
    ) -> Result<EndCause, Error> {
        let mut buffer = pattern.to_vec();
        if send_mode.has_burst_records && buffer.len() < BurstRecord::LEN {
            buffer.resize(BurstRecord::LEN, 0);
        }
        let length = buffer.len();
        let open = |input| DataSource::open(input, self.stop);
        let source = send_mode.input.as_ref().map(open).transpose()?;
        let mut sizes = send_mode.periodic_bursts.map(FrameSizes::new);
        let mut rate = rate.map(|rate| VaryingRate::new(rate, send_mode.deviation));
        let mut schedule = SendSchedule::from_now(self.stop);
        let mut remaining = match limit {
            Limit::Bytes(bytes) => bytes,
            _ => u64::MAX,
        };
        let (mut burst_number, mut sent_bytes) = (0_u32, 0_u64);
        while remaining > 0 {
            let mut size = match &mut sizes {
                Some(sizes) => sizes.next(BurstRecord::LEN as u32),
                None => length,
            };
            if !send_mode.has_burst_records {
                size = size.min(usize::try_from(remaining).unwrap_or(usize::MAX));
            }
            if let Some(source) = &source {
                let requested = size.min(length);
                size = source.fill(&mut buffer[..requested])?;
                if size == 0 {
                    break;
                }
            }
            if !schedule.wait_until_due() {
                return Err(Error::CANCELED);
            }
            burst_number = burst_number.wrapping_add(1);
            sent_bytes += size as u64;
            let now_ns = monotonic_ns();
            if send_mode.has_burst_records {
                let record = BurstRecord {
                    started,
                    written: WallTime::now(),
                    period: send_mode.periodic_bursts.map(|bursts| bursts.period),
                    number: burst_number,
                    size: size as u32,
                    cumulative: match send_mode.periodic_bursts {
                        Some(bursts) if !bursts.is_isochronous => size as u64,
                        _ => sent_bytes + 2,
                    },
                };
                record.write(&mut buffer);
            }
            self.send_burst(send_mode, &buffer, size)?;
            remaining = remaining.saturating_sub(size as u64);
            self.schedule_next_frame(send_mode, now_ns, &mut schedule);
            if let Some(rate) = &mut rate
                && send_mode.periodic_bursts.is_none()
            {
                schedule.due_ns += rate.gap_ns(size, now_ns);
            }
            if let Some(weight) = send_mode.near_congestion {
                let rtt_us = option::tcp_info(self.socket).map_or(0, |info| info.rtt_us);
                schedule.due_ns = monotonic_ns() + (f64::from(rtt_us) * 1e3 * weight) as u64;
            }
        }
        Ok(EndCause::Count)
    }

    fn schedule_next_frame(
        &self,
        send_mode: &SendMode,
        now_ns: u64,
        schedule: &mut SendSchedule<'_>,
    ) {
        let Some(bursts) = send_mode.periodic_bursts else {
            return;
        };
        let late_ns = now_ns.saturating_sub(schedule.due_ns);
        let (missed, slips) = bursts.schedule_next(now_ns, &mut schedule.due_ns);
        if let Some(timings) = self.timings {
            timings.update(|stats| stats.count_sent_frame(late_ns, missed, slips));
        }
    }

    /// Sends a burst of `size` bytes, one buffer at a time.
    fn send_burst(&self, send_mode: &SendMode, buffer: &[u8], size: usize) -> Result<(), Error> {
        let mut remaining = size;
        while remaining > 0 {
            let mut unsent = &buffer[..remaining.min(buffer.len())];
            remaining -= unsent.len();
            while !unsent.is_empty() {
                if self.stop.is_set() {
                    return Err(Error::CANCELED);
                }
                if send_mode.prefetch.is_some() {
                    let ready = call::wait_writable(self.socket, Duration::from_secs(1));
                    if !ready.or_else(ignore_interrupt)? {
                        continue;
                    }
                }
                let before_ns = monotonic_ns();
                match call::send(self.socket, unsent) {
                    Ok(sent) => {
                        self.counters.count_sent(sent, 1);
                        if let Some(timings) = self
                            .timings
                            .filter(|timings| timings.kind == TimingKind::Writes)
                        {
                            let taken_ns = monotonic_ns() - before_ns;
                            timings.record(taken_ns as i64, wall_ns(), sent as u64);
                        }
                        unsent = &unsent[sent..];
                    }
                    Err(Error::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Receives bursts, each of which starts with its record.
    ///
    /// With `has_trip_times`, both clocks are synchronised. With `has_header`, the stream may start
    /// with the sender's test header.
    pub(crate) fn receive(
        &self,
        read_size: usize,
        has_trip_times: bool,
        has_header: bool,
        report_burst: &dyn Fn(&TimingStats, u32, Duration),
    ) -> LoopResult {
        match self.try_receive(read_size, has_trip_times, has_header, report_burst) {
            Ok(ended) => ended.into(),
            Err(Error::PIPE) => EndCause::PeerClosed.into(),
            Err(error) => self.failure("recv", error),
        }
    }

    fn try_receive(
        &self,
        read_size: usize,
        has_trip_times: bool,
        has_header: bool,
        report_burst: &dyn Fn(&TimingStats, u32, Duration),
    ) -> Result<EndCause, Error> {
        let mut buffer = vec![0; read_size.max(256)];
        let mut record = [0; BurstRecord::LEN];
        let mut record_filled = 0;
        if has_header {
            self.receive_exact(&mut record[..4], read_size, &mut None)?;
            // The frames of -R have no header.
            record_filled = 4;
            if let Some(header_len) = Hello::length(read_word(&record, 0)) {
                self.receive_exact(
                    &mut buffer[4..header_len.clamp(4, 256)],
                    read_size,
                    &mut None,
                )?;
                record_filled = 0;
            }
        }
        loop {
            let mut burst_stats = Some(TimingStats::default());
            self.receive_exact(
                &mut record[std::mem::take(&mut record_filled)..],
                read_size,
                &mut burst_stats,
            )?;
            let started_ns = wall_ns();
            let BurstRecord { written, size, .. } = BurstRecord::read(&record);
            if !(BurstRecord::LEN as u32..=MAX_BURST_BYTES).contains(&size) {
                let reason = format!("recv failed: a burst of {size} bytes");
                return Ok(EndCause::Failed(reason));
            }
            let mut remaining = size as usize - BurstRecord::LEN;
            while remaining > 0 {
                let part = remaining.min(read_size);
                self.receive_exact(&mut buffer[..part], read_size, &mut burst_stats)?;
                remaining -= part;
            }
            let now_ns = wall_ns();
            let sent_ns = if has_trip_times {
                written.since_epoch().as_nanos() as u64
            } else {
                started_ns
            };
            let time_ns = now_ns.wrapping_sub(sent_ns).cast_signed();
            if !is_possible_latency(time_ns) {
                let reason = "recv failed: the peer sent a burst with an impossible time";
                return Ok(EndCause::Failed(reason.to_owned()));
            }
            if let Some(timings) = self.timings {
                timings.record(time_ns, now_ns, size.into());
            }
            if let Some(mut burst_stats) = burst_stats {
                burst_stats.record(time_ns, now_ns, None);
                let duration_ns = u64::try_from(time_ns).unwrap_or(now_ns - started_ns);
                report_burst(&burst_stats, size, Duration::from_nanos(duration_ns));
            }
        }
    }

    /// Fills the buffer with received bytes. Returns `EPIPE` at the end of the stream.
    fn receive_exact(
        &self,
        buffer: &mut [u8],
        read_size: usize,
        burst_stats: &mut Option<TimingStats>,
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
                    if let Some(timings) = self.timings {
                        timings.update(|stats| stats.count_read(count, read_size));
                    }
                    if let Some(burst_stats) = burst_stats {
                        burst_stats.count_read(count, read_size);
                    }
                }
                Err(Error::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns `false` (not ready) for a wait that a signal interrupted, and any other error as is.
fn ignore_interrupt(error: Error) -> Result<bool, Error> {
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
        let bursts = PeriodicBursts {
            is_isochronous: true,
            period: Duration::from_millis(10),
            mean: 10_000.0,
            deviation: 1000.0,
        };
        let mut sizes = FrameSizes::new(bursts);
        let drawn: Vec<_> = (0..2000).map(|_| sizes.next(92)).collect();
        let mean = drawn.iter().sum::<usize>() as f64 / 2000.0;
        assert!((9800.0..10_200.0).contains(&mean), "{mean}");
        assert!(drawn.iter().any(|size| *size != drawn[0]));
        let mut rate = VaryingRate::new(8e6, Some(1e6));
        let gaps: Vec<_> = (0..2000)
            .map(|second| rate.gap_ns(1000, second * 1_000_000_000))
            .collect();
        let rates = gaps.iter().map(|gap| 8e12 / *gap as f64);
        let mean = rates.sum::<f64>() / 2000.0;
        assert!((7.8e6..8.2e6).contains(&mean), "{mean}");
        assert_eq!(VaryingRate::new(8e6, None).gap_ns(1000, 7), 1_000_000);
    }
}
