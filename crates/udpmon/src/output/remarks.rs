//! The lines that stock does not print. Each begins with `# `.

use std::fmt::Write;
use std::time::Duration;

use model::DepartureClock;
use stats::packets::Distribution;
use stats::{ClockFit, Histogram, PacketFigures};

use super::{g, micros, overhead};
use crate::result::{Fate, FateSource, StampSource, Throughput};
use crate::steps::{Evidence, Found, Why};
use crate::wire::Details;

/// Formats the figures of a test beyond stock's line: the fate of the datagrams, the spacing, the rates, and the
/// figures of records.
pub fn of_test(test: &Throughput, figures: Option<&PacketFigures>) -> String {
    let mut lines = match test.fate() {
        Some(fate) => corrected(&fate, test.details.as_ref()),
        None => format!(
            "# corrected: tail {}; {} came late or again, which this responder does not tell apart\n",
            test.received.lost_at_end(test.sent),
            test.received.bad_order
        ),
    };
    let evidence = Evidence::of(test);
    let is_v6 = test.here.counters.is_v6;
    let _ = writeln!(
        lines,
        "# rates: sent {} Mbit/s, received {} Mbit/s, on the wire {} Mbit/s, over the gaps between datagrams",
        megabits(evidence.offered()),
        megabits(evidence.received()),
        megabits(evidence.received() * on_wire(test.load.bytes, is_v6)),
    );
    lines += &spacing(test.load.spacing.gap, test.outcome.here.spaced.as_ref());
    if let Some(source) = test.arrivals {
        let whose = match source {
            StampSource::Hardware => "the interface's time stamps",
            StampSource::Kernel => "the kernel's time stamps",
            StampSource::Program => "the responder's own clock",
        };
        let doubts = test.details.as_ref().map_or_else(String::new, doubts);
        let _ = writeln!(lines, "# arrivals: by {whose}{doubts}");
    }
    if let Some(figures) = figures {
        lines += &of_records(figures, test.outcome.clock_fit.as_ref());
    }
    lines
}

/// Formats the reasons to doubt the kernel's arrival times.
fn doubts(details: &Details) -> String {
    let mut text = String::new();
    let (unstamped, step_us) = (details.unstamped, details.clock_step_us);
    if details.clock != 0 && unstamped > 0 {
        let _ = write!(text, "; {unstamped} by the responder's own clock");
    }
    if step_us != 0 {
        let _ = write!(text, "; its wall clock was set by {step_us} us meanwhile");
    }
    text
}

fn corrected(fate: &Fate, details: Option<&Details>) -> String {
    let source = match fate.source {
        FateSource::Responder => "by the responder",
        FateSource::Records => "by the records",
        FateSource::Sums => "by the sums",
    };
    let drops = details.map_or_else(String::new, |details| {
        format!(
            "; dropped by the responder's socket {}",
            details.socket_drops
        )
    });
    format!(
        "# corrected: received {}; lost {}; tail {}; late {}; repeated {}{drops} ({source})\n",
        fate.received, fate.lost, fate.lost_at_end, fate.late, fate.repeated
    )
}

/// Formats the figures of a receiver without the sender's count.
pub fn received(counts: &model::DatagramCounts) -> String {
    format!(
        "# corrected: received {}; lost {}; late {}; repeated {}\n",
        counts.received, counts.lost, counts.reordered, counts.duplicated
    )
}

/// Formats the actual spacing of the departures.
pub fn spacing(asked: Duration, spaced: Option<&model::Spaced>) -> String {
    let Some(spaced) = spaced else {
        return String::new();
    };
    let Some(mean_ns) = spaced.gaps.mean_ns() else {
        return String::new();
    };
    let mut text = format!(
        "# spacing: asked {} us; mean {:.4}; {} us",
        g(micros(asked)),
        mean_ns / 1e3,
        quantiles(&spaced.gaps)
    );
    if !asked.is_zero() {
        let _ = write!(text, "; late by {} us", quantiles(&spaced.lateness));
    }
    for (count, what) in [
        (spaced.skipped, "times left out"),
        (spaced.refused, "sends refused"),
        (spaced.missed, "launch times missed"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    if spaced.clock == DepartureClock::Driver {
        text += "; by the driver's time stamps";
    }
    text + "\n"
}

fn quantiles(of: &Histogram) -> String {
    let us = |percent| of.percentile(percent).map_or(0.0, micros);
    let (p50, p99, most) = (us(50.0), us(99.0), us(100.0));
    format!("p50 {}; p99 {}; max {}", g(p50), g(p99), g(most))
}

fn of_records(figures: &PacketFigures, clock: Option<&ClockFit>) -> String {
    let mut text = String::new();
    let mut distribution = |name: &str, of: Option<&Distribution>, more: String| {
        if let Some(of) = of {
            let us = |ns: i64| g(ns as f64 / 1e3);
            let _ = writeln!(
                text,
                "# {name} us: min {}; mean {}; p50 {}; p99 {}; max {}{more}",
                us(of.min),
                g(of.mean / 1e3),
                us(of.p50),
                us(of.p99),
                us(of.max)
            );
        }
    };
    let error = clock.map_or_else(String::new, |clock| {
        let rtt_us = g(clock.least_rtt_ns as f64 / 1e3);
        let error_us = g(clock.offset_error_ns as f64 / 1e3);
        format!(
            "; +-{error_us} by the clocks, of {} exchanges in at least {rtt_us}",
            clock.exchanges
        )
    });
    distribution("one-way delay", figures.delay_ns.as_ref(), error);
    distribution("PDV (RFC 5481)", figures.pdv_ns.as_ref(), String::new());
    distribution("IPDV (RFC 5481)", figures.ipdv_ns.as_ref(), String::new());
    distribution(
        "gaps of departures",
        figures.send_gaps_ns.as_ref(),
        String::new(),
    );
    distribution(
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
        let by_loss = bottleneck.queue_bytes;
        let by_loss = by_loss.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0} bytes"));
        let _ = writeln!(
            text,
            "# bottleneck: {} Mbit/s of payload, from {} arrivals {} us apart; queue {by_loss} by the first loss, {:.0} bytes by its delay of {} us",
            megabits(bottleneck.rate_bps),
            bottleneck.arrivals,
            g(bottleneck.spacing_ns / 1e3),
            bottleneck.queue_bytes_by_delay,
            g(bottleneck.queue_delay_ns as f64 / 1e3),
        );
    }
    if let Some(peak) = figures.peak_relative_delay_ns {
        let _ = writeln!(
            text,
            "# peak of the relative delay: {} us",
            g(peak as f64 / 1e3)
        );
    }
    text
}

/// The evidence of a search's step.
pub fn step(number: u32, asked: Option<f64>, evidence: &Evidence, is_carried: bool) -> String {
    let asked = asked.map_or_else(
        || "as fast as possible".to_owned(),
        |rate| megabits(rate) + " Mbit/s",
    );
    format!(
        "# search {number}: asked {asked}; sent {} Mbit/s; delivered {} Mbit/s; {}; arrivals {:+.2} %: {}\n",
        megabits(evidence.offered()),
        megabits(evidence.delivered()),
        lost(evidence),
        evidence.stretch() * 100.0,
        if is_carried { "carried" } else { "not carried" }
    )
}

/// The end of a search.
pub fn found(found: &Found, bytes: u32, is_v6: bool) -> String {
    let tests = found.tests;
    let Some((rate, carried)) = found.rate.zip(found.carried) else {
        return format!(
            "# highest loss-free rate: none; no rate got through without loss in {tests} tests\n"
        );
    };
    let higher = match (&found.refused, found.why) {
        (_, Why::NoBound) | (None, _) => "; nothing higher was sent".to_owned(),
        (Some(refused), _) => format!("; {} Mbit/s {}", megabits(refused.offered()), lost(refused)),
    };
    let dropped = [Some(carried), found.refused].into_iter().flatten();
    let limit = match dropped.map(|test| test.dropped).max() {
        Some(1..) => {
            "; the drops are the limit of the responder's host, not of the path: a larger -S there may help"
        }
        _ => "",
    };
    let unsteady = match found.why {
        Why::Unsteady => "; the path changed meanwhile, so this is not precise",
        _ => "",
    };
    let ip = if is_v6 { 48 } else { 28 };
    format!(
        "# highest loss-free rate: {} Mbit/s of payload, {} Mbit/s of IP, {} Mbit/s on the wire; {} \
         there{higher}; {tests} tests{unsteady}{limit}\n",
        megabits(rate),
        megabits(rate * f64::from(bytes + ip) / f64::from(bytes)),
        megabits(rate * on_wire(bytes, is_v6)),
        lost(&carried)
    )
}

fn lost(evidence: &Evidence) -> String {
    let drops = match evidence.dropped {
        0 => String::new(),
        dropped => format!(", and the responder's socket dropped {dropped}"),
    };
    format!("lost {} of {}{drops}", evidence.lost, evidence.sent)
}

/// Reports the skipped tests of a size.
pub fn left_out(bytes: u32, tests: usize) -> String {
    format!("# {bytes} bytes: {tests} longer gaps left out\n")
}

/// Bytes on the wire per byte of payload.
fn on_wire(bytes: u32, is_v6: bool) -> f64 {
    f64::from(bytes + overhead(is_v6)) / f64::from(bytes)
}

fn megabits(bits_per_second: f64) -> String {
    g(bits_per_second / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_doubtful_of_arrivals_is_said() {
        for (clock, unstamped, clock_step_us, text) in [
            (1, 0, 0, ""),
            (1, 3, 0, "; 3 by the responder's own clock"),
            // If no packet has a stamp, the count would repeat the clock of the line.
            (0, 10, 0, ""),
            (
                1,
                1,
                -5_000,
                "; 1 by the responder's own clock; its wall clock was set by -5000 us meanwhile",
            ),
        ] {
            let details = Details {
                clock,
                clock_step_us,
                unstamped,
                ..Details::default()
            };
            assert_eq!(doubts(&details), text);
        }
    }

    #[test]
    fn the_driver_s_departures_are_said_to_be_its() {
        let mut spaced = model::Spaced::default();
        let gap = Duration::from_micros(10);
        assert_eq!(spacing(gap, Some(&spaced)), "");
        spaced.gaps.record(10_000);
        spaced.lateness.record(100);
        let line = "# spacing: asked 10 us; mean 10.0000; p50 10; p99 10; max 10 us; late by p50 0.1; p99 0.1; max 0.1 us";
        assert_eq!(spacing(gap, Some(&spaced)), format!("{line}\n"));
        (spaced.clock, spaced.missed) = (DepartureClock::Driver, 2);
        let line = format!("{line}; 2 launch times missed; by the driver's time stamps\n");
        assert_eq!(spacing(gap, Some(&spaced)), line);
    }
}
