//! The values of the selectors that stock lacks.

use model::{Counts, EndpointPlan, PacingResult, Side, Warning, Workload};
use stats::HistogramSummary;

use super::{FormatValue, fixed, int, interface, values};
use crate::output::figures::{Figures, NOT_MEASURED};
use crate::output::flows::{FlowDirection, FlowStatistics, start_spread_us};
use crate::selector::linerate_selectors;

/// The formatting functions, in the order of the table in `selector/linerate.rs`.
pub(super) static VALUES: &[FormatValue] = linerate_selectors!(values);

fn local_side<'a>(f: &'a Figures<'_>) -> Option<&'a Side> {
    Some(&f.run.outcome.local)
}

fn remote_side<'a>(f: &'a Figures<'_>) -> Option<&'a Side> {
    f.run.outcome.remote.as_ref()
}

/// Formats the throughput of one direction; −1.00 if the test has only one.
fn direction_throughput(f: &Figures<'_>, direction: FlowDirection) -> Option<String> {
    let reverse = f.settings.reverse.as_ref();
    fixed(
        2,
        reverse.map_or(NOT_MEASURED, |_| {
            FlowStatistics::from_figures(f, direction).throughput
        }),
    )
}

/// Formats a flag as 1 or 0; −1 if it was not requested or the kernel does not report it.
fn flag_or_minus_one(flag: Option<bool>) -> Option<String> {
    int(flag.map_or(-1, i64::from))
}

fn pacing_result(side: Option<&Side>) -> Option<&PacingResult> {
    side?.pacing_result.as_ref()
}

/// Formats the requested paced sends or transactions per second, summed over all flows.
fn pacing_target(f: &Figures<'_>, plan: &EndpointPlan) -> Option<String> {
    let flows = f64::from(f.settings.flows);
    fixed(
        3,
        plan.pacing
            .map_or(NOT_MEASURED, |pacing| flows * pacing.rate()),
    )
}

/// Formats the achieved paced sends or transactions per second.
fn pacing_rate(paced: Option<&PacingResult>) -> Option<String> {
    fixed(
        3,
        paced.and_then(PacingResult::rate).unwrap_or(NOT_MEASURED),
    )
}

fn late_intervals(paced: Option<&PacingResult>) -> Option<String> {
    int(paced.map_or(-1, |paced| paced.late_intervals as i64))
}

/// Formats a figure of the gaps between sends in microseconds; −1.000 without gaps.
fn gap_us(side: Option<&Side>, figure: fn(&HistogramSummary) -> f64) -> Option<String> {
    let gaps = side.and_then(|side| side.send_gaps.as_ref()?.summary());
    fixed(3, gaps.map_or(NOT_MEASURED, |gaps| figure(&gaps) / 1000.0))
}

/// Formats the kinds of the warnings, with the names in the JSON of `linerate run`; "none" if there
/// is none.
fn warnings(f: &Figures<'_>) -> String {
    let kinds: Vec<&str> = f.run.warnings().iter().map(Warning::kind).collect();
    if kinds.is_empty() {
        return "none".to_owned();
    }
    kinds.join(";")
}

/// Returns the number of datagrams that the peer received after the end of the test. A stock peer
/// cannot distinguish them.
fn late_datagrams(f: &Figures<'_>) -> Option<u64> {
    sends_one_way_datagrams(f).then_some(())?;
    let remote = f.run.outcome.remote.as_ref()?;
    remote
        .host
        .as_ref()
        .map(|_| remote.counts.receive_calls_late)
}

/// Returns the number of datagrams that the peer never received, neither in time nor late.
fn lost_datagrams(f: &Figures<'_>) -> Option<u64> {
    sends_one_way_datagrams(f).then_some(())?;
    let Counts {
        receive_calls,
        receive_calls_late,
        ..
    } = f.run.outcome.remote.as_ref()?.counts;
    let received = receive_calls.saturating_add(receive_calls_late);
    // A network that copies datagrams lets more arrive than were sent.
    Some(f.counts().send_calls.saturating_sub(received))
}

/// Returns the number of lost datagrams that the receiver's socket dropped, rather than the path.
/// The socket may have dropped the datagram that ends the test, too, so losses limit the number.
fn dropped_datagrams(f: &Figures<'_>) -> Option<u64> {
    let lost = lost_datagrams(f)?;
    let dropped = f.run.outcome.remote.as_ref()?.socket.dropped?;
    Some(dropped.min(lost))
}

/// Formats the mean number of datagrams per sendmmsg(2) or recvmmsg(2); −1.00 if each datagram had
/// a separate call.
fn datagrams_per_call(side: Option<&Side>) -> Option<String> {
    fixed(
        2,
        side.and_then(|side| side.counts.mean_batch_size())
            .unwrap_or(NOT_MEASURED),
    )
}

fn sends_one_way_datagrams(f: &Figures<'_>) -> bool {
    f.flow().transport.has_datagrams() && f.flow().workload == Workload::send()
}
