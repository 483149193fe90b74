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
    }
}
