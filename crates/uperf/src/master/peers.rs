//! Facts about the slaves, and their reported results.

use std::time::Duration;

use model::{CombinedTotals, PeerOutcome};
use units::Bytes;

use super::LINERATE;
use super::connect::Slave;
use crate::GroupSpec;
use crate::profile::memory::buffer_bytes;
use crate::strand::{Log, StrandOutcome, has_datagrams};
use crate::wire::Goodbye;

/// How much longer than the run at the master a slave's time may last, besides twice its time.
const MAX_EXTRA_TIME: Duration = Duration::from_secs(60);

/// More bytes per second and strand than any memory moves.
const MAX_BYTES_PER_NS: u128 = 1000;

/// The maximum executions per second and strand.
const MAX_OPERATIONS_PER_NS: u128 = 1;

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

/// Discards and logs the totals of slaves that cannot be. `elapsed` is the time of the run.
pub(super) fn discard_impossible_totals(
    peers: &mut [PeerOutcome],
    groups: &[GroupSpec],
    strands: &[StrandOutcome],
    elapsed: Duration,
    log: &mut Log,
) {
    for peer in peers {
        let (Some(index), Some(totals)) = (peer.group, peer.totals) else {
            continue;
        };
        let group = &groups[index];
        let only_sends = !group.flowops().any(|flowop| flowop.kind.receives());
        let count = u64::from(group.strands.count);
        // At the end, each strand may have a transfer that the slave completed, but the master did
        // not count.
        let uncounted_bytes = count * u64::from(buffer_bytes(group));
        // A stock slave estimates its bytes, and the network may repeat datagrams.
        let max_bytes = (only_sends && peer.program == Some(LINERATE) && !has_datagrams(group))
            .then(|| sent_bytes(strands, index) + uncounted_bytes);
        if !is_possible(&totals, count, elapsed, max_bytes) {
            peer.totals = None;
            let CombinedTotals {
                bytes,
                operations,
                failed_operations,
                elapsed,
            } = totals;
            log.error(
                format!(
                    "[{}] reported impossible totals: {} bytes, {operations} operations, \
                     {failed_operations} errors in {} s",
                    peer.host,
                    bytes.0,
                    elapsed.as_secs_f64()
                ),
                0,
            );
        }
    }
}

/// Returns the bytes that the strands of a group have sent.
fn sent_bytes(strands: &[StrandOutcome], group: usize) -> u64 {
    let strands = strands.iter().filter(|strand| strand.group == group);
    let transactions = strands.flat_map(|strand| &strand.transactions);
    transactions.map(|result| result.counts.sent.0).sum()
}

fn is_possible(
    totals: &CombinedTotals,
    strands: u64,
    elapsed: Duration,
    max_bytes: Option<u64>,
) -> bool {
    let strand_ns = u128::from(strands) * (totals.elapsed + Duration::from_secs(1)).as_nanos();
    totals.elapsed <= 2 * elapsed + MAX_EXTRA_TIME
        && totals.failed_operations <= totals.operations.saturating_add(strands)
        && u128::from(totals.operations) <= strand_ns * MAX_OPERATIONS_PER_NS
        && u128::from(totals.bytes.0) <= strand_ns * MAX_BYTES_PER_NS
        && max_bytes.is_none_or(|max| totals.bytes.0 <= max)
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
    fn totals_that_cannot_be_are_detected() {
        let second = Duration::from_secs(1);
        for (bytes, operations, failed_operations, seconds, possible) in [
            (1000, 20, 0, 1, true),
            (1000, 20, 20, 3, true),
            (1001, 20, 0, 1, false),
            (1000, u64::MAX, 0, 1, false),
            (1000, 20, u64::MAX, 1, false),
            (1000, 20, 0, 1 << 33, false),
        ] {
            let totals = CombinedTotals {
                bytes: Bytes(bytes),
                operations,
                failed_operations,
                elapsed: Duration::from_secs(seconds),
            };
            assert_eq!(is_possible(&totals, 2, second, Some(1000)), possible);
        }
        let totals = CombinedTotals {
            bytes: Bytes(1 << 62),
            ..CombinedTotals::default()
        };
        assert!(!is_possible(&totals, 2, second, None));
    }

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
