//! Logins: a token with which a client says who it is, encrypted with the server's RSA key.
//!
//! A server answers every failed login alike and after the same time, so that neither shows how far a token was right.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::options::{Client, Server};
use crate::unix;
use crate::wire::Parameters;
use crate::wire::error::{self, Fault};

/// When a failed login is answered.
const ANSWER: Duration = Duration::from_millis(500);

/// Tokens that are remembered at a time; more logins within the skew are refused.
const MOST_TOKENS: usize = 100_000;

/// How a token is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Of 3.17 and later.
    Oaep,
    /// PKCS#1 v1.5, of 3.16 and before.
    Old,
}

/// The token that the client's options ask for.
pub(crate) fn token(client: &Client, padding: Padding) -> Result<Option<String>, Fault> {
    let (Some(user), Some(path)) = (&client.user, &client.public_key) else {
        return Ok(None);
    };
    let fault = |why: String| Fault::because(error::AUTHORIZATION, why);
    let password = std::env::var("IPERF3_PASSWORD");
    let password =
        password.map_err(|_| fault("IPERF3_PASSWORD is not in the environment".to_owned()))?;
    let key = pem_of(path).map_err(fault)?;
    let now = unix(SystemTime::now());
    let token = encrypt(key.contents(), &plain(user, &password, now), padding);
    let unusable = || fault(format!("{} holds no usable RSA key", path.display()));
    token.map(Some).ok_or_else(unusable)
}

fn plain(user: &str, password: &str, seconds: u64) -> String {
    format!("user: {user}\npwd:  {password}\nts:   {seconds}")
}

fn encrypt(public_key: &[u8], plain: &str, padding: Padding) -> Option<String> {
    let key = PublicEncryptingKey::from_der(public_key).ok()?;
    let mut cipher = vec![0; key.key_size_bytes()];
    let cipher = match padding {
        Padding::Oaep => OaepPublicEncryptingKey::new(key).ok()?.encrypt(
            &OAEP_SHA1_MGF1SHA1,
            plain.as_bytes(),
            &mut cipher,
            None,
        ),
        Padding::Old => Pkcs1PublicEncryptingKey::new(key)
            .ok()?
            .encrypt(plain.as_bytes(), &mut cipher),
    };
    Some(BASE64_STANDARD.encode(cipher.ok()?))
}

fn pem_of(path: &Path) -> Result<pem::Pem, String> {
    let text = fs::read(path)
        .map_err(|error| format!("cannot read {}: {}", path.display(), sys::describe(&error)))?;
    pem::parse(text).map_err(|_| format!("{} is not PEM", path.display()))
}

/// The logins that a server accepts.
#[derive(Debug)]
pub(crate) struct Guard {
    oaep: OaepPrivateDecryptingKey,
    old: Pkcs1PrivateDecryptingKey,
    key_bytes: usize,
    /// Names, and the SHA-256 of `{name}password` in hexadecimal digits.
    users: HashMap<String, String>,
    skew: Duration,
    /// Hashes of the tokens that were used, each until its time is over.
    used: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Guard {
    /// Reads the key and the users that the options name; `None` of a server that serves everybody.
    pub(crate) fn of(settings: &Server) -> Result<Option<Self>, String> {
        let (Some(key), Some(users)) = (&settings.private_key, &settings.users) else {
            return Ok(None);
        };
        let text = fs::read_to_string(users);
        let text = text.map_err(|error| {
            format!("cannot read {}: {}", users.display(), sys::describe(&error))
        })?;
        let unusable = || format!("{} holds no usable RSA key", key.display());
        let guard = Self::new(&pem_of(key)?, &text, settings.skew);
        guard.ok_or_else(unusable).map(Some)
    }

    fn new(key: &pem::Pem, users: &str, skew: Duration) -> Option<Self> {
        let der = match key.tag() {
            "RSA PRIVATE KEY" => wrapped(key.contents()),
            _ => key.contents().to_vec(),
        };
        let key = || PrivateDecryptingKey::from_pkcs8(&der).ok();
        let lines = users.lines().filter(|line| !line.starts_with('#'));
        let users = lines.filter_map(|line| line.trim().split_once(','));
        Some(Self {
            key_bytes: key()?.key_size_bytes(),
            oaep: OaepPrivateDecryptingKey::new(key()?).ok()?,
            old: Pkcs1PrivateDecryptingKey::new(key()?).ok()?,
            users: users
                .map(|(user, digest)| (user.to_owned(), digest.to_ascii_lowercase()))
                .collect(),
            skew,
            used: Mutex::default(),
        })
    }

    /// Checks a client's token.
    pub(crate) fn check(&self, parameters: &Parameters) -> Result<(), Fault> {
        let begun = Instant::now();
        let token = parameters.token.as_deref().unwrap_or_default();
        if self.admits(token, SystemTime::now()) {
            return Ok(());
        }
        std::thread::sleep(ANSWER.saturating_sub(begun.elapsed()));
        Err(Fault::of(error::AUTHORIZATION))
    }

    /// Whether a token is of a known user, of this time, and new.
    fn admits(&self, token: &str, now: SystemTime) -> bool {
        let cipher = BASE64_STANDARD.decode(token).unwrap_or_default();
        let mut room = [vec![0; self.key_bytes], vec![0; self.key_bytes]];
        let [first, second] = &mut room;
        let by_oaep = self.oaep.decrypt(&OAEP_SHA1_MGF1SHA1, &cipher, first, None);
        let by_old = self.old.decrypt(&cipher, second);
        let plains = [by_oaep.ok(), by_old.ok()];
        // All are looked at, whichever is right.
        let right = plains.map(|plain| plain.is_some_and(|plain| self.is_right(plain, now)));
        right.contains(&true) && self.is_new(token)
    }

    fn is_right(&self, plain: &[u8], now: SystemTime) -> bool {
        let text = String::from_utf8_lossy(plain);
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
        let off = time
            .parse()
            .map_or(u64::MAX, |time| unix(now).abs_diff(time));
        self.users.get(&user) == Some(&digest) && off <= self.skew.as_secs()
    }

    fn is_new(&self, token: &str) -> bool {
        let hash = Sha256::digest(token).into();
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, until| *until > now);
        // A clock that is ahead by the skew lets a token be right for twice as long.
        used.len() < MOST_TOKENS && used.insert(hash, now + 2 * self.skew).is_none()
    }
}

/// A traditional key in the form of PKCS#8.
fn wrapped(key: &[u8]) -> Vec<u8> {
    const RSA: &[u8] = &[
        0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    ];
    let part = |tag: u8, contents: &[u8]| {
        // Lengths in two bytes are longer than they must be only for keys that are too short.
        let length = (contents.len() as u16).to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], contents].concat()
    };
    let version: &[u8] = &[0x02, 0x01, 0x00];
    part(0x30, &[version, RSA, &part(0x04, key)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made for this test by `openssl genrsa`, and `openssl rsa -pubout`.
    const PRIVATE: &str = include_str!("login/private.pem");
    const TRADITIONAL: &str = include_str!("login/traditional.pem");
    const PUBLIC: &str = include_str!("login/public.pem");

    fn guard(key: &str) -> Guard {
        let digest = Sha256::digest("{mario}rossi");
        let users = format!("# comment\nmario,{digest:x}\n");
        Guard::new(&pem::parse(key).unwrap(), &users, Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn tokens_are_of_known_users_of_now_and_new() {
        let public = pem::parse(PUBLIC).unwrap();
        let now = SystemTime::now();
        let seconds = unix(now);
        for key in [PRIVATE, TRADITIONAL] {
            let guard = guard(key);
            for padding in [Padding::Oaep, Padding::Old] {
                let token = |user: &str, password: &str, seconds| {
                    encrypt(public.contents(), &plain(user, password, seconds), padding).unwrap()
                };
                let right = token("mario", "rossi", seconds);
                assert!(guard.admits(&right, now), "{padding:?}");
                assert!(!guard.admits(&right, now), "a replay");
                for wrong in [
                    token("mario", "verdi", seconds),
                    token("luigi", "rossi", seconds),
                    token("mario", "rossi", seconds - 11),
                    token("mario", "rossi", seconds + 11),
                    String::new(),
                    "AAAA".to_owned(),
                    "not base64!".to_owned(),
                ] {
                    assert!(!guard.admits(&wrong, now));
                }
            }
        }
    }
}
