//! Send modes other than one buffer after another: files, frames, bursts, gaps and varying rates.

use std::path::PathBuf;
use std::time::Duration;

use getopt::Exit;

use super::settings::Direction;
use super::table::GivenOptions;
use super::to_settings::error;
use super::value::{FrameLoad, RateSetting};
use crate::wire::BurstParameters;

/// A send mode. The default sends one buffer after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SendMode {
    /// `-F` or `-I`.
    pub input: Option<Input>,
    /// `--isochronous`, `--burst-period`.
    pub periodic_bursts: Option<PeriodicBursts>,
    /// `--ipg`: the time from one datagram to the next.
    pub gap: Option<Duration>,
    /// The standard deviation of the rate, in bits per second.
    pub deviation: Option<f64>,
    /// `--near-congestion`: the wait after each buffer, in round-trip times.
    pub near_congestion: Option<f64>,
    /// `--tcp-write-prefetch`: the sender writes while fewer bytes than this are unsent.
    pub prefetch: Option<u32>,
    /// `--tcp-write-times`, `--histograms`: the sender measures the durations of its writes.
    pub times_writes: bool,
    /// Whether a TCP stream consists of bursts that begin with a record: periodic bursts, or each
    /// buffer with `--trip-times` or `--tcp-write-prefetch`.
    pub has_burst_records: bool,
}

/// The source of sent data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Standard,
}

/// Periodic bursts (`--burst-period`) or frames (`--isochronous`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodicBursts {
    /// Whether these are frames. The sender skips frames whose time has passed.
    pub is_isochronous: bool,
    /// The time from one burst or frame to the next.
    pub period: Duration,
    /// The mean size in bytes.
    pub mean: f64,
    /// The standard deviation of the sizes, in bytes.
    pub deviation: f64,
}

impl SendMode {
    /// Whether the sender sends buffers back to back.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl PeriodicBursts {
    /// Returns the bursts or frames that a client's header requests.
    ///
    /// Returns `None` if the period is not from 1 µs to 1 hour.
    pub(crate) fn from_request(bursts: &BurstParameters, is_isochronous: bool) -> Option<Self> {
        let to_number = |[whole, fraction]: [u32; 2]| f64::from(whole) + f64::from(fraction) / 1e6;
        let rate = to_number(bursts.rate);
        let period = Duration::try_from_secs_f64(1.0 / rate).ok()?;
        // Sizes of frames travel as bits per second, sizes of bursts as bytes.
        let wire_units_per_byte = if is_isochronous { rate * 8.0 } else { 1.0 };
        let is_valid = period >= Duration::from_micros(1) && period < Duration::from_secs(3600);
        is_valid.then(|| Self {
            is_isochronous,
            period,
            mean: to_number(bursts.mean) / wire_units_per_byte,
            deviation: to_number(bursts.variance).sqrt() / wire_units_per_byte,
        })
    }

    /// Returns the header fields that request these bursts or frames.
    pub(crate) fn burst_parameters(&self) -> BurstParameters {
        let to_words = |number: f64| [number as u32, (number.fract() * 1e6) as u32];
        let rate = 1.0 / self.period.as_secs_f64();
        let wire_units_per_byte = if self.is_isochronous { rate * 8.0 } else { 1.0 };
        BurstParameters {
            rate: to_words(rate),
            mean: to_words(self.mean * wire_units_per_byte),
            variance: to_words((self.deviation * wire_units_per_byte).powi(2)),
            gap: [0; 2],
        }
    }

    /// Moves `due_ns` to the next frame. A late sender skips frames whose periods have ended by
    /// `now_ns`, but no bursts.
    ///
    /// Returns the number of skipped frames, and 1 if the sender is late.
    pub(crate) fn schedule_next(&self, now_ns: u64, due_ns: &mut u64) -> (u64, u64) {
        let period_ns = self.period.as_nanos() as u64;
        *due_ns += period_ns;
        if !self.is_isochronous || now_ns <= *due_ns {
            return (0, 0);
        }
        let missed = (now_ns - *due_ns) / period_ns;
        *due_ns += missed * period_ns;
        (missed, 1)
    }
}

/// Returns a client's send mode. Refuses options that contradict each other, and adds warnings.
pub(super) fn send_mode(given: &mut GivenOptions, length: u32) -> Result<SendMode, Exit> {
    let mut mode = given.send_mode.clone();
    if let Some(RateSetting::Varying { deviation, .. }) = given.rate {
        mode.deviation = Some(deviation);
    }
    if given.isochronous.is_some() && given.rate.is_some() {
        return error("ERROR: options of --b and --isochronous cannot be applied together");
    }
    if given.isochronous.is_some() && given.burst_period.is_some() {
        return error(
            "ERROR: options of --burst-period and --isochronous cannot be applied together",
        );
    }
    if let Some((per_second, load, deviation)) = given.isochronous {
        mode.periodic_bursts = Some(PeriodicBursts {
            is_isochronous: true,
            period: Duration::from_secs_f64(1.0 / per_second),
            mean: match load {
                FrameLoad::Bits(bits) => bits / 8.0 / per_second,
                FrameLoad::Datagrams(count) => count * f64::from(length),
            },
            deviation: deviation / 8.0 / per_second,
        });
    }
    if given.burst_size.is_some() && given.burst_period.is_none() {
        given.burst_period = Some(Duration::from_secs(1));
    }
    if let Some(period) = given.burst_period.filter(|period| !period.is_zero()) {
        let size = given.burst_size.unwrap_or(1 << 20);
        if given.udp {
            return error("iperf: --burst-period: it needs TCP; for UDP use --isochronous");
        }
        if size < length {
            return error(format!(
                "ERROR: option of --burst-size {size} must be equal or larger to write length (-l) {length}"
            ));
        }
        mode.periodic_bursts = Some(PeriodicBursts {
            is_isochronous: false,
            period,
            mean: size.into(),
            deviation: 0.0,
        });
    }
    if given.udp && mode.prefetch.take().is_some() {
        let line = "WARN: setting of option --tcp-write-prefetch is not supported with -u UDP";
        given.notices.push(line.to_owned());
    }
    if mode.gap.is_some() && !given.udp {
        return error("iperf: --ipg: it needs -u");
    }
    if given.udp && mode.times_writes {
        return error("iperf: --tcp-write-times: it needs TCP");
    }
    mode.has_burst_records = !given.udp
        && (given.trip_times || mode.periodic_bursts.is_some() || mode.prefetch.is_some());
    if mode.has_burst_records && given.compatible {
        return error("ERROR: compatibility mode not supported with the requested with options");
    }
    if mode.has_burst_records && length < 92 {
        return error("iperf: -l: the record of a burst needs at least 92 bytes");
    }
    if mode.input.is_some() && (mode.has_burst_records || mode.periodic_bursts.is_some()) {
        return error(
            "iperf: -F, -I: they cannot be combined with --trip-times, --isochronous, --burst-period or --tcp-write-prefetch",
        );
    }
    let sender_options = [
        (mode.input.is_some(), "-F, -I"),
        (mode.gap.is_some(), "--ipg"),
        (mode.deviation.is_some(), "-b with a deviation"),
        (mode.near_congestion.is_some(), "--near-congestion"),
        (mode.times_writes, "--tcp-write-times"),
    ];
    if given.direction == Direction::Reverse
        && let Some((_, option)) = sender_options
            .iter()
            .find(|(is_requested, _)| *is_requested)
    {
        return error(format!("iperf: {option}: with -R this end sends nothing"));
    }
    mode.times_writes |= given.bins.is_some() && given.direction != Direction::Reverse;
    if let Some(input) = &mode.input
        && let Err(reason) = crate::stream_loop::check_input(input)
    {
        return error(reason);
    }
    given.socket.unsent_low_water_bytes = mode.prefetch;
    Ok(mode)
}
