//! What omni output can print: every selector, its column header and its value.

#![expect(
    clippy::unnecessary_wraps,
    reason = "each helper gives a selector's value, and a selector may have none"
)]

use std::path::Path;

use stats::Summary;

use super::figures::{Figures, NONE};

/// One figure that test options `-o`, `-O` and `-k` can ask for by name.
pub struct Selector {
    /// Its name, upper case.
    pub name: &'static str,
    /// The lines of its column header, "" where it has fewer than four.
    pub header: [&'static str; 4],
    /// Its text; `None` where the run has no value for it.
    pub(crate) value: fn(&Figures<'_>) -> Option<String>,
}

/// Every selector in the stock tool's order, which is also the order of `all`.
///
/// What the stock tool has given up to find out prints its word for that, "Deprecated". REMOTE_CORK
/// is this end's: one option is for both, and the protocol has no word for it.
#[rustfmt::skip]
pub static SELECTORS: [Selector; 175] = [
    selector("OUTPUT_NONE", [" ", "", "", ""], |_| text(" ")),
    selector("SOCKET_TYPE", ["Socket", "Type", "", ""], |f| text(f.socket_type())),
    selector("PROTOCOL", ["Protocol", "", "", ""], |f| text(f.protocol())),
    selector("DIRECTION", ["Direction", "", "", ""], |f| text(f.direction())),
    selector("ELAPSED_TIME", ["Elapsed", "Time", "(sec)", ""], |f| fixed(2, f.elapsed)),
    selector("THROUGHPUT", ["Throughput", "", "", ""], |f| fixed(2, f.throughput)),
    selector("THROUGHPUT_UNITS", ["Throughput", "Units", "", ""], |f| Some(format!("{}/s", f.unit.name()))),
    selector("LSS_SIZE_REQ", ["Local", "Send Socket", "Size", "Requested"], |f| asked(f.here().socket.send_buffer_bytes)),
    selector("LSS_SIZE", ["Local", "Send Socket", "Size", "Initial"], |f| int(f.send_buffer())),
    selector("LSS_SIZE_END", ["Local", "Send Socket", "Size", "Final"], |f| int(f.send_buffer_end())),
    selector("LSR_SIZE_REQ", ["Local", "Recv Socket", "Size", "Requested"], |f| asked(f.here().socket.receive_buffer_bytes)),
    selector("LSR_SIZE", ["Local", "Recv Socket", "Size", "Initial"], |f| int(f.receive_buffer())),
    selector("LSR_SIZE_END", ["Local", "Recv Socket", "Size", "Final"], |f| int(f.receive_buffer_end())),
    selector("RSS_SIZE_REQ", ["Remote", "Send Socket", "Size", "Requested"], |f| asked(f.there().socket.send_buffer_bytes)),
    selector("RSS_SIZE", ["Remote", "Send Socket", "Size", "Initial"], |f| int(f.told().send_buffer)),
    selector("RSS_SIZE_END", ["Remote", "Send Socket", "Size", "Final"], |f| int(f.told().send_buffer_end)),
    selector("RSR_SIZE_REQ", ["Remote", "Recv Socket", "Size", "Requested"], |f| asked(f.there().socket.receive_buffer_bytes)),
    selector("RSR_SIZE", ["Remote", "Recv Socket", "Size", "Initial"], |f| int(f.told().receive_buffer)),
    selector("RSR_SIZE_END", ["Remote", "Recv Socket", "Size", "Final"], |f| int(f.told().receive_buffer_end)),
    selector("LOCAL_SEND_SIZE", ["Local", "Send", "Size", ""], |f| int(f.send_size())),
    selector("LOCAL_RECV_SIZE", ["Local", "Recv", "Size", ""], |f| int(f.receive_size())),
    selector("REMOTE_SEND_SIZE", ["Remote", "Send", "Size", ""], |f| int(f.told().send_size)),
    selector("REMOTE_RECV_SIZE", ["Remote", "Recv", "Size", ""], |f| int(f.told().receive_size)),
    selector("REQUEST_SIZE", ["Request", "Size", "Bytes", ""], |f| int(f.request_size())),
    selector("RESPONSE_SIZE", ["Response", "Size", "Bytes", ""], |f| int(f.response_size())),
    selector("LOCAL_CPU_UTIL", ["Local", "CPU", "Util", "%"], |f| fixed(2, f.local.busy)),
    selector("LOCAL_CPU_PERCENT_USER", ["Local", "CPU", "User", "%"], |f| fixed(2, f.local.user)),
    selector("LOCAL_CPU_PERCENT_SYSTEM", ["Local", "CPU", "System", "%"], |f| fixed(2, f.local.system)),
    selector("LOCAL_CPU_PERCENT_IOWAIT", ["Local", "CPU", "I/O", "%"], |f| fixed(2, f.local.iowait)),
    selector("LOCAL_CPU_PERCENT_IRQ", ["Local", "CPU", "IRQ", "%"], |f| fixed(2, f.local.irq)),
    selector("LOCAL_CPU_PERCENT_SWINTR", ["Local", "CPU", "swintr", "%"], |f| fixed(2, f.local.softirq)),
    selector("LOCAL_CPU_METHOD", ["Local", "CPU", "Util", "Method"], |f| letter(f.local.method)),
    selector("LOCAL_SD", ["Local", "Service", "Demand", ""], |f| fixed(3, f.local.demand)),
    selector("REMOTE_CPU_UTIL", ["Remote", "CPU", "Util", "%"], |f| fixed(2, f.remote.busy)),
    selector("REMOTE_CPU_PERCENT_USER", ["Remote", "CPU", "User", "%"], |f| fixed(2, f.remote.user)),
    selector("REMOTE_CPU_PERCENT_SYSTEM", ["Remote", "CPU", "System", "%"], |f| fixed(2, f.remote.system)),
    selector("REMOTE_CPU_PERCENT_IOWAIT", ["Remote", "CPU", "I/O", "%"], |f| fixed(2, f.remote.iowait)),
    selector("REMOTE_CPU_PERCENT_IRQ", ["Remote", "CPU", "IRQ", "%"], |f| fixed(2, f.remote.irq)),
    selector("REMOTE_CPU_PERCENT_SWINTR", ["Remote", "CPU", "swintr", "%"], |f| fixed(2, f.remote.softirq)),
    selector("REMOTE_CPU_METHOD", ["Remote", "CPU", "Util", "Method"], |f| letter(f.remote.method)),
    selector("REMOTE_SD", ["Remote", "Service", "Demand", ""], |f| fixed(3, f.remote.demand)),
    selector("SD_UNITS", ["Service", "Demand", "Units", ""], |f| text(f.demand_unit())),
    selector("CONFIDENCE_LEVEL", ["Confidence", "Level", "Percent", ""], |_| int(0)),
    selector("CONFIDENCE_INTERVAL", ["Confidence", "Width", "Target", ""], |_| fixed(6, NONE)),
    selector("CONFIDENCE_ITERATION", ["Confidence", "Iterations", "Run", ""], |_| int(1)),
    selector("THROUGHPUT_CONFID", ["Throughput", "Confidence", "Width (%)", ""], |_| fixed(3, NONE)),
    selector("LOCAL_CPU_CONFID", ["Local", "CPU", "Confidence", "Width (%)"], |_| fixed(3, NONE)),
    selector("REMOTE_CPU_CONFID", ["Remote", "CPU", "Confidence", "Width (%)"], |_| fixed(3, NONE)),
    selector("TRANSACTION_RATE", ["Transaction", "Rate", "Tran/s", ""], |f| fixed(3, f.transaction_rate)),
    selector("RT_LATENCY", ["Round", "Trip", "Latency", "usec/tran"], |f| fixed(3, f.round_trip_us)),
    selector("BURST_SIZE", ["Initial", "Burst", "Requests", ""], |f| int(f.plan().burst)),
    selector("LOCAL_TRANSPORT_RETRANS", ["Local", "Transport", "Retransmissions", ""], |f| int(f.retransmits())),
    selector("REMOTE_TRANSPORT_RETRANS", ["Remote", "Transport", "Retransmissions", ""], |f| int(f.told().retransmits)),
    selector("TRANSPORT_MSS", ["Transport", "MSS", "bytes", ""], |f| int(f.max_segment())),
    selector("LOCAL_SEND_THROUGHPUT", ["Local", "Send", "Throughput", ""], |f| fixed(2, f.rate_of(f.counts().sent.0))),
    selector("LOCAL_RECV_THROUGHPUT", ["Local", "Recv", "Throughput", ""], |f| fixed(2, f.rate_of(f.counts().received.0))),
    selector("REMOTE_SEND_THROUGHPUT", ["Remote", "Send", "Throughput", ""], |f| fixed(2, f.rate_of(f.told().bytes_sent))),
    selector("REMOTE_RECV_THROUGHPUT", ["Remote", "Recv", "Throughput", ""], |f| fixed(2, f.rate_of(f.told().bytes_received))),
    selector("LOCAL_CPU_BIND", ["Local", "CPU", "Bind", ""], |f| asked(f.here().cpu)),
    selector("LOCAL_CPU_COUNT", ["Local", "CPU", "Count", ""], |f| int(f.local.cpus)),
    selector("LOCAL_CPU_PEAK_UTIL", ["Local", "Peak", "Per CPU", "Util %"], |f| fixed(2, f.local.peak_busy)),
    selector("LOCAL_CPU_PEAK_ID", ["Local", "Peak", "Per CPU", "ID"], |f| int(f.local.peak_id)),
    selector("LOCAL_CPU_MODEL", ["Local", "CPU", "Model", ""], |_| deprecated()),
    selector("LOCAL_CPU_FREQUENCY", ["Local", "CPU", "Frequency", "MHz"], |_| int(0)),
    selector("REMOTE_CPU_BIND", ["Remote", "CPU", "Bind", ""], |f| asked(f.there().cpu)),
    selector("REMOTE_CPU_COUNT", ["Remote", "CPU", "Count", ""], |f| int(f.remote.cpus)),
    selector("REMOTE_CPU_PEAK_UTIL", ["Remote", "Peak", "Per CPU", "Util %"], |f| fixed(2, f.remote.peak_busy)),
    selector("REMOTE_CPU_PEAK_ID", ["Remote", "Peak", "Per CPU", "ID"], |f| int(f.remote.peak_id)),
    selector("REMOTE_CPU_MODEL", ["Remote", "CPU", "Model", ""], |_| deprecated()),
    selector("REMOTE_CPU_FREQUENCY", ["Remote", "CPU", "Frequency", "MHz"], |_| int(0)),
    selector("SOURCE_PORT", ["Source", "Port", "", ""], |f| text(&f.settings.data.local_port)),
    selector("SOURCE_ADDR", ["Source", "Address", "", ""], |f| text(&f.run.endpoints.source_name)),
    selector("SOURCE_FAMILY", ["Source", "Family", "", ""], |f| int(f.source_family())),
    selector("DEST_PORT", ["Destination", "Port", "", ""], |f| text(&f.settings.data.port)),
    selector("DEST_ADDR", ["Destination", "Address", "", ""], |f| text(&f.run.endpoints.dest_name)),
    selector("DEST_FAMILY", ["Destination", "Family", "", ""], |f| int(f.dest_family())),
    selector("LOCAL_SEND_CALLS", ["Local", "Send", "Calls", ""], |f| count(f.counts().send_calls)),
    selector("LOCAL_RECV_CALLS", ["Local", "Recv", "Calls", ""], |f| count(f.counts().receive_calls)),
    selector("LOCAL_BYTES_PER_RECV", ["Local", "Bytes", "Per", "Recv"], |f| fixed(2, f.bytes_a_receive())),
    selector("LOCAL_BYTES_PER_SEND", ["Local", "Bytes", "Per", "Send"], |f| fixed(2, f.bytes_a_send())),
    selector("LOCAL_BYTES_SENT", ["Local", "Bytes", "Sent", ""], |f| count(f.counts().sent.0)),
    selector("LOCAL_BYTES_RECVD", ["Local", "Bytes", "Received", ""], |f| count(f.counts().received.0)),
    selector("LOCAL_BYTES_XFERD", ["Local", "Bytes", "Xferred", ""], |f| fixed(0, f.bytes_moved())),
    selector("LOCAL_SEND_OFFSET", ["Local", "Send", "Offset", ""], |f| int(f.here().send.offset)),
    selector("LOCAL_RECV_OFFSET", ["Local", "Recv", "Offset", ""], |f| int(f.here().receive.offset)),
    selector("LOCAL_SEND_ALIGN", ["Local", "Send", "Alignment", ""], |f| int(f.here().send.alignment)),
    selector("LOCAL_RECV_ALIGN", ["Local", "Recv", "Alignment", ""], |f| int(f.here().receive.alignment)),
    selector("LOCAL_SEND_WIDTH", ["Local", "Send", "Width", ""], |f| int(f.send_width())),
    selector("LOCAL_RECV_WIDTH", ["Local", "Recv", "Width", ""], |f| int(f.receive_width())),
    selector("LOCAL_SEND_DIRTY_COUNT", ["Local", "Send", "Dirty", "Count"], |f| int(f.settings.dirty.local_dirty)),
    selector("LOCAL_RECV_DIRTY_COUNT", ["Local", "Recv", "Dirty", "Count"], |f| int(f.settings.dirty.local_dirty)),
    selector("LOCAL_RECV_CLEAN_COUNT", ["Local", "Recv", "Clean", "Count"], |f| int(f.settings.dirty.local_clean)),
    selector("LOCAL_NODELAY", ["Local", "NODELAY", "", ""], |f| flag(f.here().socket.no_delay)),
    selector("LOCAL_CORK", ["Local", "Cork", "", ""], |f| flag(f.here().socket.cork)),
    selector("REMOTE_SEND_CALLS", ["Remote", "Send", "Calls", ""], |f| count(f.told().send_calls)),
    selector("REMOTE_RECV_CALLS", ["Remote", "Recv", "Calls", ""], |f| count(f.told().receive_calls)),
    selector("REMOTE_BYTES_PER_RECV", ["Remote", "Bytes", "Per", "Recv"], |f| fixed(2, f.bytes_a_remote_receive())),
    selector("REMOTE_BYTES_PER_SEND", ["Remote", "Bytes", "Per", "Send"], |f| fixed(2, f.bytes_a_remote_send())),
    selector("REMOTE_BYTES_SENT", ["Remote", "Bytes", "Sent", ""], |f| count(f.told().bytes_sent)),
    selector("REMOTE_BYTES_RECVD", ["Remote", "Bytes", "Received", ""], |f| count(f.told().bytes_received)),
    selector("REMOTE_BYTES_XFERD", ["Remote", "Bytes", "Xferred", ""], |f| fixed(0, f.remote_bytes_moved())),
    selector("REMOTE_SEND_OFFSET", ["Remote", "Send", "Offset", ""], |f| int(f.there().send.offset)),
    selector("REMOTE_RECV_OFFSET", ["Remote", "Recv", "Offset", ""], |f| int(f.there().receive.offset)),
    selector("REMOTE_SEND_ALIGN", ["Remote", "Send", "Alignment", ""], |f| int(f.there().send.alignment)),
    selector("REMOTE_RECV_ALIGN", ["Remote", "Recv", "Alignment", ""], |f| int(f.there().receive.alignment)),
    selector("REMOTE_SEND_WIDTH", ["Remote", "Send", "Width", ""], |f| int(f.told().send_width)),
    selector("REMOTE_RECV_WIDTH", ["Remote", "Recv", "Width", ""], |f| int(f.told().receive_width)),
    selector("REMOTE_SEND_DIRTY_COUNT", ["Remote", "Send", "Dirty", "Count"], |f| int(f.settings.dirty.remote_dirty)),
    selector("REMOTE_RECV_DIRTY_COUNT", ["Remote", "Recv", "Dirty", "Count"], |f| int(f.settings.dirty.remote_dirty)),
    selector("REMOTE_RECV_CLEAN_COUNT", ["Remote", "Recv", "Clean", "Count"], |f| int(f.settings.dirty.remote_clean)),
    selector("REMOTE_NODELAY", ["Remote", "NODELAY", "", ""], |f| flag(f.told().no_delay)),
    selector("REMOTE_CORK", ["Remote", "Cork", "", ""], |f| flag(f.here().socket.cork)),
    selector("LOCAL_SYSNAME", ["Local", "Sysname", "", ""], |_| deprecated()),
    selector("LOCAL_SYSTEM_MODEL", ["Local", "System", "Model", ""], |_| deprecated()),
    selector("LOCAL_RELEASE", ["Local", "Release", "", ""], |_| deprecated()),
    selector("LOCAL_VERSION", ["Local", "Version", "", ""], |_| deprecated()),
    selector("LOCAL_MACHINE", ["Local", "Machine", "", ""], |_| deprecated()),
    selector("REMOTE_SYSNAME", ["Remote", "Sysname", "", ""], |_| deprecated()),
    selector("REMOTE_SYSTEM_MODEL", ["Remote", "System", "Model", ""], |_| deprecated()),
    selector("REMOTE_RELEASE", ["Remote", "Release", "", ""], |_| deprecated()),
    selector("REMOTE_VERSION", ["Remote", "Version", "", ""], |_| deprecated()),
    selector("REMOTE_MACHINE", ["Remote", "Machine", "", ""], |_| deprecated()),
    selector("LOCAL_INTERFACE_NAME", ["Local", "Interface", "Name", ""], |_| deprecated()),
    selector("LOCAL_INTERFACE_VENDOR", ["Local", "Interface", "Vendor", ""], |_| unknown_id()),
    selector("LOCAL_INTERFACE_DEVICE", ["Local", "Interface", "Device", ""], |_| unknown_id()),
    selector("LOCAL_INTERFACE_SUBVENDOR", ["Local", "Interface", "Subvendor", ""], |_| unknown_id()),
    selector("LOCAL_INTERFACE_SUBDEVICE", ["Local", "Interface", "Subdevice", ""], |_| unknown_id()),
    selector("LOCAL_DRIVER_NAME", ["Local", "Driver", "Name", ""], |_| deprecated()),
    selector("LOCAL_DRIVER_VERSION", ["Local", "Driver", "Version", ""], |_| deprecated()),
    selector("LOCAL_DRIVER_FIRMWARE", ["Local", "Driver", "Firmware", ""], |_| deprecated()),
    selector("LOCAL_DRIVER_BUS", ["Local", "Driver", "Bus", ""], |_| deprecated()),
    selector("LOCAL_INTERFACE_SLOT", ["Local", "Interface", "Slot", ""], |_| deprecated()),
    selector("REMOTE_INTERFACE_NAME", ["Remote", "Interface", "Name", ""], |_| deprecated()),
    selector("REMOTE_INTERFACE_VENDOR", ["Remote", "Interface", "Vendor", ""], |_| unknown_id()),
    selector("REMOTE_INTERFACE_DEVICE", ["Remote", "Interface", "Device", ""], |_| unknown_id()),
    selector("REMOTE_INTERFACE_SUBVENDOR", ["Remote", "Interface", "Subvendor", ""], |_| unknown_id()),
    selector("REMOTE_INTERFACE_SUBDEVICE", ["Remote", "Interface", "Subdevice", ""], |_| unknown_id()),
    selector("REMOTE_DRIVER_NAME", ["Remote", "Driver", "Name", ""], |_| deprecated()),
    selector("REMOTE_DRIVER_VERSION", ["Remote", "Driver", "Version", ""], |_| deprecated()),
    selector("REMOTE_DRIVER_FIRMWARE", ["Remote", "Driver", "Firmware", ""], |_| deprecated()),
    selector("REMOTE_DRIVER_BUS", ["Remote", "Driver", "Bus", ""], |_| deprecated()),
    selector("REMOTE_INTERFACE_SLOT", ["Remote", "Interface", "Slot", ""], |_| deprecated()),
    selector("LOCAL_INTERVAL_USECS", ["Local", "Interval", "Usecs", ""], |_| int(0)),
    selector("LOCAL_INTERVAL_BURST", ["Local", "Interval", "Burst", ""], |_| int(0)),
    selector("REMOTE_INTERVAL_USECS", ["Remote", "Interval", "Usecs", ""], |f| int(f.settings.remote_pacing.interval_us)),
    selector("REMOTE_INTERVAL_BURST", ["Remote", "Interval", "Burst", ""], |f| int(f.settings.remote_pacing.burst)),
    selector("LOCAL_SECURITY_TYPE_ID", ["Local", "OS", "Security", "Type ID"], |_| int(0)),
    selector("LOCAL_SECURITY_TYPE", ["Local", "OS", "Security", "Type"], |_| deprecated()),
    selector("LOCAL_SECURITY_ENABLED_NUM", ["Local", "OS", "Security", "Enabled Num"], |_| int(0)),
    selector("LOCAL_SECURITY_ENABLED", ["Local", "OS", "Security", "Enabled"], |_| deprecated()),
    selector("LOCAL_SECURITY_SPECIFIC", ["Local", "OS", "Security", "Specific"], |_| deprecated()),
    selector("REMOTE_SECURITY_TYPE_ID", ["Remote", "OS", "Security", "Type"], |_| int(0)),
    selector("REMOTE_SECURITY_TYPE", ["Remote", "OS", "Security", "Type"], |_| deprecated()),
    selector("REMOTE_SECURITY_ENABLED_NUM", ["Remote", "OS", "Security", "Enabled"], |_| int(0)),
    selector("REMOTE_SECURITY_ENABLED", ["Remote", "OS", "Security", "Enabled"], |_| deprecated()),
    selector("REMOTE_SECURITY_SPECIFIC", ["Remote", "OS", "Security", "Specific"], |_| deprecated()),
    selector("RESULT_BRAND", ["Result", "Tag", "", ""], |f| f.settings.print.brand.as_deref().and_then(quoted)),
    selector("UUID", ["Test", "UUID", "", ""], |f| text(&f.settings.print.uuid)),
    selector("MIN_LATENCY", ["Minimum", "Latency", "Microseconds", ""], |f| micros(f, |times| times.min_ns)),
    selector("MAX_LATENCY", ["Maximum", "Latency", "Microseconds", ""], |f| micros(f, |times| times.max_ns)),
    selector("P50_LATENCY", ["50th", "Percentile", "Latency", "Microseconds"], |f| micros(f, |times| times.p50_ns)),
    selector("P90_LATENCY", ["90th", "Percentile", "Latency", "Microseconds"], |f| micros(f, |times| times.p90_ns)),
    selector("P99_LATENCY", ["99th", "Percentile", "Latency", "Microseconds"], |f| micros(f, |times| times.p99_ns)),
    selector("MEAN_LATENCY", ["Mean", "Latency", "Microseconds", ""], |f| precise_micros(f, |times| times.mean_ns)),
    selector("STDDEV_LATENCY", ["Stddev", "Latency", "Microseconds", ""], |f| precise_micros(f, |times| times.deviation_ns)),
    selector("LOCAL_SOCKET_PRIO", ["Local", "Socket", "Priority", ""], |f| int(f.priority())),
    selector("REMOTE_SOCKET_PRIO", ["Remote", "Socket", "Priority", ""], |f| int(f.told().priority)),
    selector("LOCAL_SOCKET_TOS", ["Local", "Socket", "TOS", ""], |f| hex(f.type_of_service())),
    selector("REMOTE_SOCKET_TOS", ["Remote", "Socket", "TOS", ""], |f| hex(f.told().type_of_service)),
    selector("LOCAL_CONG_CONTROL", ["Local", "Congestion", "Control", "Algorithm"], |f| text(f.congestion_control())),
    selector("REMOTE_CONG_CONTROL", ["Remote", "Congestion", "Control", "Algorithm"], |f| text(&f.told().congestion_control)),
    selector("LOCAL_FILL_FILE", ["Local", "Fill", "File", ""], |f| path(f.here().fill.as_deref())),
    selector("REMOTE_FILL_FILE", ["Remote", "Fill", "File", ""], |f| path(f.there().fill.as_deref())),
    selector("COMMAND_LINE", ["Command", "Line", "", ""], |f| quoted(&f.settings.print.command_line)),
    selector("OUTPUT_END", ["This", "Is", "The", "End"], |_| text(" ")),
];

const fn selector(
    name: &'static str,
    header: [&'static str; 4],
    value: fn(&Figures<'_>) -> Option<String>,
) -> Selector {
    Selector {
        name,
        header,
        value,
    }
}

/// "%s".
fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// "%d".
fn int(value: impl Into<i64>) -> Option<String> {
    Some(value.into().to_string())
}

/// "%llu".
fn count(value: u64) -> Option<String> {
    Some(value.to_string())
}

/// "%.2f" and the like.
fn fixed(places: usize, value: f64) -> Option<String> {
    Some(format!("{value:.places$}"))
}

/// "%c".
fn letter(value: char) -> Option<String> {
    Some(value.to_string())
}

/// "0x%.2x".
fn hex(value: i32) -> Option<String> {
    Some(format!("{value:#04x}"))
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

fn path(value: Option<&Path>) -> Option<String> {
    text(&value.unwrap_or(Path::new("")).to_string_lossy())
}

fn deprecated() -> Option<String> {
    text("Deprecated")
}

/// The interface's PCI numbers, which the stock tool has given up to find out.
fn unknown_id() -> Option<String> {
    text("0xfffffffe")
}

/// Whole microseconds of a latency in nanoseconds, −1 when none were recorded.
fn micros(figures: &Figures<'_>, figure: fn(&Summary) -> u64) -> Option<String> {
    int(figures
        .times
        .as_ref()
        .map_or(-1, |times| (figure(times) / 1000) as i64))
}

/// Microseconds of a latency in nanoseconds, −1.00 when none were recorded.
fn precise_micros(figures: &Figures<'_>, figure: fn(&Summary) -> f64) -> Option<String> {
    fixed(
        2,
        figures
            .times
            .as_ref()
            .map_or(NONE, |times| figure(times) / 1000.0),
    )
}
