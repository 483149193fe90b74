//! The lines that linerate prints in addition to stock's. Each begins with `# `.

use std::fmt::Write;
use std::time::Duration;

use model::DepartureClock;
use stats::packets::Distribution;
use stats::{ClockFit, Histogram, PacketFigures};

use super::{format_g, micros, wire_overhead_bytes};
use crate::result::{DeliveryCounts, DeliverySource, HostActivity, StampSource, ThroughputResult};
use crate::sequence::{PathEvidence, SearchEnd, SearchResult};
use crate::wire::{CpuLoad, ResponderDetails};

/// Formats the figures of a test that stock's line lacks: delivery counts, rates, spacing, and
/// figures of records.
pub fn test_remarks(test: &ThroughputResult, figures: Option<&PacketFigures>) -> String {
    let mut lines = match test.delivery_counts() {
        Some(delivery) => delivery_remark(&delivery, test.details.as_ref()),
        None => format!(
            "# corrected: tail {}; {} late or repeated, which this responder does not distinguish\n",
            test.receiver_counts.lost_at_end(test.sent),
            test.receiver_counts.bad_order
        ),
    };
    let evidence = PathEvidence::from_test(test);
    let is_v6 = test.local_host.counters.is_v6;
    let _ = writeln!(
        lines,
        "# rates: sent {} Mbit/s, received {} Mbit/s, on the wire {} Mbit/s, over the gaps between datagrams",
        format_megabits(evidence.offered_rate()),
        format_megabits(evidence.received_rate()),
        format_megabits(evidence.received_rate() * wire_factor(test.load.bytes, is_v6)),
    );
    lines += &spacing_remark(
        test.load.spacing.gap,
        test.outcome.local.spacing_result.as_ref(),
    );
    if let Some(source) = test.arrival_clock {
        let clock = match source {
            StampSource::Hardware => "the interface's time stamps",
            StampSource::Kernel => "the kernel's time stamps",
            StampSource::Program => "the responder's own clock",
        };
        let warnings = test
            .details
            .as_ref()
            .map_or_else(String::new, stamp_warnings);
        let _ = writeln!(lines, "# arrivals: by {clock}{warnings}");
    }
    if let Some(figures) = figures {
        lines += &record_remarks(figures, test.outcome.clock_fit.as_ref());
    }
    lines
}

/// Formats the warnings about the kernel's arrival times.
fn stamp_warnings(details: &ResponderDetails) -> String {
    let mut text = String::new();
    let (unstamped, step_us) = (details.unstamped, details.clock_step_us);
    if details.clock != 0 && unstamped > 0 {
        let _ = write!(text, "; {unstamped} by the responder's own clock");
    }
    if step_us != 0 {
        let _ = write!(
            text,
            "; its wall clock was changed by {step_us} us during the test"
        );
    }
    text
}

/// Formats the delivery counts.
fn delivery_remark(delivery: &DeliveryCounts, details: Option<&ResponderDetails>) -> String {
    let source = match delivery.source {
        DeliverySource::Responder => "by the responder",
        DeliverySource::Records => "by the records",
        DeliverySource::Sums => "from stock's counts",
    };
    let drops = details.map_or_else(String::new, |details| {
        let drops = details.socket_drops();
        let drops = drops.map_or("unavailable".to_owned(), |drops| drops.to_string());
        format!("; dropped by the responder's socket {drops}")
    });
    format!(
        "# corrected: received {}; lost {}; tail {}; late {}; repeated {}{drops} ({source})\n",
        delivery.received, delivery.lost, delivery.lost_at_end, delivery.late, delivery.repeated
    )
}

/// Formats the counts of a receiver. The number of sent datagrams is unknown.
pub fn receiver_remark(counts: &model::DatagramCounts) -> String {
    format!(
        "# corrected: received {}; lost {}; late {}; repeated {}\n",
        counts.received, counts.lost, counts.reordered, counts.duplicated
    )
}

/// Formats a warning about the facts of a host that its columns lack; empty if it has all. `shows_cpus`
/// is whether the line has columns of CPU time.
pub fn unavailable_facts(host: &str, activity: &HostActivity, shows_cpus: bool) -> String {
    let counters = &activity.counters;
    let facts = [
        (
            shows_cpus && !activity.cpus.iter().any(CpuLoad::has_ticks),
            "CPU time",
        ),
        (counters.interfaces.is_empty(), "traffic of the interfaces"),
        (
            counters.udp_in_errors(counters.is_v6).is_none(),
            "counters of IP and UDP",
        ),
    ];
    let missing = facts.iter().filter(|(is_missing, _)| *is_missing);
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return String::new();
    }
    format!(
        "# unavailable at {host}: {} (its files in /proc are masked or did not change)\n",
        missing.join(", ")
    )
}

/// Formats the requested and the achieved spacing of the departures.
pub fn spacing_remark(requested: Duration, spacing: Option<&model::SpacingResult>) -> String {
    let Some(spacing) = spacing else {
        return String::new();
    };
    let Some(mean_ns) = spacing.gaps.mean_ns() else {
        return String::new();
    };
    let mut text = format!(
        "# spacing: requested {} us; mean {:.4}; {} us",
        format_g(micros(requested)),
        mean_ns / 1e3,
        format_quantiles(&spacing.gaps)
    );
    if !requested.is_zero() {
        let _ = write!(text, "; late by {} us", format_quantiles(&spacing.lateness));
    }
    for (count, what) in [
        (spacing.skipped, "times skipped"),
        (spacing.refused, "sends refused"),
        (spacing.missed, "launch times missed"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    if spacing.clock == DepartureClock::Driver {
        text += "; by the driver's time stamps";
    }
    text + "\n"
}

fn format_quantiles(histogram: &Histogram) -> String {
    let us = |percent| histogram.percentile(percent).map_or(0.0, micros);
    let (p50, p99, max) = (us(50.0), us(99.0), us(100.0));
    format!(
        "p50 {}; p99 {}; max {}",
        format_g(p50),
        format_g(p99),
        format_g(max)
    )
}

/// Formats the figures of per-packet records.
fn record_remarks(figures: &PacketFigures, clock: Option<&ClockFit>) -> String {
    let mut text = String::new();
    let mut add_distribution = |name: &str, distribution: Option<&Distribution>, suffix: String| {
        if let Some(distribution) = distribution {
            let us = |ns: i64| format_g(ns as f64 / 1e3);
            let _ = writeln!(
                text,
                "# {name} us: min {}; mean {}; p50 {}; p99 {}; max {}{suffix}",
                us(distribution.min),
                format_g(distribution.mean / 1e3),
                us(distribution.p50),
                us(distribution.p99),
                us(distribution.max)
            );
        }
    };
    let error = clock.map_or_else(String::new, |clock| {
        let rtt_us = format_g(clock.least_rtt_ns as f64 / 1e3);
        let error_us = format_g(clock.offset_error_ns as f64 / 1e3);
        format!(
            "; +-{error_us} by the clocks, from {} exchanges with a minimum of {rtt_us}",
            clock.exchanges
        )
    });
    add_distribution("one-way delay", figures.delay_ns.as_ref(), error);
    add_distribution("PDV (RFC 5481)", figures.pdv_ns.as_ref(), String::new());
    add_distribution("IPDV (RFC 5481)", figures.ipdv_ns.as_ref(), String::new());
    add_distribution(
        "gaps of departures",
        figures.send_gaps_ns.as_ref(),
        String::new(),
    );
    add_distribution(
        "gaps of arrivals",
        figures.arrival_gaps_ns.as_ref(),
        String::new(),
    );
    if !figures.loss_runs.is_empty() {
        let runs = figures.loss_runs.iter();
        let runs: Vec<_> = runs
            .map(|(length, count)| format!("{count} of {length}"))
            .collect();
        let _ = writeln!(text, "# loss runs: {}", runs.join("; "));
    }
    let reordering = &figures.reordering;
    if reordering.reordered > 0 {
        let extent = reordering.extent.map_or(0, |extent| extent.max);
        let _ = writeln!(
            text,
            "# reordering (RFC 4737): {} of {}; extent at most {extent}",
            reordering.reordered, figures.arrived
        );
    }
    if figures.duplicates > 0 {
        let _ = writeln!(
            text,
            "# duplication (RFC 5560): {} of {}",
            figures.duplicates, figures.arrived
        );
    }
    if let Some(bottleneck) = &figures.bottleneck {
        let queue_bytes = bottleneck.queue_bytes;
        let queue = queue_bytes.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0} bytes"));
        let _ = writeln!(
            text,
            "# bottleneck: {} Mbit/s of payload, from {} arrivals {} us apart; queue {queue} by the first loss, {:.0} bytes by its delay of {} us",
            format_megabits(bottleneck.rate_bps),
            bottleneck.arrivals,
            format_g(bottleneck.spacing_ns / 1e3),
            bottleneck.queue_bytes_by_delay,
            format_g(bottleneck.queue_delay_ns as f64 / 1e3),
        );
    }
    if let Some(peak) = figures.peak_relative_delay_ns {
        let _ = writeln!(
            text,
            "# peak of the relative delay: {} us",
            format_g(peak as f64 / 1e3)
        );
    }
    text
}

/// Formats the evidence of a search step.
pub fn search_step_line(
    number: u32,
    requested: Option<f64>,
    evidence: &PathEvidence,
    is_carried: bool,
) -> String {
    let requested = requested.map_or_else(
        || "as fast as possible".to_owned(),
        |rate| format_megabits(rate) + " Mbit/s",
    );
    format!(
        "# search {number}: requested {requested}; sent {} Mbit/s; delivered {} Mbit/s; {}; arrivals took {:+.2} % longer: {}\n",
        format_megabits(evidence.offered_rate()),
        format_megabits(evidence.delivered_rate()),
        format_loss(evidence),
        evidence.arrival_stretch() * 100.0,
        if is_carried { "carried" } else { "not carried" }
    )
}

/// Formats the result of a search.
pub fn search_result_line(result: &SearchResult, bytes: u32, is_v6: bool) -> String {
    let tests = result.test_count;
    let Some((rate, carried)) = result.rate.zip(result.carried_test) else {
        return format!("# highest loss-free rate: none found in {tests} tests\n");
    };
    let higher = match (&result.failed_test, result.end) {
        (_, SearchEnd::MaxRateCarried) | (None, _) => "; no higher rate was sent".to_owned(),
        (Some(failed), _) => format!(
            "; {} Mbit/s {}",
            format_megabits(failed.offered_rate()),
            format_loss(failed)
        ),
    };
    let dropped = [Some(carried), result.failed_test].into_iter().flatten();
    let limit = match dropped.map(|test| test.dropped).max() {
        Some(1..) => {
            "; the responder's host causes these drops, not the path: a larger -S there may help"
        }
        _ => "",
    };
    let unsteady = match result.end {
        SearchEnd::Unsteady => "; the path changed during the search, so this is not precise",
        _ => "",
    };
    let ip = if is_v6 { 48 } else { 28 };
    format!(
        "# highest loss-free rate: {} Mbit/s of payload, {} Mbit/s of IP, {} Mbit/s on the wire; {} \
         there{higher}; {tests} tests{unsteady}{limit}\n",
        format_megabits(rate),
        format_megabits(rate * f64::from(bytes + ip) / f64::from(bytes)),
        format_megabits(rate * wire_factor(bytes, is_v6)),
        format_loss(&carried)
    )
}

fn format_loss(evidence: &PathEvidence) -> String {
    let drops = match evidence.dropped {
        0 => String::new(),
        dropped => format!(", and the responder's socket dropped {dropped}"),
    };
    format!("lost {} of {}{drops}", evidence.lost, evidence.sent)
}

/// Formats the number of skipped tests of a size.
pub fn skipped_tests_line(bytes: u32, tests: usize) -> String {
    format!("# {bytes} bytes: {tests} longer gaps skipped\n")
}

/// Returns the bytes on the wire per byte of payload.
fn wire_factor(bytes: u32, is_v6: bool) -> f64 {
    f64::from(bytes + wire_overhead_bytes(is_v6)) / f64::from(bytes)
}

fn format_megabits(bits_per_second: f64) -> String {
    format_g(bits_per_second / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_about_arrival_times_are_formatted() {
        for (clock, unstamped, clock_step_us, text) in [
            (1, 0, 0, ""),
            (1, 3, 0, "; 3 by the responder's own clock"),
            // Without any kernel time stamp, the line already names the responder's clock.
            (0, 10, 0, ""),
            (
                1,
                1,
                -5_000,
                "; 1 by the responder's own clock; its wall clock was changed by -5000 us during the test",
            ),
        ] {
            let details = ResponderDetails {
                clock,
                clock_step_us,
                unstamped,
                ..ResponderDetails::default()
            };
            assert_eq!(stamp_warnings(&details), text);
        }
    }

    #[test]
    fn unavailable_drops_are_not_zero() {
        let delivery = DeliveryCounts {
            received: 9,
            lost: 1,
            lost_at_end: 0,
            late: 0,
            repeated: 0,
            source: DeliverySource::Responder,
        };
        for (socket_drops, text) in [
            (0, "socket 0 "),
            (ResponderDetails::UNKNOWN_DROPS, "socket unavailable "),
        ] {
            let details = ResponderDetails {
                socket_drops,
                ..ResponderDetails::default()
            };
            let line = delivery_remark(&delivery, Some(&details));
            assert!(line.contains(text), "{line}");
        }
    }

    #[test]
    fn driver_departure_times_are_marked() {
        let mut spacing = model::SpacingResult::default();
        let gap = Duration::from_micros(10);
        assert_eq!(spacing_remark(gap, Some(&spacing)), "");
        spacing.gaps.record(10_000);
        spacing.lateness.record(100);
        let line = "# spacing: requested 10 us; mean 10.0000; p50 10; p99 10; max 10 us; late by p50 0.1; p99 0.1; max 0.1 us";
        assert_eq!(spacing_remark(gap, Some(&spacing)), format!("{line}\n"));
        (spacing.clock, spacing.missed) = (DepartureClock::Driver, 2);
        let line = format!("{line}; 2 launch times missed; by the driver's time stamps\n");
        assert_eq!(spacing_remark(gap, Some(&spacing)), line);
    }
}
