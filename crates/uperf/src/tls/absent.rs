//! Replacement for the TLS modules in a build without TLS.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the signatures are those of a build with TLS"
)]

use engine::Stop;
use engine::script::{Connection, StepFailure};

use super::TlsError;
use crate::options::TlsFiles;
use crate::workorder::{Flowop, GroupSpec};

/// TLS settings: always empty.
#[derive(Debug, Default)]
pub struct TlsSettings(());

/// TLS contexts of a group: always empty.
#[derive(Debug, Default)]
pub(crate) struct TlsContexts(());

/// Returns `None`: the profile already refuses the protocol.
pub(crate) fn find_invalid_option(_: &str, _: &str) -> Option<(&'static str, String)> {
    None
}

impl TlsSettings {
    /// Returns the settings of a master. Fails if the command line names TLS files.
    pub fn for_master(settings: &TlsFiles, _: bool) -> Result<Self, TlsError> {
        if *settings == TlsFiles::default() {
            Ok(Self(()))
        } else {
            Err(TlsError::NotBuilt)
        }
    }

    /// Returns the settings of a slave. Fails like [`Self::for_master`].
    pub fn for_slave(settings: &TlsFiles, verbose: bool) -> Result<Self, TlsError> {
        Self::for_master(settings, verbose)
    }

    pub(crate) fn prepare(&self, _: &GroupSpec) -> Result<TlsContexts, TlsError> {
        Ok(TlsContexts(()))
    }
}

impl TlsContexts {
    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    /// Returns the connection unchanged: no flowop of a valid group uses TLS.
    pub(crate) fn establish(
        &self,
        connection: Connection,
        _: &Flowop,
        _: &Stop,
    ) -> Result<Connection, StepFailure> {
        Ok(connection)
    }
}
