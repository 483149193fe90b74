//! `method=` and `cipher=`: which TLS a connection may speak, in OpenSSL's words.

use rustls::crypto::aws_lc_rs::DEFAULT_CIPHER_SUITES;
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureAlgorithm, SupportedCipherSuite, SupportedProtocolVersion};

/// The cipher suites that a connection may come to, the most wanted first; never none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice(Vec<SupportedCipherSuite>);

type Version = &'static SupportedProtocolVersion;

/// Why these options of a profile cannot be: which of them, and the reason.
pub(crate) fn objection(method: &str, cipher: &str) -> Option<(&'static str, String)> {
    Choice::of(method, cipher).err()
}

impl Choice {
    /// What these options leave; empty ones leave everything. The error is the option that cannot be, and why.
    pub(super) fn of(method: &str, cipher: &str) -> Result<Self, (&'static str, String)> {
        let versions = versions(method).map_err(|why| ("method", why))?;
        let mut suites = suites(cipher).map_err(|why| ("cipher", why))?;
        suites.retain(|suite| versions.contains(&suite.version()));
        if suites.is_empty() {
            let why = format!("cipher={cipher} is of another version than method={method}");
            return Err(("cipher", why));
        }
        Ok(Self(suites))
    }

    /// The suites.
    pub(super) fn suites(&self) -> &[SupportedCipherSuite] {
        &self.0
    }

    /// The versions of TLS among them.
    pub(super) fn versions(&self) -> Vec<Version> {
        let has = |version: &Version| self.0.iter().any(|suite| suite.version() == *version);
        [&TLS13, &TLS12].into_iter().filter(has).collect()
    }

    /// Whether a certificate with such a key will do.
    pub(super) fn takes(&self, key: SignatureAlgorithm) -> bool {
        let mut suites = self.0.iter();
        suites.any(|suite| suite.usable_for_signature_algorithm(key))
    }
}

/// A name as OpenSSL's functions have it, in any case and with or without their `_method`. A master's
/// message has room for four characters of it, which is every version; the other end, which is the
/// master's, settles it.
fn versions(method: &str) -> Result<Vec<Version>, String> {
    let name = method.to_ascii_lowercase().replace('.', "_");
    match name.strip_suffix("_method").unwrap_or(&name) {
        "" | "tls" | "tlsv" | "sslv" | "sslv23" => Ok(vec![&TLS13, &TLS12]),
        "tlsv1_2" => Ok(vec![&TLS12]),
        "tlsv1_3" => Ok(vec![&TLS13]),
        "sslv2" | "sslv3" | "tlsv1" | "tlsv1_0" | "tlsv1_1" => Err(format!(
            "method={method} is given up (RFC 8996), and linerate has it not; there are {METHODS}"
        )),
        _ => Err(format!(
            "method={method} is no version of TLS; there are {METHODS}"
        )),
    }
}

const METHODS: &str = "TLSv1_2, TLSv1_3, and TLS or SSLv23 for whichever both ends have";

/// OpenSSL's names or those of TLS with colons between them, in any case.
fn suites(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    if list.is_empty() {
        return Ok(DEFAULT_CIPHER_SUITES.to_vec());
    }
    let suite = |name: &str| {
        let is_it = |suite: &&SupportedCipherSuite| {
            let names = [standard_name(suite), openssl_name(suite)];
            names.iter().any(|known| name.eq_ignore_ascii_case(known))
        };
        let found = DEFAULT_CIPHER_SUITES.iter().find(is_it).copied();
        found.ok_or_else(|| {
            let known: Vec<_> = DEFAULT_CIPHER_SUITES.iter().map(openssl_name).collect();
            let known = known.join(", ");
            format!("cipher={name}: linerate has no cipher of this name; there are {known}")
        })
    };
    list.split(':').map(suite).collect()
}

/// The name that TLS has for a suite; rustls has others for those of TLS 1.3.
fn standard_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

/// OpenSSL's name: `ECDHE-RSA-AES256-GCM-SHA384` for `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`.
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
    fn methods_are_versions() {
        let (both, old, new): (&[Version], &[Version], &[Version]) =
            (&[&TLS13, &TLS12], &[&TLS12], &[&TLS13]);
        for (method, versions) in [
            ("", both),
            ("TLS", both),
            ("SSLv23", both),
            ("TLS_method", both),
            // What a message leaves of a name.
            ("TLSv", both),
            ("TLSv1_2", old),
            ("tlsv1.2", old),
            ("tlsv1_3", new),
        ] {
            let choice = Choice::of(method, "").expect(method);
            assert_eq!(choice.versions(), versions, "{method}");
        }
        for (method, why) in [
            ("SSLv3", "is given up"),
            ("TLSv1", "is given up"),
            ("tlsv1_1", "is given up"),
            ("DTLS", "is no version of TLS"),
            ("x", "is no version of TLS"),
        ] {
            let (option, said) = objection(method, "").expect(method);
            assert_eq!(option, "method");
            let begins = format!("method={method} {why}");
            assert!(said.starts_with(&begins), "{said}");
        }
    }

    #[test]
    fn ciphers_are_suites_in_their_order() {
        let numbers = |cipher| {
            let choice = Choice::of("", cipher).expect(cipher);
            let numbers = choice.suites().iter().map(|suite| suite.suite().into());
            numbers.collect::<Vec<u16>>()
        };
        assert_eq!(numbers("").len(), 9);
        assert_eq!(numbers("tls_aes_128_gcm_sha256"), [0x1301]);
        assert_eq!(
            numbers("ECDHE-RSA-CHACHA20-POLY1305:TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            [0xCCA8, 0xC02F]
        );
        for cipher in ["AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256:", "HIGH", "!x"] {
            let (option, _) = objection("", cipher).expect(cipher);
            assert_eq!(option, "cipher");
        }
        let (_, why) = objection("", "AES128-SHA").expect("unknown");
        let known = "cipher=AES128-SHA: linerate has no cipher of this name; there are \
            TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256, \
            ECDHE-ECDSA-AES256-GCM-SHA384, ECDHE-ECDSA-AES128-GCM-SHA256, ECDHE-ECDSA-CHACHA20-POLY1305, \
            ECDHE-RSA-AES256-GCM-SHA384, ECDHE-RSA-AES128-GCM-SHA256, ECDHE-RSA-CHACHA20-POLY1305";
        assert_eq!(why, known);
    }

    #[test]
    fn both_together_leave_something() {
        let [rsa, ecdsa] = [SignatureAlgorithm::RSA, SignatureAlgorithm::ECDSA];
        let suite = "ECDHE-RSA-AES128-GCM-SHA256";
        let wrong = objection("TLSv1_3", suite);
        assert_eq!(wrong.map(|(option, _)| option), Some("cipher"));
        let choice = Choice::of("TLSv1_2", suite).expect("one");
        assert!(choice.takes(rsa) && !choice.takes(ecdsa));
        let any = Choice::of("", "").expect("all");
        assert!(any.takes(rsa) && any.takes(ecdsa));
    }
}
