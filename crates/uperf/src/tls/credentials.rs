//! Certificates and keys, from PEM files.

use std::fmt;
use std::fs;
use std::path::Path;

use pem::Pem;
use pkcs8::EncryptedPrivateKeyInfo;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::Trouble;
use super::reason::{describe, of_certificate};

/// The pass phrase of the files that uperf comes with.
pub(super) const STOCK_PASS_PHRASE: &[u8] = b"password";

/// The certificate of one file, and those that it was signed with, and the key of another, which may
/// be the same.
pub(super) fn read(
    certificate: &Path,
    key: &Path,
    pass_phrase: &[u8],
) -> Result<CertifiedKey, Trouble> {
    let chain = certificates(certificate)?;
    let file = key;
    let content = |why: String| Trouble::content(file, why);
    let sections = sections(key)?;
    let section = sections
        .iter()
        .find(|section| section.tag().ends_with("PRIVATE KEY"))
        .ok_or_else(|| content("no private key in it".to_owned()))?;
    let key = private_key(section, pass_phrase, key).map_err(&content)?;
    let key = default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| content(format!("the key is of no use: {}", describe(&error))))?;
    let both = CertifiedKey::new(chain, key);
    if both.keys_match() == Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) {
        let why = format!("the key is not that of {}", certificate.display());
        return Err(content(why));
    }
    Ok(both)
}

/// The authorities of a file.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, Trouble> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            let why = match &error {
                Error::InvalidCertificate(why) => of_certificate(why),
                other => describe(other),
            };
            Trouble::content(path, format!("a certificate of no use: {why}"))
        })?;
    }
    Ok(roots)
}

/// The first line of a file.
pub(super) fn pass_phrase(path: &Path) -> Result<Vec<u8>, Trouble> {
    let mut bytes = contents(path)?;
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    bytes.truncate(end.unwrap_or(bytes.len()));
    Ok(bytes)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    let sections = sections(path)?.into_iter();
    let chain: Vec<_> = sections
        .filter(|section| section.tag() == "CERTIFICATE")
        .map(|section| CertificateDer::from(section.into_contents()))
        .collect();
    if chain.is_empty() {
        return Err(Trouble::content(path, "no certificate in it"));
    }
    Ok(chain)
}

fn sections(path: &Path) -> Result<Vec<Pem>, Trouble> {
    pem::parse_many(contents(path)?)
        .map_err(|error| Trouble::content(path, format!("not PEM: {error}")))
}

fn contents(path: &Path) -> Result<Vec<u8>, Trouble> {
    fs::read(path).map_err(|error| Trouble::File {
        path: path.to_owned(),
        error,
    })
}

fn private_key(
    section: &Pem,
    pass_phrase: &[u8],
    path: &Path,
) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = || section.contents().to_vec();
    if section.headers().get("Proc-Type").is_some() {
        return Err(format!(
            "a key encrypted in OpenSSL's old way; openssl pkcs8 -topk8 -in {} writes it anew",
            path.display()
        ));
    }
    match section.tag() {
        "PRIVATE KEY" => Ok(PrivatePkcs8KeyDer::from(bytes()).into()),
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(bytes()).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(bytes()).into()),
        "ENCRYPTED PRIVATE KEY" => {
            let key = decrypted(section.contents(), pass_phrase, path)?;
            Ok(PrivatePkcs8KeyDer::from(key).into())
        }
        other => Err(format!("a key of the unknown kind {other}")),
    }
}

fn decrypted(bytes: &[u8], pass_phrase: &[u8], path: &Path) -> Result<Vec<u8>, String> {
    let unknown = |why: &dyn fmt::Display| {
        let path = path.display();
        format!(
            "a key encrypted in a way of the past ({why}); openssl pkcs8 -topk8 -v2 aes256 -in {path} \
             writes it anew"
        )
    };
    let key = EncryptedPrivateKeyInfo::try_from(bytes).map_err(|error| unknown(&error))?;
    if key.encryption_algorithm.pbes1().is_some() {
        return Err(unknown(&"PBES1"));
    }
    let plain = key
        .encryption_algorithm
        .decrypt(pass_phrase, key.encrypted_data);
    plain.map_err(|error| {
        format!("the key cannot be decrypted: is the pass phrase right? ({error})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::file;

    fn tried(certificate: &str, key: &str, pass_phrase: &[u8]) -> Result<(), String> {
        let (certificate, key) = (file(certificate), file(key));
        let both = read(&certificate, &key, pass_phrase);
        both.map(drop).map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn keys_come_in_many_forms() {
        for (certificate, key) in [
            // A key in PKCS #8, encrypted with AES or, as it once was, with 3DES.
            ("server.pem", "server.pem"),
            ("server.pem", "des3.pem"),
            // X.509 version 1, and a key in SEC 1.
            ("version-1.pem", "version-1.pem"),
        ] {
            let tried = tried(certificate, key, STOCK_PASS_PHRASE);
            assert_eq!(tried, Ok(()), "{certificate} {key}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        // Certificate, key and pass phrase, and what is said.
        for line in [
            "server.pem server.pem pass server.pem: the key cannot be decrypted: is",
            "server.pem version-1.pem - version-1.pem: the key is not that of ",
            "server.pem authority.pem - authority.pem: no private key in it",
            "des3.pem des3.pem - des3.pem: no certificate in it",
            "README.md server.pem - README.md: no certificate in it",
            "none.pem server.pem - none.pem: No such file or directory",
            "server.pem traditional.pem password openssl pkcs8 -topk8 -in ",
            "server.pem pkcs12.pem password openssl pkcs8 -topk8 -v2 aes256 -in ",
        ] {
            let [certificate, key, pass_phrase, expected] =
                line.splitn(4, ' ').collect::<Vec<_>>()[..]
            else {
                panic!("{line}");
            };
            let why = tried(certificate, key, pass_phrase.as_bytes()).expect_err(key);
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_pass_phrase_is_a_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("phrase");
        for (text, phrase) in [("a b\nc", "a b"), ("a\r\n", "a"), ("a", "a"), ("", "")] {
            fs::write(&path, text).expect("it is ours");
            let read = pass_phrase(&path).expect("a file");
            assert_eq!(read, phrase.as_bytes(), "{text:?}");
        }
    }
}
