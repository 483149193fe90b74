//! The text of each selector that netperf does not have.

use model::{Half, Paced, Side, Warning, Workload};
use stats::Summary;

use super::{Value, fixed, int, interface, values};
use crate::output::figures::{Figures, NONE};
use crate::output::flows::{Spread, Way, start_spread_us};
use crate::selector::own_selectors;

/// The texts of our own selectors.
pub(super) static VALUES: &[Value] = own_selectors!(values);

fn here<'a>(f: &'a Figures<'_>) -> Option<&'a Side> {
    Some(&f.run.outcome.here)
}

fn there<'a>(f: &'a Figures<'_>) -> Option<&'a Side> {
    f.run.outcome.there.as_ref()
}

/// The throughput of one direction, where there are two.
fn one_way(f: &Figures<'_>, way: Way) -> Option<String> {
    let both = f.settings.reverse.as_ref();
    fixed(2, both.map_or(NONE, |_| Spread::of(f, way).throughput))
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
