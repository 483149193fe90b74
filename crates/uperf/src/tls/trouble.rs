//! What is wrong with a TLS setting.

#[cfg(feature = "tls")]
use std::path::Path;
use std::path::PathBuf;

/// What keeps this end from making TLS connections.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A file cannot be read.
    #[error("{}: {}", path.display(), sys::describe(error))]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A file has not what is needed.
    #[error("{}: {why}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it lacks, or what is wrong with it.
        why: String,
    },
    /// No certificate could be made.
    #[error("no certificate could be made: {0}")]
    Making(String),
    /// What the profile asks for cannot be.
    #[error("{0}")]
    Asked(String),
    /// A build without the library.
    #[error("this linerate was built without TLS")]
    Absent,
}

#[cfg(feature = "tls")]
impl Trouble {
    pub(super) fn content(path: &Path, why: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            why: why.into(),
        }
    }
}
