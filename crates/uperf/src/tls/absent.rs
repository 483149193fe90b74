//! What stands here in a build without TLS.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "with TLS there is something, which may fail"
)]

use engine::Stop;
use engine::script::{Connection, Failure};

use super::Trouble;
use crate::options::Tls;
use crate::workorder::{Flowop, Group};

/// Nothing.
#[derive(Debug, Default)]
pub struct Security(());

/// Nothing for any group.
#[derive(Debug, Default)]
pub(crate) struct Contexts(());

/// There is nothing to object to: the protocol itself is refused.
pub(crate) fn objection(_: &str, _: &str) -> Option<(&'static str, String)> {
    None
}

impl Security {
    /// Refuses files for what cannot be.
    pub fn of_master(settings: &Tls, _: bool) -> Result<Self, Trouble> {
        if *settings == Tls::default() {
            Ok(Self(()))
        } else {
            Err(Trouble::Absent)
        }
    }

    /// As a master's.
    pub fn of_slave(settings: &Tls, verbose: bool) -> Result<Self, Trouble> {
        Self::of_master(settings, verbose)
    }

    pub(crate) fn prepare(&self, _: &Group) -> Result<Contexts, Trouble> {
        Ok(Contexts(()))
    }
}

impl Contexts {
    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    /// No flowop has come here that asks for TLS.
    pub(crate) fn over(
        &self,
        connection: Connection,
        _: &Flowop,
        _: &Stop,
    ) -> Result<Connection, Failure> {
        Ok(connection)
    }
}
