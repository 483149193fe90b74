//! The end of a stock slave whose strands share a listener.
//!
//! With `port=` all strands of a stock slave accept from one listener, and each of them frees it when it ends: the
//! slave crashes before it reports its figures. So its strands do not end. They are sent two more transactions,
//! which do nothing. The first is begun when the last real one is over, which makes the slave wait for its strands;
//! the second is never begun. `ABORT` then kills the strands where they wait, and the slave reports its figures.

use crate::wire::{FlowopRecord, TransactionRecord, TransactionWork, Work};
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
        work.transactions.push(TransactionWork {
            record: TransactionRecord {
                flowops: 1,
                number,
                iterations: 0,
                ..TransactionRecord::default()
            },
            flowops: vec![FlowopRecord::new(Kind::Nop)],
        });
    }
    work.group.transactions = work.transactions.len() as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, Strands, Transaction};

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
            let mut flowop = Flowop::new(kind);
            flowop.endpoint.protocol = Some(protocol);
            flowop.endpoint.port = port;
            flowop.endpoint.remote_host = "Host".to_owned();
            let group = Group {
                strands: Strands {
                    count: strands,
                    ..Strands::default()
                },
                transactions: vec![Transaction {
                    flowops: vec![flowop],
                    ..Transaction::default()
                }],
                ..Group::default()
            };
            let found = shares_listener(&group, "host");
            assert_eq!(found, expected, "{kind} {protocol} {port} {strands}");
            assert!(!shares_listener(&group, "other"));
        }
    }
}
