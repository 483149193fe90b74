//! Logins: a client sends user name, password and time, encrypted with the server's RSA key.
//!
//! A server answers every failed login alike and after the same time. So neither the answer nor
//! its delay reveals which part of a token was valid.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use engine::{BudgetHolder, Stop};
use server::{Attempt, LoginAttempts};
use sha2::{Digest, Sha256};

use crate::options::{ClientSettings, ServerSettings};
use crate::unix_seconds;
use crate::wire::error::{self, Fault};

/// The time from a failed login to its answer.
const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// The maximum number of remembered tokens; further logins are refused until old tokens expire.
const MAX_TOKENS: usize = 100_000;

/// The RSA padding of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// OAEP: iperf3 3.17 and later.
    Oaep,
    /// PKCS#1 v1.5: iperf3 3.16 and earlier.
    Pkcs1,
}

/// Returns the encrypted token of the client's user; `None` without login options.
pub(crate) fn token(client: &ClientSettings, padding: Padding) -> Result<Option<String>, Fault> {
    let (Some(user), Some(path)) = (&client.user, &client.public_key) else {
        return Ok(None);
    };
    let fault = |reason: String| Fault::with_reason(error::AUTHORIZATION, reason);
    let password = std::env::var("IPERF3_PASSWORD");
    let password = password
        .map_err(|_| fault("the environment variable IPERF3_PASSWORD is not set".to_owned()))?;
    let key = read_pem(path).map_err(fault)?;
    let now = unix_seconds(SystemTime::now());
    let token = encrypt(key.contents(), &plaintext(user, &password, now), padding);
    let unusable = || {
        fault(format!(
            "{} contains no usable RSA key of 2048 to 8192 bits",
            path.display()
        ))
    };
    token.map(Some).ok_or_else(unusable)
}

fn plaintext(user: &str, password: &str, seconds: u64) -> String {
    format!("user: {user}\npwd:  {password}\nts:   {seconds}")
}

fn encrypt(public_key: &[u8], plaintext: &str, padding: Padding) -> Option<String> {
    let key = PublicEncryptingKey::from_der(public_key).ok()?;
    let mut cipher = vec![0; key.key_size_bytes()];
    let cipher = match padding {
        Padding::Oaep => OaepPublicEncryptingKey::new(key).ok()?.encrypt(
            &OAEP_SHA1_MGF1SHA1,
            plaintext.as_bytes(),
            &mut cipher,
            None,
        ),
        Padding::Pkcs1 => Pkcs1PublicEncryptingKey::new(key)
            .ok()?
            .encrypt(plaintext.as_bytes(), &mut cipher),
    };
    Some(BASE64_STANDARD.encode(cipher.ok()?))
}

fn read_pem(path: &Path) -> Result<pem::Pem, String> {
    let text = sys::input_file::read(path).map_err(|error| read_error(path, &error))?;
    pem::parse(text).map_err(|_| format!("{} is not in PEM format", path.display()))
}

fn read_error(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {}", path.display(), sys::describe(error))
}

/// Verifies the logins of clients.
#[derive(Debug)]
pub(crate) struct LoginVerifier {
    oaep: OaepPrivateDecryptingKey,
    pkcs1: Pkcs1PrivateDecryptingKey,
    key_bytes: usize,
    /// User names, each with the SHA-256 of `{name}password` in hexadecimal digits.
    users: HashMap<String, String>,
    skew: Duration,
    /// Hashes of the used tokens, each with its expiry time.
    used_tokens: Mutex<HashMap<[u8; 32], Instant>>,
    attempts: LoginAttempts,
}

impl LoginVerifier {
    /// Reads the key file and the users file of the options.
    ///
    /// Returns `None` if the server does not require logins.
    pub(crate) fn from_settings(settings: &ServerSettings) -> Result<Option<Self>, String> {
        let (Some(key), Some(users)) = (&settings.private_key, &settings.users_file) else {
            return Ok(None);
        };
        let text = sys::input_file::read_text(users);
        let text = text.map_err(|error| read_error(users, &error))?;
        let unusable = || {
            format!(
                "{} contains no usable RSA key of 2048 to 8192 bits",
                key.display()
            )
        };
        let verifier = Self::new(&read_pem(key)?, &text, settings.max_clock_skew);
        verifier.ok_or_else(unusable).map(Some)
    }

    fn new(key: &pem::Pem, users: &str, skew: Duration) -> Option<Self> {
        let der = match key.tag() {
            "RSA PRIVATE KEY" => to_pkcs8(key.contents()),
            _ => key.contents().to_vec(),
        };
        let key = || PrivateDecryptingKey::from_pkcs8(&der).ok();
        let lines = users.lines().filter(|line| !line.starts_with('#'));
        let users = lines.filter_map(|line| line.trim().split_once(','));
        Some(Self {
            key_bytes: key()?.key_size_bytes(),
            oaep: OaepPrivateDecryptingKey::new(key()?).ok()?,
            pkcs1: Pkcs1PrivateDecryptingKey::new(key()?).ok()?,
            users: users
                .map(|(user, digest)| (user.to_owned(), digest.to_ascii_lowercase()))
                .collect(),
            skew,
            used_tokens: Mutex::default(),
            attempts: LoginAttempts::default(),
        })
    }

    /// Checks a client's token; delays the error if the token is invalid, and the next attempts from
    /// the same address.
    pub(crate) fn check(&self, token: &str, from: BudgetHolder, stop: &Stop) -> Result<(), Fault> {
        let mut started = Instant::now();
        let is_valid = || {
            started = Instant::now();
            self.accepts(token, SystemTime::now())
        };
        if self.attempts.check(from, stop, is_valid) == Attempt::Right {
            return Ok(());
        }
        std::thread::sleep(FAILURE_DELAY.saturating_sub(started.elapsed()));
        Err(Fault::from_code(error::AUTHORIZATION))
    }

    /// Returns whether a token has a known user, a current time, and was not used before.
    fn accepts(&self, token: &str, now: SystemTime) -> bool {
        let cipher = BASE64_STANDARD.decode(token).unwrap_or_default();
        let mut buffers = [vec![0; self.key_bytes], vec![0; self.key_bytes]];
        let [oaep_buffer, pkcs1_buffer] = &mut buffers;
        let by_oaep = self
            .oaep
            .decrypt(&OAEP_SHA1_MGF1SHA1, &cipher, oaep_buffer, None);
        let by_pkcs1 = self.pkcs1.decrypt(&cipher, pkcs1_buffer);
        let plaintexts = [by_oaep.ok(), by_pkcs1.ok()];
        // Check both, so that the time does not depend on the padding.
        let are_valid =
            plaintexts.map(|plain| plain.is_some_and(|plain| self.is_valid(plain, now)));
        are_valid.contains(&true) && self.mark_used(token)
    }

    fn is_valid(&self, plaintext: &[u8], now: SystemTime) -> bool {
        let text = String::from_utf8_lossy(plaintext);
        let mut lines = text.lines();
        let mut field = |name: &str| {
            let line = lines.next()?.strip_prefix(name)?;
            Some(line.trim_start().to_owned())
        };
        let (user, password, time) = (field("user:"), field("pwd:"), field("ts:"));
        let (Some(user), Some(password), Some(time)) = (user, password, time) else {
            return false;
        };
        let digest = Sha256::digest(format!("{{{user}}}{password}"));
        let digest = format!("{digest:x}");
        let clock_difference = time
            .parse()
            .map_or(u64::MAX, |time| unix_seconds(now).abs_diff(time));
        self.users.get(&user) == Some(&digest) && clock_difference <= self.skew.as_secs()
    }

    /// Records that a token was used. Returns whether this is its first use.
    fn mark_used(&self, token: &str) -> bool {
        let hash = Sha256::digest(token).into();
        let now = Instant::now();
        let mut used_tokens = self
            .used_tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        used_tokens.retain(|_, expiry| *expiry > now);
        // A token from a clock that is ahead by the skew stays valid for twice the skew.
        used_tokens.len() < MAX_TOKENS && used_tokens.insert(hash, now + 2 * self.skew).is_none()
    }
}

/// Converts a PKCS#1 private key to PKCS#8, both in DER.
fn to_pkcs8(key: &[u8]) -> Vec<u8> {
    const RSA: &[u8] = &[
        0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    ];
    let der_element = |tag: u8, contents: &[u8]| {
        // DER allows two length bytes only for long contents, which every secure key has.
        let length = (contents.len() as u16).to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], contents].concat()
    };
    let version: &[u8] = &[0x02, 0x01, 0x00];
    der_element(0x30, &[version, RSA, &der_element(0x04, key)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys for this test, created by `openssl genrsa` and `openssl rsa -pubout`.
    const PRIVATE: &str = include_str!("login/private.pem");
    const TRADITIONAL: &str = include_str!("login/traditional.pem");
    const PUBLIC: &str = include_str!("login/public.pem");

    fn verifier(key: &str) -> LoginVerifier {
        let digest = Sha256::digest("{mario}rossi");
        let users = format!("# comment\nmario,{digest:x}\n");
        LoginVerifier::new(&pem::parse(key).unwrap(), &users, Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn tokens_need_a_known_user_and_a_current_time_and_work_once() {
        let public = pem::parse(PUBLIC).unwrap();
        let now = SystemTime::now();
        let seconds = unix_seconds(now);
        for key in [PRIVATE, TRADITIONAL] {
            let verifier = verifier(key);
            for padding in [Padding::Oaep, Padding::Pkcs1] {
                let token = |user: &str, password: &str, seconds| {
                    encrypt(
                        public.contents(),
                        &plaintext(user, password, seconds),
                        padding,
                    )
                    .unwrap()
                };
                let token_in_use = token("mario", "rossi", seconds);
                assert!(verifier.accepts(&token_in_use, now), "{padding:?}");
                assert!(!verifier.accepts(&token_in_use, now), "a replay");
                for wrong in [
                    token("mario", "verdi", seconds),
                    token("luigi", "rossi", seconds),
                    token("mario", "rossi", seconds - 11),
                    token("mario", "rossi", seconds + 11),
                    String::new(),
                    "AAAA".to_owned(),
                    "not base64!".to_owned(),
                ] {
                    assert!(!verifier.accepts(&wrong, now));
                }
            }
        }
    }
}
