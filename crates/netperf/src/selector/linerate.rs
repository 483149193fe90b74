//! The selectors that stock lacks, in the order of `?`. `all` does not include them.

/// Passes the table to the macro `$expand`. Each row has the selector's name, the lines of its
/// column header, and the closure that formats its value. `output/values/` uses the closures.
macro_rules! linerate_selectors {
    ($expand:ident) => {
        $expand! {
            "WARNINGS" ["Warnings"] |f| Some(warnings(f)),
            "LATE_DATAGRAMS" ["Late", "Datagrams"] |f| int(late_datagrams(f).map_or(-1, |late| late as i64)),
            "LOST_DATAGRAMS" ["Lost", "Datagrams"] |f| int(lost_datagrams(f).map_or(-1, |lost| lost as i64)),
            "DROPPED_DATAGRAMS" ["Datagrams", "Dropped By", "Receiver's", "Socket"] |f| int(dropped_datagrams(f).map_or(-1, |dropped| dropped as i64)),
            "LOCAL_DATAGRAMS_PER_CALL" ["Local", "Datagrams", "Per Call"] |f| datagrams_per_call(local_side(f)),
            "REMOTE_DATAGRAMS_PER_CALL" ["Remote", "Datagrams", "Per Call"] |f| datagrams_per_call(remote_side(f)),
            "LATENCY_SAMPLES" ["Latency", "Samples"] |f| int(f.summary.map_or(-1, |it| it.count as i64)),
            "FLOWS" ["Flows"] |f| int(FlowStatistics::from_figures(f, FlowDirection::Both).flows as i64),
            "FLOW_MIN_THROUGHPUT" ["Slowest", "Flow's", "Throughput"] |f| fixed(2, FlowStatistics::from_figures(f, FlowDirection::Both).slowest),
            "FLOW_MAX_THROUGHPUT" ["Fastest", "Flow's", "Throughput"] |f| fixed(2, FlowStatistics::from_figures(f, FlowDirection::Both).fastest),
            "JAIN_INDEX" ["Jain's", "Fairness", "Index"] |f| fixed(6, FlowStatistics::from_figures(f, FlowDirection::Both).jain),
            "FLOW_START_SPREAD" ["Flows'", "Start", "Spread", "Microseconds"] |f| fixed(3, start_spread_us(f)),
            "OUTBOUND_THROUGHPUT" ["Outbound", "Flows'", "Throughput"] |f| direction_throughput(f, FlowDirection::Outbound),
            "INBOUND_THROUGHPUT" ["Inbound", "Flows'", "Throughput"] |f| direction_throughput(f, FlowDirection::Inbound),
            "LOCAL_PACING_TARGET" ["Local", "Pacing", "Target", "per sec"] |f| pacing_target(f, f.local_plan()),
            "LOCAL_PACING_RATE" ["Local", "Pacing", "Rate", "per sec"] |f| pacing_rate(pacing_result(local_side(f))),
            "LOCAL_LATE_INTERVALS" ["Local", "Late", "Intervals"] |f| late_intervals(pacing_result(local_side(f))),
            "LOCAL_MIN_GAP" ["Local", "Minimum", "Gap", "Microseconds"] |f| gap_us(local_side(f), |it| it.min_ns as f64),
            "LOCAL_MEAN_GAP" ["Local", "Mean", "Gap", "Microseconds"] |f| gap_us(local_side(f), |it| it.mean_ns),
            "LOCAL_P50_GAP" ["Local", "50th Percentile", "Gap", "Microseconds"] |f| gap_us(local_side(f), |it| it.p50_ns as f64),
            "LOCAL_P99_GAP" ["Local", "99th Percentile", "Gap", "Microseconds"] |f| gap_us(local_side(f), |it| it.p99_ns as f64),
            "LOCAL_MAX_GAP" ["Local", "Maximum", "Gap", "Microseconds"] |f| gap_us(local_side(f), |it| it.max_ns as f64),
            "REMOTE_PACING_TARGET" ["Remote", "Pacing", "Target", "per sec"] |f| pacing_target(f, f.remote_plan()),
            "REMOTE_PACING_RATE" ["Remote", "Pacing", "Rate", "per sec"] |f| pacing_rate(pacing_result(remote_side(f))),
            "REMOTE_LATE_INTERVALS" ["Remote", "Late", "Intervals"] |f| late_intervals(pacing_result(remote_side(f))),
            "REMOTE_MIN_GAP" ["Remote", "Minimum", "Gap", "Microseconds"] |f| gap_us(remote_side(f), |it| it.min_ns as f64),
            "REMOTE_MEAN_GAP" ["Remote", "Mean", "Gap", "Microseconds"] |f| gap_us(remote_side(f), |it| it.mean_ns),
            "REMOTE_P50_GAP" ["Remote", "50th Percentile", "Gap", "Microseconds"] |f| gap_us(remote_side(f), |it| it.p50_ns as f64),
            "REMOTE_P99_GAP" ["Remote", "99th Percentile", "Gap", "Microseconds"] |f| gap_us(remote_side(f), |it| it.p99_ns as f64),
            "REMOTE_MAX_GAP" ["Remote", "Maximum", "Gap", "Microseconds"] |f| gap_us(remote_side(f), |it| it.max_ns as f64),
            "CLOCK_COST_NS" ["Clock", "Cost", "Nanoseconds"] |f| fixed(1, f.clock().map_or(NOT_MEASURED, |clock| clock.cost_ns)),
            "CLOCK_RESOLUTION_NS" ["Clock", "Resolution", "Nanoseconds"] |f| int(f.clock().map_or(-1, |clock| clock.resolution_ns as i64)),
            "LOCAL_INTERFACE_RX_PACKETS" ["Local", "Interface", "Received", "Packets"] |f| interface::format_counter(f.local_interface(), |it| it.received_packets),
            "LOCAL_INTERFACE_RX_BYTES" ["Local", "Interface", "Received", "Bytes"] |f| interface::format_counter(f.local_interface(), |it| it.received_bytes),
            "LOCAL_INTERFACE_TX_PACKETS" ["Local", "Interface", "Sent", "Packets"] |f| interface::format_counter(f.local_interface(), |it| it.sent_packets),
            "LOCAL_INTERFACE_TX_BYTES" ["Local", "Interface", "Sent", "Bytes"] |f| interface::format_counter(f.local_interface(), |it| it.sent_bytes),
            "REMOTE_INTERFACE_RX_PACKETS" ["Remote", "Interface", "Received", "Packets"] |f| interface::format_counter(f.remote_interface(), |it| it.received_packets),
            "REMOTE_INTERFACE_RX_BYTES" ["Remote", "Interface", "Received", "Bytes"] |f| interface::format_counter(f.remote_interface(), |it| it.received_bytes),
            "REMOTE_INTERFACE_TX_PACKETS" ["Remote", "Interface", "Sent", "Packets"] |f| interface::format_counter(f.remote_interface(), |it| it.sent_packets),
            "REMOTE_INTERFACE_TX_BYTES" ["Remote", "Interface", "Sent", "Bytes"] |f| interface::format_counter(f.remote_interface(), |it| it.sent_bytes),
            "PACKETS_PER_TRANSACTION" ["Packets", "Per", "Transaction"] |f| fixed(3, f.packets_per_transaction()),
            "MULTIPATH" ["Multipath", "TCP", "In Force"] |f| flag_or_minus_one(local_side(f).and_then(|side| side.socket.multipath)),
            "DATA_IN_SYN" ["Data", "Taken With", "First Segment"] |f| flag_or_minus_one(local_side(f).and_then(|side| side.socket.data_in_syn)),
        }
    };
}

pub(crate) use linerate_selectors;
