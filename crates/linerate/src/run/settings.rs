//! Arguments → the netperf dialect's settings, one a test.

use std::net::SocketAddr;
use std::time::Duration;

use model::{
    FlowPlan, Group, Half, IoMethod, Limit, Pacing, Plan, SizeRule, Timing, Transport, Wait,
};
use netperf::options::{Control, Family, Settings, Unanswered};
use report::Peer;
use units::BitRate;

use super::Args;
use super::choice::Test;
use super::path::largest_datagram;

/// How long a data connection may get no answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// What one test is: its flows, in one direction or in both.
pub(super) fn plan(args: &Args, test: Test) -> Plan {
    let flow = FlowPlan {
        limit: Limit::Time(Duration::from_secs(args.length.into())),
        ..test.flow()
    };
    let io = if test.is_one_way_over_datagrams() {
        args.io
    } else {
        IoMethod::Plain
    };
    let timed = args.histogram.is_some();
    let is_transactional = flow.workload.is_transactional();
    let ways = [
        Some(flow.clone()),
        args.bidirectional.then(|| flow.turned()),
    ];
    let group = |mut flow: FlowPlan| {
        (flow.here.io, flow.there.io) = (io, io);
        (flow.here.measure_cpu, flow.there.measure_cpu) = (true, true);
        flow.timing = Timing {
            passes: is_transactional,
            calls: timed && !is_transactional,
        };
        Group::of_flows(args.parallel, flow)
    };
    Plan {
        name: test.name(),
        groups: ways.into_iter().flatten().map(group).collect(),
        ..Plan::default()
    }
}

/// The settings of one test: CPU time accounted at both ends, and each transaction timed.
pub(super) fn settings(args: &Args, test: Test, peer: &Peer) -> Result<Settings, String> {
    let over_vsock = test.transport == Transport::Vsock;
    let family = match (args.v4, args.v6) {
        // The control connection to a server in this process goes over IP.
        _ if over_vsock && !peer.embedded => Family::Vsock,
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Unspecified,
    };
    let control = Control {
        host: peer.host.clone(),
        family,
        port: peer.port.unwrap_or_default().to_string(),
        local_host: None,
        local_family: family,
        local_port: "0".to_owned(),
        passphrase: None,
    };
    let mut settings = netperf::options::of_plan(&plan(args, test), &control)?;
    for_both_ways(&mut settings, |settings| {
        // This machine's own context: vsock(7).
        settings.data.host = (over_vsock && peer.embedded).then(|| "1".to_owned());
        if let Some(port) = args.data_port {
            settings.data.port = port.to_string();
        }
        settings.unanswered = Unanswered::GiveUp(ANSWER_PATIENCE);
        settings.needs.interface = true;
        settings.histogram.clone_from(&args.histogram);
    });
    Ok(settings)
}

/// Does the same to the settings of both directions.
pub(super) fn for_both_ways(settings: &mut Settings, change: impl Fn(&mut Settings)) {
    change(settings);
    if let Some(reverse) = &mut settings.reverse {
        change(reverse);
    }
}

/// Sets the size of one-way datagrams to what crosses the path's first hop in one piece.
pub(super) fn fit_datagrams(settings: &mut Settings, remote: SocketAddr) {
    if sends_datagrams(settings) {
        let size = SizeRule::Bytes(largest_datagram(remote));
        for_both_ways(settings, |settings| sender(settings).send.size = size);
    }
}

/// Paces one-way datagrams of a known size to this rate of payload.
pub(super) fn pace_datagrams(settings: &mut Settings, rate: BitRate) {
    for_both_ways(settings, |settings| {
        let sender = sender(settings);
        if let SizeRule::Bytes(bytes) = sender.send.size {
            sender.pacing = Some(pacing(rate, bytes));
        }
    });
}

/// Whether the test is one of one-way datagrams over IP.
pub(super) fn sends_datagrams(settings: &Settings) -> bool {
    settings.flow.has_one_way_datagrams()
}

fn sender(settings: &mut Settings) -> &mut Half {
    let plan = &mut settings.flow;
    if plan.workload.sends() {
        &mut plan.here
    } else {
        &mut plan.there
    }
}

/// About a millisecond's worth of datagrams at once, at least one. The protocol has whole microseconds
/// for the interval.
fn pacing(rate: BitRate, bytes: u32) -> Pacing {
    const USUAL: f64 = 1e-3;
    let per_second = rate.0 / 8.0 / f64::from(bytes);
    let burst = (per_second * USUAL).floor().max(1.0);
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
    fn a_pace_is_the_rate_or_a_little_less() {
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
            let reached = pacing.rate() * f64::from(bytes) * 8.0;
            assert!(
                reached <= rate && reached > 0.998 * rate,
                "{rate}: {reached}"
            );
        }
    }
}
