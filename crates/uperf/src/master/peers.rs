//! Facts about the slaves, and their reported results.

use std::time::Duration;

use model::{CombinedTotals, PeerOutcome};
use units::Bytes;

use super::LINERATE;
use super::connect::Slave;
use crate::wire::Goodbye;

/// Whether a slave runs on this machine.
pub(super) fn has_local_slave(slaves: &[Slave]) -> bool {
    slaves.iter().any(is_local)
}

/// Returns the facts about a slave and its reported results.
pub(super) fn peer_outcome(
    slave: &Slave,
    message: Option<String>,
    totals: Option<CombinedTotals>,
) -> PeerOutcome {
    let layout = || format!("flowops of {} bytes", slave.layout.record_len());
    PeerOutcome {
        host: slave.host.clone(),
        address: Some(slave.control.peer().to_string()),
        is_local: is_local(slave),
        program: Some(if slave.is_linerate { LINERATE } else { "uperf" }),
        form: (!slave.is_linerate).then(layout),
        group: Some(slave.group),
        totals,
        side: None,
        message,
    }
}

/// Returns the totals that a slave reported, without the ends of strands that it counts as
/// operations. A stock slave subtracts unfinished transfers, so its byte count may be negative;
/// this becomes 0.
pub(super) fn reported_totals(goodbye: &Goodbye, extra_operations: u32) -> CombinedTotals {
    let is_negative = goodbye.bytes > i64::MAX as u64;
    CombinedTotals {
        bytes: Bytes(if is_negative { 0 } else { goodbye.bytes }),
        operations: goodbye.operations.saturating_sub(extra_operations.into()),
        failed_operations: goodbye.errors,
        elapsed: Duration::from_nanos(goodbye.elapsed_ns),
    }
}

/// Whether a slave runs on this machine: packets to a local address also leave from it. Listing all
/// addresses could block, because the kernel waits while an interface is created or removed.
fn is_local(slave: &Slave) -> bool {
    let Some(peer_ip) = slave.control.peer().ip() else {
        return false;
    };
    let local_ip = slave
        .control
        .local_address()
        .and_then(|address| address.ip());
    peer_ip.to_canonical().is_loopback() || local_ip == Some(peer_ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Text;

    #[test]
    fn negative_byte_counts_become_zero() {
        let reported = |bytes| {
            let goodbye = Goodbye {
                kind: Goodbye::INFO,
                message: Text::truncated("Success"),
                elapsed_ns: 0,
                errors: 0,
                bytes,
                operations: 1,
            };
            reported_totals(&goodbye, 2).bytes.0
        };
        let found = [reported(5), reported((-16_i64) as u64), reported(u64::MAX)];
        assert_eq!(found, [5, 0, 0]);
    }
}
