//! Conversion of the arguments to netperf settings, per test.

use std::net::SocketAddr;
use std::time::Duration;

use model::{
    EndpointPlan, FlowPlan, Group, IoMethod, Limit, Pacing, Plan, SizeRule, Timing, Transport, Wait,
};
use netperf::options::{ControlOptions, Family, Settings, UnansweredPolicy};
use report::PeerInfo;
use units::BitRate;

use super::Args;
use super::path::largest_datagram;
use super::test_selection::Test;

/// Timeout of a data connection without an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the plan of a test: its flows in one or both directions.
pub(super) fn plan(args: &Args, test: Test) -> Plan {
    let flow = FlowPlan {
        limit: Limit::Time(Duration::from_secs(args.length.into())),
        ..test.flow()
    };
    let io = if test.is_one_way_over_datagrams() {
        args.io
    } else {
        IoMethod::OnePerCall
    };
    let has_histogram = args.histogram.is_some();
    let is_transactional = flow.workload.is_transactional();
    let directions = [
        Some(flow.clone()),
        args.bidirectional.then(|| flow.reversed()),
    ];
    let group = |mut flow: FlowPlan| {
        (flow.local.io, flow.remote.io) = (io, io);
        (flow.local.measure_cpu, flow.remote.measure_cpu) = (true, true);
        flow.timing = Timing {
            passes: is_transactional,
            calls: has_histogram && !is_transactional,
        };
        Group::with_flows(args.parallel, flow)
    };
    Plan {
        name: test.name(),
        groups: directions.into_iter().flatten().map(group).collect(),
        ..Plan::default()
    }
}

/// Returns the settings of a test. Both ends measure CPU time, and each transaction is timed.
pub(super) fn settings(args: &Args, test: Test, peer: &PeerInfo) -> Result<Settings, String> {
    let is_over_vsock = test.transport == Transport::Vsock;
    let family = match (args.v4, args.v6) {
        // The control connection to the embedded server uses IP.
        _ if is_over_vsock && !peer.embedded => Family::Vsock,
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Unspecified,
    };
    let control = ControlOptions {
        host: peer.host.clone(),
        family,
        port: peer.port.unwrap_or_default().to_string(),
        local_host: None,
        local_family: family,
        local_port: "0".to_owned(),
        passphrase: None,
    };
    let mut settings = netperf::options::settings_for_plan(&plan(args, test), &control)?;
    for_both_directions(&mut settings, |settings| {
        // The context ID of the local machine, VMADDR_CID_LOCAL: vsock(7).
        settings.data.host = (is_over_vsock && peer.embedded).then(|| "1".to_owned());
        if let Some(port) = args.data_port {
            settings.data.port = port.to_string();
        }
        settings.unanswered_policy = UnansweredPolicy::FailAfter(ANSWER_TIMEOUT);
        settings.needs.interface = true;
        settings.histogram.clone_from(&args.histogram);
    });
    Ok(settings)
}

/// Applies a change to the settings of both directions.
pub(super) fn for_both_directions(settings: &mut Settings, change: impl Fn(&mut Settings)) {
    change(settings);
    if let Some(reverse) = &mut settings.reverse {
        change(reverse);
    }
}

/// Sets the size of one-way datagrams to the largest that crosses the first hop unfragmented.
pub(super) fn fit_datagrams(settings: &mut Settings, remote: SocketAddr) {
    if sends_datagrams(settings) {
        let size = SizeRule::Bytes(largest_datagram(remote));
        for_both_directions(settings, |settings| sender_plan(settings).send.size = size);
    }
}

/// Paces one-way datagrams of a known size to this payload rate.
pub(super) fn pace_datagrams(settings: &mut Settings, rate: BitRate) {
    for_both_directions(settings, |settings| {
        let sender = sender_plan(settings);
        if let SizeRule::Bytes(bytes) = sender.send.size {
            sender.pacing = Some(pacing(rate, bytes));
        }
    });
}

/// Returns whether the test sends one-way datagrams over IP.
pub(super) fn sends_datagrams(settings: &Settings) -> bool {
    settings.flow.has_one_way_datagrams()
}

fn sender_plan(settings: &mut Settings) -> &mut EndpointPlan {
    let plan = &mut settings.flow;
    if plan.workload.sends() {
        &mut plan.local
    } else {
        &mut plan.remote
    }
}

/// Returns the pacing for a payload rate: bursts of about 1 ms, at least one datagram each. The
/// interval is in whole microseconds, as the protocol requires.
fn pacing(rate: BitRate, bytes: u32) -> Pacing {
    const BURST_SECONDS: f64 = 1e-3;
    let per_second = rate.0 / 8.0 / f64::from(bytes);
    let burst = (per_second * BURST_SECONDS).floor().max(1.0);
    let micros = (burst / per_second * 1e6).ceil().min(f64::from(u32::MAX));
    Pacing {
        burst: burst as u64,
        interval: Duration::from_micros(micros as u64),
        wait: Wait::Sleep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_reaches_the_rate_or_slightly_less() {
        for (rate, bytes, burst, micros) in [
            (1e9, 1472, 84, 990),
            (1e8, 1472, 8, 943),
            (1e7, 1472, 1, 1178),
            (64e3, 1472, 1, 184_000),
            (2e10, 65_507, 38, 996),
            (100.0, 1472, 1, 117_760_000),
        ] {
            let pacing = pacing(BitRate(rate), bytes);
            assert_eq!((pacing.burst, pacing.interval.as_micros()), (burst, micros));
            let achieved = pacing.rate() * f64::from(bytes) * 8.0;
            assert!(
                achieved <= rate && achieved > 0.998 * rate,
                "{rate}: {achieved}"
            );
        }
    }
}
