//! `method=` and `cipher=`: TLS versions and cipher suites of a connection, by OpenSSL's names.

use rustls::crypto::aws_lc_rs::DEFAULT_CIPHER_SUITES;
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureAlgorithm, SupportedCipherSuite, SupportedProtocolVersion};

/// Cipher suites that a connection may negotiate, by preference; never empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CipherSuites(Vec<SupportedCipherSuite>);

type TlsVersion = &'static SupportedProtocolVersion;

/// Returns the invalid one of these profile options, and the reason.
pub(crate) fn find_invalid_option(method: &str, cipher: &str) -> Option<(&'static str, String)> {
    CipherSuites::from_options(method, cipher).err()
}

impl CipherSuites {
    /// Returns the cipher suites that these options allow. An empty option allows all. The error is
    /// the invalid option and the reason.
    pub(super) fn from_options(method: &str, cipher: &str) -> Result<Self, (&'static str, String)> {
        let versions = parse_method(method).map_err(|reason| ("method", reason))?;
        let mut suites = parse_cipher_list(cipher).map_err(|reason| ("cipher", reason))?;
        suites.retain(|suite| versions.contains(&suite.version()));
        if suites.is_empty() {
            let reason = format!("cipher={cipher} and method={method} need different TLS versions");
            return Err(("cipher", reason));
        }
        Ok(Self(suites))
    }

    /// Returns the suites by preference.
    pub(super) fn as_slice(&self) -> &[SupportedCipherSuite] {
        &self.0
    }

    /// Returns the TLS versions of the suites.
    pub(super) fn versions(&self) -> Vec<TlsVersion> {
        let is_used = |version: &TlsVersion| self.0.iter().any(|suite| suite.version() == *version);
        [&TLS13, &TLS12].into_iter().filter(is_used).collect()
    }

    /// Whether the suites work with a certificate that has a key of this type.
    pub(super) fn allows_key(&self, key: SignatureAlgorithm) -> bool {
        let mut suites = self.0.iter();
        suites.any(|suite| suite.usable_for_signature_algorithm(key))
    }
}

/// Parses the name of an OpenSSL method function, in any case, with or without the suffix
/// `_method`.
///
/// A master's message has only four characters of the name. Such a truncated name allows every
/// version; the master's end then determines the version.
fn parse_method(method: &str) -> Result<Vec<TlsVersion>, String> {
    let name = method.to_ascii_lowercase().replace('.', "_");
    match name.strip_suffix("_method").unwrap_or(&name) {
        "" | "tls" | "tlsv" | "sslv" | "sslv23" => Ok(vec![&TLS13, &TLS12]),
        "tlsv1_2" => Ok(vec![&TLS12]),
        "tlsv1_3" => Ok(vec![&TLS13]),
        "sslv2" | "sslv3" | "tlsv1" | "tlsv1_0" | "tlsv1_1" => Err(format!(
            "method={method} is obsolete (RFC 8996) and unsupported; use {METHODS}"
        )),
        _ => Err(format!(
            "method={method} is not a TLS version; use {METHODS}"
        )),
    }
}

const METHODS: &str = "TLSv1_2 or TLSv1_3, or TLS or SSLv23 for any version of both ends";

/// Parses a colon-separated list of OpenSSL's or TLS's names, in any case.
fn parse_cipher_list(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    if list.is_empty() {
        return Ok(DEFAULT_CIPHER_SUITES.to_vec());
    }
    let suite = |name: &str| {
        let has_name = |suite: &&SupportedCipherSuite| {
            let names = [standard_name(suite), openssl_name(suite)];
            names.iter().any(|known| name.eq_ignore_ascii_case(known))
        };
        let found = DEFAULT_CIPHER_SUITES.iter().find(has_name).copied();
        found.ok_or_else(|| {
            let known: Vec<_> = DEFAULT_CIPHER_SUITES.iter().map(openssl_name).collect();
            let known = known.join(", ");
            format!("cipher={name} is unsupported; use {known}")
        })
    };
    list.split(':').map(suite).collect()
}

/// Returns the TLS standard's name of a suite. rustls has other names for those of TLS 1.3.
fn standard_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

/// Returns OpenSSL's name: `ECDHE-RSA-AES256-GCM-SHA384` for
/// `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`.
fn openssl_name(suite: &SupportedCipherSuite) -> String {
    let name = standard_name(suite);
    let Some((exchange, cipher)) = name.split_once("_WITH_") else {
        return name;
    };
    let exchange = exchange.trim_start_matches("TLS_");
    let cipher = cipher.replace("AES_", "AES");
    let cipher = cipher.replace("POLY1305_SHA256", "POLY1305");
    format!("{exchange}_{cipher}").replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_select_tls_versions() {
        let (both, old, new): (&[TlsVersion], &[TlsVersion], &[TlsVersion]) =
            (&[&TLS13, &TLS12], &[&TLS12], &[&TLS13]);
        for (method, versions) in [
            ("", both),
            ("TLS", both),
            ("SSLv23", both),
            ("TLS_method", both),
            // Truncated name in a message.
            ("TLSv", both),
            ("TLSv1_2", old),
            ("tlsv1.2", old),
            ("tlsv1_3", new),
        ] {
            let suites = CipherSuites::from_options(method, "").expect(method);
            assert_eq!(suites.versions(), versions, "{method}");
        }
        for (method, expected) in [
            ("SSLv3", "is obsolete"),
            ("TLSv1", "is obsolete"),
            ("tlsv1_1", "is obsolete"),
            ("DTLS", "is not a TLS version"),
            ("x", "is not a TLS version"),
        ] {
            let (option, reason) = find_invalid_option(method, "").expect(method);
            assert_eq!(option, "method");
            let expected_start = format!("method={method} {expected}");
            assert!(reason.starts_with(&expected_start), "{reason}");
        }
    }

    #[test]
    fn cipher_lists_keep_their_order() {
        let numbers = |cipher| {
            let suites = CipherSuites::from_options("", cipher).expect(cipher);
            let numbers = suites.as_slice().iter().map(|suite| suite.suite().into());
            numbers.collect::<Vec<u16>>()
        };
        assert_eq!(numbers("").len(), 9);
        assert_eq!(numbers("tls_aes_128_gcm_sha256"), [0x1301]);
        assert_eq!(
            numbers("ECDHE-RSA-CHACHA20-POLY1305:TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            [0xCCA8, 0xC02F]
        );
        for cipher in ["AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256:", "HIGH", "!x"] {
            let (option, _) = find_invalid_option("", cipher).expect(cipher);
            assert_eq!(option, "cipher");
        }
        let (_, reason) = find_invalid_option("", "AES128-SHA").expect("unknown");
        let known = "cipher=AES128-SHA is unsupported; use \
            TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256, \
            ECDHE-ECDSA-AES256-GCM-SHA384, ECDHE-ECDSA-AES128-GCM-SHA256, \
            ECDHE-ECDSA-CHACHA20-POLY1305, \
            ECDHE-RSA-AES256-GCM-SHA384, ECDHE-RSA-AES128-GCM-SHA256, ECDHE-RSA-CHACHA20-POLY1305";
        assert_eq!(reason, known);
    }

    #[test]
    fn methods_and_ciphers_must_match() {
        let [rsa, ecdsa] = [SignatureAlgorithm::RSA, SignatureAlgorithm::ECDSA];
        let suite = "ECDHE-RSA-AES128-GCM-SHA256";
        let wrong = find_invalid_option("TLSv1_3", suite);
        assert_eq!(wrong.map(|(option, _)| option), Some("cipher"));
        let suites = CipherSuites::from_options("TLSv1_2", suite).expect("one");
        assert!(suites.allows_key(rsa) && !suites.allows_key(ecdsa));
        let any = CipherSuites::from_options("", "").expect("all");
        assert!(any.allows_key(rsa) && any.allows_key(ecdsa));
    }
}
