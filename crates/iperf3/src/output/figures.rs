//! The figures of an interval or a test, computed from samples and results.
//!
//! Text and JSON output only format them.

use std::time::Duration;

use model::{PathSample, Sample};
use units::Bytes;

use crate::result::{StreamRun, TestRun, jitter};

/// The transferred data between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Seconds since the test's start, or since the end of the omitted time.
    pub(super) start: f64,
    /// The end, relative to the same origin.
    pub(super) end: f64,
    /// The time from start to end.
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    /// Retransmitted segments; `None` if unavailable.
    pub(super) retransmits: Option<u64>,
    /// The state of the TCP connection at the end.
    pub(super) path: Option<PathSample>,
    pub(super) datagrams: Datagrams,
}

/// The counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Datagrams {
    pub(super) packets: u64,
    /// Lost datagrams; negative if more late datagrams of earlier intervals arrived than were lost.
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

    /// Sums several streams. The time is from the first start to the last end; the jitter is the
    /// mean.
    pub(super) fn sum<'a>(figures: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut figures = figures.into_iter();
        let Some(first) = figures.next() else {
            return Self::default();
        };
        let mut sum = Self {
            path: None,
            ..*first
        };
        let mut stream_count = 1;
        for stream in figures {
            stream_count += 1;
            sum.start = sum.start.min(stream.start);
            sum.end = sum.end.max(stream.end);
            let longest = sum.seconds.max(stream.seconds);
            sum.seconds = longest.max(sum.end - sum.start);
            sum.bytes = sum.bytes.saturating_add(stream.bytes);
            sum.retransmits = sum
                .retransmits
                .zip(stream.retransmits)
                .map(|(sum, count)| sum + count);
            sum.datagrams.packets += stream.datagrams.packets;
            sum.datagrams.lost += stream.datagrams.lost;
            sum.datagrams.out_of_order += stream.datagrams.out_of_order;
            sum.datagrams.jitter_ms += stream.datagrams.jitter_ms;
        }
        sum.datagrams.jitter_ms /= f64::from(stream_count);
        sum
    }
}

/// Returns the figures of a stream between two samples. `origin` is the time that counts as 0.
pub(super) fn interval_figures(
    run: &TestRun,
    sends: bool,
    (start, end): (&Sample, &Sample),
    origin: Duration,
) -> Figures {
    let at = |sample: &Sample| sample.at.saturating_sub(origin).as_secs_f64();
    let bytes = end.bytes().0.saturating_sub(start.bytes().0);
    let retransmits = |sample: &Sample| sample.path.and_then(|path| path.retransmits);
    let number_counts =
        |sample: &Sample| sample.datagrams.unwrap_or_default().highest_number_counts;
    let datagrams = if sends {
        Datagrams {
            packets: run.packets(Bytes(bytes)),
            ..Datagrams::default()
        }
    } else {
        let (at_start, at_end) = (number_counts(start), number_counts(end));
        Datagrams {
            packets: at_end.highest.saturating_sub(at_start.highest),
            lost: at_end.missing as i64 - at_start.missing as i64,
            out_of_order: at_end.out_of_order.saturating_sub(at_start.out_of_order),
            jitter_ms: milliseconds(jitter(end.datagrams.as_ref())),
        }
    };
    Figures {
        start: at(start),
        end: at(end),
        seconds: end.at.saturating_sub(start.at).as_secs_f64(),
        bytes,
        retransmits: retransmits(end)
            .map(|count| count.saturating_sub(retransmits(start).unwrap_or(0)))
            .filter(|_| sends),
        path: end.path.filter(|_| sends),
        datagrams,
    }
}

/// Returns the sender's figures of a stream; values that need a missing peer report are 0.
pub(super) fn sender_figures(run: &TestRun, stream: &StreamRun) -> Figures {
    let (local_side, remote_side) = (&stream.outcome.local, stream.outcome.remote.as_ref());
    let side = if stream.sends {
        Some(local_side)
    } else {
        remote_side
    };
    let seconds = side
        .and_then(|side| side.elapsed)
        .or(local_side.elapsed)
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

/// Returns the receiver's figures of a stream.
pub(super) fn receiver_figures(run: &TestRun, stream: &StreamRun) -> Figures {
    let (local_side, remote_side) = (&stream.outcome.local, stream.outcome.remote.as_ref());
    let side = if stream.sends {
        remote_side
    } else {
        Some(local_side)
    };
    let seconds = side
        .and_then(|side| side.elapsed)
        .or(local_side.elapsed)
        .unwrap_or_default();
    let counts = side.and_then(|side| side.datagrams).unwrap_or_default();
    // Count datagrams by their highest number, without the omitted time.
    let packets = if stream.sends {
        counts.highest_number_counts.highest
    } else {
        measured_highest(run, stream)
    };
    Figures {
        end: seconds.as_secs_f64(),
        seconds: seconds.as_secs_f64(),
        bytes: side.map_or(0, |side| side.counts.received.0),
        datagrams: Datagrams {
            packets,
            lost: counts.highest_number_counts.missing.min(packets) as i64,
            out_of_order: counts.highest_number_counts.out_of_order,
            jitter_ms: milliseconds(jitter(Some(&counts))),
        },
        ..Figures::default()
    }
}

/// Returns the figures of the sender or of the receiver of a stream.
pub(super) fn end_figures(run: &TestRun, stream: &StreamRun, is_sender: bool) -> Figures {
    if is_sender {
        sender_figures(run, stream)
    } else {
        receiver_figures(run, stream)
    }
}

/// Returns the sum of the senders or of the receivers of a direction.
pub(super) fn end_sum(
    run: &TestRun,
    streams: &[&StreamRun],
    sends: bool,
    is_sender: bool,
) -> Figures {
    if streams.is_empty() {
        // The test ended before its streams were open.
        let retransmits = Some(0).filter(|_| sends && is_sender && !run.is_udp());
        return Figures {
            retransmits,
            ..Figures::default()
        };
    }
    let figures = streams
        .iter()
        .map(|stream| end_figures(run, stream, is_sender));
    Figures::sum(&figures.collect::<Vec<_>>())
}

/// The transferred part of a file.
#[derive(Clone, Debug)]
pub(super) struct DiskFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl DiskFile {
    pub(super) fn from_run(run: &TestRun, stream: &StreamRun) -> Option<Self> {
        let (path, bytes) = run.file.as_ref()?;
        Some(Self {
            name: path.display().to_string(),
            bytes: *bytes,
            sent: sender_figures(run, stream).bytes,
            received: receiver_figures(run, stream).bytes,
        })
    }

    /// Returns the transferred part of the file, in whole percent.
    pub(super) fn percent(&self, moved: u64) -> u64 {
        (u128::from(moved) * 100 / u128::from(self.bytes.max(1))) as u64
    }
}

/// Returns the number of datagrams up to the highest received one, without the omitted time.
fn measured_highest(run: &TestRun, stream: &StreamRun) -> u64 {
    let (before, last) = stream.measured_samples(run.omit_end_index);
    let [before, last] = [before, last].map(|sample| {
        let counts = sample.datagrams.unwrap_or_default();
        counts.highest_number_counts.highest
    });
    last.saturating_sub(before)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_lasts_from_the_first_start_to_the_last_end() {
        let stream = |start, end| Figures {
            start,
            end,
            seconds: end - start,
            bytes: 1000,
            ..Figures::default()
        };
        let sum = Figures::sum(&[stream(1.0, 2.0), stream(0.5, 1.5), stream(1.0, 4.5)]);
        assert_eq!(
            (sum.start, sum.end, sum.seconds, sum.bytes),
            (0.5, 4.5, 4.0, 3000)
        );
        assert!((sum.bits_per_second() - 6000.0).abs() < 1e-9);
    }
}
