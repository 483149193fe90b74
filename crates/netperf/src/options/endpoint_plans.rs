//! The settings of the two ends that depend on more than one option.

use model::{EndpointPlan, IdleLoop, Transport, Wait};

use super::global::GlobalOptions;
use super::test::TestOptions;
use super::{CpuRates, Test, TestDirection};
use crate::protocol_conventions::pacing;

/// Returns the local and the remote endpoint plan of the flow.
pub(super) fn endpoint_plans(
    test: Test,
    transport: Transport,
    direction: TestDirection,
    global: &GlobalOptions,
    options: &TestOptions,
) -> (EndpointPlan, EndpointPlan) {
    let (mut local, mut remote) = (options.local.clone(), options.remote.clone());
    let CpuRates {
        local: local_rate,
        remote: remote_rate,
    } = global.settings.cpu_rate;
    let rates = [local_rate, remote_rate];
    for (end, endpoint) in [&mut local, &mut remote].into_iter().enumerate() {
        let wait = if global.spin[end] {
            Wait::Spin
        } else {
            Wait::Sleep
        };
        endpoint.pacing = pacing(global.pace_burst[end], global.pace_interval_us[end], wait);
        // A calibration value from the command line replaces the calibration.
        let rate = Some(f64::from(rates[end])).filter(|rate| *rate > 0.0);
        endpoint.idle_loop = global.use_looper.then_some(IdleLoop { rate });
    }

    let needs = options.needs();
    let routing = options
        .routing
        .unwrap_or(transport != Transport::Udp || direction.is_transactional());
    local.socket.dont_route = !routing;
    // The protocol has one bit for two requests: "route", and "report the congestion control
    // algorithm".
    remote.socket.dont_route = !routing && !needs.peer_congestion_control;
    // Without a connected socket, the kernel looks up the path for each datagram.
    local.socket.connect_datagrams |= transport == Transport::UnixDatagram;
    // The classic requests have no field for keep-alive.
    remote.socket.keep_alive &= !test.is_classic();
    local.send_from_file = test == Test::TcpSendfile;
    // Only the connecting end counts: the accepting end closes first, before its count is final.
    local.count_retransmits =
        direction.connection && transport.has_tcp_options() && needs.retransmits;
    (local, remote)
}
