//! From a case's figures to the settings and the run that have them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{
    Confidence, CpuMethod, CpuUse, EndCause, FlowPlan, Limit, Outcome, Plan, Side, SizeRule,
    Transport, Workload,
};
use netperf::options::{
    ControlOptions, OutputForm, PrintOptions, Repeat, Selection, Settings, Test, TestDirection,
    ThroughputUnit,
};
use netperf::selector::Selector;
use netperf::wire::{TestResponse, TestResults, Text};
use netperf::{Endpoints, FinishedTest, MainFigures, PeerReport, RepeatedResult};
use stats::Histogram;
use stats::confidence::{ConfidenceGoal, ConfidenceLevel};
use units::Bytes;

/// A run with the figures of a case, and with what most tests have in common.
pub(crate) fn sample(figures: &[(&str, &str)]) -> (Settings, FinishedTest) {
    let test = figures
        .iter()
        .find(|(name, _)| *name == "test")
        .expect("each case names its test");
    let (mut settings, mut run) = base(test_named(test.1));
    for &(name, value) in figures {
        let plan = &mut settings.flow;
        let here = &mut run.outcome.local;
        let peer = &mut run.peer;
        match name {
            "test" => {}
            "direction" => settings.direction = direction_named(value),
            "protocol" => plan.transport = Transport::Udp,
            "P" => settings.print.headers = value != "0",
            "v" => settings.print.verbosity = number(value),
            "f" => settings.print.unit = ThroughputUnit(value.chars().next().unwrap_or('?')),
            "B" => settings.print.brand = Some(value.to_owned()),
            "uuid" => value.clone_into(&mut settings.print.uuid),
            "command_line" => value.clone_into(&mut settings.print.command_line),
            "c" => plan.local.measure_cpu = true,
            "C" => plan.remote.measure_cpu = true,
            "o" => settings.print.form = OutputForm::Csv(selection(value)),
            "O" => settings.print.form = OutputForm::Human(selection(value)),
            "k" => settings.print.form = OutputForm::KeyVal(selection(value)),
            "D" => plan.local.socket.no_delay = true,
            "V" => plan.local.discard_in_kernel = true,
            "T" => plan.local.cpu = Some(number(value)),
            "burst" => plan.burst = number(value),
            "req" => plan.local.send.size = SizeRule::Bytes(number(value)),
            "resp" => plan.local.receive.size = SizeRule::Bytes(number(value)),
            "fill" => plan.local.fill = Some(PathBuf::from(value)),
            "I" => settings.repeat = Some(repeat(value)),
            "means" => run.repetition_means = Some(repeated(settings.repeat, value)),
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
            "rss" => peer.response.send_buffer = number(value),
            "rss_end" => peer.results.send_buffer = number(value),
            "rsr" => peer.response.receive_buffer = number(value),
            "rsr_end" => peer.results.receive_buffer = number(value),
            "told.sent" => peer.counts.sent = Bytes(number(value)),
            "told.received" => peer.counts.received = Bytes(number(value)),
            "told.send_calls" => peer.counts.send_calls = number(value),
            "told.recv_calls" => peer.counts.receive_calls = number(value),
            "told.send_size" => peer.response.send_size = number(value),
            "told.send_width" => peer.response.send_width = number(value),
            "told.recv_size" => peer.response.receive_size = number(value),
            "told.recv_width" => peer.response.receive_width = number(value),
            "told.cpu" => peer.cpu = Some(cpu(value)),
            "told.retrans" => peer.results.retransmits = number(value),
            "told.cc" => peer.results.congestion_control = Text::new(value),
            "told.prio" => peer.response.priority = number(value),
            "told.tos" => peer.response.type_of_service = number(value),
            _ => panic!("no figure is named {name}"),
        }
    }
    run.outcome.plan = settings.plan();
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

fn direction_named(name: &str) -> TestDirection {
    let (transmit, receive, connection) = match name {
        "send" => (true, false, false),
        "recv" => (false, true, false),
        "rr" => (true, true, false),
        "crr" => (true, true, true),
        "cc" => (false, false, true),
        _ => panic!("no direction is named {name}"),
    };
    TestDirection {
        transmit,
        receive,
        connection,
    }
}

/// Level, width in percent, and whether the throughput alone counts.
fn repeat(text: &str) -> Repeat {
    let figures: Vec<f64> = text.split(',').map(number).collect();
    Repeat {
        goal: ConfidenceGoal {
            level: ConfidenceLevel::try_from(figures[0] as u8).unwrap(),
            max_relative_width: figures[1] / 100.0,
            min_samples: 3,
            max_samples: 10,
        },
        throughput_only: figures[2] > 0.0,
    }
}

/// Iterations, the interval's widths in percent (throughput, local and remote CPU), then the means of
/// throughput, elapsed time, CPU and demand; a dash for what was not measured.
fn repeated(repeat: Option<Repeat>, text: &str) -> RepeatedResult {
    let goal = repeat.expect("-I before the means").goal;
    let figures: Vec<Option<f64>> = text.split(',').map(|figure| figure.parse().ok()).collect();
    let target = 100.0 * goal.max_relative_width;
    RepeatedResult {
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
        means: MainFigures {
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
pub(crate) fn selection(text: &str) -> Selection {
    let block = |names: &str| names.split(',').filter_map(Selector::by_name).collect();
    match text {
        "default" => Selection::Default,
        "all" => Selection::Blocks(
            [
                ("SOCKET_TYPE", "RESPONSE_SIZE"),
                ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
                ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
                ("LOCAL_SYSNAME", "COMMAND_LINE"),
            ]
            .map(|(first, last)| Selector::stock_between(first, last).collect())
            .to_vec(),
        ),
        blocks => Selection::Blocks(blocks.split(';').map(block).collect()),
    }
}

/// Busy, user, system, iowait, irq and softirq percentages, the busiest CPU's number and its
/// share; the host has two.
pub(crate) fn cpu(text: &str) -> CpuUse {
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
pub(crate) fn histogram(text: &str) -> Histogram {
    let mut times = Histogram::default();
    for micros in text.split(',').map(number::<u64>) {
        times.record(micros * 1000 + 500);
    }
    times
}

pub(crate) fn base(test: Test) -> (Settings, FinishedTest) {
    let settings = settings_of(test);
    let run = run_of(settings.plan());
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
    let transport = match test {
        Test::UdpStream | Test::UdpRr => Transport::Udp,
        Test::DgStream | Test::DgRr => Transport::UnixDatagram,
        _ => Transport::Tcp,
    };
    let flow = FlowPlan {
        limit: Limit::Time(Duration::from_secs(1)),
        ..FlowPlan::new(transport, Workload::send())
    };
    Settings {
        test,
        name: test.name().to_owned(),
        flow,
        control: ControlOptions {
            host: "127.0.0.1".to_owned(),
            ..ControlOptions::default()
        },
        direction,
        print: PrintOptions {
            unit: ThroughputUnit(if test.name().contains("RR") { 'x' } else { 'm' }),
            ..PrintOptions::default()
        },
        ..Settings::default()
    }
}

fn run_of(plan: Plan) -> FinishedTest {
    FinishedTest {
        outcome: Outcome::for_flow(
            plan,
            SystemTime::UNIX_EPOCH,
            Side {
                elapsed: Some(Duration::from_secs(1)),
                ..Side::default()
            },
            None,
            EndCause::Deadline,
        ),
        peer: PeerReport {
            response: TestResponse {
                receive_size: -1,
                send_size: -1,
                priority: -1,
                type_of_service: -1,
                ..TestResponse::default()
            },
            results: TestResults {
                retransmits: -2,
                ..TestResults::default()
            },
            ..PeerReport::default()
        },
        endpoints: Endpoints {
            source_name: "0.0.0.0".to_owned(),
            source: SocketAddr::from(([0, 0, 0, 0], 0)).into(),
            dest_name: "127.0.0.1".to_owned(),
            dest: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        },
        repetition_means: None,
    }
}
