//! Logins: the token with which a client says who it is, encrypted with the server's RSA key.

use crate::options::{Client, Server};
use crate::wire::Parameters;
use crate::wire::error::{self, Fault};

/// The token that the client's options ask for.
pub(crate) fn token(client: &Client) -> Result<Option<String>, Fault> {
    match &client.user {
        None => Ok(None),
        Some(_) => Err(Fault::because(error::AUTHORIZATION, "not supported yet")),
    }
}

/// Checks the token of a server's client, if the server serves known users only.
pub(crate) fn check(settings: &Server, _parameters: &Parameters) -> Result<(), Fault> {
    match &settings.private_key {
        None => Ok(()),
        Some(_) => Err(Fault::of(error::AUTHORIZATION)),
    }
}
