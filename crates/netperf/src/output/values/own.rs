use model::{Half, Paced, Side, Warning, Workload};
use stats::Summary;

use super::{fixed, int, interface};
use crate::output::figures::{Figures, NONE};
use crate::output::flows::{Spread, Way, start_spread_us};
use crate::selector::Own;

/// The text of a selector of our own; `None` where the run has no value for it.
#[rustfmt::skip]
pub(super) fn value(selector: Own, f: &Figures<'_>) -> Option<String> {
    let (here, there) = (Some(&f.run.outcome.here), f.run.outcome.there.as_ref());
    let spread = |way| Spread::of(f, way);
    let one_way = |way| {
        let both = f.settings.reverse.is_some();
        fixed(2, if both { spread(way).throughput } else { NONE })
    };
    match selector {
        Own::Warnings => Some(warnings(f)),
        Own::LateDatagrams => int(late_datagrams(f).map_or(-1, |late| late as i64)),
        Own::LostDatagrams => int(lost_datagrams(f).unwrap_or(-1)),
        Own::DroppedDatagrams => int(dropped_datagrams(f).map_or(-1, |dropped| dropped as i64)),
        Own::LocalDatagramsPerCall => datagrams_a_call(here),
        Own::RemoteDatagramsPerCall => datagrams_a_call(there),
        Own::LatencySamples => int(f.summary.map_or(-1, |times| times.count as i64)),
        Own::Flows => int(spread(Way::Both).flows as i64),
        Own::FlowMinThroughput => fixed(2, spread(Way::Both).least),
        Own::FlowMaxThroughput => fixed(2, spread(Way::Both).most),
        Own::JainIndex => fixed(6, spread(Way::Both).jain),
        Own::FlowStartSpread => fixed(3, start_spread_us(f)),
        Own::OutboundThroughput => one_way(Way::Outbound),
        Own::InboundThroughput => one_way(Way::Inbound),
        Own::LocalPacingTarget => pacing_target(f, f.here()),
        Own::LocalPacingRate => pacing_rate(paced(here)),
        Own::LocalLateIntervals => late_intervals(paced(here)),
        Own::LocalMinGap => gap_us(here, |gaps| gaps.min_ns as f64),
        Own::LocalMeanGap => gap_us(here, |gaps| gaps.mean_ns),
        Own::LocalP50Gap => gap_us(here, |gaps| gaps.p50_ns as f64),
        Own::LocalP99Gap => gap_us(here, |gaps| gaps.p99_ns as f64),
        Own::LocalMaxGap => gap_us(here, |gaps| gaps.max_ns as f64),
        Own::RemotePacingTarget => pacing_target(f, f.there()),
        Own::RemotePacingRate => pacing_rate(paced(there)),
        Own::RemoteLateIntervals => late_intervals(paced(there)),
        Own::RemoteMinGap => gap_us(there, |gaps| gaps.min_ns as f64),
        Own::RemoteMeanGap => gap_us(there, |gaps| gaps.mean_ns),
        Own::RemoteP50Gap => gap_us(there, |gaps| gaps.p50_ns as f64),
        Own::RemoteP99Gap => gap_us(there, |gaps| gaps.p99_ns as f64),
        Own::RemoteMaxGap => gap_us(there, |gaps| gaps.max_ns as f64),
        Own::ClockCostNs => fixed(1, f.clock().map_or(NONE, |clock| clock.cost_ns)),
        Own::ClockResolutionNs => int(f.clock().map_or(-1, |clock| clock.resolution_ns as i64)),
        Own::LocalInterfaceRxPackets => interface::traffic(f.local_interface(), |traffic| traffic.received_packets),
        Own::LocalInterfaceRxBytes => interface::traffic(f.local_interface(), |traffic| traffic.received_bytes),
        Own::LocalInterfaceTxPackets => interface::traffic(f.local_interface(), |traffic| traffic.sent_packets),
        Own::LocalInterfaceTxBytes => interface::traffic(f.local_interface(), |traffic| traffic.sent_bytes),
        Own::RemoteInterfaceRxPackets => interface::traffic(f.remote_interface(), |traffic| traffic.received_packets),
        Own::RemoteInterfaceRxBytes => interface::traffic(f.remote_interface(), |traffic| traffic.received_bytes),
        Own::RemoteInterfaceTxPackets => interface::traffic(f.remote_interface(), |traffic| traffic.sent_packets),
        Own::RemoteInterfaceTxBytes => interface::traffic(f.remote_interface(), |traffic| traffic.sent_bytes),
        Own::PacketsPerTransaction => fixed(3, f.packets_a_transaction()),
        Own::Multipath => yes_no_unknown(here.and_then(|here| here.socket.multipath)),
        Own::DataInSyn => yes_no_unknown(here.and_then(|here| here.socket.data_in_syn)),
    }
}

/// 1, 0, or −1 where it was not asked for or the kernel does not tell.
fn yes_no_unknown(known: Option<bool>) -> Option<String> {
    int(known.map_or(-1, i64::from))
}

fn paced(side: Option<&Side>) -> Option<&Paced> {
    side?.paced.as_ref()
}

/// Passes a second that were asked for, of all flows.
fn pacing_target(f: &Figures<'_>, half: &Half) -> Option<String> {
    let flows = f64::from(f.settings.flows);
    fixed(3, half.pacing.map_or(NONE, |pacing| flows * pacing.rate()))
}

/// Passes a second as they were.
fn pacing_rate(paced: Option<&Paced>) -> Option<String> {
    fixed(3, paced.and_then(Paced::rate).unwrap_or(NONE))
}

fn late_intervals(paced: Option<&Paced>) -> Option<String> {
    int(paced.map_or(-1, |paced| paced.late_intervals as i64))
}

/// Microseconds; −1.000 without any.
fn gap_us(side: Option<&Side>, figure: fn(&Summary) -> f64) -> Option<String> {
    let gaps = side.and_then(|side| side.send_gaps.as_ref()?.summary());
    fixed(3, gaps.map_or(NONE, |gaps| figure(&gaps) / 1000.0))
}

/// The kinds of the doubts, as the JSON of `linerate run` names them; "none" if there is none.
fn warnings(f: &Figures<'_>) -> String {
    let kinds: Vec<&str> = f.run.outcome.warnings.iter().map(Warning::kind).collect();
    if kinds.is_empty() {
        return "none".to_owned();
    }
    kinds.join(";")
}

/// Datagrams that came to the peer after the test's time. A classic peer cannot tell them from the
/// others.
fn late_datagrams(f: &Figures<'_>) -> Option<u64> {
    is_sent_one_way(f).then_some(())?;
    let there = f.run.outcome.there.as_ref()?;
    there.host.as_ref().map(|_| there.counts.receive_calls_late)
}

/// Datagrams that never came: whether late or not, a peer counts what it received.
fn lost_datagrams(f: &Figures<'_>) -> Option<i64> {
    is_sent_one_way(f).then_some(())?;
    let there = f.run.outcome.there.as_ref()?;
    let received = there.counts.receive_calls + there.counts.receive_calls_late;
    Some(f.counts().send_calls as i64 - received as i64)
}

/// Of the lost ones, those that the receiver's own socket dropped, so that the path did not. It may have
/// dropped the end of the test, too.
fn dropped_datagrams(f: &Figures<'_>) -> Option<u64> {
    let lost = u64::try_from(lost_datagrams(f)?).unwrap_or(0);
    let dropped = f.run.outcome.there.as_ref()?.socket.dropped?;
    Some(dropped.min(lost))
}

/// Datagrams that one sendmmsg(2) or recvmmsg(2) moved on average; −1.00 where each had its own call.
fn datagrams_a_call(side: Option<&Side>) -> Option<String> {
    fixed(2, side.and_then(|side| side.counts.batch()).unwrap_or(NONE))
}

fn is_sent_one_way(f: &Figures<'_>) -> bool {
    f.flow().transport.has_datagrams() && f.flow().workload == Workload::send()
}
