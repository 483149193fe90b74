//! What one linerate tells another beside the results, which have no room for it.

use std::net::IpAddr;

use model::Side;
use serde::{Deserialize, Serialize};

/// The document of a details message. A reader passes over members that it does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Details {
    /// The teller's version.
    pub(crate) version: String,
    /// What it measured.
    pub(crate) side: Side,
    /// Tests of others that it served at the same time.
    pub(crate) overlapping_tests: u32,
}

impl Details {
    /// The details of a finished test, with the facts of this host.
    pub(crate) fn of(mut side: Side, overlapping_tests: u32, local: Option<IpAddr>) -> Self {
        side.host = Some(engine::facts(local));
        side.program = Some(crate::PROGRAM.to_owned());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            side,
            overlapping_tests,
        }
    }

    /// The document's bytes.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The document in `bytes`; a peer's nonsense is `None`.
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
