//! Random figures, of peers and profiles that mean harm, too: none panics, no number is none, and no
//! text makes lines of its own.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

#[path = "output/sample.rs"]
mod sample;

use std::time::{Duration, UNIX_EPOCH};

use model::LogEntry;
use rand::Rng;
use rand::rngs::SmallRng;
use sample::{figures, master, page, printed};
use testkit::fuzz::{each, fewer, one_of};
use units::Bytes;
use uperf::output::html;
use uperf::output::{
    Executions, Report, Sample, Slave, Totals, Traffic, Width, goodbye, log, progress, report,
};

#[test]
fn no_figures_panic() {
    let plain = printed("-a");
    each("figures", 100..=100, |rng| {
        let figures = disturbed(rng);
        let options = one_of(rng, &["", "-a", "-R -a", "-a -e -p", "-n -a"]);
        let print = master(options).print;
        let width = Width::of(rng.random_bool(0.5).then(|| rng.random()));
        let line = progress(print.raw, width, &figures.total);
        let text = report(&print, width, &figures);
        assert!(!text.contains("NaN"), "{text}");
        assert_eq!(line.ends_with('\n'), print.raw, "{line:?}");
        // A text of a peer may have line ends, a name none.
        let own = log(&figures.log);
        let (lines, own) = (text.lines().count(), own.lines().count());
        assert!(lines <= own + plain.lines().count() + 16, "{text}");
        true
    });
}

#[test]
fn no_page_panics() {
    fewer("pages", 10, 100..=100, |rng| {
        let mut page = page();
        page.measured.report = disturbed(rng);
        let percentiles = &mut page.measured.distributions[0].percentiles;
        percentiles.truncate(rng.random_range(0..5));
        for (percent, time) in percentiles {
            (*percent, *time) = (rng.random(), duration(rng));
        }
        for series in &mut page.measured.series {
            series.name = text(rng);
            series.begun = duration(rng);
            series.samples.truncate(rng.random_range(0..3));
            for sample in &mut series.samples {
                *sample = model::Sample {
                    at: duration(rng),
                    sent: Bytes(number(rng)),
                    operations: number(rng),
                    ..model::Sample::default()
                };
            }
        }
        let made = html::page(&page);
        let is_number = !made.contains("NaN") && !made.contains("inf ");
        assert!(is_number, "{made}");
        true
    });
}

#[test]
fn no_message_moves_the_cursor() {
    each("messages", 100..=100, |rng| {
        let entries = [entry(rng), entry(rng)];
        for text in [log(&entries), goodbye(&entries)] {
            let moves = text.chars().any(|c| c.is_control() && c != '\n');
            assert!(!moves && text.ends_with('\n'), "{text:?}");
        }
        true
    });
}

/// The sample run with some of its figures as nobody expects them.
fn disturbed(rng: &mut SmallRng) -> Report {
    let mut figures = figures();
    for _ in 0..rng.random_range(1..8) {
        match rng.random_range(0..9) {
            0 => figures.total = sample(rng),
            1 => figures.groups[0] = sample(rng),
            2 => figures.strands[0] = sample(rng),
            3 => figures.transactions[1] = executions(rng),
            4 => figures.flowops[2] = executions(rng),
            5 => figures.interfaces.each[0] = traffic(rng),
            6 => figures.slaves[0] = slave(rng),
            7 => figures.master = totals(rng),
            _ => figures.log.push(entry(rng)),
        }
    }
    figures
}

fn sample(rng: &mut SmallRng) -> Sample {
    Sample {
        name: text(rng),
        totals: totals(rng),
        ended: UNIX_EPOCH + Duration::from_nanos(rng.random()),
    }
}

fn executions(rng: &mut SmallRng) -> Executions {
    Executions {
        name: text(rng),
        group: 0,
        transaction: 0,
        count: number(rng),
        time: duration(rng),
        cpu: rng.random_bool(0.5).then(|| duration(rng)),
        longest: duration(rng),
        shortest: duration(rng),
        counters: Vec::new(),
    }
}

fn traffic(rng: &mut SmallRng) -> Traffic {
    Traffic {
        name: "eth0".to_owned(),
        packets_out: number(rng),
        packets_in: number(rng),
        bytes_out: number(rng),
        bytes_in: number(rng),
        came_online: rng.random(),
    }
}

fn slave(rng: &mut SmallRng) -> Slave {
    Slave {
        host: text(rng),
        group: 0,
        said: rng.random_bool(0.3).then(|| text(rng)),
        totals: rng.random_bool(0.9).then(|| totals(rng)),
    }
}

fn totals(rng: &mut SmallRng) -> Totals {
    Totals {
        bytes: number(rng),
        operations: number(rng),
        errors: number(rng),
        elapsed: duration(rng),
    }
}

fn entry(rng: &mut SmallRng) -> LogEntry {
    LogEntry {
        is_warning: rng.random(),
        text: text(rng),
        reason: text(rng),
        count: number(rng),
    }
}

fn number(rng: &mut SmallRng) -> u64 {
    rng.random::<u64>()
        .checked_shr(rng.random_range(0..72))
        .unwrap_or(0)
}

fn duration(rng: &mut SmallRng) -> Duration {
    match rng.random_range(0..10) {
        0 => Duration::MAX,
        _ => Duration::from_nanos(number(rng)),
    }
}

fn text(rng: &mut SmallRng) -> String {
    const PARTS: [&str; 8] = [
        "Group0",
        "\n",
        "\r",
        "timestamp_ms:1.2 ",
        "\u{1b}[2J",
        "é",
        "Ω",
        " ",
    ];
    let parts = rng.random_range(0..6);
    (0..parts).map(|_| *one_of(rng, &PARTS)).collect()
}
