//! Arguments → the netperf dialect's settings, one a test.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use model::{Half, IoMethod, Pacing, SizeRule, Transport, Wait};
use netperf::options::{Exit, Family, Settings, Unanswered};
use report::Peer;
use units::BitRate;

use super::Args;
use super::choice::Test;
use super::path::largest_datagram;

/// How long a data connection may get no answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// The settings of one test: routing allowed, CPU time accounted at both ends, and each
/// transaction timed.
pub(super) fn settings(args: &Args, test: Test, peer: &Peer) -> Result<Settings, String> {
    let (name, mut own) = test.words();
    let (length, flows) = (args.length.to_string(), args.parallel.to_string());
    let context = format!("{},vsock", peer.host);
    let mut words = vec!["-c", "-C", "-t", &name, "-l", &length, "--parallel", &flows];
    if args.bidirectional {
        words.push("--bidirectional");
    }
    if args.io == IoMethod::Mmsg && test.is_one_way_over_datagrams() {
        words.extend(["--io", "mmsg"]);
    }
    let over_vsock = test.transport == Transport::Vsock;
    match (over_vsock, peer.embedded) {
        // The control connection goes over IP, the data to the machine's own context: vsock(7).
        (true, true) => own.extend(["-H", "1"]),
        (true, false) => words.extend(["-H", &context]),
        (false, _) => {}
    }
    let data_port = args.data_port.map(|port| format!(",{port}"));
    words.push("--");
    words.extend(own);
    if let Some(data_port) = &data_port {
        words.extend(["-P", data_port]);
    }
    let words = words.into_iter().map(OsString::from);
    let mut settings =
        netperf::options::netperf("linerate run", words).map_err(|exit| one_line(&exit))?;
    let family = match (args.v4, args.v6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Unspecified,
    };
    for_both_ways(&mut settings, |settings| {
        settings.name = test.name();
        settings.control.port = peer.port.to_string();
        if !over_vsock || peer.embedded {
            settings.control.host.clone_from(&peer.host);
            settings.control.family = family;
            settings.control.local_family = family;
        }
        if !over_vsock {
            settings.data.family = family;
            settings.data.local_family = family;
        }
        settings.unanswered = Unanswered::GiveUp(ANSWER_PATIENCE);
        settings.needs.interface = true;
        settings.flow.timing.passes = settings.flow.workload.is_transactional();
        settings.histogram.clone_from(&args.histogram);
        settings.flow.timing.calls =
            args.histogram.is_some() && !settings.flow.workload.is_transactional();
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

fn one_line(exit: &Exit) -> String {
    let text = if exit.stderr.is_empty() {
        &exit.stdout
    } else {
        &exit.stderr
    };
    text.lines().next().unwrap_or_default().to_owned()
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
