//! In the place of [`crate::login`] in a build without RSA: nobody logs in.

use crate::options::{Client, Server};
use crate::wire::Parameters;
use crate::wire::error::{self, Fault};

/// How a token is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    Oaep,
    Old,
}

/// The logins that a server accepts.
#[derive(Debug)]
pub(crate) struct Guard;

const NO_RSA: &str = "this build has no logins (cargo feature rsa)";

pub(crate) fn token(client: &Client, _: Padding) -> Result<Option<String>, Fault> {
    let wants_login = client.user.is_some();
    let fault = Fault::because(error::AUTHORIZATION, NO_RSA);
    if wants_login { Err(fault) } else { Ok(None) }
}

impl Guard {
    pub(crate) fn of(settings: &Server) -> Result<Option<Self>, String> {
        let wants_logins = settings.private_key.is_some();
        if wants_logins {
            Err(NO_RSA.to_owned())
        } else {
            Ok(None)
        }
    }

    #[expect(clippy::unused_self, reason = "a build with RSA uses it")]
    pub(crate) fn check(&self, _: &Parameters) -> Result<(), Fault> {
        Err(Fault::of(error::AUTHORIZATION))
    }
}
