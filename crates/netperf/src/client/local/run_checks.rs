//! Checks of a run that only the client can make.

use std::os::fd::AsFd;
use std::time::Duration;

use engine::{LoopResult, PortRange};
use model::{Counts, EndCause, FlowPlan, Warning};
use sys::{Socket, call};

/// Whether the socket is connected to itself. Without a listener, a simultaneous open with one
/// socket does this: RFC 9293, 3.5.
pub(super) fn is_self_connected(socket: &Socket) -> bool {
    let addresses = socket.local_addr().ok().zip(socket.peer_addr().ok());
    addresses.is_some_and(|(local, peer)| local == peer)
}

/// Returns a warning if the request that was open at the deadline stays without an answer. Waits
/// four times the mean time of an answer, so that an answer on its way arrives.
pub(super) fn stalled_warning(
    socket: &Socket,
    plan: &FlowPlan,
    result: &LoopResult,
    elapsed: Duration,
    counts: &Counts,
) -> Option<Warning> {
    const MIN_WAIT: Duration = Duration::from_millis(50);
    const MAX_WAIT: Duration = Duration::from_secs(2);
    let is_request_open = counts.send_calls > counts.receive_calls;
    if result.ended != EndCause::Deadline
        || !is_request_open
        || plan.local.socket.receive_timeout.is_some()
    {
        return None;
    }
    let transactions = u32::try_from(counts.transactions).unwrap_or(u32::MAX);
    let mean = elapsed.checked_div(transactions).unwrap_or(MAX_WAIT);
    let timeout = (mean * 4).clamp(MIN_WAIT, MAX_WAIT);
    if call::wait_readable(socket.as_fd(), timeout).unwrap_or(true) {
        return None;
    }
    // With one open request at a time, the time outside of transactions was spent waiting for the
    // last answer.
    let waited = result.latency.as_ref().filter(|_| plan.burst == 0);
    let waited = waited.map(|times| elapsed.saturating_sub(times.total()));
    Some(Warning::Stalled { waited })
}

/// Returns a warning if a connection test reused its ports while their closed connections were
/// still in TIME_WAIT.
pub(super) fn reused_ports_warning(
    connections: u64,
    range: PortRange,
    elapsed: Duration,
) -> Option<Warning> {
    /// TCP_TIMEWAIT_LEN of Linux.
    const TIME_WAIT: Duration = Duration::from_secs(60);
    let ports = u32::from(range.end - range.first).max(1);
    let rounds = connections as f64 / f64::from(ports);
    (rounds > 1.0 && elapsed.as_secs_f64() / rounds < TIME_WAIT.as_secs_f64())
        .then_some(Warning::PortsReused { connections, ports })
}
