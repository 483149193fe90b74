//! From a transaction to the steps that the engine runs.

use model::{Action, Batch, Body, Limit, Pacing, Step, Transfer, Wait, Workers};

use std::collections::HashMap;
use std::time::Duration;

use super::sctp;
use crate::mirror;
use crate::workorder::{Flags, Flowop, Group, Kind, Protocol, Transaction};

/// The plan of a group whose transactions were compiled.
pub(super) fn group(group: &Group, transactions: Vec<model::Transaction>) -> model::Group {
    let hosts = mirror::hosts(group).into_iter();
    model::Group {
        name: group.name.clone(),
        workers: Workers {
            count: group.strands.count,
            are_processes: group.strands.processes,
        },
        peers: hosts.map(str::to_owned).collect(),
        body: Body::Transactions(transactions),
    }
}

/// The transactions of a group, each with a step for each flowop.
pub(super) fn transactions(group: &Group) -> Vec<model::Transaction> {
    let mut openings = HashMap::<u32, Openings>::new();
    for flowop in group.openings() {
        let first = Openings {
            first: Some(flowop),
            ..Openings::NONE
        };
        let openings = openings.entry(flowop.connection).or_insert(first);
        openings.add(flowop);
    }
    let compiled = |transaction: &Transaction| {
        let flowops = transaction.flowops.iter();
        let steps = flowops.map(|flowop| {
            let openings = openings.get(&flowop.connection);
            step(openings.unwrap_or(&Openings::NONE), flowop)
        });
        model::Transaction {
            limit: limit(transaction),
            pacing: pacing(transaction),
            steps: steps.collect(),
        }
    };
    group.transactions.iter().map(compiled).collect()
}

/// When the list ends.
fn limit(transaction: &Transaction) -> Limit {
    match transaction.duration {
        Some(duration) => Limit::Time(duration),
        None => Limit::Transactions(transaction.iterations),
    }
}

/// `rate=`, which only a transaction with a duration has: so many executions a second, evenly.
fn pacing(transaction: &Transaction) -> Option<Pacing> {
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

fn step(openings: &Openings<'_>, flowop: &Flowop) -> Step {
    let transfer = Transfer {
        repeat: if openings.have_messages {
            flowop.transfer.repeat.max(1)
        } else {
            1
        },
        waits: !openings.hurry(flowop),
        batch: openings.batch(flowop),
        ..flowop.transfer
    };
    let action = match flowop.kind {
        Kind::Write | Kind::Send => Action::Send(transfer),
        Kind::Read | Kind::Recv => Action::Receive(transfer),
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
        name: flowop.kind.name().into(),
        action,
        count: flowop.count,
        can_fail: flowop.flags.has(Flags::CAN_FAIL),
    }
}

/// What begins connections of one number, in the whole group.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is said of all of them")]
struct Openings<'a> {
    /// Of these protocols alone `repeat=` and `batch_size=` have a meaning. uperf passes over them for the others,
    /// and so the other end does.
    have_messages: bool,
    may_hurry: bool,
    hurry: bool,
    are_sctp: bool,
    first: Option<&'a Flowop>,
}

impl Openings<'_> {
    const NONE: Self = Self {
        have_messages: true,
        may_hurry: true,
        hurry: false,
        are_sctp: true,
        first: None,
    };

    fn add(&mut self, flowop: &Flowop) {
        let protocol = flowop.endpoint.protocol;
        self.have_messages &= matches!(protocol, Some(Protocol::Udp | Protocol::Sctp));
        self.may_hurry &= matches!(protocol, Some(Protocol::Udp | Protocol::Vsock));
        self.hurry |= flowop.flags.has(Flags::NON_BLOCKING);
        self.are_sctp &= protocol == Some(Protocol::Sctp);
    }

    /// `non_blocking`, of the transfer or its connection.
    fn hurry(&self, transfer: &Flowop) -> bool {
        self.may_hurry && (self.hurry || transfer.flags.has(Flags::NON_BLOCKING))
    }

    fn batch(&self, transfer: &Flowop) -> Option<Batch> {
        let count = if self.have_messages {
            transfer.batch_size.max(1)
        } else {
            1
        };
        let says = transfer.kind.sends() && self.are_sctp;
        let info = says
            .then(|| sctp::send_info(transfer, self.first))
            .flatten();
        (count > 1 || info.is_some()).then_some(Batch { count, info })
    }
}

/// Whether a group has connections that may lose something.
pub(crate) fn has_datagrams(group: &Group) -> bool {
    group
        .flowops()
        .any(|flowop| flowop.endpoint.protocol == Some(Protocol::Udp))
}

/// What the engine calls it; TLS goes over TCP.
pub(crate) fn transport(protocol: Protocol) -> Option<model::Transport> {
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

    fn connect(protocol: Protocol) -> Flowop {
        Flowop {
            connection: 9,
            ..Flowop::opening(Kind::Connect, protocol)
        }
    }

    /// What becomes of a transfer over the connection that `connect` opens.
    fn compiled(connect: Flowop, mut flowop: Flowop) -> Transfer {
        flowop.connection = 9;
        match transactions(&Group::of([connect, flowop]))[0].steps[1].action {
            Action::Send(transfer) | Action::Receive(transfer) => transfer,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_repeat_and_a_batch_are_for_udp_and_sctp() {
        for (protocol, times, count) in [
            (Protocol::Tcp, 1, None),
            (Protocol::Udp, 5, Some(6)),
            (Protocol::Sctp, 5, Some(6)),
            (Protocol::Vsock, 1, None),
        ] {
            let mut write = Flowop::new(Kind::Write);
            write.transfer.repeat = 5;
            write.batch_size = 6;
            let transfer = compiled(connect(protocol), write);
            let found = transfer.batch.map(|batch| batch.count);
            assert_eq!((transfer.repeat, found), (times, count), "{protocol}");
        }
    }

    #[test]
    fn who_does_not_block_is_of_udp_or_vsock() {
        let hasty = |mut flowop: Flowop| {
            flowop.flags = Flags::NON_BLOCKING;
            flowop
        };
        let read = || Flowop::new(Kind::Read);
        for (protocol, waits) in [
            (Protocol::Udp, false),
            (Protocol::Vsock, false),
            (Protocol::Tcp, true),
            (Protocol::Sctp, true),
        ] {
            assert!(compiled(connect(protocol), read()).waits);
            let by_connection = compiled(hasty(connect(protocol)), read());
            let by_itself = compiled(connect(protocol), hasty(read()));
            assert_eq!((by_connection.waits, by_itself.waits), (waits, waits));
        }
    }

    #[test]
    fn send_info_is_for_what_is_sent_over_sctp() {
        let saying = |kind| {
            let mut flowop = Flowop::new(kind);
            flowop.endpoint.sctp.stream = 3;
            flowop
        };
        let stream = |protocol, kind| {
            let batch = compiled(connect(protocol), saying(kind)).batch?;
            batch.info.map(|info| info.stream)
        };
        assert_eq!(stream(Protocol::Sctp, Kind::Write), Some(3));
        assert_eq!(stream(Protocol::Sctp, Kind::Read), None);
        assert_eq!(stream(Protocol::Udp, Kind::Write), None);
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
