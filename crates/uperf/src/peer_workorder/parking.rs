//! Workaround for stock slaves whose strands share a listener.
//!
//! With `port=`, all strands of a stock slave accept from one listener. Each strand frees it at its
//! end, so the slave crashes before it reports its counters. linerate keeps the strands from
//! ending: it appends two transactions that do nothing. The master starts the first one after the
//! last real transaction, which makes the slave wait for its strands. The master never starts the
//! second one. `ABORT` then kills the waiting strands, and the slave reports its counters.

use crate::wire::{TransactionWork, WorkRecords};
use crate::{DataProtocol, FlowopKind, GroupSpec};

/// Whether strands of a stock slave on `host` accept from one listener. With UDP, each strand has
/// its own socket.
pub fn shares_listener(group: &GroupSpec, host: &str) -> bool {
    let mut connects = group
        .opening_flowops()
        .filter(|flowop| flowop.kind == FlowopKind::Connect);
    group.strands.count > 1
        && connects.any(|flowop| {
            let endpoint = &flowop.endpoint;
            endpoint.port != 0
                && endpoint.protocol != Some(DataProtocol::Udp)
                && endpoint.remote_host.eq_ignore_ascii_case(host)
        })
}

/// Appends the two transactions that do nothing.
pub fn park_strands(work: &mut WorkRecords) {
    for _ in 0..2 {
        let number = work.transactions.len() as u32;
        work.transactions.push(TransactionWork::with_nop(number, 0));
    }
    work.group.transactions = work.transactions.len() as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flowop;

    #[test]
    fn a_port_of_several_strands_is_shared() {
        for (kind, protocol, port, strands, expected) in [
            (FlowopKind::Connect, DataProtocol::Tcp, 7, 2, true),
            (FlowopKind::Connect, DataProtocol::Ssl, 7, 2, true),
            (FlowopKind::Connect, DataProtocol::Udp, 7, 2, false),
            (FlowopKind::Connect, DataProtocol::Tcp, 0, 2, false),
            (FlowopKind::Connect, DataProtocol::Tcp, 7, 1, false),
            (FlowopKind::Accept, DataProtocol::Tcp, 7, 2, false),
        ] {
            let mut flowop = Flowop::with_protocol(kind, protocol);
            flowop.endpoint.port = port;
            flowop.endpoint.remote_host = "Host".to_owned();
            let mut group = GroupSpec::with_flowops([flowop]);
            group.strands.count = strands;
            let found = shares_listener(&group, "host");
            assert_eq!(found, expected, "{kind} {protocol} {port} {strands}");
            assert!(!shares_listener(&group, "other"));
        }
    }
}
