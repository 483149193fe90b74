//! Compiles transactions to the steps that the engine runs.

use model::{Action, Batch, Body, Limit, Pacing, Step, Transfer, Wait, Workers};

use std::collections::HashMap;
use std::time::Duration;

use super::sctp;
use crate::peer_workorder;
use crate::workorder::{DataProtocol, Flowop, FlowopFlags, FlowopKind, GroupSpec, TransactionSpec};

/// Returns the plan of a group whose transactions are compiled.
pub(super) fn group_plan(group: &GroupSpec, transactions: Vec<model::Transaction>) -> model::Group {
    let hosts = peer_workorder::hosts(group).into_iter();
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

/// Compiles the transactions of a group, with one step per flowop.
pub(super) fn compile_transactions(group: &GroupSpec) -> Vec<model::Transaction> {
    let mut openings = HashMap::<u32, Openings>::new();
    for flowop in group.opening_flowops() {
        let initial = Openings {
            first: Some(flowop),
            ..Openings::NONE
        };
        let openings = openings.entry(flowop.connection).or_insert(initial);
        openings.add(flowop);
    }
    let compile = |transaction: &TransactionSpec| {
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
    group.transactions.iter().map(compile).collect()
}

/// Returns the limit of a transaction: its duration or its number of iterations.
fn limit(transaction: &TransactionSpec) -> Limit {
    match transaction.duration {
        Some(duration) => Limit::Time(duration),
        None => Limit::Transactions(transaction.iterations),
    }
}

/// Returns the pacing for `rate=`, in executions per second, at regular intervals. Only a
/// transaction with a duration has a rate.
fn pacing(transaction: &TransactionSpec) -> Option<Pacing> {
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
        repeat: if openings.are_message_based {
            flowop.transfer.repeat.max(1)
        } else {
            1
        },
        is_blocking: !openings.is_non_blocking(flowop),
        batch: openings.batch(flowop),
        ..flowop.transfer
    };
    let action = match flowop.kind {
        FlowopKind::Write | FlowopKind::Send => Action::Send(transfer),
        FlowopKind::Read | FlowopKind::Recv => Action::Receive(transfer),
        FlowopKind::Connect
        | FlowopKind::Accept
        | FlowopKind::Disconnect
        | FlowopKind::Sendfile
        | FlowopKind::Sendfilev => Action::DialectSpecific,
        FlowopKind::Think => Action::Think {
            duration: flowop.duration,
            spins: flowop.flags.has(FlowopFlags::BUSY),
        },
        FlowopKind::Nop => Action::Nothing,
    };
    Step {
        name: flowop.kind.name().into(),
        action,
        count: flowop.count,
        can_fail: flowop.flags.has(FlowopFlags::CAN_FAIL),
    }
}

/// Common properties of all connects and accepts of one connection number in a group.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of all openings"
)]
struct Openings<'a> {
    /// The protocol is UDP or SCTP. `repeat=` and `batch_size=` apply to these only; uperf ignores
    /// them for others, and so must this end.
    are_message_based: bool,
    can_be_non_blocking: bool,
    are_non_blocking: bool,
    are_sctp: bool,
    first: Option<&'a Flowop>,
}

impl Openings<'_> {
    const NONE: Self = Self {
        are_message_based: true,
        can_be_non_blocking: true,
        are_non_blocking: false,
        are_sctp: true,
        first: None,
    };

    fn add(&mut self, flowop: &Flowop) {
        let protocol = flowop.endpoint.protocol;
        self.are_message_based &= matches!(protocol, Some(DataProtocol::Udp | DataProtocol::Sctp));
        self.can_be_non_blocking &=
            matches!(protocol, Some(DataProtocol::Udp | DataProtocol::Vsock));
        self.are_non_blocking |= flowop.flags.has(FlowopFlags::NON_BLOCKING);
        self.are_sctp &= protocol == Some(DataProtocol::Sctp);
    }

    /// Whether `non_blocking` is set for the transfer or its connection.
    fn is_non_blocking(&self, transfer: &Flowop) -> bool {
        self.can_be_non_blocking
            && (self.are_non_blocking || transfer.flags.has(FlowopFlags::NON_BLOCKING))
    }

    fn batch(&self, transfer: &Flowop) -> Option<Batch> {
        let count = if self.are_message_based {
            transfer.batch_size.max(1)
        } else {
            1
        };
        let has_send_info = transfer.kind.sends() && self.are_sctp;
        let info = has_send_info
            .then(|| sctp::send_info(transfer, self.first))
            .flatten();
        (count > 1 || info.is_some()).then_some(Batch { count, info })
    }
}

/// Whether a group has connections that may lose data.
pub(crate) fn has_datagrams(group: &GroupSpec) -> bool {
    group
        .flowops()
        .any(|flowop| flowop.endpoint.protocol == Some(DataProtocol::Udp))
}

/// Returns the engine's transport for a protocol. TLS uses TCP.
pub(crate) fn transport(protocol: DataProtocol) -> Option<model::Transport> {
    match protocol {
        DataProtocol::Tcp | DataProtocol::Ssl => Some(model::Transport::Tcp),
        DataProtocol::Udp => Some(model::Transport::Udp),
        DataProtocol::Sctp => Some(model::Transport::Sctp),
        DataProtocol::Vsock => Some(model::Transport::Vsock),
        DataProtocol::Mptcp => Some(model::Transport::Mptcp),
        DataProtocol::Unix => Some(model::Transport::UnixStream),
        DataProtocol::Rds => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(protocol: DataProtocol) -> Flowop {
        Flowop {
            connection: 9,
            ..Flowop::with_protocol(FlowopKind::Connect, protocol)
        }
    }

    /// Returns the compiled transfer of a flowop over the connection that `connect` opens.
    fn compiled_transfer(connect: Flowop, mut flowop: Flowop) -> Transfer {
        flowop.connection = 9;
        match compile_transactions(&GroupSpec::with_flowops([connect, flowop]))[0].steps[1].action {
            Action::Send(transfer) | Action::Receive(transfer) => transfer,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_repeat_and_a_batch_are_for_udp_and_sctp() {
        for (protocol, times, count) in [
            (DataProtocol::Tcp, 1, None),
            (DataProtocol::Udp, 5, Some(6)),
            (DataProtocol::Sctp, 5, Some(6)),
            (DataProtocol::Vsock, 1, None),
        ] {
            let mut write = Flowop::new(FlowopKind::Write);
            write.transfer.repeat = 5;
            write.batch_size = 6;
            let transfer = compiled_transfer(connect(protocol), write);
            let found = transfer.batch.map(|batch| batch.count);
            assert_eq!((transfer.repeat, found), (times, count), "{protocol}");
        }
    }

    #[test]
    fn non_blocking_is_for_udp_and_vsock() {
        let non_blocking = |mut flowop: Flowop| {
            flowop.flags = FlowopFlags::NON_BLOCKING;
            flowop
        };
        let read = || Flowop::new(FlowopKind::Read);
        for (protocol, waits) in [
            (DataProtocol::Udp, false),
            (DataProtocol::Vsock, false),
            (DataProtocol::Tcp, true),
            (DataProtocol::Sctp, true),
        ] {
            assert!(compiled_transfer(connect(protocol), read()).is_blocking);
            let by_connection = compiled_transfer(non_blocking(connect(protocol)), read());
            let by_itself = compiled_transfer(connect(protocol), non_blocking(read()));
            assert_eq!(
                (by_connection.is_blocking, by_itself.is_blocking),
                (waits, waits)
            );
        }
    }

    #[test]
    fn send_info_is_for_sctp_sends() {
        let with_stream = |kind| {
            let mut flowop = Flowop::new(kind);
            flowop.endpoint.sctp.stream = 3;
            flowop
        };
        let stream = |protocol, kind| {
            let batch = compiled_transfer(connect(protocol), with_stream(kind)).batch?;
            batch.info.map(|info| info.stream)
        };
        assert_eq!(stream(DataProtocol::Sctp, FlowopKind::Write), Some(3));
        assert_eq!(stream(DataProtocol::Sctp, FlowopKind::Read), None);
        assert_eq!(stream(DataProtocol::Udp, FlowopKind::Write), None);
    }

    #[test]
    fn a_rate_is_for_a_duration() {
        let mut transaction = TransactionSpec {
            rate: 4,
            ..TransactionSpec::default()
        };
        assert_eq!(pacing(&transaction), None);
        transaction.duration = Some(Duration::from_secs(1));
        let interval = pacing(&transaction).map(|pacing| pacing.interval);
        assert_eq!(interval, Some(Duration::from_millis(250)));
    }
}
