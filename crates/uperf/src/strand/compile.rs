//! From a transaction to the steps that the engine runs.

use engine::script::{Action, Amount, Rounds, Step, Transfer};
use model::{Pacing, Wait};
use std::time::Duration;

use crate::workorder::{Flags, Flowop, Kind, Protocol, Size, Transaction};

/// The steps, one a flowop.
pub(super) fn steps(transaction: &Transaction) -> Vec<Step> {
    transaction.flowops.iter().map(step).collect()
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

fn step(flowop: &Flowop) -> Step {
    let action = match flowop.kind {
        Kind::Write | Kind::Send => Action::Send(transfer(flowop)),
        Kind::Read | Kind::Recv => Action::Receive(transfer(flowop)),
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

fn transfer(flowop: &Flowop) -> Transfer {
    let amount = match flowop.size {
        Size::Fixed(bytes) => Amount::Exactly(bytes),
        Size::Random { min, max } => Amount::Between { min, max },
    };
    Transfer {
        amount,
        repeat: flowop.repeat.max(1),
        patience: flowop.timeout,
    }
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
