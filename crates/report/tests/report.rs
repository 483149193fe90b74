//! The text and the JSON of one sample report, against files: after a wanted change `BLESS=1 cargo
//! test -p report` writes them anew.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

use model::{
    ClockFacts, Counts, CpuMethod, CpuUse, End, Ended, FlowPlan, Group, HostFacts, Interface,
    Limit, Outcome, Plan, Sample, Series, Side, SizeRule, Traffic, Transport, Warning, Workload,
};
use report::{Figures, Pace, Peer, Report, Tested};
use stats::Histogram;
use stats::confidence::{Goal, Level};
use units::{BitRate, Bytes};

#[test]
fn text() {
    matches_snapshot("report.txt", &report::text(&sample(), 80));
}

#[test]
fn json() {
    let text = report::json(&sample());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], report::SCHEMA);
    assert_eq!(document["error"], "the server refused");
    matches_snapshot("report.json", &text);
}

#[test]
fn the_command_line_can_be_typed_again() {
    let words = ["uperf", "-m", "a b.xml", "--html=x.html", "it's", ""].map(OsString::from);
    let expected = r"uperf -m 'a b.xml' --html=x.html 'it'\''s' ''";
    assert_eq!(report::typed(words), expected);
}

/// Columns are left out rather than broken, those that matter least first.
#[test]
fn the_table_fits_the_terminal() {
    for (columns, names, missing) in [
        (
            40,
            "rate loss",
            "No room for: latency p50, latency p90, latency p99, latency max, CPU %, service demand;",
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
        let head = text
            .lines()
            .find(|line| line.trim_start().starts_with("rate"));
        let head: Vec<&str> = head.unwrap().split_whitespace().collect();
        assert_eq!(head.join(" "), names, "{columns}: {text}");
        let says = text.contains("No room for: ");
        assert_eq!(says, columns < 120, "{columns}: {text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(missing), "{text}");
    }
}

/// Six tests that fail of one thing are one line.
#[test]
fn a_reason_is_printed_once() {
    let mut report = sample();
    let failed = |name: &str| Tested {
        error: Some("the server refused".to_owned()),
        ..Tested::of(plan(name, Transport::Tcp, Workload::ask()))
    };
    report.tests.push(failed("TCP_CC"));
    report.not_run = vec!["UDP_RR".to_owned()];
    let text = report::text(&report, 80);
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    let expected = [
        "not run: UDP_RR",
        "TCP_CRR, TCP_CC failed: the server refused",
    ];
    assert_eq!(last, expected, "{text}");
}

/// With a goal there is one central figure, the mean that the interval is of.
#[test]
fn a_confident_figure_is_one_figure() {
    let text = report::text(&sample(), 120);
    // 47,839.5 and 50,000 transactions a second.
    let line = |word: &str| text.lines().find(|line| line.contains(word)).unwrap();
    assert!(line("TCP_RR ").contains("48,920 tran/s"), "{text}");
    assert!(line("± ").trim_start().starts_with("± 28.1 %"), "{text}");
    assert!(
        !text.contains("47,84") && !text.contains("50,000"),
        "{text}"
    );
    assert!(text.contains("Each rate is the mean of all runs"), "{text}");
}

#[test]
fn two_rates_are_two_rates() {
    let rows = |tested: Tested| {
        let mut report = sample();
        report.tests = vec![tested];
        report::text(&report, 80)
    };
    let mut run = request_response();
    // 60,000 for 0.8 s, and then 40,000.
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
    let levels = Figures::of(&run).levels.unwrap();
    assert!((levels.low_share - 0.6).abs() < 1e-9, "{levels:?}");
    let tested = |runs: Vec<Outcome>| Tested {
        runs,
        ..Tested::of(request_response().plan)
    };
    let text = rows(tested(vec![run]));
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
        run.here.counts.transactions = 2 * rate;
        run
    });
    let mut several = tested(runs.to_vec());
    several.goal = Some(GOAL);
    let text = rows(several);
    assert!(text.contains("3× 100") && text.contains("3× 201"), "{text}");
}

#[test]
fn loss_says_where() {
    let cell = |dropped, lost: u64, late| {
        let mut run = datagrams();
        let there = run.there.as_mut().unwrap();
        there.socket.dropped = dropped;
        there.counts.receive_calls = 1_000_000 - lost;
        there.counts.receive_calls_late = late;
        let mut report = sample();
        report.tests = vec![Tested {
            runs: vec![run],
            ..Tested::of(datagrams().plan)
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
        (Some(0), 0, 0, &["0 % lost"], None),
    ] {
        let text = cell(dropped, lost, late);
        for cell in shown {
            assert!(text.contains(cell), "{cell}: {text}");
        }
        for other in ["% path", "% socket", "% lost"] {
            let is_shown = shown.iter().any(|cell| cell.ends_with(other));
            assert_eq!(text.contains(other), is_shown, "{other}: {text}");
        }
        if let Some(note) = note {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(note), "{note}: {text}");
        }
    }
    assert!(cell(Some(0), 10, 10).contains("10 late"));
}

#[test]
fn flows_are_added_up() {
    let mut first = request_response();
    let mut second = request_response();
    first.here.socket.retransmits = Some(1);
    second.here.socket.retransmits = Some(2);
    second.here.elapsed = Some(Duration::from_secs(4));
    second.here.cpu = None;
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
    assert_eq!(sum.here.counts.transactions, 200_000);
    assert_eq!(sum.here.latency.as_ref().unwrap().len(), 2_000);
    // From the first one's beginning to the last one's end.
    assert_eq!(sum.here.elapsed, Some(Duration::from_millis(4500)));
    assert_eq!(sum.start_spread(), Some(later));
    let rates: Vec<_> = sum
        .flows
        .iter()
        .map(model::FlowShare::transactions_per_second)
        .collect();
    assert_eq!(rates, [Some(50_000.0), Some(25_000.0)]);
    assert_eq!(sum.here.cpu, first.here.cpu);
    assert_eq!(sum.here.socket.retransmits, Some(3));
    // One of the three is the flow's own neighbour.
    assert_eq!(
        sum.warnings,
        [
            Warning::PeerShared { tests: 2 },
            Warning::LateDatagrams { datagrams: 7 }
        ]
    );
    assert_eq!(Figures::of(&sum).transactions_per_s, Some(200_000.0 / 4.5));
    assert!(Outcome::sum(Vec::new()).is_none());
}

#[test]
fn figures_of_datagrams() {
    let figures = Figures::of(&datagrams());
    // 900,000 datagrams of 1472 bytes in 2 s, of 1,000,000 that were sent.
    assert_eq!(figures.throughput_bps, Some(BitRate(5.299_2e9)));
    assert_eq!(figures.offered_bps, Some(BitRate(5.888e9)));
    let datagrams = figures.datagrams.unwrap();
    assert_eq!(
        (datagrams.received, datagrams.received_late, datagrams.lost),
        (900_000, Some(10), 99_990)
    );
    // 2 CPUs, half busy for 2 s, over 1472 MB.
    let (here, there) = figures.service_demand.both();
    assert!((here.unwrap() - 2e6 / 1_437_500.0).abs() < 1e-9, "{here:?}");
    assert!(there.is_some());
}

#[test]
fn a_peer_may_count_as_much_as_it_likes() {
    const MOST: u64 = u64::MAX;
    for mut run in [stream(), datagrams(), request_response()] {
        let there = run.there.as_mut().unwrap();
        there.counts = Counts {
            sent: Bytes(MOST),
            received: Bytes(MOST),
            received_late: Bytes(MOST),
            receive_calls_late: MOST,
            send_calls: MOST,
            receive_calls: MOST,
            send_batches: MOST,
            receive_batches: MOST,
            failed_sends: MOST,
            transactions: MOST,
            operations: MOST,
            failed_operations: MOST,
        };
        there.cpu.clone_from(&run.here.cpu);
        run.warnings = run.doubts();
        let mut both_ways = run.clone();
        let back = Group::of_flows(1, run.plan.flow().unwrap().clone().mirrored());
        both_ways.plan.groups.push(back);
        let report = Report {
            tests: vec![Tested::of_run(run), Tested::of_run(both_ways)],
            ..sample()
        };
        assert!(report::json(&report).contains("18446744073709551615"));
        assert!(!report::text(&report, 80).is_empty());
        assert!(!report::html(&report).is_empty());
    }
}

#[test]
fn what_was_not_told_has_no_figure() {
    let mut run = datagrams();
    run.there = None;
    run.here.cpu = None;
    let figures = Figures::of(&run);
    assert_eq!((figures.throughput_bps, figures.datagrams), (None, None));
    assert_eq!(figures.service_demand.both(), (None, None));
    run.here.elapsed = Some(Duration::ZERO);
    assert_eq!(Figures::of(&run).rate(), None);
}

#[test]
fn the_median_of_an_even_number_is_the_lower_middle() {
    for (rates, median, spread) in [
        (&[][..], None, None),
        (&[7][..], Some(0), None),
        (&[3, 1][..], Some(1), Some((1.0, 3.0))),
        (&[5, 1, 3][..], Some(2), Some((1.0, 5.0))),
        (&[4, 1, 3, 2][..], Some(3), Some((1.0, 4.0))),
    ] {
        let runs = rates.iter().map(|&rate| {
            let mut run = request_response();
            run.here.counts.transactions = 2 * rate;
            run
        });
        let tested = Tested {
            runs: runs.collect(),
            ..Tested::of(plan("TCP_RR", Transport::Tcp, Workload::ask()))
        };
        assert_eq!(
            (tested.median(), tested.spread()),
            (median, spread),
            "{rates:?}"
        );
    }
}

/// Reached by the sample's two runs of 50,000 and 48,000 transactions a second.
const GOAL: Goal = Goal {
    level: Level::P95,
    width: 0.8,
    min: 2,
    max: 10,
};

#[test]
fn runs_are_enough_when_their_mean_is_known() {
    let tested = |rates: &[u64], width: f64| {
        let runs = rates.iter().map(|&rate| {
            let mut run = request_response();
            run.here.counts.transactions = 2 * rate;
            run
        });
        Tested {
            goal: Some(Goal { width, ..GOAL }),
            runs: runs.collect(),
            ..Tested::of(plan("TCP_RR", Transport::Tcp, Workload::ask()))
        }
    };
    for (rates, width, half, reached, more) in [
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
        let tested = tested(rates, width);
        let found = tested.confidence();
        let width = found.and_then(|found| found.throughput_width_percent);
        match (width, half) {
            (Some(width), Some(half)) => assert!((width / 2.0 - half).abs() < 0.01, "{width}"),
            (width, half) => assert_eq!(width, half, "{rates:?}"),
        }
        assert_eq!(
            found.is_some_and(|found| found.reached),
            reached,
            "{rates:?}"
        );
        assert_eq!(tested.wants_more(), more, "{rates:?}");
    }
    let kinds = |rates: &[u64]| -> Vec<&str> {
        tested(rates, 0.1)
            .doubts()
            .iter()
            .map(Warning::kind)
            .collect()
    };
    assert_eq!(kinds(&[]), [""; 0]);
    assert_eq!(kinds(&[100; 3]), ["few_iterations"]);
    assert_eq!(
        kinds(&[100, 101, 100, 201, 200, 201]),
        ["interval_not_reached", "bimodal"]
    );
}

fn sample() -> Report {
    let mut slower = request_response();
    slower.here.counts.transactions -= 4_321;
    let tested = |runs: Vec<Outcome>| Tested {
        goal: (runs.len() > 1).then_some(GOAL),
        pace: runs[0]
            .plan
            .flow()
            .unwrap()
            .transport
            .has_datagrams()
            .then(|| Pace {
                rate: BitRate(5.888e9),
                of: Some("TCP_STREAM".to_owned()),
            }),
        ..Tested::of(runs[0].plan.clone())
    };
    let tested = |runs: Vec<Outcome>| Tested {
        runs: runs.clone(),
        ..tested(runs)
    };
    let failed = Tested {
        error: Some("the server refused".to_owned()),
        ..Tested::of(plan("TCP_CRR", Transport::Tcp, Workload::connect_and_ask()))
    };
    let peer = Peer {
        kind: Some("linerate"),
        ..Peer::of("192.0.2.1", 12865)
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
        ..Report::of(peer, started())
    }
}

fn stream() -> Outcome {
    let mut run = outcome("TCP_STREAM", Transport::Tcp, Workload::send());
    run.here.counts = Counts {
        sent: Bytes(2_345_678_900),
        send_calls: 143_169,
        ..Counts::default()
    };
    run.here.socket.retransmits = Some(1_234);
    let there = run.there.as_mut().unwrap();
    there.counts = Counts {
        received: Bytes(2_345_678_900),
        receive_calls: 160_000,
        ..Counts::default()
    };
    run.warnings = vec![Warning::CpuSaturated {
        end: End::There,
        busy_percent: 99.5,
    }];
    run
}

fn datagrams() -> Outcome {
    let mut run = outcome("UDP_STREAM", Transport::Udp, Workload::send());
    run.plan.flow_mut().unwrap().here.send.size = SizeRule::Bytes(1472);
    run.here.counts = Counts {
        sent: Bytes(1_472_000_000),
        send_calls: 1_000_000,
        ..Counts::default()
    };
    run.there.as_mut().unwrap().counts = Counts {
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
    let mut run = outcome("TCP_RR", Transport::Tcp, Workload::ask());
    let mut latency = Histogram::default();
    (1..=1_000).for_each(|micros| latency.record(micros * 1_000));
    run.here.latency = Some(latency);
    run.here.counts = Counts {
        sent: Bytes(100_000),
        received: Bytes(100_000),
        send_calls: 100_000,
        receive_calls: 100_000,
        transactions: 100_000,
        ..Counts::default()
    };
    run.here.clock = Some(ClockFacts {
        cost_ns: 26.5,
        resolution_ns: 1,
    });
    run.here.interface = Some(Interface {
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
    run.here.socket.retransmits = Some(0);
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
        each: Vec::new(),
    };
    let side = |kernel, boot_id| Side {
        elapsed: Some(Duration::from_secs(2)),
        cpu: Some(cpu.clone()),
        host: Some(host(kernel, boot_id)),
        program: Some("linerate 0.1.0".to_owned()),
        ..Side::default()
    };
    let (here, there) = (side("Linux 6.1.0", "01"), side("Linux 6.12.0", "02"));
    Outcome::of_flow(
        plan(name, transport, workload),
        started(),
        here,
        Some(there),
        Ended::Deadline,
    )
}

fn plan(name: &str, transport: Transport, workload: Workload) -> Plan {
    let flow = FlowPlan {
        limit: Limit::Time(Duration::from_secs(2)),
        ..FlowPlan::of(transport, workload)
    };
    Plan {
        name: name.to_owned(),
        groups: vec![Group::of_flows(1, flow)],
        ..Plan::default()
    }
}

fn started() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123)
}

fn matches_snapshot(name: &str, text: &str) {
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
