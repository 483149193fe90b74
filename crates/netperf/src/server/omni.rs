//! What the client of an omni test is told.

use model::{Interface, PciIds, Security, SecurityModule, Side, Transport};

use super::reply::{elapsed, rate_in_force, word};
use super::test::Prepared;
use crate::conventions::cpu_code;
use crate::wire::{Flags, OmniRequest, OmniResponse, OmniResults, Text};

/// The response: the test is ready.
pub(super) fn response(asked: &OmniRequest, test: &Prepared) -> OmniResponse {
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

/// The results.
pub(super) fn results(side: &Side, transport: Transport, tells_congestion: bool) -> OmniResults {
    let counts = &side.counts;
    let cpu = Cpu::of(side);
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
        elapsed: elapsed(side),
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

/// A setting as read back; −1 when none was asked for, −2 when the system did not take it.
fn in_force(asked: Option<i32>, got: Option<i32>) -> i32 {
    match (asked, got) {
        (None, _) => -1,
        (Some(asked), Some(got)) if asked == got => got,
        _ => -2,
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
struct Cpu {
    busy: f32,
    user: f32,
    system: f32,
    iowait: f32,
    irq: f32,
    softirq: f32,
    method: u32,
    cpus: u32,
    peak: (i32, f32),
}

impl Cpu {
    fn of(side: &Side) -> Self {
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
