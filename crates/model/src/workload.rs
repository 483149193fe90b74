//! The repeated operations of one end.

use serde::{Deserialize, Serialize};

/// One operation of a workload, on the flow's only connection.
///
/// An operation does not imply a blocking call. The engine runs common lists in blocking loops; an
/// event loop could run the same lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Open a connection from a new local port.
    Connect,
    /// Take the next connection from the listener.
    Accept,
    /// One send call of the send buffer's size (or one file range, see
    /// [`crate::EndpointPlan::send_from_file`]).
    Send,
    /// One receive call of at most the receive buffer's size.
    Receive,
    /// Receive calls until the receive buffer is full.
    ReceiveAll,
    /// Shut down this end's stream.
    HalfClose,
    /// Wait for the peer's end of stream.
    AwaitClose,
    /// Close the connection.
    Close,
}

/// One end's workload: repeats `body` until the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Workload {
    /// The operations of one pass, in order.
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

    /// Send a request and wait for the complete response.
    pub fn request() -> Self {
        Self {
            body: vec![Operation::Send, Operation::ReceiveAll],
        }
    }

    /// Wait for a complete request and send the response.
    pub fn respond() -> Self {
        Self {
            body: vec![Operation::ReceiveAll, Operation::Send],
        }
    }

    /// Run [`Workload::request`] on a new connection in each pass. The peer closes it.
    pub fn connect_and_request() -> Self {
        use Operation::{AwaitClose, Close, Connect, ReceiveAll, Send};
        Self {
            body: vec![Connect, Send, ReceiveAll, AwaitClose, Close],
        }
    }

    /// Run [`Workload::respond`] on a new connection in each pass.
    pub fn accept_and_respond() -> Self {
        use Operation::{Accept, Close, ReceiveAll, Send};
        Self {
            body: vec![Accept, ReceiveAll, Send, Close],
        }
    }

    /// Open a connection in each pass. The peer closes it.
    pub fn connect_and_close() -> Self {
        use Operation::{AwaitClose, Close, Connect};
        Self {
            body: vec![Connect, AwaitClose, Close],
        }
    }

    /// Accept a connection and close it, in each pass.
    pub fn accept_and_close() -> Self {
        Self {
            body: vec![Operation::Accept, Operation::Close],
        }
    }

    /// Returns the peer's operations. The peer of a transactional workload receives whole messages.
    /// With one connection per pass, the accepting end closes first.
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

    /// Adds a half-close before the wait for the peer's end of stream, for a peer that does not
    /// close by itself.
    #[must_use]
    pub fn with_half_close(mut self) -> Self {
        if let Some(index) = self.body.iter().position(|op| *op == Operation::AwaitClose) {
            self.body.insert(index, Operation::HalfClose);
        }
        self
    }

    /// Returns whether one pass of the body is a transaction: data in both directions, or a
    /// connection.
    pub fn is_transactional(&self) -> bool {
        self.connects() || (self.sends() && self.receives())
    }

    /// Returns whether each pass has its own connection.
    pub fn connects(&self) -> bool {
        self.body
            .iter()
            .any(|op| matches!(op, Operation::Connect | Operation::Accept))
    }

    /// Returns whether this end sends data.
    pub fn sends(&self) -> bool {
        self.body.contains(&Operation::Send)
    }

    /// Returns whether this end receives data.
    pub fn receives(&self) -> bool {
        self.body
            .iter()
            .any(|op| matches!(op, Operation::Receive | Operation::ReceiveAll))
    }
}
