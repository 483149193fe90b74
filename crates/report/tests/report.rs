//! Compares the text and the JSON of a sample report with snapshots. After an intended change, run
//! `BLESS=1 cargo test -p report` to update them.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

use model::{
    ClockFacts, Counts, CpuMethod, CpuUse, DatagramCounts, End, EndCause, FlowPlan, Group,
    HostFacts, Interface, Limit, Outcome, Plan, Sample, Series, Side, SizeRule, Traffic, Transport,
    Warning, Workload,
};
use report::{PaceLimit, PeerInfo, Report, TestFigures, TestReport};
use stats::Histogram;
use stats::confidence::{ConfidenceGoal, ConfidenceLevel};
use units::{BitRate, Bytes};

#[test]
fn text_matches_the_snapshot() {
    assert_matches_snapshot("report.txt", &report::text(&sample(), 80));
}

#[test]
fn json_matches_the_snapshot() {
    let text = report::json(&sample());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], report::SCHEMA);
    assert_eq!(document["error"], "the server refused");
    assert_matches_snapshot("report.json", &text);
}

#[test]
fn quotes_the_command_line_for_a_shell() {
    let arguments = ["uperf", "-m", "a b.xml", "--html=x.html", "it's", ""].map(OsString::from);
    let expected = r"uperf -m 'a b.xml' --html=x.html 'it'\''s' ''";
    assert_eq!(report::quote_command_line(arguments), expected);
}

/// Columns that do not fit are omitted, the least important first.
#[test]
fn the_table_fits_the_terminal() {
    for (columns, names, omitted) in [
        (
            40,
            "rate loss",
            "Columns left out: latency p50, latency p90, latency p99, latency max, CPU %, service demand;",
        ),
        (60, "rate p50 p90 p99 max loss", ""),
        (80, "rate p50 p99 max here peer here peer loss", ""),
        (120, "rate p50 p90 p99 max here peer here peer loss", ""),
        (500, "rate p50 p90 p99 max here peer here peer loss", ""),
    ] {
        let text = report::text(&sample(), columns);
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
            assert_eq!(line, line.trim_end());
        }
        let header = text
            .lines()
            .find(|line| line.trim_start().starts_with("rate"));
        let names_shown: Vec<&str> = header.unwrap().split_whitespace().collect();
        assert_eq!(names_shown.join(" "), names, "{columns}: {text}");
        let lists_omitted_columns = text.contains("Columns left out: ");
        assert_eq!(lists_omitted_columns, columns < 120, "{columns}: {text}");
        let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unwrapped.contains(omitted), "{text}");
    }
}

/// Tests that fail for the same reason share one line.
#[test]
fn a_reason_is_printed_once() {
    let mut report = sample();
    let failed = |name: &str| TestReport {
        error: Some("the server refused".to_owned()),
        ..TestReport::new(plan(name, Transport::Tcp, Workload::request()))
    };
    report.tests.push(failed("TCP_CC"));
    report.not_run = vec!["UDP_RR".to_owned()];
    let text = report::text(&report, 80);
    let last_lines: Vec<&str> = text.lines().rev().take(2).collect();
    let expected = [
        "not run: UDP_RR",
        "TCP_CRR, TCP_CC failed: the server refused",
    ];
    assert_eq!(last_lines, expected, "{text}");
}

/// With a goal, the table shows the mean of the runs and its confidence interval.
#[test]
fn with_a_goal_the_rate_is_the_mean() {
    let text = report::text(&sample(), 120);
    // The runs have 47,839.5 and 50,000 transactions per second.
    let line_with = |label: &str| text.lines().find(|line| line.contains(label)).unwrap();
    assert!(line_with("TCP_RR ").contains("48,920 tran/s"), "{text}");
    assert!(
        line_with("± ").trim_start().starts_with("± 28.1 %"),
        "{text}"
    );
    assert!(
        !text.contains("47,84") && !text.contains("50,000"),
        "{text}"
    );
    assert!(text.contains("Each rate is the mean of all runs"), "{text}");
}

#[test]
fn two_rates_are_shown_separately() {
    let render = |tested: TestReport| {
        let mut report = sample();
        report.tests = vec![tested];
        report::text(&report, 80)
    };
    let mut run = request_response();
    // 60,000 transactions per second for 0.8 s, then 40,000.
    let samples = (0..=200).map(|step| Sample {
        at: Duration::from_millis(10 * step),
        operations: if step < 80 {
            600 * step
        } else {
            48_000 + 400 * (step - 80)
        },
        ..Sample::default()
    });
    run.series = vec![Series {
        samples: samples.collect(),
        ..Series::default()
    }];
    let levels = TestFigures::from_outcome(&run).levels.unwrap();
    assert!((levels.low_share - 0.6).abs() < 1e-9, "{levels:?}");
    let test_report_of = |runs: Vec<Outcome>| TestReport {
        runs,
        ..TestReport::new(request_response().plan)
    };
    let text = render(test_report_of(vec![run]));
    assert!(
        text.contains("60 % 40,000") && text.contains("40 % 60,000"),
        "{text}"
    );
    assert!(
        text.contains("the rate changed once between two levels"),
        "{text}"
    );

    let runs = [100, 101, 100, 201, 200, 201].map(|rate| {
        let mut run = request_response();
        run.local.counts.transactions = 2 * rate;
        run
    });
    let mut bimodal = test_report_of(runs.to_vec());
    bimodal.goal = Some(GOAL);
    let text = render(bimodal);
    assert!(text.contains("3× 100") && text.contains("3× 201"), "{text}");
}

#[test]
fn loss_shows_where_datagrams_were_lost() {
    let text_with_loss = |dropped, lost: u64, late| {
        let mut run = datagrams();
        let remote = run.remote.as_mut().unwrap();
        remote.socket.dropped = dropped;
        remote.counts.receive_calls = 1_000_000 - lost;
        remote.counts.receive_calls_late = late;
        let mut report = sample();
        report.tests = vec![TestReport {
            runs: vec![run],
            ..TestReport::new(datagrams().plan)
        }];
        report::text(&report, 120)
    };
    for (dropped, lost, late, shown, note) in [
        (Some(0), 0, 0, &["0 % lost"][..], None),
        (
            Some(0),
            50_000,
            0,
            &["5.00 % path"],
            Some("Lost on the path."),
        ),
        (
            Some(50_000),
            50_000,
            0,
            &["5.00 % socket"],
            Some("own socket"),
        ),
        (
            Some(49_000),
            50_000,
            0,
            &["0.100 % path", "4.90 % socket"],
            Some("own socket"),
        ),
        (None, 50_000, 0, &["5.00 % lost"], Some("is unknown")),
        (Some(0), 10_000, 10_000, &["0 % lost"], None),
    ] {
        let text = text_with_loss(dropped, lost, late);
        for cell in shown {
            assert!(text.contains(cell), "{cell}: {text}");
        }
        for label in ["% path", "% socket", "% lost"] {
            let is_shown = shown.iter().any(|cell| cell.ends_with(label));
            assert_eq!(text.contains(label), is_shown, "{label}: {text}");
        }
        if let Some(note) = note {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(note), "{note}: {text}");
        }
    }
    assert!(text_with_loss(Some(0), 10, 10).contains("10 late"));
}

#[test]
fn adds_up_flows() {
    let mut first = request_response();
    let mut second = request_response();
    first.local.socket.retransmits = Some(1);
    second.local.socket.retransmits = Some(2);
    for side in [Some(&mut second.local), second.remote.as_mut()] {
        side.unwrap().elapsed = Some(Duration::from_secs(4));
    }
    second.local.cpu = None;
    first.warnings = vec![
        Warning::PeerShared { tests: 1 },
        Warning::LateDatagrams { datagrams: 2 },
    ];
    second.warnings = vec![
        Warning::PeerShared { tests: 3 },
        Warning::LateDatagrams { datagrams: 5 },
    ];
    let later = Duration::from_millis(500);
    let sum = Outcome::sum(vec![(first.clone(), Duration::ZERO), (second, later)]).unwrap();
    assert_eq!(sum.local.counts.transactions, 200_000);
    assert_eq!(sum.local.latency.as_ref().unwrap().len(), 2_000);
    // The elapsed times are from the first start to the last end.
    let elapsed = Some(Duration::from_millis(4500));
    assert_eq!(sum.local.elapsed, elapsed);
    assert_eq!(sum.remote.as_ref().unwrap().elapsed, elapsed);
    assert_eq!(sum.start_spread(), Some(later));
    let rates: Vec<_> = sum
        .flows
        .iter()
        .map(model::FlowOutcome::transactions_per_second)
        .collect();
    assert_eq!(rates, [Some(50_000.0), Some(25_000.0)]);
    assert_eq!(sum.local.cpu, first.local.cpu);
    assert_eq!(sum.local.socket.retransmits, Some(3));
    // One of the three tests is the other flow of this test.
    assert_eq!(
        sum.warnings,
        [
            Warning::PeerShared { tests: 2 },
            Warning::LateDatagrams { datagrams: 7 }
        ]
    );
    assert_eq!(
        TestFigures::from_outcome(&sum).transactions_per_s,
        Some(200_000.0 / 4.5)
    );
    assert!(Outcome::sum(Vec::new()).is_none());
}

#[test]
fn figures_of_datagrams() {
    let figures = TestFigures::from_outcome(&datagrams());
    // 900,000 of 1,000,000 datagrams of 1472 bytes arrived in 2 s.
    assert_eq!(figures.throughput_bps, Some(BitRate(5.299_2e9)));
    assert_eq!(figures.offered_bps, Some(BitRate(5.888e9)));
    let datagrams = figures.datagrams.unwrap();
    assert_eq!(
        (datagrams.received, datagrams.received_late, datagrams.lost),
        (900_000, Some(10), 99_990)
    );
    // 2 CPUs, half busy for 2 s, moved 1472 MB.
    let (local, remote) = figures.service_demand.local_and_remote();
    assert!(
        (local.unwrap() - 2e6 / 1_437_500.0).abs() < 1e-9,
        "{local:?}"
    );
    assert!(remote.is_some());
}

/// A receiver that counts for longer than the sender sends has the data of a queue on the path.
#[test]
fn rates_of_uploads_include_the_time_of_the_receiver() {
    let mut run = datagrams();
    run.remote.as_mut().unwrap().elapsed = Some(Duration::from_secs(4));
    let figures = TestFigures::from_outcome(&run);
    assert_eq!(figures.throughput_bps, Some(BitRate(2.649_6e9)));
    assert_eq!(figures.offered_bps, Some(BitRate(5.888e9)));
    let sum = Outcome::sum(vec![(run.clone(), Duration::ZERO), (run, Duration::ZERO)]).unwrap();
    let spread = TestFigures::from_outcome(&sum).flow_spread.unwrap();
    assert!((spread.fastest_rate - 2.649_6e9).abs() < 1.0, "{spread:?}");
    // The response to the last request ends a transaction.
    let mut run = request_response();
    run.remote.as_mut().unwrap().elapsed = Some(Duration::from_secs(4));
    assert_eq!(
        TestFigures::from_outcome(&run).transactions_per_s,
        Some(50_000.0)
    );
}

/// With a warm-up, the counts of both ends are of different times.
#[test]
fn losses_after_a_warm_up_are_those_of_the_receiver() {
    let mut run = datagrams();
    run.remote.as_mut().unwrap().datagrams = Some(DatagramCounts {
        lost: 7,
        ..DatagramCounts::default()
    });
    let lost = |run: &Outcome| TestFigures::from_outcome(run).datagrams.unwrap().lost;
    assert_eq!(lost(&run), 99_990);
    run.plan.phases.warm_up = Duration::from_secs(1);
    assert_eq!(lost(&run), 7);
    run.remote.as_mut().unwrap().datagrams = None;
    assert_eq!(lost(&run), 99_990);
}

/// The directions of iperf -r follow each other.
#[test]
fn rates_of_directions_are_over_the_time_of_their_flows() {
    let outbound = stream();
    let mut inbound = outcome("reverse", Transport::Tcp, Workload::receive());
    inbound.local.counts.received = Bytes(1_000_000);
    let mirrored = Group::with_flows(1, inbound.plan.flow().unwrap().clone());
    let flows = vec![
        (outbound, Duration::ZERO),
        (inbound, Duration::from_secs(2)),
    ];
    let mut sum = Outcome::sum(flows).unwrap();
    sum.plan.groups.push(mirrored);
    let spread = TestFigures::from_outcome(&sum).flow_spread.unwrap();
    assert_eq!(spread.outbound_bps, Some(BitRate(9.382_715_6e9)));
    assert_eq!(spread.inbound_bps, Some(BitRate(4e6)));
}

/// Flows of different rates do not have two levels of one rate. Nor does an omitted time.
#[test]
fn levels_are_those_of_one_measured_series() {
    let series = |step_size: u64, slow_steps: u64| {
        let samples = (0..=200).map(|step| Sample {
            at: Duration::from_millis(10 * step),
            sent: Bytes(step_size * (step - step.min(slow_steps) / 2)),
            ..Sample::default()
        });
        Series {
            samples: samples.collect(),
            ..Series::default()
        }
    };
    let mut run = stream();
    let levels = |run: &Outcome| TestFigures::from_outcome(run).levels;
    run.series = vec![series(10_000, 0), series(20_000, 0)];
    assert_eq!(levels(&run), None);
    run.series = vec![series(10_000, 100)];
    assert!(levels(&run).is_some());
    run.plan.phases.warm_up = Duration::from_secs(1);
    assert_eq!(levels(&run), None);
}

#[test]
fn huge_peer_counts_do_not_overflow() {
    const MAX: u64 = u64::MAX;
    for mut run in [stream(), datagrams(), request_response()] {
        let remote = run.remote.as_mut().unwrap();
        remote.counts = Counts {
            sent: Bytes(MAX),
            received: Bytes(MAX),
            received_late: Bytes(MAX),
            receive_calls_late: MAX,
            send_calls: MAX,
            receive_calls: MAX,
            send_batches: MAX,
            receive_batches: MAX,
            failed_sends: MAX,
            transactions: MAX,
            operations: MAX,
            failed_operations: MAX,
        };
        remote.cpu.clone_from(&run.local.cpu);
        run.warnings = run.derive_warnings();
        let mut bidirectional = run.clone();
        let reverse_group = Group::with_flows(1, run.plan.flow().unwrap().clone().mirrored());
        bidirectional.plan.groups.push(reverse_group);
        let report = Report {
            tests: vec![
                TestReport::from_run(run),
                TestReport::from_run(bidirectional),
            ],
            ..sample()
        };
        assert!(report::json(&report).contains("18446744073709551615"));
        assert!(!report::text(&report, 80).is_empty());
        assert!(!report::html(&report).is_empty());
    }
}

#[test]
fn unreported_values_have_no_figure() {
    let mut run = datagrams();
    run.remote = None;
    run.local.cpu = None;
    let figures = TestFigures::from_outcome(&run);
    assert_eq!((figures.throughput_bps, figures.datagrams), (None, None));
    assert_eq!(figures.service_demand.local_and_remote(), (None, None));
    run.local.elapsed = Some(Duration::ZERO);
    assert_eq!(TestFigures::from_outcome(&run).rate(), None);
}

#[test]
fn the_median_of_an_even_number_is_the_lower_one() {
    for (rates, median, range) in [
        (&[][..], None, None),
        (&[7][..], Some(0), None),
        (&[3, 1][..], Some(1), Some((1.0, 3.0))),
        (&[5, 1, 3][..], Some(2), Some((1.0, 5.0))),
        (&[4, 1, 3, 2][..], Some(3), Some((1.0, 4.0))),
    ] {
        let runs = rates.iter().map(|&rate| {
            let mut run = request_response();
            run.local.counts.transactions = 2 * rate;
            run
        });
        let tested = TestReport {
            runs: runs.collect(),
            ..TestReport::new(plan("TCP_RR", Transport::Tcp, Workload::request()))
        };
        assert_eq!(
            (tested.median_run_index(), tested.rate_range()),
            (median, range),
            "{rates:?}"
        );
    }
}

/// The two runs of the sample, with 50,000 and 47,840 transactions per second, reach this goal.
const GOAL: ConfidenceGoal = ConfidenceGoal {
    level: ConfidenceLevel::P95,
    max_relative_width: 0.8,
    min_samples: 2,
    max_samples: 10,
};

#[test]
fn runs_end_when_the_goal_is_reached() {
    let test_report_of = |rates: &[u64], width: f64| {
        let runs = rates.iter().map(|&rate| {
            let mut run = request_response();
            run.local.counts.transactions = 2 * rate;
            run
        });
        TestReport {
            goal: Some(ConfidenceGoal {
                max_relative_width: width,
                ..GOAL
            }),
            runs: runs.collect(),
            ..TestReport::new(plan("TCP_RR", Transport::Tcp, Workload::request()))
        }
    };
    for (rates, width, half_width, reached, needs_more) in [
        (&[][..], 0.1, None, false, true),
        (&[100][..], 0.1, None, false, true),
        // t is 12.706 with two samples, the standard error 10.
        (&[90, 110], 2.5, Some(127.06), false, true),
        (&[90, 110], 2.6, Some(127.06), true, false),
        (&[100; 3], 0.1, Some(0.0), true, false),
        (
            &[1, 1, 1, 1, 1, 9, 9, 9, 9, 9],
            0.1,
            Some(60.32),
            false,
            false,
        ),
    ] {
        let tested = test_report_of(rates, width);
        let confidence = tested.confidence();
        let width = confidence.and_then(|confidence| confidence.throughput_width_percent);
        match (width, half_width) {
            (Some(width), Some(half_width)) => {
                assert!((width / 2.0 - half_width).abs() < 0.01, "{width}");
            }
            (width, half_width) => assert_eq!(width, half_width, "{rates:?}"),
        }
        assert_eq!(
            confidence.is_some_and(|confidence| confidence.is_reached),
            reached,
            "{rates:?}"
        );
        assert_eq!(tested.needs_more_runs(), needs_more, "{rates:?}");
    }
    let warning_kinds = |rates: &[u64]| -> Vec<&str> {
        test_report_of(rates, 0.1)
            .warnings_about_runs()
            .iter()
            .map(Warning::kind)
            .collect()
    };
    assert_eq!(warning_kinds(&[]), [""; 0]);
    assert_eq!(warning_kinds(&[100; 3]), ["few_iterations"]);
    assert_eq!(
        warning_kinds(&[100, 101, 100, 201, 200, 201]),
        ["interval_not_reached", "bimodal"]
    );
}

fn sample() -> Report {
    let mut slower = request_response();
    slower.local.counts.transactions -= 4_321;
    let tested = |runs: Vec<Outcome>| TestReport {
        goal: (runs.len() > 1).then_some(GOAL),
        pace_limit: runs[0]
            .plan
            .flow()
            .unwrap()
            .transport
            .has_datagrams()
            .then(|| PaceLimit {
                rate: BitRate(5.888e9),
                reference_test: Some("TCP_STREAM".to_owned()),
            }),
        runs: runs.clone(),
        ..TestReport::new(runs[0].plan.clone())
    };
    let failed = TestReport {
        error: Some("the server refused".to_owned()),
        ..TestReport::new(plan(
            "TCP_CRR",
            Transport::Tcp,
            Workload::connect_and_request(),
        ))
    };
    let peer = PeerInfo {
        kind: Some("linerate"),
        ..PeerInfo::new("192.0.2.1", 12865)
    };
    Report {
        version: "0.1.0",
        command_line: "linerate run 192.0.2.1".to_owned(),
        tests: vec![
            tested(vec![stream()]),
            tested(vec![datagrams()]),
            tested(vec![slower, request_response()]),
            failed,
        ],
        ..Report::new(peer, started())
    }
}

fn stream() -> Outcome {
    let mut run = outcome("TCP_STREAM", Transport::Tcp, Workload::send());
    run.local.counts = Counts {
        sent: Bytes(2_345_678_900),
        send_calls: 143_169,
        ..Counts::default()
    };
    run.local.socket.retransmits = Some(1_234);
    let remote = run.remote.as_mut().unwrap();
    remote.counts = Counts {
        received: Bytes(2_345_678_900),
        receive_calls: 160_000,
        ..Counts::default()
    };
    run.warnings = vec![Warning::CpuSaturated {
        end: End::Remote,
        busy_percent: 99.5,
    }];
    run
}

fn datagrams() -> Outcome {
    let mut run = outcome("UDP_STREAM", Transport::Udp, Workload::send());
    run.plan.flow_mut().unwrap().local.send.size = SizeRule::Bytes(1472);
    run.local.counts = Counts {
        sent: Bytes(1_472_000_000),
        send_calls: 1_000_000,
        ..Counts::default()
    };
    run.remote.as_mut().unwrap().counts = Counts {
        received: Bytes(1_324_800_000),
        receive_calls: 900_000,
        received_late: Bytes(14_720),
        receive_calls_late: 10,
        ..Counts::default()
    };
    run.warnings = vec![Warning::LateDatagrams { datagrams: 10 }];
    run
}

fn request_response() -> Outcome {
    let mut run = outcome("TCP_RR", Transport::Tcp, Workload::request());
    let mut latency = Histogram::default();
    (1..=1_000).for_each(|micros| latency.record(micros * 1_000));
    run.local.latency = Some(latency);
    run.local.counts = Counts {
        sent: Bytes(100_000),
        received: Bytes(100_000),
        send_calls: 100_000,
        receive_calls: 100_000,
        transactions: 100_000,
        ..Counts::default()
    };
    run.local.clock = Some(ClockFacts {
        cost_ns: 26.5,
        resolution_ns: 1,
    });
    run.local.interface = Some(Interface {
        name: "eth0".to_owned(),
        driver: Some("example".to_owned()),
        traffic: Some(Traffic {
            received_packets: 100_005,
            received_bytes: 6_700_335,
            sent_packets: 100_004,
            sent_bytes: 6_700_268,
        }),
        ..Interface::default()
    });
    run.local.socket.retransmits = Some(0);
    run
}

fn outcome(name: &str, transport: Transport, workload: Workload) -> Outcome {
    let host = |kernel: &str, boot_id: &str| HostFacts {
        kernel: Some(kernel.to_owned()),
        kernel_version: Some("#1 SMP".to_owned()),
        machine: Some("x86_64".to_owned()),
        cpus: Some(2),
        cpu_model: Some("Example 9000".to_owned()),
        mtu_bytes: Some(1500),
        congestion_control: Some("cubic".to_owned()),
        virtual_guest: Some(false),
        cpu_mhz: Some(2600),
        system_model: Some("Example Server".to_owned()),
        security: None,
        boot_id: Some(boot_id.to_owned()),
    };
    let cpu = CpuUse {
        busy_percent: 50.0,
        user_percent: 10.0,
        system_percent: 30.0,
        iowait_percent: 0.0,
        irq_percent: 2.0,
        softirq_percent: 8.0,
        steal_percent: Some(0.0),
        cpus: 2,
        peak: Some((1, 75.0)),
        method: CpuMethod::ProcStat,
        busy_percent_per_cpu: Vec::new(),
    };
    let side = |kernel, boot_id| Side {
        elapsed: Some(Duration::from_secs(2)),
        cpu: Some(cpu.clone()),
        host: Some(host(kernel, boot_id)),
        program: Some("linerate 0.1.0".to_owned()),
        ..Side::default()
    };
    let (local, remote) = (side("Linux 6.1.0", "01"), side("Linux 6.12.0", "02"));
    Outcome::for_flow(
        plan(name, transport, workload),
        started(),
        local,
        Some(remote),
        EndCause::Deadline,
    )
}

fn plan(name: &str, transport: Transport, workload: Workload) -> Plan {
    let flow = FlowPlan {
        limit: Limit::Time(Duration::from_secs(2)),
        ..FlowPlan::new(transport, workload)
    };
    Plan {
        name: name.to_owned(),
        groups: vec![Group::with_flows(1, flow)],
        ..Plan::default()
    }
}

fn started() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123)
}

fn assert_matches_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(
        text,
        std::fs::read_to_string(&path).unwrap_or_default(),
        "{}",
        path.display()
    );
}
