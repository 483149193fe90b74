//! A sample run with every section, and the output of a master for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{
    CombinedTotals, Counts, EndCause, ExecutionTimes, GroupOutcome, HostFacts, InterfaceTraffic,
    Interfaces, LogEntry, Outcome, PeerOutcome, Plan, Series, Side, StepOutcome, Totals, Traffic,
    TransactionOutcome, Warning,
};
use report::{PeerInfo, Report, TestReport};
use stats::Histogram;
use units::Bytes;
use uperf::options::{MasterSettings, Role, uperf};
use uperf::output::{PROGRESS_END, SampleLine, Width, progress, report, started, starting};
use uperf::{GroupSpec, StrandCount, Workorder, running_transaction_name};

/// Returns the total output of a master with these options for the sample run. The second
/// transaction takes just over 3 s, with 1,000,000 bytes and 500 operations per second.
pub(crate) fn master_output(options: &str) -> String {
    let master = master_settings(options);
    let width = Width::for_terminal(None);
    let mut text = starting(&profile()) + &started(Duration::from_micros(4321));
    for (number, samples) in [(0, 1), (1, 3), (2, 1)] {
        for sample in 1..=samples {
            let name = running_transaction_name(number);
            text += &progress(master.print.raw, width, &sample_line(&name, number, sample));
        }
        text += PROGRESS_END;
    }
    text + &width.rule() + &report(&master, width, &outcome())
}

/// Parses `options` of a master that runs the profile `p`.
pub(crate) fn master_settings(options: &str) -> MasterSettings {
    let arguments = options.split_whitespace().chain(["-m", "p"]);
    let settings = uperf("uperf", arguments.map(Into::into)).expect(options);
    match settings.role {
        Role::Master(master) => master,
        other => panic!("{options}: {other:?}"),
    }
}

pub(crate) fn profile() -> Workorder {
    Workorder {
        name: "stream-tcp-1024-1-1".to_owned(),
        groups: vec![GroupSpec {
            strands: StrandCount {
                count: 1,
                threads: false,
                processes: true,
            },
            ..GroupSpec::default()
        }],
    }
}

/// The outcome of the sample run with a slave at 127.0.0.1.
pub(crate) fn outcome() -> Outcome {
    let total = totals(3_000_000, 1503, 5000);
    let active = totals(3_000_000, 1503, 3001);
    let transaction = |number: usize, steps: &[(&str, u64)]| TransactionOutcome {
        name: format!("Txn{number}"),
        started_after: Duration::from_secs(number as u64),
        workers: 1,
        times: Some(times([1, 500, 1][number])),
        steps: steps
            .iter()
            .map(|(name, count)| step(name, *count))
            .collect(),
        ..TransactionOutcome::default()
    };
    let second = TransactionOutcome {
        workers: 2,
        start_spread: Duration::from_nanos(12_345),
        is_timed: true,
        latency: Some(latencies()),
        ..transaction(1, &[("write", 500), ("read", 500)])
    };
    let group = GroupOutcome {
        name: "Group0".to_owned(),
        totals: total,
        active,
        workers: vec![total],
        transactions: vec![
            transaction(0, &[("connect", 1)]),
            second,
            transaction(2, &[("disconnect", 1)]),
        ],
    };
    let lo = InterfaceTraffic {
        name: "lo".to_owned(),
        traffic: Traffic {
            sent_packets: 10_000,
            received_packets: 10_000,
            sent_bytes: 4_000_000,
            received_bytes: 4_000_000,
        },
        was_missing_at_start: false,
    };
    let local = Side {
        counts: total.counts,
        elapsed: Some(total.elapsed),
        interfaces: Some(Interfaces {
            elapsed: Duration::from_secs(5),
            interfaces: vec![lo],
        }),
        ..Side::default()
    };
    let reported = CombinedTotals {
        elapsed: Duration::from_millis(5001),
        ..total.combined()
    };
    Outcome {
        groups: vec![group],
        active: Some(active),
        peers: vec![peer("127.0.0.1", reported)],
        log: vec![LogEntry {
            is_warning: true,
            text: "Send buffer: 128.00KB (Requested:64.00KB)".to_owned(),
            reason: String::new(),
            count: 1,
        }],
        ..Outcome::for_flow(plan(), start_time_plus(0), local, None, EndCause::Deadline)
    }
}

pub(crate) fn plan() -> Plan {
    Plan {
        name: profile().name,
        ..Plan::default()
    }
}

pub(crate) fn peer(host: &str, totals: CombinedTotals) -> PeerOutcome {
    PeerOutcome {
        host: host.to_owned(),
        group: Some(0),
        totals: Some(totals),
        ..PeerOutcome::default()
    }
}

/// Latencies of the second transaction.
pub(crate) fn latencies() -> Histogram {
    let mut latencies = Histogram::default();
    for microseconds in 1..=100 {
        latencies.record(1000 * microseconds);
    }
    latencies
}

/// The report page of the sample run.
pub(crate) fn page() -> Report {
    let sample = |at: u64, seconds: u64, bytes: u64| model::Sample {
        at: Duration::from_secs(at),
        sent: Bytes(bytes),
        operations: 500 * seconds,
        ..model::Sample::default()
    };
    let series = |name: &str, start_second, samples| Series {
        name: name.to_owned(),
        started_after: Duration::from_secs(start_second),
        samples,
    };
    let mut outcome = outcome();
    outcome.series = vec![
        series("Txn0", 0, vec![sample(0, 0, 0)]),
        series(
            "Txn1",
            1,
            vec![
                sample(0, 0, 0),
                sample(1, 1, 1_000_000),
                sample(2, 2, 3_000_000),
            ],
        ),
    ];
    let mut latency = Histogram::default();
    (1..=500).for_each(|micros| latency.record(micros * 1_000));
    outcome.groups[0].transactions[1].latency = Some(latency);
    outcome.local.host = Some(HostFacts {
        cpu_model: Some("8 of <some> make".to_owned()),
        kernel: Some("6.12.0".to_owned()),
        ..HostFacts::default()
    });
    outcome.warnings = vec![Warning::SameHost];
    outcome.plan.source = Some("<profile name=\"stream\">\n  <group/>\n</profile>\n".to_owned());
    let peer = PeerInfo {
        kind: Some("uperf"),
        ..PeerInfo::new("192.0.2.1", 20_000)
    };
    Report {
        version: "0.1.0",
        command_line: "uperf -a -m p".to_owned(),
        tests: vec![TestReport::from_run(outcome)],
        ..Report::new(peer, start_time_plus(0))
    }
}

/// Returns the progress line of a transaction at a sample, counted from 1.
fn sample_line(name: &str, number: usize, sample: u64) -> SampleLine<'_> {
    let is_measured = number == 1;
    let seconds = if is_measured { sample } else { 0 };
    SampleLine {
        name,
        totals: totals(seconds * 1_000_000, 500 * seconds + 1, seconds * 1000).combined(),
        ended: start_time_plus(1000 * number as u64 + 1000 * sample),
    }
}

fn step(name: &str, count: u64) -> StepOutcome {
    StepOutcome {
        name: name.to_owned(),
        times: Some(times(count)),
        counters: vec![
            ("cycles".to_owned(), None),
            ("task-clock".to_owned(), Some(7 * count)),
        ],
    }
}

fn times(count: u64) -> ExecutionTimes {
    ExecutionTimes {
        executions: count,
        total: Duration::from_micros(20 * count),
        cpu: Some(Duration::from_micros(5 * count)),
        longest: Duration::from_millis(1),
        shortest: Duration::from_nanos(781),
    }
}

pub(crate) fn totals(bytes: u64, operations: u64, milliseconds: u64) -> Totals {
    Totals {
        counts: Counts {
            sent: Bytes(bytes),
            operations,
            ..Counts::default()
        },
        elapsed: Duration::from_millis(milliseconds),
    }
}

/// Returns the wall-clock time that many milliseconds after the start of the run.
fn start_time_plus(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(1_795_211_140_697_126_200 + milliseconds * 1_000_000)
}
