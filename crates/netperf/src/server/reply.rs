//! Responses and results for the client, in the layout of its request.

use model::{CpuUse, EndpointPlan, Interface, PciIds, Security, SecurityModule, Side, Transport};
use sys::Address;

use super::test::{PreparedTest, ServedTest};
use crate::protocol_conventions::{TICKS_PER_SECOND, cpu_method_code};
use crate::wire::{
    Classic, Flags, Frame, OMNI, Request, ServerTask, SwappedText, TestRequest, TestResponse,
    TestResults, Text, UNKNOWN_REQUEST, error_response,
};

/// Returns the response for a test that is ready.
pub(super) fn response(request: &Request, prepared: &PreparedTest) -> Frame {
    match request {
        Request::Omni(request) => {
            OMNI.encode_response(&with_host_facts(&response_fields(request, prepared)))
        }
        Request::Classic(test, request) => {
            let used = prepared.buffers.sizes;
            test.messages().encode_response(&TestResponse {
                receive_size: or_zero(used.receive_bytes.or(used.send_bytes)),
                ..response_fields(request, prepared)
            })
        }
        _ => error_response(UNKNOWN_REQUEST),
    }
}

/// Returns the results for the client.
pub(super) fn results(
    request: &Request,
    transport: Transport,
    reports_congestion_control: bool,
    finished: &ServedTest,
) -> Frame {
    let results = omni_results(&finished.side, transport, reports_congestion_control);
    match request {
        Request::Classic(test, _) => {
            let results = classic_results(*test, &finished.side, &results);
            test.messages().encode_results(&results)
        }
        _ => OMNI.encode_results(&results),
    }
}

/// Returns a response with all fields; the layout of the test omits unused ones.
fn response_fields(request: &TestRequest, prepared: &PreparedTest) -> TestResponse {
    let (facts, endpoint) = (&prepared.data.facts, &prepared.assignment.endpoint);
    let mut flags = Flags::default();
    flags.set(Flags::NO_DELAY, facts.no_delay.unwrap_or(false));
    flags.set(Flags::MEASURE_CPU, endpoint.measure_cpu);
    let (receive_buffer, send_buffer) = match prepared.assignment.transport {
        Transport::LlcStream => (facts.receive_window_frames, facts.send_window_frames),
        _ => (facts.receive_buffer_bytes, facts.send_buffer_bytes),
    };
    // An unused direction echoes the request.
    let used = prepared.buffers.sizes;
    let or_echo = |used: Option<u32>, requested: i32| used.map_or(requested, |value| value as i32);
    let mut station = [0; 8];
    let mut sap = 0;
    if let Ok(Address::Llc(bound)) = Address::local(&prepared.data.socket) {
        station[..bound.mac.len()].copy_from_slice(&bound.mac);
        sap = i32::from(bound.sap);
    }
    TestResponse {
        receive_buffer: or_zero(receive_buffer),
        receive_size: or_echo(used.receive_bytes, request.receive_size),
        receive_width: or_echo(used.receive_width, request.receive_width as i32),
        send_buffer: or_zero(send_buffer),
        send_size: or_echo(used.send_bytes, request.send_size),
        send_width: or_echo(used.send_width, request.send_width as i32),
        flags,
        non_blocking: request.non_blocking,
        test_length: request.test_length,
        cpu_rate: calibration_rate(request.cpu_rate, endpoint),
        receive_copy_avoidance: request.receive_copy_avoidance,
        send_copy_avoidance: request.send_copy_avoidance,
        data_port: prepared.port,
        interval_burst: endpoint.pacing.map_or(0, |pacing| pacing.burst as u32),
        interval_us: endpoint
            .pacing
            .map_or(0, |pacing| pacing.interval.as_micros() as u32),
        priority: applied_setting(endpoint.socket.priority, facts.priority),
        type_of_service: applied_setting(
            endpoint.socket.type_of_service.map(i32::from),
            facts.type_of_service,
        ),
        path: SwappedText(Text::new(
            prepared.unix_path().as_os_str().as_encoded_bytes(),
        )),
        sap,
        station_len: 6,
        station,
        ..TestResponse::default()
    }
}

/// Adds the facts of this host to an omni response.
fn with_host_facts(response: &TestResponse) -> TestResponse {
    let host = engine::host_facts(None);
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

/// Returns the results of an omni test, from which classic results also take fields.
fn omni_results(
    side: &Side,
    transport: Transport,
    reports_congestion_control: bool,
) -> TestResults {
    let counts = &side.counts;
    let congestion = side.socket.congestion_control.as_deref();
    let interface = side.interface.as_ref();
    let pci = interface.map(|interface| interface.pci);
    // 0 if not requested; −1 without a PCI device.
    let pci_id =
        |id: fn(&PciIds) -> u16| pci.map_or(0, |pci| pci.as_ref().map_or(-1, |ids| id(ids).into()));
    let fact =
        |fact: fn(&Interface) -> Option<&String>| interface.and_then(fact).map(String::as_str);
    TestResults {
        bytes_received: counts.received.0,
        receive_calls: counts.receive_calls as u32,
        receive_buffer: or_zero(side.socket.receive_buffer_end_bytes),
        bytes_sent: counts.sent.0,
        send_calls: counts.send_calls as u32,
        send_buffer: or_zero(side.socket.send_buffer_end_bytes),
        transactions: counts.transactions as u32,
        // 0 if unavailable.
        elapsed: side.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f32()),
        retransmits: match side.socket.retransmits {
            Some(count) if transport.has_tcp_options() => count as i32,
            _ => -1,
        },
        pci_vendor: pci_id(|ids| ids.vendor),
        pci_device: pci_id(|ids| ids.device),
        pci_subvendor: pci_id(|ids| ids.subvendor),
        pci_subdevice: pci_id(|ids| ids.subdevice),
        interface: text(interface.map(|interface| interface.name.as_str())),
        driver: text(fact(|interface| interface.driver.as_ref())),
        driver_version: text(fact(|interface| interface.driver_version.as_ref())),
        firmware: text(fact(|interface| interface.firmware.as_ref())),
        bus: text(fact(|interface| interface.bus.as_ref())),
        slot: text(fact(|interface| interface.slot.as_ref())),
        congestion_control: text(congestion.filter(|_| reports_congestion_control)),
        ..side.cpu.as_ref().map_or_else(no_cpu_results, cpu_results)
    }
}

/// Returns the results of a test whose CPU time is unavailable. A client does not expect that, if the
/// time became unavailable after the response.
fn no_cpu_results() -> TestResults {
    TestResults {
        cpu_utilisation: -1.0,
        peak_cpu: -1,
        peak_cpu_utilisation: -1.0,
        ..TestResults::default()
    }
}

fn cpu_results(cpu: &CpuUse) -> TestResults {
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
        cpu_method: cpu_method_code(cpu.method),
        cpus: cpu.cpus,
        peak_cpu,
        peak_cpu_utilisation,
        ..TestResults::default()
    }
}

/// Adds the counts of a classic test. A byte count in 32 bits is modulo 2³²; a linerate client
/// restores the high bits.
fn classic_results(test: Classic, side: &Side, results: &TestResults) -> TestResults {
    let counts = &side.counts;
    let (bytes, calls) = match test.task() {
        ServerTask::Send => (counts.sent, counts.send_calls),
        ServerTask::Receive | ServerTask::Datagrams => (counts.received, counts.receive_calls),
        _ => (counts.sent + counts.received, counts.receive_calls),
    };
    TestResults {
        bytes: bytes.0 as f64,
        bytes_low: bytes.0 as u32,
        calls: calls as u32,
        ..*results
    }
}

/// Returns the client's calibration value, or else this host's.
fn calibration_rate(requested: f32, endpoint: &EndpointPlan) -> f32 {
    match endpoint.idle_loop.and_then(|idle_loop| idle_loop.rate) {
        _ if !endpoint.measure_cpu => 0.0,
        Some(rate) => rate as f32,
        None if requested > 0.0 => requested,
        None => TICKS_PER_SECOND,
    }
}

/// Returns an applied setting; −1 if none was requested, −2 if the system did not apply it.
fn applied_setting(requested: Option<i32>, actual: Option<i32>) -> i32 {
    match (requested, actual) {
        (None, _) => -1,
        (Some(requested), Some(actual)) if requested == actual => actual,
        _ => -2,
    }
}

/// Returns the value for the selectors *_SECURITY_TYPE_ID and *_SECURITY_ENABLED_NUM.
fn security_word(security: &Security) -> u32 {
    let module = security.module.map_or(0, SecurityModule::number);
    u32::from(module) << 16 | u32::from(security.enforcing == Some(true))
}

fn text<const N: usize>(fact: Option<&str>) -> Text<N> {
    fact.map(Text::new).unwrap_or_default()
}

/// Returns the value for the wire, where an unavailable one is 0.
fn or_zero(value: Option<u32>) -> i32 {
    value.map_or(0, |value| value as i32)
}
