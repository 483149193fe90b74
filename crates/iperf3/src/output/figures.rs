//! The figures of an interval or of a whole test, computed from samples and sides: text and documents only show them.

use std::time::Duration;

use model::{PathSample, Sample};
use units::Bytes;

use crate::result::{StreamRun, TestRun, jitter};

/// What was moved between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Seconds since the test's start, or since the end of the omitted time.
    pub(super) start: f64,
    /// The same at the end.
    pub(super) end: f64,
    /// From start to end.
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    /// Segments sent again, where that is known.
    pub(super) retransmits: Option<u64>,
    /// The connection at the end.
    pub(super) path: Option<PathSample>,
    pub(super) datagrams: Datagrams,
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Datagrams {
    pub(super) packets: u64,
    /// An interval's is negative if datagrams of an earlier one came late.
    pub(super) lost: i64,
    pub(super) out_of_order: u64,
    pub(super) jitter_ms: f64,
}

impl Datagrams {
    pub(super) fn lost_percent(&self) -> f64 {
        if self.packets == 0 {
            return 0.0;
        }
        100.0 * self.lost as f64 / self.packets as f64
    }
}

impl Figures {
    pub(super) fn bits_per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 * 8.0 / self.seconds
        } else {
            0.0
        }
    }

    /// Several streams in the time of the first.
    pub(super) fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = all.into_iter();
        let Some(first) = all.next() else {
            return Self::default();
        };
        let mut sum = Self {
            path: None,
            ..*first
        };
        let mut streams = 1;
        for one in all {
            streams += 1;
            sum.bytes = sum.bytes.saturating_add(one.bytes);
            sum.retransmits = sum
                .retransmits
                .zip(one.retransmits)
                .map(|(sum, one)| sum + one);
            sum.datagrams.packets += one.datagrams.packets;
            sum.datagrams.lost += one.datagrams.lost;
            sum.datagrams.out_of_order += one.datagrams.out_of_order;
            sum.datagrams.jitter_ms += one.datagrams.jitter_ms;
        }
        sum.datagrams.jitter_ms /= f64::from(streams);
        sum
    }
}

/// A stream between two samples; `origin` is the time that counts as 0.
pub(super) fn interval(
    run: &TestRun,
    sends: bool,
    (before, now): (&Sample, &Sample),
    origin: Duration,
) -> Figures {
    let at = |sample: &Sample| sample.at.saturating_sub(origin).as_secs_f64();
    let bytes = now.bytes().0.saturating_sub(before.bytes().0);
    let retransmits = |sample: &Sample| sample.path.and_then(|path| path.retransmits);
    let order = |sample: &Sample| sample.datagrams.unwrap_or_default().by_order;
    let datagrams = if sends {
        Datagrams {
            packets: run.packets(Bytes(bytes)),
            ..Datagrams::default()
        }
    } else {
        let (then, now_order) = (order(before), order(now));
        Datagrams {
            packets: now_order.highest.saturating_sub(then.highest),
            lost: now_order.missing as i64 - then.missing as i64,
            out_of_order: now_order.out_of_order.saturating_sub(then.out_of_order),
            jitter_ms: milliseconds(jitter(now.datagrams.as_ref())),
        }
    };
    Figures {
        start: at(before),
        end: at(now),
        seconds: now.at.saturating_sub(before.at).as_secs_f64(),
        bytes,
        retransmits: retransmits(now)
            .map(|now| now.saturating_sub(retransmits(before).unwrap_or(0)))
            .filter(|_| sends),
        path: now.path.filter(|_| sends),
        datagrams,
    }
}

/// The sender's figures of a stream; without what only the other end knows.
pub(super) fn sent(run: &TestRun, stream: &StreamRun) -> Figures {
    let (here, there) = (&stream.outcome.here, stream.outcome.there.as_ref());
    let side = if stream.sends { Some(here) } else { there };
    let seconds = side
        .and_then(|side| side.elapsed)
        .or(here.elapsed)
        .unwrap_or_default();
    let bytes = side.map_or(0, |side| side.counts.sent.0);
    let packets = match side {
        Some(_) if stream.sends => run.packets(Bytes(bytes)),
        Some(side) => side.counts.send_calls,
        None => 0,
    };
    Figures {
        end: seconds.as_secs_f64(),
        seconds: seconds.as_secs_f64(),
        bytes,
        retransmits: side
            .and_then(|side| side.socket.retransmits)
            .map(u64::from)
            .filter(|_| !run.is_udp()),
        datagrams: Datagrams {
            packets,
            ..Datagrams::default()
        },
        ..Figures::default()
    }
}

/// The receiver's figures of a stream.
pub(super) fn received(stream: &StreamRun) -> Figures {
    let (here, there) = (&stream.outcome.here, stream.outcome.there.as_ref());
    let side = if stream.sends { there } else { Some(here) };
    let seconds = side
        .and_then(|side| side.elapsed)
        .or(here.elapsed)
        .unwrap_or_default();
    let counts = side.and_then(|side| side.datagrams).unwrap_or_default();
    // What was passed over after the omitted time.
    let packets = if stream.sends {
        counts.by_order.highest
    } else {
        highest_after(stream)
    };
    Figures {
        end: seconds.as_secs_f64(),
        seconds: seconds.as_secs_f64(),
        bytes: side.map_or(0, |side| side.counts.received.0),
        datagrams: Datagrams {
            packets,
            lost: counts.by_order.missing.min(packets) as i64,
            out_of_order: counts.by_order.out_of_order,
            jitter_ms: milliseconds(jitter(Some(&counts))),
        },
        ..Figures::default()
    }
}

/// What a stream moved of a file.
#[derive(Clone, Debug)]
pub(super) struct DiskFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl DiskFile {
    pub(super) fn of(run: &TestRun, stream: &StreamRun) -> Option<Self> {
        let (path, bytes) = run.file.as_ref()?;
        Some(Self {
            name: path.display().to_string(),
            bytes: *bytes,
            sent: sent(run, stream).bytes,
            received: received(stream).bytes,
        })
    }

    /// Whole percent.
    pub(super) fn percent(&self, moved: u64) -> u64 {
        (u128::from(moved) * 100 / u128::from(self.bytes.max(1))) as u64
    }
}

/// Datagrams up to the highest number, of those after the omitted time.
fn highest_after(stream: &StreamRun) -> u64 {
    let highest = |sample: Option<&Sample>| {
        sample
            .and_then(|sample| sample.datagrams)
            .map_or(0, |counts| counts.by_order.highest)
    };
    let samples = stream.samples();
    let begin = samples
        .iter()
        .find(|sample| sample.at >= stream.outcome.plan.phases.warm_up);
    highest(samples.last()).saturating_sub(highest(begin))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
