use std::path::Path;

use model::{Confidence, Half, HostFacts};
use stats::Summary;

use super::{DEPRECATED, UNKNOWN, count, fixed, int, interface, security, text};
use crate::output::figures::{Figures, NONE, Processor};
use crate::selector::Stock;
use crate::wire::SysInfo;

/// The text of a selector of the stock tool; `None` where the run has no value for it.
#[rustfmt::skip]
#[expect(clippy::too_many_lines, reason = "it is one table")]
#[expect(clippy::match_same_arms, reason = "each line is one selector")]
pub(super) fn value(selector: Stock, f: &Figures<'_>) -> Option<String> {
    // The lint does not look into tests.
    #[cfg_attr(
        not(test),
        expect(clippy::enum_glob_use, reason = "all of them are here")
    )]
    use Stock::*;
    match selector {
        OutputNone => text(" "),
        SocketType => text(f.socket_type()),
        Protocol => text(f.protocol()),
        Direction => text(f.direction()),
        ElapsedTime => fixed(2, f.elapsed),
        Throughput => fixed(2, f.throughput),
        ThroughputUnits => Some(format!("{}/s", f.unit.name())),
        LssSizeReq => asked(f.here().socket.send_buffer_bytes),
        LssSize => int(f.send_buffer()),
        LssSizeEnd => int(f.send_buffer_end()),
        LsrSizeReq => asked(f.here().socket.receive_buffer_bytes),
        LsrSize => int(f.receive_buffer()),
        LsrSizeEnd => int(f.receive_buffer_end()),
        RssSizeReq => asked(f.there().socket.send_buffer_bytes),
        RssSize => int(f.peer().send_buffer),
        RssSizeEnd => int(f.peer().send_buffer_end),
        RsrSizeReq => asked(f.there().socket.receive_buffer_bytes),
        RsrSize => int(f.peer().receive_buffer),
        RsrSizeEnd => int(f.peer().receive_buffer_end),
        LocalSendSize => int(f.send_size()),
        LocalRecvSize => int(f.receive_size()),
        RemoteSendSize => int(f.peer().send_size),
        RemoteRecvSize => int(f.peer().receive_size),
        RequestSize => int(f.request_size()),
        ResponseSize => int(f.response_size()),
        LocalCpuUtil => fixed(2, f.local.busy),
        LocalCpuPercentUser => fixed(2, f.local.user),
        LocalCpuPercentSystem => fixed(2, f.local.system),
        LocalCpuPercentIowait => fixed(2, f.local.iowait),
        LocalCpuPercentIrq => fixed(2, f.local.irq),
        LocalCpuPercentSwintr => fixed(2, f.local.softirq),
        LocalCpuMethod => letter(f.local.method),
        LocalSd => fixed(3, f.local.demand),
        RemoteCpuUtil => fixed(2, f.remote.busy),
        RemoteCpuPercentUser => fixed(2, f.remote.user),
        RemoteCpuPercentSystem => fixed(2, f.remote.system),
        RemoteCpuPercentIowait => fixed(2, f.remote.iowait),
        RemoteCpuPercentIrq => fixed(2, f.remote.irq),
        RemoteCpuPercentSwintr => fixed(2, f.remote.softirq),
        RemoteCpuMethod => letter(f.remote.method),
        RemoteSd => fixed(3, f.remote.demand),
        SdUnits => text(f.demand_unit()),
        ConfidenceLevel => int(f.confidence().map_or(0, |c| c.level.percent())),
        ConfidenceInterval => fixed(6, f.confidence().and_then(|c| c.target_width_percent).unwrap_or(NONE)),
        ConfidenceIteration => int(f.confidence().map_or(1, |c| c.iterations)),
        ThroughputConfid => width(f, |c| c.throughput_width_percent),
        LocalCpuConfid => width(f, |c| c.local_cpu_width_percent),
        RemoteCpuConfid => width(f, |c| c.remote_cpu_width_percent),
        TransactionRate => fixed(3, f.transaction_rate),
        RtLatency => fixed(3, f.round_trip_us),
        BurstSize => int(f.flow().burst),
        LocalTransportRetrans => int(f.retransmits()),
        RemoteTransportRetrans => int(f.peer().retransmits),
        TransportMss => int(f.max_segment()),
        LocalSendThroughput => fixed(2, f.rate_of(f.counts().sent.0)),
        LocalRecvThroughput => fixed(2, f.rate_of(f.counts().received.0)),
        RemoteSendThroughput => fixed(2, f.rate_of(f.peer().bytes_sent)),
        RemoteRecvThroughput => fixed(2, f.rate_of(f.peer().bytes_received)),
        LocalCpuBind => asked(f.here().cpu),
        LocalCpuCount => int(cpus(&f.local, f.local_host())),
        LocalCpuPeakUtil => fixed(2, f.local.peak_busy),
        LocalCpuPeakId => int(f.local.peak_id),
        LocalCpuModel => fact(f.local_host(), |host| host.cpu_model.clone()),
        LocalCpuFrequency => int(f.local_host().and_then(|host| host.cpu_mhz).unwrap_or(0)),
        RemoteCpuBind => asked(f.there().cpu),
        RemoteCpuCount => int(cpus(&f.remote, f.remote_host())),
        RemoteCpuPeakUtil => fixed(2, f.remote.peak_busy),
        RemoteCpuPeakId => int(f.remote.peak_id),
        RemoteCpuModel => fact(f.remote_host(), |host| host.cpu_model.clone()),
        RemoteCpuFrequency => int(f.remote_host().and_then(|host| host.cpu_mhz).unwrap_or(0)),
        SourcePort => text(&f.settings.data.local_port),
        SourceAddr => text(&f.run.endpoints.source_name),
        SourceFamily => int(f.source_family()),
        DestPort => text(&f.settings.data.port),
        DestAddr => text(&f.run.endpoints.dest_name),
        DestFamily => int(f.dest_family()),
        LocalSendCalls => count(f.counts().send_calls),
        LocalRecvCalls => count(f.counts().receive_calls),
        LocalBytesPerRecv => fixed(2, f.bytes_a_receive()),
        LocalBytesPerSend => fixed(2, f.bytes_a_send()),
        LocalBytesSent => count(f.counts().sent.0),
        LocalBytesRecvd => count(f.counts().received.0),
        LocalBytesXferd => fixed(0, f.bytes_moved()),
        LocalSendOffset => int(f.here().send.offset),
        LocalRecvOffset => int(f.here().receive.offset),
        LocalSendAlign => int(f.here().send.alignment),
        LocalRecvAlign => int(f.here().receive.alignment),
        LocalSendWidth => int(f.send_width()),
        LocalRecvWidth => int(f.receive_width()),
        LocalSendDirtyCount => asked(f.here().touch.send_dirty_bytes),
        LocalRecvDirtyCount => asked(f.here().touch.receive_dirty_bytes),
        LocalRecvCleanCount => asked(f.here().touch.receive_clean_bytes),
        LocalNodelay => flag(f.no_delay()),
        LocalCork => flag(f.cork()),
        RemoteSendCalls => count(f.peer().send_calls),
        RemoteRecvCalls => count(f.peer().receive_calls),
        RemoteBytesPerRecv => fixed(2, f.bytes_a_remote_receive()),
        RemoteBytesPerSend => fixed(2, f.bytes_a_remote_send()),
        RemoteBytesSent => count(f.peer().bytes_sent),
        RemoteBytesRecvd => count(f.peer().bytes_received),
        RemoteBytesXferd if f.settings.no_control => int(-1),
        RemoteBytesXferd => fixed(0, f.remote_bytes_moved()),
        RemoteSendOffset => int(f.asked_there(f.there().send.offset)),
        RemoteRecvOffset => int(f.asked_there(f.there().receive.offset)),
        RemoteSendAlign => int(f.asked_there(f.there().send.alignment)),
        RemoteRecvAlign => int(f.asked_there(f.there().receive.alignment)),
        RemoteSendWidth => int(f.peer().send_width),
        RemoteRecvWidth => int(f.peer().receive_width),
        RemoteSendDirtyCount => asked(f.there().touch.send_dirty_bytes),
        RemoteRecvDirtyCount => asked(f.there().touch.receive_dirty_bytes),
        RemoteRecvCleanCount => asked(f.there().touch.receive_clean_bytes),
        RemoteNodelay => int(f.asked_there(f.peer().no_delay)),
        RemoteCork => flag(f.remote_cork()),
        LocalSysname => system(f.local_system(), |system| system.sysname),
        LocalSystemModel => fact(f.local_host(), |host| host.system_model.clone()),
        LocalRelease => system(f.local_system(), |system| system.release),
        LocalVersion => system(f.local_system(), |system| system.version),
        LocalMachine => system(f.local_system(), |system| system.machine),
        RemoteSysname => system(f.remote_system(), |system| system.sysname),
        RemoteSystemModel => fact(f.remote_host(), |host| host.system_model.clone()),
        RemoteRelease => system(f.remote_system(), |system| system.release),
        RemoteVersion => system(f.remote_system(), |system| system.version),
        RemoteMachine => system(f.remote_system(), |system| system.machine),
        LocalInterfaceName => interface::fact(f.local_interface(), |interface| Some(interface.name.clone())),
        LocalInterfaceVendor => interface::pci_id(f.local_interface(), |ids| ids.vendor),
        LocalInterfaceDevice => interface::pci_id(f.local_interface(), |ids| ids.device),
        LocalInterfaceSubvendor => interface::pci_id(f.local_interface(), |ids| ids.subvendor),
        LocalInterfaceSubdevice => interface::pci_id(f.local_interface(), |ids| ids.subdevice),
        LocalDriverName => interface::fact(f.local_interface(), |interface| interface.driver.clone()),
        LocalDriverVersion => interface::fact(f.local_interface(), |interface| interface.driver_version.clone()),
        LocalDriverFirmware => interface::fact(f.local_interface(), |interface| interface.firmware.clone()),
        LocalDriverBus => interface::fact(f.local_interface(), |interface| interface.bus.clone()),
        LocalInterfaceSlot => interface::fact(f.local_interface(), |interface| interface.slot.clone()),
        RemoteInterfaceName => interface::fact(f.remote_interface(), |interface| Some(interface.name.clone())),
        RemoteInterfaceVendor => interface::pci_id(f.remote_interface(), |ids| ids.vendor),
        RemoteInterfaceDevice => interface::pci_id(f.remote_interface(), |ids| ids.device),
        RemoteInterfaceSubvendor => interface::pci_id(f.remote_interface(), |ids| ids.subvendor),
        RemoteInterfaceSubdevice => interface::pci_id(f.remote_interface(), |ids| ids.subdevice),
        RemoteDriverName => interface::fact(f.remote_interface(), |interface| interface.driver.clone()),
        RemoteDriverVersion => interface::fact(f.remote_interface(), |interface| interface.driver_version.clone()),
        RemoteDriverFirmware => interface::fact(f.remote_interface(), |interface| interface.firmware.clone()),
        RemoteDriverBus => interface::fact(f.remote_interface(), |interface| interface.bus.clone()),
        RemoteInterfaceSlot => interface::fact(f.remote_interface(), |interface| interface.slot.clone()),
        LocalIntervalUsecs => interval_us(f.here()),
        LocalIntervalBurst => burst(f.here()),
        RemoteIntervalUsecs => interval_us(f.there()),
        RemoteIntervalBurst => burst(f.there()),
        LocalSecurityTypeId => int(security::type_id(f.local_host())),
        LocalSecurityType => text(security::type_name(f.local_host())),
        LocalSecurityEnabledNum => int(security::enabled_number(f.local_host())),
        LocalSecurityEnabled => text(security::enabled(f.local_host())),
        LocalSecuritySpecific => text(security::specific(f.local_host())),
        RemoteSecurityTypeId => int(security::type_id(f.remote_host())),
        RemoteSecurityType => text(security::type_name(f.remote_host())),
        RemoteSecurityEnabledNum => int(security::enabled_number(f.remote_host())),
        RemoteSecurityEnabled => text(security::enabled(f.remote_host())),
        RemoteSecuritySpecific => text(security::specific(f.remote_host())),
        ResultBrand => f.settings.print.brand.as_deref().and_then(quoted),
        Uuid => text(&f.settings.print.uuid),
        MinLatency => micros(f, |times| times.min_ns),
        // Up, so that no percentile is above it.
        MaxLatency => micros(f, |times| times.max_ns.next_multiple_of(1000)),
        P50Latency => micros(f, |times| times.p50_ns),
        P90Latency => micros(f, |times| times.p90_ns),
        P99Latency => micros(f, |times| times.p99_ns),
        MeanLatency => precise_micros(f, |times| times.mean_ns),
        StddevLatency => precise_micros(f, |times| times.deviation_ns),
        LocalSocketPrio => int(f.priority()),
        RemoteSocketPrio => int(f.remote_priority()),
        LocalSocketTos => hex(f.type_of_service()),
        RemoteSocketTos => hex(f.remote_type_of_service()),
        LocalCongControl => text(f.congestion_control()),
        RemoteCongControl => text(&f.peer().congestion_control),
        LocalFillFile => path(f.here().fill.as_deref()),
        RemoteFillFile => path(f.there().fill.as_deref()),
        CommandLine => quoted(&f.settings.print.command_line),
        OutputEnd => text(" "),
    }
}

/// "0x%.2x".
/// The width of a confidence interval, −1 when none was asked for. What was not measured has 0, as in
/// the stock tool.
fn width(figures: &Figures<'_>, of: fn(&Confidence) -> Option<f64>) -> Option<String> {
    fixed(
        3,
        figures
            .confidence()
            .map_or(NONE, |confidence| of(confidence).unwrap_or(0.0)),
    )
}

fn hex(value: i32) -> Option<String> {
    Some(format!("{value:#04x}"))
}

/// "%c".
fn letter(value: char) -> Option<String> {
    Some(value.to_string())
}

/// "\"%s\"".
fn quoted(value: &str) -> Option<String> {
    Some(format!("\"{value}\""))
}

fn flag(value: bool) -> Option<String> {
    int(i32::from(value))
}

/// −1 when nothing was asked for.
fn asked(value: Option<u32>) -> Option<String> {
    int(value.map_or(-1, i64::from))
}

/// 0 without pacing.
fn interval_us(half: &Half) -> Option<String> {
    count(
        half.pacing
            .map_or(0, |pacing| pacing.interval.as_micros() as u64),
    )
}

/// 0 without pacing.
fn burst(half: &Half) -> Option<String> {
    count(half.pacing.map_or(0, |pacing| pacing.burst))
}

fn path(value: Option<&Path>) -> Option<String> {
    text(&value.unwrap_or(Path::new("")).to_string_lossy())
}

/// A word of uname(2). A stock peer's is "Deprecated".
fn system(system: Option<SysInfo>, word: fn(SysInfo) -> String) -> Option<String> {
    system
        .map(word)
        .filter(|word| !word.is_empty())
        .or_else(deprecated)
}

/// What is known of a host. A stock peer tells nothing.
fn fact(host: Option<&HostFacts>, fact: fn(&HostFacts) -> Option<String>) -> Option<String> {
    match host {
        Some(host) => fact(host).or_else(|| text(UNKNOWN)),
        None => deprecated(),
    }
}

/// CPUs online; 0 of a stock peer that did not measure.
fn cpus(measured: &Processor, host: Option<&HostFacts>) -> u32 {
    match (measured.cpus, host) {
        (0, Some(host)) => host.cpus.unwrap_or(0),
        (cpus, _) => cpus,
    }
}

fn deprecated() -> Option<String> {
    text(DEPRECATED)
}

/// Whole microseconds of a latency in nanoseconds, −1 when none were recorded.
fn micros(figures: &Figures<'_>, figure: fn(&Summary) -> u64) -> Option<String> {
    int(figures
        .summary
        .as_ref()
        .map_or(-1, |times| (figure(times) / 1000) as i64))
}

/// Microseconds of a latency in nanoseconds, −1.00 when none were recorded.
fn precise_micros(figures: &Figures<'_>, figure: fn(&Summary) -> f64) -> Option<String> {
    fixed(
        2,
        figures
            .summary
            .as_ref()
            .map_or(NONE, |times| figure(times) / 1000.0),
    )
}
