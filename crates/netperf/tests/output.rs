//! What the stock tool printed, and the same figures printed by us.
//!
//! Each file under `tests/output/` holds cases: a line `# netperf …` with the stock tool's command
//! line, a line `> name=value …` with the figures of that run, then its text, each line after a
//! `|`. The texts were recorded from Debian's netperf 2.7.0 on the loopback interface. The figures
//! were read off them and are as exact as what is printed needs. Where a text was changed by hand
//! the comment above the case says so.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{
    ClockFacts, Confidence, CpuMethod, CpuUse, Ended, Half, HostFacts, Interface, Limit, Outcome,
    PciIds, Phases, Plan, Security, SecurityModule, Side, SizeRule, SocketFacts, Timing, Traffic,
    Transport, Workload,
};
use netperf::client::{Endpoints, Repeated, TestRun, Told};
use netperf::options::{
    ConnectionPorts, Control, CpuRates, Data, Direction, Family, Form, Print, Repeat, Selection,
    Settings, Special, Test, TestFamily, Unit,
};
use netperf::output::{self, Headline};
use netperf::selector::{Needs, Selector, Stock};
use stats::Histogram;
use stats::confidence::{Goal, Level};
use units::Bytes;

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
fn the_list_of_selectors() {
    let stock: Vec<_> = include_str!("output/selectors.txt").lines().collect();
    let human = output::selector_list(&Form::Human(Selection::List));
    let mut names: Vec<_> = human.lines().collect();
    let csv = names.join(",") + "\n";
    assert_eq!(output::selector_list(&Form::Csv(Selection::List)), csv);
    assert_eq!(output::selector_list(&Form::KeyVal(Selection::List)), csv);
    // Ours stand before the last.
    let ours: Vec<_> = names.drain(stock.len() - 1..names.len() - 1).collect();
    assert_eq!(names, stock);
    assert!(ours.contains(&"P99.9_LATENCY"), "{ours:?}");
}

/// What no stock tool prints, of both ends, of a peer that tells and one that does not.
#[test]
fn facts() {
    let (mut settings, mut run) = base(Test::TcpRr);
    let all: Vec<Selector> = include_str!("output/facts.txt")
        .lines()
        .filter_map(|line| Selector::by_name(line.split_once('=')?.0))
        .collect();
    settings.print.form = Form::KeyVal(Selection::Blocks(vec![all]));
    settings.print.headers = false;
    run.outcome.here = Side {
        host: Some(host("host")),
        interface: Some(interface("eth0")),
        clock: Some(ClockFacts {
            cost_ns: 26.54,
            resolution_ns: 10,
        }),
        latency: Some(histogram("1,2,3,4,1000")),
        ..run.outcome.here
    };
    run.outcome.here.counts.transactions = 10;
    run.outcome.here.socket = SocketFacts {
        cork: Some(true),
        no_delay: Some(true),
        priority: Some(0),
        type_of_service: Some(0xb8),
        ..SocketFacts::default()
    };
    let mut there = run.outcome.here.clone();
    there.host = Some(host("peer\nTHROUGHPUT=1\u{1b}[2J"));
    there.interface = Some(Interface {
        name: "lo".to_owned(),
        ..Interface::default()
    });
    there.socket.cork = Some(false);
    run.outcome.there = Some(there);
    let told = include_str!("output/facts.txt");
    let printed = output::result(&settings, &run);
    assert_eq!(
        printed,
        told.trim_end().split("\n\n").next().unwrap().to_owned() + "\n"
    );

    // A stock peer.
    run.outcome.there = None;
    run.told.priority = -1;
    run.told.type_of_service = -1;
    for line in output::result(&settings, &run).lines() {
        let Some((name, value)) = line.split_once('=') else {
            panic!("{line}");
        };
        if name.starts_with("REMOTE_") {
            let stock = ["Deprecated", "0", "-1", "0xfffffffe", "0xffffffff"];
            assert!(stock.contains(&value), "{line}");
        }
    }

    // In the CSV form a comma begins another column.
    let Form::KeyVal(selection) = settings.print.form.clone() else {
        unreachable!()
    };
    let columns = include_str!("output/facts.txt").lines().count();
    settings.print.form = Form::Csv(selection);
    assert_eq!(output::result(&settings, &run).split(',').count(), columns);
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
        let (mut settings, _) = base(Test::LocCpu);
        settings.print.verbosity = verbosity;
        assert_eq!(output::local_cpu(&settings, 100.0, cpus), local);
        assert_eq!(output::remote_cpu(&settings, 100.0, cpus), remote);
    }
    let (mut settings, _) = base(Test::Uuid);
    "1a9cbbb8-e529-11f1-8fe3-f5cda1e8ce1a".clone_into(&mut settings.print.uuid);
    assert_eq!(
        output::uuid(&settings),
        "1a9cbbb8-e529-11f1-8fe3-f5cda1e8ce1a"
    );
}

/// Figures of a run that failed, or of a peer that lies, are printed like any others.
#[test]
fn no_figure_is_too_odd_to_print() {
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
    for (test, _) in Test::ALL {
        for (float, count, elapsed) in floats
            .iter()
            .flat_map(|float| counts.iter().map(move |count| (float, count)))
            .flat_map(|(float, count)| {
                elapsed
                    .iter()
                    .map(move |elapsed| (*float, *count, *elapsed))
            })
        {
            for (settings, run) in odd_runs(test, float, count, elapsed) {
                let text = output::result(&settings, &run);
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}

/// One run with the same odd figures everywhere, in all forms.
fn odd_runs(
    test: Test,
    float: f64,
    count: u64,
    elapsed: Option<Duration>,
) -> Vec<(Settings, TestRun)> {
    let (mut settings, mut run) = base(test);
    let cpu = CpuUse {
        busy_percent: float,
        user_percent: float,
        cpus: count as u32,
        peak: Some((count as u32, float)),
        method: CpuMethod::Peer(count as u32),
        ..cpu("0")
    };
    let here = &mut run.outcome.here;
    here.elapsed = elapsed;
    here.counts.sent = Bytes(count);
    here.counts.received = Bytes(count);
    here.counts.send_calls = count;
    here.counts.transactions = count;
    here.cpu = Some(cpu.clone());
    here.latency = Some(Histogram::default());
    here.latency.as_mut().unwrap().record(count);
    run.told.cpu = Some(cpu);
    run.told.bytes_received = count;
    run.told.bytes_sent = count;
    run.told.receive_calls = count;
    run.told.send_size = i32::MIN;
    settings.plan.burst = count as u32;
    let mut runs = Vec::new();
    for (form, verbosity) in [
        (Form::Table, 0),
        (Form::Table, 1),
        (Form::Table, 3),
        (Form::Human(selection("all")), 2),
        (Form::Csv(selection("all")), 2),
        (Form::KeyVal(selection("THROUGHPUT;OUTPUT_END;")), i32::MAX),
        (Form::Human(selection("P0_LATENCY,P100_LATENCY")), i32::MIN),
        (Form::Csv(Selection::Blocks(Vec::new())), 2),
    ] {
        // The families with messages of their own have tables alone.
        if test.family() != TestFamily::Inet && form != Form::Table {
            continue;
        }
        for unit in ['m', 'u', 'x'] {
            settings.print.form = form.clone();
            settings.print.verbosity = verbosity;
            settings.print.unit = Unit(unit);
            settings.plan.here.measure_cpu = unit == 'u';
            runs.push((settings.clone(), run.clone()));
        }
    }
    runs
}

/// Compares every case of a file, of which there are at least so many.
fn check(file: &str, at_least: usize) {
    let cases: Vec<_> = file.split("# netperf ").skip(1).collect();
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    let mut differing = Vec::new();
    for case in cases {
        let (figures, expected) = read(case);
        let (settings, run) = sample(&figures);
        let banner = output::banner(&settings, &run.endpoints).unwrap_or_default();
        let text = banner + &output::result(&settings, &run);
        if text != expected {
            let title = case.lines().next().unwrap_or("");
            differing.push(format!("netperf {title}\n{text}instead of\n{expected}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The figures and the expected text of a case.
fn read(case: &str) -> (Vec<(&str, &str)>, String) {
    let figures = case
        .lines()
        .filter_map(|line| line.strip_prefix("> "))
        .flat_map(|line| {
            line.split_once("command_line=")
                .map_or(line, |(others, _)| others)
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

/// A run with the figures of a case, and with what most tests have in common.
fn sample(figures: &[(&str, &str)]) -> (Settings, TestRun) {
    let test = figures
        .iter()
        .find(|(name, _)| *name == "test")
        .expect("each case names its test");
    let (mut settings, mut run) = base(test_named(test.1));
    for &(name, value) in figures {
        let plan = &mut settings.plan;
        let here = &mut run.outcome.here;
        let told = &mut run.told;
        match name {
            "test" => {}
            "direction" => settings.print.direction = direction_named(value),
            "protocol" => plan.transport = Transport::Udp,
            "P" => settings.print.headers = value != "0",
            "v" => settings.print.verbosity = number(value),
            "f" => settings.print.unit = Unit(value.chars().next().unwrap_or('?')),
            "B" => settings.print.brand = Some(value.to_owned()),
            "uuid" => value.clone_into(&mut settings.print.uuid),
            "command_line" => value.clone_into(&mut settings.print.command_line),
            "c" => plan.here.measure_cpu = true,
            "C" => plan.there.measure_cpu = true,
            "o" => settings.print.form = Form::Csv(selection(value)),
            "O" => settings.print.form = Form::Human(selection(value)),
            "k" => settings.print.form = Form::KeyVal(selection(value)),
            "D" => plan.here.socket.no_delay = true,
            "V" => plan.here.discard_in_kernel = true,
            "T" => plan.here.cpu = Some(number(value)),
            "burst" => plan.burst = number(value),
            "req" => plan.here.send.size = SizeRule::Bytes(number(value)),
            "resp" => plan.here.receive.size = SizeRule::Bytes(number(value)),
            "fill" => plan.here.fill = Some(PathBuf::from(value)),
            "I" => settings.repeat = Some(repeat(value)),
            "means" => run.repeated = Some(repeated(settings.repeat, value)),
            "from" => run.endpoints.source = value.parse::<SocketAddr>().unwrap().into(),
            "from_name" => value.clone_into(&mut run.endpoints.source_name),
            "to" => run.endpoints.dest = value.parse::<SocketAddr>().unwrap().into(),
            "to_name" => value.clone_into(&mut run.endpoints.dest_name),
            "elapsed" => here.elapsed = Some(Duration::from_secs_f64(number(value))),
            "sent" => here.counts.sent = Bytes(number(value)),
            "received" => here.counts.received = Bytes(number(value)),
            "send_calls" => here.counts.send_calls = number(value),
            "recv_calls" => here.counts.receive_calls = number(value),
            "failed" => here.counts.failed_sends = number(value),
            "transactions" => here.counts.transactions = number(value),
            "lss" => here.socket.send_buffer_bytes = Some(number(value)),
            "lss_end" => here.socket.send_buffer_end_bytes = Some(number(value)),
            "lsr" => here.socket.receive_buffer_bytes = Some(number(value)),
            "lsr_end" => here.socket.receive_buffer_end_bytes = Some(number(value)),
            "mss" => here.socket.max_segment_bytes = Some(number(value)),
            "retrans" => here.socket.retransmits = Some(number(value)),
            "cc" => here.socket.congestion_control = Some(value.to_owned()),
            "prio" => here.socket.priority = Some(number(value)),
            "tos" => here.socket.type_of_service = Some(number(value)),
            "send_size" => here.buffers.send_bytes = Some(number(value)),
            "send_width" => here.buffers.send_width = Some(number(value)),
            "recv_size" => here.buffers.receive_bytes = Some(number(value)),
            "recv_width" => here.buffers.receive_width = Some(number(value)),
            "cpu" => here.cpu = Some(cpu(value)),
            "times" => here.latency = Some(histogram(value)),
            "send_times" => here.send_times = Some(histogram(value)),
            "recv_times" => here.receive_times = Some(histogram(value)),
            "rss" => told.send_buffer = number(value),
            "rss_end" => told.send_buffer_end = number(value),
            "rsr" => told.receive_buffer = number(value),
            "rsr_end" => told.receive_buffer_end = number(value),
            "told.sent" => told.bytes_sent = number(value),
            "told.received" => told.bytes_received = number(value),
            "told.send_calls" => told.send_calls = number(value),
            "told.recv_calls" => told.receive_calls = number(value),
            "told.send_size" => told.send_size = number(value),
            "told.send_width" => told.send_width = number(value),
            "told.recv_size" => told.receive_size = number(value),
            "told.recv_width" => told.receive_width = number(value),
            "told.cpu" => told.cpu = Some(cpu(value)),
            "told.retrans" => told.retransmits = number(value),
            "told.cc" => value.clone_into(&mut told.congestion_control),
            "told.prio" => told.priority = number(value),
            "told.tos" => told.type_of_service = number(value),
            _ => panic!("no figure is named {name}"),
        }
    }
    run.outcome.plan = settings.plan.clone();
    (settings, run)
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no number of that kind"))
}

fn test_named(name: &str) -> Test {
    Test::ALL
        .iter()
        .find(|(_, known)| *known == name)
        .expect("the test exists")
        .0
}

fn direction_named(name: &str) -> Direction {
    let (transmit, receive, connection) = match name {
        "send" => (true, false, false),
        "recv" => (false, true, false),
        "rr" => (true, true, false),
        "crr" => (true, true, true),
        "cc" => (false, false, true),
        _ => panic!("no direction is named {name}"),
    };
    Direction {
        transmit,
        receive,
        connection,
    }
}

/// Level, width in percent, and whether the throughput alone counts.
fn repeat(text: &str) -> Repeat {
    let figures: Vec<f64> = text.split(',').map(number).collect();
    Repeat {
        goal: Goal {
            level: Level::try_from(figures[0] as u8).unwrap(),
            width: figures[1] / 100.0,
            min: 3,
            max: 10,
        },
        throughput_only: figures[2] > 0.0,
    }
}

/// Iterations, the interval's widths in percent (throughput, local and remote CPU), then the means of
/// throughput, elapsed time, CPU and demand; a dash for what was not measured.
fn repeated(repeat: Option<Repeat>, text: &str) -> Repeated {
    let goal = repeat.expect("-I before the means").goal;
    let figures: Vec<Option<f64>> = text.split(',').map(|figure| figure.parse().ok()).collect();
    let target = 100.0 * goal.width;
    Repeated {
        confidence: Confidence {
            level: goal.level,
            target_width_percent: Some(target),
            iterations: figures[0].unwrap() as u32,
            throughput_width_percent: figures[1],
            local_cpu_width_percent: figures[2],
            remote_cpu_width_percent: figures[3],
            reached: figures[1..4]
                .iter()
                .all(|width| width.is_none_or(|width| width <= target)),
        },
        means: Headline {
            throughput: figures[4].unwrap(),
            elapsed: figures[5].unwrap(),
            local_cpu: figures[6],
            remote_cpu: figures[7],
            local_demand: figures[8],
            remote_demand: figures[9],
        },
    }
}

/// Names, commas between them and semicolons between blocks; "default" and "all".
fn selection(text: &str) -> Selection {
    let block = |names: &str| names.split(',').filter_map(Selector::by_name).collect();
    match text {
        "default" => Selection::Default,
        "all" => Selection::Blocks(
            [
                Stock::SocketType..=Stock::ResponseSize,
                Stock::LocalCpuUtil..=Stock::TransportMss,
                Stock::LocalSendThroughput..=Stock::RemoteCork,
                Stock::LocalSysname..=Stock::CommandLine,
            ]
            .map(|range| {
                let block = Stock::ALL.iter().filter(|stock| range.contains(stock));
                block.copied().map(Selector::Stock).collect()
            })
            .to_vec(),
        ),
        blocks => Selection::Blocks(blocks.split(';').map(block).collect()),
    }
}

/// Busy, user, system, iowait, irq and softirq percentages, the busiest CPU's number and its
/// share; the host has two.
fn cpu(text: &str) -> CpuUse {
    let figures: Vec<f64> = text.split(',').map(number).collect();
    let figure = |index: usize| figures.get(index).copied().unwrap_or_default();
    CpuUse {
        busy_percent: figure(0),
        user_percent: figure(1),
        system_percent: figure(2),
        iowait_percent: figure(3),
        irq_percent: figure(4),
        softirq_percent: figure(5),
        steal_percent: None,
        cpus: 2,
        peak: Some((figure(6) as u32, figure(7))),
        method: CpuMethod::ProcStat,
        each: Vec::new(),
    }
}

/// Microseconds, half a microsecond beyond so that no bucket straddles them.
fn histogram(text: &str) -> Histogram {
    let mut times = Histogram::default();
    for micros in text.split(',').map(number::<u64>) {
        times.record(micros * 1000 + 500);
    }
    times
}

fn base(test: Test) -> (Settings, TestRun) {
    let settings = settings_of(test);
    let run = run_of(settings.plan.clone());
    (settings, run)
}

fn settings_of(test: Test) -> Settings {
    let direction = direction_named(match test {
        Test::TcpMaerts => "recv",
        Test::TcpRr | Test::UdpRr | Test::StreamRr | Test::DgRr => "rr",
        Test::TcpCrr => "crr",
        Test::TcpCc => "cc",
        _ => "send",
    });
    let plan = Plan {
        name: test.name().to_owned(),
        transport: match test {
            Test::UdpStream | Test::UdpRr => Transport::Udp,
            Test::DgStream | Test::DgRr => Transport::UnixDatagram,
            _ => Transport::Tcp,
        },
        workload: Workload::send(),
        limit: Limit::Time(Duration::from_secs(1)),
        phases: Phases::default(),
        burst: 0,
        timing: Timing::default(),
        flows: 1,
        bidirectional: false,
        here: Half::default(),
        there: Half::default(),
    };
    Settings {
        test,
        plan,
        reverse: None,
        no_control: false,
        control: Control {
            host: "127.0.0.1".to_owned(),
            family: Family::Unspecified,
            port: "12865".to_owned(),
            local_host: None,
            local_family: Family::Unspecified,
            local_port: "0".to_owned(),
            passphrase: None,
        },
        data: Data {
            host: None,
            host_bits: None,
            family: Family::Unspecified,
            port: "0".to_owned(),
            local_host: None,
            local_bits: None,
            local_family: Family::Unspecified,
            local_port: "0".to_owned(),
        },
        special: Special::Inet,
        ports: ConnectionPorts {
            min: 5000,
            max: 65535,
            retry_all: false,
        },
        cpu_rate: CpuRates::default(),
        repeat: None,
        print: Print {
            headers: true,
            verbosity: 1,
            unit: Unit(if test.name().contains("RR") { 'x' } else { 'm' }),
            brand: None,
            interim: None,
            latency: false,
            call_sizes: (None, None),
            needs: Needs::default(),
            form: Form::Table,
            uuid: String::new(),
            command_line: String::new(),
            direction,
        },
        debug: 0,
        histogram: None,
        strict: false,
        notices: Vec::new(),
        warnings: Vec::new(),
    }
}

fn run_of(plan: Plan) -> TestRun {
    TestRun {
        outcome: Outcome {
            plan,
            started: SystemTime::UNIX_EPOCH,
            here: Side {
                elapsed: Some(Duration::from_secs(1)),
                ..Side::default()
            },
            there: None,
            flows: Vec::new(),
            ended: Ended::Deadline,
            warnings: Vec::new(),
        },
        told: Told {
            receive_size: -1,
            send_size: -1,
            priority: -1,
            type_of_service: -1,
            retransmits: -2,
            ..Told::default()
        },
        endpoints: Endpoints {
            source_name: "0.0.0.0".to_owned(),
            source: SocketAddr::from(([0, 0, 0, 0], 0)).into(),
            dest_name: "127.0.0.1".to_owned(),
            dest: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        },
        repeated: None,
    }
}
