//! What the servers of all dialects have in common.
//!
//! Whose data a test takes, and where its data may go: [`DataPeer`] and [`accept`].

#![forbid(unsafe_code)]

mod peer;

pub use peer::{Accepted, DataPeer, Nonce, PREFERENCE, Policy, accept};
