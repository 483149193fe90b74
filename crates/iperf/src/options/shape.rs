//! The ways of sending that are not one buffer after the other.

use std::path::PathBuf;
use std::time::Duration;

use getopt::Exit;

use super::from_typed::error;
use super::settings::Direction;
use super::table::Typed;
use super::value::{Load, Rate};
use crate::wire::Bursts;

/// A way of sending. The default sends one buffer after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// `-F` or `-I`.
    pub input: Option<Input>,
    /// `--isochronous`, `--burst-period`.
    pub frames: Option<Frames>,
    /// `--ipg`: from one datagram to the next.
    pub gap: Option<Duration>,
    /// The standard deviation of the rate, in bits per second.
    pub deviation: Option<f64>,
    /// `--near-congestion`: the wait after each buffer, in round-trip times.
    pub near_congestion: Option<f64>,
    /// `--tcp-write-prefetch`: bytes that are not sent yet.
    pub prefetch: Option<u32>,
    /// `--tcp-write-times`, `--histograms`.
    pub times_writes: bool,
    /// Each burst of a stream begins with a record.
    pub has_records: bool,
}

/// The source of sent data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Standard,
}

/// Bursts or frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frames {
    /// Frames: those whose time has passed are left out.
    pub is_isochronous: bool,
    /// From one to the next.
    pub period: Duration,
    /// Their mean size in bytes.
    pub mean: f64,
    /// The standard deviation of their sizes.
    pub deviation: f64,
}

impl Shape {
    /// Whether it is more than one buffer after the other.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Frames {
    /// Reads the frames of a header; `None` if they are not possible.
    pub(crate) fn asked(bursts: &Bursts, is_isochronous: bool) -> Option<Self> {
        let whole = |[whole, fraction]: [u32; 2]| f64::from(whole) + f64::from(fraction) / 1e6;
        let rate = whole(bursts.rate);
        let period = Duration::try_from_secs_f64(1.0 / rate).ok()?;
        let per_frame = if is_isochronous { rate * 8.0 } else { 1.0 };
        let sane = period >= Duration::from_micros(1) && period < Duration::from_secs(3600);
        sane.then(|| Self {
            is_isochronous,
            period,
            mean: whole(bursts.mean) / per_frame,
            deviation: whole(bursts.variance).sqrt() / per_frame,
        })
    }

    /// Returns the fields of a header.
    pub(crate) fn ask(&self) -> Bursts {
        let words = |number: f64| [number as u32, (number.fract() * 1e6) as u32];
        let rate = 1.0 / self.period.as_secs_f64();
        let per_second = if self.is_isochronous { rate * 8.0 } else { 1.0 };
        Bursts {
            rate: words(rate),
            mean: words(self.mean * per_second),
            variance: words((self.deviation * per_second).powi(2)),
            gap: [0; 2],
        }
    }

    /// When the next is due after one that has been sent by now; frames that are left out, and whether this one took
    /// longer than its time.
    pub(crate) fn next(&self, now_ns: u64, due_ns: &mut u64) -> (u64, u64) {
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

/// Returns a client's way of sending.
pub(super) fn shape(typed: &mut Typed, length: u32) -> Result<Shape, Exit> {
    let mut shape = typed.shape.clone();
    if let Some(Rate::Varying { deviation, .. }) = typed.rate {
        shape.deviation = Some(deviation);
    }
    if typed.isochronous.is_some() && typed.rate.is_some() {
        return error("ERROR: options of --b and --isochronous cannot be applied together");
    }
    if typed.isochronous.is_some() && typed.burst_period.is_some() {
        return error(
            "ERROR: options of --burst-period and --isochronous cannot be applied together",
        );
    }
    if let Some((per_second, load, deviation)) = typed.isochronous {
        shape.frames = Some(Frames {
            is_isochronous: true,
            period: Duration::from_secs_f64(1.0 / per_second),
            mean: match load {
                Load::Bits(bits) => bits / 8.0 / per_second,
                Load::Datagrams(count) => count * f64::from(length),
            },
            deviation: deviation / 8.0 / per_second,
        });
    }
    if typed.burst_size.is_some() && typed.burst_period.is_none() {
        typed.burst_period = Some(Duration::from_secs(1));
    }
    if let Some(period) = typed.burst_period.filter(|period| !period.is_zero()) {
        let size = typed.burst_size.unwrap_or(1 << 20);
        if typed.udp {
            return error("iperf: --burst-period: UDP has frames, --isochronous");
        }
        if size < length {
            return error(format!(
                "ERROR: option of --burst-size {size} must be equal or larger to write length (-l) {length}"
            ));
        }
        shape.frames = Some(Frames {
            is_isochronous: false,
            period,
            mean: size.into(),
            deviation: 0.0,
        });
    }
    if typed.udp && shape.prefetch.take().is_some() {
        let line = "WARN: setting of option --tcp-write-prefetch is not supported with -u UDP";
        typed.notices.push(line.to_owned());
    }
    if shape.gap.is_some() && !typed.udp {
        return error("iperf: --ipg: it is the gap between datagrams: it needs -u");
    }
    if typed.udp && shape.times_writes {
        return error("iperf: --tcp-write-times: it needs TCP");
    }
    shape.has_records =
        !typed.udp && (typed.trip_times || shape.frames.is_some() || shape.prefetch.is_some());
    if shape.has_records && typed.compatible {
        return error("ERROR: compatibility mode not supported with the requested with options");
    }
    if shape.has_records && length < 92 {
        return error("iperf: -l: records of bursts need at least 92 bytes");
    }
    if shape.input.is_some() && (shape.has_records || shape.frames.is_some()) {
        return error(
            "iperf: -F, -I: a file has no room for the records of --trip-times, --isochronous, --burst-period or --tcp-write-prefetch",
        );
    }
    let for_senders = [
        (shape.input.is_some(), "-F, -I"),
        (shape.gap.is_some(), "--ipg"),
        (shape.deviation.is_some(), "-b with a deviation"),
        (shape.near_congestion.is_some(), "--near-congestion"),
        (shape.times_writes, "--tcp-write-times"),
    ];
    if typed.direction == Direction::Reverse
        && let Some((_, what)) = for_senders.iter().find(|(is_asked, _)| *is_asked)
    {
        return error(format!("iperf: {what}: with -R this end sends nothing"));
    }
    shape.times_writes |= typed.bins.is_some() && typed.direction != Direction::Reverse;
    if let Some(input) = &shape.input
        && let Err(why) = crate::bursts::Source::open(input)
    {
        return error(why);
    }
    typed.socket.unsent_low_water_bytes = shape.prefetch;
    Ok(shape)
}
