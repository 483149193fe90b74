//! From a transaction to the steps that the engine runs.

use engine::script::{Action, Amount, Rounds, Step, Transfer};
use model::{Pacing, Wait};
use std::time::Duration;

use crate::workorder::{Endpoint, Flags, Flowop, Group, Kind, Protocol, Sctp, Size, Transaction};

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
    goes_over(group, connection, &[Protocol::Udp, Protocol::Sctp])
}

/// Whether a group has connections that may lose something.
pub(super) fn has_datagrams(group: &Group) -> bool {
    let mut flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
    flowops.any(|flowop| flowop.endpoint.protocol == Some(Protocol::Udp))
}

/// Whether connections of this number go over these protocols alone.
fn goes_over(group: &Group, connection: u32, protocols: &[Protocol]) -> bool {
    let flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
    let mut opening =
        flowops.filter(|flowop| flowop.kind.opens() && flowop.connection == connection);
    opening.all(|flowop| {
        let protocol = flowop.endpoint.protocol;
        protocol.is_some_and(|protocol| protocols.contains(&protocol))
    })
}

/// An option that has a meaning for its flowop's connection and is not carried out here.
pub(crate) fn not_yet(group: &Group) -> Option<&'static str> {
    let mut flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
    flowops.find_map(|flowop| {
        let over = |protocols: &[Protocol]| goes_over(group, flowop.connection, protocols);
        let Endpoint {
            sctp,
            encapsulation_port,
            ..
        } = &flowop.endpoint;
        if flowop.kind == Kind::Connect && *encapsulation_port != 0 {
            return Some("encaps=");
        }
        let datagrams = [Protocol::Udp, Protocol::Vsock];
        if flowop.flags.has(Flags::NON_BLOCKING) && over(&datagrams) {
            return Some("non_blocking");
        }
        if !over(&[Protocol::Sctp]) {
            return None;
        }
        if flowop.batch_size > 1 {
            return Some("batch_size=");
        }
        let is_plain = *sctp == Sctp::default() && !flowop.flags.has(Flags::SCTP_UNORDERED);
        (!is_plain).then_some("sctp_* but sctp_nodelay")
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
    fn what_is_not_carried_out_is_named_where_it_has_a_meaning() {
        let with = |protocol, change: fn(&mut Flowop)| {
            let mut connect = Flowop::new(Kind::Connect);
            connect.endpoint.protocol = Some(protocol);
            change(&mut connect);
            let transaction = Transaction {
                flowops: vec![connect],
                ..Transaction::default()
            };
            not_yet(&Group {
                transactions: vec![transaction],
                ..Group::default()
            })
        };
        let streams: fn(&mut Flowop) = |flowop| flowop.endpoint.sctp.out_streams = 4;
        assert_eq!(
            with(Protocol::Sctp, streams),
            Some("sctp_* but sctp_nodelay")
        );
        assert_eq!(with(Protocol::Tcp, streams), None);
        let non_blocking: fn(&mut Flowop) = |flowop| flowop.flags = Flags::NON_BLOCKING;
        assert_eq!(with(Protocol::Udp, non_blocking), Some("non_blocking"));
        assert_eq!(with(Protocol::Tcp, non_blocking), None);
        assert_eq!(
            with(Protocol::Sctp, |flowop| flowop.batch_size = 2),
            Some("batch_size=")
        );
        assert_eq!(
            with(Protocol::Tcp, |flowop| flowop.endpoint.encapsulation_port =
                9),
            Some("encaps=")
        );
        assert_eq!(
            with(Protocol::Sctp, |flowop| flowop.flags = Flags::SCTP_NO_DELAY),
            None
        );
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
