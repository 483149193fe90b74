//! The messages of the SCTP tests: TCP's of the same kind, and one word behind each.
//!
//! The tests over one-to-many sockets have the same layouts under their own numbers.

use super::frame::{Field, ORDER, PAYLOAD};
use super::{
    Frame, RemoteError, StreamRequest, StreamResponse, TransactionRequest, TransactionResponse,
};

/// A message of TCP's, and whether the socket is to wait (in a response: waits) in its calls or in
/// poll(2).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sctp<M> {
    /// What it has in common with TCP's.
    pub tcp: M,
    /// Test option `-B`.
    pub non_blocking: bool,
}

impl<M> Sctp<M> {
    /// The names of the fields.
    pub const FIELDS: &'static [&'static str] = &["tcp", "non_blocking"];
}

macro_rules! behind {
    ($($message:ident: $at:literal,)+) => {$(
        impl Sctp<$message> {
            pub(super) fn read(frame: &Frame) -> Self {
                Self {
                    tcp: $message::read(frame),
                    non_blocking: Field::read(frame, PAYLOAD + $at, ORDER),
                }
            }

            pub(super) fn write(&self, frame: &mut Frame) {
                self.tcp.write(frame);
                self.non_blocking.write(frame, PAYLOAD + $at, ORDER);
            }
        }
    )+};
}

behind! {
    StreamRequest: 60,
    StreamResponse: 40,
    TransactionRequest: 64,
    TransactionResponse: 36,
}

macro_rules! replies {
    ($($message:ident,)+) => {$(
        impl Sctp<$message> {
            /// The fields of a reply, whatever type it claims.
            pub fn decode(frame: &Frame) -> Result<Self, RemoteError> {
                super::check(frame)?;
                Ok(Self::read(frame))
            }

            /// The answer to a request of that type.
            pub fn encode(&self, request: i32) -> Frame {
                let mut frame = self.tcp.encode(request);
                self.write(&mut frame);
                frame
            }
        }
    )+};
}

replies! {
    StreamResponse,
    TransactionResponse,
}
