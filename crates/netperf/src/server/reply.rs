//! What the client is told, in the layout of the messages that it asked with.

use model::{CpuUse, Half, Interface, PciIds, Security, SecurityModule, Side, Transport};
use sys::Address;

use super::test::{Finished, Prepared};
use crate::conventions::{TICKS_A_SECOND, cpu_code};
use crate::wire::{
    Classic, Flags, Frame, OMNI, Request, SwappedText, Task, TestRequest, TestResponse,
    TestResults, Text, UNKNOWN_REQUEST, error_response,
};

/// The response: the test is ready.
pub(super) fn response(request: &Request, ready: &Prepared) -> Frame {
    match request {
        Request::Omni(asked) => OMNI.encode_response(&with_host(&told(asked, ready))),
        Request::Classic(test, asked) => {
            let used = ready.buffers.used;
            test.messages().encode_response(&TestResponse {
                receive_size: word(used.receive_bytes.or(used.send_bytes)),
                ..told(asked, ready)
            })
        }
        _ => error_response(UNKNOWN_REQUEST),
    }
}

/// The results.
pub(super) fn results(
    request: &Request,
    transport: Transport,
    tells_congestion: bool,
    ran: &Finished,
) -> Frame {
    let counted = counted(&ran.side, transport, tells_congestion);
    match request {
        Request::Classic(test, _) => {
            let results = in_one_direction(*test, &ran.side, &counted);
            test.messages().encode_results(&results)
        }
        _ => OMNI.encode_results(&counted),
    }
}

/// All that a response can have; its layout leaves out what the test has no use for.
fn told(asked: &TestRequest, ready: &Prepared) -> TestResponse {
    let (facts, half) = (&ready.data.facts, &ready.assignment.half);
    let mut flags = Flags::default();
    flags.set(Flags::NO_DELAY, facts.no_delay.unwrap_or(false));
    flags.set(Flags::MEASURE_CPU, half.measure_cpu);
    let (receive_buffer, send_buffer) = match ready.assignment.transport {
        Transport::LlcStream => (facts.receive_window_frames, facts.send_window_frames),
        _ => (facts.receive_buffer_bytes, facts.send_buffer_bytes),
    };
    // A direction that is not used echoes what was asked.
    let used = ready.buffers.used;
    let or_echo = |used: Option<u32>, asked: i32| used.map_or(asked, |value| value as i32);
    let mut station = [0; 8];
    let mut sap = 0;
    if let Ok(Address::Llc(bound)) = Address::of(&ready.data.socket) {
        station[..bound.mac.len()].copy_from_slice(&bound.mac);
        sap = i32::from(bound.sap);
    }
    TestResponse {
        receive_buffer: word(receive_buffer),
        receive_size: or_echo(used.receive_bytes, asked.receive_size),
        receive_width: or_echo(used.receive_width, asked.receive_width as i32),
        send_buffer: word(send_buffer),
        send_size: or_echo(used.send_bytes, asked.send_size),
        send_width: or_echo(used.send_width, asked.send_width as i32),
        flags,
        non_blocking: asked.non_blocking,
        test_length: asked.test_length,
        cpu_rate: rate_in_force(asked.cpu_rate, half),
        receive_copy_avoidance: asked.receive_copy_avoidance,
        send_copy_avoidance: asked.send_copy_avoidance,
        data_port: ready.port,
        interval_burst: half.pacing.map_or(0, |pacing| pacing.burst as u32),
        interval_us: half
            .pacing
            .map_or(0, |pacing| pacing.interval.as_micros() as u32),
        priority: in_force(half.socket.priority, facts.priority),
        type_of_service: in_force(
            half.socket.type_of_service.map(i32::from),
            facts.type_of_service,
        ),
        path: SwappedText(Text::new(ready.path().as_os_str().as_encoded_bytes())),
        sap,
        station_len: 6,
        station,
        ..TestResponse::default()
    }
}

/// Adds what an omni response tells of the host.
fn with_host(response: &TestResponse) -> TestResponse {
    let host = engine::facts(None);
    let security = host.security.as_ref();
    TestResponse {
        cpu_mhz: host.cpu_mhz.unwrap_or(0),
        security: security.map_or(0, security_word),
        system_model: text(host.system_model.as_deref()),
        cpu_model: text(host.cpu_model.as_deref()),
        security_type: text(security.and_then(|security| Some(security.module?.name()))),
        ..*response
    }
}

/// What there is to tell of both directions, which is all of an omni test's results.
fn counted(side: &Side, transport: Transport, tells_congestion: bool) -> TestResults {
    let counts = &side.counts;
    let congestion = side.socket.congestion_control.as_deref();
    let interface = side.interface.as_ref();
    let pci = interface.map(|interface| interface.pci);
    // Nobody asked is 0; no PCI device is −1.
    let id =
        |id: fn(&PciIds) -> u16| pci.map_or(0, |pci| pci.as_ref().map_or(-1, |ids| id(ids).into()));
    let fact =
        |fact: fn(&Interface) -> Option<&String>| interface.and_then(fact).map(String::as_str);
    TestResults {
        bytes_received: counts.received.0,
        receive_calls: counts.receive_calls as u32,
        receive_buffer: word(side.socket.receive_buffer_end_bytes),
        bytes_sent: counts.sent.0,
        send_calls: counts.send_calls as u32,
        send_buffer: word(side.socket.send_buffer_end_bytes),
        transactions: counts.transactions as u32,
        // 0 where no clock ran.
        elapsed: side.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f32()),
        retransmits: match side.socket.retransmits {
            Some(count) if transport.has_tcp_options() => count as i32,
            _ => -1,
        },
        pci_vendor: id(|ids| ids.vendor),
        pci_device: id(|ids| ids.device),
        pci_subvendor: id(|ids| ids.subvendor),
        pci_subdevice: id(|ids| ids.subdevice),
        interface: text(interface.map(|interface| interface.name.as_str())),
        driver: text(fact(|interface| interface.driver.as_ref())),
        driver_version: text(fact(|interface| interface.driver_version.as_ref())),
        firmware: text(fact(|interface| interface.firmware.as_ref())),
        bus: text(fact(|interface| interface.bus.as_ref())),
        slot: text(fact(|interface| interface.slot.as_ref())),
        congestion_control: text(congestion.filter(|_| tells_congestion)),
        ..side.cpu.as_ref().map(of_cpu).unwrap_or_default()
    }
}

fn of_cpu(cpu: &CpuUse) -> TestResults {
    let (peak_cpu, peak_cpu_utilisation) = cpu
        .peak
        .map_or((-1, -1.0), |(id, share)| (id as i32, share as f32));
    TestResults {
        cpu_utilisation: cpu.busy_percent as f32,
        cpu_user: cpu.user_percent as f32,
        cpu_system: cpu.system_percent as f32,
        cpu_iowait: cpu.iowait_percent as f32,
        cpu_irq: cpu.irq_percent as f32,
        cpu_softirq: cpu.softirq_percent as f32,
        cpu_method: cpu_code(cpu.method),
        cpus: cpu.cpus,
        peak_cpu,
        peak_cpu_utilisation,
        ..TestResults::default()
    }
}

/// Adds the counts of a classic test. A count of bytes in one word is modulo 2³²; a linerate client knows what is
/// above it.
fn in_one_direction(test: Classic, side: &Side, counted: &TestResults) -> TestResults {
    let counts = &side.counts;
    let (bytes, calls) = match test.task() {
        Task::Send => (counts.sent, counts.send_calls),
        Task::Receive | Task::Datagrams => (counts.received, counts.receive_calls),
        _ => (counts.sent + counts.received, counts.receive_calls),
    };
    let cpu_utilisation = match test.task() {
        Task::Datagrams if side.cpu.is_none() => -1.0,
        _ => counted.cpu_utilisation,
    };
    TestResults {
        bytes: bytes.0 as f64,
        bytes_low: bytes.0 as u32,
        calls: calls as u32,
        cpu_utilisation,
        ..*counted
    }
}

/// The calibration value that the client gave, or else the one that there is.
fn rate_in_force(asked: f32, half: &Half) -> f32 {
    match half.idle_loop.and_then(|idle_loop| idle_loop.rate) {
        _ if !half.measure_cpu => 0.0,
        Some(rate) => rate as f32,
        None if asked > 0.0 => asked,
        None => TICKS_A_SECOND,
    }
}

/// A setting as read back; −1 when none was asked for, −2 when the system did not take it.
fn in_force(asked: Option<i32>, got: Option<i32>) -> i32 {
    match (asked, got) {
        (None, _) => -1,
        (Some(asked), Some(got)) if asked == got => got,
        _ => -2,
    }
}

/// As the selectors *_SECURITY_TYPE_ID and *_SECURITY_ENABLED_NUM have it.
fn security_word(security: &Security) -> u32 {
    let module = security.module.map_or(0, SecurityModule::number);
    u32::from(module) << 16 | u32::from(security.enforcing == Some(true))
}

fn text<const N: usize>(fact: Option<&str>) -> Text<N> {
    fact.map(Text::new).unwrap_or_default()
}

/// A figure that the kernel did not tell is 0 on the wire.
fn word(value: Option<u32>) -> i32 {
    value.map_or(0, |value| value as i32)
}
