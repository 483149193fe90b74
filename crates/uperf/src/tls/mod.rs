//! TLS over a connected socket: what `protocol=ssl` is.
//!
//! The end that accepts a connection has a certificate, and one that connects may have one. An end verifies the
//! other's if a file of authorities was named. Each handshake is a whole one: no session is taken up again, as in uperf.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod choice;
#[cfg(feature = "tls")]
mod context;
#[cfg(feature = "tls")]
mod credentials;
#[cfg(feature = "tls")]
mod encrypted;
#[cfg(feature = "tls")]
mod made;
#[cfg(feature = "tls")]
mod reason;
#[cfg(all(test, feature = "tls"))]
mod tests;
mod trouble;
#[cfg(feature = "tls")]
mod trust;

#[cfg(not(feature = "tls"))]
pub use absent::Security;
#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Contexts, objection};
#[cfg(feature = "tls")]
pub(crate) use choice::objection;
#[cfg(feature = "tls")]
pub(crate) use context::Contexts;
#[cfg(feature = "tls")]
pub use context::Security;
pub use trouble::Trouble;

/// What is said of `engine=`.
pub(crate) const NO_ENGINES: &str = "engines are OpenSSL's, and linerate does without";
