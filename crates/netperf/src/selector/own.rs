//! The selectors that the stock tool has not got. They print when they are named, never with `all`.

use super::selectors;

selectors! {
    /// Selectors of our own, in the order in which `?` lists them.
    pub enum Own {
        Warnings = "WARNINGS" ["Warnings"],
        LateDatagrams = "LATE_DATAGRAMS" ["Late", "Datagrams"],
        LostDatagrams = "LOST_DATAGRAMS" ["Lost", "Datagrams"],
        LatencySamples = "LATENCY_SAMPLES" ["Latency", "Samples"],
        Flows = "FLOWS" ["Flows"],
        FlowMinThroughput = "FLOW_MIN_THROUGHPUT" ["Slowest", "Flow's", "Throughput"],
        FlowMaxThroughput = "FLOW_MAX_THROUGHPUT" ["Fastest", "Flow's", "Throughput"],
        JainIndex = "JAIN_INDEX" ["Jain's", "Fairness", "Index"],
        FlowStartSpread = "FLOW_START_SPREAD" ["Flows'", "Start", "Spread", "Microseconds"],
        OutboundThroughput = "OUTBOUND_THROUGHPUT" ["Outbound", "Flows'", "Throughput"],
        InboundThroughput = "INBOUND_THROUGHPUT" ["Inbound", "Flows'", "Throughput"],
        LocalPacingTarget = "LOCAL_PACING_TARGET" ["Local", "Pacing", "Target", "per sec"],
        LocalPacingRate = "LOCAL_PACING_RATE" ["Local", "Pacing", "Rate", "per sec"],
        LocalLateIntervals = "LOCAL_LATE_INTERVALS" ["Local", "Late", "Intervals"],
        LocalMinGap = "LOCAL_MIN_GAP" ["Local", "Minimum", "Gap", "Microseconds"],
        LocalMeanGap = "LOCAL_MEAN_GAP" ["Local", "Mean", "Gap", "Microseconds"],
        LocalP50Gap = "LOCAL_P50_GAP" ["Local", "50th Percentile", "Gap", "Microseconds"],
        LocalP99Gap = "LOCAL_P99_GAP" ["Local", "99th Percentile", "Gap", "Microseconds"],
        LocalMaxGap = "LOCAL_MAX_GAP" ["Local", "Maximum", "Gap", "Microseconds"],
        RemotePacingTarget = "REMOTE_PACING_TARGET" ["Remote", "Pacing", "Target", "per sec"],
        RemotePacingRate = "REMOTE_PACING_RATE" ["Remote", "Pacing", "Rate", "per sec"],
        RemoteLateIntervals = "REMOTE_LATE_INTERVALS" ["Remote", "Late", "Intervals"],
        RemoteMinGap = "REMOTE_MIN_GAP" ["Remote", "Minimum", "Gap", "Microseconds"],
        RemoteMeanGap = "REMOTE_MEAN_GAP" ["Remote", "Mean", "Gap", "Microseconds"],
        RemoteP50Gap = "REMOTE_P50_GAP" ["Remote", "50th Percentile", "Gap", "Microseconds"],
        RemoteP99Gap = "REMOTE_P99_GAP" ["Remote", "99th Percentile", "Gap", "Microseconds"],
        RemoteMaxGap = "REMOTE_MAX_GAP" ["Remote", "Maximum", "Gap", "Microseconds"],
        ClockCostNs = "CLOCK_COST_NS" ["Clock", "Cost", "Nanoseconds"],
        ClockResolutionNs = "CLOCK_RESOLUTION_NS" ["Clock", "Resolution", "Nanoseconds"],
        LocalInterfaceRxPackets = "LOCAL_INTERFACE_RX_PACKETS" ["Local", "Interface", "Received", "Packets"],
        LocalInterfaceRxBytes = "LOCAL_INTERFACE_RX_BYTES" ["Local", "Interface", "Received", "Bytes"],
        LocalInterfaceTxPackets = "LOCAL_INTERFACE_TX_PACKETS" ["Local", "Interface", "Sent", "Packets"],
        LocalInterfaceTxBytes = "LOCAL_INTERFACE_TX_BYTES" ["Local", "Interface", "Sent", "Bytes"],
        RemoteInterfaceRxPackets = "REMOTE_INTERFACE_RX_PACKETS" ["Remote", "Interface", "Received", "Packets"],
        RemoteInterfaceRxBytes = "REMOTE_INTERFACE_RX_BYTES" ["Remote", "Interface", "Received", "Bytes"],
        RemoteInterfaceTxPackets = "REMOTE_INTERFACE_TX_PACKETS" ["Remote", "Interface", "Sent", "Packets"],
        RemoteInterfaceTxBytes = "REMOTE_INTERFACE_TX_BYTES" ["Remote", "Interface", "Sent", "Bytes"],
        PacketsPerTransaction = "PACKETS_PER_TRANSACTION" ["Packets", "Per", "Transaction"],
        Multipath = "MULTIPATH" ["Multipath", "TCP", "In Force"],
        DataInSyn = "DATA_IN_SYN" ["Data", "Taken With", "First Segment"],
    }
}
