//! From a transaction to the steps that the engine runs.

use engine::script::{Action, Amount, Rounds, Step, Transfer};
use model::{Pacing, Wait};
use std::time::Duration;

use crate::workorder::{Flags, Flowop, Group, Kind, Protocol, Size, Transaction};

/// The steps of a transaction of this group, one a flowop.
pub(super) fn steps(group: &Group, transaction: &Transaction) -> Vec<Step> {
    let flowops = transaction.flowops.iter();
    flowops.map(|flowop| step(group, flowop)).collect()
}

/// How often the list is run.
pub(super) fn rounds(transaction: &Transaction) -> Rounds {
    match transaction.duration {
        Some(_) => Rounds::UntilStopped,
        None => Rounds::Times(transaction.iterations),
    }
}

/// `rate=`, which only a transaction with a duration has: so many executions a second, evenly.
pub(super) fn pacing(transaction: &Transaction) -> Option<Pacing> {
    transaction.duration?;
    if transaction.rate == 0 {
        return None;
    }
    Some(Pacing {
        burst: 1,
        interval: Duration::from_secs(1) / transaction.rate,
        wait: Wait::Sleep,
    })
}

fn step(group: &Group, flowop: &Flowop) -> Step {
    let action = match flowop.kind {
        Kind::Write | Kind::Send => Action::Send(transfer(group, flowop)),
        Kind::Read | Kind::Recv => Action::Receive(transfer(group, flowop)),
        Kind::Connect | Kind::Accept | Kind::Disconnect | Kind::Sendfile | Kind::Sendfilev => {
            Action::Own
        }
        Kind::Think => Action::Think {
            duration: flowop.duration,
            spins: flowop.flags.has(Flags::BUSY),
        },
        Kind::Nop => Action::Nothing,
    };
    Step {
        action,
        count: flowop.count,
        can_fail: flowop.flags.has(Flags::CAN_FAIL),
    }
}

fn transfer(group: &Group, flowop: &Flowop) -> Transfer {
    let amount = match flowop.size {
        Size::Fixed(bytes) => Amount::Exactly(bytes),
        Size::Random { min, max } => Amount::Between { min, max },
    };
    Transfer {
        amount,
        repeat: if repeats(group, flowop.connection) {
            flowop.repeat.max(1)
        } else {
            1
        },
        patience: flowop.timeout,
    }
}

/// Whether `repeat=` has a meaning for connections of this number: it has for UDP and SCTP. uperf passes over
/// it for the others, and so the other end does.
fn repeats(group: &Group, connection: u32) -> bool {
    let flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
    let mut opening =
        flowops.filter(|flowop| flowop.kind.opens() && flowop.connection == connection);
    opening.all(|flowop| {
        let protocol = flowop.endpoint.protocol;
        matches!(protocol, Some(Protocol::Udp | Protocol::Sctp))
    })
}

/// What the engine calls it; TLS goes over TCP.
pub(super) fn transport(protocol: Protocol) -> Option<model::Transport> {
    match protocol {
        Protocol::Tcp | Protocol::Ssl => Some(model::Transport::Tcp),
        Protocol::Udp => Some(model::Transport::Udp),
        Protocol::Sctp => Some(model::Transport::Sctp),
        Protocol::Vsock => Some(model::Transport::Vsock),
        Protocol::Mptcp => Some(model::Transport::Mptcp),
        Protocol::Unix => Some(model::Transport::UnixStream),
        Protocol::Rds => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_for_udp_and_sctp() {
        for (protocol, times) in [(Protocol::Tcp, 1), (Protocol::Udp, 5), (Protocol::Sctp, 5)] {
            let mut connect = Flowop::new(Kind::Connect);
            connect.endpoint.protocol = Some(protocol);
            connect.connection = 9;
            let mut write = Flowop::new(Kind::Write);
            write.connection = 9;
            write.repeat = 5;
            let transaction = Transaction {
                flowops: vec![connect, write],
                ..Transaction::default()
            };
            let group = Group {
                transactions: vec![transaction.clone()],
                ..Group::default()
            };
            let steps = steps(&group, &transaction);
            let Action::Send(transfer) = steps[1].action else {
                panic!("{steps:?}");
            };
            assert_eq!(transfer.repeat, times, "{protocol}");
        }
    }

    #[test]
    fn a_rate_is_for_a_duration() {
        let mut transaction = Transaction {
            rate: 4,
            ..Transaction::default()
        };
        assert_eq!(pacing(&transaction), None);
        transaction.duration = Some(Duration::from_secs(1));
        let interval = pacing(&transaction).map(|pacing| pacing.interval);
        assert_eq!(interval, Some(Duration::from_millis(250)));
    }
}
