//! TLS over a connected socket, for `protocol=ssl`.
//!
//! The accepting end has a certificate; the connecting end may have one. An end verifies the peer's
//! certificate if it has a file of CA certificates. Each handshake is a full one without session
//! resumption, as in uperf.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod cipher_suites;
#[cfg(feature = "tls")]
mod context;
#[cfg(feature = "tls")]
mod credentials;
mod error;
#[cfg(feature = "tls")]
mod error_text;
#[cfg(feature = "tls")]
mod layer;
#[cfg(feature = "tls")]
mod self_signed;
#[cfg(all(test, feature = "tls"))]
mod tests;
#[cfg(feature = "tls")]
mod trust;

#[cfg(not(feature = "tls"))]
pub use absent::TlsSettings;
#[cfg(not(feature = "tls"))]
pub(crate) use absent::{TlsContexts, find_invalid_option};
#[cfg(feature = "tls")]
pub(crate) use cipher_suites::find_invalid_option;
#[cfg(feature = "tls")]
pub(crate) use context::TlsContexts;
#[cfg(feature = "tls")]
pub use context::TlsSettings;
pub use error::TlsError;

/// Reason why `engine=` has no effect.
pub(crate) const NO_ENGINES: &str = "engines need OpenSSL, which linerate does not use";
