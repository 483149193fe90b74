//! Builds the settings and the result of a case from its figures.

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

/// Returns the settings and the result of a case. Figures that it omits have common defaults.
pub(crate) fn build_case(figures: &[(&str, &str)]) -> (Settings, FinishedTest) {
    let test = figures
        .iter()
        .find(|(name, _)| *name == "test")
        .expect("each case has a test");
    let (mut settings, mut run) = default_case(test_by_name(test.1));
    for &(name, value) in figures {
        let flow = &mut settings.flow;
        let local = &mut run.outcome.local;
        let peer = &mut run.peer;
        match name {
            "test" => {}
            "direction" => settings.direction = direction_by_name(value),
            "protocol" => flow.transport = Transport::Udp,
            "P" => settings.print.headers = value != "0",
            "v" => settings.print.verbosity = number(value),
            "f" => settings.print.unit = ThroughputUnit(value.chars().next().unwrap_or('?')),
            "B" => settings.print.brand = Some(value.to_owned()),
            "uuid" => value.clone_into(&mut settings.print.uuid),
            "command_line" => value.clone_into(&mut settings.print.command_line),
            "c" => flow.local.measure_cpu = true,
            "C" => flow.remote.measure_cpu = true,
            "o" => settings.print.form = OutputForm::Csv(selection(value)),
            "O" => settings.print.form = OutputForm::Human(selection(value)),
            "k" => settings.print.form = OutputForm::KeyVal(selection(value)),
            "D" => flow.local.socket.no_delay = true,
            "V" => flow.local.discard_in_kernel = true,
            "T" => flow.local.cpu = Some(number(value)),
            "burst" => flow.burst = number(value),
            "req" => flow.local.send.size = SizeRule::Bytes(number(value)),
            "resp" => flow.local.receive.size = SizeRule::Bytes(number(value)),
            "fill" => flow.local.fill = Some(PathBuf::from(value)),
            "I" => settings.repeat = Some(repeat(value)),
            "means" => run.repetition_means = Some(repeated_result(settings.repeat, value)),
            "from" => run.endpoints.source = value.parse::<SocketAddr>().unwrap().into(),
            "from_name" => value.clone_into(&mut run.endpoints.source_name),
            "to" => run.endpoints.dest = value.parse::<SocketAddr>().unwrap().into(),
            "to_name" => value.clone_into(&mut run.endpoints.dest_name),
            "elapsed" => local.elapsed = Some(Duration::from_secs_f64(number(value))),
            "sent" => local.counts.sent = Bytes(number(value)),
            "received" => local.counts.received = Bytes(number(value)),
            "send_calls" => local.counts.send_calls = number(value),
            "recv_calls" => local.counts.receive_calls = number(value),
            "failed" => local.counts.failed_sends = number(value),
            "transactions" => local.counts.transactions = number(value),
            "lss" => local.socket.send_buffer_bytes = Some(number(value)),
            "lss_end" => local.socket.send_buffer_end_bytes = Some(number(value)),
            "lsr" => local.socket.receive_buffer_bytes = Some(number(value)),
            "lsr_end" => local.socket.receive_buffer_end_bytes = Some(number(value)),
            "mss" => local.socket.max_segment_bytes = Some(number(value)),
            "retrans" => local.socket.retransmits = Some(number(value)),
            "cc" => local.socket.congestion_control = Some(value.to_owned()),
            "prio" => local.socket.priority = Some(number(value)),
            "tos" => local.socket.type_of_service = Some(number(value)),
            "send_size" => local.buffers.send_bytes = Some(number(value)),
            "send_width" => local.buffers.send_width = Some(number(value)),
            "recv_size" => local.buffers.receive_bytes = Some(number(value)),
            "recv_width" => local.buffers.receive_width = Some(number(value)),
            "cpu" => local.cpu = Some(cpu(value)),
            "times" => local.latency = Some(histogram(value)),
            "send_times" => local.send_times = Some(histogram(value)),
            "recv_times" => local.receive_times = Some(histogram(value)),
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
            _ => panic!("unknown figure {name}"),
        }
    }
    run.outcome.plan = settings.plan();
    (settings, run)
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("invalid number: {text}"))
}

fn test_by_name(name: &str) -> Test {
    Test::ALL
        .iter()
        .find(|(_, test_name)| *test_name == name)
        .expect("a known test")
        .0
}

fn direction_by_name(name: &str) -> TestDirection {
    let (transmit, receive, connection) = match name {
        "send" => (true, false, false),
        "recv" => (false, true, false),
        "rr" => (true, true, false),
        "crr" => (true, true, true),
        "cc" => (false, false, true),
        _ => panic!("unknown direction {name}"),
    };
    TestDirection {
        transmit,
        receive,
        connection,
    }
}

/// Parses the level, the width in percent, and 1 if only the throughput counts.
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

/// Parses the iterations, the interval widths in percent (throughput, local and remote CPU), and the
/// means of throughput, elapsed time, CPU and demand. A dash is an unmeasured value.
fn repeated_result(repeat: Option<Repeat>, text: &str) -> RepeatedResult {
    let goal = repeat.expect("-I comes before the means").goal;
    let figures: Vec<Option<f64>> = text.split(',').map(|figure| figure.parse().ok()).collect();
    let target = 100.0 * goal.max_relative_width;
    RepeatedResult {
        warnings: Vec::new(),
        confidence: Confidence {
            level: goal.level,
            target_width_percent: Some(target),
            iterations: figures[0].unwrap() as u32,
            throughput_width_percent: figures[1],
            local_cpu_width_percent: figures[2],
            remote_cpu_width_percent: figures[3],
            is_reached: figures[1..4]
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

/// Parses names, with commas between them and semicolons between blocks, or "default" or "all".
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

/// Parses the busy, user, system, iowait, irq and softirq percentages, and the number and the busy
/// percentage of the busiest of two CPUs.
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
        busy_percent_per_cpu: Vec::new(),
    }
}

/// Parses times in µs. Adds 0.5 µs to each, so that no bucket contains the limit between two µs.
pub(crate) fn histogram(text: &str) -> Histogram {
    let mut times = Histogram::default();
    for micros in text.split(',').map(number::<u64>) {
        times.record(micros * 1000 + 500);
    }
    times
}

pub(crate) fn default_case(test: Test) -> (Settings, FinishedTest) {
    let settings = default_settings(test);
    let run = default_run(settings.plan());
    (settings, run)
}

fn default_settings(test: Test) -> Settings {
    let direction = direction_by_name(match test {
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

fn default_run(plan: Plan) -> FinishedTest {
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
