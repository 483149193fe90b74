//! Errors in TLS settings.

#[cfg(feature = "tls")]
use std::path::Path;
use std::path::PathBuf;

/// Reason why this end cannot open TLS connections.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {}", path.display(), sys::describe(error))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the read.
        error: std::io::Error,
    },
    /// The content of a file is missing or invalid.
    #[error("{}: {reason}", path.display())]
    InvalidContent {
        /// Path of the file.
        path: PathBuf,
        /// Missing or invalid part.
        reason: String,
    },
    /// A self-signed certificate cannot be created.
    #[error("cannot create a self-signed certificate: {0}")]
    SelfSigning(String),
    /// The settings in the profile or command line are unsupported.
    #[error("{0}")]
    Unsupported(String),
    /// This build has no TLS support.
    #[error("this linerate was built without TLS")]
    NotBuilt,
}

#[cfg(feature = "tls")]
impl TlsError {
    pub(super) fn invalid_content(path: &Path, reason: impl Into<String>) -> Self {
        Self::InvalidContent {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
