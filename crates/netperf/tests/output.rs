//! Compares the output for recorded figures with the text that stock printed.
//!
//! Each file under `tests/output/` holds cases: a line `# netperf …` with stock's command line, a
//! line `> name=value …` with the figures of that run, then its text, each line after a `|`. The
//! texts were recorded from Debian's netperf 2.7.0 on the loopback interface. The figures were
//! derived from the texts, and are only as exact as the texts require. A comment above a case
//! describes manual changes of its text.

#[path = "output/sample.rs"]
mod sample;

use std::time::Duration;

use model::{
    ClockFacts, CpuMethod, CpuUse, HostFacts, Interface, PciIds, Security, SecurityModule, Side,
    SocketFacts, Traffic,
};
use netperf::FinishedTest;
use netperf::options::{OutputForm, Selection, Settings, Test, TestFamily, ThroughputUnit};
use netperf::output::{self};
use netperf::selector::Selector;
use stats::Histogram;
use units::Bytes;

use sample::{build_case, cpu, default_case, histogram, selection};

#[test]
fn tcp_stream() {
    check(include_str!("output/tcp_stream.txt"), 25);
}

#[test]
fn tcp_maerts() {
    check(include_str!("output/tcp_maerts.txt"), 15);
}

#[test]
fn tcp_sendfile() {
    check(include_str!("output/tcp_sendfile.txt"), 15);
}

#[test]
fn tcp_rr() {
    check(include_str!("output/tcp_rr.txt"), 20);
}

#[test]
fn udp_rr() {
    check(include_str!("output/udp_rr.txt"), 15);
}

#[test]
fn tcp_crr() {
    check(include_str!("output/tcp_crr.txt"), 10);
}

#[test]
fn tcp_cc() {
    check(include_str!("output/tcp_cc.txt"), 10);
}

#[test]
fn udp_stream() {
    check(include_str!("output/udp_stream.txt"), 15);
}

#[test]
fn tcp_mss() {
    check(include_str!("output/tcp_mss.txt"), 7);
}

#[test]
fn unix_domain() {
    check(include_str!("output/unix.txt"), 11);
}

#[test]
fn banners() {
    check(include_str!("output/banners.txt"), 17);
}

#[test]
fn selections() {
    check(include_str!("output/selections.txt"), 30);
}

#[test]
fn histograms() {
    check(include_str!("output/histograms.txt"), 12);
}

#[test]
fn confidence() {
    check(include_str!("output/confidence.txt"), 6);
}

#[test]
fn lists_the_selectors_of_stock_and_linerate() {
    let stock: Vec<_> = include_str!("output/selectors.txt").lines().collect();
    let human = output::selector_list(&OutputForm::Human(Selection::List));
    let mut names: Vec<_> = human.lines().collect();
    let csv = names.join(",") + "\n";
    assert_eq!(
        output::selector_list(&OutputForm::Csv(Selection::List)),
        csv
    );
    assert_eq!(
        output::selector_list(&OutputForm::KeyVal(Selection::List)),
        csv
    );
    // linerate's selectors come before stock's last one.
    let ours: Vec<_> = names.drain(stock.len() - 1..names.len() - 1).collect();
    assert_eq!(names, stock);
    assert!(ours.contains(&"P99.9_LATENCY"), "{ours:?}");
}

/// Prints facts of both hosts that stock does not print. A linerate peer reports them, a stock peer
/// does not.
#[test]
fn facts() {
    let (mut settings, mut run) = default_case(Test::TcpRr);
    let all: Vec<Selector> = include_str!("output/facts.txt")
        .lines()
        .filter_map(|line| Selector::by_name(line.split_once('=')?.0))
        .collect();
    settings.print.form = OutputForm::KeyVal(Selection::Blocks(vec![all]));
    settings.print.headers = false;
    run.outcome.local = Side {
        host: Some(host("host")),
        interface: Some(interface("eth0")),
        clock: Some(ClockFacts {
            cost_ns: 26.54,
            resolution_ns: 10,
        }),
        latency: Some(histogram("1,2,3,4,1000")),
        ..run.outcome.local
    };
    run.outcome.local.counts.transactions = 10;
    run.outcome.local.socket = SocketFacts {
        cork: Some(true),
        no_delay: Some(true),
        priority: Some(0),
        type_of_service: Some(0xb8),
        ..SocketFacts::default()
    };
    let mut remote = run.outcome.local.clone();
    remote.host = Some(host("peer\nTHROUGHPUT=1\u{1b}[2J"));
    remote.interface = Some(Interface {
        name: "lo".to_owned(),
        ..Interface::default()
    });
    remote.socket.cork = Some(false);
    run.outcome.remote = Some(remote);
    let expected = include_str!("output/facts.txt");
    let printed = output::format_result(&settings, &run);
    assert_eq!(
        printed,
        expected.trim_end().split("\n\n").next().unwrap().to_owned() + "\n"
    );

    // A stock peer does not report them.
    run.outcome.remote = None;
    run.peer.response.priority = -1;
    run.peer.response.type_of_service = -1;
    for line in output::format_result(&settings, &run).lines() {
        let Some((name, value)) = line.split_once('=') else {
            panic!("{line}");
        };
        if name.starts_with("REMOTE_") {
            let stock = ["Deprecated", "0", "-1", "0xfffffffe", "0xffffffff"];
            assert!(stock.contains(&value), "{line}");
        }
    }

    // In the CSV form, a comma in a value must not start another column.
    let OutputForm::KeyVal(selection) = settings.print.form.clone() else {
        unreachable!()
    };
    let columns = include_str!("output/facts.txt").lines().count();
    settings.print.form = OutputForm::Csv(selection);
    assert_eq!(
        output::format_result(&settings, &run).split(',').count(),
        columns
    );
}

fn host(name: &str) -> HostFacts {
    HostFacts {
        kernel: Some("Linux 6.12.0-1".to_owned()),
        kernel_version: Some("#1 SMP".to_owned()),
        machine: Some("riscv64".to_owned()),
        cpus: Some(4),
        cpu_model: Some(format!("{name}'s, the best")),
        cpu_mhz: Some(1200),
        system_model: None,
        security: Some(Security {
            module: Some(SecurityModule::AppArmor),
            enforcing: Some(true),
            policy: Some("unconfined".to_owned()),
        }),
        ..HostFacts::default()
    }
}

fn interface(name: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        driver: Some("virtio_net".to_owned()),
        driver_version: Some("1.0.0".to_owned()),
        firmware: None,
        bus: Some("0000:00:03.0".to_owned()),
        slot: Some("3".to_owned()),
        pci: Some(PciIds {
            vendor: 0x1af4,
            device: 0x1041,
            subvendor: 0x1af4,
            subdevice: 0x40,
        }),
        traffic: Some(Traffic {
            received_packets: 11,
            received_bytes: 700,
            sent_packets: 12,
            sent_bytes: 800,
        }),
    }
}

#[test]
fn calibrations_and_uuid() {
    for (verbosity, cpus, local, remote) in [
        (1, 2, "100", "100"),
        (
            2,
            2,
            "100\nThere are 2 local cpus\n",
            "100\nThere are 2 remote cpus\n",
        ),
        (
            2,
            1,
            "100\nThere is 1 local cpu\n",
            "100\nThere is 1 remote cpu\n",
        ),
    ] {
        let (mut settings, _) = default_case(Test::LocCpu);
        settings.print.verbosity = verbosity;
        assert_eq!(
            output::format_calibration(&settings, "local", 100.0, cpus),
            local
        );
        assert_eq!(
            output::format_calibration(&settings, "remote", 100.0, cpus),
            remote
        );
    }
    let (mut settings, _) = default_case(Test::Uuid);
    "1a9cbbb8-e529-11f1-8fe3-f5cda1e8ce1a".clone_into(&mut settings.print.uuid);
    assert_eq!(
        output::format_uuid(&settings),
        "1a9cbbb8-e529-11f1-8fe3-f5cda1e8ce1a"
    );
}

/// A failed run or a hostile peer may have any figures.
#[test]
fn prints_extreme_figures_as_numbers() {
    let floats = [
        0.0,
        -0.0,
        -1.0,
        1e300,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NAN,
    ];
    let counts = [0, 1, u64::MAX];
    let elapsed = [
        None,
        Some(Duration::ZERO),
        Some(Duration::from_nanos(1)),
        Some(Duration::MAX),
    ];
    for &(test, _) in Test::ALL {
        for (float, count, elapsed) in floats
            .iter()
            .flat_map(|float| counts.iter().map(move |count| (float, count)))
            .flat_map(|(float, count)| {
                elapsed
                    .iter()
                    .map(move |elapsed| (*float, *count, *elapsed))
            })
        {
            for (settings, run) in extreme_runs(test, float, count, elapsed) {
                let text = output::format_result(&settings, &run);
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}

/// Returns a run with the same extreme figures everywhere, for each output form.
fn extreme_runs(
    test: Test,
    float: f64,
    count: u64,
    elapsed: Option<Duration>,
) -> Vec<(Settings, FinishedTest)> {
    let (mut settings, mut run) = default_case(test);
    let cpu = CpuUse {
        busy_percent: float,
        user_percent: float,
        cpus: count as u32,
        peak: Some((count as u32, float)),
        method: CpuMethod::Peer(count as u32),
        ..cpu("0")
    };
    let local = &mut run.outcome.local;
    local.elapsed = elapsed;
    local.counts.sent = Bytes(count);
    local.counts.received = Bytes(count);
    local.counts.send_calls = count;
    local.counts.transactions = count;
    local.cpu = Some(cpu.clone());
    local.latency = Some(Histogram::default());
    local.latency.as_mut().unwrap().record(count);
    run.peer.cpu = Some(cpu);
    run.peer.counts.received = Bytes(count);
    run.peer.counts.sent = Bytes(count);
    run.peer.counts.receive_calls = count;
    run.peer.response.send_size = i32::MIN;
    settings.flow.burst = count as u32;
    let mut runs = Vec::new();
    for (form, verbosity) in [
        (OutputForm::Table, 0),
        (OutputForm::Table, 1),
        (OutputForm::Table, 3),
        (OutputForm::Human(selection("all")), 2),
        (OutputForm::Csv(selection("all")), 2),
        (
            OutputForm::KeyVal(selection("THROUGHPUT;OUTPUT_END;")),
            i32::MAX,
        ),
        (
            OutputForm::Human(selection("P0_LATENCY,P100_LATENCY")),
            i32::MIN,
        ),
        (OutputForm::Csv(Selection::Blocks(Vec::new())), 2),
    ] {
        // The other families have their own messages, and print only tables.
        if test.family() != TestFamily::Inet && form != OutputForm::Table {
            continue;
        }
        for unit in ['m', 'u', 'x'] {
            settings.print.form = form.clone();
            settings.print.verbosity = verbosity;
            settings.print.unit = ThroughputUnit(unit);
            settings.flow.local.measure_cpu = unit == 'u';
            runs.push((settings.clone(), run.clone()));
        }
    }
    runs
}

/// Checks latencies with and without fractions of a microsecond, of few and of many times.
#[test]
fn printed_latencies_are_within_the_extremes() {
    const SELECTORS: &str = "MIN_LATENCY,P0_LATENCY,P0.1_LATENCY,P10_LATENCY,P50_LATENCY,P50.0_LATENCY,\
        P90_LATENCY,P90.0_LATENCY,P99_LATENCY,P99.9_LATENCY,P99.999_LATENCY,P100_LATENCY,\
        MEAN_LATENCY,MAX_LATENCY";
    let (mut settings, mut run) = default_case(Test::TcpRr);
    settings.print.form = OutputForm::KeyVal(selection(SELECTORS));
    settings.print.headers = false;
    let mut random = 1_u64;
    for count in (1..40).chain([1_000, 100_000]) {
        let mut times = Histogram::default();
        for _ in 0..count {
            // Knuth's multiplier. Most times are from 4 µs to 4.8 µs, a few up to 1 s.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (bits, is_long) = (random >> 33, random >> 60 == 0);
            times.record(if is_long {
                bits % 1_000_000_000
            } else {
                4_000 + bits % 800
            });
        }
        run.outcome.local.latency = Some(times);
        let text = output::format_result(&settings, &run);
        let figures: Vec<(&str, f64)> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect();
        let figure = |wanted| figures.iter().find(|(name, _)| *name == wanted).unwrap().1;
        let (min, max) = (figure("MIN_LATENCY"), figure("MAX_LATENCY"));
        assert_eq!(figures.len(), SELECTORS.split(',').count());
        for (name, value) in &figures {
            assert!((min..=max).contains(value), "{name} of {count}: {text}");
        }
    }
}

/// Compares every case of a file, which has at least `min_cases`.
fn check(file: &str, min_cases: usize) {
    let cases: Vec<_> = file.split("# netperf ").skip(1).collect();
    assert!(cases.len() >= min_cases, "{} cases", cases.len());
    let mut mismatches = Vec::new();
    for case in cases {
        let (figures, expected) = parse_case(case);
        let (settings, run) = build_case(&figures);
        let banner = output::format_banner(&settings, &run.endpoints).unwrap_or_default();
        let text = banner + &output::format_result(&settings, &run);
        if text != expected {
            let title = case.lines().next().unwrap_or("");
            mismatches.push(format!("netperf {title}\n{text}instead of\n{expected}"));
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

/// Returns the figures and the expected text of a case.
fn parse_case(case: &str) -> (Vec<(&str, &str)>, String) {
    let figures = case
        .lines()
        .filter_map(|line| line.strip_prefix("> "))
        .flat_map(|line| {
            line.split_once("command_line=")
                .map_or(line, |(before, _)| before)
                .split(' ')
        })
        .filter_map(|figure| figure.split_once('='));
    let command_line = case
        .lines()
        .filter_map(|line| Some(("command_line", line.strip_prefix("> command_line=")?)));
    let text = case
        .lines()
        .filter_map(|line| Some(line.strip_prefix('|')?.to_owned() + "\n"));
    (figures.chain(command_line).collect(), text.collect())
}
