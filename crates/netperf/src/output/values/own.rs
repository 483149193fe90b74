use super::{fixed, int};
use crate::output::figures::{Figures, NONE};
use crate::output::flows::{Spread, Way, start_spread_us};
use crate::selector::Own;

/// The text of a selector of our own; `None` where the run has no value for it.
pub(super) fn value(selector: Own, f: &Figures<'_>) -> Option<String> {
    let spread = |way| Spread::of(f, way);
    let one_way = |way| {
        let both = f.plan().bidirectional;
        fixed(2, if both { spread(way).throughput } else { NONE })
    };
    match selector {
        Own::LatencySamples => int(f.summary.map_or(-1, |times| times.count as i64)),
        Own::Flows => int(spread(Way::Both).flows as i64),
        Own::FlowMinThroughput => fixed(2, spread(Way::Both).least),
        Own::FlowMaxThroughput => fixed(2, spread(Way::Both).most),
        Own::JainIndex => fixed(6, spread(Way::Both).jain),
        Own::FlowStartSpread => fixed(3, start_spread_us(f)),
        Own::OutboundThroughput => one_way(Way::Outbound),
        Own::InboundThroughput => one_way(Way::Inbound),
    }
}
