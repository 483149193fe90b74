//! What the two ends do where several options decide it together.

use model::{Half, IdleLoop, Transport, Wait};

use super::global::Global;
use super::test::TestOptions;
use super::{CpuRates, Direction, Test};
use crate::conventions::pacing;

/// Returns this end's half and the peer's.
pub(super) fn halves(
    test: Test,
    transport: Transport,
    direction: Direction,
    global: &Global,
    options: &TestOptions,
) -> (Half, Half) {
    let (mut here, mut there) = (options.here.clone(), options.there.clone());
    let CpuRates { local, remote } = global.settings.cpu_rate;
    let rates = [local, remote];
    for (end, half) in [&mut here, &mut there].into_iter().enumerate() {
        let wait = if global.spin[end] {
            Wait::Spin
        } else {
            Wait::Sleep
        };
        half.pacing = pacing(global.pace_burst[end], global.pace_interval_us[end], wait);
        // A calibration value that was given is not found out again.
        let rate = Some(f64::from(rates[end])).filter(|rate| *rate > 0.0);
        half.idle_loop = global.by_looper.then_some(IdleLoop { rate });
    }

    let needs = options.needs();
    let routing = options
        .routing
        .unwrap_or(transport != Transport::Udp || direction.is_transactional());
    here.socket.dont_route = !routing;
    // The protocol has one bit for "may route" and "tell the congestion control algorithm".
    there.socket.dont_route = !routing && !needs.peer_congestion_control;
    // Else each datagram would have its path looked up.
    here.socket.connect_datagrams |= transport == Transport::UnixDatagram;
    // The classic requests have no word for it.
    there.socket.keep_alive &= !test.is_classic();
    here.send_from_file = test == Test::TcpSendfile;
    // The accepting end closes first, when it cannot know yet.
    here.count_retransmits =
        direction.connection && transport.has_tcp_options() && needs.retransmits;
    (here, there)
}
