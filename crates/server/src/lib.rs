//! What the servers of all dialects have in common.
//!
//! Whose data a test takes, and where its data may go: [`DataPeer`], [`accept`] and [`Door`]. What clients may
//! have the host do: [`Permissions`].

#![forbid(unsafe_code)]

mod peer;
mod permissions;

pub use peer::{Accepted, DataPeer, Door, Nonce, Others, PREFERENCE, Policy, accept};
pub use permissions::Permissions;
