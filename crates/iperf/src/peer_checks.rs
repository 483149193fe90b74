//! Checks of the figures that a peer reports or that follow from its messages. A test with an
//! impossible figure fails.

use std::time::Duration;

use model::{EndCause, FlowPlan, Limit, Side};

use crate::wire::{LatencyReport, ServerReport};

/// The largest possible one-way latency. It includes the difference of the clocks: that of a host
/// without a battery begins in 1970.
const MAX_LATENCY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The largest possible number of datagrams: some, and some per second. 200 million per second are
/// more than any interface of a host sends.
const MAX_DATAGRAMS: f64 = 1e6;
const MAX_DATAGRAMS_PER_SECOND: f64 = 200e6;

/// A sender may end this part of the test time early.
const EARLY_END_DIVISOR: u32 = 10;

/// The request of a flow that the peer sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The time since the request. The peer's part of the test is shorter.
    pub(crate) age: Duration,
    /// The longest pause between two sends.
    pub(crate) pause: Duration,
}

/// Returns whether a one-way latency is possible, by two clocks.
pub(crate) fn is_possible_latency(nanos: i64) -> bool {
    u128::from(nanos.unsigned_abs()) <= MAX_LATENCY.as_nanos()
}

/// Checks that a receiver of a stream received all planned data. The error describes the missing
/// part.
pub(crate) fn stream_end(
    ended: &EndCause,
    limit: Limit,
    received: u64,
    request: Request,
) -> Result<(), String> {
    let failed = |reason: String| Err(format!("read failed: the peer {reason}"));
    match (ended, limit) {
        (EndCause::Deadline, _) => failed("did not end its stream".to_owned()),
        (EndCause::PeerClosed, Limit::Time(time)) if request.is_early_end(time) => failed(format!(
            "ended its stream after {:.1} of {:.1} s",
            request.age.as_secs_f64(),
            time.as_secs_f64()
        )),
        (EndCause::PeerClosed, Limit::Bytes(bytes)) if received < bytes.min(i32::MAX as u64) => {
            failed(format!(
                "ended its stream after {received} of {bytes} bytes"
            ))
        }
        _ => Ok(()),
    }
}

/// Checks the figures of a receiver of datagrams. `elapsed` is the time since its start, and
/// `request` is this end's request of the flow.
pub(crate) fn datagrams(
    side: &Side,
    (flow, ended): (&FlowPlan, &EndCause),
    elapsed: Duration,
    has_trip_times: bool,
    request: Option<Request>,
) -> Result<(), String> {
    let failed = |reason: String| Err(format!("recvn failed: the peer {reason}"));
    let counts = side.datagrams.unwrap_or_default();
    let highest = counts.highest_number_counts.highest;
    if highest as f64 > MAX_DATAGRAMS + elapsed.as_secs_f64() * MAX_DATAGRAMS_PER_SECOND {
        let seconds = elapsed.as_secs_f64();
        return failed(format!("numbered {highest} datagrams in {seconds:.1} s"));
    }
    let (min, max) = counts.delays.extremes_ns.unwrap_or_default();
    if has_trip_times && !(is_possible_latency(min) && is_possible_latency(max)) {
        return failed("sent datagrams with impossible times".to_owned());
    }
    let Some(request) = request.filter(|_| *ended == EndCause::PeerClosed) else {
        return Ok(());
    };
    let length = (side.counts.received.0).div_ceil(side.counts.receive_calls.max(1));
    match flow.limit {
        Limit::Time(time) if request.is_early_end(time) => failed(format!(
            "ended its flow after {:.1} of {:.1} s",
            request.age.as_secs_f64(),
            time.as_secs_f64()
        )),
        // The peer sends whole datagrams, and may leave out the last one.
        Limit::Bytes(bytes) if (highest + 1) * length < bytes.min(i32::MAX as u64) => failed(
            format!("ended its flow after {highest} datagrams of {length} bytes"),
        ),
        _ => Ok(()),
    }
}

/// Checks that a server's report is consistent in itself and with the sent data.
///
/// `sent` is the number of bytes and datagrams, both with the last datagram. `elapsed` is the time
/// since the start of the flow. The report may count up to twice the sent bytes.
pub(crate) fn is_possible_report(
    report: &ServerReport,
    (sent_bytes, sent_datagrams): (u64, u64),
    elapsed: Duration,
) -> bool {
    /// The queues of the network may spread a flow by this time.
    const MAX_SPREAD: Duration = Duration::from_secs(60);
    let latency = report.latency.filter(|_| report.is_enhanced);
    report.lost <= report.datagrams
        && report.datagrams <= sent_datagrams
        && report.out_of_order <= sent_datagrams.saturating_mul(2)
        && report.bytes <= sent_bytes.saturating_mul(2)
        && report.jitter < Duration::from_secs(3600)
        && report.elapsed <= elapsed * 2 + MAX_SPREAD
        && latency.is_none_or(|latency| is_possible_latency_report(&latency, report))
}

fn is_possible_latency_report(latency: &LatencyReport, report: &ServerReport) -> bool {
    /// The deviation of a rounded mean, in microseconds.
    const TOLERANCE_US: i64 = 1000;
    /// The largest difference between latencies of a test, even if a clock is set during it.
    const MAX_SPREAD_US: i64 = 24 * 3600 * 1_000_000;
    let max_count = report.datagrams.saturating_mul(2).saturating_add(2);
    if u64::from(latency.count) > max_count {
        return false;
    }
    if latency.count == 0 {
        return true;
    }
    let mean_us = latency.mean_us() as i64;
    let per_second = f64::from(latency.packets_per_second);
    let is_possible = |us: i64| is_possible_latency(us.saturating_mul(1000));
    is_possible(latency.min_us)
        && is_possible(latency.max_us)
        && latency.max_us - latency.min_us <= MAX_SPREAD_US
        && (latency.min_us - TOLERANCE_US..=latency.max_us + TOLERANCE_US).contains(&mean_us)
        && per_second * report.elapsed.as_secs_f64() <= max_count as f64 * 2.0
}

impl Request {
    fn is_early_end(&self, time: Duration) -> bool {
        self.age + time / EARLY_END_DIVISOR + self.pause < time
    }
}

#[cfg(test)]
mod tests {
    use model::{DatagramCounts, Transport, Workload};
    use units::Bytes;

    use super::*;

    fn request(age_ms: u64) -> Request {
        Request {
            age: Duration::from_millis(age_ms),
            pause: Duration::from_millis(10),
        }
    }

    #[test]
    fn a_stream_ends_after_its_planned_part() {
        let time = Limit::Time(Duration::from_secs(1));
        for (ended, limit, received, age_ms, is_complete) in [
            (EndCause::PeerClosed, time, 1000, 20, false),
            (EndCause::PeerClosed, time, 1000, 880, false),
            (EndCause::PeerClosed, time, 1000, 900, true),
            (EndCause::Deadline, time, 1000, 5000, false),
            (EndCause::PeerClosed, Limit::Bytes(1001), 1000, 1, false),
            (EndCause::PeerClosed, Limit::Bytes(1000), 1000, 1, true),
            (EndCause::PeerClosed, Limit::Unlimited, 0, 0, true),
        ] {
            let checked = stream_end(&ended, limit, received, request(age_ms));
            assert_eq!(
                checked.is_ok(),
                is_complete,
                "{limit:?} {age_ms} {checked:?}"
            );
        }
    }

    #[test]
    fn impossible_datagrams_are_rejected() {
        let mut flow = FlowPlan::new(Transport::Udp, Workload::receive());
        let side = |highest, received, latency_ns| {
            let mut counts = DatagramCounts {
                received,
                ..DatagramCounts::default()
            };
            counts.highest_number_counts.highest = highest;
            counts.delays.extremes_ns = Some((0, latency_ns));
            let mut side = Side {
                datagrams: Some(counts),
                ..Side::default()
            };
            side.counts.received = Bytes(received * 1000);
            side.counts.receive_calls = received;
            side
        };
        let second = Duration::from_secs(1);
        let too_late_ns = MAX_LATENCY.as_nanos() as i64 + 1;
        for (limit, side, age_ms, is_possible) in [
            (Limit::Time(second), side(100, 90, 5), 950, true),
            (Limit::Time(second), side(1, 1, 5), 20, false),
            (Limit::Time(second), side(1 << 62, 2, 5), 1000, false),
            (Limit::Time(second), side(1 << 31, 2, 5), 1000, false),
            (Limit::Time(second), side(100, 90, too_late_ns), 1000, false),
            (Limit::Bytes(50_000), side(50, 10, 5), 20, true),
            (Limit::Bytes(50_000), side(48, 48, 5), 20, false),
        ] {
            flow.limit = limit;
            let ended = (&flow, &EndCause::PeerClosed);
            let checked = datagrams(&side, ended, second, true, Some(request(age_ms)));
            assert_eq!(checked.is_ok(), is_possible, "{limit:?} {checked:?}");
        }
    }

    #[test]
    fn impossible_reports_are_rejected() {
        let report = ServerReport {
            bytes: 5 << 32 | 7,
            elapsed: Duration::new(1, 58_607_000),
            lost: 3,
            out_of_order: 1,
            datagrams: 38,
            jitter: Duration::from_micros(7),
            latency: Some(LatencyReport {
                min_us: -2_300,
                max_us: 53,
                sum_us: -38_000,
                mean_us: -1_000,
                count: 38,
                packets_per_second: 35,
                ..LatencyReport::default()
            }),
            is_enhanced: true,
        };
        let is_possible =
            |report: &ServerReport| is_possible_report(report, (10 << 32, 39), report_time());
        assert!(is_possible(&report));
        let with_latency = |change: fn(&mut LatencyReport)| {
            let mut latency = report.latency.unwrap_or_default();
            change(&mut latency);
            ServerReport {
                latency: Some(latency),
                ..report
            }
        };
        for wrong in [
            ServerReport { lost: 39, ..report },
            ServerReport {
                datagrams: 40,
                ..report
            },
            ServerReport {
                bytes: 21 << 32,
                ..report
            },
            ServerReport {
                jitter: Duration::from_secs(4000),
                ..report
            },
            ServerReport {
                elapsed: Duration::from_secs(4_000_000_000),
                ..report
            },
            with_latency(|latency| latency.max_us = 4_000_000_000_000_000),
            with_latency(|latency| latency.min_us = -90_000_000_000),
            with_latency(|latency| latency.sum_us = 38_000_000),
            with_latency(|latency| latency.count = u32::MAX),
            with_latency(|latency| latency.packets_per_second = u32::MAX),
        ] {
            assert!(!is_possible(&wrong), "{wrong:?}");
        }
        // A clock that began in 1970: the sum exceeds its field.
        let decades = with_latency(|latency| {
            let mean_us = 1_800_000_000_000_000;
            (latency.min_us, latency.max_us) = (mean_us - 10, mean_us + 10);
            (latency.mean_us, latency.sum_us) = (mean_us, 38 * mean_us);
        });
        let decoded = ServerReport::decode(&decades.encode()).unwrap();
        assert!(is_possible(&decoded), "{decoded:?}");
        let hidden = ServerReport {
            is_enhanced: false,
            ..with_latency(|latency| latency.max_us = i64::MAX)
        };
        assert!(is_possible(&hidden));
    }

    fn report_time() -> Duration {
        Duration::from_secs(1)
    }
}
