//! A run with every section, and what a master prints of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{HostFacts, LogEntry, Series};
use units::Bytes;
use uperf::options::{Counter, Master, Role, uperf};
use uperf::output::html::{Distribution, Host, Measured, Page};
use uperf::output::{
    Active, Executions, Interfaces, Latencies, PROGRESS_END, Report, Sample, Slave, Start, Totals,
    Traffic, Width, progress, report, running_name, started, starting, strand_name,
    transaction_name,
};
use uperf::{Group, Strands, Workorder};

/// All that a master with these options prints of the sample run, whose second transaction took 3 s with
/// 1,000,000 bytes and 500 operations in each, and a bit.
pub(crate) fn printed(options: &str) -> String {
    let Master {
        print, latencies, ..
    } = master(options);
    let width = Width::of(None);
    let mut text = starting(&profile()) + &started(Duration::from_micros(4321));
    for (number, samples) in [(0, 1), (1, 3), (2, 1)] {
        for sample in 1..=samples {
            text += &progress(print.raw, width, &running(number, sample));
        }
        text += PROGRESS_END;
    }
    let mut figures = figures();
    if !latencies {
        figures.latencies = None;
    }
    text + &width.rule() + &report(&print, width, &figures)
}

/// What is asked for by `options`, of the profile `p`.
pub(crate) fn master(options: &str) -> Master {
    let words = options.split_whitespace().chain(["-m", "p"]);
    let settings = uperf("uperf", words.map(Into::into)).expect(options);
    match settings.role {
        Role::Master(master) => master,
        other => panic!("{options}: {other:?}"),
    }
}

pub(crate) fn profile() -> Workorder {
    Workorder {
        name: "stream-tcp-1024-1-1".to_owned(),
        groups: vec![Group {
            strands: Strands {
                count: 1,
                threads: false,
                processes: true,
            },
            ..Group::default()
        }],
    }
}

/// The figures of the run, of a slave at 127.0.0.1.
pub(crate) fn figures() -> Report {
    let whole = totals(3_000_000, 1503, 5000);
    let sample = |name: String, totals| Sample {
        name,
        totals,
        ended: wall(5000),
    };
    Report {
        total: sample("Total".to_owned(), whole),
        groups: vec![sample("Group0".to_owned(), whole)],
        strands: vec![sample(strand_name(0), whole)],
        transactions: (0..3)
            .map(|number| executions(&transaction_name(number), [1, 500, 1][number]))
            .collect(),
        flowops: [
            ("connect", 1),
            ("write", 500),
            ("read", 500),
            ("disconnect", 1),
        ]
        .map(|(name, count)| executions(name, count))
        .into(),
        interfaces: Interfaces {
            elapsed: Duration::from_secs(5),
            each: vec![Traffic {
                name: "lo".to_owned(),
                packets_out: 10_000,
                packets_in: 10_000,
                bytes_out: 4_000_000,
                bytes_in: 4_000_000,
                came_online: false,
            }],
        },
        slaves: vec![Slave {
            host: "127.0.0.1".to_owned(),
            group: 0,
            said: None,
            totals: Some(Totals {
                elapsed: Duration::from_millis(5001),
                ..whole
            }),
        }],
        master: whole,
        active: Active {
            all: totals(3_000_000, 1503, 3001),
            groups: vec![("Group0".to_owned(), totals(3_000_000, 1503, 3001))],
        },
        starts: vec![Start {
            transaction: 1,
            strands: 2,
            spread: Duration::from_nanos(12_345),
        }],
        latencies: Some(Latencies {
            mean: Duration::from_nanos(12_345),
            median: Duration::from_micros(11),
            p99: Duration::from_nanos(98_765),
        }),
        log: vec![LogEntry {
            is_warning: true,
            text: "Send buffer: 128.00KB (Requested:64.00KB)".to_owned(),
            reason: String::new(),
            count: 1,
        }],
        failures: 0,
    }
}

/// A page of the run.
pub(crate) fn page() -> Page {
    let second = |at: u64, seconds: u64, bytes: u64| model::Sample {
        at: Duration::from_secs(at),
        sent: Bytes(bytes),
        operations: 500 * seconds,
        ..model::Sample::default()
    };
    let series = |name: &str, begun, samples| Series {
        name: name.to_owned(),
        begun: Duration::from_secs(begun),
        samples,
    };
    let microseconds: [(f64, u64); 6] = [
        (50.0, 11),
        (75.0, 13),
        (90.0, 21),
        (99.0, 99),
        (99.9, 780),
        (100.0, 4010),
    ];
    let distribution = |name: &str, factor: u64| Distribution {
        name: name.to_owned(),
        count: 500,
        percentiles: microseconds
            .map(|(percent, time)| (percent, Duration::from_micros(factor * time)))
            .into(),
    };
    let host = |name: &str| Host {
        name: name.to_owned(),
        facts: [
            ("CPU", "8 of <some> make"),
            ("kernel", "6.12.0"),
            ("interface", "lo"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    };
    Page {
        command_line: "uperf -a -m p".to_owned(),
        name: profile().name,
        profile: "<profile name=\"stream\">\n  <group/>\n</profile>\n".to_owned(),
        measured: Measured {
            begun: wall(0),
            report: figures(),
            series: vec![
                series("Txn0", 0, vec![second(1, 0, 0)]),
                series(
                    "Txn1",
                    1,
                    vec![
                        second(1, 1, 1_000_000),
                        second(2, 2, 1_600_000),
                        second(3, 3, 3_000_000),
                    ],
                ),
                series("Txn2", 4, vec![second(1, 0, 0)]),
            ],
            distributions: vec![distribution("Txn1", 1), distribution("Txn1 of Group1", 3)],
            hosts: vec![host("127.0.0.1"), host("master")],
            doubts: vec!["both ends were on one host & shared its CPUs".to_owned()],
            parts: Vec::new(),
            here: HostFacts::default(),
            peer: Some("linerate"),
            shares_host: true,
            is_interrupted: false,
        },
    }
}

/// The transaction of this number at this sample, from 1.
fn running(number: usize, sample: u64) -> Sample {
    let is_measured = number == 1;
    let seconds = if is_measured { sample } else { 0 };
    Sample {
        name: running_name(number),
        totals: totals(seconds * 1_000_000, 500 * seconds + 1, seconds * 1000),
        ended: wall(1000 * number as u64 + 1000 * sample),
    }
}

fn executions(name: &str, count: u64) -> Executions {
    Executions {
        name: name.to_owned(),
        group: 0,
        transaction: 0,
        count,
        time: Duration::from_micros(20 * count),
        cpu: Some(Duration::from_micros(5 * count)),
        longest: Duration::from_millis(1),
        shortest: Duration::from_nanos(781),
        counters: vec![
            (Counter::Cycles, None),
            (Counter::TaskClock, Some(7 * count)),
        ],
    }
}

fn totals(bytes: u64, operations: u64, milliseconds: u64) -> Totals {
    Totals {
        bytes,
        operations,
        errors: 0,
        elapsed: Duration::from_millis(milliseconds),
    }
}

/// So many milliseconds after the run's beginning.
fn wall(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(1_795_211_140_697_126_200 + milliseconds * 1_000_000)
}
