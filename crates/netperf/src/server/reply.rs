//! What the client is told, in the layout of the messages that it asked with.

use model::{Half, Interface, PciIds, Security, SecurityModule, Side, Transport};

use super::family;
use super::test::{Finished, Prepared};
use crate::conventions::{TICKS_A_SECOND, cpu_code};
use crate::wire::{
    CalibrateResponse, DatagramResponse, DatagramResults, Flags, Frame, OmniRequest, OmniResponse,
    OmniResults, Request, StreamResponse, StreamResults, Text, TransactionResponse,
    TransactionResults,
};

/// The answer to CPU_CALIBRATE.
pub(super) fn calibration(rate: f32) -> CalibrateResponse {
    CalibrateResponse {
        rate,
        cpus: sys::cpu::online() as i32,
    }
}

/// The calibration value that the client gave, or else the one that there is.
pub(super) fn rate_in_force(asked: f32, half: &Half) -> f32 {
    match half.idle_loop.and_then(|idle_loop| idle_loop.rate) {
        _ if !half.measure_cpu => 0.0,
        Some(rate) => rate as f32,
        None if asked > 0.0 => asked,
        None => TICKS_A_SECOND,
    }
}

/// The response: the test is ready.
pub(super) fn response(request: &Request, test: &Prepared) -> Frame {
    let facts = &test.data.facts;
    let half = &test.assignment.half;
    let used = test.buffers.used();
    let receive_buffer = word(facts.receive_buffer_bytes);
    let send_buffer = word(facts.send_buffer_bytes);
    let no_delay = facts.no_delay.unwrap_or(false);
    let measure_cpu = half.measure_cpu;
    let cpu_rate = rate_in_force(request.cpu_rate(), half);
    let data_port = test.port as i32;
    match request {
        Request::Omni(asked) => omni_response(asked, test).encode(),
        Request::TcpStream(asked) | Request::TcpMaerts(asked) => StreamResponse {
            receive_buffer,
            size: word(used.receive_bytes.or(used.send_bytes)),
            no_delay,
            measure_cpu,
            send_buffer,
            data_port,
            cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
        }
        .encode(request.kind()),
        Request::TcpRr(asked)
        | Request::TcpCrr(asked)
        | Request::TcpCc(asked)
        | Request::UdpRr(asked) => TransactionResponse {
            receive_buffer,
            no_delay,
            measure_cpu,
            test_length: asked.test_length,
            send_buffer,
            data_port,
            cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
        }
        .encode(request.kind()),
        Request::UdpStream(asked) => DatagramResponse {
            receive_buffer,
            send_buffer,
            measure_cpu,
            test_length: asked.test_length,
            data_port,
            cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
        }
        .encode(),
        request => family::response(request, test)
            .unwrap_or_else(|| crate::wire::error_response(crate::wire::UNKNOWN_REQUEST)),
    }
}

fn omni_response(asked: &OmniRequest, test: &Prepared) -> OmniResponse {
    let facts = &test.data.facts;
    let half = &test.assignment.half;
    let mut flags = Flags::default();
    if facts.no_delay.unwrap_or(false) {
        flags |= Flags::NO_DELAY;
    }
    if test.assignment.half.measure_cpu {
        flags |= Flags::MEASURE_CPU;
    }
    let host = engine::facts(None);
    let security = host.security.as_ref();
    // A direction that is not used echoes what was asked.
    let used = test.buffers.used();
    let or_echo = |used: Option<u32>, asked: i32| used.map_or(asked, |value| value as i32);
    OmniResponse {
        receive_buffer: word(facts.receive_buffer_bytes),
        receive_size: or_echo(used.receive_bytes, asked.receive_size),
        receive_width: or_echo(used.receive_width, asked.receive_width as i32),
        send_buffer: word(facts.send_buffer_bytes),
        send_size: or_echo(used.send_bytes, asked.send_size),
        send_width: or_echo(used.send_width, asked.send_width as i32),
        flags,
        cpu_rate: rate_in_force(asked.cpu_rate, half),
        receive_copy_avoidance: asked.receive_copy_avoidance,
        send_copy_avoidance: asked.send_copy_avoidance,
        data_port: test.port,
        interval_burst: half.pacing.map_or(0, |pacing| pacing.burst as u32),
        interval_us: half
            .pacing
            .map_or(0, |pacing| pacing.interval.as_micros() as u32),
        cpu_mhz: host.cpu_mhz.unwrap_or(0),
        security: security.map_or(0, security_word),
        system_model: text(host.system_model.as_deref()),
        cpu_model: text(host.cpu_model.as_deref()),
        security_type: text(security.and_then(|security| Some(security.module?.name()))),
        priority: in_force(half.socket.priority, facts.priority),
        type_of_service: in_force(
            half.socket.type_of_service.map(i32::from),
            facts.type_of_service,
        ),
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

/// The results.
pub(super) fn results(
    request: &Request,
    transport: Transport,
    tells_congestion: bool,
    ran: &Finished,
) -> Frame {
    let side = &ran.side;
    let counts = &side.counts;
    let elapsed = side.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f32());
    let cpu = Cpu::of(side);
    match request {
        Request::TcpStream(_) => StreamResults {
            bytes: counts.received.0 as f64,
            calls: counts.receive_calls as u32,
            elapsed,
            cpu_utilisation: cpu.busy,
            cpu_method: cpu.method as i32,
            cpus: cpu.cpus as i32,
        }
        .encode(request.kind()),
        Request::TcpMaerts(_) => StreamResults {
            bytes: counts.sent.0 as f64,
            calls: counts.send_calls as u32,
            elapsed,
            cpu_utilisation: cpu.busy,
            cpu_method: cpu.method as i32,
            cpus: cpu.cpus as i32,
        }
        .encode(request.kind()),
        Request::TcpRr(_) | Request::TcpCrr(_) | Request::TcpCc(_) | Request::UdpRr(_) => {
            TransactionResults {
                bytes: (counts.sent + counts.received).0 as u32,
                transactions: counts.transactions as u32,
                elapsed,
                cpu_utilisation: cpu.busy,
                cpu_method: cpu.method as i32,
                cpus: cpu.cpus as i32,
            }
            .encode(request.kind())
        }
        Request::UdpStream(_) => DatagramResults {
            messages: counts.receive_calls as u32,
            bytes: counts.received.0 as u32,
            elapsed,
            cpu_utilisation: if side.cpu.is_some() { cpu.busy } else { -1.0 },
            cpu_method: cpu.method as i32,
            cpus: cpu.cpus as i32,
        }
        .encode(),
        request => family::results(request, ran).unwrap_or_else(|| {
            omni_results(transport, tells_congestion, side, elapsed, &cpu).encode()
        }),
    }
}

fn omni_results(
    transport: Transport,
    tells_congestion: bool,
    side: &Side,
    elapsed: f32,
    cpu: &Cpu,
) -> OmniResults {
    let counts = &side.counts;
    let congestion = side
        .socket
        .congestion_control
        .as_deref()
        .filter(|_| tells_congestion);
    let interface = side.interface.as_ref();
    let pci = interface.map(|interface| interface.pci);
    // Nobody asked is 0; no PCI device is −1.
    let id =
        |id: fn(&PciIds) -> u16| pci.map_or(0, |pci| pci.as_ref().map_or(-1, |ids| id(ids).into()));
    let told =
        |fact: fn(&Interface) -> Option<&String>| interface.and_then(fact).map(String::as_str);
    OmniResults {
        bytes_received: counts.received.0,
        receive_calls: counts.receive_calls as u32,
        receive_buffer: word(side.socket.receive_buffer_end_bytes),
        bytes_sent: counts.sent.0,
        send_calls: counts.send_calls as u32,
        send_buffer: word(side.socket.send_buffer_end_bytes),
        transactions: counts.transactions as u32,
        elapsed,
        cpu_utilisation: cpu.busy,
        cpu_user: cpu.user,
        cpu_system: cpu.system,
        cpu_iowait: cpu.iowait,
        cpu_irq: cpu.irq,
        cpu_softirq: cpu.softirq,
        cpu_method: cpu.method,
        cpus: cpu.cpus,
        peak_cpu: cpu.peak.0,
        peak_cpu_utilisation: cpu.peak.1,
        retransmits: match side.socket.retransmits {
            Some(count) if transport.has_tcp_options() => count as i32,
            _ => -1,
        },
        pci_vendor: id(|ids| ids.vendor),
        pci_device: id(|ids| ids.device),
        pci_subvendor: id(|ids| ids.subvendor),
        pci_subdevice: id(|ids| ids.subdevice),
        interface: text(interface.map(|interface| interface.name.as_str())),
        driver: text(told(|interface| interface.driver.as_ref())),
        driver_version: text(told(|interface| interface.driver_version.as_ref())),
        firmware: text(told(|interface| interface.firmware.as_ref())),
        bus: text(told(|interface| interface.bus.as_ref())),
        slot: text(told(|interface| interface.slot.as_ref())),
        congestion_control: text(congestion),
    }
}

fn text<const N: usize>(fact: Option<&str>) -> Text<N> {
    fact.map(Text::new).unwrap_or_default()
}

/// As the selectors *_SECURITY_TYPE_ID and *_SECURITY_ENABLED_NUM have it.
fn security_word(security: &Security) -> u32 {
    let module = security.module.map_or(0, SecurityModule::number);
    u32::from(module) << 16 | u32::from(security.enforcing == Some(true))
}

/// CPU figures as the words have them; all zero when nothing was measured.
#[derive(Default)]
pub(super) struct Cpu {
    pub(super) busy: f32,
    user: f32,
    system: f32,
    iowait: f32,
    irq: f32,
    softirq: f32,
    pub(super) method: u32,
    pub(super) cpus: u32,
    peak: (i32, f32),
}

impl Cpu {
    pub(super) fn of(side: &Side) -> Self {
        let Some(cpu) = &side.cpu else {
            return Self::default();
        };
        Self {
            busy: cpu.busy_percent as f32,
            user: cpu.user_percent as f32,
            system: cpu.system_percent as f32,
            iowait: cpu.iowait_percent as f32,
            irq: cpu.irq_percent as f32,
            softirq: cpu.softirq_percent as f32,
            method: cpu_code(cpu.method),
            cpus: cpu.cpus,
            peak: cpu
                .peak
                .map_or((-1, -1.0), |(id, share)| (id as i32, share as f32)),
        }
    }
}

/// A figure that the kernel did not tell is 0 on the wire.
pub(super) fn word(value: Option<u32>) -> i32 {
    value.map_or(0, |value| value as i32)
}
