//! Random figures, of peers and profiles that mean harm, too: none panics, no number is none, and no
//! text makes lines of its own.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

#[path = "output/sample.rs"]
mod sample;

use std::time::{Duration, UNIX_EPOCH};

use model::{
    CombinedTotals, Counts, ExecutionTimes, InterfaceTraffic, LogEntry, Outcome, PeerOutcome,
    Totals, Traffic,
};
use rand::Rng;
use rand::rngs::SmallRng;
use sample::{master, outcome, page, printed};
use testkit::fuzz::{choose, run_fraction, run_inputs};
use units::Bytes;
use uperf::output::{SampleLine, Width, goodbye_text, log_text, progress, report};

#[test]
fn no_figures_panic() {
    let plain = printed("-a");
    run_inputs("figures", 100..=100, |rng| {
        let outcome = disturbed(rng);
        let options = choose(rng, &["", "-a", "-R -a", "-a -e -p", "-n -a"]);
        let master = master(options);
        let width = Width::for_terminal(rng.random_bool(0.5).then(|| rng.random()));
        let name = self::text(rng);
        let sample = SampleLine {
            name: &name,
            totals: totals(rng).combined(),
            ended: UNIX_EPOCH + Duration::from_nanos(rng.random()),
        };
        let line = progress(master.print.raw, width, &sample);
        let text = report(&master, width, &outcome);
        assert!(!text.contains("NaN"), "{text}");
        assert_eq!(line.ends_with('\n'), master.print.raw, "{line:?}");
        // A text of a peer may have line ends, a name none.
        let own = log_text(&outcome.log);
        let (lines, own) = (text.lines().count(), own.lines().count());
        assert!(lines <= own + plain.lines().count() + 16, "{text}");
        true
    });
}

#[test]
fn no_page_panics() {
    run_fraction("pages", 10, 100..=100, |rng| {
        let mut page = page();
        let plan = page.tests[0].plan.clone();
        let series = std::mem::take(&mut page.tests[0].runs[0].series);
        page.tests[0].runs = vec![Outcome {
            plan,
            series,
            ..disturbed(rng)
        }];
        for series in &mut page.tests[0].runs[0].series {
            series.name = text(rng);
            series.started_after = duration(rng);
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
        let made = without_scripts(&report::html(&page));
        let is_number = !made.contains("NaN") && !made.contains("inf ");
        assert!(is_number, "{made}");
        true
    });
}

/// The page without the scripts that every page has.
fn without_scripts(page: &str) -> String {
    let (_, body) = page.split_once("</style>\n</head>").expect("styles");
    let end = body.rfind("</main>").expect("an end");
    body[..end].to_owned()
}

#[test]
fn no_message_moves_the_cursor() {
    run_inputs("messages", 100..=100, |rng| {
        let entries = [entry(rng), entry(rng)];
        for text in [log_text(&entries), goodbye_text(&entries)] {
            let moves = text.chars().any(|c| c.is_control() && c != '\n');
            assert!(!moves && text.ends_with('\n'), "{text:?}");
        }
        true
    });
}

/// The sample run with some of its figures as nobody expects them.
fn disturbed(rng: &mut SmallRng) -> Outcome {
    let mut outcome = outcome();
    for _ in 0..rng.random_range(1..8) {
        let group = &mut outcome.groups[0];
        match rng.random_range(0..9) {
            0 => {
                let whole = totals(rng);
                (outcome.local.counts, outcome.local.elapsed) = (whole.counts, Some(whole.elapsed));
            }
            1 => (group.name, group.totals, group.active) = (text(rng), totals(rng), totals(rng)),
            2 => group.workers[0] = totals(rng),
            3 => {
                let transaction = &mut group.transactions[1];
                (transaction.name, transaction.times) = (text(rng), times(rng));
                (transaction.started_after, transaction.start_spread) =
                    (duration(rng), duration(rng));
            }
            4 => {
                let step = &mut group.transactions[1].steps[1];
                (step.name, step.times) = (text(rng), times(rng));
            }
            5 => outcome.local.interfaces.as_mut().expect("interfaces").each[0] = interface(rng),
            6 => outcome.peers[0] = peer(rng),
            7 => outcome.active = Some(totals(rng)),
            _ => outcome.log.push(entry(rng)),
        }
    }
    outcome
}

fn times(rng: &mut SmallRng) -> Option<ExecutionTimes> {
    rng.random_bool(0.9).then(|| ExecutionTimes {
        executions: number(rng).max(1),
        total: duration(rng),
        cpu: rng.random_bool(0.5).then(|| duration(rng)),
        longest: duration(rng),
        shortest: duration(rng),
    })
}

fn interface(rng: &mut SmallRng) -> InterfaceTraffic {
    InterfaceTraffic {
        name: "eth0".to_owned(),
        traffic: Traffic {
            sent_packets: number(rng),
            received_packets: number(rng),
            sent_bytes: number(rng),
            received_bytes: number(rng),
        },
        came_online: rng.random(),
    }
}

fn peer(rng: &mut SmallRng) -> PeerOutcome {
    let totals = CombinedTotals {
        failed_operations: number(rng),
        ..totals(rng).combined()
    };
    PeerOutcome {
        message: rng.random_bool(0.3).then(|| text(rng)),
        totals: rng.random_bool(0.9).then_some(totals),
        ..sample::peer(&text(rng), totals)
    }
}

fn totals(rng: &mut SmallRng) -> Totals {
    Totals {
        counts: Counts {
            sent: Bytes(number(rng)),
            received: Bytes(number(rng)),
            operations: number(rng),
            failed_operations: number(rng),
            ..Counts::default()
        },
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
    (0..parts).map(|_| *choose(rng, &PARTS)).collect()
}
