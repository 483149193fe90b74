//! Certificates and keys from PEM files.

use std::fmt;
use std::path::Path;

use pem::Pem;
use pkcs8::EncryptedPrivateKeyInfo;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::TlsError;
use super::error_text::{describe, describe_certificate_error};

/// Pass phrase of the certificate files in uperf's distribution.
pub(super) const STOCK_PASS_PHRASE: &[u8] = b"password";

/// Reads the certificate chain from one file and the private key from another, which may be the
/// same file.
pub(super) fn read_certified_key(
    certificate: &Path,
    key_path: &Path,
    pass_phrase: &[u8],
) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(certificate)?;
    let invalid = |reason: String| TlsError::invalid_content(key_path, reason);
    let sections = read_sections(key_path)?;
    let section = sections
        .iter()
        .find(|section| section.tag().ends_with("PRIVATE KEY"))
        .ok_or_else(|| invalid("it contains no private key".to_owned()))?;
    let key = decode_private_key(section, pass_phrase, key_path).map_err(&invalid)?;
    let key = default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| invalid(format!("unusable private key: {}", describe(&error))))?;
    let certified = CertifiedKey::new(chain, key);
    if certified.keys_match() == Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) {
        let reason = format!("the private key does not match {}", certificate.display());
        return Err(invalid(reason));
    }
    Ok(certified)
}

/// Reads the authorities from a file.
pub(super) fn read_authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| {
            let reason = match &error {
                Error::InvalidCertificate(error) => describe_certificate_error(error),
                other => describe(other),
            };
            TlsError::invalid_content(path, format!("unusable certificate: {reason}"))
        })?;
    }
    Ok(roots)
}

/// Reads a pass phrase: the first line of a file.
pub(super) fn read_pass_phrase(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = read_file(path)?;
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    bytes.truncate(end.unwrap_or(bytes.len()));
    Ok(bytes)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let sections = read_sections(path)?.into_iter();
    let chain: Vec<_> = sections
        .filter(|section| section.tag() == "CERTIFICATE")
        .map(|section| CertificateDer::from(section.into_contents()))
        .collect();
    if chain.is_empty() {
        return Err(TlsError::invalid_content(
            path,
            "it contains no certificate",
        ));
    }
    Ok(chain)
}

fn read_sections(path: &Path) -> Result<Vec<Pem>, TlsError> {
    pem::parse_many(read_file(path)?)
        .map_err(|error| TlsError::invalid_content(path, format!("not PEM: {error}")))
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    sys::input_file::read(path).map_err(|error| TlsError::File {
        path: path.to_owned(),
        error,
    })
}

fn decode_private_key(
    section: &Pem,
    pass_phrase: &[u8],
    path: &Path,
) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = || section.contents().to_vec();
    if section.headers().get("Proc-Type").is_some() {
        return Err(format!(
            "the private key has OpenSSL's legacy encryption; convert it with: \
             openssl pkcs8 -topk8 -in {}",
            path.display()
        ));
    }
    match section.tag() {
        "PRIVATE KEY" => Ok(PrivatePkcs8KeyDer::from(bytes()).into()),
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(bytes()).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(bytes()).into()),
        "ENCRYPTED PRIVATE KEY" => {
            let key = decrypt_key(section.contents(), pass_phrase, path)?;
            Ok(PrivatePkcs8KeyDer::from(key).into())
        }
        other => Err(format!("unknown key type {other}")),
    }
}

fn decrypt_key(bytes: &[u8], pass_phrase: &[u8], path: &Path) -> Result<Vec<u8>, String> {
    let unsupported = |reason: &dyn fmt::Display| {
        let path = path.display();
        format!(
            "unsupported encryption of the private key ({reason}); convert it with: \
             openssl pkcs8 -topk8 -v2 aes256 -in {path}"
        )
    };
    let key = EncryptedPrivateKeyInfo::try_from(bytes).map_err(|error| unsupported(&error))?;
    if key.encryption_algorithm.pbes1().is_some() {
        return Err(unsupported(&"PBES1"));
    }
    let decrypted = key
        .encryption_algorithm
        .decrypt(pass_phrase, key.encrypted_data);
    decrypted.map_err(|error| {
        format!("the key cannot be decrypted: is the pass phrase right? ({error})")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tls::tests::certificate_file;

    fn try_read(certificate: &str, key: &str, pass_phrase: &[u8]) -> Result<(), String> {
        let (certificate, key) = (certificate_file(certificate), certificate_file(key));
        let certified = read_certified_key(&certificate, &key, pass_phrase);
        certified.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_come_in_many_forms() {
        for (certificate, key) in [
            // A key in PKCS #8, encrypted with AES or 3DES.
            ("server.pem", "server.pem"),
            ("server.pem", "des3.pem"),
            // X.509 version 1, and a key in SEC 1.
            ("version-1.pem", "version-1.pem"),
        ] {
            let result = try_read(certificate, key, STOCK_PASS_PHRASE);
            assert_eq!(result, Ok(()), "{certificate} {key}");
        }
    }

    #[test]
    fn file_errors_are_described() {
        // Certificate, key, pass phrase and expected text.
        for line in [
            "server.pem server.pem pass server.pem: the key cannot be decrypted: is",
            "server.pem version-1.pem - version-1.pem: the private key does not match ",
            "server.pem authority.pem - authority.pem: it contains no private key",
            "des3.pem des3.pem - des3.pem: it contains no certificate",
            "README.md server.pem - README.md: it contains no certificate",
            "none.pem server.pem - none.pem: No such file or directory",
            "server.pem traditional.pem password openssl pkcs8 -topk8 -in ",
            "server.pem pkcs12.pem password openssl pkcs8 -topk8 -v2 aes256 -in ",
        ] {
            let [certificate, key, pass_phrase, expected] =
                line.splitn(4, ' ').collect::<Vec<_>>()[..]
            else {
                panic!("{line}");
            };
            let reason = try_read(certificate, key, pass_phrase.as_bytes()).expect_err(key);
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn a_pass_phrase_is_the_first_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("phrase");
        for (text, phrase) in [("a b\nc", "a b"), ("a\r\n", "a"), ("a", "a"), ("", "")] {
            fs::write(&path, text).expect("it is ours");
            let read = read_pass_phrase(&path).expect("a file");
            assert_eq!(read, phrase.as_bytes(), "{text:?}");
        }
    }
}
