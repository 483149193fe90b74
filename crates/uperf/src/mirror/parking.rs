//! The end of a stock slave whose strands share a listener.
//!
//! With `port=` all strands of a stock slave accept from one listener, and each of them frees it when it ends: the
//! slave crashes before it reports its figures. So its strands do not end. They are sent two more transactions,
//! which do nothing. The first is begun when the last real one is over, which makes the slave wait for its strands;
//! the second is never begun. `ABORT` then kills the strands where they wait, and the slave reports its figures.

use crate::wire::{TransactionWork, Work};
use crate::{Group, Kind, Protocol};

/// Whether strands of a stock slave on `host` accept from one listener. Over UDP each has a socket of its own.
pub fn shares_listener(group: &Group, host: &str) -> bool {
    let mut connects = group
        .openings()
        .filter(|flowop| flowop.kind == Kind::Connect);
    group.strands.count > 1
        && connects.any(|flowop| {
            let endpoint = &flowop.endpoint;
            endpoint.port != 0
                && endpoint.protocol != Some(Protocol::Udp)
                && endpoint.remote_host.eq_ignore_ascii_case(host)
        })
}

/// Adds the two transactions that do nothing.
pub fn park(work: &mut Work) {
    for _ in 0..2 {
        let number = work.transactions.len() as u32;
        work.transactions
            .push(TransactionWork::of_nothing(number, 0));
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
            (Kind::Connect, Protocol::Tcp, 7, 2, true),
            (Kind::Connect, Protocol::Ssl, 7, 2, true),
            (Kind::Connect, Protocol::Udp, 7, 2, false),
            (Kind::Connect, Protocol::Tcp, 0, 2, false),
            (Kind::Connect, Protocol::Tcp, 7, 1, false),
            (Kind::Accept, Protocol::Tcp, 7, 2, false),
        ] {
            let mut flowop = Flowop::opening(kind, protocol);
            flowop.endpoint.port = port;
            flowop.endpoint.remote_host = "Host".to_owned();
            let mut group = Group::of([flowop]);
            group.strands.count = strands;
            let found = shares_listener(&group, "host");
            assert_eq!(found, expected, "{kind} {protocol} {port} {strands}");
            assert!(!shares_listener(&group, "other"));
        }
    }
}
