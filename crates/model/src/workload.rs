//! What one end repeats.

use serde::{Deserialize, Serialize};

/// One step of a workload, on the flow's one connection.
///
/// Nothing in it says that an operation blocks: straight loops run the common lists, and a state
/// machine over readiness could walk the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Open a connection from a new local port.
    Connect,
    /// Take the next connection from the listener.
    Accept,
    /// One send call of the send buffer's size (or one file range, see [`Half::send_from_file`]).
    Send,
    /// One receive call of at most the receive buffer's size.
    Receive,
    /// Receive calls until a whole receive buffer has come.
    ReceiveAll,
    /// End this end's stream.
    HalfClose,
    /// Wait for the peer's end of stream.
    AwaitClose,
    /// Close the connection.
    Close,
}

/// What one end does: `body` over and over until the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Workload {
    /// The repeated operations, in order.
    pub body: Vec<Operation>,
}

impl Workload {
    /// Send without pause.
    pub fn send() -> Self {
        Self {
            body: vec![Operation::Send],
        }
    }

    /// Receive without pause.
    pub fn receive() -> Self {
        Self {
            body: vec![Operation::Receive],
        }
    }

    /// Send a request, await the whole response.
    pub fn ask() -> Self {
        Self {
            body: vec![Operation::Send, Operation::ReceiveAll],
        }
    }

    /// Await a whole request, send the response.
    pub fn answer() -> Self {
        Self {
            body: vec![Operation::ReceiveAll, Operation::Send],
        }
    }

    /// [`Workload::ask`] on a new connection each time, which the peer closes.
    pub fn connect_and_ask() -> Self {
        use Operation::{AwaitClose, Close, Connect, ReceiveAll, Send};
        Self {
            body: vec![Connect, Send, ReceiveAll, AwaitClose, Close],
        }
    }

    /// [`Workload::answer`] on a new connection each time.
    pub fn accept_and_answer() -> Self {
        use Operation::{Accept, Close, ReceiveAll, Send};
        Self {
            body: vec![Accept, ReceiveAll, Send, Close],
        }
    }

    /// Open a connection, which the peer closes, over and over.
    pub fn connect_and_close() -> Self {
        use Operation::{AwaitClose, Close, Connect};
        Self {
            body: vec![Connect, AwaitClose, Close],
        }
    }

    /// Accept a connection and close it, over and over.
    pub fn accept_and_close() -> Self {
        Self {
            body: vec![Operation::Accept, Operation::Close],
        }
    }

    /// The peer's operations during these. Messages that are answered are received whole; of a connection a pass, the
    /// end that accepts closes first.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        use Operation::{Accept, AwaitClose, Close, Connect, HalfClose, Receive, ReceiveAll, Send};
        let accepts = self.body.contains(&Accept);
        let mirrored = |operation: &Operation| match operation {
            Connect => vec![Accept],
            Accept => vec![Connect],
            Send if self.is_transactional() => vec![ReceiveAll],
            Send => vec![Receive],
            Receive | ReceiveAll => vec![Send],
            HalfClose | AwaitClose => vec![],
            Close if accepts => vec![AwaitClose, Close],
            Close => vec![Close],
        };
        Self {
            body: self.body.iter().flat_map(mirrored).collect(),
        }
    }

    /// The same with this end's stream ended before the peer's end is awaited, where it is in each
    /// pass: for a peer that does not close by itself.
    #[must_use]
    pub fn closing_first(mut self) -> Self {
        if let Some(at) = self.body.iter().position(|op| *op == Operation::AwaitClose) {
            self.body.insert(at, Operation::HalfClose);
        }
        self
    }

    /// Whether one pass of the body is a transaction: data in both directions, or a connection.
    pub fn is_transactional(&self) -> bool {
        self.connects() || (self.sends() && self.receives())
    }

    /// Whether every pass has a connection of its own.
    pub fn connects(&self) -> bool {
        self.body
            .iter()
            .any(|op| matches!(op, Operation::Connect | Operation::Accept))
    }

    /// Whether this end sends data.
    pub fn sends(&self) -> bool {
        self.body.contains(&Operation::Send)
    }

    /// Whether this end receives data.
    pub fn receives(&self) -> bool {
        self.body
            .iter()
            .any(|op| matches!(op, Operation::Receive | Operation::ReceiveAll))
    }
}
