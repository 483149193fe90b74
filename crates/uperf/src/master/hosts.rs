//! What is known of the slaves, and what they reported.

use std::time::Duration;

use model::{CombinedTotals, PeerOutcome};
use units::Bytes;

use super::LINERATE;
use super::connect::Slave;
use crate::wire::Goodbye;

/// Whether a slave runs on this machine.
pub(super) fn are_shared(slaves: &[Slave]) -> bool {
    slaves.iter().any(is_here)
}

/// What a slave reported, and what it is.
pub(super) fn peer(
    slave: &Slave,
    said: Option<String>,
    totals: Option<CombinedTotals>,
) -> PeerOutcome {
    let form = || format!("flowops of {} bytes", slave.layout.record_len());
    PeerOutcome {
        host: slave.host.clone(),
        address: Some(slave.control.peer().to_string()),
        is_local: is_here(slave),
        program: Some(if slave.is_ours { LINERATE } else { "uperf" }),
        form: (!slave.is_ours).then(form),
        group: Some(slave.group),
        totals,
        side: None,
        message: said,
    }
}

/// What a slave reported, without the ends of strands that it counted as operations. A stock slave takes away
/// what it did not finish, and can come to less than no bytes: those are none.
pub(super) fn reported(goodbye: &Goodbye, counted_ends: u32) -> CombinedTotals {
    let is_less_than_none = goodbye.bytes > i64::MAX as u64;
    CombinedTotals {
        bytes: Bytes(if is_less_than_none { 0 } else { goodbye.bytes }),
        operations: goodbye.operations.saturating_sub(counted_ends.into()),
        failed_operations: goodbye.errors,
        elapsed: Duration::from_nanos(goodbye.elapsed_ns),
    }
}

/// A host comes to its own addresses from themselves. Asking the kernel for all addresses could take long:
/// it waits for whoever makes or removes an interface.
fn is_here(slave: &Slave) -> bool {
    let Some(there) = slave.control.peer().ip() else {
        return false;
    };
    let here = slave.control.here().and_then(|here| here.ip());
    there.to_canonical().is_loopback() || here == Some(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Text;

    #[test]
    fn less_than_no_bytes_are_none() {
        let reported = |bytes| {
            let goodbye = Goodbye {
                kind: Goodbye::INFO,
                message: Text::cut("Success"),
                elapsed_ns: 0,
                errors: 0,
                bytes,
                operations: 1,
            };
            reported(&goodbye, 2).bytes.0
        };
        let found = [reported(5), reported((-16_i64) as u64), reported(u64::MAX)];
        assert_eq!(found, [5, 0, 0]);
    }
}
