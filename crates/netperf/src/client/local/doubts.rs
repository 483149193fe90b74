//! What only this end can doubt of a run.

use std::os::fd::AsFd;
use std::time::Duration;

use engine::{PortRange, Ran};
use model::{Counts, Ended, FlowPlan, Warning};
use sys::{Socket, call};

/// Whether a connection that nobody listened for was opened from both sides at once, by one socket:
/// RFC 9293, 3.5.
pub(super) fn is_its_own_peer(socket: &Socket) -> bool {
    let ends = socket.local_addr().ok().zip(socket.peer_addr().ok());
    ends.is_some_and(|(local, peer)| local == peer)
}

/// Whether the request that was open when the time was up stays without an answer. It is awaited for
/// several times as long as an answer took, so that one that was merely on its way is seen to come.
pub(super) fn stalled(
    socket: &Socket,
    plan: &FlowPlan,
    ran: &Ran,
    elapsed: Duration,
    counts: &Counts,
) -> Option<Warning> {
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);
    let open = counts.send_calls > counts.receive_calls;
    if ran.ended != Ended::Deadline || !open || plan.here.socket.receive_timeout.is_some() {
        return None;
    }
    let transactions = u32::try_from(counts.transactions).unwrap_or(u32::MAX);
    let usual = elapsed.checked_div(transactions).unwrap_or(LONGEST);
    let patience = (usual * 4).clamp(SHORTEST, LONGEST);
    if call::wait_readable(socket.as_fd(), patience).unwrap_or(true) {
        return None;
    }
    // With one request at a time what no transaction took was spent waiting for the last one.
    let waited = ran.latency.as_ref().filter(|_| plan.burst == 0);
    let waited = waited.map(|times| elapsed.saturating_sub(times.total()));
    Some(Warning::Stalled { waited })
}

/// Whether the ports of a connection test went round within the time for which a closed connection is
/// remembered.
pub(super) fn ports_reused(
    connections: u64,
    range: PortRange,
    elapsed: Duration,
) -> Option<Warning> {
    /// TCP_TIMEWAIT_LEN of Linux.
    const TIME_WAIT: Duration = Duration::from_secs(60);
    let ports = u32::from(range.max - range.min).max(1);
    let rounds = connections as f64 / f64::from(ports);
    (rounds > 1.0 && elapsed.as_secs_f64() / rounds < TIME_WAIT.as_secs_f64())
        .then_some(Warning::PortsReused { connections, ports })
}
