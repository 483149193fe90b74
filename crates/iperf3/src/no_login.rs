//! Replaces [`crate::login`] in a build without RSA: every login fails.

use engine::{BudgetHolder, Stop};

use crate::options::{ClientSettings, ServerSettings};
use crate::wire::error::{self, Fault};

/// The RSA padding of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    Oaep,
    Pkcs1,
}

/// Verifies the logins of clients.
#[derive(Debug)]
pub(crate) struct LoginVerifier;

const NO_RSA: &str = "this build does not support logins (cargo feature rsa)";

pub(crate) fn token(client: &ClientSettings, _: Padding) -> Result<Option<String>, Fault> {
    let requests_login = client.user.is_some();
    let fault = Fault::with_reason(error::AUTHORIZATION, NO_RSA);
    if requests_login { Err(fault) } else { Ok(None) }
}

impl LoginVerifier {
    pub(crate) fn from_settings(settings: &ServerSettings) -> Result<Option<Self>, String> {
        let requires_logins = settings.private_key.is_some();
        if requires_logins {
            Err(NO_RSA.to_owned())
        } else {
            Ok(None)
        }
    }

    #[expect(clippy::unused_self, reason = "a build with RSA uses it")]
    pub(crate) fn check(&self, _: &str, _: BudgetHolder, _: &Stop) -> Result<(), Fault> {
        Err(Fault::from_code(error::AUTHORIZATION))
    }
}
