//! Formats random figures and hostile texts of peers and profiles. None may panic, print NaN or add
//! lines.
//!
//! See `testkit::fuzz` for the number of inputs and how to repeat a failure.

#[path = "output/sample.rs"]
mod sample;

use std::time::{Duration, UNIX_EPOCH};

use model::{
    CombinedTotals, Counts, ExecutionTimes, InterfaceTraffic, LogEntry, Outcome, PeerOutcome,
    Totals, Traffic,
};
use rand::Rng;
use rand::rngs::SmallRng;
use sample::{master_output, master_settings, outcome, page};
use testkit::fuzz::{choose, run_inputs, run_one_in};
use units::Bytes;
use uperf::output::{SampleLine, Width, goodbye_text, log_text, progress, report};

#[test]
fn no_figures_panic() {
    let sample_output = master_output("-a");
    run_inputs("figures", 100..=100, |rng| {
        let outcome = random_outcome(rng);
        let options = choose(rng, &["", "-a", "-R -a", "-a -e -p", "-n -a"]);
        let master = master_settings(options);
        let width = Width::for_terminal(rng.random_bool(0.5).then(|| rng.random()));
        let name = random_text(rng);
        let sample = SampleLine {
            name: &name,
            totals: random_totals(rng).combined(),
            ended: UNIX_EPOCH + Duration::from_nanos(rng.random()),
        };
        let line = progress(master.print.raw, width, &sample);
        let text = report(&master, width, &outcome);
        assert!(!text.contains("NaN"), "{text}");
        assert_eq!(line.ends_with('\n'), master.print.raw, "{line:?}");
        // Texts of peers may contain line ends, names may not.
        let log = log_text(&outcome.log);
        let (lines, log_lines) = (text.lines().count(), log.lines().count());
        assert!(
            lines <= log_lines + sample_output.lines().count() + 16,
            "{text}"
        );
        true
    });
}

#[test]
fn no_page_panics() {
    run_one_in("pages", 10, 100..=100, |rng| {
        let mut page = page();
        let plan = page.tests[0].plan.clone();
        let series = std::mem::take(&mut page.tests[0].runs[0].series);
        page.tests[0].runs = vec![Outcome {
            plan,
            series,
            ..random_outcome(rng)
        }];
        for series in &mut page.tests[0].runs[0].series {
            series.name = random_text(rng);
            series.started_after = random_duration(rng);
            series.samples.truncate(rng.random_range(0..3));
            for sample in &mut series.samples {
                *sample = model::Sample {
                    at: random_duration(rng),
                    sent: Bytes(random_number(rng)),
                    operations: random_number(rng),
                    ..model::Sample::default()
                };
            }
        }
        let body = without_scripts(&report::html(&page));
        assert!(!body.contains("NaN") && !body.contains("inf "), "{body}");
        true
    });
}

/// Returns the page without its styles and scripts.
fn without_scripts(page: &str) -> String {
    let (_, body) = page
        .split_once("</style>\n</head>")
        .expect("the page has styles");
    let end = body.rfind("</main>").expect("the body has an end");
    body[..end].to_owned()
}

#[test]
fn messages_contain_no_control_characters() {
    run_inputs("messages", 100..=100, |rng| {
        let entries = [random_log_entry(rng), random_log_entry(rng)];
        for text in [log_text(&entries), goodbye_text(&entries)] {
            let has_control = text.chars().any(|c| c.is_control() && c != '\n');
            assert!(!has_control && text.ends_with('\n'), "{text:?}");
        }
        true
    });
}

/// Returns the sample outcome with some random figures and texts.
fn random_outcome(rng: &mut SmallRng) -> Outcome {
    let mut outcome = outcome();
    for _ in 0..rng.random_range(1..8) {
        let group = &mut outcome.groups[0];
        match rng.random_range(0..9) {
            0 => {
                let totals = random_totals(rng);
                (outcome.local.counts, outcome.local.elapsed) =
                    (totals.counts, Some(totals.elapsed));
            }
            1 => {
                (group.name, group.totals, group.active) =
                    (random_text(rng), random_totals(rng), random_totals(rng));
            }
            2 => group.workers[0] = random_totals(rng),
            3 => {
                let transaction = &mut group.transactions[1];
                (transaction.name, transaction.times) = (random_text(rng), random_times(rng));
                (transaction.started_after, transaction.start_spread) =
                    (random_duration(rng), random_duration(rng));
            }
            4 => {
                let step = &mut group.transactions[1].steps[1];
                (step.name, step.times) = (random_text(rng), random_times(rng));
            }
            5 => {
                outcome
                    .local
                    .interfaces
                    .as_mut()
                    .expect("the sample has interfaces")
                    .interfaces[0] = random_interface(rng);
            }
            6 => outcome.peers[0] = random_peer(rng),
            7 => outcome.active = Some(random_totals(rng)),
            _ => outcome.log.push(random_log_entry(rng)),
        }
    }
    outcome
}

fn random_times(rng: &mut SmallRng) -> Option<ExecutionTimes> {
    rng.random_bool(0.9).then(|| ExecutionTimes {
        executions: random_number(rng).max(1),
        total: random_duration(rng),
        cpu: rng.random_bool(0.5).then(|| random_duration(rng)),
        longest: random_duration(rng),
        shortest: random_duration(rng),
    })
}

fn random_interface(rng: &mut SmallRng) -> InterfaceTraffic {
    InterfaceTraffic {
        name: "eth0".to_owned(),
        traffic: Traffic {
            sent_packets: random_number(rng),
            received_packets: random_number(rng),
            sent_bytes: random_number(rng),
            received_bytes: random_number(rng),
        },
        was_missing_at_start: rng.random(),
    }
}

fn random_peer(rng: &mut SmallRng) -> PeerOutcome {
    let totals = CombinedTotals {
        failed_operations: random_number(rng),
        ..random_totals(rng).combined()
    };
    PeerOutcome {
        message: rng.random_bool(0.3).then(|| random_text(rng)),
        totals: rng.random_bool(0.9).then_some(totals),
        ..sample::peer(&random_text(rng), totals)
    }
}

fn random_totals(rng: &mut SmallRng) -> Totals {
    Totals {
        counts: Counts {
            sent: Bytes(random_number(rng)),
            received: Bytes(random_number(rng)),
            operations: random_number(rng),
            failed_operations: random_number(rng),
            ..Counts::default()
        },
        elapsed: random_duration(rng),
    }
}

fn random_log_entry(rng: &mut SmallRng) -> LogEntry {
    LogEntry {
        is_warning: rng.random(),
        text: random_text(rng),
        reason: random_text(rng),
        count: random_number(rng),
    }
}

fn random_number(rng: &mut SmallRng) -> u64 {
    rng.random::<u64>()
        .checked_shr(rng.random_range(0..72))
        .unwrap_or(0)
}

fn random_duration(rng: &mut SmallRng) -> Duration {
    match rng.random_range(0..10) {
        0 => Duration::MAX,
        _ => Duration::from_nanos(random_number(rng)),
    }
}

fn random_text(rng: &mut SmallRng) -> String {
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
